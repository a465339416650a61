use serde_json::{Map, Value};

use super::Refusals;
use crate::crd::check::check_value;
use crate::crd::path::key;
use crate::crd::same::said;

/// A default must be valid, and nothing of it may be dropped.
pub(super) fn check(schema: &Map<String, Value>, path: &str, out: &mut Refusals) {
    if let Some(default) = said(schema, "default") {
        let place = format!("{path}.default");
        let fit = check_value(schema, default);
        let is_root = path.ends_with(".openAPIV3Schema");
        let whole = |key: &str| default.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if is_root && default.is_object() && !(whole("apiVersion") && whole("kind")) {
            out.refuse(&place, "must be a whole object, with apiVersion and kind");
        } else if let Some((field, why)) = fit.refused.first() {
            out.refuse(&place, format!("does not fit its own schema: {field} {why}"));
        } else if let Some(field) = fit.pruned.first() {
            out.refuse(&place, format!("has a field that its own schema does not name: {field}"));
        }
    }
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        check(items, &format!("{path}.items"), out);
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(field) = field.as_object() {
            check(field, &format!("{path}.properties{}", key(name)), out);
        }
    }
}
