use serde_json::json;

use super::*;
use crate::manifest::ObjectId;

type Row = (String, Option<Value>, Option<Value>);

fn rows(found: Vec<Difference<'_>>) -> Vec<Row> {
    found.into_iter().map(|one| (one.pointer(), one.old.cloned(), one.new.cloned())).collect()
}

fn row(path: &str, old: Value, new: Value) -> Row {
    let side = |value: Value| (!value.is_null()).then_some(value);
    (path.to_owned(), side(old), side(new))
}

#[test]
fn every_field_that_differs_is_named_with_both_values() {
    let old = json!({"data": {"a/b": "1", "same": "s", "gone": "g"}, "spec": {"l": [1, 2]}});
    let new = json!({"data": {"a/b": "2", "same": "s", "come": "c"}, "spec": {"l": [1, 3, 4]}});
    let expected = [
        row("/data/a~1b", json!("1"), json!("2")),
        row("/data/come", Value::Null, json!("c")),
        row("/data/gone", json!("g"), Value::Null),
        row("/spec/l/1", json!(2), json!(3)),
        row("/spec/l/2", Value::Null, json!(4)),
    ];
    assert_eq!(rows(compare(&old, &new)), expected);
    assert_eq!(compare(&old, &old), []);
    let dotted: Vec<String> = compare(&old, &new).iter().map(Difference::dotted).collect();
    assert_eq!(dotted, ["data[\"a/b\"]", "data.come", "data.gone", "spec.l[1]", "spec.l[2]"]);
}

#[test]
fn list_items_are_told_by_their_key_wherever_they_stand() {
    let old =
        json!({"c": [{"name": "a", "image": "x:1"}, {"name": "b", "ports": [{"port": 80, "node": 1}]}]});
    let new = json!({"c": [{"name": "z"}, {"name": "b", "ports": [{"port": 80, "node": 2}]}, {"name": "a", "image": "x:2"}]});
    let expected = [
        row("/c[name=a]/image", json!("x:1"), json!("x:2")),
        row("/c[name=b]/ports[port=80]/node", json!(1), json!(2)),
        row("/c[name=z]", Value::Null, json!({"name": "z"})),
    ];
    assert_eq!(rows(compare(&old, &new)), expected);
    // Another order of the same items is a difference, and two items with one key are told by their place.
    let list = |names: &[&str]| json!(names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
    let (there, back) = (list(&["a", "b"]), list(&["b", "a"]));
    assert_eq!(rows(compare(&there, &back)), [row("", there.clone(), back.clone())]);
    let (twice, other) = (list(&["a", "a"]), list(&["a", "b"]));
    assert_eq!(rows(compare(&twice, &other)), [row("/1/name", json!("a"), json!("b"))]);
}

#[test]
fn what_is_not_stated_does_not_differ() {
    let wanted = json!({
        "data": {"a": "1", "b": "2"}, "empty": {}, "none": [],
        "c": [{"name": "web", "image": "x:1"}], "args": ["--a"],
    });
    let live = json!({
        "data": {"a": "1", "b": "3", "more": "x"}, "default": true,
        "c": [{"name": "sidecar"}, {"name": "web", "image": "x:1", "pull": "Always"}], "args": ["--a", "--b"],
    });
    let expected = [row("/args/1", Value::Null, json!("--b")), row("/data/b", json!("2"), json!("3"))];
    assert_eq!(rows(stated(&wanted, &live)), expected);
    let gone = json!({"c": [{"name": "web"}]});
    assert_eq!(rows(stated(&gone, &json!({}))), [row("/c", gone["c"].clone(), Value::Null)]);
}

#[test]
fn what_only_the_server_says_is_not_compared() {
    let live = json!({
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "5", "managedFields": [], "generation": 2,
            "annotations": {"sherpack.io/applied": "u.1", LAST_APPLIED: "{\"data\":{\"a\":\"secret\"}}"},
        },
        "status": {"ready": 1}, "data": {"a": "b"},
    });
    assert_eq!(asked_for(live), json!({"metadata": {"name": "a"}, "data": {"a": "b"}}));
}

#[test]
fn content_of_a_secret_is_known_and_kept_back() {
    let id =
        |group: &str, kind: &str| ObjectId { group: group.into(), kind: kind.into(), ..ObjectId::default() };
    let secret = id("", "Secret");
    for field in ["data", "stringData"] {
        assert!(is_secret_content(&secret, &[Step::Field(field), Step::Field("a")]));
        assert!(!is_secret_content(&id("", "ConfigMap"), &[Step::Field(field)]));
        assert!(!is_secret_content(&id("example.com", "Secret"), &[Step::Field(field)]));
    }
    assert!(is_secret_content(&secret, &[]));
    assert!(!is_secret_content(&secret, &[Step::Field("metadata"), Step::Field("data")]));
    let mut value = json!({"a": "x", "l": [1, true, null]});
    redact(&mut value, "no");
    assert_eq!(value, json!({"a": "no", "l": ["no", "no", "no"]}));
    let body = json!({"data": {"a": "x"}, "stringData": {"b": "", "c": "y", "d": 1}});
    assert_eq!(secret_texts(&body).collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn a_change_is_laid_to_whoever_has_the_field_now() {
    let fields: Vec<ManagedFieldsEntry> = serde_json::from_value(json!([
        {"manager": "sherpack", "operation": "Apply", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}},
        {"manager": "old", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}},
        {"manager": "new", "operation": "Update", "time": "2026-01-02T00:00:00Z", "fieldsV1": {
            "f:data": {"f:b": {}},
            "f:l": {"k:{\"name\":\"x\"}": {"f:image": {}}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:node": {}}},
        }},
    ]))
    .unwrap();
    let live = json!({
        "data": {"a": "1", "b": "2", "c": "3"},
        "l": [{"name": "y", "image": "1"}, {"name": "x", "image": "1"}, {"port": 80, "protocol": "TCP", "node": 1}],
    });
    let (x, y, port, gone) = (json!("x"), json!("y"), json!(80), json!("z"));
    let (data, list) = (Step::Field("data"), Step::Field("l"));
    for (at, expected) in [
        (vec![data, Step::Field("a")], Some("old")),
        (vec![data, Step::Field("b")], Some("new")),
        (vec![data, Step::Field("c")], None),
        (vec![data, Step::Field("gone")], None),
        (vec![data], Some("new")),
        (vec![list, Step::Item("name", &x), Step::Field("image")], Some("new")),
        (vec![list, Step::Item("name", &y), Step::Field("image")], None),
        (vec![list, Step::Item("name", &gone)], None),
        (vec![list, Step::Item("port", &port), Step::Field("node")], Some("new")),
        (vec![list, Step::Index(1), Step::Field("image")], Some("new")),
        (vec![list, Step::Index(7)], None),
    ] {
        assert_eq!(holder(&live, &at, &fields).as_deref(), expected, "{at:?}");
    }
}
