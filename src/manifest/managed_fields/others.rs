//! Objects that another tool installed: whether another manager changed one, and how its installer holds it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value, json};

use super::super::digest::sha256_hex;
use crate::api::names;

/// How an installer holds what it wrote: what is put back is put back in the same way, so that no manager but the
/// installer ever stands in `managedFields` for it, and its next write meets no conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the field manager.
    pub manager: String,
    /// By server-side apply; otherwise by creating and patching.
    pub applies: bool,
}

/// Hash (32 hex digits) of all that changes in the metadata when anybody changes an object, but not when a controller
/// writes its status.
///
/// Generation, labels, annotations, and who holds which fields of the object itself. What has no generation says by the
/// time of each holder that a value changed; and what has no part that is written by itself, such as `status`, by its
/// resourceVersion.
#[must_use]
pub fn whole(meta: &ObjectMeta) -> String {
    let managed = meta.managed_fields.as_deref().unwrap_or_default();
    let generation = meta.generation.filter(|generation| *generation > 0);
    let holders: Vec<Value> = managed
        .iter()
        .filter(|entry| is_of_the_object(entry))
        .map(|entry| {
            let time = entry.time.as_ref().filter(|_| generation.is_none()).map(|time| time.0.to_string());
            json!([entry.manager, entry.operation, entry.fields_v1.as_ref().map(|fields| &fields.0), time])
        })
        .collect();
    let has_parts = managed.iter().any(|entry| !is_of_the_object(entry));
    let version = meta.resource_version.as_ref().filter(|_| generation.is_none() && !has_parts);
    let all = json!([generation, meta.labels, meta.annotations, holders, version]);
    let mut hash = sha256_hex(all.to_string().as_bytes());
    hash.truncate(32);
    hash
}

/// How Helm, or whatever installed with its library, holds an object. `None`: nothing of it is left to see.
///
/// It is the one who wrote the annotation that names the release. Of several, Helm's own command, then one that
/// applies, then the oldest.
#[must_use]
pub fn helm_holder(managed_fields: &[ManagedFieldsEntry]) -> Option<Holder> {
    let mark = format!("/f:metadata/f:annotations/f:{}", names::HELM_RELEASE_NAME.replace('/', "~1"));
    let marked = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(&mark).is_some())
    };
    let is_helm = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(names::MANAGER_HELM);
    let best = |entry: &&ManagedFieldsEntry| {
        (!is_helm(entry), !applies(entry), entry.time.as_ref().map(|time| time.0))
    };
    let own = || managed_fields.iter().filter(|entry| is_of_the_object(entry));
    let found = own().filter(marked).min_by_key(best);
    let found = found.or_else(|| own().filter(|entry| is_helm(entry)).min_by_key(best))?;
    Some(Holder { manager: found.manager.clone().unwrap_or_default(), applies: applies(found) })
}

/// How Sherpack's tools hold an object: they always apply, under one name.
#[must_use]
pub fn sherpack_holder() -> Holder {
    Holder { manager: names::MANAGER_APPLY.to_owned(), applies: true }
}

/// The same entries with those of `holder` in place of ours, so that everything that asks what we have lost, and to
/// whom, tells what the installer has.
#[must_use]
pub fn as_ours(managed_fields: &[ManagedFieldsEntry], holder: &Holder) -> Vec<ManagedFieldsEntry> {
    let mut entries = managed_fields.to_vec();
    for entry in entries.iter_mut().filter(|entry| is_held(entry, holder)) {
        entry.manager = Some(names::MANAGER_APPLY.to_owned());
        entry.operation = Some("Apply".to_owned());
    }
    entries
}

fn is_held(entry: &ManagedFieldsEntry, holder: &Holder) -> bool {
    is_of_the_object(entry)
        && applies(entry) == holder.applies
        && entry.manager.as_deref() == Some(holder.manager.as_str())
}

/// The fields that `holder` has, as the API server writes them.
#[must_use]
pub fn held<'a>(managed_fields: &'a [ManagedFieldsEntry], holder: &Holder) -> Option<&'a Value> {
    let entry = managed_fields.iter().find(|entry| is_held(entry, holder))?;
    entry.fields_v1.as_ref().map(|fields| &fields.0)
}

/// The entries of `after`, in which no manager that patches shares with `holder` what that had lost `before`; `None` when
/// none does. A manager that applies the same value on purpose keeps it.
#[must_use]
pub fn held_alone(
    before: &[ManagedFieldsEntry],
    after: &[ManagedFieldsEntry],
    holder: &Holder,
) -> Option<Vec<ManagedFieldsEntry>> {
    let now = held(after, holder).filter(|_| holder.applies)?;
    let regained = match held(before, holder) {
        Some(before) => without(now, before)?,
        None => now.clone(),
    };
    let mut shared = false;
    let mut entries = Vec::with_capacity(after.len());
    for entry in after {
        let mut entry = entry.clone();
        let theirs = is_of_the_object(&entry) && !applies(&entry);
        if let Some(fields) = entry.fields_v1.as_mut().filter(|_| theirs) {
            let left = without(&fields.0, &regained);
            shared |= left.as_ref() != Some(&fields.0);
            match left {
                Some(left) => fields.0 = left,
                None => continue,
            }
        }
        entries.push(entry);
    }
    shared.then_some(entries)
}

/// The fields of one set that are not in another; `None` when none is left.
fn without(fields: &Value, others: &Value) -> Option<Value> {
    let mut left = Map::new();
    for (key, inner) in fields.as_object()? {
        let kept = match others.get(key) {
            None => Some(inner.clone()),
            Some(other) if has_parts(inner) && has_parts(other) => without(inner, other),
            Some(_) => None,
        };
        left.extend(kept.map(|kept| (key.clone(), kept)));
    }
    // That an element is there says nothing once nothing of it is held.
    left.keys().any(|key| key != ".").then_some(Value::Object(left))
}

fn has_parts(fields: &Value) -> bool {
    fields.as_object().is_some_and(|parts| !parts.is_empty())
}

fn applies(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some("Apply")
}

fn is_of_the_object(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"})
    }

    fn entries(json: &Value) -> Vec<ManagedFieldsEntry> {
        serde_json::from_value(json.clone()).unwrap()
    }

    fn marked() -> Value {
        json!({"f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}, "f:data": {"f:a": {}}})
    }

    fn meta(meta: Value) -> ObjectMeta {
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn the_installer_is_who_wrote_the_name_of_the_release() {
        let data = json!({"f:data": {"f:a": {}}});
        let found = |list: Value| helm_holder(&entries(&list)).map(|holder| (holder.manager, holder.applies));
        let of = |manager: &str, applies| Some((manager.to_owned(), applies));
        assert_eq!(found(json!([entry("helm", "Update", None, &marked())])), of("helm", false));
        assert_eq!(found(json!([entry("helm", "Apply", None, &marked())])), of("helm", true));
        let flux =
            json!([entry("helm", "Update", None, &data), entry("helm-controller", "Apply", None, &marked())]);
        assert_eq!(found(flux), of("helm-controller", true), "the mark counts for more than the name");
        let both = json!([entry("a", "Apply", None, &marked()), entry("helm", "Update", None, &marked())]);
        assert_eq!(found(both), of("helm", false));
        assert_eq!(
            found(json!([entry("helm", "Update", None, &data)])),
            of("helm", false),
            "the mark was taken off"
        );
        assert_eq!(found(json!([entry("helm", "Update", Some("status"), &marked())])), None);
        assert_eq!(found(json!([entry("kubectl", "Update", None, &data)])), None);
        assert_eq!(found(json!([])), None);
    }

    #[test]
    fn the_part_of_the_installer_stands_in_for_ours() {
        let others = entry("kubectl-edit", "Update", None, &json!({"f:data": {"f:a": {}}}));
        let list = entries(&json!([others, entry("helm", "Update", None, &json!({"f:data": {"f:b": {}}}))]));
        let holder = Holder { manager: "helm".to_owned(), applies: false };
        let body = json!({"kind": "ConfigMap", "data": {"a": "1", "b": "2"}});
        let taken = super::super::rivals(&body, &as_ours(&list, &holder));
        assert_eq!(taken.len(), 1);
        assert_eq!(
            (taken[0].manager.as_str(), &taken[0].paths[..]),
            ("kubectl-edit", &["/data/a".to_owned()][..])
        );
        assert_eq!(held(&list, &holder), Some(&json!({"f:data": {"f:b": {}}})));
        assert_eq!(held(&list, &Holder { applies: true, ..holder }), None);
    }

    #[test]
    fn what_the_installer_has_again_is_taken_off_those_who_patched() {
        let holder = Holder { manager: "helm".to_owned(), applies: true };
        let (whole, part) = (json!({"f:data": {"f:a": {}, "f:b": {}}}), json!({"f:data": {"f:b": {}}}));
        let theirs =
            json!({"f:data": {"f:a": {}, "f:added": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}});
        let list = |own: &Value, operation: &str, theirs: &Value| {
            entries(&json!([
                entry("helm", "Apply", None, own),
                entry("kubectl-edit", operation, None, theirs)
            ]))
        };
        let (before, after) = (list(&part, "Update", &theirs), list(&whole, "Update", &theirs));
        let set = held_alone(&before, &after, &holder).unwrap();
        let left = json!({"f:data": {"f:added": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}});
        assert_eq!(set[1].fields_v1.as_ref().unwrap().0, left);
        assert_eq!(set[0], after[0]);
        let only = json!({"f:data": {".": {}, "f:a": {}}});
        assert_eq!(held_alone(&before, &list(&whole, "Update", &only), &holder).unwrap().len(), 1);
        assert_eq!(held_alone(&after, &after, &holder), None, "shared all along");
        assert_eq!(held_alone(&before, &list(&whole, "Apply", &theirs), &holder), None);
        assert_eq!(held_alone(&before, &after, &Holder { applies: false, ..holder }), None);
    }

    #[test]
    fn a_status_changes_nothing_and_everything_else_does() {
        let base = |generation: i64, time: &str, version: &str| {
            let mut own = entry("helm", "Update", None, &marked());
            own["time"] = json!(time);
            let mut status =
                entry("kube-controller-manager", "Update", Some("status"), &json!({"f:status": {}}));
            status["time"] = json!(time);
            json!({"generation": generation, "resourceVersion": version, "labels": {"a": "1"},
                "managedFields": [own, status]})
        };
        let (noon, later) = ("2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z");
        let first = whole(&meta(base(1, noon, "1")));
        assert_eq!(whole(&meta(base(1, later, "2"))), first, "a status with its time");
        assert_ne!(whole(&meta(base(2, noon, "1"))), first);
        let mut labelled = base(1, noon, "1");
        labelled["labels"]["a"] = json!("2");
        assert_ne!(whole(&meta(labelled)), first);
        let mut taken = base(1, noon, "1");
        taken["managedFields"][0]["fieldsV1"]["f:data"] = json!({});
        assert_ne!(whole(&meta(taken)), first);
        // Without a generation: the times of what is no status.
        let plain = whole(&meta(base(0, noon, "1")));
        assert_ne!(whole(&meta(base(0, later, "1"))), plain);
        assert_eq!(whole(&meta(base(0, noon, "2"))), plain);
        // Without any part of its own: every write.
        let bare = |version: &str| {
            let mut object = base(0, noon, version);
            object["managedFields"].as_array_mut().unwrap().pop();
            whole(&meta(object))
        };
        assert_ne!(bare("1"), bare("2"));
    }
}
