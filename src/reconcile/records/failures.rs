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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::storage::samples;

    fn at() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn stored(state: State) -> Stored {
        let mut record = samples::record(3);
        record.state = state;
        Stored::sample(record, Some(samples::private(3)))
    }

    fn failed(reason: &str) -> Head {
        let state = State::Failed { reason: reason.to_owned(), recoverable: true, failed_at: at() };
        Head::Ours(Box::new(stored(state)))
    }

    fn undone(inputs: &str) -> Undone {
        serde_json::from_value(json!({"inputs": inputs, "attempt": 3, "at": at(), "reason": "HealthFailed",
            "message": "crashed"}))
        .unwrap()
    }

    #[test]
    fn a_reason_is_read_only_where_a_word_of_bounded_length_stands_before_the_message() {
        let (longest, longer) = ("R".repeat(64), "R".repeat(65));
        for (recorded, reason, message) in [
            ("HookFailed: Job a failed", "HookFailed", "Job a failed"),
            ("HookFailed: a: b", "HookFailed", "a: b"),
            (&format!("{longest}: x"), &*longest, "x"),
            (&format!("{longer}: x"), "UpgradeFailed", &*format!("{longer}: x")),
            // What another tool wrote.
            ("it broke", "UpgradeFailed", "it broke"),
            ("two words: x", "UpgradeFailed", "two words: x"),
            ("9lives: x", "UpgradeFailed", "9lives: x"),
            ("Pod/a: x", "UpgradeFailed", "Pod/a: x"),
            (": x", "UpgradeFailed", ": x"),
            ("HookFailed:x", "UpgradeFailed", "HookFailed:x"),
            ("", "UpgradeFailed", ""),
        ] {
            assert_eq!(own_failure(&failed(recorded)), (reason.to_owned(), message.to_owned()), "{recorded}");
        }
        let unknown = ("UpgradeFailed".to_owned(), "the last attempt failed".to_owned());
        for head in [Head::None, Head::Ours(Box::new(stored(State::Deployed)))] {
            assert_eq!(own_failure(&head), unknown);
        }
    }

    #[test]
    fn what_a_revision_undid_counts_before_its_own_failure() {
        let Head::Ours(mut stored) = failed("HookFailed: x") else { unreachable!() };
        stored.private.as_mut().unwrap().undone = Some(undone("sha256:b"));
        let head = Head::Ours(stored);
        assert_eq!(failure(&head), ("HealthFailed".to_owned(), "crashed".to_owned()));
        assert_eq!(own_failure(&head), ("HookFailed".to_owned(), "x".to_owned()));
        assert_eq!(failure(&failed("HookFailed: x")), ("HookFailed".to_owned(), "x".to_owned()));
    }

    #[test]
    fn only_an_attempt_at_inputs_is_noted_as_their_failure() {
        for (action, noted) in [
            (Action::Install, true),
            (Action::Upgrade, true),
            // Going back, or away, is no attempt at any inputs.
            (Action::Rollback, false),
            (Action::Uninstall, false),
        ] {
            let mut stored = stored(State::Deployed);
            let private = stored.private.as_mut().unwrap();
            private.action = action;
            private.attempt = 2;
            note(&mut stored, "HookFailed", "x", at());
            let failures = &stored.private.as_ref().unwrap().failures;
            let told: Vec<_> =
                failures.iter().map(|one| (&*one.inputs, one.attempt, &*one.reason, one.revision)).collect();
            let expected = [("sha256:aa", 2, "HookFailed", 3)];
            assert_eq!(told, if noted { &expected[..] } else { &[] }, "{action:?}");
        }
        let mut foreign = stored(State::Deployed);
        foreign.private = None;
        note(&mut foreign, "HookFailed", "x", at());
        assert!(foreign.private.is_none(), "another tool's record has no place for it");
    }
}
