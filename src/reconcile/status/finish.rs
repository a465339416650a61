//! The end of a pass: status, Event, finalizer, and when to come back.

use std::time::Duration;

use jiff::Timestamp;

use super::release_writes::ReleaseWrites;
use super::{Facts, StatusMemory, build};
use crate::api::{Invalid, SherpackReleaseStatus};
use crate::manifest::ObjectId;
use crate::reconcile::Error;
use crate::reconcile::context::Scope;
use crate::reconcile::context::until;
use crate::reconcile::observe::pending_holder::PendingHolder;
use crate::reconcile::prepare::PrepareMemory;
use crate::reconcile::records::{NewestRecord, PendingHistory, RecordMemory};
use crate::reconcile::state::change_summary::Tally;
use crate::reconcile::state::drift::DriftMemory;
use crate::reconcile::state::progress::{Outcome, Progress};
use crate::reconcile::state::{Ailing, Backoff, Running};
use crate::release::State;
use crate::release::decide::{Doubt, Doubtful, Hold, Operation};
use crate::storage::Head;
use crate::watch::Newest;

/// While a fetch runs, nothing that comes due is looked at more often.
const FETCHING_AGAIN: Duration = Duration::from_secs(1);
/// Another writer was first: look again at once, but not in a tight loop.
pub(super) const CONFLICT_AGAIN: Duration = Duration::from_millis(100);

/// Turns what a pass came to into a status, Events, and a time to come back.
pub(in crate::reconcile) struct Finish<'a> {
    pub scope: Scope<'a>,
    pub status: &'a mut StatusMemory,
    pub records: &'a mut RecordMemory,
    pub running: &'a mut Option<Box<Running>>,
    pub backoff: &'a mut Backoff,
    pub history: &'a mut PendingHistory,
    pub drift: &'a mut DriftMemory,
    pub tally: &'a mut Tally,
    /// Who holds the release up with a pending revision.
    pub claimant: &'a mut Option<(Newest, String)>,
    pub ailing: Option<&'a Ailing>,
    pub prepared: &'a PrepareMemory,
}

impl Finish<'_> {
    pub(super) fn newest(&self) -> NewestRecord<'_> {
        NewestRecord { scope: self.scope, memory: self.records }
    }

    pub(in crate::reconcile) fn writes(&mut self) -> ReleaseWrites<'_> {
        let Scope { ctx, key, release, .. } = self.scope;
        let head = self.records.head.as_ref().map(|(head, _)| head);
        ReleaseWrites { ctx, key, release, memory: self.status, head }
    }

    fn pending_holder(&mut self) -> PendingHolder<'_> {
        let newest = NewestRecord { scope: self.scope, memory: self.records };
        PendingHolder { newest, known: self.claimant }
    }

    /// Turns the outcome of a pass into a status, an Event and a time to come back.
    pub(in crate::reconcile) async fn settle(
        &mut self,
        outcome: Result<Outcome, Error>,
    ) -> Result<Option<Duration>, Error> {
        if self.lost_a_race(&outcome) {
            return Ok(Some(CONFLICT_AGAIN));
        }
        if let Ok(Outcome { progress: Progress::Running(run), .. }) = &outcome {
            let quiet_until =
                run.started.checked_add(self.scope.ctx.calm.quiet_for()).unwrap_or(Timestamp::MAX);
            if self.scope.now < quiet_until && !run.is_beyond_the_first_wave() {
                // What failed before is over: the next event concerns what runs now.
                self.backoff.retry_at = None;
                return Ok(Some(until(self.scope.now, run.until.min(quiet_until))));
            }
        }
        if let Ok(Outcome { progress: Progress::Dependents { awaited, until: at, .. }, .. }) = &outcome {
            let quiet_until =
                awaited.began.checked_add(self.scope.ctx.calm.quiet_for()).unwrap_or(Timestamp::MAX);
            if self.scope.now < quiet_until {
                return Ok(Some(until(self.scope.now, quiet_until.min(*at))));
            }
        }
        let again = self.come_back(&outcome);
        if let Some(since) = fetching_since(&outcome) {
            if !self.newest().spec_changed() {
                // What the status says is still so, and no user asked for more.
                return Ok(again.map(|wait| wait.max(FETCHING_AGAIN)));
            }
            let queued = self.scope.ctx.packs.turns.waiting();
            let quiet = self.scope.ctx.calm.quiet_beside(queued).saturating_sub(since.elapsed());
            if !quiet.is_zero() {
                return Ok(Some(again.map_or(quiet, |wait| wait.max(FETCHING_AGAIN).min(quiet))));
            }
        }
        if self.shown_lately(&outcome) {
            return Ok(again);
        }
        self.status.shown_at = Some(self.scope.now);
        if let Ok(outcome) = &outcome {
            self.pending_holder().learn(outcome).await;
        }
        let (status, verdict) = build(&self.facts(None), &outcome);
        self.tell(&outcome, &verdict);
        self.show(status).await?;
        Ok(again)
    }

    async fn show(&mut self, status: SherpackReleaseStatus) -> Result<(), Error> {
        self.writes().write_status(status).await?;
        self.history.ended.clear();
        self.history.given_up.clear();
        if let Some(running) = self.running {
            running.untold = None;
        }
        let pending =
            matches!(&self.records.head, Some((Head::Ours(stored), _)) if stored.record.state.is_pending());
        if !pending {
            *self.tally = Tally::default();
        }
        Ok(())
    }

    /// [`Self::settle`] for a spec that cannot be acted on: that is what the status says, whatever else went on.
    pub(in crate::reconcile) async fn settle_refused(
        &mut self,
        invalid: &Invalid,
        outcome: Result<Outcome, Error>,
    ) -> Result<Option<Duration>, Error> {
        if self.lost_a_race(&outcome) {
            return Ok(Some(CONFLICT_AGAIN));
        }
        let again = self.come_back(&outcome);
        if self.shown_lately(&outcome) {
            return Ok(again);
        }
        let (status, _) = build(&self.facts(Some(invalid)), &outcome);
        self.tell_of_drift();
        self.show(status).await?;
        Ok(again)
    }

    pub(in crate::reconcile) fn facts<'f>(&'f self, invalid: Option<&'f Invalid>) -> Facts<'f> {
        Facts {
            release: self.scope.release,
            head: self.newest().own_head(),
            drift: self.drift,
            pause: self.scope.settings.drift_pause(self.scope.now),
            invalid,
            missing: self.missing(),
            guards: false,
            tally: self.tally,
            ended: &self.history.ended,
            given_up: &self.history.given_up,
            claimant: self.claimant.as_ref().map(|(_, who)| who.as_str()),
            plan: self.prepared.plan.as_ref(),
            waits_to_begin: self.prepared.waits_to_begin.as_deref(),
            no_way_back: self.prepared.no_way_back.as_deref(),
            wanted: self.prepared.wanted.as_deref(),
            history_limit: usize::try_from(self.scope.settings.history_limit).unwrap_or(usize::MAX),
            now: self.scope.now,
        }
    }

    /// What the watches know to be gone of what is deployed. A Job may go when it has ended.
    fn missing(&self) -> Vec<ObjectId> {
        match self.newest().own_head() {
            Head::Ours(head) if head.record.state == State::Deployed => {
                let mut missing = self.scope.ctx.objects.table().missing(self.scope.key);
                missing.retain(|id| id.kind != "Job");
                missing
            }
            _ => Vec::new(),
        }
    }
}

/// Since when a fetch is waited for, if nothing else is.
fn fetching_since(outcome: &Result<Outcome, Error>) -> Option<std::time::Instant> {
    match outcome {
        Ok(Outcome { progress: Progress::Blocked(error), .. }) | Err(error) => error.fetching_since(),
        Ok(_) => None,
    }
}

/// The word for a decision in metrics.
#[must_use]
pub(in crate::reconcile) fn decision_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Orphan => "Orphan",
        Operation::LetGo => "LetGo",
        Operation::Uninstall => "Uninstall",
        Operation::Recover => "Recover",
        Operation::Resume => "Resume",
        Operation::Interrupt => "Interrupt",
        Operation::Hasten => "Hasten",
        Operation::Wait => "Wait",
        Operation::AwaitHook => "AwaitHook",
        Operation::Rollback { .. } => "Rollback",
        Operation::Remove => "Remove",
        Operation::AcceptRecord => "AcceptRecord",
        Operation::Test => "Test",
        Operation::Install { .. } => "Install",
        Operation::Upgrade { .. } => "Upgrade",
        Operation::StartOver => "StartOver",
        Operation::Nothing => "Nothing",
        Operation::Hold(hold) => match hold {
            Hold::Suspended => "HoldSuspended",
            Hold::ReleaseNameTaken { .. } => "HoldReleaseNameTaken",
            Hold::RecordLost => "HoldRecordLost",
            Hold::RecordUnreadable { .. } => "HoldRecordUnreadable",
            Hold::RecordDoubtful(Doubtful { doubt: Doubt::KeyLost, .. }) => "HoldRecordKeyLost",
            Hold::RecordDoubtful(Doubtful { doubt: Doubt::Rewound, .. }) => "HoldRecordRewound",
            Hold::ForeignPending { .. } => "HoldForeignPending",
            Hold::RetriesExceeded { .. } => "HoldRetriesExceeded",
            Hold::Paused => "HoldPaused",
            Hold::AwaitingApproval { .. } => "HoldAwaitingApproval",
            Hold::RollbackTargetInvalid { .. } => "HoldRollbackTargetInvalid",
            Hold::DependencyNotReady(_) => "HoldDependencyNotReady",
            Hold::InputsUnknown => "HoldInputsUnknown",
        },
    }
}
