//! The Events of a pass.

use std::time::Duration;

use jiff::Timestamp;

use super::Verdict;
use super::finish::Finish;
use crate::api::conditions::{self, Standing};
use crate::api::reasons;
use crate::reconcile::Error;
use crate::reconcile::context::until;
use crate::reconcile::records::history;
use crate::reconcile::state::drift::{DriftAction, Unreported};
use crate::reconcile::state::progress::{Outcome, Progress};

impl Finish<'_> {
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
        let due = self.drift.unreported.as_ref().map(|unreported| unreported.due);
        until(self.scope.now, due.map_or(at, |due| due.min(at)))
    }

    /// One Event for what was put back since the last one, once that is due.
    pub(super) fn tell_of_drift(&mut self) {
        let drift = &mut *self.drift;
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
}
