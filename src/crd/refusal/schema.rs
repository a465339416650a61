use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Refusals, defaults, structural};
use crate::crd::keywords::wanted;
use crate::crd::path::key;
use crate::crd::same::said;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What may stand at the root beside the status subresource.
const AT_ROOT: &[&str] = &[
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const UNSUPPORTED: &[&str] =
    &["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"];

/// What a place in a schema inherits from those above it.
#[derive(Clone, Copy, Default)]
pub(super) struct Inside<'s> {
    /// Why no default may stand here.
    pub(super) no_default: Option<&'s str>,
    /// The metadata of a whole object.
    pub(super) meta: bool,
}

pub(super) fn check(schema: &Map<String, Value>, subresources: Option<&Value>, out: &mut Refusals) {
    let root = ".schema.openAPIV3Schema";
    if subresources.and_then(|all| all.get("status")).is_some_and(|status| !status.is_null()) {
        at_root(schema, root, out);
    }
    if said(schema, "nullable").is_some() {
        out.refuse(&format!("{root}.nullable"), "must not be true at the root");
    }
    let before = out.found.len();
    walk(schema, root, true, Inside::default(), out);
    structural::check(schema, root, out);
    // Defaults are looked at when everything else is as it should be.
    if out.found.len() == before {
        defaults::check(schema, root, out);
    }
}

fn at_root(schema: &Map<String, Value>, root: &str, out: &mut Refusals) {
    if said(schema, "type").is_none_or(|of| of != "object") {
        out.refuse(&format!("{root}.type"), "must be object, because there is a status subresource");
    }
    for (keyword, value) in schema {
        let known = crate::crd::schema::KEYWORDS.contains(&keyword.as_str());
        let empty = value.is_null() || value == &Value::Bool(false) || said(schema, keyword).is_none();
        let kubernetes = ["x-kubernetes-list-type", "x-kubernetes-map-type"].contains(&keyword.as_str());
        if known && !AT_ROOT.contains(&keyword.as_str()) && (!empty || kubernetes) {
            out.refuse(
                &format!("{root}.{keyword}"),
                "must not stand at the root beside a status subresource",
            );
        }
    }
}

/// Every schema, also below `allOf` and the like.
fn walk(schema: &Map<String, Value>, path: &str, is_root: bool, inside: Inside<'_>, out: &mut Refusals) {
    for (keyword, value) in schema {
        if let Some(wanted) = wanted(keyword, value) {
            out.refuse(&format!("{path}.{keyword}"), format!("must be {wanted}"));
        }
    }
    one(schema, path, inside, out);
    merging(schema, path, out);
    rules(schema, path, out);
    let child = |key: &str| schema.get(key).and_then(Value::as_object);
    for (name, inner) in child("properties").into_iter().flatten() {
        let Some(inner) = inner.as_object() else { continue };
        let whole = is_root || said(schema, "x-kubernetes-embedded-resource").is_some();
        let mut below = inside;
        if whole && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
            below.meta = true;
            if is_root {
                below.no_default = Some("in the metadata of the object");
            }
        }
        walk(inner, &format!("{path}.properties{}", key(name)), false, below, out);
    }
    if let Some(inner) = child("additionalProperties") {
        let mut below = inside;
        if inside.meta {
            below.no_default = Some("inside of metadata");
        }
        walk(inner, &format!("{path}.additionalProperties"), false, below, out);
    }
    for keyword in ["items", "not"] {
        if let Some(inner) = child(keyword) {
            walk(inner, &format!("{path}.{keyword}"), false, inside, out);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(keyword).and_then(Value::as_array);
        for (index, inner) in branches.into_iter().flatten().enumerate() {
            if let Some(inner) = inner.as_object() {
                walk(inner, &format!("{path}.{keyword}[{index}]"), false, inside, out);
            }
        }
    }
}

fn one(schema: &Map<String, Value>, path: &str, inside: Inside<'_>, out: &mut Refusals) {
    match said(schema, "type").and_then(Value::as_str) {
        None => {}
        Some("null") => out.refuse(&format!("{path}.type"), "must not be null: use nullable"),
        Some(name) if !TYPES.contains(&name) => {
            out.refuse(&format!("{path}.type"), format!("must be one of {}", TYPES.join(", ")));
        }
        Some(_) => {}
    }
    if let (Some(_), Some(why)) = (said(schema, "default"), inside.no_default) {
        out.refuse(&format!("{path}.default"), format!("must not be set {why}"));
    }
    for keyword in UNSUPPORTED {
        // These say something even when they are empty.
        let dependencies =
            ["dependencies", "additionalItems"].contains(keyword) && said(schema, keyword).is_some();
        let reference = *keyword == "$ref" && schema.get(*keyword).is_some_and(Value::is_string);
        let says =
            said(schema, keyword).is_some_and(|value| value.as_object().is_none_or(|map| !map.is_empty()));
        if says || dependencies || reference {
            out.refuse(&format!("{path}.{keyword}"), "is not supported");
        }
    }
    if said(schema, "items").is_some_and(Value::is_array) {
        out.refuse(&format!("{path}.items"), "must be one schema, not a list");
    }
    if inside.meta && said(schema, "x-kubernetes-embedded-resource").is_some() {
        out.refuse(&format!("{path}.x-kubernetes-embedded-resource"), "must not be set inside of metadata");
    }
    if said(schema, "uniqueItems").is_some() {
        out.refuse(&format!("{path}.uniqueItems"), "must not be true: use a list of type set");
    }
    let rest = said(schema, "additionalProperties");
    let fields = said(schema, "properties").is_some();
    if fields && rest.is_some_and(|rest| rest != &Value::Bool(true)) {
        out.refuse(&format!("{path}.additionalProperties"), "must not stand beside properties");
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        out.refuse(&format!("{path}.x-kubernetes-preserve-unknown-fields"), "must be true or absent");
    }
}

fn merging(schema: &Map<String, Value>, path: &str, out: &mut Refusals) {
    let text = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let of = text(schema, "type").unwrap_or_default();
    if let Some(map_type) = text(schema, "x-kubernetes-map-type") {
        if of != "object" {
            out.refuse(&format!("{path}.type"), "must be object, because of x-kubernetes-map-type");
        }
        if !["atomic", "granular"].contains(&map_type.as_str()) {
            out.refuse(&format!("{path}.x-kubernetes-map-type"), "must be atomic or granular");
        }
    }
    let keys: Vec<&str> = match said(schema, "x-kubernetes-list-map-keys").and_then(Value::as_array) {
        Some(keys) => keys.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    let list_type = text(schema, "x-kubernetes-list-type");
    let place = |keyword: &str| format!("{path}.{keyword}");
    if !keys.is_empty() && list_type.as_deref() != Some("map") {
        out.refuse(
            &place("x-kubernetes-list-type"),
            "must be map, because there are x-kubernetes-list-map-keys",
        );
    }
    let Some(list_type) = list_type else { return };
    let items = schema.get("items").and_then(Value::as_object);
    if of != "array" {
        out.refuse(&place("type"), "must be array, because of x-kubernetes-list-type");
    } else if let ("set", Some(items)) = (list_type.as_str(), items) {
        let merged = |key: &str| text(items, key);
        match text(items, "type").as_deref() {
            Some("array") if merged("x-kubernetes-list-type").is_some_and(|inner| inner != "atomic") => {
                out.refuse(&place("items.x-kubernetes-list-type"), "must be atomic in a list of type set");
            }
            Some("object") if merged("x-kubernetes-map-type").as_deref() != Some("atomic") => {
                out.refuse(&place("items.x-kubernetes-map-type"), "must be atomic in a list of type set");
            }
            _ => {}
        }
    }
    if !["atomic", "set", "map"].contains(&list_type.as_str()) {
        out.refuse(&place("x-kubernetes-list-type"), "must be atomic, set or map");
    }
    if list_type == "map" {
        map_keys(items, &keys, path, out);
    }
    if list_type != "atomic" && items.is_some_and(|items| said(items, "nullable").is_some()) {
        out.refuse(&place("items.nullable"), format!("must not be true in a list of type {list_type}"));
    }
}

fn map_keys(items: Option<&Map<String, Value>>, keys: &[&str], path: &str, out: &mut Refusals) {
    let place = |keyword: &str| format!("{path}.{keyword}");
    if keys.is_empty() {
        out.refuse(&place("x-kubernetes-list-map-keys"), "is missing, and the list is of type map");
    }
    let Some(items) = items else {
        return out.refuse(&place("items"), "is missing, and the list is of type map");
    };
    if said(items, "type").is_none_or(|of| of != "object") {
        return out.refuse(&place("items.type"), "must be object in a list of type map");
    }
    let required: BTreeSet<&str> = match said(items, "required").and_then(Value::as_array) {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => BTreeSet::new(),
    };
    let mut seen = BTreeSet::new();
    for name in keys {
        if !seen.insert(*name) {
            out.refuse(&place("x-kubernetes-list-map-keys"), format!("has {name} twice"));
        }
        let Some(field) =
            items.get("properties").and_then(|fields| fields.get(*name)).and_then(Value::as_object)
        else {
            out.refuse(
                &place("x-kubernetes-list-map-keys"),
                format!("has {name}, which is no property of the items"),
            );
            continue;
        };
        let inner = format!("{path}.items.properties{}", key(name));
        if field.get("type").is_some_and(|of| of == "array" || of == "object") {
            out.refuse(
                &format!("{inner}.type"),
                "must be a scalar, because it is a key of a list of type map",
            );
        }
        if !required.contains(name) && said(field, "default").is_none() {
            out.refuse(
                &inner,
                "must be required or have a default, because it is a key of a list of type map",
            );
        }
        if said(field, "nullable").is_some() {
            out.refuse(
                &format!("{inner}.nullable"),
                "must not be true, because it is a key of a list of type map",
            );
        }
    }
}

fn rules(schema: &Map<String, Value>, path: &str, out: &mut Refusals) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        let place = |key: &str| format!("{path}.x-kubernetes-validations[{index}].{key}");
        let lines = |text: &str| text.contains(['\n', '\r']);
        let message = text("message").trim();
        if text("rule").trim().is_empty() {
            out.refuse(&place("rule"), "is missing");
        } else if !text("message").is_empty() && (message.is_empty() || lines(message)) {
            out.refuse(&place("message"), "must be one line");
        } else if lines(text("rule").trim()) && message.is_empty() {
            out.refuse(&place("message"), "is missing, and the rule has several lines");
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            out.refuse(&place("messageExpression"), "must not be empty");
        }
        if rule.get("reason").is_some_and(|reason| !reason.is_null()) && !REASONS.contains(&text("reason")) {
            out.refuse(&place("reason"), format!("must be one of {}", REASONS.join(", ")));
        }
        if !text("fieldPath").is_empty() && (text("fieldPath").trim().is_empty() || lines(text("fieldPath")))
        {
            out.refuse(&place("fieldPath"), "must be one line");
        }
        let transition =
            text("rule").split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "oldSelf");
        if !transition && rule.get("optionalOldSelf").is_some_and(|value| !value.is_null()) {
            out.refuse(&place("optionalOldSelf"), "must not be set for a rule without oldSelf");
        }
    }
}
