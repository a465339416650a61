//! Who may do what with a definition: its policy, its owner, and what happens to it in the end.
//!
//! Decisions only. The record of an owner is what manager `sherpack-operator` wrote on the definition; who reads and writes it is no
//! matter of this file.

pub mod placement;
pub mod strategy;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::names::{CRD_POLICY, HELM_RESOURCE_POLICY, KEEP, RESOURCE_POLICY};

/// What a release does with a definition of its pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Installs and changes it, and deletes it when that is asked for and confirmed.
    #[default]
    Managed,
    /// Installs and changes it together with others, and never deletes it.
    Shared,
    /// Leaves it alone.
    External,
}

impl Policy {
    /// The policy of a definition, from its annotations. `keep` in either spelling means shared.
    ///
    /// # Errors
    /// The annotation has a value that is no policy: what stands there.
    pub fn of(document: &Value) -> Result<Self, String> {
        Self::stated(document).map(Option::unwrap_or_default)
    }

    /// The same; `None` when the definition says nothing about it.
    ///
    /// # Errors
    /// As [`Policy::of`].
    pub fn stated(document: &Value) -> Result<Option<Self>, String> {
        let annotation = |key: &str| {
            let annotations = document.get("metadata")?.get("annotations")?;
            annotations.get(key)?.as_str().map(str::trim)
        };
        match annotation(CRD_POLICY) {
            Some(text) if text.eq_ignore_ascii_case("managed") => Ok(Some(Self::Managed)),
            Some(text) if text.eq_ignore_ascii_case("shared") => Ok(Some(Self::Shared)),
            Some(text) if text.eq_ignore_ascii_case("external") => Ok(Some(Self::External)),
            Some(text) => Err(super::definition::shown(text)),
            None => {
                let kept = annotation(RESOURCE_POLICY).or_else(|| annotation(HELM_RESOURCE_POLICY));
                Ok(kept.filter(|value| *value == KEEP).map(|_| Self::Shared))
            }
        }
    }

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Shared => "shared",
            Self::External => "external",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Live objects of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// All were counted: how many in each namespace, the empty name for objects without one.
    Known(Vec<(String, u64)>),
    /// They could not be counted, and why.
    Failed(String),
}

/// What is to happen to a definition when its release goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays, and why.
    Keep(&'static str),
    /// It is deleted, with every object of it.
    Delete,
    /// Nothing is removed, neither this definition nor anything else, until a user decides.
    Blocked(String),
}

/// What speaks for and against the deletion of a definition.
#[derive(Clone, Debug)]
pub struct Leaving<'a> {
    /// Name of the definition.
    pub name: &'a str,
    /// Its policy.
    pub policy: Policy,
    /// `onUninstall: Delete` from the spec, or from a pack that is trusted with it.
    pub delete: bool,
    /// Whether the release that goes is the recorded owner.
    pub own: bool,
    /// The namespace of the release is being deleted: perhaps no user meant the definition.
    pub namespace_terminating: bool,
    /// Its objects.
    pub count: &'a Count,
    /// `spec.crds.confirmDeletion`.
    pub confirmed: &'a [String],
}

/// What happens to the definition.
#[must_use]
pub fn fate(leaving: &Leaving<'_>) -> Fate {
    if !leaving.delete {
        return Fate::Keep("crds.onUninstall is not Delete");
    }
    match leaving.policy {
        Policy::Managed => {}
        Policy::Shared => return Fate::Keep("policy: shared"),
        Policy::External => return Fate::Keep("policy: external"),
    }
    if !leaving.own {
        return Fate::Keep("it does not belong to this release");
    }
    if leaving.namespace_terminating {
        return Fate::Keep("the namespace of the release is being deleted");
    }
    match leaving.count {
        Count::Failed(why) => {
            Fate::Blocked(format!("the objects of {} cannot be counted: {why}", leaving.name))
        }
        Count::Known(namespaces) => {
            let objects: u64 = namespaces.iter().map(|(_, count)| count).sum();
            if objects == 0 || leaving.confirmed.iter().any(|name| name == leaving.name) {
                Fate::Delete
            } else {
                let name = leaving.name;
                let message = format!(
                    "{name} has {objects} objects ({}), which would be deleted with it: confirm that with {name} in \
                     spec.crds.confirmDeletion",
                    places(namespaces)
                );
                Fate::Blocked(message)
            }
        }
    }
}

/// `15 resources in production, 2 in staging`
fn places(namespaces: &[(String, u64)]) -> String {
    /// Namespaces that are named; more are counted.
    const MANY: usize = 5;
    let mut most: Vec<&(String, u64)> = namespaces.iter().filter(|(_, count)| *count > 0).collect();
    most.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let one = |index: usize, (namespace, count): &(String, u64)| {
        let resources = match (index, count) {
            (0, 1) => " resource",
            (0, _) => " resources",
            _ => "",
        };
        let place = if namespace.is_empty() { "the cluster" } else { namespace };
        format!("{count}{resources} in {place}")
    };
    let mut texts: Vec<String> =
        most.iter().take(MANY).enumerate().map(|(index, entry)| one(index, entry)).collect();
    if most.len() > MANY {
        let rest: u64 = most[MANY..].iter().map(|(_, count)| count).sum();
        texts.push(format!("{rest} in {} more namespaces", most.len() - MANY));
    }
    if texts.is_empty() { "no resources".to_owned() } else { texts.join(", ") }
}

/// The impact of an uninstallation, as people read it before they agree; empty when no definition is concerned.
#[must_use]
pub fn impact(all: &[Leaving<'_>]) -> String {
    let mut deleted = Vec::new();
    let mut blocked = Vec::new();
    for leaving in all.iter().filter(|leaving| leaving.delete) {
        let of = match leaving.count {
            Count::Known(namespaces) => places(namespaces),
            Count::Failed(why) => format!("not counted: {why}"),
        };
        match fate(leaving) {
            Fate::Delete | Fate::Blocked(_) => deleted.push(format!("  - {} ({of})\n", leaving.name)),
            Fate::Keep(why) => blocked.push(format!("  - {} ({why})\n", leaving.name)),
        }
    }
    let mut text = String::new();
    if !deleted.is_empty() {
        text += "This will delete all CustomResources of these types:\n";
        text += &deleted.concat();
    }
    if !blocked.is_empty() {
        text += "Blocked by policy:\n";
        text += &blocked.concat();
    }
    text
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
