pub(super) mod kind;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Definition, Kind, Severity,
    path::Field,
    same::{self, data},
};
use crate::manifest;

/// One difference between two definitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is.
    pub kind: Kind,
    /// Where: `spec.versions[0].schema.openAPIV3Schema.properties.size.maximum`. The index is that of the new
    /// definition, or of the old one for what is gone.
    pub path: String,
    /// How bad.
    pub severity: Severity,
    /// What it means for objects and clients.
    pub message: String,
    /// What stood there.
    #[serde(skip)]
    pub old: Option<Value>,
    /// What stands there now.
    #[serde(skip)]
    pub new: Option<Value>,
    /// What existing objects can say about it.
    #[serde(skip)]
    pub(super) probe: Option<Probe>,
}

/// What tells whether an object is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) version: String,
    pub(super) field: Field,
    pub(super) effect: Effect,
}

/// What a change does to an object that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The object is no longer valid.
    Refused,
    /// A part of the object is dropped.
    Pruned,
}

/// What two definitions differ in.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Name of the new definition.
    pub name: String,
    /// There was no old one.
    pub is_new: bool,
    /// In the order of the definition: the whole, then version by version.
    pub changes: Vec<Change>,
}

impl Analysis {
    /// The worst of the changes; Safe when there are none.
    #[must_use]
    pub fn verdict(&self) -> Severity {
        self.changes.iter().map(|change| change.severity).max().unwrap_or(Severity::Safe)
    }

    /// The API server refused the new definition in a dry run: at this path, with these words.
    #[must_use]
    pub fn refused(mut self, path: &str, words: &str) -> Self {
        let message = format!("the API server refuses it: {words}");
        self.changes.push(plain(Kind::RefusedByServer, Severity::Blocked, path, message));
        self
    }

    /// The changes of this severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.severity == severity)
    }

    /// `{"verdict": …, "changes": […]}`
    #[must_use]
    pub fn to_json(&self) -> impl Serialize {
        Told { verdict: self.verdict(), changes: &self.changes }
    }
}

/// A change without values and without a probe.
pub(super) fn plain(kind: Kind, severity: Severity, path: &str, message: String) -> Change {
    Change { kind, path: path.to_owned(), severity, message, old: None, new: None, probe: None }
}

/// Adds each field outside of `known` that differs, as [`Kind::Unhandled`].
pub(super) fn unknown(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    known: &[&str],
    path: &str,
    out: &mut Vec<Change>,
) {
    let keys: BTreeSet<&String> =
        old.keys().chain(new.keys()).filter(|key| !known.contains(&key.as_str())).collect();
    for key in keys {
        let part = |map: &Map<String, Value>| map.get(key).filter(|value| !value.is_null()).cloned();
        let (from, to) = (part(old), part(new));
        if from.as_ref().map(data) != to.as_ref().map(data) {
            let message = format!("{key} differs, and what that means is not known");
            let path = format!("{path}.{key}");
            out.push(Change {
                old: from,
                new: to,
                ..plain(Kind::Unhandled, Severity::Warning, &path, message)
            });
        }
    }
}

#[derive(Serialize)]
struct Told<'a> {
    verdict: Severity,
    changes: &'a [Change],
}

/// Digest of this change and no other: of what is compared, in one spelling. Metadata and status do not count, but for the versions in
/// which objects may be stored.
#[must_use]
pub fn digest(old: &Definition, new: &Definition) -> String {
    let mut stored = old.stored.clone();
    stored.sort();
    stored.dedup();
    let (from, to) = (same::spec(&old.spec), same::spec(&new.spec));
    manifest::digest(&json!({"name": new.name, "old": {"spec": from, "stored": stored}, "new": {"spec": to}}))
}

/// `NAME@sha256:HEX`, which lets exactly this change through, as an entry of `spec.crds.confirmChanges`.
#[must_use]
pub fn token(old: &Definition, new: &Definition) -> String {
    format!("{}@{}", new.name, digest(old, new))
}
