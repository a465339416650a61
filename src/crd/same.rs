//! Equal in meaning: spellings between which the API server sees no difference.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Keywords whose lists have no order.
const SETS: &[&str] = &["required", "enum", "x-kubernetes-list-map-keys"];
/// Keywords that mean nothing when they are false.
const FLAGS: &[&str] = &[
    "nullable",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];
/// Keywords that mean nothing when they are zero.
const COUNTS: &[&str] = &["minLength", "minItems", "minProperties"];
/// Keywords that mean nothing when they are empty.
const EMPTY: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "pattern",
    "required",
    "enum",
    "allOf",
    "anyOf",
    "oneOf",
    "properties",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "id",
    "$schema",
    "patternProperties",
    "definitions",
];

/// A keyword, if it says anything.
pub(super) fn said<'s>(schema: &'s Map<String, Value>, keyword: &str) -> Option<&'s Value> {
    schema.get(keyword).filter(|value| !says_nothing(keyword, value))
}

fn says_nothing(keyword: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(false) => FLAGS.contains(&keyword),
        Value::Number(number) => COUNTS.contains(&keyword) && compare(number, &Number::from(0)).is_eq(),
        Value::String(text) => match keyword {
            "x-kubernetes-list-type" => text == "atomic",
            "x-kubernetes-map-type" => text == "granular",
            _ => text.is_empty() && EMPTY.contains(&keyword),
        },
        Value::Array(items) => items.is_empty() && EMPTY.contains(&keyword),
        Value::Object(map) => map.is_empty() && EMPTY.contains(&keyword),
        Value::Bool(true) => false,
    }
}

/// Whether two values of a keyword mean the same. Not for keywords that hold schemas.
pub(super) fn same(keyword: &str, old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => {
            old == new || {
                let canonical = |value| if SETS.contains(&keyword) { set(value) } else { data(value) };
                canonical(old) == canonical(new)
            }
        }
        _ => false,
    }
}

/// One spelling for a value: whole numbers without a point.
pub(super) fn data(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole(number)),
        Value::Array(items) => items.iter().map(data).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), data(value))).collect(),
        other => other.clone(),
    }
}

/// The same for a list without order or repetition.
fn set(value: &Value) -> Value {
    let Value::Array(items) = value else { return data(value) };
    let mut items: Vec<Value> = items.iter().map(data).collect();
    items.sort_by_cached_key(ToString::to_string);
    items.dedup();
    Value::Array(items)
}

/// One spelling for a schema.
pub(super) fn schema(value: &Value) -> Value {
    let Value::Object(map) = value else { return data(value) };
    let either = map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    let one = |(keyword, value): (&String, &Value)| {
        if says_nothing(keyword, value) || (either && is_implied(keyword, value)) {
            return None;
        }
        let value = match keyword.as_str() {
            "properties" => match value.as_object() {
                Some(fields) => fields.iter().map(|(name, inner)| (name.clone(), schema(inner))).collect(),
                None => data(value),
            },
            "items" | "not" | "additionalProperties" => schema(value),
            // Their order means nothing, and how often one is there does.
            "allOf" | "anyOf" | "oneOf" => match value.as_array() {
                Some(branches) => sorted(branches.iter().map(schema).collect()),
                None => data(value),
            },
            "x-kubernetes-validations" => set(value),
            keyword if SETS.contains(&keyword) => set(value),
            _ => data(value),
        };
        Some((keyword.clone(), value))
    };
    Value::Object(map.iter().filter_map(one).collect())
}

/// Whether branches say no more than `x-kubernetes-int-or-string` does.
pub(super) fn is_implied(keyword: &str, branches: &Value) -> bool {
    match keyword {
        "anyOf" => is_int_or_string_idiom(branches),
        "allOf" => branches.as_array().is_some_and(|all| {
            !all.is_empty()
                && all.iter().all(|one| {
                    one.as_object().is_some_and(|one| {
                        one.len() == 1 && one.get("anyOf").is_some_and(is_int_or_string_idiom)
                    })
                })
        }),
        _ => false,
    }
}

/// Exactly what the server lets pass.
pub(super) fn is_int_or_string_idiom(branches: &Value) -> bool {
    let of = |branch: Option<&Value>, wanted: &str| {
        branch
            .and_then(Value::as_object)
            .is_some_and(|map| map.len() == 1 && map.get("type") == Some(&wanted.into()))
    };
    branches
        .as_array()
        .is_some_and(|all| all.len() == 2 && of(all.first(), "integer") && of(all.get(1), "string"))
}

fn sorted(mut items: Vec<Value>) -> Value {
    items.sort_by_cached_key(ToString::to_string);
    Value::Array(items)
}

/// One spelling for a spec, with what does not count left out: a certificate authority is renewed by others.
pub(super) fn spec(spec: &Map<String, Value>) -> Value {
    let mut spec = match spoken(&Value::Object(spec.clone())) {
        Value::Object(spec) => spec,
        other => return other,
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        for key in ["shortNames", "categories"] {
            if let Some(list) = names.get_mut(key) {
                *list = set(list);
            }
        }
    }
    let client =
        spec.get_mut("conversion").and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig"));
    if let Some(client) = client.and_then(Value::as_object_mut) {
        client.remove("caBundle");
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
        version.retain(|key, value| key != "deprecated" || *value != Value::Bool(false));
        if let Some(list) = version.get_mut("selectableFields") {
            *list = set(list);
        }
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten() {
            *column = printer_column(column);
        }
    }
    if let Some(Value::Array(versions)) = spec.get_mut("versions") {
        versions.sort_by_cached_key(|version| version.get("name").map(ToString::to_string));
    }
    Value::Object(spec)
}

/// A column without what means nothing.
pub(super) fn printer_column(column: &Value) -> Value {
    let Some(map) = column.as_object() else { return column.clone() };
    let says = |(key, value): &(&String, &Value)| match (key.as_str(), value) {
        (_, Value::Null) => false,
        ("priority", Value::Number(number)) => number.as_f64() != Some(0.0),
        (_, Value::String(text)) => !text.is_empty(),
        _ => true,
    };
    Value::Object(map.iter().filter(says).map(|(key, value)| (key.clone(), data(value))).collect())
}

/// Without nulls and without empty lists, and with schemas in one spelling.
fn spoken(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let says = |(_, value): &(&String, &Value)| {
                !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty())
            };
            let one = |(key, value): (&String, &Value)| {
                (key.clone(), if key == "openAPIV3Schema" { schema(value) } else { spoken(value) })
            };
            Value::Object(map.iter().filter(says).map(one).collect())
        }
        Value::Array(items) => items.iter().map(spoken).collect(),
        other => data(other),
    }
}

fn whole(number: &Number) -> Number {
    /// Up to here a double has every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and small, as the line above says"
            )]
            let whole = float as i64;
            Number::from(whole)
        }
        _ => number.clone(),
    }
}

/// Compares two numbers by value.
pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    let integer = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}
