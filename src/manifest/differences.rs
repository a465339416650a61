//! What differs between two bodies of one object, field by field.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

use super::managed_fields::{covers, fields, is_ours};
use super::pointer::escape;
use crate::api::names;

/// What the API server keeps of an object beside what was asked for.
const KEPT_BY_SERVER: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What tells the items of the lists of Kubernetes from each other, the usual one first.
const KEYS: [&str; 7] = ["name", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey"];

/// A field that has not the same value on both sides; a side is unset where there is no such field.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference<'v> {
    pub at: Vec<Step<'v>>,
    pub old: Option<&'v Value>,
    pub new: Option<&'v Value>,
}

/// One step on the way to a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'v> {
    Field(&'v str),
    Index(usize),
    /// The list item of which this field has this value.
    Item(&'static str, &'v Value),
}

impl Difference<'_> {
    /// A JSON pointer in which a list item stands as its key: `/spec/containers[name=web]/image`. That is how
    /// `spec.drift.ignore` and the status speak of fields, too.
    #[must_use]
    pub fn pointer(&self) -> String {
        let mut out = String::new();
        for step in &self.at {
            // Writing to a String cannot fail.
            let _ = match step {
                Step::Field(name) => write!(out, "/{}", escape(name)),
                Step::Index(index) => write!(out, "/{index}"),
                Step::Item(key, value) => write!(out, "[{key}={}]", escape(&text(value))),
            };
        }
        out
    }

    /// As templates and manifests have it: `spec.containers[name=web].image`.
    #[must_use]
    pub fn dotted(&self) -> String {
        let mut out = String::new();
        for step in &self.at {
            // Writing to a String cannot fail.
            let _ = match step {
                Step::Field(name) if !is_plain(name) => write!(out, "[{name:?}]"),
                Step::Field(name) if out.is_empty() => write!(out, "{name}"),
                Step::Field(name) => write!(out, ".{name}"),
                Step::Index(index) => write!(out, "[{index}]"),
                Step::Item(key, value) => write!(out, "[{key}={}]", text(value)),
            };
        }
        out
    }
}

/// Everything that differs.
#[must_use]
pub fn compare<'v>(old: &'v Value, new: &'v Value) -> Vec<Difference<'v>> {
    Walk { stated_only: false, at: Vec::new(), found: Vec::new() }.done(old, new)
}

/// What of `wanted` is another in `live`. Fields that only `live` has say nothing: they may be defaults, or another manager
/// else's.
#[must_use]
pub fn stated<'v>(wanted: &'v Value, live: &'v Value) -> Vec<Difference<'v>> {
    Walk { stated_only: true, at: Vec::new(), found: Vec::new() }.done(wanted, live)
}

/// The object without what only the API server, `kubectl apply` and our own marker say.
#[must_use]
pub fn asked_for(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in KEPT_BY_SERVER {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(names::APPLIED);
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

struct Walk<'v> {
    stated_only: bool,
    at: Vec<Step<'v>>,
    found: Vec<Difference<'v>>,
}

impl<'v> Walk<'v> {
    fn done(mut self, old: &'v Value, new: &'v Value) -> Vec<Difference<'v>> {
        self.fields(Some(old), Some(new));
        self.found
    }

    fn below(&mut self, step: Step<'v>, old: Option<&'v Value>, new: Option<&'v Value>) {
        self.at.push(step);
        self.fields(old, new);
        self.at.pop();
    }

    fn fields(&mut self, old: Option<&'v Value>, new: Option<&'v Value>) {
        match (old, new) {
            (old, new) if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                let mut keys: BTreeSet<&String> = old.keys().collect();
                if !self.stated_only {
                    keys.extend(new.keys());
                }
                for key in keys {
                    self.below(Step::Field(key), old.get(key), new.get(key));
                }
            }
            (Some(before @ Value::Array(old)), Some(after @ Value::Array(new))) => match key_of(old, new) {
                Some(key) => {
                    let known = self.found.len();
                    self.items(key, old, new);
                    if self.found.len() == known && !self.stated_only {
                        // The same items in another order.
                        self.found(Some(before), Some(after));
                    }
                }
                None => {
                    for index in 0..old.len().max(new.len()) {
                        self.below(Step::Index(index), old.get(index), new.get(index));
                    }
                }
            },
            (Some(old), None) if self.stated_only && says_nothing(old) => {}
            (old, new) => self.found(old, new),
        }
    }

    fn items(&mut self, key: &'static str, old: &'v [Value], new: &'v [Value]) {
        let of = |items: &'v [Value], id: &Value| items.iter().find(|item| item.get(key) == Some(id));
        for item in old {
            let Some(id) = item.get(key) else { continue };
            self.below(Step::Item(key, id), Some(item), of(new, id));
        }
        if self.stated_only {
            return;
        }
        for item in new {
            let Some(id) = item.get(key) else { continue };
            if of(old, id).is_none() {
                self.below(Step::Item(key, id), None, Some(item));
            }
        }
    }

    fn found(&mut self, old: Option<&'v Value>, new: Option<&'v Value>) {
        self.found.push(Difference { at: self.at.clone(), old, new });
    }
}

/// What the items of both lists can be told by: every item has it, and no two of a list the same.
fn key_of(old: &[Value], new: &[Value]) -> Option<&'static str> {
    let tells = |items: &[Value], key: &str| {
        let mut seen = BTreeSet::new();
        items.iter().all(|item| match item.get(key) {
            Some(id @ (Value::String(_) | Value::Number(_))) => seen.insert(text(id)),
            _ => false,
        })
    };
    if old.is_empty() || new.is_empty() {
        return None;
    }
    KEYS.into_iter().find(|key| tells(old, key) && tells(new, key))
}

/// The key of that name, if it tells items of lists from each other.
pub(super) fn key_named(key: &str) -> Option<&'static str> {
    KEYS.into_iter().find(|known| *known == key)
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

/// Which manager other than ours has a field of the live object now, the one that came last; no manager has what is gone.
#[must_use]
pub fn holder(live: &Value, at: &[Step<'_>], managed_fields: &[ManagedFieldsEntry]) -> Option<String> {
    let mut here = live;
    let mut steps = Vec::new();
    for step in at {
        let step = match *step {
            Step::Field(name) => fields::Step::Field(name),
            Step::Index(index) => fields::Step::Element(index, here.get(index)?),
            Step::Item(key, id) => {
                let mut items = here.as_array()?.iter().enumerate();
                let (index, item) = items.find(|(_, item)| item.get(key) == Some(id))?;
                fields::Step::Element(index, item)
            }
        };
        here = match step {
            fields::Step::Field(name) => here.get(name)?,
            fields::Step::Element(_, item) => item,
        };
        steps.push(step);
    }
    let has = |entry: &&ManagedFieldsEntry| {
        let theirs = fields::Fields::of(*entry);
        !is_ours(entry) && covers(theirs, &steps)
    };
    let newest = managed_fields.iter().filter(has).max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    newest?.manager.clone().filter(|manager| !manager.is_empty())
}

/// Keeps values back: every text, number and truth in `value` is `word`.
pub fn redact(value: &mut Value, word: &str) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| redact(value, word)),
        Value::Array(items) => items.iter_mut().for_each(|value| redact(value, word)),
        leaf => *leaf = word.into(),
    }
}

/// The fields of a Secret that hold what it keeps secret, by their path from the top.
#[must_use]
pub fn is_secret_content(object: &super::ObjectId, at: &[Step<'_>]) -> bool {
    object.kind == "Secret"
        && object.group.is_empty()
        && matches!(at.first(), None | Some(Step::Field("data" | "stringData")))
}

/// Every text of a map of Secret content, for messages that may quote it.
pub fn secret_texts(body: &Value) -> impl Iterator<Item = &str> {
    let parts = ["data", "stringData"].into_iter().filter_map(|part| body.get(part));
    let values = parts.filter_map(Value::as_object).flat_map(Map::values);
    values.filter_map(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
#[path = "differences_tests.rs"]
mod tests;
