//! Structural: every field is described once, outside of `allOf` and the like, and has a type.

use serde_json::{Map, Value};

use super::{Refusals, pattern};
use crate::crd::path::key;
use crate::crd::same::{is_int_or_string_idiom, said};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

pub(super) fn check(schema: &Map<String, Value>, root: &str, out: &mut Refusals) {
    walk(schema, root, Level::Root, out);
}

fn walk(schema: &Map<String, Value>, path: &str, level: Level, out: &mut Refusals) {
    let of = said(schema, "type").and_then(Value::as_str).unwrap_or_default();
    let is = |keyword: &str| said(schema, keyword).is_some();
    let place = |keyword: &str| format!("{path}.{keyword}");
    if of == "array" && schema.get("items").and_then(Value::as_object).is_none() {
        out.not_structural(&place("items"), "is missing");
    }
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        walk(items, &place("items"), Level::Item, out);
    }
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        // The server reads null as a schema that says nothing.
        let empty = Map::new();
        let field = field.as_object().unwrap_or(&empty);
        walk(field, &format!("{path}.properties{}", key(name)), Level::Field, out);
    }
    let rest = said(schema, "additionalProperties");
    if rest.is_some() && level == Level::Root {
        out.not_structural(&place("additionalProperties"), "must not stand at the root");
    }
    if let Some(rest) = rest.and_then(Value::as_object) {
        walk(rest, &place("additionalProperties"), Level::Field, out);
    }
    if is(INT_OR_STRING) && is(PRESERVE) {
        out.not_structural(&place(PRESERVE), "must not be true beside x-kubernetes-int-or-string");
    }
    if is(INT_OR_STRING) && is(EMBEDDED) {
        out.not_structural(&place(EMBEDDED), "must not be true beside x-kubernetes-int-or-string");
    }
    // The server looks for the description outside of them only from the root downwards.
    junctors(schema, (level == Level::Root).then_some(schema), path, out);
    if is(EMBEDDED) && of != "object" {
        out.not_structural(&place("type"), "must be object, because of x-kubernetes-embedded-resource");
    } else if of.is_empty() && !is(INT_OR_STRING) && !is(PRESERVE) {
        out.not_structural(&place("type"), "is missing");
    } else if level == Level::Root && !of.is_empty() && of != "object" {
        out.not_structural(&place("type"), "must be object at the root");
    }
    if is(EMBEDDED) && rest.is_some() {
        out.not_structural(&place("additionalProperties"), "must not be set in an embedded resource");
    }
    if is(EMBEDDED) && !is(PRESERVE) && fields.is_none_or(Map::is_empty) {
        out.not_structural(
            &place("properties"),
            "is missing, and it is an embedded resource without unknown fields",
        );
    }
    if level == Level::Root || is(EMBEDDED) {
        whole(fields, path, level, out);
    }
}

/// What may be said of the fields that every object has.
fn whole(fields: Option<&Map<String, Value>>, path: &str, level: Level, out: &mut Refusals) {
    let Some(fields) = fields else { return };
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(field) = fields.get(name) else { continue };
        if field.get("type").and_then(Value::as_str) != Some(wanted) {
            out.not_structural(&format!("{path}.properties.{name}.type"), format!("must be {wanted}"));
        }
    }
    let Some(metadata) = fields.get("metadata").and_then(Value::as_object).filter(|_| level == Level::Root)
    else {
        return;
    };
    let names = |field: &str| ["name", "generateName"].contains(&field);
    let extra = metadata.iter().find(|(keyword, _)| match keyword.as_str() {
        // Defaults are refused elsewhere; an example or a link says nothing of the field.
        "type" | "default" => false,
        "properties" => {
            let fields = said(metadata, "properties").and_then(Value::as_object);
            fields.is_some_and(|fields| fields.keys().any(|field| !names(field)))
        }
        keyword => said(metadata, keyword).is_some() && crate::crd::schema::KEYWORDS.contains(&keyword),
    });
    if let Some((keyword, _)) = extra {
        let problem = "must not be set: of metadata only name and generateName can be described";
        out.not_structural(&format!("{path}.properties.metadata.{keyword}"), problem);
    }
}

/// `allOf`, `anyOf`, `oneOf`, `not` and `pattern` of a schema; `frame` is the schema outside of them that describes the
/// same value, where one is needed.
fn junctors(schema: &Map<String, Value>, frame: Option<&Map<String, Value>>, path: &str, out: &mut Refusals) {
    for word in ["allOf", "anyOf", "oneOf"] {
        let Some(branches) = said(schema, word) else { continue };
        if word == "anyOf" && is_int_or_string_idiom(branches) {
            continue;
        }
        for (index, branch) in branches.as_array().into_iter().flatten().enumerate() {
            let Some(branch) = branch.as_object() else { continue };
            let path = format!("{path}.{word}[{index}]");
            let idiom =
                word == "allOf" && index == 0 && branch.get("anyOf").is_some_and(is_int_or_string_idiom);
            nested(branch, frame, &path, idiom, out);
        }
    }
    if let Some(inner) = said(schema, "not").and_then(Value::as_object) {
        nested(inner, frame, &format!("{path}.not"), false, out);
    }
    if let Some(text) = said(schema, "pattern").and_then(Value::as_str)
        && !pattern::is_plausible(text)
    {
        out.refuse(&format!("{path}.pattern"), "is no regular expression of Go");
    }
}

/// A schema below `allOf` and the like: it may only say which values are valid.
fn nested(
    schema: &Map<String, Value>,
    frame: Option<&Map<String, Value>>,
    path: &str,
    idiom: bool,
    out: &mut Refusals,
) {
    if idiom {
        let mut rest = schema.clone();
        rest.remove("anyOf");
        junctors(&rest, frame, path, out);
    } else {
        nested_junctors(schema, frame, path, out);
    }
    describes_nothing(schema, path, out);
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        let place = format!("{path}.properties{}", key(name));
        if name == "metadata" {
            out.not_structural(&place, "must not be described below allOf, anyOf, oneOf or not");
        }
        let outside = frame.map(|frame| {
            frame.get("properties").and_then(|fields| fields.get(name)).and_then(Value::as_object)
        });
        if outside == Some(None) {
            out.not_structural(&place, "must also be described outside of allOf, anyOf, oneOf and not");
        }
        if let Some(field) = field.as_object() {
            nested(field, outside.flatten(), &place, false, out);
        }
    }
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        let place = format!("{path}.items");
        let outside = frame.map(|frame| frame.get("items").and_then(Value::as_object));
        if outside == Some(None) {
            out.not_structural(&place, "must also be described outside of allOf, anyOf, oneOf and not");
        }
        nested(items, outside.flatten(), &place, false, out);
    }
}

/// Refuses what says how a field looks: that is said once, outside of `allOf` and the like.
fn describes_nothing(schema: &Map<String, Value>, path: &str, out: &mut Refusals) {
    let problem = "must not be set below allOf, anyOf, oneOf or not";
    for keyword in [
        "type",
        "default",
        "title",
        "description",
        "nullable",
        PRESERVE,
        EMBEDDED,
        INT_OR_STRING,
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
    ] {
        if said(schema, keyword).is_some() {
            out.not_structural(&format!("{path}.{keyword}"), problem);
        }
    }
    for keyword in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if schema.get(keyword).is_some_and(|value| !value.is_null()) {
            out.not_structural(&format!("{path}.{keyword}"), problem);
        }
    }
    if said(schema, "additionalProperties").is_some_and(|rest| rest != &Value::Bool(false)) {
        out.not_structural(&format!("{path}.additionalProperties"), problem);
    }
}

/// Only the `anyOf` of a whole schema, or of its first `allOf`, may name the two types.
fn nested_junctors(
    schema: &Map<String, Value>,
    frame: Option<&Map<String, Value>>,
    path: &str,
    out: &mut Refusals,
) {
    match said(schema, "anyOf") {
        Some(branches) if is_int_or_string_idiom(branches) => {
            for index in 0..2 {
                let problem = "must not be set below allOf, anyOf, oneOf or not";
                out.not_structural(&format!("{path}.anyOf[{index}].type"), problem);
            }
            junctors(schema, frame, path, out);
        }
        _ => junctors(schema, frame, path, out),
    }
}
