//! What only this operator needs to know of a revision.
//!
//! Owns the shape of the private part; `storage::codec` seals it with a MAC. May import `pack` and below.
//! Invariant: it is believed only when its MAC is right. Pruning, resuming and locking read it and nothing else.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{CrdUninstall, DriftIgnore, ImmutableFields};
use crate::crd::policy::{Count, Leaving, Policy};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::pack::render::Secrets;

/// The version of [`Private`] that this program writes. A higher one is refused, never guessed at. Beside what is here,
/// version 2 names the key that seals it.
pub const PRIVATE_VERSION: u32 = 2;

/// The operator's own part of a revision record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Private {
    /// Always [`PRIVATE_VERSION`] when written.
    pub version: u32,
    /// How often this revision was written, from 1: an older state of it says less. 0: version 1 wrote it.
    #[serde(default)]
    pub writes: u64,
    /// The `SherpackRelease` that this revision belongs to.
    pub owner: Owner,
    /// Identity of the process that runs, or ran, the operation.
    pub holder: String,
    pub action: Action,
    /// Which try of the same inputs this is, from 1.
    pub attempt: u32,
    /// Digest of everything that decides the manifest; equal inputs need no new revision.
    pub inputs: String,
    /// `sha256:<hex>` of the pack.
    pub pack_digest: String,
    /// What this revision applies, with the fingerprints of what was applied.
    pub inventory: Vec<InventoryEntry>,
    /// Objects of earlier revisions that may still exist and are no longer wanted.
    #[serde(default)]
    pub leftovers: Vec<InventoryEntry>,
    /// What the hooks of this revision may leave behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hook_objects: Vec<InventoryEntry>,
    /// How far the operation is; `None` once it ended.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// The newest revision of this release that was deployed; prune decides by it.
    #[serde(default)]
    pub last_deployed: Option<u32>,
    /// The newest revision of this name that was deployed and to which no release can go back: another tool's, or one whose
    /// record is lost. A failure never goes back past it, and takes nothing away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<u32>,
    /// A person vouched for this record, so that what it says was not proved: drift under it is told and not put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The digest under which these inputs were approved; for their retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// The revision that this one goes back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
    /// What failed and was undone by this revision: those inputs are not tried again by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Undone>,
    /// Inputs that failed and were not deployed since, the last one last; at most [`FAILURES`]. They go from revision to
    /// revision, so that a source that goes back to one of them does not have it tried anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Undone>,
    /// Digest of the spec under which it was begun. A generation would say less: a release that is restored or made again
    /// begins with another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec: String,
    /// Revisions of which this one is one more try, see [`surplus`](super::surplus).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u32>,
    /// It failed for a hook whose failure policy is to undo at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo_at_once: bool,
    /// What was to happen to objects that cannot change as they should. Another wish is worth another attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub immutable_fields: ImmutableFields,
    /// How the hooks of this revision ended, oldest first; at most [`HOOK_RESULTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookResult>,
    /// How the last run of the tests ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<Tested>,
    /// The definitions of resources of its pack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Shipped>,
    /// The rules by which fields were left to others. They hold on when the spec cannot be read, and what they no longer
    /// say is put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<DriftIgnore>,
    /// What `generate_secret` gave, for the revisions to come.
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub secrets: Secrets,
    /// This revision or one before it adopted something, so there may be Secrets that keep what it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopts: bool,
}

/// A CustomResourceDefinition of the pack of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shipped {
    /// `widgets.example.com`.
    pub name: String,
    pub policy: Policy,
    /// This revision writes it; what is written and stands in no template is here, and not in the manifest: other tools
    /// delete what a manifest holds.
    #[serde(default)]
    pub written: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Its conversion webhook is told of only when what serves it is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub webhook_later: bool,
    /// How long what it defines is waited for, in seconds; unset: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    /// It goes with the release unless the spec says otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes: bool,
    /// The uninstall that has begun deletes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// The release that writes it, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Why it was left alone, or what the change to it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// It was there before its release wrote it, and is never deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// The change was made although it may break what exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}

impl Private {
    /// About how many bytes it takes in memory: it grows with the objects of the revision.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.entries().chain(&self.hook_objects).map(InventoryEntry::weight).sum()
    }

    /// Whether there may be Secrets that keep what adopted objects were.
    #[must_use]
    pub fn has_adopted(&self) -> bool {
        self.adopts || self.entries().any(|entry| entry.adopted.is_some())
    }

    /// Digests of what is kept of adopted objects, as far as this revision knows.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.entries().filter_map(|entry| entry.adopted.as_ref()?.kept.as_deref())
    }

    fn entries(&self) -> impl Iterator<Item = &InventoryEntry> {
        self.inventory.iter().chain(&self.leftovers)
    }

    /// Takes note that these inputs failed, once more or for the first time; the oldest failure makes room.
    pub fn note_failure(&mut self, failed: Undone) {
        self.failures.retain(|known| known.inputs != failed.inputs);
        self.failures.push(failed);
        let surplus = self.failures.len().saturating_sub(FAILURES);
        self.failures.drain(..surplus);
    }

    /// What it was made from works.
    pub fn forget_failure(&mut self) {
        self.failures.retain(|known| known.inputs != self.inputs);
    }

    /// The revisions that one more try of `inputs` after this one takes the place of: the failed one, and what went back
    /// from it.
    #[must_use]
    pub fn tries_of(&self, inputs: &str, revision: u32) -> Vec<u32> {
        let undone = self.undone.as_ref().filter(|undone| undone.inputs == inputs);
        let failed = undone.or_else(|| self.failures.iter().find(|failed| failed.inputs == inputs));
        let back = undone.map(|_| revision);
        let tries = failed.map(|failed| failed.revision).into_iter().chain(back);
        tries.filter(|revision| *revision != 0).collect()
    }
}

impl Shipped {
    /// Whether it goes with the release, as far as the spec and the pack say; `wish` is `spec.crds.onUninstall`.
    #[must_use]
    pub fn goes_with_release(&self, wish: Option<CrdUninstall>) -> bool {
        match wish {
            Some(CrdUninstall::Delete) => true,
            Some(CrdUninstall::Keep) => false,
            None => self.goes,
        }
    }

    /// What speaks for and against its deletion. `confirmed` is `spec.crds.confirmDeletion`.
    #[must_use]
    pub fn leaving<'a>(&'a self, delete: bool, count: &'a Count, confirmed: &'a [String]) -> Leaving<'a> {
        Leaving {
            name: &self.name,
            policy: self.policy,
            delete,
            own: self.written && !self.adopted,
            // Such a release is let go before its definitions are asked for.
            namespace_terminating: false,
            count,
            confirmed,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The `SherpackRelease` that owns a revision. The uid tells a recreated one from the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Which operation made the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
}

/// The checkpoint of a running operation. It is authoritative; a status only displays it.
///
/// Everything before `step` of `phase` and `wave` is done. What `step` itself did is unknown: it is repeated, so
/// every step must bear that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub phase: OperationPhase,
    #[serde(default)]
    pub wave: i32,
    /// Index into the steps of the plan, which the record gives again and again.
    #[serde(default)]
    pub step: u32,
    /// The run of the hook that this step is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookRun>,
    /// Jobs that it has made: none of them is made again in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Begun>,
}

/// A Job that an operation has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub id: ObjectId,
    pub uid: String,
}

impl Operation {
    /// A hook was about to be created, and no record says yet how it ended.
    #[must_use]
    pub fn hook_running(&self) -> bool {
        self.hook.as_ref().is_some_and(|run| run.failed.is_none())
    }
}

/// One run of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookRun {
    /// From 1. No two runs of a hook in one phase of one revision have the same.
    pub attempt: u32,
    /// The first attempt of this operation.
    #[serde(default)]
    pub first: u32,
    /// Whether it failed; unset until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// `metadata.uid` of its object, once it was seen and as long as it has not ended: a run that is gone is not begun again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Most entries of [`Private::failures`].
pub const FAILURES: usize = 5;

/// Most entries of [`Private::hooks`].
pub const HOOK_RESULTS: usize = 50;

/// How a run of a hook ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookResult {
    /// `pre-install`.
    pub phase: String,
    /// `Job/migrate`.
    pub object: String,
    pub attempt: u32,
    /// Reason and message of its failure; unset when it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<(String, String)>,
    pub at: Timestamp,
}

/// Inputs that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Undone {
    pub inputs: String,
    /// Attempts at them so far.
    pub attempt: u32,
    pub at: Timestamp,
    /// The condition reason of the failure.
    pub reason: String,
    pub message: String,
    /// Digest of the spec under which the last attempt was begun.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec: String,
    /// The revision of the last attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub revision: u32,
    /// A hook asked that nothing more is attempted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_good: bool,
}

/// How a run of the tests ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tested {
    pub at: Timestamp,
    /// How many tests ran.
    pub count: u32,
    /// What the first one that failed says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// The phases of an operation in their order; the first five belong to install, upgrade and rollback, pruning
/// to all, and `Delete` takes the place of `Apply` on uninstall. `Test` is of what is deployed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OperationPhase {
    PreHooks,
    Crds,
    Apply,
    Wait,
    PostHooks,
    Prune,
    Delete,
    Test,
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
