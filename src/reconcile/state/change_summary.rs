//! What an operation did with the objects, counted for the message that tells of its end.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::names;
use crate::cluster::Applied;
use crate::manifest::{InventoryEntry, ObjectId};

/// The objects of one revision by what became of them. Lost with the process; a count then speaks of the rest.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct Tally {
    revision: u32,
    done: BTreeMap<ObjectId, Done>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Created,
    Updated,
    Unchanged,
    Recreated,
    Skipped,
    Pruned,
}

impl Tally {
    /// An object was applied. `before` is what the inventory said of it until then.
    pub(in crate::reconcile) fn applied(&mut self, revision: u32, before: &InventoryEntry, after: &Applied) {
        let same = before.uid.is_some() && before.uid == after.uid();
        let done = match same {
            true if before.changed_in != revision => Done::Unchanged,
            true => Done::Updated,
            false if existed(after) => Done::Updated,
            false => Done::Created,
        };
        self.note(revision, &before.id, done);
    }

    /// An object that is not wanted any more was told to go.
    pub(in crate::reconcile) fn pruned(&mut self, revision: u32, id: &ObjectId) {
        self.note(revision, id, Done::Pruned);
    }

    /// An object was deleted to be created anew, because a field of it cannot change.
    pub(in crate::reconcile) fn recreated(&mut self, revision: u32, id: &ObjectId) {
        self.note(revision, id, Done::Recreated);
    }

    /// An object was left as it is, because a field of it cannot change.
    pub(in crate::reconcile) fn skipped(&mut self, revision: u32, id: &ObjectId) {
        self.note(revision, id, Done::Skipped);
    }

    /// What comes first counts: whatever is applied once more was there already.
    fn note(&mut self, revision: u32, id: &ObjectId, done: Done) {
        if self.revision != revision {
            *self = Self { revision, done: BTreeMap::new() };
        }
        self.done.entry(id.clone()).or_insert(done);
    }

    /// `2 created, 1 updated, 5 unchanged, 1 pruned`, without what there is none of; `None` when nothing is known of
    /// that revision.
    #[must_use]
    pub(in crate::reconcile) fn of(&self, revision: u32) -> Option<String> {
        if self.revision != revision || self.done.is_empty() {
            return None;
        }
        let count = |what: Done, word: &str| {
            let count = self.done.values().filter(|done| **done == what).count();
            (count > 0).then(|| format!("{count} {word}"))
        };
        let counts = [
            count(Done::Created, "created"),
            count(Done::Updated, "updated"),
            count(Done::Unchanged, "unchanged"),
            count(Done::Recreated, "recreated"),
            count(Done::Skipped, "skipped"),
            count(Done::Pruned, "pruned"),
        ];
        Some(counts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// The object is older than our part of it: another owner had made it, and we took it over.
fn existed(after: &Applied) -> bool {
    let meta = &after.live.metadata;
    let ours = meta.managed_fields.iter().flatten().find(|entry| {
        entry.manager.as_deref() == Some(names::MANAGER_APPLY) && entry.operation.as_deref() == Some("Apply")
    });
    let since = ours.and_then(|entry| entry.time.as_ref());
    let gap = |since: &Time, created: &Time| since.0.as_second().saturating_sub(created.0.as_second());
    // Both are cut to the second, and not set at one moment.
    matches!((since, &meta.creation_timestamp), (Some(since), Some(created)) if gap(since, created) > 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(name: &str, uid: Option<&str>, changed_in: u32) -> InventoryEntry {
        serde_json::from_value(json!({
            "id": {"kind": "ConfigMap", "namespace": "apps", "name": name}, "apiVersion": "v1",
            "uid": uid, "digest": "", "changedIn": changed_in,
        }))
        .unwrap()
    }

    fn applied(uid: &str, created: &str, ours: &str) -> Applied {
        let live = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": uid, "creationTimestamp": created, "managedFields": [
                {"manager": "kubectl", "operation": "Update", "time": created},
                {"manager": "sherpack", "operation": "Apply", "time": ours},
            ]},
        });
        Applied { live: serde_json::from_value(live).unwrap(), fingerprint: None, version: 1 }
    }

    const NOON: &str = "2026-01-01T12:00:00Z";
    const LATER: &str = "2026-01-01T12:00:05Z";

    #[test]
    fn objects_are_counted_by_what_became_of_them() {
        let mut tally = Tally::default();
        assert_eq!(tally.of(3), None);
        tally.applied(3, &entry("new", None, 3), &applied("u", NOON, NOON));
        tally.applied(3, &entry("anew", Some("old"), 1), &applied("u", NOON, NOON));
        tally.applied(3, &entry("adopted", None, 3), &applied("u", NOON, LATER));
        tally.applied(3, &entry("changed", Some("u"), 3), &applied("u", NOON, LATER));
        tally.applied(3, &entry("same", Some("u"), 2), &applied("u", NOON, LATER));
        tally.pruned(3, &entry("left", Some("u"), 1).id);
        tally.recreated(3, &entry("job", Some("old"), 3).id);
        tally.applied(3, &entry("job", Some("old"), 3), &applied("u", NOON, NOON));
        tally.skipped(3, &entry("frozen", Some("u"), 3).id);
        // Applied once more, when its uid is known already.
        tally.applied(3, &entry("new", Some("u"), 3), &applied("u", NOON, NOON));
        assert_eq!(
            tally.of(3).as_deref(),
            Some("2 created, 2 updated, 1 unchanged, 1 recreated, 1 skipped, 1 pruned")
        );
        assert_eq!(tally.of(2), None);
        tally.applied(4, &entry("same", Some("u"), 2), &applied("u", NOON, LATER));
        assert_eq!(tally.of(4).as_deref(), Some("1 unchanged"));
    }
}
