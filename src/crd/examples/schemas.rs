use serde_json::{Value, json};

use super::{Example, example, widget, with};
use crate::crd::Kind::*;
use crate::crd::Severity::*;
use crate::crd::{Kind, Severity};

/// The widget whose `spec` has this schema.
fn spec(schema: Value) -> Value {
    with(widget(), "/spec/versions/0/schema/openAPIV3Schema/properties/spec", schema)
}

/// The widget with these fields in its `spec`, of which some are required.
fn fields(fields: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": fields});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    spec(schema)
}

/// The widget with one field, `value`.
fn value(schema: Value) -> Value {
    fields(json!({"value": schema}), &[])
}

fn of(kind: Kind, severity: Severity, old: Value, new: Value) -> Example {
    example(kind, severity, value(old), value(new))
}

pub(super) fn examples() -> Vec<Example> {
    let mut all = field_rows();
    all.extend(value_rows());
    all.extend(shape_rows());
    all
}

fn field_rows() -> Vec<Example> {
    let size = || json!({"size": {"type": "integer"}});
    let both = |color: Value| json!({"size": {"type": "integer"}, "color": color});
    let text = || json!({"type": "string"});
    let defaulted = || json!({"type": "string", "default": "red"});
    let keeping = |mut schema: Value| {
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        spec(schema)
    };
    let object = |fields: Value| json!({"type": "object", "properties": fields});
    let meta = |present: bool| {
        let place = "/spec/versions/0/schema/openAPIV3Schema/properties/metadata";
        if present { with(widget(), place, json!({"type": "object"})) } else { widget() }
    };
    vec![
        example(AddOptionalField, Safe, fields(size(), &[]), fields(both(text()), &[])),
        example(AddOptionalField, Warning, keeping(object(size())), keeping(object(both(text())))),
        example(AddRequiredField, Dangerous, fields(size(), &[]), fields(both(text()), &["color"])),
        example(AddRequiredField, Safe, fields(size(), &[]), fields(both(defaulted()), &["color"])),
        example(MakeRequired, Dangerous, fields(both(text()), &[]), fields(both(text()), &["color"])),
        example(MakeRequired, Safe, fields(both(defaulted()), &[]), fields(both(defaulted()), &["color"])),
        example(MakeOptional, Safe, fields(both(text()), &["color"]), fields(both(text()), &[])),
        example(RemoveField, Dangerous, fields(both(text()), &[]), fields(size(), &[])),
        example(RemoveField, Warning, keeping(object(both(text()))), keeping(object(size()))),
        example(RemoveField, Safe, meta(true), meta(false)),
        example(RemoveRequiredField, Dangerous, fields(both(text()), &["color"]), fields(size(), &[])),
        example(
            RemoveRequiredField,
            Warning,
            keeping(json!({"type": "object", "properties": both(text()), "required": ["color"]})),
            keeping(object(size())),
        ),
        example(
            RemoveDefault,
            Dangerous,
            fields(both(defaulted()), &["color"]),
            fields(both(text()), &["color"]),
        ),
    ]
}

fn value_rows() -> Vec<Example> {
    let text = || json!({"type": "string"});
    let one_of = |values: &[&str]| json!({"type": "string", "enum": values});
    let default = |value: &str| json!({"type": "string", "default": value});
    let at_most = |length: u32| json!({"type": "string", "maxLength": length});
    let union = |own: bool| {
        let mut schema = json!({"type": "object", "properties": {"a": text(), "b": text()}});
        if own {
            schema["oneOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]);
        }
        schema
    };
    let pattern = |pattern: &str| json!({"type": "string", "pattern": pattern});
    vec![
        of(ChangeFieldType, Dangerous, text(), json!({"type": "integer"})),
        of(ChangeFieldType, Warning, json!({"type": "integer"}), json!({"type": "number"})),
        of(AddDefault, Warning, text(), default("red")),
        of(ChangeDefault, Warning, default("red"), default("blue")),
        of(RemoveDefault, Warning, default("red"), text()),
        of(AddEnumValue, Warning, one_of(&["red"]), one_of(&["red", "blue"])),
        of(RemoveEnumValue, Dangerous, one_of(&["red", "blue"]), one_of(&["red"])),
        of(TightenValidation, Dangerous, at_most(512), at_most(256)),
        of(RelaxValidation, Safe, at_most(256), at_most(512)),
        of(RelaxValidation, Warning, union(true), union(false)),
        of(ChangeValidation, Dangerous, pattern("^a"), pattern("^b")),
        of(AllowNull, Safe, text(), json!({"type": "string", "nullable": true})),
        of(ForbidNull, Dangerous, json!({"type": "string", "nullable": true}), text()),
        of(UpdateDescription, Safe, text(), json!({"type": "string", "description": "The color."})),
    ]
}

fn shape_rows() -> Vec<Example> {
    let open = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let closed = || json!({"type": "object"});
    let keeps = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let embedded = |keep: bool, on: bool| {
        let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        if keep {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        if on {
            schema["x-kubernetes-embedded-resource"] = json!(true);
        }
        schema
    };
    let list = |list_type: Option<&str>, keys: &[&str]| {
        let item = json!({"type": "object", "required": ["name", "zone"],
            "properties": {"name": {"type": "string"}, "zone": {"type": "string"}}});
        let mut schema = json!({"type": "array", "items": item});
        if let Some(list_type) = list_type {
            schema["x-kubernetes-list-type"] = json!(list_type);
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
        schema
    };
    let ruled = |rules: Value| json!({"type": "integer", "x-kubernetes-validations": rules});
    let rule = |text: &str, message: &str| json!([{"rule": text, "message": message}]);
    let number = || json!({"type": "integer"});
    vec![
        of(AddAdditionalProperties, Safe, closed(), open()),
        of(RemoveAdditionalProperties, Dangerous, open(), closed()),
        of(PreserveUnknownFields, Safe, closed(), keeps()),
        of(PruneUnknownFields, Dangerous, keeps(), closed()),
        of(AddEmbeddedResource, Dangerous, embedded(true, false), embedded(true, true)),
        of(RemoveEmbeddedResource, Warning, embedded(true, true), embedded(true, false)),
        of(RemoveEmbeddedResource, Dangerous, embedded(false, true), embedded(false, false)),
        of(ChangeListType, Dangerous, list(None, &[]), list(Some("map"), &["name"])),
        of(ChangeListMapKeys, Dangerous, list(Some("map"), &["name"]), list(Some("map"), &["name", "zone"])),
        of(ChangeMapType, Dangerous, closed(), json!({"type": "object", "x-kubernetes-map-type": "atomic"})),
        of(AddValidationRule, Dangerous, number(), ruled(rule("self > 0", "positive"))),
        of(AddValidationRule, Warning, number(), ruled(rule("self >= oldSelf", "grows only"))),
        of(RemoveValidationRule, Safe, ruled(rule("self > 0", "positive")), number()),
        of(
            ChangeValidationRule,
            Dangerous,
            ruled(rule("self > 0", "positive")),
            ruled(rule("self > 1", "more than one")),
        ),
        of(
            UpdateValidationMessage,
            Safe,
            ruled(rule("self > 0", "positive")),
            ruled(rule("self > 0", "must be positive")),
        ),
    ]
}
