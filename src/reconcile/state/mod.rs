//! What the operator remembers of each release between passes. Losing all of it costs reads, never correctness.

pub(super) mod change_summary;
pub(super) mod drift;
pub(super) mod guard;
pub(super) mod progress;
pub(super) mod redact;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::Requests;
use crate::cluster::Applied;
use crate::health::{Health, Status};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan::probes::Probe;
use crate::plan::{Parts, Plan};
use crate::reconcile::context::throttle::Busy;
use crate::storage::Stored;

/// Errors in a row, and what makes the next try due.
#[derive(Default)]
pub(in crate::reconcile) struct Backoff {
    /// Passes in a row that ended in an error before any record was made.
    pub errors: u32,
    /// Passes in a row that lost a race with another writer.
    pub conflicts: u32,
    /// The last try failed because a kind could not be watched.
    pub blind: bool,
    /// No new try before this time.
    pub retry_at: Option<Timestamp>,
    /// What was asked for by annotation in the last pass.
    pub requests: Requests,
    /// What [`ReferenceWatch::changes`](crate::watch::ReferenceWatch::changes) said in the last pass.
    pub source_changes: u64,
}

impl Backoff {
    /// Takes note of the requests by annotation; gives those of before. A new one is reason enough to try at once, one that
    /// only waits for its answer is none: what stands in its way stood there a moment ago.
    pub(super) fn take_requests(&mut self, asked: &Requests) -> Requests {
        let before = std::mem::replace(&mut self.requests, asked.clone());
        if before != self.requests {
            self.retry_at = None;
        }
        before
    }
}

/// What the watches were told to expect of the deployed objects.
#[derive(Default)]
pub(in crate::reconcile) struct Expectations {
    /// Of which revision.
    pub of: Option<u32>,
    /// Whose additions the watches look at; `None`: no pass of this process has looked.
    pub strict: Option<Vec<String>>,
}

/// What deletions have told to go, and what they have left.
#[derive(Default)]
pub(in crate::reconcile) struct PendingDeletion {
    /// Objects that an operation waits for; see [`PendingDeletion::going_of`].
    pub going: Option<Going>,
    /// What an uninstall has left where it is.
    pub stays: BTreeSet<ObjectId>,
}

/// Objects between two passes that were told to go.
pub(in crate::reconcile) struct Going {
    pub of: Leaves,
    /// What was still there when it was last looked for.
    pub remaining: Vec<InventoryEntry>,
    /// What is kept, or was handed back.
    pub kept: BTreeSet<ObjectId>,
    pub looks: u32,
    pub look_at: Timestamp,
}

/// What told objects to go: a revision, and the step of its operation; no step when it is taken away after it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) struct Leaves {
    pub revision: u32,
    pub step: Option<usize>,
}

impl PendingDeletion {
    /// What this operation waits for. What another one left behind says nothing of the objects of this one.
    #[must_use]
    pub(in crate::reconcile) fn going_of(&self, of: Leaves) -> Option<&Going> {
        self.going.as_ref().filter(|going| going.of == of)
    }

    /// [`PendingDeletion::going_of`], taken out; what is another's is forgotten.
    pub(in crate::reconcile) fn take_going(&mut self, of: Leaves) -> Option<Going> {
        self.going.take().filter(|going| going.of == of)
    }
}

/// An operation between two passes.
pub(in crate::reconcile) struct Running {
    /// Without manifest and values unless `bulk` says that they are here.
    pub stored: Stored,
    /// Empty unless `bulk` says that it is here.
    pub parts: Parts,
    pub bulk: Bulk,
    pub plan: Plan,
    pub deadline: Timestamp,
    pub started: Timestamp,
    /// The step under way, an index into the plan.
    pub at: usize,
    /// The step that the stored checkpoint names.
    pub saved: usize,
    /// What this process applied and no step has waited for yet.
    pub applied: HashMap<ObjectId, Applied>,
    /// What was not there when this process began the operation.
    pub absent: BTreeSet<ObjectId>,
    /// Nothing waits for health any more.
    pub hasty: bool,
    /// Replicas that an autoscaler sets were left to it.
    pub handed_over: bool,
    /// What is not healthy and hinders no step.
    pub ailing: Option<String>,
    /// Since when the API server refuses what may be refused for a moment only.
    pub refused_since: Option<Timestamp>,
    /// Since when it waits for a turn.
    pub queued_at: Option<Timestamp>,
    pub stage: Stage,
    /// Until the status has told of it.
    pub untold: Option<Busy>,
}

impl Running {
    /// Moves its deadlines by the time that it has waited for a turn.
    pub(super) fn add_time(&mut self, now: Timestamp) {
        let Some(since) = self.queued_at.take() else { return };
        let waited = now.duration_since(since);
        let later = |deadline: Timestamp| deadline.checked_add(waited).unwrap_or(Timestamp::MAX);
        self.deadline = later(self.deadline);
        match &mut self.stage {
            Stage::Wait { deadline, .. } => *deadline = later(*deadline),
            Stage::Hook(watch) => watch.deadline = later(watch.deadline),
            Stage::Begin | Stage::Leaving { .. } => {}
        }
    }
}

/// Where the bulk of an operation is.
#[derive(Default)]
pub(in crate::reconcile) enum Bulk {
    /// In the operation itself.
    #[default]
    Here,
    /// Compressed JSON of what the record holds, and its length.
    Packed { bytes: Vec<u8>, length: usize },
    /// In the record alone.
    InRecord,
}

/// How far the step under way is.
pub(in crate::reconcile) enum Stage {
    /// This process has not begun it.
    Begin,
    /// These objects are not healthy, or not gone yet. `jobs`: those whose end is not written down.
    Wait {
        waiting: BTreeMap<ObjectId, Waiting>,
        looked_at: Timestamp,
        deadline: Timestamp,
        jobs: BTreeSet<ObjectId>,
    },
    /// These objects have to be gone before what the step applies can be what it has to be.
    Leaving { leaving: BTreeMap<ObjectId, Waiting>, looked_at: Timestamp },
    /// A hook runs.
    Hook(Box<HookWatch>),
}

/// A run of a hook as this process sees it.
pub(in crate::reconcile) struct HookWatch {
    pub attempt: u32,
    /// The object of this run, once it was seen.
    pub uid: Option<String>,
    pub deadline: Timestamp,
    pub waiting: Waiting,
}

/// An object that is waited for.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Waiting {
    pub api_version: String,
    /// The generation that our apply returned.
    pub generation: Option<i64>,
    pub health: Health,
    pub since: Timestamp,
    /// When the health rule first said that it failed; a failure counts when it lasts.
    pub failed_since: Option<Timestamp>,
    /// When its pods are looked at next, if it is a workload that does not get on.
    pub pods_at: Timestamp,
    /// What was wrong with them then.
    pub pods: Option<Health>,
    pub probe: Option<Probing>,
    /// Of a Job: which one it is. Another of its name is not waited for.
    pub uid: Option<String>,
    /// When it was looked at last.
    pub looked_at: Timestamp,
}

impl Waiting {
    /// An object at which no pass has looked yet.
    #[must_use]
    pub(in crate::reconcile) fn unseen(api_version: &str, message: &str, now: Timestamp) -> Self {
        Self {
            api_version: api_version.to_owned(),
            generation: None,
            health: Health {
                status: Status::InProgress,
                reason: String::new(),
                message: message.to_owned(),
                progress: None,
                recheck_in: None,
                terminal: false,
            },
            since: now,
            failed_since: None,
            pods_at: now,
            pods: None,
            probe: None,
            uid: None,
            looked_at: Timestamp::MIN,
        }
    }
}

/// The probe of an object that is waited for.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Probing {
    pub probe: Arc<Probe>,
    /// The revision that it is a part of.
    pub revision: u32,
    /// Its own health rule is content: what is waited for is the probe.
    pub asked: bool,
    /// The reason when asking again does not help.
    pub hopeless: Option<&'static str>,
}

/// Objects that a failed revision waited for and that may still become healthy.
pub(in crate::reconcile) struct Ailing {
    pub revision: u32,
    pub waiting: BTreeMap<ObjectId, Waiting>,
    pub looked_at: Timestamp,
    /// A look that came too soon after the last one is made up for at this time.
    pub look_at: Option<Timestamp>,
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
