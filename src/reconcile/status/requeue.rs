//! When a release is looked at again.

use std::time::Duration;

use jiff::Timestamp;

use super::finish::{CONFLICT_AGAIN, Finish};
use crate::api::{Class, DriftPause, OperationStatus};
use crate::reconcile::Error;
use crate::reconcile::context::until;
use crate::reconcile::state::progress::{Outcome, Progress};
use crate::release::decide::Operation;
use crate::release::{Action, backoff};

/// While an operation runs, what it waits for is shown at most this often.
const SHOW_EVERY: Duration = Duration::from_secs(5);
/// So many times in a row; then it is told and tried ever less often.
const CONFLICTS: u32 = 5;

impl Finish<'_> {
    /// Another writer was first. Nothing is wrong, what we knew is only not the newest any more; unless it goes on,
    /// because something stands where we want to write and does not show in what we read.
    pub(in crate::reconcile) fn lost_a_race(&mut self, outcome: &Result<Outcome, Error>) -> bool {
        let Err(error) = outcome else {
            self.backoff.conflicts = 0;
            return false;
        };
        if error.fetching_since().is_none() {
            self.scope.ctx.report.failed(error.reason());
        }
        if !error.is_conflict() {
            self.backoff.conflicts = 0;
            return false;
        }
        self.records.doubt_head();
        *self.running = None;
        self.backoff.conflicts = self.backoff.conflicts.saturating_add(1);
        self.backoff.conflicts <= CONFLICTS
    }

    /// Whether the status waits a moment longer.
    pub(in crate::reconcile) fn shown_lately(&self, outcome: &Result<Outcome, Error>) -> bool {
        let Ok(Outcome { progress, .. }) = outcome else { return false };
        let shown = self.scope.release.status.as_ref().and_then(|status| status.operation.as_ref());
        let drift_due = self.drift.unreported.as_ref().map(|unreported| unreported.due);
        !self.newest().spec_changed()
            && waits_to_be_shown(progress, drift_due, shown, self.status.shown_at, self.scope.now)
    }

    pub(in crate::reconcile) fn come_back(&mut self, outcome: &Result<Outcome, Error>) -> Option<Duration> {
        let now = self.scope.now;
        let mut next = self.scope.settings.interval;
        let error = match outcome {
            Ok(Outcome { progress: Progress::Blocked(error), .. }) | Err(error) => Some(error),
            Ok(_) => None,
        };
        match error {
            Some(error) => next = next.min(self.back_off(error)),
            None => {
                self.backoff.errors = 0;
                self.backoff.retry_at = None;
            }
        }
        if let Ok(outcome) = outcome {
            next = next.min(asked_by(outcome, now));
        }
        if let Some(unreported) = &mut self.drift.unreported {
            unreported.due = self.scope.ctx.calm.report_at(unreported.due, unreported.since, now);
        }
        let look_at = self.ailing.and_then(|ailing| ailing.look_at);
        let due = Due {
            revert: self.drift.revert_at,
            report: self.drift.unreported.as_ref().map(|unreported| unreported.due),
            look: look_at,
            cold: self.drift.contended_until(now),
            pause: self.scope.settings.drift_pause(now),
        };
        Some(next.min(due.first(now)))
    }

    /// Counts the error, and gives the wait after it.
    fn back_off(&mut self, error: &Error) -> Duration {
        let interval = self.scope.settings.interval;
        if error.wakes() {
            self.backoff.errors = 0;
            self.backoff.retry_at = None;
            return interval;
        }
        self.backoff.errors = self.backoff.errors.saturating_add(1);
        self.backoff.blind = error.is_blind();
        let wait = wait_after(error, self.backoff.errors, self.running.is_some(), interval);
        self.backoff.retry_at = Some(self.scope.later(wait));
        wait
    }
}

/// Drift is reported a moment after it was put back, so that many reverts make one status write; and an operation
/// shows its first status at once and later ones not too often.
///
/// `shown`: the operation of the status that was written at `shown_at`.
pub(super) fn waits_to_be_shown(
    progress: &Progress,
    drift_due: Option<Timestamp>,
    shown: Option<&OperationStatus>,
    shown_at: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    match progress {
        Progress::Nothing => drift_due.is_some_and(|due| now < due),
        Progress::Running(run) => {
            let same = shown.is_some_and(|shown| {
                shown.revision == Some(i64::from(run.revision))
                    && shown.phase.as_deref() == Some(run.phase)
                    && shown.step == i64::try_from(run.step).ok()
            });
            let due = shown_at.and_then(|at| at.checked_add(SHOW_EVERY).ok());
            same && due.is_some_and(|at| now < at)
        }
        _ => false,
    }
}

/// How soon what the pass came to wants another one; `Duration::MAX`: not at all.
pub(super) fn asked_by(outcome: &Outcome, now: Timestamp) -> Duration {
    let progress = match &outcome.progress {
        Progress::Running(run) | Progress::Testing { run, .. } => until(now, run.until),
        Progress::Uninstalling { until: at, .. } | Progress::Dependents { until: at, .. } => until(now, *at),
        // What is deployed now is not all that is to be said.
        Progress::Finished(finished)
            if finished.failure.is_some()
                || finished.action == Action::Rollback
                || matches!(outcome.decision.operation, Operation::Hold(_) | Operation::Wait) =>
        {
            CONFLICT_AGAIN
        }
        Progress::Finished(_) | Progress::Nothing | Progress::Blocked(_) | Progress::Gone => Duration::MAX,
    };
    outcome.decision.until.map_or(progress, |at| progress.min(until(now, at)))
}

/// When drift, and what is not healthy, want another pass.
pub(super) struct Due {
    /// A revert that was put off.
    pub(super) revert: Option<Timestamp>,
    /// The status that tells of reverts.
    pub(super) report: Option<Timestamp>,
    /// The next look at an object that is not healthy.
    pub(super) look: Option<Timestamp>,
    /// A contended object is put back at once again.
    pub(super) cold: Option<Timestamp>,
    pub(super) pause: DriftPause,
}

impl Due {
    /// How soon; `Duration::MAX`: not at all.
    pub(super) fn first(&self, now: Timestamp) -> Duration {
        // What was due before this pass and is due still, this pass had no reason to do: what gives it one wakes the release.
        let ahead = [self.revert, self.look, self.report].map(|at| at.filter(|at| *at >= now));
        let pause = match self.pause {
            DriftPause::Until(at) | DriftPause::TooFar { from: at } => Some(at),
            DriftPause::Off => None,
        };
        let first = ahead.into_iter().chain([self.cold, pause]).flatten().min();
        first.map_or(Duration::MAX, |at| until(now, at))
    }
}

/// The wait after the last of `errors` errors in a row: doubled each time, and for what only a person can mend at least the
/// interval. An operation that bears the error for a while looks again soon.
pub(super) fn wait_after(error: &Error, errors: u32, operates: bool, interval: Duration) -> Duration {
    match error.class() {
        Class::FixSpec if !(error.may_pass() && operates) => interval.max(backoff::error(errors)),
        Class::FixSpec | Class::Retry | Class::FixCluster => backoff::error(errors),
    }
}
