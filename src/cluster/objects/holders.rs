//! Entries of managedFields: who holds what of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

/// What a patch of the object itself by `manager`, other than an apply, leaves behind.
pub(super) fn is_update_by(manager: &str, entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some("Update")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// The operations of a JSON patch that says anew who holds what of an object.
pub(super) fn holding(entries: &[ManagedFieldsEntry]) -> Vec<Value> {
    vec![json!({"op": "replace", "path": "/metadata/managedFields", "value": entries})]
}
