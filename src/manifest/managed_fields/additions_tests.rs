use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::{DriftIgnore, IgnoreRule};
use crate::manifest::managed_fields::ignore::wishes;
use crate::manifest::managed_fields::rivals;

fn entries(json: Value) -> Vec<ManagedFieldsEntry> {
    serde_json::from_value(json).unwrap()
}

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields})
}

fn managers() -> Vec<String> {
    vec!["rival".to_owned()]
}

fn web(extra: Value) -> Vec<ManagedFieldsEntry> {
    let image =
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}}});
    entries(json!([entry("sherpack", "Apply", image), entry("rival", "Update", extra)]))
}

#[test]
fn what_a_named_manager_adds_is_told_and_changes_the_fingerprint() {
    let sidecar = json!({"f:spec": {"f:containers": {
        "k:{\"name\":\"proxy\"}": {".": {}, "f:image": {}, "f:name": {}},
        "k:{\"name\":\"web\"}": {"f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}}}},
    }}});
    let fields = web(sidecar);
    let told = added(&fields, &managers(), None, None);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].manager, "rival");
    assert_eq!(
        told[0].paths,
        ["/spec/containers[name=proxy]", "/spec/containers[name=web]/env"],
        "an added element is one path"
    );
    let base = Some("f".to_owned());
    assert_ne!(with_additions(base.clone(), &fields, &managers()), base);
    assert_eq!(with_additions(base.clone(), &fields, &["somebody".to_owned()]), base);
    assert_eq!(with_additions(None, &fields, &managers()), None);
}

#[test]
fn trade_shared_fields_and_other_versions_are_no_additions() {
    let stays = [
        json!({"f:status": {"f:phase": {}}}),
        json!({"f:spec": {"f:replicas": {}}}),
        json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"x\"": {}}, "f:ownerReferences": {".": {}}}}),
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}}),
        json!({}),
    ];
    for fields in stays {
        assert!(added(&web(fields.clone()), &managers(), None, None).is_empty(), "{fields}");
    }
    let mut other = web(json!({"f:data": {"f:a": {}}}));
    assert_eq!(added(&other, &managers(), None, None)[0].paths, ["/data/a"]);
    other[1].api_version = Some("v2".to_owned());
    assert!(added(&other, &managers(), None, None).is_empty());
    other[1].api_version = Some("v1".to_owned());
    other[1].subresource = Some("scale".to_owned());
    assert!(added(&other, &managers(), None, None).is_empty());
}

#[test]
fn a_list_stays_with_an_item_of_which_nobody_says_that_it_is_there() {
    let fields = web(json!({"f:spec": {"f:volumes": {".": {}, "k:{\"name\":\"a\"}": {"f:emptyDir": {}}}}}));
    assert_eq!(added(&fields, &managers(), None, None), []);
}

#[test]
fn additions_are_found_in_the_object_and_what_is_shared_stays() {
    let fields = web(json!({
        "f:data": {".": {}, "f:a": {}},
        "f:metadata": {"f:finalizers": {"v:\"x\"": {}}, "f:labels": {"f:x/y": {}}},
        "f:spec": {"f:args": {"v:\"-v\"": {}, "v:\"-q\"": {}}, "f:containers": {
            "k:{\"name\":\"web\"}": {"f:image": {}, "f:name": {}, "f:tty": {}},
            "k:{\"name\":\"proxy\"}": {".": {}, "f:image": {}, "f:name": {}},
            "k:{\"name\":\"gone\"}": {".": {}, "f:image": {}, "f:name": {}},
        }},
    }));
    let live = json!({
        "metadata": {"finalizers": ["x"], "labels": {"x/y": "1"}}, "data": {"a": "1"},
        "spec": {"args": ["-v", "-a", "-q"], "containers": [
            {"name": "proxy", "image": "p"}, {"name": "web", "image": "w", "tty": true},
        ]},
    });
    let places = |fields: &[ManagedFieldsEntry]| places_of_added(&live, fields, &managers(), None, None);
    let expected = [
        "/data",
        "/metadata/labels/x~1y",
        "/spec/args/2",
        "/spec/args/0",
        "/spec/containers/1/tty",
        "/spec/containers/0",
    ];
    assert_eq!(places(&fields), expected);
    let mut fields = fields;
    let friend = json!({"f:spec": {"f:containers": {"k:{\"name\":\"proxy\"}": {"f:image": {}}}}});
    fields.extend(entries(json!([entry("friend", "Update", friend)])));
    assert_eq!(places(&fields), expected[..5], "somebody else has a part of it");
    assert_eq!(places(&web(json!({}))), [""; 0], "never the whole object");
}

#[test]
fn a_part_that_is_left_to_others_keeps_all_that_is_round_it() {
    let rule = |path: &str| {
        let rule: DriftIgnore = serde_json::from_value(json!({ "paths": [path] })).unwrap();
        [Arc::new(IgnoreRule::parse(&rule).unwrap())]
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let object = Object::from_value(pod).unwrap();
    let item = |fields: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"proxy\"}": fields}}});
    let proxy = json!({".": {}, "f:name": {}, "f:image": {}});
    for (path, first, second, paths) in [
        ("/spec/containers/*/image", item(proxy.clone()), json!({}), vec![]),
        ("/spec/containers/*/tty", item(proxy), json!({}), vec!["/spec/containers[name=proxy]"]),
        (
            "/spec/containers/[name=proxy]/image",
            item(json!({".": {}, "f:name": {}})),
            item(json!({"f:image": {}})),
            vec![],
        ),
        (
            "/data/kept",
            json!({"f:data": {".": {}, "f:a": {}}}),
            json!({"f:data": {"f:kept": {}}}),
            vec!["/data/a"],
        ),
        (
            "/spec/tolerations/*",
            json!({"f:spec": {"f:tolerations": {}, "f:a": {}}}),
            json!({}),
            vec!["/spec/a"],
        ),
        ("/spec/tolerations/*", json!({"f:spec": {"f:a": {}}}), json!({}), vec!["/spec/a"]),
    ] {
        let rules = rule(path);
        let wishes = wishes(&rules, &object);
        let mut fields = web(first);
        fields.extend(entries(json!([entry("rival", "Apply", second)])));
        let told = added(&fields, &managers(), wishes.as_ref(), None);
        assert_eq!(told.into_iter().flat_map(|taken| taken.paths).collect::<Vec<_>>(), paths, "{path}");
    }
}

#[test]
fn an_item_is_the_one_that_says_its_key_before_one_that_may() {
    let object = Object::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"l": [{"port": 53}, {"port": 53, "protocol": "UDP", "to": 1}, {"port": 80, "to": 1}]},
    }))
    .unwrap();
    let fields = |key: &str| web(json!({"f:spec": {"f:l": {key: {"f:to": {}}}}}));
    for key in ["k:{\"port\":53,\"protocol\":\"UDP\"}", "k:{\"port\":80,\"protocol\":\"SCTP\"}"] {
        assert_eq!(added(&fields(key), &managers(), None, Some(&object)), [], "{key}");
    }
}

#[test]
fn what_was_installed_is_no_addition_whoever_holds_it() {
    let object = Object::from_value(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"app": "a"}, "clusterIP": null},
    }))
    .unwrap();
    let theirs = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:more": {}}},
        "f:spec": {"f:clusterIP": {}, "f:selector": {}, "f:type": {}, "f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}, "f:nodePort": {}},
            "k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
        }},
    });
    let fields = entries(json!([entry("rival", "Update", theirs)]));
    let told = added(&fields, &managers(), None, Some(&object));
    assert_eq!(
        told[0].paths,
        [
            "/metadata/labels/more",
            "/spec/clusterIP",
            "/spec/ports[port=80,protocol=TCP]/nodePort",
            "/spec/ports[port=81,protocol=TCP]",
            "/spec/type",
        ]
    );
    assert_eq!(added(&fields, &managers(), None, None), [], "nobody knows what was installed");
    let mut fields = fields;
    fields.extend(entries(json!([entry("sherpack", "Apply", json!({"f:metadata": {"f:labels": {}}}))])));
    let lost = |fields: &[ManagedFieldsEntry]| !rivals(&object.body, fields).is_empty();
    assert!(lost(&fields) && !lost(&nothing_lost(&fields, &object)));
}
