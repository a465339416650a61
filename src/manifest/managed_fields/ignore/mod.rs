//! What rules leave to others of one object: which fields an apply leaves out, and what has to be done first so that
//! nothing is reset.
//!
//! A field that we own and leave out is reset by the API server, so its live value gets another owner before. A field
//! inside of a list that the API server takes as one value cannot be left out: there the live value is applied.

mod landing;
mod places;

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value, json};

use self::landing::{land, steps};
use self::places::{Path, Place, at, at_mut, expand, pointer, sorted};
use super::fields::{Child, Fields, Step, key_fields, names_element};
use super::fingerprint::{is_ours, ours};
use super::rivals::covers;
use crate::api::{FieldPath, IgnoreRule, names};
use crate::manifest::Object;
use crate::manifest::pointer::{escape, leave_out, remove_pointer};

/// What the rules say of one object.
#[derive(Debug, Default)]
pub struct Wishes<'r> {
    paths: Vec<&'r FieldPath>,
    managers: Vec<&'r str>,
    /// Nothing of it is locked.
    pub whole: bool,
}

/// What the rules say of an object, and its own annotation; `None`: nothing. They never speak of definitions.
#[must_use]
pub fn wishes<'r>(rules: &'r [Arc<IgnoreRule>], object: &Object) -> Option<Wishes<'r>> {
    let id = &object.id;
    if id.is_definition() {
        return None;
    }
    let mut wishes = Wishes { whole: object.unlocked(), ..Wishes::default() };
    let label = |key: &str| object.label(key);
    for rule in rules {
        if rule.selects(&id.group, &id.kind, id.namespace.as_deref(), &id.name, label) {
            wishes.whole |= rule.paths.is_empty() && rule.managers.is_empty();
            wishes.paths.extend(&rule.paths);
            wishes.managers.extend(rule.managers.iter().map(String::as_str));
        }
    }
    (wishes.whole || !wishes.paths.is_empty() || !wishes.managers.is_empty()).then_some(wishes)
}

impl Wishes<'_> {
    /// Whether all that a manager owns is left to it.
    #[must_use]
    pub fn leaves_to(&self, manager: &str) -> bool {
        self.managers.contains(&manager)
    }
}

/// How an object that exists is applied.
#[derive(Debug, Default, PartialEq)]
pub struct Settled {
    /// What the apply leaves out; see [`InventoryEntry::ignored`](crate::manifest::InventoryEntry::ignored).
    pub left_out: Vec<String>,
    /// Applied by another manager before.
    pub hand_over: Option<Value>,
    /// Takes the place of the manifest's body. It holds values of the live object and its resourceVersion, so that a
    /// change that comes between is not undone.
    pub body: Option<Value>,
}

/// How `object` is applied so that nothing is touched that `wishes` leave to others. `live` is the object in the
/// cluster, if it was read; `managed_fields` are its own.
///
/// `None`: that cannot be said without `live`.
#[must_use]
pub fn settle(
    object: &Object,
    wishes: &Wishes<'_>,
    live: Option<&Value>,
    managed_fields: &[ManagedFieldsEntry],
) -> Option<Settled> {
    let body = &object.body;
    let all = sets(managed_fields);
    let ours = Fields::of(ours(managed_fields));
    let mut settled = Settled::default();
    let mut handed = json!({});
    let mut overlaid = Vec::new();
    for path in picks(body, wishes, managed_fields) {
        let landing = land(body, &path, &all, live);
        if landing.is_key {
            continue;
        }
        if landing.missing {
            live?;
            continue;
        }
        if landing.atomic {
            live?;
            overlaid.push((path, landing.there));
            continue;
        }
        if covers(ours, &steps(body, &path)) {
            let live = live?;
            if let Some(there) = landing.there {
                graft(&mut handed, ours, live, &there);
            }
        }
        settled.left_out.push(pointer(&path));
    }
    settled.left_out.reverse();
    if wishes.whole {
        settled.left_out.push(String::new());
    }
    if let Some(live) = live {
        settled.body = overlay(body, live, overlaid, wishes, &all);
    }
    unmark(&mut handed);
    if handed.as_object().is_some_and(|fields| !fields.is_empty()) {
        identify(&mut handed, object);
        settled.hand_over = Some(handed);
    }
    Some(settled)
}

/// The manifest with the live values of all that is left to others: what an apply of it would change is drift.
#[must_use]
pub fn as_live(
    object: &Object,
    wishes: &Wishes<'_>,
    live: &Value,
    managed_fields: &[ManagedFieldsEntry],
) -> Value {
    with_live(object, wishes, live, managed_fields, |there| at(live, there).cloned())
}

/// The manifest to be applied in the name of the installer of the object: of what is left to others it applies what it holds
/// already, as it is now, because left out it would be reset. `managed_fields` have his entry in the place of ours.
#[must_use]
pub fn as_held(
    object: &Object,
    wishes: &Wishes<'_>,
    live: &Value,
    managed_fields: &[ManagedFieldsEntry],
) -> Value {
    let his = Fields::of(ours(managed_fields));
    with_live(object, wishes, live, managed_fields, |there| held_at(his, live, there))
}

/// What a set has at a place of the live object and below.
fn held_at(set: Fields<'_>, live: &Value, path: &[Place]) -> Option<Value> {
    let mut set = set;
    for step in steps(live, path) {
        match set.child(step) {
            Child::Absent => return None,
            Child::Leaf => return at(live, path).cloned(),
            Child::Inner(inner) => set = inner,
        }
    }
    let value = at(live, path)?;
    let mut held = if value.is_array() { json!([]) } else { json!({}) };
    owned(&mut held, set, value);
    Some(held)
}

/// What is left to others has the value that `there` gives for its place in the live object, or where it is a part of one
/// value the live one; without a value it is left out.
fn with_live(
    object: &Object,
    wishes: &Wishes<'_>,
    live: &Value,
    managed_fields: &[ManagedFieldsEntry],
    there: impl Fn(&[Place]) -> Option<Value>,
) -> Value {
    let all = sets(managed_fields);
    let mut body = object.body.clone();
    for path in picks(&object.body, wishes, managed_fields).into_iter().rev() {
        let landing = land(&object.body, &path, &all, Some(live));
        if landing.is_key || landing.missing {
            continue;
        }
        let value = landing.there.and_then(|place| match landing.atomic {
            true => at(live, &place).cloned(),
            false => there(&place),
        });
        put(&mut body, &path, value.as_ref());
    }
    add_theirs(&mut body, &object.body, live, wishes, &all);
    body
}

/// The part of the manifest that is left to no other manager.
#[must_use]
pub fn locked_part<'o>(
    object: &'o Object,
    rules: &[Arc<IgnoreRule>],
    managed_fields: &[ManagedFieldsEntry],
) -> Cow<'o, Value> {
    let Some(wishes) = wishes(rules, object) else { return Cow::Borrowed(&object.body) };
    let all = sets(managed_fields);
    let mut body = object.body.clone();
    for path in picks(&object.body, &wishes, managed_fields).into_iter().rev() {
        if !land(&object.body, &path, &all, None).is_key {
            put(&mut body, &path, None);
        }
    }
    Cow::Owned(body)
}

/// The values of a body that a path means.
#[must_use]
pub fn values_at<'v>(path: &FieldPath, body: &'v Value) -> Vec<&'v Value> {
    expand(path, body).iter().filter_map(|path| at(body, path)).collect()
}

/// Whether a manager's field is left to it; `path` is in the notation of `fieldsV1`. For what cannot be told without the
/// object, such as an index, the answer is yes, and as well for what is one value and has a part that is left to him.
pub(super) fn leaves(wishes: &Wishes<'_>, path: &[&str], is_one_value: bool) -> bool {
    wishes.whole
        || wishes.paths.iter().any(|wanted| {
            (is_one_value || wanted.0.len() <= path.len())
                && wanted.0.iter().zip(path).all(|(segment, key)| speaks_of(segment, key))
        })
}

fn speaks_of(segment: &crate::api::Segment, key: &str) -> bool {
    use crate::api::Segment;
    let of_list = |key: &str| ["k:", "v:", "i:"].iter().any(|prefix| key.starts_with(prefix));
    match segment {
        Segment::Any => true,
        Segment::Field(name) => {
            key.strip_prefix("f:") == Some(name) || (of_list(key) && name.parse::<usize>().is_ok())
        }
        Segment::Item(pairs) => match key_fields(key) {
            Some(keys) => pairs.iter().all(|(key, wanted)| {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                keys.get(key).is_none_or(|value| text(value) == *wanted)
            }),
            None => of_list(key),
        },
    }
}

fn sets(managed_fields: &[ManagedFieldsEntry]) -> Vec<Fields<'_>> {
    managed_fields.iter().map(Fields::of).collect()
}

/// The places in the manifest that are left to others.
fn picks(body: &Value, wishes: &Wishes<'_>, managed_fields: &[ManagedFieldsEntry]) -> Vec<Path> {
    let mut found: Vec<Path> = Vec::new();
    if wishes.whole {
        found.extend(children(body, &[]));
        found.extend(children(body, &[Place::Key("metadata".to_owned())]));
    } else {
        found.extend(wishes.paths.iter().flat_map(|path| expand(path, body)));
        let theirs = managed_fields.iter().filter(|entry| {
            !is_ours(entry) && entry.manager.as_deref().is_some_and(|name| wishes.managers.contains(&name))
        });
        for entry in theirs {
            let fields = Fields::of(entry);
            shared(body, fields, &mut Vec::new(), &mut found);
        }
    }
    found.retain(|path| !identifies(path));
    sorted(found)
}

fn children(body: &Value, parent: &[Place]) -> Vec<Path> {
    let keys = at(body, parent).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    keys.map(|key| parent.iter().cloned().chain([Place::Key(key.clone())]).collect()).collect()
}

/// What tells an object from others is no manager's field.
fn identifies(path: &[Place]) -> bool {
    let keys: Vec<&str> = path
        .iter()
        .map(|place| match place {
            Place::Key(key) => key.as_str(),
            Place::Index(_) => "",
        })
        .collect();
    matches!(keys[..], ["apiVersion" | "kind" | "metadata"] | ["metadata", "name" | "namespace"])
}

/// The places in `body` that a set has as well.
fn shared(body: &Value, fields: Fields<'_>, here: &mut Path, found: &mut Vec<Path>) {
    let mut into = |place: Place, step: Step<'_>, value: &Value| {
        here.push(place);
        match fields.child(step) {
            Child::Absent => {}
            Child::Leaf => found.push(here.clone()),
            Child::Inner(inner) => shared(value, inner, here, found),
        }
        here.pop();
    };
    match body {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| into(Place::Key(key.clone()), Step::Field(key), value));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(i, item)| into(Place::Index(i), Step::Element(i, item), item));
        }
        _ => {}
    }
}

/// Adds what we own at `path` of the live object to the fields that get another owner.
fn graft(fields: &mut Value, ours: Fields<'_>, live: &Value, path: &[Place]) {
    let Some((place, rest)) = path.split_first() else { return };
    let Some(value) = at(live, std::slice::from_ref(place)) else { return };
    let step = match place {
        Place::Key(key) => Step::Field(key),
        Place::Index(index) => Step::Element(*index, value),
    };
    let child = ours.child(step);
    if matches!(child, Child::Absent) {
        return;
    }
    let slot = match place {
        Place::Key(key) => {
            let Some(map) = fields.as_object_mut() else { return };
            let empty = if value.is_array() { json!([]) } else { json!({}) };
            map.entry(key.clone()).or_insert(empty)
        }
        Place::Index(_) => {
            let (Some(items), Some(key)) = (fields.as_array_mut(), ours.element_key(step)) else { return };
            let known =
                items.iter().enumerate().find(|(i, item)| names_element(key, *i, item)).map(|(i, _)| i);
            let at = known.unwrap_or(items.len());
            if known.is_none() {
                items.push(key_fields(key).map_or_else(|| value.clone(), Value::Object));
            }
            let Some(slot) = items.get_mut(at) else { return };
            slot
        }
    };
    match child {
        Child::Inner(inner) if !rest.is_empty() => graft(slot, inner, value, rest),
        Child::Inner(inner) => owned(slot, inner, value),
        Child::Leaf | Child::Absent => *slot = value.clone(),
    }
}

/// Adds what we own of `live` and below.
fn owned(fields: &mut Value, ours: Fields<'_>, live: &Value) {
    let places: Vec<Place> = match live {
        Value::Object(map) => map.keys().cloned().map(Place::Key).collect(),
        Value::Array(items) => (0..items.len()).map(Place::Index).collect(),
        _ => return,
    };
    for place in places {
        graft(fields, ours, live, &[place]);
    }
}

/// The body with live values at the places inside of what is one value; `None`: there are no such places.
fn overlay(
    body: &Value,
    live: &Value,
    places: Vec<(Path, Option<Path>)>,
    wishes: &Wishes<'_>,
    sets: &[Fields<'_>],
) -> Option<Value> {
    let mut changed = body.clone();
    let mut any = !places.is_empty();
    for (path, there) in places.into_iter().rev() {
        put(&mut changed, &path, there.and_then(|there| at(live, &there)));
    }
    any |= add_theirs(&mut changed, body, live, wishes, sets);
    if let Some(metadata) = changed.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(version) = live.pointer("/metadata/resourceVersion")
    {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    any.then_some(changed)
}

/// Adds what others have put inside of what is one value, which would go with the rest of it. Whether there is anything.
fn add_theirs(
    changed: &mut Value,
    body: &Value,
    live: &Value,
    wishes: &Wishes<'_>,
    sets: &[Fields<'_>],
) -> bool {
    let mut any = false;
    for path in wishes.paths.iter().flat_map(|path| expand(path, live)) {
        let (landing, Some((last, parent))) = (land(live, &path, sets, Some(body)), path.split_last()) else {
            continue;
        };
        let parent =
            land(live, parent, sets, Some(body)).there.filter(|_| landing.atomic && landing.there.is_none());
        let Some(parent) = parent.and_then(|parent| at_mut(changed, &parent)) else { continue };
        let Some(value) = at(live, &path) else { continue };
        any = true;
        match (parent, last) {
            (Value::Object(map), Place::Key(key)) => drop(map.insert(key.clone(), value.clone())),
            (Value::Array(items), Place::Index(_)) => items.push(value.clone()),
            _ => {}
        }
    }
    any
}

/// Puts a value at a place that exists, or takes the place away.
fn put(body: &mut Value, path: &[Place], value: Option<&Value>) {
    match value {
        Some(value) => {
            if let Some(slot) = at_mut(body, path) {
                slot.clone_from(value);
            }
        }
        None => leave_out(body, &[pointer(path)]),
    }
}

/// Our marks stay ours.
fn unmark(fields: &mut Value) {
    for (map, key) in [
        ("labels", names::RELEASE_NAME),
        ("labels", names::RELEASE_NAMESPACE),
        ("annotations", names::APPLIED),
    ] {
        remove_pointer(fields, &format!("/metadata/{map}/{}", escape(key)));
    }
    for map in ["/metadata/labels", "/metadata/annotations", "/metadata"] {
        if fields.pointer(map).and_then(Value::as_object).is_some_and(Map::is_empty) {
            remove_pointer(fields, map);
        }
    }
}

fn identify(fields: &mut Value, object: &Object) {
    let Some(top) = fields.as_object_mut() else { return };
    top.insert("apiVersion".to_owned(), object.api_version.clone().into());
    top.insert("kind".to_owned(), object.id.kind.clone().into());
    let metadata = top.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("name".to_owned(), object.id.name.clone().into());
        if let Some(namespace) = &object.id.namespace {
            metadata.insert("namespace".to_owned(), namespace.clone().into());
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
