//! When a release is looked at again.

use std::time::Duration;

use super::finish::{CONFLICT_AGAIN, Finish};
use crate::api::{Class, DriftPause};
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

    /// Drift is reported a moment after it was put back, so that many reverts make one status write; and an operation
    /// shows its first status at once and later ones not too often.
    pub(in crate::reconcile) fn shown_lately(&self, outcome: &Result<Outcome, Error>) -> bool {
        if self.newest().spec_changed() {
            return false;
        }
        match outcome {
            Ok(Outcome { progress: Progress::Nothing, .. }) => {
                self.drift.unreported.as_ref().is_some_and(|unreported| self.scope.now < unreported.due)
            }
            Ok(Outcome { progress: Progress::Running(run), .. }) => {
                let shown = self.scope.release.status.as_ref().and_then(|status| status.operation.as_ref());
                let same = shown.is_some_and(|shown| {
                    shown.revision == Some(i64::from(run.revision))
                        && shown.phase.as_deref() == Some(run.phase)
                        && shown.step == i64::try_from(run.step).ok()
                });
                let due = self.status.shown_at.and_then(|at| at.checked_add(SHOW_EVERY).ok());
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
                        self.backoff.errors = 0;
                        self.backoff.retry_at = None;
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
        let drift = &mut *self.drift;
        if let Some(unreported) = &mut drift.unreported {
            unreported.due = self.scope.ctx.calm.report_at(unreported.due, unreported.since, self.scope.now);
        }
        let report_at = drift.unreported.as_ref().map(|unreported| unreported.due);
        let cold = drift.contended_until(self.scope.now);
        let look_at = self.ailing.and_then(|ailing| ailing.look_at);
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
            self.backoff.errors = 0;
            self.backoff.retry_at = None;
            return self.scope.settings.interval;
        }
        self.backoff.errors = self.backoff.errors.saturating_add(1);
        self.backoff.blind = error.is_blind();
        let wait = match error.class() {
            // An operation that bears it for a while looks again soon.
            Class::FixSpec if !(error.may_pass() && self.running.is_some()) => {
                self.scope.settings.interval.max(backoff::error(self.backoff.errors))
            }
            Class::FixSpec | Class::Retry | Class::FixCluster => backoff::error(self.backoff.errors),
        };
        self.backoff.retry_at = Some(self.scope.later(wait));
        wait
    }
}
