//! Random definitions, and random changes of one keyword.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

pub(super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..300).prop_map(Value::from),
        (-10.0..10.0_f64).prop_map(Value::from),
        select(vec!["", "object", "string", "atomic", "map", "v1", "a"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let keys = super::super::schema::KEYWORDS
            .iter()
            .copied()
            .chain(["x-other", "served", "name"])
            .collect::<Vec<_>>();
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(select(keys).prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A schema as somebody might write one.
pub(super) fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (option(0..100), option(0..100), any::<bool>()).prop_map(|(min, max, open)| {
            keep(json!({"type": "integer", "minimum": min, "maximum": max, "exclusiveMaximum": open && max.is_some()}))
        }),
        (option(0..5), option(5..50), option_of(vec!["^a", "b$"]), option_of(vec!["date-time", "uri", "byte"])).prop_map(
            |(min, max, pattern, format)| keep(json!({
                "type": "string", "minLength": min, "maxLength": max, "pattern": pattern, "format": format
            }))
        ),
        proptest::collection::btree_set(select(vec!["a", "b", "c"]), 1..3)
            .prop_map(|values| json!({"type": "string", "enum": values})),
        Just(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        Just(json!({"type": "boolean", "default": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let names = select(vec!["a", "b", "c", "d", "e.f"]).prop_map(str::to_owned);
        prop_oneof![
            3 => (proptest::collection::btree_map(names, inner.clone(), 1..4), any::<bool>(), any::<bool>()).prop_map(
                |(fields, required, union)| {
                    let names: Vec<String> = fields.keys().cloned().collect();
                    let mut schema = json!({"type": "object", "properties": fields});
                    if required {
                        schema["required"] = json!([names[0]]);
                    }
                    if union {
                        schema["oneOf"] = names.iter().map(|name| json!({"required": [name]})).collect();
                        schema["x-kubernetes-validations"] = json!([{"rule": "has(self.a)", "message": "a"}]);
                    }
                    schema
                }
            ),
            1 => inner.clone().prop_map(|items| json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})),
            1 => inner.prop_map(|rest| json!({"type": "object", "additionalProperties": rest})),
        ]
    })
}

fn option(range: std::ops::Range<i64>) -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(range)
}

fn option_of(values: Vec<&'static str>) -> impl Strategy<Value = Option<&'static str>> {
    proptest::option::of(select(values))
}

/// Without what is null.
fn keep(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    value
}

/// A keyword and values that it may have.
#[expect(clippy::too_many_lines, reason = "a table: each keyword, and values that it may have")]
pub(super) fn any_keyword() -> impl Strategy<Value = (&'static str, Value)> {
    let rows: Vec<(&'static str, Vec<Value>)> = vec![
        ("type", vec![json!("string"), json!("object"), json!("integer"), json!("number"), json!("array")]),
        ("format", vec![json!("int32"), json!("int64"), json!("uri"), json!("other")]),
        ("title", vec![json!("a"), json!("b")]),
        ("description", vec![json!("a"), json!("b")]),
        ("example", vec![json!({"a": 1}), json!(2)]),
        ("externalDocs", vec![json!({"url": "https://example.com"})]),
        ("default", vec![json!(1), json!("a"), json!({})]),
        ("enum", vec![json!(["a"]), json!(["a", "b"]), json!([1, 2])]),
        ("nullable", vec![json!(true)]),
        ("pattern", vec![json!("^a"), json!("^b")]),
        ("minimum", vec![json!(3), json!(4.5)]),
        ("exclusiveMinimum", vec![json!(true)]),
        ("maximum", vec![json!(30), json!(45.5)]),
        ("exclusiveMaximum", vec![json!(true)]),
        ("multipleOf", vec![json!(2), json!(3), json!(4)]),
        ("minLength", vec![json!(1), json!(2)]),
        ("maxLength", vec![json!(1), json!(20)]),
        ("minItems", vec![json!(1), json!(2)]),
        ("maxItems", vec![json!(1), json!(20)]),
        ("uniqueItems", vec![json!(true)]),
        ("minProperties", vec![json!(1), json!(2)]),
        ("maxProperties", vec![json!(1), json!(20)]),
        ("required", vec![json!(["a"]), json!(["a", "b"]), json!(["z"])]),
        (
            "properties",
            vec![
                json!({"a": {"type": "string"}}),
                json!({"z": {"type": "integer"}, "a": {"type": "object"}}),
            ],
        ),
        (
            "additionalProperties",
            vec![json!(true), json!(false), json!({"type": "string"}), json!({"type": "integer"})],
        ),
        ("items", vec![json!({"type": "string"}), json!({"type": "object"})]),
        ("allOf", vec![json!([{"maxLength": 3}]), json!([{"maxLength": 4}, {"minLength": 1}])]),
        ("anyOf", vec![json!([{"maxLength": 3}]), json!([{"required": ["a"]}, {"required": ["b"]}])]),
        ("oneOf", vec![json!([{"maxLength": 3}]), json!([{"required": ["a"]}, {"required": ["b"]}])]),
        ("not", vec![json!({"maxLength": 3}), json!({"required": ["a"]}), json!({"enum": ["a"]})]),
        ("x-kubernetes-preserve-unknown-fields", vec![json!(true)]),
        ("x-kubernetes-embedded-resource", vec![json!(true)]),
        ("x-kubernetes-int-or-string", vec![json!(true)]),
        ("x-kubernetes-list-type", vec![json!("set"), json!("map")]),
        ("x-kubernetes-list-map-keys", vec![json!(["a"]), json!(["a", "b"])]),
        ("x-kubernetes-map-type", vec![json!("atomic")]),
        (
            "x-kubernetes-validations",
            vec![
                json!([{"rule": "self > 0"}]),
                json!([{"rule": "self > 0", "message": "m"}, {"rule": "self < oldSelf"}]),
            ],
        ),
    ];
    assert_eq!(rows.len(), super::super::schema::KEYWORDS.len());
    let all: Vec<(&'static str, Value)> = rows
        .into_iter()
        .flat_map(|(keyword, values)| {
            values.into_iter().chain([Value::Null]).map(move |value| (keyword, value))
        })
        .collect();
    select(all)
}

/// The places of all schemas in a schema, as JSON pointers.
pub(super) fn places(schema: &Value) -> Vec<String> {
    fn walk(schema: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.to_owned());
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            walk(field, &format!("{at}/properties/{name}"), out);
        }
        for keyword in ["items", "additionalProperties", "not"] {
            if schema[keyword].is_object() {
                walk(&schema[keyword], &format!("{at}/{keyword}"), out);
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (index, branch) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                walk(branch, &format!("{at}/{keyword}/{index}"), out);
            }
        }
    }
    let mut out = Vec::new();
    walk(schema, "", &mut out);
    out
}

pub(super) fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
            }],
        },
    })
}
