//! What a revision applies, what it leaves behind, and how an applied object is told from others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

use super::Hook;
use crate::api::names;
use crate::manifest::{
    InventoryEntry, Object, ObjectId, digest, group_of, leave_out, managed_fields, order, remove_pointer,
};

/// Entries in the order of deletion: the reverse of the order of application.
#[must_use]
pub fn deletion_order(mut entries: Vec<InventoryEntry>) -> Vec<InventoryEntry> {
    entries.sort_by_key(|entry| {
        let rank = order::rank(&entry.id.group, &entry.id.kind);
        (Reverse(entry.layer), Reverse(rank), entry.id.clone())
    });
    entries
}

/// What a new revision records before its first write.
#[derive(Clone, Debug, Default)]
pub struct NextInventory {
    /// One entry for each object of the new revision.
    pub wanted: Vec<InventoryEntry>,
    /// Objects of earlier revisions that may still exist and are not wanted any more.
    pub leftovers: Vec<InventoryEntry>,
}

/// Computes the inventory of `revision` from its objects and what the newest record says of the past.
///
/// An object that did not change keeps the revision in which it last did, so that its apply is a no-op.
/// What an earlier revision handed over to another owner stays handed over until the live objects say otherwise.
#[must_use]
pub fn next_inventory(
    objects: &[Object],
    revision: u32,
    before: &[InventoryEntry],
    leftovers: &[InventoryEntry],
) -> NextInventory {
    let earlier: BTreeMap<&ObjectId, &InventoryEntry> =
        leftovers.iter().chain(before).map(|entry| (&entry.id, entry)).collect();
    let wanted: Vec<InventoryEntry> = objects
        .iter()
        .map(|object| {
            let digest = digest(&object.body);
            let known = earlier.get(&object.id);
            let unchanged = known.filter(|entry| entry.digest == digest);
            InventoryEntry {
                id: object.id.clone(),
                api_version: object.api_version.clone(),
                uid: known.and_then(|entry| entry.uid.clone()),
                digest,
                changed_in: unchanged.map_or(revision, |entry| entry.changed_in),
                fingerprint: unchanged.and_then(|entry| entry.fingerprint.clone()),
                // A definition goes only when that is asked for, and by another way.
                keep: object.keep() || object.id.is_definition(),
                handed_over: known.map(|entry| entry.handed_over.clone()).unwrap_or_default(),
                // That of before until it is known who sets them.
                replicas: known.and_then(|entry| entry.replicas),
                // Of the body of before; found out anew with each apply.
                ignored: Vec::new(),
                skipped: Vec::new(),
                adopted: known.and_then(|entry| entry.adopted.clone()),
                // The same Job is not run again. One that failed may be.
                ran: unchanged.and_then(|entry| entry.ran.clone()).filter(|ran| !ran.failed),
                layer: object.layer,
            }
        })
        .collect();
    let ids: BTreeSet<&ObjectId> = wanted.iter().map(|entry| &entry.id).collect();
    let leftovers = earlier.into_values().filter(|entry| !ids.contains(&entry.id)).cloned().collect();
    NextInventory { wanted, leftovers }
}

impl NextInventory {
    /// Leaves over what hooks of before left behind and no hook is any more; what is a hook now makes way when it runs.
    #[must_use]
    pub fn with_hooks(mut self, hooks: &[Hook], before: &[InventoryEntry]) -> Self {
        let now: BTreeSet<&ObjectId> = hooks.iter().map(|hook| &hook.object.id).collect();
        let wanted: BTreeSet<&ObjectId> = self.wanted.iter().map(|entry| &entry.id).collect();
        // What was adopted is handed back; nothing makes way by being deleted.
        self.leftovers.retain(|entry| entry.adopted.is_some() || !now.contains(&entry.id));
        for entry in before {
            let known = self.leftovers.iter().any(|left| left.id == entry.id);
            if !known && !now.contains(&entry.id) && !wanted.contains(&entry.id) {
                self.leftovers.push(entry.clone());
            }
        }
        self
    }
}

/// What hooks may leave behind, for the revisions to come.
#[must_use]
pub fn hook_objects(hooks: &[Hook], revision: u32) -> Vec<InventoryEntry> {
    let entry = |hook: &Hook| InventoryEntry {
        id: hook.object.id.clone(),
        api_version: hook.object.api_version.clone(),
        uid: None,
        digest: String::new(),
        changed_in: revision,
        fingerprint: None,
        keep: hook.object.keep(),
        handed_over: Vec::new(),
        replicas: None,
        ignored: Vec::new(),
        skipped: Vec::new(),
        adopted: None,
        ran: None,
        layer: 0,
    };
    hooks.iter().map(entry).collect()
}

/// What every applied object carries beside its manifest.
#[derive(Clone, Copy, Debug)]
pub struct Marks<'a> {
    pub release_name: &'a str,
    pub release_namespace: &'a str,
    /// Uid of the release that first made this line of revisions.
    pub uid: &'a str,
}

/// The body of an apply: the manifest without the fields that are ignored or were handed over, our labels and the marker.
///
/// A Job has no ttl before its end is written down: no controller may take away the result.
///
/// The marker annotation `<uid>.<revision in which the object last changed>` makes a late write under our own
/// manager name visible, which the set of owned fields alone is not.
#[must_use]
pub fn apply_body(object: &Object, entry: &InventoryEntry, marks: Marks<'_>) -> Value {
    let mut marked = object.clone();
    leave_out(&mut marked.body, &entry.ignored);
    marked.set_label(names::RELEASE_NAME, marks.release_name);
    marked.set_label(names::RELEASE_NAMESPACE, marks.release_namespace);
    marked.set_annotation(names::APPLIED, &marker(marks.uid, entry.changed_in));
    for pointer in &entry.handed_over {
        remove_pointer(&mut marked.body, pointer);
    }
    match (&entry.ran, &entry.uid) {
        // With the uid nothing is made again that has gone meanwhile.
        (Some(_), Some(uid)) => marked.body["metadata"]["uid"] = uid.as_str().into(),
        _ if is_job(&object.id) => drop(remove_pointer(&mut marked.body, TTL)),
        _ => {}
    }
    marked.body
}

/// The object of one run of a hook: our labels, and which run it is.
#[must_use]
pub fn hook_body(hook: &Hook, revision: u32, marks: Marks<'_>, run: &str) -> Value {
    let mut marked = hook.object.clone();
    marked.set_label(names::RELEASE_NAME, marks.release_name);
    marked.set_label(names::RELEASE_NAMESPACE, marks.release_namespace);
    marked.set_annotation(names::APPLIED, &marker(marks.uid, revision));
    marked.set_annotation(names::HOOK_RUN, run);
    marked.body
}

/// The value of the marker annotation.
#[must_use]
pub fn marker(uid: &str, changed_in: u32) -> String {
    format!("{uid}.{changed_in}")
}

/// Whether a live object carries the marker of this line of revisions.
#[must_use]
pub fn is_marked(annotations: Option<&BTreeMap<String, String>>, uid: &str) -> bool {
    marked_by(annotations).is_some_and(|by| by == uid)
}

/// The uid in the marker of a live object.
#[must_use]
pub fn marked_by(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    let (uid, _) = annotations?.get(names::APPLIED)?.rsplit_once('.')?;
    Some(uid)
}

/// Whether the marker of a live object is one that `changed_in`, the revision in which a record last changed it, can explain.
/// A later one is of a revision that the record knows nothing of, and that one may have adopted the object.
#[must_use]
pub fn explains(changed_in: u32, annotations: Option<&BTreeMap<String, String>>) -> bool {
    let marker = annotations.and_then(|all| all.get(names::APPLIED)).and_then(|mark| mark.rsplit_once('.'));
    marker.and_then(|(_, revision)| revision.parse::<u32>().ok()).is_some_and(|marked| marked <= changed_in)
}

/// Whether a live object is ours to delete: still marked by this line of revisions, neither adopted nor to be kept, and the
/// very object of the entry or marked by a revision that the entry knows of.
#[must_use]
pub fn may_delete(entry: &InventoryEntry, live: &ObjectMeta, uid: &str) -> bool {
    let annotations = live.annotations.as_ref();
    let adopted = entry.adopted.is_some() || (entry.id.is_definition() && is_adopted(annotations));
    let same = entry.uid.is_some() && entry.uid == live.uid;
    !entry.keep
        && !is_kept(annotations)
        && !adopted
        && is_marked(annotations, uid)
        && (same || explains(entry.changed_in, annotations))
}

/// Whether the annotations of a live definition say that it was there before a release wrote it.
#[must_use]
pub fn is_adopted(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(names::ADOPTED)).is_some_and(|value| value == names::ADOPTED_TRUE)
}

/// Whether the annotations of a live object say that it outlives its release.
#[must_use]
pub fn is_kept(annotations: Option<&BTreeMap<String, String>>) -> bool {
    [names::RESOURCE_POLICY, names::HELM_RESOURCE_POLICY]
        .iter()
        .any(|key| annotations.and_then(|all| all.get(*key)).is_some_and(|value| value == names::KEEP))
}

/// What becomes of the adopted objects of a revision that is deployed: they are the release's own from now on, except those
/// that hold data. Gives the digests of what need not be kept any more.
pub fn make_own(inventory: &mut [InventoryEntry]) -> Vec<String> {
    let mut kept = Vec::new();
    for entry in inventory {
        let holds_data = holds_data(&entry.id);
        let Some(adopted) = &mut entry.adopted else { continue };
        kept.extend(adopted.kept.take());
        adopted.deployed = true;
        if !holds_data {
            entry.adopted = None;
        }
    }
    kept
}

/// Whether what an object holds, or what is in it, goes with it: such an object is never deleted to be created anew.
#[must_use]
pub fn holds_data(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("", "PersistentVolume" | "PersistentVolumeClaim" | "Namespace")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// Workloads of the manifest whose replicas an autoscaler of the same manifest sets.
#[must_use]
pub fn autoscaled(objects: &[Object]) -> BTreeSet<ObjectId> {
    objects.iter().filter_map(|object| scale_target(&object.id, &object.body)).collect()
}

/// The workload that an autoscaler scales.
#[must_use]
pub fn scale_target(id: &ObjectId, body: &Value) -> Option<ObjectId> {
    let target = body.pointer("/spec/scaleTargetRef").filter(|_| is_autoscaler(id))?;
    let text = |field: &str| target.get(field).and_then(Value::as_str).unwrap_or_default();
    Some(ObjectId {
        group: group_of(text("apiVersion")).to_owned(),
        kind: text("kind").to_owned(),
        namespace: id.namespace.clone(),
        name: text("name").to_owned(),
    })
}

/// The workload that an autoscaler as the cluster has it scales.
#[must_use]
pub fn scales(autoscaler: &Value) -> Option<ObjectId> {
    let object = Object::from_value(autoscaler.clone()).ok()?;
    scale_target(&object.id, &object.body)
}

/// Whether the manifest sets replicas and another manager has changed them.
#[must_use]
pub fn lost_replicas(body: &Value, managed_fields: &[ManagedFieldsEntry]) -> bool {
    // Of an object that is being adopted nothing is ours, so the whole spec is one such path.
    let with_replicas = |path: &String| {
        REPLICAS.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    body.pointer(REPLICAS).is_some()
        && managed_fields::lost_paths(body, managed_fields).iter().any(with_replicas)
}

/// Whether an object is there to set the replicas of another.
#[must_use]
pub fn is_autoscaler(id: &ObjectId) -> bool {
    id.kind == "HorizontalPodAutoscaler"
}

/// Whether an object is a Job.
#[must_use]
pub fn is_job(id: &ObjectId) -> bool {
    id.group == "batch" && id.kind == "Job"
}

/// Whether a Job says how long after its end it goes.
#[must_use]
pub fn has_ttl(object: &Object) -> bool {
    is_job(&object.id) && object.body.pointer(TTL).is_some_and(|ttl| !ttl.is_null())
}

const TTL: &str = "/spec/ttlSecondsAfterFinished";

/// Where a workload says how many replicas it wants.
pub const REPLICAS: &str = "/spec/replicas";

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
