//! What the operator remembers of all releases between passes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::{Bounded, LockOf, SherpackRelease};
use crate::reconcile::Context;
use crate::reconcile::prepare::PrepareMemory;
use crate::reconcile::records::RevisionMemory;
use crate::reconcile::state::change_summary::Tally;
use crate::reconcile::state::drift::DriftMemory;
use crate::reconcile::state::guard::Guard;
use crate::reconcile::state::redact::Known;
use crate::reconcile::state::{Ailing, Expectations, PendingDeletion};
use crate::reconcile::status::StatusMemory;
use crate::reconcile::status::release_writes::ReleaseWrites;
use crate::release::ReleaseKey;
use crate::release::dependents::Awaited;
use crate::watch::Newest;

/// The memory of all releases.
#[derive(Default)]
pub(super) struct Memory {
    releases: Mutex<HashMap<ReleaseKey, Arc<tokio::sync::Mutex<Remembered>>>>,
}

impl Memory {
    /// The memory of one release; made on first use.
    pub(super) fn of(&self, key: &ReleaseKey) -> Arc<tokio::sync::Mutex<Remembered>> {
        let mut releases = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(releases.entry(key.clone()).or_default())
    }

    /// What a release locked, if it locked anything and no pass of it runs.
    pub(super) fn lock_of(&self, key: &ReleaseKey) -> Option<LockOf> {
        let releases = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = releases.get(key)?.try_lock().ok()?;
        remembered.guard.as_ref()?.lock.clone()
    }

    /// Forgets a release that is gone.
    pub(super) fn forget(&self, key: &ReleaseKey) {
        self.releases.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// What is remembered of one release.
#[derive(Default)]
pub(in crate::reconcile) struct Remembered {
    pub status: StatusMemory,
    pub revisions: RevisionMemory,
    pub prepare: PrepareMemory,
    /// Who holds the release up with a pending revision, and when the record said so.
    pub claimant: Option<(Newest, String)>,
    /// What came from Secrets into the newest revision, if this process rendered it.
    pub secrets: Option<Known>,
    pub expectations: Expectations,
    pub drift: DriftMemory,
    /// What is known of the release that it locks, if another tool installs that.
    pub guard: Option<Box<Guard>>,
    /// What the newest revision failed for.
    pub ailing: Option<Ailing>,
    pub deletion: PendingDeletion,
    /// The wait of a release that is being deleted for those that depend on it.
    pub awaited: Option<Awaited>,
    /// Durations of the spec that do not count as written, as far as an Event has told it.
    pub bounded: Vec<Bounded>,
    /// What the newest operation did with the objects, until the status has told it.
    pub tally: Tally,
    /// The changes of definitions that were counted last, by name: a release that is stopped asks for the same ones in each pass.
    pub counted: BTreeMap<String, String>,
}

impl Remembered {
    /// The writes to a release, before anything is known of it.
    pub(in crate::reconcile) fn writes<'a>(
        &'a mut self,
        ctx: &'a Context,
        key: &'a ReleaseKey,
        release: &'a SherpackRelease,
    ) -> ReleaseWrites<'a> {
        let head = self.revisions.records.head.as_ref().map(|(head, _)| head);
        ReleaseWrites { ctx, key, release, memory: &mut self.status, head }
    }
}
