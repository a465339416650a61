//! The two readers agree: what the direct one reads, the careful one reads as the same.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::direct;
use super::limits::MAX_DEPTH;
use super::parse::{MAX_NODES, carefully};
use super::roundtrip::object;
use super::{join, parse_documents, parse_lenient, parse_value};
use crate::manifest::Error;

fn careful(text: &str) -> Result<Vec<Value>, Error> {
    carefully(text, "t.yaml", DuplicateKeyPolicy::Error, MAX_NODES)
}

/// What the direct reader makes of a text, if it reads it.
#[track_caller]
fn agreed(text: &str) -> Option<Vec<Value>> {
    let direct = direct::read(text, MAX_NODES)?;
    // As text, because -0.0 equals 0.0.
    let careful = careful(text).map(|documents| format!("{documents:?}"));
    assert_eq!(Ok(format!("{direct:?}")), careful, "{text}");
    let lenient = carefully(text, "t.yaml", DuplicateKeyPolicy::LastWins, MAX_NODES);
    assert_eq!(lenient.as_ref(), Ok(&direct), "{text}");
    Some(direct)
}

/// Texts of scalars that readers of YAML take for different things, and neighbours of them.
const SCALARS: &str = "~ null Null NULL nULL nul true True TRUE tRuE false False FALSE yes Yes YES no No NO y Y n N \
    on On ON off Off OFF of o t f ye yess truee 0 -0 +0 00 -00 007 -007 08 -08 089 0644 0_644 06_44 0__644 0644_ 0_ \
    0o14 0O14 0o18 0o 0o_7 -0o14 +0o14 0x 0x1F 0X1f 0xG 0x_1 0x__1 0x1_ -0x1F +0x1F 0b101 0B1 0b2 0b 0b_1 -0b11 1 -1 \
    +1 --1 +-1 -+1 ++1 1_000 1__000 1_ _1 -_1 +_1 1_000.5 1_0e1 9007199254740993 9223372036854775807 \
    9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 \
    +18446744073709551615 0xFFFFFFFFFFFFFFFF 0x10000000000000000 -0x8000000000000000 -0x8000000000000001 \
    0777777777777777777777 02777777777777777777777 340282366920938463463374607431768211456 1.0 1.10 1. .5 -.5 +.5 . .. \
    ... .5. 1.5.2 -0.0 0.0 00.5 01.5 1e3 1E3 1e+3 1e-3 1.5e3 .5e1 1e 1e+ e1 1e400 -1e400 1e-400 1e999 0e0 0x1e3 0x1p3 \
    1f 1d 5Gi 100m 10% 1:30 12:30 12:30:45 1:2 2024-01-01 2024-01-01T00:00:00Z v1 1.2.3 10.0.0.1 10.0.0.0/8 ::1 \
    .inf .Inf .INF -.inf +.inf .iNf .infinity inf +inf -inf Inf infinity -Infinity nan NaN +nan -nan .nan .NaN .NAN \
    -.nan .Nan = << - -- --- -a - a ? : :a a: a:b a#b a_b @a `a %a !a !!str &a *a | > [] {} [a] {a} , \u{a0}1 1\u{a0} \
    １ ٣ é \u{feff}1 1\u{85} \u{7f} \u{1F600} 'a' 'yes' \"0644\" '' \"\" \"\\x41\" \"\\u263a\" 'a''b' !!str\u{20}5";

#[test]
fn scalars_mean_the_same() {
    let mut read = 0;
    for scalar in
        SCALARS.split(' ').chain(["", " ", "\t1", "1 ", "1\t", " yes # c", "a b", "1 2", "- 1", "!!int 5"])
    {
        for text in [
            scalar.to_owned(),
            format!("a: {scalar}"),
            format!("a: {scalar} # comment\n"),
            format!("- {scalar}\n-\n- {scalar}\n"),
            format!("{{a: {scalar}, b: [{scalar}]}}"),
            format!("{scalar}: a\n"),
            format!("? {scalar}\n: {scalar}\n"),
            format!("\"{scalar}\": '{scalar}'\n"),
            format!("a: |\n  {scalar}\nb: >-\n  {scalar}\n"),
            format!("a: {scalar}\n  {scalar}\nb: 1"),
        ] {
            read += usize::from(agreed(&text).is_some());
            assert_eq!(parse_value(&text, "t.yaml"), carefully_one(&text), "{text}");
        }
    }
    assert!(read > 1500, "{read} are read directly");
}

fn carefully_one(text: &str) -> Result<Value, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = careful(text)?;
    if documents.len() > 1 {
        // The message is of the caller of both readers.
        return parse_value(text, "t.yaml");
    }
    Ok(documents.pop().unwrap_or_default())
}

fn deep(depth: usize) -> String {
    format!("{}1{}", "[".repeat(depth), "]".repeat(depth))
}

fn block(depth: usize) -> String {
    (0..depth).map(|i| format!("{}a:\n", " ".repeat(i))).collect()
}

#[test]
fn structures_are_the_same() {
    let direct = [
        "",
        "# only a comment",
        "---\n---\n",
        "---\n# a\n---\na: 1\n...\n# b\n---\nnull\n---\n''\n",
        "%YAML 1.1\n---\na: yes\n",
        "a: 1\r\nb:\r\n- x\r\n",
        "a:\n- b: 1\n  c: 2\n-\n  - d\n- - e\n  - f\n",
        "a: |\n  x\n\n   y\n\nb: |+\n  z\n\nc: >\n  one\n  two\n\n  three\n   four\nd: |2-\n   x\n",
        "a: one\n  two\n\n  three\nb: \"one\n  two \\\n  three\"\nc: 'one\n\n  two'\n",
        "{a: {b: [1, 2, {c: d}]}, e: [], f: {}, g: , h}",
        "[a: b, {c: d}, [e]]",
        "\"<<\": 1\n'': 2\n\"null\": 3\n\"1\": 4\n",
        "a:b: c\n",
        "? a\n: b\n? |\n  c\n: d\n",
        &deep(MAX_DEPTH),
        &block(MAX_DEPTH),
    ];
    for text in direct {
        assert!(agreed(text).is_some(), "{text}");
    }
}

#[test]
fn what_only_the_careful_reader_reads_is_left_to_it() {
    let careful_only = [
        "a: &x 1\n",
        "a: &x 1\nb: *x\n",
        "&x a: 1\n",
        "a: &x {b: 1}\nc: {<<: *x}\n",
        "<<: {a: 1}\n",
        "a: !!str 5\n",
        "a: !x 5\n",
        "a: !!map {}\n",
        "!!str a: 1\n",
        "a: !!binary aGVsbG8=\n",
        "a: 1\na: 2\n",
        "{a: 1, \"a\": 2}",
        "1: a\n0x1: b\n",
        "1: a\n\"1\": b\n",
        "0644: a\n420: b\n",
        "~: a\n",
        ": a\n",
        "? {a: 1}\n: b\n",
        "? [a]\n: b\n",
        "a: .inf\n",
        "a: 1e400\n",
        "a: [1\n",
        "a: 1\n b: 2\n",
        "a: \"\\q\"\n",
        "a:\n\tb: 1\n",
        "a: b: c\n",
        "a: *x\n",
        "a: \u{1}\n",
        "%YAML 3.0\n---\na\n",
        "%TAG ! tag:x,2000:\n---\na: !b c\n",
        &deep(MAX_DEPTH + 1),
        &block(MAX_DEPTH + 1),
        &format!("{}: 1", "k".repeat(1025)),
    ];
    for text in careful_only {
        assert_eq!(direct::read(text, MAX_NODES), None, "{text}");
        let expected = careful(text);
        assert_eq!(
            parse_value(text, "t.yaml"),
            expected.map(|mut one| one.pop().unwrap_or_default()),
            "{text}"
        );
    }
}

#[test]
fn limits_are_the_same() {
    for (text, nodes) in [("[1, 2, 3]", 4), ("{a: 1, b: [c]}", 6), ("a\n---\n---\nb: c\n", 5)] {
        assert!(direct::read(text, nodes).is_some(), "{text}");
        assert!(carefully(text, "t", DuplicateKeyPolicy::Error, nodes).is_ok(), "{text}");
        assert_eq!(direct::read(text, nodes - 1), None, "{text}");
        assert!(carefully(text, "t", DuplicateKeyPolicy::Error, nodes - 1).is_err(), "{text}");
    }
    for (documents, fits) in [(10_000, true), (10_001, false)] {
        let text = "---\na\n".repeat(documents);
        assert_eq!(direct::read(&text, MAX_NODES).is_some(), fits);
        assert_eq!(careful(&text).is_ok(), fits);
    }
}

/// All YAML of this repository: packs with templates in them, definitions, charts, what fuzzing began with.
#[test]
#[allow(clippy::disallowed_methods)]
fn files_are_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut todo: Vec<PathBuf> =
        ["tests", "crds", "charts", "config", "fuzz/corpus"].iter().map(|folder| root.join(folder)).collect();
    let (mut seen, mut read) = (0, 0);
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            seen += 1;
            read += usize::from(agreed(&text).is_some());
            if let Err(expected) = careful(&text) {
                assert_eq!(parse_documents(&text, "t.yaml"), Err(expected), "{}", path.display());
            }
        }
    }
    assert!(seen > 60 && read > 30, "{read} of {seen} are read directly");
}

/// What the texts are put together from. What stands here twice comes twice as often.
const PIECES: &[&str] = &[
    "a",
    "b",
    "a: ",
    "b: ",
    "c:",
    "- ",
    "-",
    "\n",
    "\n",
    "\n  ",
    "\n  ",
    "\n    ",
    " ",
    "  ",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ",",
    ", ",
    ": ",
    "? ",
    "\n? ",
    "\n: ",
    "# c",
    " # c\n",
    "|",
    ">-",
    "|+\n",
    "|\n  x\n",
    "---\n",
    "\n---\n",
    "\n...\n",
    "--- ",
    "&x ",
    "*x",
    "<<: ",
    "!!str ",
    "!t ",
    "'",
    "\"",
    "''",
    "\\",
    "\\n",
    "1",
    "01",
    "0x1",
    "~",
    "yes",
    ".inf",
    "1.0",
    "-1",
    "\r\n",
    "\u{feff}",
    "\u{85}",
    "é",
    "%YAML 1.2\n",
    "a: b\n",
    "\na: 1",
    "\n- a",
    "\n  b: 2",
    "\n- b: ",
];

/// Pieces of YAML in any order: mostly broken, often nearly right.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_directly(objects in prop::collection::vec(object(), 0..4)) {
        let text = join(&objects);
        // Plain keys that look like numbers, nulls and merges are quoted, so none is for the careful reader.
        prop_assert!(agreed(&text).is_some(), "{}", text);
    }

    #[test]
    fn what_may_be_a_number_or_a_word_means_the_same(
        scalar in "[-+]?(0[xXoObB]?)?[0-9._]{0,6}[eE]?[-+]?[0-9a-fA-F_]{0,4}|[-+]?[.]?[infaInFtyulseroTRUE]{1,8}|[0-9]{17,22}",
    ) {
        for text in [format!("a: {scalar}"), format!("- {scalar}\n- {scalar}"), format!("{scalar}: {scalar}\n{scalar}0: a")] {
            agreed(&text);
        }
    }

    #[test]
    fn pieces_of_yaml_are_read_the_same(text in pieces()) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if agreed(text).is_none() {
            match careful(text) {
                Err(expected) => {
                    prop_assert_eq!(parse_documents(text, "t.yaml"), Err(expected));
                    let lenient = carefully(text, "t.yaml", DuplicateKeyPolicy::LastWins, MAX_NODES);
                    if let Err(expected) = lenient {
                        prop_assert_eq!(parse_lenient(text, "t.yaml"), Err(expected));
                    }
                }
                Ok(documents) => {
                    if let [document] = documents.as_slice() {
                        prop_assert_eq!(&parse_value(text, "t.yaml"), &Ok(document.clone()));
                    }
                }
            }
        }
    }
}
