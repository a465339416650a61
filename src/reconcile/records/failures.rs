//! What is known of inputs that failed: written down with the failure, carried along, and not tried again unasked.

use crate::api::conditions;
use crate::manifest;
use crate::reconcile::Error;
use crate::reconcile::context::Scope;
use crate::reconcile::records::{NewestRecord, Records};
use crate::release::decide::{self, Observation};
use crate::release::{Action, Past, State, Undone};
use crate::storage::{Head, Stored};

impl Scope<'_> {
    /// Digest of the spec.
    pub(in crate::reconcile) fn spec_digest(&self) -> String {
        // What was read as JSON is written as such.
        manifest::digest(&serde_json::to_value(&self.release.spec).unwrap_or_default())
    }
}

impl NewestRecord<'_> {
    /// [`Scope::spec_digest`] if anything failed that it is compared with.
    pub(in crate::reconcile) fn spec_of_failures(&self) -> String {
        let Some((Head::Ours(stored), _)) = &self.memory.head else { return String::new() };
        let failed = matches!(stored.record.state, State::Failed { .. });
        let known = stored
            .private
            .as_ref()
            .is_some_and(|private| private.undone.is_some() || !private.failures.is_empty());
        if failed || known { self.scope.spec_digest() } else { String::new() }
    }

    /// What an attempt at `inputs` inherits from the newest record: the failures, and the revisions that it takes the
    /// place of if it is made only because the spec asks for more than the retries.
    pub(in crate::reconcile) fn inherited(&self, inputs: &str, attempt: u32) -> (Vec<Undone>, Vec<u32>) {
        let Some(before) = self.own_private() else { return (Vec::new(), Vec::new()) };
        let settings = &self.scope.settings;
        let (allowed, interval) = match before.last_deployed {
            Some(_) => (settings.upgrade_retries, settings.upgrade_retry_interval),
            None => (settings.install_retries, settings.install_retry_interval),
        };
        // The first one after the retries follows on a failure or on the way back from it.
        let one_more = attempt > 1 && interval.is_some() && attempt > allowed.saturating_add(1);
        let replaces = if one_more { before.tries_of(inputs, self.revision()) } else { Vec::new() };
        (before.failures.clone(), replaces)
    }
}

impl Records<'_> {
    /// Whether any revision of this release was deployed, although the newest record knows of none: then a failed install
    /// is not the first one, and what it applied is not all its own.
    pub(in crate::reconcile) async fn was_deployed_before(
        &mut self,
        seen: &mut Observation,
    ) -> Result<bool, Error> {
        let Past { deployed, unreachable, .. } = self.past_records().await?;
        let before = deployed || unreachable.is_some();
        if let decide::Head::Ours(head) = &mut seen.head {
            head.earlier_deployed = before;
        }
        Ok(before)
    }
}

/// Takes note in a record that it has failed. Going back is no attempt at any inputs.
pub(in crate::reconcile) fn note(stored: &mut Stored, reason: &str, message: &str, at: jiff::Timestamp) {
    let revision = stored.record.version;
    let Some(private) = stored.private.as_mut() else { return };
    if matches!(private.action, Action::Install | Action::Upgrade) {
        let failed = Undone {
            inputs: private.inputs.clone(),
            attempt: private.attempt,
            at,
            reason: reason.to_owned(),
            message: conditions::clip(message),
            spec: private.spec.clone(),
            revision,
            for_good: private.undo_at_once,
        };
        private.note_failure(failed);
    }
}
