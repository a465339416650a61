//! The end of a pass: status, Event, finalizer, and when to come back.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::conditions::{self, Standing};
use crate::api::reasons;
use crate::api::{Class, DriftPause, Invalid, SherpackReleaseStatus};
use crate::manifest::ObjectId;
use crate::reconcile::records::history;
use crate::reconcile::state::DriftAction;
use crate::reconcile::state::Unreported;
use crate::reconcile::state::change_summary::Tally;
use crate::reconcile::state::progress::{Outcome, Progress};
use crate::reconcile::status::{self, Facts, Verdict};
use crate::reconcile::{Error, Pass, until};
use crate::release::decide::{Doubt, Doubtful, Hold, Operation};
use crate::release::{Action, State, backoff};
use crate::storage::Head;

/// While an operation runs, what it waits for is shown at most this often.
const SHOW_EVERY: Duration = Duration::from_secs(5);
/// While a fetch runs, nothing that comes due is looked at more often.
const FETCHING_AGAIN: Duration = Duration::from_secs(1);
/// Somebody else wrote first: look again at once, but not in a tight loop.
const CONFLICT_AGAIN: Duration = Duration::from_millis(100);
/// So many times in a row; then it is told and tried ever less often.
const CONFLICTS: u32 = 5;

impl Pass<'_> {
    /// Turns the outcome of a pass into a status, an Event and a time to come back.
    pub(in crate::reconcile) async fn settle(
        &mut self,
        outcome: Result<Outcome, Error>,
    ) -> Result<Option<Duration>, Error> {
        if self.lost_a_race(&outcome) {
            return Ok(Some(CONFLICT_AGAIN));
        }
        if let Ok(Outcome { progress: Progress::Gone, decision, .. }) = &outcome {
            let orphaned = matches!(decision.operation, Operation::Orphan);
            return self.let_the_release_go(orphaned).await;
        }
        if let Ok(Outcome { progress: Progress::Running(run), .. }) = &outcome {
            let quiet_until =
                run.started.checked_add(self.scope.ctx.calm.quiet_for()).unwrap_or(Timestamp::MAX);
            if self.scope.now < quiet_until && !run.is_beyond_the_first_wave() {
                // What failed before is over: the next event concerns what runs now.
                self.mem.backoff.retry_at = None;
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
                // What the status says is still so, and nobody asked for more.
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
        self.mem.shown_at = Some(self.scope.now);
        if let Ok(outcome) = &outcome {
            self.pending_holder().learn(outcome).await;
        }
        let (status, verdict) = status::build(&self.facts(None), &outcome);
        self.tell(&outcome, &verdict);
        self.show(status).await?;
        Ok(again)
    }

    async fn show(&mut self, status: SherpackReleaseStatus) -> Result<(), Error> {
        self.scope.ctx.write_status(self.scope.release, self.scope.key, self.mem, status).await?;
        self.mem.history.ended.clear();
        self.mem.history.given_up.clear();
        if let Some(running) = &mut self.mem.running {
            running.untold = None;
        }
        let pending = matches!(&self.mem.records.head, Some((Head::Ours(stored), _)) if stored.record.state.is_pending());
        if !pending {
            self.mem.tally = Tally::default();
        }
        Ok(())
    }

    /// [`Pass::settle`] for a spec that cannot be acted on: that is what the status says, whatever else went on.
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
        let (status, _) = status::build(&self.facts(Some(invalid)), &outcome);
        self.tell_of_drift();
        self.show(status).await?;
        Ok(again)
    }

    /// Somebody else wrote first. Nothing is wrong, what we knew is only not the newest any more; unless it goes on,
    /// because something stands where we want to write and does not show in what we read.
    pub(in crate::reconcile) fn lost_a_race(&mut self, outcome: &Result<Outcome, Error>) -> bool {
        let Err(error) = outcome else {
            self.mem.backoff.conflicts = 0;
            return false;
        };
        if error.fetching_since().is_none() {
            self.scope.ctx.report.failed(error.reason());
        }
        if !error.is_conflict() {
            self.mem.backoff.conflicts = 0;
            return false;
        }
        self.mem.records.doubt_head();
        self.mem.running = None;
        self.mem.backoff.conflicts = self.mem.backoff.conflicts.saturating_add(1);
        self.mem.backoff.conflicts <= CONFLICTS
    }

    pub(in crate::reconcile) fn facts<'f>(&'f self, invalid: Option<&'f Invalid>) -> Facts<'f> {
        Facts {
            release: self.scope.release,
            head: self.newest().own_head(),
            drift: &self.mem.drift,
            pause: self.scope.settings.drift_pause(self.scope.now),
            invalid,
            missing: self.missing(),
            guards: false,
            tally: &self.mem.tally,
            ended: &self.mem.history.ended,
            given_up: &self.mem.history.given_up,
            claimant: self.mem.claimant.as_ref().map(|(_, who)| who.as_str()),
            plan: self.mem.plan.as_ref(),
            waits_to_begin: self.mem.waits_to_begin.as_deref(),
            no_way_back: self.mem.no_way_back.as_deref(),
            wanted: self.mem.wanted.as_deref(),
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

    /// Drift is reported a moment after it was put back, so that many reverts make one status write; and an operation
    /// shows its first status at once and later ones not too often.
    pub(in crate::reconcile) fn shown_lately(&self, outcome: &Result<Outcome, Error>) -> bool {
        if self.newest().spec_changed() {
            return false;
        }
        match outcome {
            Ok(Outcome { progress: Progress::Nothing, .. }) => {
                self.mem.drift.unreported.as_ref().is_some_and(|unreported| self.scope.now < unreported.due)
            }
            Ok(Outcome { progress: Progress::Running(run), .. }) => {
                let shown = self.scope.release.status.as_ref().and_then(|status| status.operation.as_ref());
                let same = shown.is_some_and(|shown| {
                    shown.revision == Some(i64::from(run.revision))
                        && shown.phase.as_deref() == Some(run.phase)
                        && shown.step == i64::try_from(run.step).ok()
                });
                let due = self.mem.shown_at.and_then(|at| at.checked_add(SHOW_EVERY).ok());
                same && due.is_some_and(|at| self.scope.now < at)
            }
            _ => false,
        }
    }

    pub(in crate::reconcile) fn come_back(&mut self, outcome: &Result<Outcome, Error>) -> Option<Duration> {
        let interval = self.scope.settings.interval;
        let mut next = Some(interval);
        let mut sooner = |wait: Duration| next = Some(next.map_or(wait, |next: Duration| next.min(wait)));
        match outcome {
            Ok(outcome) => {
                let error = match &outcome.progress {
                    Progress::Blocked(error) => Some(error),
                    _ => None,
                };
                match error {
                    Some(error) => sooner(self.back_off(error)),
                    None => {
                        self.mem.backoff.errors = 0;
                        self.mem.backoff.retry_at = None;
                    }
                }
                match &outcome.progress {
                    Progress::Running(run) | Progress::Testing { run, .. } => {
                        sooner(until(self.scope.now, run.until));
                    }
                    Progress::Uninstalling { until: at, .. } | Progress::Dependents { until: at, .. } => {
                        sooner(until(self.scope.now, *at));
                    }
                    // What is deployed now is not all that is to be said.
                    Progress::Finished(finished)
                        if finished.failure.is_some()
                            || finished.action == Action::Rollback
                            || matches!(outcome.decision.operation, Operation::Hold(_) | Operation::Wait) =>
                    {
                        sooner(CONFLICT_AGAIN);
                    }
                    _ => {}
                }
                if let Some(at) = outcome.decision.until {
                    sooner(until(self.scope.now, at));
                }
            }
            Err(error) => sooner(self.back_off(error)),
        }
        let drift = &mut self.mem.drift;
        if let Some(unreported) = &mut drift.unreported {
            unreported.due = self.scope.ctx.calm.report_at(unreported.due, unreported.since, self.scope.now);
        }
        let report_at = drift.unreported.as_ref().map(|unreported| unreported.due);
        let cold = drift
            .heat
            .values()
            .filter(|heat| heat.contended(self.scope.now))
            .filter_map(backoff::Heat::cold_at)
            .min();
        let look_at = self.mem.ailing.as_ref().and_then(|ailing| ailing.look_at);
        // What was due before this pass and is due still, this pass had no reason to do: what gives it one wakes the release.
        let ahead = [drift.revert_at, look_at, report_at].map(|at| at.filter(|at| *at >= self.scope.now));
        for at in ahead.into_iter().chain([cold]).flatten() {
            sooner(until(self.scope.now, at));
        }
        match self.scope.settings.drift_pause(self.scope.now) {
            DriftPause::Until(at) => sooner(until(self.scope.now, at)),
            DriftPause::TooFar { from } => sooner(until(self.scope.now, from)),
            DriftPause::Off => {}
        }
        next
    }

    /// The wait after an error: doubled each time, and for what only a person can mend at least the interval.
    fn back_off(&mut self, error: &Error) -> Duration {
        if error.wakes() {
            self.mem.backoff.errors = 0;
            self.mem.backoff.retry_at = None;
            return self.scope.settings.interval;
        }
        self.mem.backoff.errors = self.mem.backoff.errors.saturating_add(1);
        self.mem.backoff.blind = error.is_blind();
        let wait = match error.class() {
            // An operation that bears it for a while looks again soon.
            Class::FixSpec if !(error.may_pass() && self.mem.running.is_some()) => {
                self.scope.settings.interval.max(backoff::error(self.mem.backoff.errors))
            }
            Class::FixSpec | Class::Retry | Class::FixCluster => backoff::error(self.mem.backoff.errors),
        };
        self.mem.backoff.retry_at = Some(self.scope.later(wait));
        wait
    }

    /// Publishes an Event for what ended, and for a new reason not to be ready.
    pub(in crate::reconcile) fn tell(&mut self, outcome: &Result<Outcome, Error>, verdict: &Verdict) {
        let before =
            self.scope.release.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        let ready = conditions::find(before, reasons::condition::READY);
        let finished = match outcome {
            Ok(Outcome { progress: Progress::Finished(finished), .. }) => Some(finished),
            _ => None,
        };
        let news = ready.is_none_or(|ready| ready.reason != verdict.reason);
        let warning = matches!(verdict.standing, Standing::Retrying | Standing::Stalled);
        if let Some(finished) = finished {
            let action = history::action_name(finished.action);
            self.scope.ctx.report.event(
                self.scope.release,
                warning,
                &verdict.reason,
                action,
                verdict.message.clone(),
            );
        } else if news && warning {
            self.scope.ctx.report.event(
                self.scope.release,
                true,
                &verdict.reason,
                "Reconcile",
                verdict.message.clone(),
            );
        }
        self.tell_of_drift();
    }

    /// Nothing is tried again before `at`; what is due until then is told all the same. Gives when to come back.
    pub(in crate::reconcile) fn tell_until(&mut self, at: Timestamp) -> Duration {
        self.tell_of_drift();
        let due = self.mem.drift.unreported.as_ref().map(|unreported| unreported.due);
        until(self.scope.now, due.map_or(at, |due| due.min(at)))
    }

    /// One Event for what was put back since the last one, once that is due.
    fn tell_of_drift(&mut self) {
        let drift = &mut self.mem.drift;
        let Some(Unreported { count, .. }) =
            drift.unreported.take_if(|unreported| unreported.due <= self.scope.now)
        else {
            return;
        };
        let Some(last) = drift.seen.last() else { return };
        let manager = last.manager.as_ref().map(|manager| format!(" by {manager}")).unwrap_or_default();
        let paths = match last.paths.is_empty() {
            true => String::new(),
            false => format!(" at {}", last.paths.join(", ")),
        };
        let more = if count > 1 { format!(", and {} more changes", count - 1) } else { String::new() };
        let (reason, note) = match last.action {
            DriftAction::Reported => {
                (reasons::DRIFT_DETECTED, format!("{} was changed{manager}{paths}{more}", last.id))
            }
            action => (
                reasons::DRIFT_REVERTED,
                format!("{} was changed{manager}{paths}: {}{more}", last.id, action.as_str()),
            ),
        };
        self.scope.ctx.report.event(self.scope.release, true, reason, "Correct", note);
    }

    async fn let_the_release_go(&mut self, orphaned: bool) -> Result<Option<Duration>, Error> {
        if orphaned {
            self.tell_what_stays().await;
        }
        self.scope.ctx.drop_finalizer(self.scope.release, self.mem).await?;
        self.scope.ctx.forget(self.scope.key, self.scope.release);
        Ok(None)
    }

    /// Says that all objects are gone, before the last record goes.
    pub(in crate::reconcile) async fn checkpoint_records(&mut self) -> Result<(), Error> {
        self.scope.ctx.checkpoint_records(self.scope.release, self.scope.key, self.mem, self.scope.now).await
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
