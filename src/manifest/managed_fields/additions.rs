use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

use super::fields::{key_fields, names_element};
use super::fingerprint::{is_ours, ours};
use super::rivals::Taken;
use crate::manifest::Object;
use crate::manifest::digest::{canonical_json, sha256_hex};
use crate::manifest::managed_fields::ignore::{Wishes, leaves};
use crate::manifest::pointer::escape;

/// A fingerprint that also covers what `managers` have added of their own: the same one when that is nothing.
#[must_use]
pub fn with_additions(
    fingerprint: Option<String>,
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
) -> Option<String> {
    let additions = all(managed_fields, managers, None, None);
    let fingerprint = fingerprint?;
    if additions.is_empty() {
        return Some(fingerprint);
    }
    let mut text = String::new();
    for (entry, fields) in additions {
        let manager = entry.manager.as_deref().unwrap_or_default();
        text.push_str(&format!("{manager}\n{}\n", canonical_json(&fields)));
    }
    let mut hash = sha256_hex(text.as_bytes());
    hash.truncate(16);
    Some(format!("{fingerprint}+{hash}"))
}

/// Who of `managers` has added what of his own that `wishes` do not leave to him; the newest first.
///
/// What anybody else has as well is no addition. `object` is what was installed, if not all of it is known to be ours: what it
/// says is no addition either, whichever manager holds it.
#[must_use]
pub fn added(
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
    object: Option<&Object>,
) -> Vec<Taken> {
    let mut added: Vec<Taken> = all(managed_fields, managers, wishes, object)
        .into_iter()
        .map(|(entry, fields)| {
            let mut paths = Vec::new();
            tell(&fields, "", &mut paths);
            Taken {
                manager: entry.manager.clone().unwrap_or_default(),
                operation: entry.operation.clone().unwrap_or_default(),
                subresource: None,
                time: entry.time.as_ref().map(|time| time.0),
                paths,
            }
        })
        .collect();
    added.sort_by_key(|taken| std::cmp::Reverse(taken.time));
    added
}

/// Where all of [`added`] stands in the `live` object: JSON pointers, of the items of a list the last ones first, so that each still
/// means the same when those before it are gone.
#[must_use]
pub fn places_of_added(
    live: &Value,
    managed_fields: &[ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
    object: Option<&Object>,
) -> Vec<String> {
    let additions = all(managed_fields, managers, wishes, object);
    let mut found = Vec::new();
    if additions.is_empty() {
        // A set with nothing in it would be a leaf.
        return found;
    }
    let mut sum = Value::Object(Map::new());
    additions.iter().for_each(|(_, fields)| with(&mut sum, fields));
    locate(&sum, live, "", &mut found);
    found
}

/// The entries in which nothing that `object` says is lost: all of that is ours as well, whichever manager holds it.
#[must_use]
pub fn nothing_lost(managed_fields: &[ManagedFieldsEntry], object: &Object) -> Vec<ManagedFieldsEntry> {
    let sets = || managed_fields.iter().filter_map(|entry| entry.fields_v1.as_ref());
    let mut entries = managed_fields.to_vec();
    if let Some(own) = entries.iter_mut().find(|entry| is_ours(entry)).and_then(|own| own.fields_v1.as_mut())
    {
        sets().filter_map(|set| said(&set.0, &object.body)).for_each(|said| with(&mut own.0, &said));
    }
    entries
}

/// For each entry of `managers` what it has and no other entry.
fn all<'e>(
    managed_fields: &'e [ManagedFieldsEntry],
    managers: &[String],
    wishes: Option<&Wishes<'_>>,
    object: Option<&Object>,
) -> Vec<(&'e ManagedFieldsEntry, Value)> {
    let own = ours(managed_fields).and_then(|own| own.api_version.as_ref());
    let Some(version) = object.map(|object| &object.api_version).or(own) else { return Vec::new() };
    let is_named = |entry: &&ManagedFieldsEntry| {
        !is_ours(entry)
            && entry.manager.as_ref().is_some_and(|manager| managers.contains(manager))
            && !entry.manager.as_deref().is_some_and(|name| wishes.is_some_and(|wishes| wishes.leaves_to(name)))
            // Status and replicas that were written as such are a controller's business.
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            // The fields of another version may have other names.
            && entry.api_version.as_ref() == Some(version)
    };
    let (named, others): (Vec<_>, Vec<_>) = managed_fields.iter().partition(is_named);
    if named.is_empty() {
        return Vec::new();
    }
    let fields = |entry: &'e ManagedFieldsEntry| entry.fields_v1.as_ref().map(|fields| &fields.0);
    let mut stays = Value::Object(Map::new());
    others.into_iter().filter_map(fields).for_each(|fields| with(&mut stays, fields));
    for theirs in named.iter().copied().filter_map(fields) {
        let said = object.and_then(|object| said(theirs, &object.body));
        let kept = kept(theirs, wishes, &mut Vec::new());
        said.iter().chain(&kept).for_each(|part| with(&mut stays, part));
    }
    let extra = |entry: &'e ManagedFieldsEntry| {
        let (extra, _) = extra(fields(entry)?.as_object()?, Some(&stays), false);
        (!extra.is_empty()).then_some((entry, Value::Object(extra)))
    };
    named.into_iter().filter_map(extra).collect()
}

/// The part of a set that is not for us to take away, or that `wishes` leave to others.
fn kept<'a>(fields: &'a Value, wishes: Option<&Wishes<'_>>, path: &mut Vec<&'a str>) -> Option<Value> {
    let mut part = Map::new();
    for (key, inner) in fields.as_object()?.iter().filter(|(key, _)| *key != ".") {
        path.push(key);
        let is_leaf = inner.as_object().is_none_or(Map::is_empty);
        let stays = is_trade(path) || wishes.is_some_and(|wishes| leaves(wishes, path, is_leaf));
        let below = if stays { Some(inner.clone()) } else { kept(inner, wishes, path) };
        part.extend(below.map(|below| (key.clone(), below)));
        path.pop();
    }
    (!part.is_empty()).then_some(Value::Object(part))
}

/// The part of a set that `body` says as well.
fn said(fields: &Value, body: &Value) -> Option<Value> {
    if body.is_null() {
        return None;
    }
    let mut part = Map::new();
    for (key, inner) in fields.as_object()? {
        let items = || body.as_array().into_iter().flatten().enumerate();
        let below: Vec<&Value> = match key.strip_prefix("f:") {
            Some(name) => body.get(name).into_iter().collect(),
            None if key == "." => vec![body],
            None => match items().find(|(i, item)| names_element(key, *i, item)) {
                Some((_, item)) => vec![item],
                None => items().filter(|(_, item)| may_name(key, item)).map(|(_, item)| item).collect(),
            },
        };
        for below in below.into_iter().filter_map(|below| said(inner, below)) {
            with(part.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), &below);
        }
    }
    Some(Value::Object(part))
}

/// Whether a key may be that of an element: what the element does not say may be filled in with anything.
fn may_name(key: &str, element: &Value) -> bool {
    key_fields(key).is_some_and(|keys| {
        keys.iter().any(|(key, value)| element.get(key) == Some(value))
            && keys.iter().all(|(key, value)| element.get(key).is_none_or(|own| own == value))
    })
}

/// The part of a set that is in no other, and whether that is all of it.
///
/// An item of a list goes as a whole or not at all when it is theirs: without some of its fields it may be none that the API
/// server accepts.
fn extra(theirs: &Map<String, Value>, stays: Option<&Value>, is_item: bool) -> (Map<String, Value>, bool) {
    let is_held = stays.is_some_and(|stays| !is_item || stays.get(".").is_some());
    let mut found = Map::new();
    let mut whole = stays.is_none();
    for (key, value) in theirs.iter().filter(|(key, _)| *key != ".") {
        let stays = stays.and_then(|stays| stays.get(key));
        if let Some(inner) = value.as_object().filter(|inner| !inner.is_empty()) {
            let keys = key_fields(key);
            let (mut inner, all) = extra(inner, stays, keys.is_some());
            whole &= all;
            if let Some(keys) = keys.filter(|_| !all) {
                // What tells it from others stays with the item.
                inner.retain(|key, _| !key.strip_prefix("f:").is_some_and(|name| keys.contains_key(name)));
            }
            if !inner.is_empty() {
                found.insert(key.clone(), Value::Object(inner));
            }
        } else if stays.is_none() {
            found.insert(key.clone(), value.clone());
        } else {
            whole = false;
        }
    }
    match theirs.get(".").filter(|_| whole) {
        Some(itself) => drop(found.insert(".".to_owned(), itself.clone())),
        None if is_item && !is_held => {
            found.clear();
            whole = false;
        }
        None => {}
    }
    (found, whole)
}

/// What is not for us to take away, whichever manager wrote it: status, replicas, which an autoscaler may need, and of the metadata all
/// but labels and annotations.
fn is_trade(path: &[&str]) -> bool {
    match path {
        ["f:status", ..] | ["f:spec", "f:replicas"] => true,
        ["f:metadata", field, ..] => !matches!(*field, "f:labels" | "f:annotations"),
        _ => false,
    }
}

fn with(fields: &mut Value, more: &Value) {
    let (Some(map), Some(more)) = (fields.as_object_mut(), more.as_object()) else { return };
    for (key, inner) in more {
        with(map.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())), inner);
    }
}

/// Where the fields of a set stand in `value`.
fn locate(fields: &Value, value: &Value, pointer: &str, found: &mut Vec<String>) {
    let Some(map) = fields.as_object().filter(|map| !map.is_empty() && !map.contains_key(".")) else {
        return found.push(pointer.to_owned());
    };
    for (name, inner) in map.iter().filter_map(|(key, inner)| Some((key.strip_prefix("f:")?, inner))) {
        if let Some(value) = value.get(name) {
            locate(inner, value, &format!("{pointer}/{}", escape(name)), found);
        }
    }
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    for (i, item) in items.iter().enumerate().rev() {
        if let Some((_, inner)) = map.iter().find(|(key, _)| names_element(key, i, item)) {
            locate(inner, item, &format!("{pointer}/{i}"), found);
        }
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
        } else if let Some(keys) = key_fields(key) {
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
#[path = "additions_tests.rs"]
mod tests;
