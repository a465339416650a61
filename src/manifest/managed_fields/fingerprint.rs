//! The fingerprint of an object of ours.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::api::names;
use crate::manifest::digest::{canonical_json, sha256_hex};

/// Hash (32 hex digits) of the fields that we own and of the marker annotation, `None` without an entry of ours.
///
/// Ours is the entry of [`names::MANAGER_APPLY`] with operation Apply and no subresource. The marker
/// ([`names::APPLIED`]) belongs to it because a late write under our own name may change values and leave the field
/// set as it was.
#[must_use]
pub fn fingerprint(
    managed_fields: &[ManagedFieldsEntry],
    annotations: Option<&BTreeMap<String, String>>,
) -> Option<String> {
    let fields = &ours(managed_fields)?.fields_v1.as_ref()?.0;
    let marker = annotations.and_then(|map| map.get(names::APPLIED)).map_or("", String::as_str);
    // JSON never contains a raw newline, so the two parts cannot run into each other.
    let mut hash = sha256_hex(format!("{}\n{marker}", canonical_json(fields)).as_bytes());
    hash.truncate(32);
    Some(hash)
}

pub(super) fn ours(managed_fields: &[ManagedFieldsEntry]) -> Option<&ManagedFieldsEntry> {
    managed_fields.iter().find(|entry| is_ours(entry))
}

pub(in crate::manifest) fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(names::MANAGER_APPLY)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entries(json: Value) -> Vec<ManagedFieldsEntry> {
        serde_json::from_value(json).unwrap()
    }

    fn marker(value: &str) -> BTreeMap<String, String> {
        [(names::APPLIED.to_owned(), value.to_owned()), ("other".to_owned(), value.to_owned())].into()
    }

    fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn only_our_own_full_apply_counts() {
        let fields = json!({"f:data": {"f:a": {}}});
        for (manager, operation, subresource, counts) in [
            ("sherpack", "Apply", None, true),
            ("sherpack", "Apply", Some(""), true),
            ("sherpack", "Apply", Some("status"), false),
            ("sherpack", "Update", None, false),
            ("sherpack-operator", "Apply", None, false),
            ("kubectl", "Apply", None, false),
        ] {
            let of = fingerprint(&entries(json!([entry(manager, operation, subresource, &fields)])), None);
            assert_eq!(of.is_some(), counts, "{manager} {operation} {subresource:?}");
        }
        assert_eq!(fingerprint(&[], None), None);
        assert_eq!(fingerprint(&entries(json!([{}])), None), None, "stripped managedFields");
    }

    #[test]
    fn others_time_and_order_leave_the_fingerprint_alone() {
        let ours = entry("sherpack", "Apply", None, &json!({"f:data": {"f:a": {}, "f:b": {}}}));
        let alone = fingerprint(&entries(json!([ours])), Some(&marker("u.1")));
        let mut later = entry("sherpack", "Apply", None, &json!({"f:data": {"f:b": {}, "f:a": {}}}));
        later["time"] = json!("2026-02-02T00:00:00Z");
        let other = entry("kube-controller-manager", "Update", Some("status"), &json!({"f:status": {}}));
        assert_eq!(fingerprint(&entries(json!([other, later])), Some(&marker("u.1"))), alone);
        assert_eq!(alone.map(|hash| hash.len()), Some(32));
    }

    #[test]
    fn a_lost_field_and_another_marker_change_the_fingerprint() {
        let full =
            entries(json!([entry("sherpack", "Apply", None, &json!({"f:data": {"f:a": {}, "f:b": {}}}))]));
        let less = entries(json!([entry("sherpack", "Apply", None, &json!({"f:data": {"f:a": {}}}))]));
        let base = fingerprint(&full, Some(&marker("u.1")));
        assert_ne!(fingerprint(&less, Some(&marker("u.1"))), base);
        assert_ne!(fingerprint(&full, Some(&marker("u.2"))), base);
        assert_ne!(fingerprint(&full, None), base);
    }
}
