use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// A YAML 1.1 reader gives up on an implicit key of more than 1,024 characters.
const MAX_IMPLICIT_KEY: usize = 256;

/// One document in block style with sorted keys, ending in one newline.
///
/// Written so that no reader can disagree, whichever YAML version it follows: only strings that start with a
/// letter or `/`, consist of harmless characters and are no word of YAML 1.1 stand bare; everything else is quoted,
/// or a literal block when it has clean lines. The text never contains `---`: there are readers that split a
/// stream on these characters wherever they stand, so such a scalar is double-quoted with its dashes as `\x2d`.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0, true),
        Value::Array(items) if !items.is_empty() => write_list(&mut out, items, 0, true),
        _ => {
            write_inline(&mut out, value);
            out.push('\n');
        }
    }
    out
}

/// A manifest: the documents joined by newline, `---`, newline, ending in one newline. Empty for no document.
#[must_use]
pub fn join(documents: &[Value]) -> String {
    let mut out = String::new();
    for (i, document) in documents.iter().enumerate() {
        if i > 0 {
            // Each document ends in the newline that stands before the border.
            out.push_str("---\n");
        }
        out.push_str(&to_yaml(document));
    }
    out
}

/// `last`: nothing follows in this document. A reader that trims documents would eat the newline at the end of
/// a literal block there, so such strings are quoted.
fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize, last: bool) {
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            pad(out, indent);
        }
        if key.len() > MAX_IMPLICIT_KEY {
            out.push_str("? ");
            write_string(out, key);
            out.push('\n');
            pad(out, indent);
        } else {
            write_string(out, key);
        }
        out.push(':');
        let last = last && i + 1 == map.len();
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                pad(out, indent + 2);
                write_map(out, inner, indent + 2, last);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(out, indent);
                write_list(out, items, indent, last);
            }
            leaf => {
                out.push(' ');
                write_leaf(out, leaf, indent + 2, last);
            }
        }
    }
}

fn write_list(out: &mut String, items: &[Value], indent: usize, last: bool) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            pad(out, indent);
        }
        out.push_str("- ");
        let last = last && i + 1 == items.len();
        match item {
            Value::Object(inner) if !inner.is_empty() => write_map(out, inner, indent + 2, last),
            Value::Array(inner) if !inner.is_empty() => write_list(out, inner, indent + 2, last),
            leaf => write_leaf(out, leaf, indent + 2, last),
        }
    }
}

fn write_leaf(out: &mut String, leaf: &Value, indent: usize, last: bool) {
    if let Value::String(text) = leaf
        && is_clean_block(text)
        && !(last && text.ends_with('\n'))
    {
        out.push_str(if text.ends_with('\n') { "|" } else { "|-" });
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            out.push('\n');
            if !line.is_empty() {
                pad(out, indent);
                out.push_str(line);
            }
        }
    } else {
        write_inline(out, leaf);
    }
    out.push('\n');
}

fn write_inline(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        // Only empty ones reach this line; the others are written as blocks.
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// YAML 1.1 wants a point and a signed exponent in a float: `1e100` would be a string there.
fn write_number(out: &mut String, number: &Number) {
    let text = number.to_string();
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        out.push_str(&text);
        return;
    };
    out.push_str(mantissa);
    if !mantissa.contains('.') {
        out.push_str(".0");
    }
    out.push('e');
    if !exponent.starts_with(['-', '+']) {
        out.push('+');
    }
    out.push_str(exponent);
}

fn write_string(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        write_quoted(out, text);
    }
}

/// Whether a string may stand without quotes for every reader.
fn is_plain(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let harmless = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '@' | '+' | ',' | ' ' | ':' | '=')
    };
    starts_well
        && text.chars().all(harmless)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains("---")
        && text.len() <= 1024
        && !is_yaml_word(text)
}

/// Words that some reader takes for null, a boolean or a number.
fn is_yaml_word(text: &str) -> bool {
    const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) || text.eq_ignore_ascii_case("infinity")
}

/// Whether a string can be a literal block that every reader gives back to the byte.
fn is_clean_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n'])
        && !text.contains("---")
        && body.split('\n').all(|line| {
            !line.ends_with([' ', '\t'])
                && !line.starts_with('\t')
                && line.chars().all(|c| c == '\t' || is_printable(c))
        })
}

/// Characters that may stand unescaped. Those that YAML 1.1 reads as line breaks are not among them, nor is the byte
/// order mark.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
        || ('\u{10000}'..='\u{10ffff}').contains(&c)
}

fn write_quoted(out: &mut String, text: &str) {
    let escape_dashes = text.contains("---");
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '-' if escape_dashes => out.push_str("\\x2d"),
            c if is_printable(c) => out.push(c),
            // Writing to a String cannot fail.
            c if u32::from(c) <= 0xff => _ = write!(out, "\\x{:02x}", u32::from(c)),
            c if u32::from(c) <= 0xffff => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => _ = write!(out, "\\U{:08x}", u32::from(c)),
        }
    }
    out.push('"');
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_reads_like_one_written_by_hand() {
        let value = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"labels": {}, "name": "web"},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"args": ["--port=8080", "a\nb\n"], "image": "nginx:1.25", "name": "web"},
            ], "volumes": []}}, "x": [["a", "b"], [{"c": null}]]},
        });
        let text = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  labels: {}
  name: web
spec:
  replicas: 2
  template:
    spec:
      containers:
      - args:
        - \"--port=8080\"
        - |
          a
          b
        image: nginx:1.25
        name: web
      volumes: []
  x:
  - - a
    - b
  - - c: null
";
        assert_eq!(to_yaml(&value), text);
    }

    #[test]
    fn what_a_yaml_1_1_reader_would_misread_is_quoted() {
        for text in [
            "",
            "y",
            "Yes",
            "on",
            "OFF",
            "null",
            "~",
            "true",
            "12:30",
            "0o14",
            "1e3",
            "007",
            "1_000",
            ".5",
            ".inf",
            "-1",
            "+1",
            "0x1f",
            "2024-01-01",
            "a: b",
            "a #b",
            "#a",
            "- a",
            "a ",
            " a",
            "a:",
            "*a",
            "&a",
            "!a",
            "[a",
            "{a",
            "%a",
            "@a",
            "`a",
            "a\tb",
            "=",
            "<<",
            "a---b",
            "\u{feff}a",
            "é",
            "inf",
            "NaN",
        ] {
            assert!(to_yaml(&json!(text)).starts_with('"'), "{text:?} stands bare");
        }
        for text in ["a", "nginx:1.25", "/healthz", "apps/v1", "a=b, c", "http://x.y:80/z", "v1.2.3"] {
            assert_eq!(to_yaml(&json!(text)), format!("{text}\n"));
        }
    }

    #[test]
    fn three_dashes_never_stand_in_a_document() {
        let pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
        let value = json!({"a": pem, "b": ["x---y"], "--- c": "----"});
        let text = to_yaml(&value);
        assert!(!text.contains("---"), "{text}");
        assert!(text.contains("a: \"\\x2d\\x2d\\x2d\\x2d\\x2dBEGIN CERTIFICATE\\x2d"), "{text}");
    }

    #[test]
    fn documents_are_joined_by_a_line_of_dashes() {
        assert_eq!(join(&[json!({"a": 1}), json!({"b": 2})]), "a: 1\n---\nb: 2\n");
        assert_eq!(join(&[]), "");
    }

    #[test]
    fn floats_are_floats_for_every_reader() {
        assert_eq!(to_yaml(&json!(1e100)), "1.0e+100\n");
        assert_eq!(to_yaml(&json!(1.5e-9)), "1.5e-9\n");
        assert_eq!(to_yaml(&json!(0.5)), "0.5\n");
    }

    #[test]
    fn a_block_at_the_very_end_is_quoted_against_trimming() {
        assert_eq!(to_yaml(&json!({"a": "x\ny\n"})), "a: \"x\\ny\\n\"\n");
        assert_eq!(to_yaml(&json!({"a": "x\ny\n", "b": 1})), "a: |\n  x\n  y\nb: 1\n");
        assert_eq!(to_yaml(&json!({"a": "x\n\ny"})), "a: |-\n  x\n\n  y\n");
    }
}
