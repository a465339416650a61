//! The stored revisions: which are kept, what of them stays in memory, and what is deleted.

pub(super) mod accept;
pub(super) mod bulk;
pub(super) mod failures;
pub(super) mod history;
pub(super) mod known;
pub(super) mod manifest_cache;
pub(super) mod parsed;
pub(super) mod past;
pub(super) mod pending;
pub(super) mod planned;
pub(super) mod read;
pub(super) mod retention;
pub(super) mod sweep;
pub(super) mod write;

use super::Error;
use super::access::Access;
use super::access::claims::Claims;
use super::context::Scope;
use super::context::fair::Turn;
use super::state::{Backoff, Running};
use crate::api::{ActsAs, HistoryEntry};
use crate::storage::{Head, Stored};
use crate::watch::Newest;
use known::Known;
use manifest_cache::Kept;

/// What is remembered of the stored revisions.
#[derive(Default)]
pub(in crate::reconcile) struct RecordMemory {
    /// The newest record, without manifest and values, and what the record watch said when it was read.
    pub head: Option<(Head, Newest)>,
    /// A create of a record got no clear answer: that the watch has not heard of one says nothing until the records are read.
    pub unanswered: bool,
    /// As whom the release acted when it was known that the account may have this record.
    pub head_for: Option<ActsAs>,
    /// What the keys of the records had changed to when it was read.
    pub keys: u64,
    /// The newest state of the newest record that this process has seen: revision and number of writes.
    pub(super) known: Option<Known>,
    /// What the status said of that in the last pass, and of which uid.
    pub(super) told: Option<(String, Known)>,
    /// The last record of ours that is not the newest any more: in a namespace on its way out it may go before the
    /// release does.
    pub departed: Option<Box<Stored>>,
    /// The manifest of the newest revision, if that is deployed.
    manifest: Option<Kept>,
}

impl RecordMemory {
    /// What is known of the newest record may not be so any more: it is read again.
    pub(in crate::reconcile) fn doubt_head(&mut self) {
        if let Some((Head::Ours(stored), _)) = self.head.take() {
            self.departed = Some(stored);
        }
    }
}

/// What happened to revisions without an operation, until the status has told it.
#[derive(Default)]
pub(in crate::reconcile) struct PendingHistory {
    /// Revisions that were ended.
    pub ended: Vec<HistoryEntry>,
    /// Revisions that were deleted because they were too many.
    pub given_up: Vec<u32>,
}

/// What [`Records`] changes of what is remembered of one release.
#[derive(Default)]
pub(in crate::reconcile) struct RevisionMemory {
    pub records: RecordMemory,
    /// The operation under way.
    pub running: Option<Box<Running>>,
    pub history: PendingHistory,
    pub backoff: Backoff,
}

impl RevisionMemory {
    /// The stage that changes it.
    pub(in crate::reconcile) fn lend<'a>(
        &'a mut self,
        scope: Scope<'a>,
        claimed: &'a mut Option<Turn>,
    ) -> Records<'a> {
        let Self { records, running, history, backoff } = self;
        Records { scope, memory: records, running, history, backoff, claimed }
    }
}

/// What is known of the newest record, and decides what is done about it. Changes nothing.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct NewestRecord<'a> {
    pub scope: Scope<'a>,
    pub memory: &'a RecordMemory,
}

/// Reads and writes revision records.
pub(in crate::reconcile) struct Records<'a> {
    pub scope: Scope<'a>,
    pub memory: &'a mut RecordMemory,
    /// Forgotten when its record turns out to be another one.
    pub running: &'a mut Option<Box<Running>>,
    pub history: &'a mut PendingHistory,
    /// A record that is written ends a series of errors.
    pub backoff: &'a mut Backoff,
    pub claimed: &'a mut Option<Turn>,
}

impl Records<'_> {
    /// The same, for a stage that lives shorter.
    pub(in crate::reconcile) fn reborrow(&mut self) -> Records<'_> {
        let Self { scope, memory, running, history, backoff, claimed } = self;
        Records { scope: *scope, memory, running, history, backoff, claimed }
    }

    pub(in crate::reconcile) fn newest(&self) -> NewestRecord<'_> {
        NewestRecord { scope: self.scope, memory: self.memory }
    }

    pub(in crate::reconcile) fn access(&self) -> Access<'_> {
        Access { scope: self.scope }
    }

    pub(in crate::reconcile) fn claims(&mut self) -> Claims<'_> {
        Claims { scope: self.scope, claimed: self.claimed }
    }

    /// Has what it takes to work with the newest record.
    pub(in crate::reconcile) fn claim_head(&mut self) -> Result<(), Error> {
        let weight = self.newest().weight();
        self.claims().claim(weight)
    }
}
