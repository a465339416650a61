//! What an object was before its release wrote it, as far as the release changed it; and the way back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::differences::{self, asked_for, compare};
use crate::api::names;

/// Says of an object that it existed before its release wrote it, and that no revision with it was deployed since, or that
/// it is of a kind that never becomes the release's own. Such an object is never deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// Digest of what is kept of it, [`Before`]; unset: the release changed nothing of it, or it became its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// A revision with it was deployed: what it holds is the release's, but the release may not delete it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deployed: bool,
    /// It carried the mark of its release already, and no record explains that: the revision that adopted it first may be lost,
    /// and what was kept then stays kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unexplained: bool,
}

/// What a release changed of an object that was there before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    values: Vec<Kept>,
    /// Who held what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    managers: Vec<ManagedFieldsEntry>,
}

/// The value that was at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    at: Vec<Step>,
    /// Unset: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<Value>,
}

/// One step on the way to a value. Lists without keys are kept as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Field(String),
    Item { key: String, value: Value },
}

impl Before {
    /// What `after` has otherwise than `before`. `managers` says who held what of it.
    #[must_use]
    pub fn of(before: &Value, after: &Value, managers: Vec<ManagedFieldsEntry>) -> Self {
        let (before, after) = (unmarked(asked_for(before.clone())), unmarked(asked_for(after.clone())));
        let mut values: Vec<Kept> = Vec::new();
        for difference in compare(&before, &after) {
            let (at, whole) = owned(&difference.at);
            let was = if whole { difference.old.cloned() } else { find(&before, &at).cloned() };
            if values.iter().any(|kept| kept.at == at) {
                continue;
            }
            match (was, difference.new) {
                // Each for itself: others may have added something beside it by the time it goes.
                (None, Some(new @ Value::Object(_)))
                    if whole && !matches!(at.last(), Some(Step::Item { .. })) =>
                {
                    leaves(new, at, &mut values);
                }
                (was, _) => values.push(Kept { at, was }),
            }
        }
        Self { values, managers }
    }

    /// Each value for itself, with its place as a dotted path.
    pub fn parts(&self) -> impl Iterator<Item = (String, Self)> {
        self.values.iter().map(|kept| {
            let steps: Vec<String> = kept.at.iter().map(ToString::to_string).collect();
            let part = Self { values: vec![kept.clone()], managers: self.managers.clone() };
            (steps.join("."), part)
        })
    }

    /// Nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.managers.is_empty()
    }

    /// Who holds what but for us: the first word of each manager counts until he writes something himself.
    #[must_use]
    pub fn managers(&self, live: &[ManagedFieldsEntry]) -> Vec<ManagedFieldsEntry> {
        let mut managers = self.managers.clone();
        for entry in live.iter().filter(|entry| !is_own(entry)) {
            match managers.iter_mut().find(|known| same_manager(known, entry)) {
                Some(known) if known.time == entry.time => {}
                Some(known) => *known = entry.clone(),
                None => managers.push(entry.clone()),
            }
        }
        managers
    }

    /// The live object with every kept value that no other manager has changed since. A value that another manager holds was changed;
    /// one that is missing was dropped by a later revision of the release.
    #[must_use]
    pub fn restored(&self, live: &Value) -> Value {
        // Who wrote nothing since then holds what we have not taken from him, and has changed nothing.
        let mut changed = managed_fields(live);
        let wrote_nothing = |entry: &ManagedFieldsEntry| {
            self.managers.iter().any(|known| same_manager(known, entry) && known.time == entry.time)
        };
        changed.retain(|entry| !is_own(entry) && !wrote_nothing(entry));
        let mut object = live.clone();
        for Kept { at, was } in &self.values {
            let steps: Option<Vec<differences::Step<'_>>> = at.iter().map(Step::walked).collect();
            if steps.is_none_or(|steps| differences::holder(live, &steps, &changed).is_some()) {
                continue;
            }
            match was {
                Some(value) => set(&mut object, at, value.clone()),
                None => remove(&mut object, at),
            }
        }
        object
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Item { key, value } => write!(f, "[{key}={value}]"),
        }
    }
}

impl Step {
    /// The key of a list item is one of a few words.
    fn walked(&self) -> Option<differences::Step<'_>> {
        Some(match self {
            Self::Field(name) => differences::Step::Field(name),
            Self::Item { key, value } => differences::Step::Item(differences::key_named(key)?, value),
        })
    }
}

/// The same way without borrowing, up to the first list that is one value; `false`: it ends there.
fn owned(at: &[differences::Step<'_>]) -> (Vec<Step>, bool) {
    let mut steps = Vec::new();
    for step in at {
        steps.push(match *step {
            differences::Step::Field(name) => Step::Field(name.to_owned()),
            differences::Step::Item(key, value) => Step::Item { key: key.to_owned(), value: value.clone() },
            differences::Step::Index(_) => return (steps, false),
        });
    }
    (steps, true)
}

/// Every leaf of what was not there before.
fn leaves(value: &Value, at: Vec<Step>, found: &mut Vec<Kept>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let mut at = at.clone();
                at.push(Step::Field(key.clone()));
                leaves(value, at, found);
            }
        }
        _ => found.push(Kept { at, was: None }),
    }
}

fn find<'v>(value: &'v Value, at: &[Step]) -> Option<&'v Value> {
    at.iter().try_fold(value, |here, step| match step {
        Step::Field(name) => here.get(name),
        Step::Item { key, value } => here.as_array()?.iter().find(|item| item.get(key) == Some(value)),
    })
}

/// Writes a value; maps on the way are made, list items are not.
fn set(object: &mut Value, at: &[Step], value: Value) {
    let Some((step, rest)) = at.split_first() else {
        *object = value;
        return;
    };
    match step {
        Step::Field(name) => {
            if object.is_null() {
                *object = Value::Object(Map::new());
            }
            if let Value::Object(map) = object {
                set(map.entry(name.clone()).or_insert(Value::Null), rest, value);
            }
        }
        Step::Item { key, value: id } => {
            let Value::Array(items) = object else { return };
            match items.iter_mut().find(|item| item.get(key) == Some(id)) {
                Some(item) => set(item, rest, value),
                None if rest.is_empty() => items.push(value),
                None => {}
            }
        }
    }
}

fn remove(object: &mut Value, at: &[Step]) {
    let Some((step, rest)) = at.split_first() else { return };
    match (step, object) {
        (Step::Field(name), Value::Object(map)) if rest.is_empty() => drop(map.remove(name)),
        (Step::Field(name), Value::Object(map)) => {
            if let Some(below) = map.get_mut(name) {
                remove(below, rest);
            }
        }
        (Step::Item { key, value }, Value::Array(items)) => {
            let Some(index) = items.iter().position(|item| item.get(key) == Some(value)) else { return };
            if rest.is_empty() {
                items.remove(index);
            } else {
                remove(&mut items[index], rest);
            }
        }
        _ => {}
    }
}

/// Without what every object of a release carries.
#[must_use]
pub fn unmarked(mut object: Value) -> Value {
    let marks = [
        ("labels", names::RELEASE_NAME),
        ("labels", names::RELEASE_NAMESPACE),
        ("annotations", names::APPLIED),
    ];
    for (field, mark) in marks {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { break };
        let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else { continue };
        map.remove(mark);
        if map.is_empty() {
            metadata.remove(field);
        }
    }
    object
}

fn managed_fields(live: &Value) -> Vec<ManagedFieldsEntry> {
    let entries = live.pointer("/metadata/managedFields");
    entries.and_then(|entries| serde_json::from_value(entries.clone()).ok()).unwrap_or_default()
}

fn same_manager(one: &ManagedFieldsEntry, other: &ManagedFieldsEntry) -> bool {
    (&one.manager, &one.operation, &one.subresource) == (&other.manager, &other.operation, &other.subresource)
}

/// What this operator holds of an object, in whatever role.
fn is_own(entry: &ManagedFieldsEntry) -> bool {
    let own = [names::MANAGER_APPLY, names::MANAGER_HANDOVER, names::MANAGER_OWN];
    entry.manager.as_deref().is_some_and(|manager| own.contains(&manager))
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

#[cfg(test)]
#[path = "adoption_tests.rs"]
mod tests;
