//! What the history of a status says of a record.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::HistoryEntry;
use crate::manifest;
use crate::release::{Action, Record, description};
use crate::storage::Stored;

/// The entry of a revision that was just ended without an operation of ours.
pub(in crate::reconcile) fn ended(stored: &Stored, now: Timestamp) -> HistoryEntry {
    let action = stored.private.as_ref().map(|private| private.action);
    let (manifest_digest, values_digest) = digests(stored);
    entry(&stored.record, action, values_digest, manifest_digest, now)
}

pub(in crate::reconcile) fn entry(
    record: &Record,
    action: Option<Action>,
    values_digest: String,
    manifest_digest: String,
    now: Timestamp,
) -> HistoryEntry {
    HistoryEntry {
        revision: i64::from(record.version),
        state: record.state.name().to_owned(),
        action: action.map(|action| action_name(action).to_owned()),
        pack: Some(record.pack.name.clone()),
        version: Some(record.pack.version.to_string()),
        values_digest: Some(values_digest),
        manifest_digest: Some(manifest_digest),
        at: Some(Time(now)),
        message: Some(description::describe(record, action)),
        hooks: Vec::new(),
    }
}

/// Digests for the history, from a record with its bulk.
pub(in crate::reconcile) fn digests(stored: &Stored) -> (String, String) {
    let manifest = manifest::digest(&serde_json::Value::String(stored.record.manifest.clone()));
    (manifest, manifest::digest(&stored.record.values))
}

pub(in crate::reconcile) fn action_name(action: Action) -> &'static str {
    match action {
        Action::Install => "Install",
        Action::Upgrade => "Upgrade",
        Action::Rollback => "Rollback",
        Action::Uninstall => "Uninstall",
    }
}
