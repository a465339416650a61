//! Hooks: objects that run at a moment of an operation and are never ordinary objects of the release.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::annotations::{count, first, integer, list, time, wrong};
use crate::api::{TIMEOUT_MAX, names};
use crate::manifest::{Object, ObjectId, sha256_hex};

/// How long one run of a hook may take unless it says otherwise.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Longest name of an object that also becomes a label of its pods.
const NAME_MAX: usize = 63;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    PreInstall,
    PostInstall,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    PreDelete,
    PostDelete,
    Test,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::PreInstall,
        Self::PostInstall,
        Self::PreUpgrade,
        Self::PostUpgrade,
        Self::PreRollback,
        Self::PostRollback,
        Self::PreDelete,
        Self::PostDelete,
        Self::Test,
    ];

    /// The word in annotations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
            Self::Test => "test",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        // Helm's older word.
        let word = if word == "test-success" { "test" } else { word };
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// When a hook's object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeletePolicy {
    /// Before the hook runs again.
    BeforeHookCreation,
    /// Once it has succeeded.
    HookSucceeded,
    /// Once it has failed.
    HookFailed,
}

/// What a hook that failed does to its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The operation fails.
    #[default]
    Fail,
    /// The operation goes on.
    Continue,
    /// The operation fails and is undone without further attempts.
    Rollback,
}

/// One hook.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// Its object.
    pub object: Object,
    /// When it runs; never empty.
    pub phases: BTreeSet<Phase>,
    /// Lower runs first; hooks of one weight run in the order of their names.
    pub weight: i32,
    /// When its object is deleted.
    pub delete: BTreeSet<DeletePolicy>,
    /// What its failure does.
    pub on_failure: FailurePolicy,
    /// Bounds one run.
    pub timeout: Duration,
    /// How often it runs again in the same operation after it failed.
    pub retries: u32,
}

/// A manifest taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Ordinary objects, in their order.
    pub objects: Vec<Object>,
    /// Hooks by weight, then by id.
    pub hooks: Vec<Hook>,
    /// Definitions whose conversion webhook is told of only after the waves.
    pub webhooks_later: BTreeSet<ObjectId>,
}

/// Takes hooks out of the objects of a manifest.
///
/// # Errors
/// An annotation of a hook that means nothing.
pub fn split(objects: Vec<Object>) -> Result<Parts, Error> {
    let mut parts = Parts::default();
    for object in objects {
        match hook(&object)? {
            Some(hook) => parts.hooks.push(hook),
            None => parts.objects.push(object),
        }
    }
    parts.hooks.sort_by(|a, b| (a.weight, &a.object.id).cmp(&(b.weight, &b.object.id)));
    Ok(parts)
}

fn hook(object: &Object) -> Result<Option<Hook>, Error> {
    let Some((key, value)) = first(object, &[names::HOOK, names::HELM_HOOK]) else { return Ok(None) };
    let known = "a comma-separated list of pre-install, post-install, pre-upgrade, post-upgrade, pre-rollback, post-rollback, pre-delete, post-delete, test";
    let phases: Option<BTreeSet<Phase>> = list(value).map(Phase::parse).collect();
    let phases = phases.ok_or_else(|| wrong(&object.id, key, value, known))?;
    let mut object = object.clone();
    // A finished Job that goes by itself would take its result along.
    if let Some(spec) = object.body.get_mut("spec").and_then(Value::as_object_mut)
        && object.id.group == "batch"
        && object.id.kind == "Job"
    {
        spec.remove("ttlSecondsAfterFinished");
    }
    Ok(Some(Hook {
        phases,
        weight: integer(&object, &[names::HOOK_WEIGHT, names::HELM_HOOK_WEIGHT])?,
        delete: delete_policies(&object)?,
        on_failure: failure_policy(&object)?,
        timeout: time(&object, names::HOOK_TIMEOUT)?.unwrap_or(TIMEOUT).min(TIMEOUT_MAX),
        retries: count(&object, names::HOOK_RETRIES)?,
        object,
    }))
}

fn delete_policies(object: &Object) -> Result<BTreeSet<DeletePolicy>, Error> {
    let keys = [names::HOOK_DELETE_POLICY, names::HELM_HOOK_DELETE_POLICY];
    let Some((key, value)) = first(object, &keys) else {
        return Ok(BTreeSet::from([DeletePolicy::BeforeHookCreation]));
    };
    let policy = |word| match word {
        "before-hook-creation" => Some(DeletePolicy::BeforeHookCreation),
        "hook-succeeded" => Some(DeletePolicy::HookSucceeded),
        "hook-failed" => Some(DeletePolicy::HookFailed),
        _ => None,
    };
    let wanted = "a comma-separated list of before-hook-creation, hook-succeeded, hook-failed";
    list(value).map(policy).collect::<Option<_>>().ok_or_else(|| wrong(&object.id, key, value, wanted))
}

fn failure_policy(object: &Object) -> Result<FailurePolicy, Error> {
    let Some((key, value)) = first(object, &[names::HOOK_FAILURE_POLICY]) else {
        return Ok(FailurePolicy::default());
    };
    match value.trim() {
        "fail" => Ok(FailurePolicy::Fail),
        "continue" => Ok(FailurePolicy::Continue),
        "rollback" => Ok(FailurePolicy::Rollback),
        _ => Err(wrong(&object.id, key, value, "one of fail, continue, rollback")),
    }
}

/// Gives every hook that leaves its name to the server (`generateName`) one that is the same in each revision, so
/// that the run before can be found and deleted.
pub fn name_hooks(documents: &mut [Value], release_name: &str) {
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for document in documents {
        let annotated = |key: &str| {
            let annotations = document.pointer("/metadata/annotations");
            annotations.is_some_and(|all| all.get(key).is_some())
        };
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (Some(prefix), None) = (text("/metadata/generateName"), text("/metadata/name")) else { continue };
        if !annotated(names::HOOK) && !annotated(names::HELM_HOOK) {
            continue;
        }
        let kind = text("/kind").unwrap_or_default();
        let number = seen.entry((kind.clone(), prefix.clone())).or_default();
        let digest = sha256_hex(format!("{release_name}/{kind}/{prefix}/{number}").as_bytes());
        *number += 1;
        let suffix = digest.get(..8).unwrap_or_default();
        let prefix: String = prefix.chars().take(NAME_MAX - 8).collect();
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), format!("{prefix}{suffix}").into());
        }
    }
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
