//! Which type of JSON each keyword has: another one cannot be read.

use serde_json::Value;

/// Whether a value is of the type that a keyword has; the API server drops a keyword that it does not know, whatever it holds.
pub(super) fn fits(keyword: &str, value: &Value) -> bool {
    wanted(keyword, value).is_none()
}

/// `a text`, when a keyword needs one and has something else.
pub(super) fn wanted(keyword: &str, value: &Value) -> Option<&'static str> {
    if value.is_null() {
        return None;
    }
    let texts = |value: &Value| {
        value.as_array().is_some_and(|all| all.iter().all(|one| one.is_string() || one.is_null()))
    };
    let schemas = |value: &Value| {
        value.as_array().is_some_and(|all| all.iter().all(|one| one.is_object() || one.is_null()))
    };
    let map = |value: &Value| {
        value.as_object().is_some_and(|all| all.values().all(|one| one.is_object() || one.is_null()))
    };
    let (fits, wanted) = match keyword {
        "id"
        | "$schema"
        | "$ref"
        | "description"
        | "type"
        | "format"
        | "title"
        | "pattern"
        | "x-kubernetes-list-type"
        | "x-kubernetes-map-type" => (value.is_string(), "a text"),
        "maximum" | "minimum" | "multipleOf" => (value.is_number(), "a number"),
        "exclusiveMaximum"
        | "exclusiveMinimum"
        | "uniqueItems"
        | "nullable"
        | "x-kubernetes-preserve-unknown-fields"
        | "x-kubernetes-embedded-resource"
        | "x-kubernetes-int-or-string" => (value.is_boolean(), "true or false"),
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" => {
            let whole = value.as_i64().is_some() || value.as_f64().is_some_and(|float| float.fract() == 0.0);
            (whole, "an integer")
        }
        "enum" => (value.is_array(), "a list"),
        "required" | "x-kubernetes-list-map-keys" => (texts(value), "a list of texts"),
        "allOf" | "anyOf" | "oneOf" => (schemas(value), "a list of schemas"),
        "properties" | "patternProperties" | "definitions" => (map(value), "a map of schemas"),
        "not" => (value.is_object(), "a schema"),
        "items" => (value.is_object() || value.is_array(), "a schema"),
        "additionalProperties" => (value.is_object() || value.is_boolean(), "a schema, true or false"),
        "externalDocs" => (value.is_object(), "an object"),
        "x-kubernetes-validations" => (schemas(value), "a list of rules"),
        _ => (true, ""),
    };
    (!fits).then_some(wanted)
}
