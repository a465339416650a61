use super::*;
use serde_json::json;

#[test]
fn objects_merge_null_removes_and_the_rest_replaces() {
    let base = json!({"a": {"b": 1, "c": [1, 2], "d": {"e": 1}}, "x": 1});
    let over =
        json!({"a": {"c": [3], "d": null, "n": {"deep": null, "kept": 1}}, "x": {"y": 2}, "gone": null});
    let merged = json!({"a": {"b": 1, "c": [3], "n": {"kept": 1}}, "x": {"y": 2}});
    assert_eq!(merge(base, over), merged);
    assert_eq!(merge(json!({"a": {"b": 1}}), json!({"a": 5})), json!({"a": 5}));
}

#[test]
fn merging_without_copies_is_merging() {
    let sides = [
        json!(null),
        json!(5),
        json!({}),
        json!({"a": {"b": 1, "c": [1, null], "d": {"e": 1}}, "x": 1}),
        json!({"a": {"c": [3], "d": null, "n": {"deep": null, "kept": 1}}, "x": {"y": 2}, "gone": null}),
        json!({"0": 1, "a": null, "aa": {"b": {"c": {"d": null}}}, "z": [{"kept": null}]}),
        json!({"a": {}, "x": {}, "z": {"b": 1}}),
        json!({"a": 5, "b": {"": 1}}),
    ];
    for base in &sides {
        for over in &sides {
            let merged = Merged::of(base, over);
            assert_eq!(merged.to_value(), merge(base.clone(), over.clone()), "{base} {over}");
            if let Merged::Object(fields) = merged {
                assert!(fields.is_sorted_by_key(|(key, _)| *key), "{base} {over}");
            }
        }
    }
}

#[test]
fn a_null_survives_between_layers_until_it_meets_the_defaults() {
    let user = overlay(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}, "x": null}));
    assert_eq!(user, json!({"a": {"b": null, "c": 2}, "x": null}));
    assert_eq!(merge(json!({"a": {"b": 5}, "x": 1, "y": 1}), user), json!({"a": {"c": 2}, "y": 1}));
}

#[test]
fn set_types_only_what_keeps_its_text() {
    for (text, value) in [
        ("true", json!(true)),
        ("False", json!("False")),
        ("8080", json!(8080)),
        ("-1", json!(-1)),
        ("0", json!(0)),
        ("0123", json!("0123")),
        ("+1", json!("+1")),
        ("1.10", json!("1.10")),
        ("1e3", json!("1e3")),
        ("99999999999999999999", json!("99999999999999999999")),
        ("", json!("")),
        ("a=b", json!("a=b")),
        (r"a\,b", json!("a,b")),
    ] {
        assert_eq!(set(json!({}), &format!("k={text}")).unwrap(), json!({"k": value}), "{text}");
    }
    assert_eq!(set(json!({"k": 1, "l": 2}), "k=null").unwrap(), json!({"k": null, "l": 2}));
}

#[test]
fn set_follows_dots_escaped_dots_and_indices() {
    let values = set(json!({}), r"ingress.annotations.nginx\.ingress\.io/x=on").unwrap();
    assert_eq!(values, json!({"ingress": {"annotations": {"nginx.ingress.io/x": "on"}}}));
    let values = set(json!({"hosts": [{"name": "a"}]}), "hosts[0].name=b").unwrap();
    assert_eq!(set(values, "hosts[1]=c").unwrap(), json!({"hosts": [{"name": "b"}, "c"]}));
    assert_eq!(set(json!({}), "a[0][0]=1").unwrap(), json!({"a": [[1]]}));
}

#[test]
fn a_malformed_set_says_what_is_wrong() {
    for (expression, part) in [
        ("novalue", "path=value"),
        ("=1", "empty"),
        ("a..b=1", "empty"),
        ("a.=1", "empty"),
        ("a[x]=1", "not a list index"),
        ("a[4000000000]=1", "gap"),
        ("s.t=1", "not an object"),
        ("s[0]=1", "not on a list"),
        ("[0]=1", "empty"),
        (&format!("{}a=1", "a.".repeat(60)), "60 steps"),
    ] {
        let error = set(json!({"s": "text"}), expression).unwrap_err();
        assert!(error.to_string().contains(part), "{expression}: {error}");
    }
}

#[test]
fn values_are_one_object() {
    assert_eq!(parse(b"", "v").unwrap(), json!({}));
    assert_eq!(parse(b"# only a comment\n", "v").unwrap(), json!({}));
    assert_eq!(
        parse(b"a: {kind: List, items: [1]}\nmode: 0644", "v").unwrap(),
        json!({"a": {"kind": "List", "items": [1]}, "mode": 420})
    );
    for text in [&b"a: 1\na: 2"[..], b"\xff", b"a: [", b"a: 1\n---\nb: 2"] {
        assert_eq!(parse(text, "v").unwrap_err().reason(), "ValuesInvalid", "{text:?}");
    }
    for (text, found) in
        [(&b"- a"[..], "a list"), (b"text", "a text"), (b"5", "a number"), (b"yes", "a boolean")]
    {
        let error = parse(text, "v").unwrap_err();
        assert_eq!(error.reason(), "ValuesNotAnObject", "{text:?}");
        assert!(error.to_string().contains(found), "{error}");
    }
    let long = [&b"a: "[..], &vec![b'x'; BYTES]].concat();
    assert_eq!(parse(&long, "v").unwrap_err().reason(), "ValuesTooLarge");
    let many = format!("a: [{}]", "1,".repeat(60_000));
    assert_eq!(parse(many.as_bytes(), "v").unwrap_err().reason(), "ValuesInvalid");
}

#[test]
fn an_error_in_a_hidden_text_has_its_line_and_quotes_nothing() {
    for text in [
        "ok: 1\nhunter2: 1\nhunter2: 2\n",
        "ok: 1\na: *hunter2\n",
        "ok: 1\na: [hunter2",
        "ok: 1\n\thunter2",
        "hunter2",
    ] {
        let error = parse_hidden(text.as_bytes(), "Secret apps/web, values.yaml").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.starts_with("Secret apps/web, values.yaml"), "{error}");
    }
    let error = parse_hidden(b"a: 1\nb: 1\na: 2\n", "v").unwrap_err().to_string();
    assert!(error.starts_with("v:3: "), "{error}");
}
