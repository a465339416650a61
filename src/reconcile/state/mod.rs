//! What the operator remembers of each release between passes. Losing all of it costs reads, never correctness.

pub(super) mod change_summary;
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
use crate::release::backoff::{self, Heat};
use crate::storage::Stored;
use crate::watch::Suspicion;

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
    /// What this process applied and nobody has waited for yet.
    pub applied: HashMap<ObjectId, Applied>,
    /// What was not there when this process began the operation.
    pub absent: BTreeSet<ObjectId>,
    /// Nothing waits for health any more.
    pub hasty: bool,
    /// Replicas that an autoscaler sets were left to it.
    pub handed_over: bool,
    /// What is not healthy and hinders nobody.
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
    /// An object at which nobody has looked yet.
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

/// Drift of one release: what was put back and what is being fought over.
#[derive(Default)]
pub(in crate::reconcile) struct DriftMemory {
    pub heat: HashMap<ObjectId, Heat>,
    /// Warn mode: suspicions that were looked into and stay, because nothing is put back.
    looked: HashMap<ObjectId, Looked>,
    /// Reverts, or in Warn mode findings, newest last, at most twenty.
    pub seen: Vec<Drifted>,
    pub last_reverted: Option<Timestamp>,
    /// What status and Event have not spoken of yet.
    pub unreported: Option<Unreported>,
    /// When a delayed revert may be made.
    pub revert_at: Option<Timestamp>,
    /// Reverting failed: the message.
    pub error: Option<String>,
}

/// Notes about drift that wait to be told together.
pub(in crate::reconcile) struct Unreported {
    pub count: u32,
    /// When the first one was taken.
    pub since: Timestamp,
    /// When status and Event are due.
    pub due: Timestamp,
}

/// A suspicion that was looked into.
struct Looked {
    gone: bool,
    fingerprint: Option<String>,
    version: u64,
    looks: u32,
    at: Timestamp,
}

impl Looked {
    /// What is ours of the object is as it was: only what others own has changed, if anything.
    fn as_before(&self, suspicion: &Suspicion) -> bool {
        self.gone == suspicion.gone && self.fingerprint == suspicion.fingerprint
    }
}

/// One object that somebody changed.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Drifted {
    pub id: ObjectId,
    pub manager: Option<String>,
    pub paths: Vec<String>,
    pub action: DriftAction,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum DriftAction {
    Reverted,
    /// Created again.
    Recreated,
    /// Left to an autoscaler or an injector from now on.
    HandedOver,
    /// Warn mode.
    Reported,
}

impl DriftAction {
    /// The word in status and events.
    #[must_use]
    pub(in crate::reconcile) fn as_str(self) -> &'static str {
        match self {
            Self::Reverted => "Reverted",
            Self::Recreated => "Recreated",
            Self::HandedOver => "HandedOver",
            Self::Reported => "Reported",
        }
    }
}

/// Entries kept in [`DriftMemory::seen`].
const DRIFT_ENTRIES: usize = 20;

impl DriftMemory {
    /// Takes note of one object; an older note of the same object goes.
    pub(in crate::reconcile) fn note(&mut self, drifted: Drifted) {
        self.seen.retain(|known| known.id != drifted.id);
        if self.seen.len() == DRIFT_ENTRIES {
            self.seen.remove(0);
        }
        self.seen.push(drifted);
    }

    /// Takes back what was reported of objects that do not differ any more.
    pub(in crate::reconcile) fn take_back(&mut self, in_order: impl Fn(&ObjectId) -> bool) {
        self.seen.retain(|seen| seen.action != DriftAction::Reported || !in_order(&seen.id));
    }

    /// Takes note that a suspicion was looked into and that nothing was written about it.
    pub(in crate::reconcile) fn looked(&mut self, suspicion: &Suspicion, now: Timestamp) {
        let before = self.looked.get(&suspicion.id).filter(|looked| looked.as_before(suspicion));
        let looks = before.map_or(1, |looked| looked.looks.saturating_add(1));
        let Suspicion { gone, fingerprint, version, .. } = suspicion.clone();
        self.looked.insert(suspicion.id.clone(), Looked { gone, fingerprint, version, looks, at: now });
    }

    /// Forgets looks except those at the objects of `suspicions`.
    pub(in crate::reconcile) fn keep_looked(&mut self, suspicions: &[Suspicion]) {
        self.looked.retain(|id, _| suspicions.iter().any(|suspicion| suspicion.id == *id));
    }

    /// When a suspicion is due; `None`: now.
    #[must_use]
    pub(in crate::reconcile) fn wait_until(
        &self,
        suspicion: &Suspicion,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let heat = self.heat.get(&suspicion.id).and_then(|heat| heat.wait_until(now));
        let looked = self.looked.get(&suspicion.id).filter(|looked| looked.as_before(suspicion));
        let look = looked.and_then(|looked| looked.at.checked_add(backoff::look(looked.looks)).ok());
        heat.max(look.filter(|at| now < *at))
    }

    /// Nothing was seen of the object since it was looked into: no need to come back for it.
    #[must_use]
    pub(in crate::reconcile) fn is_old(&self, suspicion: &Suspicion) -> bool {
        let looked = self.looked.get(&suspicion.id);
        looked.is_some_and(|looked| looked.as_before(suspicion) && looked.version == suspicion.version)
    }

    /// Objects whose reverts are being delayed.
    #[must_use]
    pub(in crate::reconcile) fn contended(&self, now: Timestamp) -> Vec<&ObjectId> {
        let mut ids: Vec<&ObjectId> =
            self.heat.iter().filter(|(_, heat)| heat.contended(now)).map(|(id, _)| id).collect();
        ids.sort();
        ids
    }

    /// Drops what is cold.
    pub(in crate::reconcile) fn cool(&mut self, now: Timestamp) {
        self.heat.retain(|_, heat| heat.cold_at().is_some_and(|at| now < at));
    }
}
