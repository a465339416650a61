//! Rules about the whole definition, pairs of versions, and what is no definition.

use serde_json::{Value, json};

use super::of;
use super::random::definition;
use crate::crd::Kind::*;
use crate::crd::Severity::*;
use crate::crd::{Analysis, Definition, Error, Kind, Severity, admissible, analyze};

fn said(analysis: &Analysis) -> Vec<(Kind, Severity)> {
    analysis.changes.iter().map(|change| (change.kind, change.severity)).collect()
}

fn versions(all: &[(&str, bool, bool, Value)]) -> Value {
    let mut document = definition(&json!({"type": "object"}));
    let list: Vec<Value> = all
        .iter()
        .map(|(name, served, storage, fields)| {
            let spec = json!({"type": "object", "properties": fields});
            json!({"name": name, "served": served, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
        })
        .collect();
    document["spec"]["versions"] = list.into();
    document
}

fn fields(names: &[&str]) -> Value {
    Value::Object(names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect())
}

fn hooked(mut document: Value) -> Value {
    document["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "a", "namespace": "b"}}}});
    document
}

#[test]
fn a_new_version_is_compared_with_the_stored_one() {
    let old = versions(&[("v1", true, true, fields(&["a"]))]);
    let with =
        |names: &[&str]| versions(&[("v1", true, true, fields(&["a"])), ("v2", true, false, fields(names))]);
    assert_eq!(said(&of(&old, &with(&["a"]))), [(AddVersion, Safe)]);
    // What v1 does not have is dropped on the way into storage; what v2 does not have at the next write through it.
    assert_eq!(said(&of(&old, &with(&["a", "b"]))), [(AddVersion, Safe), (LossyVersion, Dangerous)]);
    assert_eq!(said(&of(&old, &with(&[]))), [(AddVersion, Safe), (LossyVersion, Dangerous)]);
    // A webhook may carry it.
    assert_eq!(said(&of(&hooked(old), &hooked(with(&["a", "b"])))), [(AddVersion, Safe)]);
}

#[test]
fn an_older_version_that_knows_less_drops_the_rest() {
    let with = |names: &[&str]| {
        versions(&[("v1beta1", true, false, fields(&["a"])), ("v1", true, true, fields(names))])
    };
    let analysis = of(&with(&["a"]), &with(&["a", "b"]));
    assert_eq!(said(&analysis), [(AddOptionalField, Safe), (LossyVersion, Dangerous)]);
    let analysis = of(&with(&["a"]), &with(&[]));
    assert_eq!(said(&analysis), [(RemoveField, Dangerous), (LossyVersion, Dangerous)]);
}

#[test]
fn what_was_lost_before_is_not_said_again() {
    let pair = |storage: &str, more: &[&str]| {
        versions(&[
            ("v1", true, storage == "v1", fields(&["a"])),
            ("v2", true, storage == "v2", fields(more)),
        ])
    };
    let lossy = pair("v1", &["a", "b"]);
    let mut described = lossy.clone();
    described["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "x".into();
    assert_eq!(said(&of(&lossy, &described)), [(UpdateDescription, Safe)]);
    // Moving the storage over is lossy in itself, when the new one lacks something.
    let analysis = of(&pair("v1", &[]), &pair("v2", &[]));
    assert_eq!(said(&analysis), [(ChangeStorageVersion, Dangerous)]);
    assert_eq!(said(&of(&pair("v1", &["a"]), &pair("v2", &["a"]))), [(ChangeStorageVersion, Warning)]);
}

/// One version against another that is stored, both with one schema of `spec`.
fn pair(low: &Value, high: &Value) -> Value {
    versions(&[("v1", true, true, low.clone()), ("v2", true, false, high.clone())])
}

#[test]
fn versions_that_disagree_about_a_field_are_dangerous_whichever_is_older() {
    let fine = json!({"a": {"type": "string"}});
    for (one, other) in [
        (json!({"a": {"type": "boolean"}}), json!({"a": {"type": "string"}})),
        (json!({"a": {"type": "integer"}}), json!({"a": {"type": "number"}})),
        (json!({"a": {"type": "string"}}), json!({"a": {"x-kubernetes-int-or-string": true}})),
        (
            json!({"a": {"type": "string", "enum": ["x"]}}),
            json!({"a": {"type": "string", "enum": ["x", "y"]}}),
        ),
        (json!({"a": {"type": "string", "enum": ["x"]}}), json!({"a": {"type": "string"}})),
        (json!({"a": {"type": "string"}}), json!({"a": {"type": "string"}, "b": {"type": "string"}})),
        (
            json!({"a": {"type": "object"}}),
            json!({"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
        ),
    ] {
        for (low, high) in [(&one, &other), (&other, &one)] {
            let before = versions(&[("v1", true, true, low.clone())]);
            let analysis = of(&before, &pair(low, high));
            assert_eq!(said(&analysis), [(AddVersion, Safe), (LossyVersion, Dangerous)], "{low} {high}");
            assert!(of(&pair(low, high), &pair(low, high)).changes.is_empty(), "{low} {high}");
            let converted = of(&hooked(before), &hooked(pair(low, high)));
            assert_eq!(said(&converted), [(AddVersion, Safe)], "{low} {high}");
        }
    }
    assert_eq!(
        said(&of(&versions(&[("v1", true, true, fine.clone())]), &pair(&fine, &fine))),
        [(AddVersion, Safe)]
    );
}

#[test]
fn a_field_that_one_version_requires_and_another_does_not_is_a_disagreement() {
    let required = |names: &[&str]| {
        let spec = json!({"type": "object", "required": names, "properties": fields(&["a", "b"])});
        let mut version = versions(&[("v1", true, true, json!({}))])["spec"]["versions"][0].clone();
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
        version
    };
    let both = |one: &[&str], other: &[&str]| {
        let mut document = definition(&json!({"type": "object"}));
        let (mut one, mut other) = (required(one), required(other));
        one["name"] = "v1".into();
        other["name"] = "v2".into();
        other["storage"] = false.into();
        document["spec"]["versions"] = json!([one, other]);
        document
    };
    for (one, other) in [(["a"].as_slice(), [].as_slice()), (&[], &["a"])] {
        let analysis = crate::crd::introduce(&Definition::from_value(&both(one, other)).unwrap());
        assert_eq!(said(&analysis), [(LossyVersion, Warning)], "{:?}", analysis.changes);
    }
    // That of `a` was there before, that of `b` was not.
    let analysis = of(&both(&["a", "b"], &["b"]), &both(&["a", "b"], &[]));
    assert_eq!(said(&analysis), [(MakeOptional, Safe), (LossyVersion, Dangerous)]);
    assert!(analysis.changes[1].message.contains(".spec.b"), "{}", analysis.changes[1].message);
}

#[test]
fn of_an_enum_only_another_value_is_a_new_disagreement() {
    let of_values = |values: &[&str]| json!({"a": {"type": "string", "enum": values}});
    let with = |low: &[&str], high: &[&str]| pair(&of_values(low), &of_values(high));
    let old = with(&["x"], &["x", "y"]);
    let lossy = |new: &Value| said(&of(&old, new)).contains(&(LossyVersion, Dangerous));
    assert!(lossy(&with(&["x"], &["x", "y", "z"])));
    assert!(!lossy(&with(&["x", "z"], &["x", "y", "z"])), "both know z, and y is as before");
    assert!(!lossy(&with(&["x"], &["x"])));
    let moved =
        versions(&[("v1", true, false, of_values(&["x"])), ("v2", true, true, of_values(&["x", "y"]))]);
    assert!(!lossy(&moved), "which of the two is stored does not count");
}

#[test]
fn versions_disagree_behind_the_back_of_one_that_keeps_everything() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with = |v2: Value| {
        let mut document = versions(&[
            ("v1", true, false, json!({"a": {"type": "boolean"}})),
            ("v2", true, false, v2),
            ("v3", true, true, json!({})),
        ]);
        for version in 0..3 {
            let root = &mut document["spec"]["versions"][version]["schema"]["openAPIV3Schema"];
            root["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = true.into();
            if version == 2 {
                root["properties"]["spec"] = open.clone();
            }
        }
        document
    };
    let analysis = of(&with(json!({"a": {"type": "boolean"}})), &with(json!({"a": {"type": "string"}})));
    assert_eq!(said(&analysis), [(ChangeFieldType, Dangerous), (LossyVersion, Dangerous)]);
    let told = &analysis.changes[1].message;
    assert!(told.starts_with("v2 and v1 are served, and nothing converts (ChangeFieldType)"), "{told}");
}

#[test]
fn versions_that_disagree_in_a_new_definition_are_a_warning() {
    let disagreeing = pair(&json!({"a": {"type": "boolean"}}), &json!({"a": {"type": "string"}}));
    let new = |document: &Value| crate::crd::introduce(&Definition::from_value(document).unwrap());
    assert_eq!(said(&new(&disagreeing)), [(LossyVersion, Warning)]);
    assert!(new(&hooked(disagreeing)).changes.is_empty());
    assert!(new(&pair(&fields(&["a"]), &fields(&["a"]))).changes.is_empty());
}

#[test]
fn a_rollback_across_a_stored_version_is_blocked() {
    let one = versions(&[("v1", true, true, fields(&["a"]))]);
    let two = |storage: &str| {
        versions(&[
            ("v1", true, storage == "v1", fields(&["a"])),
            ("v2", true, storage == "v2", fields(&["a"])),
        ])
    };
    assert_eq!(of(&two("v1"), &one).verdict(), Dangerous, "v2 was served");
    assert_eq!(of(&two("v2"), &one).verdict(), Blocked, "v2 is stored");
    let mut recorded = two("v1");
    recorded["status"]["storedVersions"] = json!(["v1", "v2"]);
    let analysis = of(&recorded, &one);
    assert_eq!(said(&analysis), [(RemoveVersion, Blocked)]);
    assert!(analysis.changes[0].message.contains("status.storedVersions"), "{:?}", analysis.changes);
}

#[test]
fn order_and_defaults_of_the_server_are_no_change() {
    let mut old = versions(&[("v1", true, true, fields(&["a"])), ("v2", true, false, fields(&["a"]))]);
    old["spec"]["names"]["shortNames"] = json!(["a", "b"]);
    let mut new = versions(&[("v2", true, false, fields(&["a"])), ("v1", true, true, fields(&["a"]))]);
    new["spec"]["names"] = json!({"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList",
        "shortNames": ["b", "a"]});
    new["spec"]["conversion"] = json!({"strategy": "None"});
    new["spec"]["preserveUnknownFields"] = json!(false);
    new["spec"]["versions"][0]["deprecated"] = json!(false);
    let analysis = of(&old, &new);
    assert!(analysis.changes.is_empty(), "{:?}", analysis.changes);
}

#[test]
fn unknown_fields_of_every_part_are_said() {
    let old = hooked(definition(&json!({"type": "object"})));
    for pointer in ["/spec", "/spec/names", "/spec/conversion", "/spec/versions/0", "/spec/versions/0/schema"]
    {
        let mut new = old.clone();
        new.pointer_mut(pointer).unwrap()["surprise"] = json!(1);
        assert_eq!(said(&of(&old, &new)), [(Unhandled, Warning)], "{pointer}");
        assert_eq!(said(&of(&new, &old)), [(Unhandled, Warning)], "{pointer}");
    }
}

#[test]
fn what_is_no_definition_is_refused_by_name_and_path() {
    let good = definition(&json!({"type": "object"}));
    let with = |pointer: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        document
    };
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let rows = [
        (with("/kind", json!("Deployment")), "CrdInvalid", "widgets.example.com: `kind` is `Deployment`"),
        (json!([]), "CrdInvalid", "a definition without a name: `kind` is missing"),
        (
            with("/apiVersion", json!("apiextensions.k8s.io/v1beta1")),
            "CrdApiRemoved",
            "widgets.example.com: `apiVersion`",
        ),
        (with("/apiVersion", json!("v1")), "CrdInvalid", "widgets.example.com: `apiVersion` is `v1`"),
        (with("/spec", json!(5)), "CrdInvalid", "widgets.example.com: `spec` is not an object"),
        (
            with("/spec/versions", json!({})),
            "CrdInvalid",
            "widgets.example.com: `spec.versions` is not a list",
        ),
        (
            with("/spec/versions/0/name", json!("")),
            "CrdInvalid",
            "widgets.example.com: `spec.versions[0].name` is missing",
        ),
        (
            definition(&deep),
            "CrdTooLarge",
            "widgets.example.com: `spec.versions[0].schema.openAPIV3Schema.properties.spec",
        ),
        (
            with(
                "/spec/versions/0/schema/openAPIV3Schema",
                json!({"type": "object", "description": "x".repeat(5 << 20)}),
            ),
            "CrdTooLarge",
            "widgets.example.com: has 5243",
        ),
    ];
    for (document, reason, start) in rows {
        let error = Definition::from_value(&document).unwrap_err();
        assert!(error.to_string().starts_with(start), "{error}");
        assert_eq!(error.reason(), reason);
        assert!(error.to_string().len() < 600, "{error}");
    }
}

#[test]
fn what_the_server_would_not_create_is_refused_with_its_path() {
    let of = |spec: Value| admissible(&Definition::from_value(&definition(&spec)).unwrap());
    assert_eq!(of(json!({"type": "object"})), Ok(()));
    let error = of(json!({"properties": {"a": {"type": "string"}}})).unwrap_err();
    assert!(matches!(error, Error::NotStructural { .. }));
    assert_eq!(
        error.to_string(),
        "widgets.example.com: the schema is not structural: \
         `spec.versions[0].schema.openAPIV3Schema.properties.spec.type` is missing"
    );
    let error = of(json!({"type": "object", "$ref": "#/definitions/a"})).unwrap_err();
    assert_eq!((error.reason(), error.class()), ("CrdInvalid", crate::api::Class::FixSpec));
    assert!(error.to_string().contains("properties.spec.$ref`: it is not supported"), "{error}");
}

#[test]
fn what_the_old_one_has_already_is_not_blocked_again() {
    // Fixtures of other tools are often no complete definitions.
    let partial = |most: i64| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a"},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"a": {"maximum": most}}}}}]}})
    };
    assert_eq!(said(&of(&partial(5), &partial(4))), [(TightenValidation, Dangerous)]);
}

#[test]
fn a_large_definition_with_much_of_everything_ends_soon() {
    let field = |index: usize| {
        (
            format!("field{index}"),
            json!({"type": "string", "description": "x".repeat(60), "enum": ["a", "b"], "maxLength": 9}),
        )
    };
    let large: serde_json::Map<String, Value> = (0..12_000).map(field).collect();
    let branches: Vec<Value> =
        (0..6_000).map(|index| json!({"required": [format!("field{index}")]})).collect();
    let old = definition(&json!({"type": "object", "properties": large, "anyOf": branches}));
    let mut other = branches;
    other.reverse();
    other.truncate(5_000);
    let mut changed = large;
    changed.retain(|name, _| name.ends_with('7') || name.ends_with('8'));
    let new = definition(&json!({"type": "object", "properties": changed, "anyOf": other}));
    let (old, new) = (Definition::from_value(&old).unwrap(), Definition::from_value(&new).unwrap());
    let analysis = analyze(&old, &new);
    assert_eq!(analysis.changes.len(), 9_600 + 1_000);
}
