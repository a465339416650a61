use super::*;

/// As Helm writes one.
const HELM: &str = r#"apiVersion: v1
entries:
  podinfo:
  - apiVersion: v2
    appVersion: 6.5.4
    created: "2024-01-10T10:11:12.123456789Z"
    dependencies:
    - condition: redis.enabled
      name: redis
      repository: https://charts.example.com
      version: 1.x
    description: 'Podinfo: a chart # for Kubernetes'
    digest: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    home: https://github.com/stefanprodan/podinfo
    maintainers:
    - email: stefanprodan@users.noreply.github.com
      name: stefanprodan
    name: podinfo
    type: application
    urls:
    - https://example.com/podinfo-6.5.4.tgz
    - https://mirror.example.com/podinfo-6.5.4.tgz
    version: 6.5.4
  - annotations:
      artifacthub.io/changes: |
        - kind: added
          description: name: version: urls
    appVersion: "6.5"
    deprecated: true
    name: podinfo
    urls:
    - podinfo-6.5.3.tgz
    version: 6.5.3
  web:
  - name: web
    version: 1.0
    urls: [web-1.0.tgz]
    digest: sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef
  empty: []
  none:
generated: "2024-01-10T10:11:12Z"
"#;

fn entries(index: &Index) -> String {
    let of =
        |name| index.entries(name).iter().map(move |entry| format!("{name} {} {}", entry.version, entry.url));
    index.names().flat_map(of).collect::<Vec<_>>().join("; ")
}

fn read(text: &str) -> Index {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn what_helm_writes_is_read() {
    let index = read(HELM);
    assert_eq!(
        entries(&index),
        "podinfo 6.5.4 https://example.com/podinfo-6.5.4.tgz; podinfo 6.5.3 podinfo-6.5.3.tgz; web 1.0 web-1.0.tgz"
    );
    assert_eq!(index.skipped(), 0);
    let digest = |range| index.find("podinfo", Some(range)).unwrap().digest.text();
    assert_eq!(digest("6.5.4").unwrap().unwrap(), format!("sha256:{}", "0123456789abcdef".repeat(4)));
    assert_eq!(digest("6.5.3"), Ok(None));
}

#[test]
fn yaml_of_every_style_and_json_say_the_same() {
    let long = "d".repeat(5000);
    for text in [
        "\u{feff}apiVersion: v1\nentries:\n  a:\n    - name: a\n      version: 1.0.0\n      urls:\n        - x.tgz\n".to_owned(),
        "---\nentries: {a: [{urls: [x.tgz, y], version: '1.0.0', \"name\": a}]}\napiVersion: \"v1\"\n...\n".to_owned(),
        r#"{"apiVersion":"v1","entries":{"a":[{"name":"a","version":"1.0.0","urls":["x.tgz"]}]}}"#.to_owned(),
        "{\n\t\"apiVersion\": \"v1\",\n\t\"entries\": {\n\t\t\"a\": [{\"name\": \"a\", \"version\": \"1.0.0\", \"urls\": [\"x.tgz\"]}]\n\t}\n}\n".to_owned(),
        format!(r#"{{"apiVersion":"v1","serverInfo":{{}},"entries":{{"a":[{{"description":"\ud83d\ude00 \/ \u003c{long}","name":"a","version":"1.0.0","urls":["x\u002etgz"]}}]}}}}"#),
        "apiVersion: v1\r\nentries:\r\n  a:\r\n  - name: a\r\n    version: 1.0.0\r\n    urls:\r\n    - x.tgz\r\n".to_owned(),
        // As Ruby writes texts that are the same object.
        "apiVersion: &1 v1\nentries:\n  a:\n  - apiVersion: *1\n    name: &2 a\n    version: 1.0.0\n    urls: [&3 x.tgz]\n    sources: [*3]\n".to_owned(),
        "apiVersion: v1\nx: &u x.tgz\nk: &a a\nentries:\n  *a :\n  - {name: *a, version: !!str 1.0.0, urls: [*u]}\n".to_owned(),
        "apiVersion: v1\n? [complex, key]\n: [x]\n~: 1\nentries:\n  ? {b: c}\n  : d\n  a: [{name: a, version: 1.0.0, urls: [x.tgz], ? [k] : {v: w}}]\n".to_owned(),
    ] {
        let index = read(&text);
        assert_eq!(entries(&index), "a 1.0.0 x.tgz", "{text}");
        assert_eq!(index.skipped(), 0, "{text}");
    }
}

#[test]
fn an_entry_that_cannot_be_used_is_left_out_and_counted() {
    let good = "{name: a, version: 1.0.0, urls: [x]}";
    for bad in [
        "{version: 1.0.0, urls: [x]}",
        "{name: a, urls: [x]}",
        "{name: a, version: 1.0.0}",
        "{name: a, version: 1.0.0, urls: []}",
        "{name: a, version: 1.0.0, urls: }",
        "{name: a, version: 1.0.0, urls: x}",
        "{name: a, version: 1.0.0, urls: [~]}",
        "{name: a, version: 1.0.0, urls: ['']}",
        "{name: a, version: 1.0.0, urls: [[x]]}",
        "{name: a, version: 1.0.0, urls: {x: y}}",
        "{name: a, version: ~, urls: [x]}",
        "{name: a, version: '', urls: [x]}",
        "{name: a, version: [1.0.0], urls: [x]}",
        "{name: {a: b}, version: 1.0.0, urls: [x]}",
        "{name: a, name: b, version: 1.0.0, urls: [x]}",
        "{name: a, version: 1.0.0, version: 2.0.0, urls: [x]}",
        "{name: a, version: 1.0.0, urls: [x], urls: [y]}",
        "~",
        "text",
        "[a, [b], {c: d}]",
        "*list",
        "{name: a, version: 1.0.0, urls: *list}",
        "{name: a, version: 1.0.0, urls: [*list]}",
        "{name: a, version: 1.0.0, urls: [*none]}",
        "{}",
        &format!("{{name: {}, version: 1.0.0, urls: [x]}}", "n".repeat(254)),
        &format!("{{name: a, version: 1.0.0-{}, urls: [x]}}", "v".repeat(123)),
        &format!("{{name: a, version: 1.0.0, urls: [{}]}}", "u".repeat(2049)),
    ] {
        let text = format!(
            "apiVersion: v1\nlist: &list [1]\nnone: &none ~\nentries: {{a: [{good}, {bad}, {good}]}}\n"
        );
        let index = read(&text);
        assert_eq!(entries(&index), "a 1.0.0 x; a 1.0.0 x", "{text}");
        assert_eq!(index.skipped(), 1, "{text}");
    }
    let longest = format!(
        "apiVersion: v1\nentries:\n  {0}:\n  - {{name: {0}, version: 1.0.0-{1}, urls: [{2}]}}\n",
        "n".repeat(253),
        "v".repeat(122),
        "u".repeat(2048)
    );
    assert_eq!(read(&longest).versions(), 1);
    for (packs, skipped) in [
        ("a: *list", 1),
        ("a: text", 1),
        ("a: {b: [c]}", 1),
        ("'': [{name: a, version: 1.0.0, urls: [x]}]", 1),
    ] {
        let index = read(&format!("apiVersion: v1\nlist: &list [1]\nentries: {{{packs}, b: [{good}]}}\n"));
        assert_eq!((entries(&index).as_str(), index.skipped()), ("b 1.0.0 x", skipped), "{packs}");
    }
    let long = format!("apiVersion: v1\nentries:\n  ? {}\n  : [{good}, {good}]\n", "n".repeat(254));
    assert_eq!((read(&long).versions(), read(&long).skipped()), (0, 2));
}

#[test]
fn a_digest_that_is_no_sha256_is_flagged() {
    let long = "0".repeat(2049);
    for digest in ["md5:0", "[a]", "0123", "{a: b}", "*list", "*long"] {
        let text = format!(
            "apiVersion: v1\nlist: &list [1]\nlong: &long {long}\nentries: {{a: [{{name: a, version: 1.0.0, urls: [x], digest: {digest}}}]}}\n"
        );
        assert_eq!(read(&text).find("a", None).unwrap().digest, Digest::Invalid, "{digest}");
    }
}

#[test]
fn what_is_no_index_is_refused() {
    for (text, expected) in [
        ("", "it is empty"),
        ("# nothing\n", "it is empty"),
        ("~", "it is empty"),
        ("404 page not found", "it is a text"),
        ("- a", "it is a list"),
        (
            "<!DOCTYPE html>\n<html><body>Sign in: <a href=\"x\">here</a></body></html>\n",
            "is this the URL of a repository?",
        ),
        ("a: [", "the index is no YAML: line "),
        ("a: b: c", "the index is no YAML: line 1, column "),
        ("a: *b", "the index is no YAML: line 1, column "),
        ("%TAG ! tag:x\n---\napiVersion: v1\n", "the index is no YAML: line 1, column "),
        ("entries: {}", "it has no apiVersion"),
        ("apiVersion: {}\nentries: {}", "it has no apiVersion"),
        ("apiVersion: v2\nentries: {}", "its apiVersion is `v2`, and only `v1` is known"),
        ("apiVersion: v1\nentries: []", "its entries are no map"),
        ("apiVersion: v1\nentries: text", "its entries are no map"),
        ("x: &x {}\napiVersion: v1\nentries: *x", "its entries are no map"),
        ("x: &x []\napiVersion: *x\nentries: {}", "it has no apiVersion"),
        ("apiVersion: v1\n---\napiVersion: v1\n", "a second document begins at line 2"),
        ("apiVersion: v1\nentries: {}\nentries: {}\n", "line 3 of the index repeats the key `entries`"),
        ("apiVersion: v1\nentries: {}\napiVersion: v1\n", "line 3 of the index repeats the key `apiVersion`"),
        (
            "apiVersion: v1\nentries:\n  a: [{name: a, version: 1.0.0, urls: [x]}]\n  a: []\n",
            "line 4 of the index repeats the key `a`",
        ),
    ] {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert_eq!(parse(b"apiVersion: v1\nx: \xff\n"), Err(Unreadable::NotText));
    for text in ["apiVersion: v1\n", "apiVersion: v1\nentries:\n", "apiVersion: v1\nentries: {}\n"] {
        assert_eq!(read(text), Index::default(), "{text}");
    }
}

#[test]
fn no_index_takes_more_than_it_may() {
    let large = vec![b' '; MAX_BYTES + 1];
    assert_eq!(parse(&large), Err(Unreadable::TooLarge { bytes: MAX_BYTES + 1, max: MAX_BYTES }));
    let of = |count: usize| {
        let entry = "- {name: a, version: 1.0.0, urls: [x]}\n";
        format!("apiVersion: v1\nentries:\n  a:\n  {}  b:\n  - 1\n", [entry].repeat(count).join("  "))
    };
    let full = read(&of(MAX_ENTRIES - 1));
    assert_eq!((full.versions(), full.skipped()), (MAX_ENTRIES - 1, 1));
    // What is left out counts too.
    assert_eq!(parse(of(MAX_ENTRIES).as_bytes()), Err(Unreadable::TooManyEntries { max: MAX_ENTRIES }));
    let anchors = format!("apiVersion: v1\nx: [{}]\n", "&a a,".repeat(10_001));
    assert!(parse(anchors.as_bytes()).unwrap_err().to_string().contains("more than 10000 anchors"));
    let nodes = format!("apiVersion: v1\nx: [{}]\n", "a,".repeat(4_000_001));
    assert!(parse(nodes.as_bytes()).unwrap_err().to_string().contains("more than 4000000 nodes"));
}

#[test]
fn a_bomb_of_aliases_stays_small() {
    let mut text = "apiVersion: v1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..60 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    text.push_str("entries: {a: [*a59, {name: a, version: 1.0.0, urls: *a59}], b: *a59}\n");
    let index = read(&text);
    assert_eq!((index.versions(), index.skipped()), (0, 3), "an alias of a list is not followed");
}

#[test]
fn too_deep_a_nesting_is_an_error_and_not_a_crash() {
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(parse(format!("apiVersion: v1\nx:\n {text}").as_bytes()).is_err());
    }
}

#[test]
fn blanks_without_end_are_refused_before_they_are_parsed() {
    let blank = |count: usize| format!("apiVersion: v1\n{}entries: {{}}\n", "\n".repeat(count));
    assert!(parse(blank(1000).as_bytes()).is_ok());
    let error = parse(blank(1 << 20).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("blanks in a row"), "{error}");
}
