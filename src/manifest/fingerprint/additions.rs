use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value};

use super::rivals::Taken;
use super::{is_ours, ours};
use crate::manifest::digest::{canonical_json, sha256_hex};
use crate::manifest::ignore::{Wishes, leaves};
use crate::manifest::pointer::escape;

/// A fingerprint that also covers what `managers` have added of their own: the same one when that is nothing.
#[must_use]
pub fn with_additions(
    fingerprint: Option<String>,
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
) -> Option<String> {
    let additions = all(managed_fields, managers, None);
    let fingerprint = fingerprint?;
    if additions.is_empty() {
        return Some(fingerprint);
    }
    let mut text = String::new();
    for (at, fields) in additions {
        let manager = managed_fields.get(at).and_then(|entry| entry.manager.as_deref());
        text.push_str(&format!("{}\n{}\n", manager.unwrap_or_default(), canonical_json(&fields)));
    }
    let mut hash = sha256_hex(text.as_bytes());
    hash.truncate(16);
    Some(format!("{fingerprint}+{hash}"))
}

/// Who of `managers` has added what of his own that `wishes` do not leave to him; the newest first.
#[must_use]
pub fn added(
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
) -> Vec<Taken> {
    let mut added: Vec<Taken> = all(managed_fields, managers, wishes)
        .into_iter()
        .filter_map(|(at, fields)| {
            let entry = managed_fields.get(at)?;
            let mut paths = Vec::new();
            tell(&fields, "", &mut paths);
            Some(Taken {
                manager: entry.manager.clone().unwrap_or_default(),
                operation: entry.operation.clone().unwrap_or_default(),
                subresource: None,
                time: entry.time.as_ref().map(|time| time.0),
                paths,
            })
        })
        .collect();
    added.sort_by_key(|taken| std::cmp::Reverse(taken.time));
    added
}

/// The managedFields in which all of [`added`] is ours: the next full apply takes it away, and nothing else, as the API
/// server does with every field that its owner says no more. `None`: there is nothing to take away.
#[must_use]
pub fn taken_back(
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
) -> Option<Vec<ManagedFieldsEntry>> {
    let additions = all(managed_fields, managers, wishes);
    if additions.is_empty() {
        return None;
    }
    let mut entries = managed_fields.to_vec();
    let own = entries.iter().position(is_ours)?;
    for (at, fields) in &additions {
        let theirs = entries.get_mut(*at).and_then(|entry| entry.fields_v1.as_mut())?;
        without(&mut theirs.0, fields);
        let ours = entries.get_mut(own).and_then(|entry| entry.fields_v1.as_mut())?;
        with(&mut ours.0, fields);
    }
    entries.retain(|entry| entry.fields_v1.as_ref().is_none_or(|FieldsV1(fields)| !is_empty(fields)));
    Some(entries)
}

/// Undoes [`taken_back`]: what the managers had `before` is theirs again in the managedFields of `now`.
#[must_use]
pub fn given_back(
    now: &[ManagedFieldsEntry],
    before: &[ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
) -> Vec<ManagedFieldsEntry> {
    let mut entries = now.to_vec();
    for (at, fields) in all(before, managers, wishes) {
        let Some(theirs) = before.get(at) else { continue };
        if let Some(ours) = entries.iter_mut().find(|entry| is_ours(entry)).and_then(|e| e.fields_v1.as_mut())
        {
            without(&mut ours.0, &fields);
        }
        let same = |entry: &&mut ManagedFieldsEntry| {
            entry.manager == theirs.manager
                && entry.operation == theirs.operation
                && entry.api_version == theirs.api_version
                && entry.subresource == theirs.subresource
        };
        match entries.iter_mut().find(same).map(|entry| entry.fields_v1.as_mut()) {
            Some(Some(known)) => with(&mut known.0, &fields),
            _ => entries.push(ManagedFieldsEntry { fields_v1: Some(FieldsV1(fields)), ..theirs.clone() }),
        }
    }
    entries
}

/// For each entry of `managers`, by its index, what it has and we have not.
fn all(
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
) -> Vec<(usize, Value)> {
    let Some(own) = ours(managed_fields) else { return Vec::new() };
    let ours = own.fields_v1.as_ref().map(|fields| &fields.0);
    let theirs = managed_fields.iter().enumerate().filter(|(_, entry)| {
        !is_ours(entry)
            && entry.manager.as_ref().is_some_and(|manager| managers.contains(manager))
            && !entry.manager.as_deref().is_some_and(|name| wishes.is_some_and(|wishes| wishes.leaves_to(name)))
            // Status and replicas that were written as such are somebody's trade.
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            // The fields of another version may have other names.
            && entry.api_version == own.api_version
    });
    let extra = |entry: &ManagedFieldsEntry| {
        let fields = &entry.fields_v1.as_ref()?.0;
        Some(Value::Object(extra(fields.as_object()?, ours, wishes, &mut Vec::new())?))
    };
    theirs.filter_map(|(at, entry)| Some((at, extra(entry)?))).collect()
}

/// The part of `theirs` that is not in `ours`; `None` when that is nothing.
fn extra<'a>(
    theirs: &'a Map<String, Value>,
    ours: Option<&Value>,
    wishes: Option<&Wishes<'_>>,
    path: &mut Vec<&'a str>,
) -> Option<Map<String, Value>> {
    let mut found = Map::new();
    for (key, value) in theirs {
        let ours = ours.and_then(|ours| ours.get(key));
        if key == "." {
            // The element itself. Where we have fields of it, it is there by our word too.
            if ours.is_none() {
                found.insert(key.clone(), value.clone());
            }
            continue;
        }
        path.push(key);
        let stays = is_trade(path) || wishes.is_some_and(|wishes| leaves(wishes, path));
        if !stays {
            let inner = value.as_object().filter(|inner| !inner.is_empty());
            match inner {
                Some(inner) => {
                    if let Some(inner) = extra(inner, ours, wishes, path) {
                        found.insert(key.clone(), Value::Object(inner));
                    }
                }
                None if ours.is_none() => drop(found.insert(key.clone(), value.clone())),
                None => {}
            }
        }
        path.pop();
    }
    // The bare container of what stays is no addition.
    (!found.is_empty() && found.keys().any(|key| key != ".")
        || (found.len() == theirs.len() && !found.is_empty()))
    .then_some(found)
}

/// What is not for us to take away whoever wrote it: status, and of the metadata all but labels and annotations.
fn is_trade(path: &[&str]) -> bool {
    match path {
        ["f:status", ..] => true,
        ["f:metadata", field, ..] => !matches!(*field, "f:labels" | "f:annotations"),
        _ => false,
    }
}

fn is_empty(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

fn without(fields: &mut Value, gone: &Value) {
    let (Some(map), Some(gone)) = (fields.as_object_mut(), gone.as_object()) else { return };
    for (key, inner) in gone {
        if is_empty(inner) {
            map.remove(key);
        } else if let Some(value) = map.get_mut(key) {
            without(value, inner);
            if is_empty(value) {
                map.remove(key);
            }
        }
    }
}

fn with(fields: &mut Value, more: &Value) {
    let (Some(map), Some(more)) = (fields.as_object_mut(), more.as_object()) else { return };
    for (key, inner) in more {
        with(map.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), inner);
    }
}

/// Each addition as one path, `/spec/template/spec/containers[name=proxy]`.
fn tell(fields: &Value, path: &str, paths: &mut Vec<String>) {
    let Some(map) = fields.as_object().filter(|map| !map.is_empty() && !map.contains_key(".")) else {
        return paths.push(path.to_owned());
    };
    for (key, inner) in map {
        let bare = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let below = if let Some(name) = key.strip_prefix("f:") {
            format!("{path}/{}", escape(name))
        } else if let Some(keys) = super::fields::key_fields(key) {
            let pairs: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={}", bare(value))).collect();
            format!("{path}[{}]", pairs.join(","))
        } else {
            // `v:value` and `i:index`. A value of a set may be anything, and is not told.
            format!("{path}[{}]", key.split(':').next().unwrap_or_default())
        };
        tell(inner, &below, paths);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries(json: Value) -> Vec<ManagedFieldsEntry> {
        serde_json::from_value(json).unwrap()
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields})
    }

    fn managers() -> Vec<String> {
        vec!["rival".to_owned()]
    }

    fn web(extra: Value) -> Vec<ManagedFieldsEntry> {
        let image = json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}}});
        entries(json!([entry("sherpack", "Apply", image), entry("rival", "Update", extra)]))
    }

    #[test]
    fn what_a_named_manager_adds_is_told_and_changes_the_fingerprint() {
        let sidecar = json!({"f:spec": {"f:containers": {
            "k:{\"name\":\"proxy\"}": {".": {}, "f:image": {}, "f:name": {}},
            "k:{\"name\":\"web\"}": {"f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}}}},
        }}});
        let fields = web(sidecar);
        let told = added(&fields, &managers(), None);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].manager, "rival");
        assert_eq!(
            told[0].paths,
            ["/spec/containers[name=proxy]", "/spec/containers[name=web]/env"],
            "an added element is one path"
        );
        let base = Some("f".to_owned());
        assert_ne!(with_additions(base.clone(), &fields, &managers()), base);
        assert_eq!(with_additions(base.clone(), &fields, &["somebody".to_owned()]), base);
        assert_eq!(with_additions(None, &fields, &managers()), None);
    }

    #[test]
    fn trade_shared_fields_and_other_versions_are_no_additions() {
        let stays = [
            json!({"f:status": {"f:phase": {}}}),
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"x\"": {}}, "f:ownerReferences": {".": {}}}}),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}}}}}),
            json!({}),
        ];
        for fields in stays {
            assert!(added(&web(fields.clone()), &managers(), None).is_empty(), "{fields}");
        }
        let mut other = web(json!({"f:data": {"f:a": {}}}));
        assert_eq!(added(&other, &managers(), None)[0].paths, ["/data/a"]);
        other[1].api_version = Some("v2".to_owned());
        assert!(added(&other, &managers(), None).is_empty());
        other[1].api_version = Some("v1".to_owned());
        other[1].subresource = Some("scale".to_owned());
        assert!(added(&other, &managers(), None).is_empty());
    }

    #[test]
    fn additions_become_ours_and_what_is_shared_stays_theirs() {
        let fields = web(json!({
            "f:data": {".": {}, "f:a": {}},
            "f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}},
        }));
        let taken = taken_back(&fields, &managers(), None).unwrap();
        assert_eq!(
            taken[0].fields_v1.as_ref().unwrap().0,
            json!({
                "f:data": {".": {}, "f:a": {}},
                "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}},
            })
        );
        assert_eq!(
            taken[1].fields_v1.as_ref().unwrap().0,
            json!({
                "f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}},
            })
        );
        assert_eq!(taken_back(&taken, &managers(), None), None, "once");
        assert_eq!(given_back(&taken, &fields, &managers(), None), fields);
        let all = taken_back(&web(json!({"f:data": {"f:a": {}}})), &managers(), None).unwrap();
        assert_eq!(all.len(), 1, "an entry of which nothing is left goes");
        let before = web(json!({"f:data": {"f:a": {}}}));
        assert_eq!(given_back(&all, &before, &managers(), None), before);
    }
}
