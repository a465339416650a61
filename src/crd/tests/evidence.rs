//! What existing objects say.

use serde_json::{Value, json};

use super::random::definition;
use crate::crd::{Analysis, Definition, Evidence, Severity, analyze, check};

fn object(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"namespace": "apps", "name": name}, "spec": spec})
}

/// The change of the one field `value`, and what objects with these values say.
fn weighed(old: Value, new: Value, values: &[Value], complete: bool) -> Analysis {
    let of = |schema: Value| {
        let spec = if schema.is_null() {
            json!({"type": "object"})
        } else {
            json!({"type": "object", "properties": {"value": schema}})
        };
        Definition::from_value(&definition(&spec)).unwrap()
    };
    let (old, new) = (of(old), of(new));
    let analysis = analyze(&old, &new);
    let mut evidence = Evidence::new(&analysis);
    for (index, value) in values.iter().enumerate() {
        let spec = if value.is_null() { json!({}) } else { json!({"value": value}) };
        evidence.add(&old, &new, &object(&format!("w{index}"), spec));
    }
    let evidence = if complete { evidence.complete() } else { evidence };
    evidence.weigh(analysis)
}

fn one(analysis: &Analysis) -> (Severity, &str) {
    assert_eq!(analysis.changes.len(), 1, "{:?}", analysis.changes);
    (analysis.changes[0].severity, &analysis.changes[0].message)
}

#[test]
fn a_bound_that_objects_exceed_names_the_first_of_them() {
    let at_most = |most: i64| json!({"type": "integer", "maximum": most});
    let analysis = weighed(at_most(9), at_most(5), &[json!(3), json!(7), json!(8)], true);
    let (severity, message) = one(&analysis);
    assert_eq!(severity, Severity::Dangerous);
    assert!(
        message.ends_with("(breaks 2 of 3, first apps/w1 at .spec.value: is above the maximum 5)"),
        "{message}"
    );
}

#[test]
fn what_concerns_nobody_is_a_warning() {
    let at_most = |most: i64| json!({"type": "integer", "maximum": most});
    let rows = [
        (at_most(9), at_most(5), vec![json!(3)]),
        (at_most(9), at_most(5), vec![]),
        (json!({"type": "string"}), Value::Null, vec![Value::Null]),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "enum": ["a"]}),
            vec![json!("a")],
        ),
        (json!({"type": "string"}), json!({"type": "integer"}), vec![Value::Null, Value::Null]),
    ];
    for (old, new, values) in rows {
        let analysis = weighed(old, new, &values, true);
        let (severity, message) = one(&analysis);
        assert_eq!(severity, Severity::Warning, "{message}");
        let wanted = if values.is_empty() { "(there are no objects)" } else { "(concerns none of " };
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn a_field_that_is_used_loses_data() {
    let analysis = weighed(json!({"type": "string"}), Value::Null, &[Value::Null, json!("x")], true);
    let (severity, message) = one(&analysis);
    assert_eq!(severity, Severity::Dangerous);
    assert!(message.ends_with("(loses data of 1 of 2, first apps/w1 at .spec.value)"), "{message}");
}

#[test]
fn a_walk_that_did_not_end_makes_nothing_harmless() {
    let at_most = |most: i64| json!({"type": "integer", "maximum": most});
    let analysis = weighed(at_most(9), at_most(5), &[json!(3)], false);
    let (severity, message) = one(&analysis);
    assert_eq!(severity, Severity::Dangerous);
    assert!(message.contains("not all objects could be read"), "{message}");
}

#[test]
fn what_cannot_be_judged_is_not_judged() {
    let ruled = |rule: &str| json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
    let rows = [
        (json!({"type": "integer"}), ruled("self > 5")),
        (ruled("self > 0"), ruled("self > 5")),
        (json!({"type": "string"}), json!({"type": "string", "format": "uri"})),
        (json!({"type": "string", "format": "email"}), json!({"type": "string", "format": "uri"})),
    ];
    for (old, new) in rows {
        let value = if old["type"] == "integer" { json!(7) } else { json!("a") };
        let analysis = weighed(old, new, &[value], true);
        let (severity, message) = one(&analysis);
        assert_eq!(severity, Severity::Dangerous);
        assert!(message.contains("cannot be told for 1 of 1"), "{message}");
    }
}

#[test]
fn an_unchanged_rule_does_not_hide_what_can_be_judged() {
    let schema = |most: i64| json!({"type": "integer", "maximum": most, "x-kubernetes-validations": [{"rule": "self > 0"}]});
    let analysis = weighed(schema(9), schema(5), &[json!(3)], true);
    assert_eq!(one(&analysis).0, Severity::Warning);
}

#[test]
fn an_object_that_was_not_valid_before_is_no_evidence() {
    let analysis = weighed(
        json!({"type": "string", "pattern": "^a"}),
        json!({"type": "string", "pattern": "^a", "maxLength": 3}),
        &[json!("bbb")],
        true,
    );
    assert_eq!(one(&analysis).0, Severity::Warning);
}

#[test]
fn a_warning_becomes_dangerous_when_objects_are_concerned() {
    let keeping = |fields: Value| {
        definition(
            &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": fields}),
        )
    };
    let old = Definition::from_value(&keeping(json!({}))).unwrap();
    let new = Definition::from_value(&keeping(json!({"color": {"type": "string"}}))).unwrap();
    let analysis = analyze(&old, &new);
    assert_eq!(analysis.verdict(), Severity::Warning);
    let mut evidence = Evidence::new(&analysis);
    assert!(evidence.is_wanted());
    evidence.add(&old, &new, &object("w", json!({"color": 5})));
    let analysis = evidence.complete().weigh(analysis);
    assert_eq!(analysis.verdict(), Severity::Dangerous, "{:?}", analysis.changes);
}

#[test]
fn blocked_and_safe_are_not_for_objects_to_decide() {
    for example in crate::crd::examples() {
        if matches!(example.severity, Severity::Blocked | Severity::Safe) {
            let old = Definition::from_value(&example.old).unwrap();
            let new = Definition::from_value(&example.new).unwrap();
            let analysis = analyze(&old, &new);
            let evidence = Evidence::new(&analysis).complete();
            assert_eq!(evidence.weigh(analysis.clone()).verdict(), analysis.verdict(), "{}", example.kind);
        }
    }
}

#[test]
fn the_first_paths_are_found_in_lists_and_maps() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["name"], "properties": {
            "ports": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer", "maximum": 9}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}},
            "either": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "any": {"x-kubernetes-int-or-string": true},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        }}
    }});
    let object = object(
        "w",
        json!({
            "ports": [{"port": 1}, {"port": 10, "name": "x"}], "labels": {"a.b": "long", "c": "d"},
            "either": {"a": "1", "b": "2"}, "any": true, "tags": ["a", "b", "a"], "more": 1,
        }),
    );
    let fit = check(schema.as_object().unwrap(), &object);
    let refused: Vec<String> = fit.refused.iter().map(|(place, why)| format!("{place} {why}")).collect();
    assert_eq!(
        refused,
        [
            ".spec.name is required",
            ".spec.any must be of type integer or string",
            ".spec.either fits several cases of oneOf",
            ".spec.labels[\"a.b\"] has more than maxLength",
            ".spec.ports[1].port is above the maximum 9",
            ".spec.tags[2] is there twice",
        ]
    );
    let pruned: Vec<String> = fit.pruned.iter().map(ToString::to_string).collect();
    assert_eq!(pruned, [".spec.more", ".spec.ports[1].name"]);
}
