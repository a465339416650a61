//! What is known of inputs that failed: written down with the failure, carried along, and not tried again unasked.

use crate::api::{conditions, reasons};
use crate::reconcile::Error;
use crate::reconcile::records::{NewestRecord, Records};
use crate::release::decide::{self, Observation};
use crate::release::{Action, Past, State, Undone};
use crate::storage::{Head, Stored};

/// Longest code at the beginning of a reason.
const REASON_MAX: usize = 64;

impl NewestRecord<'_> {
    /// What the newest record failed for, or undid before.
    pub(in crate::reconcile) fn undone(&self) -> Option<Undone> {
        let Some((head @ Head::Ours(stored), _)) = &self.memory.head else { return None };
        let private = stored.private.as_ref()?;
        if let Some(undone) = &private.undone {
            return Some(undone.clone());
        }
        let State::Failed { failed_at, .. } = stored.record.state else { return None };
        let (reason, message) = failure(head);
        Some(Undone {
            inputs: private.inputs.clone(),
            attempt: private.attempt,
            at: failed_at,
            reason,
            message,
            spec: private.spec.clone(),
            revision: stored.record.version,
            for_good: private.undo_at_once,
        })
    }

    /// The digest of the spec, if anything failed that it is compared with.
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

/// Reason and message of a failed record, or of the failure that a record undid.
pub(in crate::reconcile) fn failure(head: &Head) -> (String, String) {
    let private = head.stored().and_then(|stored| stored.private.as_ref());
    match private.and_then(|private| private.undone.as_ref()) {
        Some(undone) => (undone.reason.clone(), undone.message.clone()),
        None => own_failure(head),
    }
}

/// Reason and message of a failed record itself, whatever it undid.
pub(in crate::reconcile) fn own_failure(head: &Head) -> (String, String) {
    let Some(State::Failed { reason, .. }) = head.stored().map(|stored| &stored.record.state) else {
        return (reasons::UPGRADE_FAILED.to_owned(), "the last attempt failed".to_owned());
    };
    // The author of the record chose it, and a reason that is no word is refused with the whole status.
    let word = |text: &str| text.len() <= REASON_MAX && is_word(text);
    match reason.split_once(": ") {
        Some((code, message)) if word(code) => (code.to_owned(), message.to_owned()),
        _ => (reasons::UPGRADE_FAILED.to_owned(), reason.clone()),
    }
}

/// Whether a text has the letters of a reason.
pub(in crate::reconcile) fn is_word(reason: &str) -> bool {
    reason.starts_with(|first: char| first.is_ascii_alphabetic())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
