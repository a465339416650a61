//! One keyword at a time, there and back.

use serde_json::{Value, json};

use super::of;
use super::random::definition;
use crate::crd::Kind::*;
use crate::crd::Severity::*;
use crate::crd::{Kind, Severity};

type Said = (Kind, Severity);

fn said(old: &Value, new: &Value) -> Vec<Said> {
    let value = |schema: &Value| definition(&json!({"type": "object", "properties": {"value": schema}}));
    let analysis = of(&value(old), &value(new));
    // What the server refuses besides is another matter.
    let changes = analysis.changes.into_iter().filter(|change| change.kind != RefusedByServer);
    changes.map(|change| (change.kind, change.severity)).collect()
}

const TIGHTER: &[Said] = &[(TightenValidation, Dangerous)];
const LOOSER: &[Said] = &[(RelaxValidation, Safe)];
const OTHER: &[Said] = &[(ChangeValidation, Dangerous)];
const NONE: &[Said] = &[];

#[test]
#[expect(clippy::too_many_lines, reason = "a table: each keyword, there and back")]
fn every_keyword_is_judged_there_and_back() {
    let rows: &[(Value, Value, &[Said], &[Said])] = &[
        // Bounds: the second is the stricter one.
        (json!({"type": "integer"}), json!({"type": "integer", "minimum": 1}), TIGHTER, LOOSER),
        (json!({"type": "integer", "minimum": 1}), json!({"type": "integer", "minimum": 2}), TIGHTER, LOOSER),
        (json!({"type": "number", "minimum": 1}), json!({"type": "number", "minimum": 1.5}), TIGHTER, LOOSER),
        (
            json!({"type": "number", "minimum": 1}),
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
            TIGHTER,
            LOOSER,
        ),
        (json!({"type": "integer", "maximum": 2}), json!({"type": "integer", "maximum": 1}), TIGHTER, LOOSER),
        (
            json!({"type": "number", "maximum": 1}),
            json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "number", "maximum": 5, "exclusiveMaximum": true}),
            json!({"type": "number", "maximum": 4}),
            TIGHTER,
            LOOSER,
        ),
        (json!({"type": "integer"}), json!({"type": "integer", "multipleOf": 2}), TIGHTER, LOOSER),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!({"type": "integer", "multipleOf": 4}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!({"type": "integer", "multipleOf": 3}),
            OTHER,
            OTHER,
        ),
        (json!({"type": "string"}), json!({"type": "string", "minLength": 1}), TIGHTER, LOOSER),
        (json!({"type": "string"}), json!({"type": "string", "maxLength": 1}), TIGHTER, LOOSER),
        (
            json!({"type": "string", "maxLength": 2}),
            json!({"type": "string", "maxLength": 1}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({"type": "object", "minProperties": 2}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "object", "maxProperties": 2}),
            json!({"type": "object", "maxProperties": 1}),
            TIGHTER,
            LOOSER,
        ),
        (list(json!({"minItems": 1})), list(json!({"minItems": 2})), TIGHTER, LOOSER),
        (list(json!({"maxItems": 2})), list(json!({"maxItems": 1})), TIGHTER, LOOSER),
        (list(json!({})), list(json!({"uniqueItems": true})), TIGHTER, LOOSER),
        (json!({"type": "string"}), json!({"type": "string", "pattern": "^a"}), TIGHTER, LOOSER),
        (
            json!({"type": "string", "pattern": "^b"}),
            json!({"type": "string", "pattern": "^a"}),
            OTHER,
            OTHER,
        ),
        (json!({"type": "string"}), json!({"type": "string", "format": "uri"}), TIGHTER, LOOSER),
        (
            json!({"type": "integer", "format": "int64"}),
            json!({"type": "integer", "format": "int32"}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "string", "format": "uri"}),
            json!({"type": "string", "format": "email"}),
            OTHER,
            OTHER,
        ),
        (json!({"type": "string"}), json!({"type": "string", "enum": ["a"]}), TIGHTER, LOOSER),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "enum": ["a"]}),
            &[(RemoveEnumValue, Dangerous)],
            &[(AddEnumValue, Warning)],
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "enum": ["a", "c"]}),
            &[(RemoveEnumValue, Dangerous), (AddEnumValue, Warning)],
            &[(RemoveEnumValue, Dangerous), (AddEnumValue, Warning)],
        ),
        // Junctors.
        (cases("allOf", &[]), cases("allOf", &["a"]), TIGHTER, LOOSER),
        (cases("allOf", &["a"]), cases("allOf", &["a", "b"]), TIGHTER, LOOSER),
        (cases("anyOf", &[]), cases("anyOf", &["a"]), TIGHTER, LOOSER),
        (cases("anyOf", &["a", "b"]), cases("anyOf", &["a"]), TIGHTER, LOOSER),
        (cases("oneOf", &[]), cases("oneOf", &["a"]), TIGHTER, &[(RelaxValidation, Warning)]),
        (cases("oneOf", &["a", "b"]), cases("oneOf", &["a"]), TIGHTER, OTHER),
        (json!({"type": "string"}), json!({"type": "string", "not": {"maxLength": 3}}), TIGHTER, LOOSER),
        (
            json!({"type": "string", "not": {"maxLength": 3}}),
            json!({"type": "string", "not": {"maxLength": 4}}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "string", "anyOf": [{"maxLength": 3}, {"pattern": "a"}]}),
            json!({"type": "string", "anyOf": [{"maxLength": 2}, {"pattern": "a"}]}),
            TIGHTER,
            LOOSER,
        ),
        (
            json!({"type": "string", "oneOf": [{"maxLength": 3}, {"pattern": "a"}]}),
            json!({"type": "string", "oneOf": [{"maxLength": 2}, {"pattern": "a"}]}),
            OTHER,
            OTHER,
        ),
        // Types.
        (
            of_type("string"),
            of_type("integer"),
            &[(ChangeFieldType, Dangerous)],
            &[(ChangeFieldType, Dangerous)],
        ),
        (
            of_type("integer"),
            of_type("number"),
            &[(ChangeFieldType, Warning)],
            &[(ChangeFieldType, Dangerous)],
        ),
        (
            of_type("string"),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            &[(ChangeFieldType, Warning)],
            &[(ChangeFieldType, Dangerous)],
        ),
        (
            of_type("object"),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            &[(ChangeFieldType, Warning), (PreserveUnknownFields, Safe)],
            &[(ChangeFieldType, Dangerous), (PruneUnknownFields, Dangerous)],
        ),
        // Null and defaults.
        (
            of_type("string"),
            json!({"type": "string", "nullable": true}),
            &[(AllowNull, Safe)],
            &[(ForbidNull, Dangerous)],
        ),
        (
            of_type("string"),
            json!({"type": "string", "default": "a"}),
            &[(AddDefault, Warning)],
            &[(RemoveDefault, Warning)],
        ),
        (
            json!({"type": "string", "default": "b"}),
            json!({"type": "string", "default": "a"}),
            &[(ChangeDefault, Warning)],
            &[(ChangeDefault, Warning)],
        ),
        // Maps.
        (
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": true}),
            &[(AddAdditionalProperties, Safe)],
            &[(RemoveAdditionalProperties, Dangerous)],
        ),
        (
            map(of_type("integer")),
            map(of_type("string")),
            &[(ChangeFieldType, Dangerous)],
            &[(ChangeFieldType, Dangerous)],
        ),
        (map(of_type("string")), json!({"type": "object", "additionalProperties": true}), LOOSER, TIGHTER),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            map(of_type("string")),
            &[(RemoveField, Warning), (AddAdditionalProperties, Safe)],
            &[(AddOptionalField, Safe), (RemoveAdditionalProperties, Dangerous)],
        ),
        // What means nothing.
        (
            of_type("string"),
            json!({"type": "string", "nullable": false, "minLength": 0, "description": ""}),
            NONE,
            NONE,
        ),
        (json!({"type": "integer", "maximum": 1}), json!({"type": "integer", "maximum": 1.0}), NONE, NONE),
        (list(json!({})), list(json!({"x-kubernetes-list-type": "atomic"})), NONE, NONE),
        (
            json!({"type": "object"}),
            json!({"type": "object", "x-kubernetes-map-type": "granular", "required": []}),
            NONE,
            NONE,
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "enum": ["b", "a", "a"]}),
            NONE,
            NONE,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            NONE,
            NONE,
        ),
    ];
    for (old, new, there, back) in rows {
        assert_eq!(said(old, new), *there, "{old} to {new}");
        assert_eq!(said(new, old), *back, "{new} to {old}");
    }
}

fn of_type(name: &str) -> Value {
    json!({"type": name})
}

fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn list(mut more: Value) -> Value {
    more["type"] = "array".into();
    more["items"] = of_type("string");
    more
}

fn cases(word: &str, names: &[&str]) -> Value {
    let mut schema =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    if !names.is_empty() {
        schema[word] = names.iter().map(|name| json!({"required": [name]})).collect();
    }
    schema
}

#[test]
fn a_required_field_below_a_new_optional_parent_is_fine() {
    let parent = json!({"type": "object", "properties": {"p": {
        "type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 3}}
    }}});
    assert_eq!(said(&json!({"type": "object"}), &parent), [(AddOptionalField, Safe)]);
}

#[test]
fn a_required_field_of_a_parent_without_fields_is_seen() {
    let new = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}});
    assert_eq!(said(&json!({"type": "object"}), &new), [(AddRequiredField, Dangerous)]);
    let items = |item: &Value| json!({"type": "array", "items": item});
    assert_eq!(said(&items(&json!({"type": "object"})), &items(&new)), [(AddRequiredField, Dangerous)]);
}

#[test]
fn a_union_may_get_a_case_for_a_new_field() {
    let union = |names: &[&str]| {
        let fields: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), of_type("string"))).collect();
        let cases: Vec<Value> = names.iter().map(|name| json!({"required": [name]})).collect();
        json!({"type": "object", "properties": fields, "oneOf": cases})
    };
    let there = said(&union(&["a", "b"]), &union(&["a", "b", "c"]));
    assert_eq!(there, [(AddOptionalField, Safe), (RelaxValidation, Safe)]);
    let back = said(&union(&["a", "b", "c"]), &union(&["a", "b"]));
    assert_eq!(back, [(RemoveField, Dangerous), (TightenValidation, Dangerous)]);
}

#[test]
fn rules_are_told_apart_by_their_text() {
    let ruled = |rules: Value| json!({"type": "integer", "x-kubernetes-validations": rules});
    let one = json!({"rule": "self > 0", "message": "a"});
    let two = json!({"rule": "self < 9"});
    assert_eq!(said(&ruled(json!([one, two])), &ruled(json!([two, one]))), NONE);
    assert_eq!(said(&ruled(json!([one])), &ruled(json!([two, one]))), [(AddValidationRule, Dangerous)]);
    assert_eq!(said(&ruled(json!([one, two])), &ruled(json!([one]))), [(RemoveValidationRule, Safe)]);
    let optional = json!({"rule": "self >= oldSelf.orValue(0)", "optionalOldSelf": true});
    assert_eq!(said(&ruled(json!([one])), &ruled(json!([one, optional]))), [(AddValidationRule, Dangerous)]);
}
