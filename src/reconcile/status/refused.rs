//! A status that the API server does not take: what is written in its place. Pure.

use crate::api::conditions;
use crate::api::reasons::{PROGRESSING, condition};
use crate::api::{HistoryEntry, OperationStatus, PlanStatus, SherpackReleaseStatus};
use crate::manifest;
use crate::reconcile::records::failures::is_word;

/// Most bytes of a message in a status that is written in place of a refused one.
const MESSAGE: usize = 256;

/// Why a status was refused, for good: sent again it is refused again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum Refused {
    TooLarge,
    Invalid,
}

impl Refused {
    /// `None`: it may be taken the next time.
    pub(in crate::reconcile) fn of(error: &kube::Error) -> Option<Self> {
        let kube::Error::Api(status) = error else { return None };
        let too_large = |part: &str| status.message.contains(part);
        match status.code {
            413 => Some(Self::TooLarge),
            // What etcd, and the client of it in the API server, do not take comes back as their own failure.
            500.. if too_large("request is too large") || too_large("message larger than max") => {
                Some(Self::TooLarge)
            }
            400 | 422 => Some(Self::Invalid),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::Invalid => "invalid",
        }
    }
}

/// By which a status is known again, whatever times it has. The next one is made from what was written in place of the refused
/// one, so it has the same history without the details.
pub(in crate::reconcile) fn digest_of(status: &SherpackReleaseStatus) -> String {
    let bare = SherpackReleaseStatus { history: bare_history(status), ..status.clone() };
    // Texts, numbers and lists always serialise.
    manifest::digest_of(&serde_json::to_vec(&conditions::without_times(bare)).unwrap_or_default())
}

fn bare_history(status: &SherpackReleaseStatus) -> Vec<HistoryEntry> {
    let bare = |entry: &HistoryEntry| HistoryEntry {
        revision: entry.revision,
        state: entry.state.clone(),
        action: entry.action.clone(),
        at: entry.at.clone(),
        ..HistoryEntry::default()
    };
    status.history.iter().map(bare).collect()
}

/// What decisions of this and later processes read of a status, and the conditions. Names and texts that others chose, one
/// of which is what was refused, are left out.
pub(in crate::reconcile) fn essence(status: &SherpackReleaseStatus, why: Refused) -> SherpackReleaseStatus {
    let mut conditions = status.conditions.clone();
    for condition in &mut conditions {
        condition.message = conditions::cut(&condition.message, MESSAGE);
        if !is_reason(&condition.reason) {
            PROGRESSING.clone_into(&mut condition.reason);
        }
    }
    if let Some(ready) = conditions.iter_mut().find(|known| known.type_ == condition::READY) {
        let note = format!(
            " (the API server refused the whole status as {}: names and details are left out)",
            why.as_str()
        );
        ready.message.push_str(&note);
    }
    let operation = status.operation.as_ref().map(|operation| OperationStatus {
        action: operation.action.clone(),
        revision: operation.revision,
        phase: operation.phase.clone(),
        ..OperationStatus::default()
    });
    SherpackReleaseStatus {
        observed_generation: status.observed_generation,
        conditions,
        revision: status.revision,
        record_writes: status.record_writes,
        history: bare_history(status),
        operation,
        plan: status.plan.as_ref().map(|plan| PlanStatus { digest: plan.digest.clone(), summary: None }),
        inputs: status.inputs.clone(),
        failures: status.failures,
        last_handled: status.last_handled.clone(),
        pack: None,
        drift: None,
        crds: Vec::new(),
    }
}

/// What the schema of a condition takes.
fn is_reason(reason: &str) -> bool {
    reason.len() <= 1024 && is_word(reason)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn answer(code: u16, message: &str) -> Option<Refused> {
        let status =
            json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": ""});
        let status: Status = serde_json::from_value(status).unwrap();
        Refused::of(&kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn what_is_refused_for_good_is_told_from_what_may_pass() {
        let etcd = "etcdserver: request is too large";
        let client = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3145738 vs. 2097152)";
        let schema = "status.pack.name: Too long: may not be more than 253 bytes";
        for (code, message, expected) in [
            (413, "Request entity too large: limit is 3145728", Some(Refused::TooLarge)),
            (500, etcd, Some(Refused::TooLarge)),
            (500, client, Some(Refused::TooLarge)),
            (422, schema, Some(Refused::Invalid)),
            (400, "SherpackRelease in version \"v1alpha1\" cannot be handled", Some(Refused::Invalid)),
            (500, "internal error", None),
            (503, "unavailable", None),
            (504, "timeout: request did not complete within requested timeout", None),
            (409, "the object has been modified", None),
            (429, "too many requests", None),
            (401, "Unauthorized", None),
            (403, "forbidden", None),
            (404, "not found", None),
        ] {
            assert_eq!(answer(code, message), expected, "{code} {message}");
        }
        assert_eq!(Refused::of(&kube::Error::LinesCodecMaxLineLengthExceeded), None);
    }

    #[test]
    fn what_decisions_read_stays_and_what_others_chose_goes() {
        let told = json!({
            "observedGeneration": 3, "revision": 4, "recordWrites": 5, "inputs": "sha256:aa", "failures": 1,
            "lastHandled": {"resetAt": "now"},
            "pack": {"name": "shop", "version": "1.0.0"},
            "history": [{"revision": 4, "state": "deployed", "action": "Upgrade", "at": Timestamp::UNIX_EPOCH, "pack": "shop", "message": "m"}],
            "operation": {"action": "Uninstall", "revision": 4, "phase": "Records", "waitingFor": [{"object": "o", "state": "s"}]},
            "drift": {"objects": [{"object": "o", "manager": "m"}]},
            "crds": [{"name": "c"}], "plan": {"digest": "d", "summary": "s"},
        });
        let mut status: SherpackReleaseStatus = serde_json::from_value(told).unwrap();
        let message = "x".repeat(1000);
        let standing = conditions::Standing::Retrying;
        conditions::summarize(
            &mut status.conditions,
            standing,
            "9 no reason",
            &message,
            Some(3),
            Timestamp::UNIX_EPOCH,
        );
        let essence = essence(&status, Refused::TooLarge);
        let ready = conditions::find(&essence.conditions, condition::READY).unwrap();
        assert!(ready.message.len() < 400 && ready.message.contains("refused the whole status as too large"));
        assert_eq!(ready.reason, PROGRESSING);
        let mut rest = serde_json::to_value(&essence).unwrap();
        rest.as_object_mut().unwrap().remove("conditions");
        let expected = json!({
            "observedGeneration": 3, "revision": 4, "recordWrites": 5, "inputs": "sha256:aa", "failures": 1,
            "lastHandled": {"resetAt": "now"},
            "history": [{"revision": 4, "state": "deployed", "action": "Upgrade", "at": Timestamp::UNIX_EPOCH}],
            "operation": {"action": "Uninstall", "revision": 4, "phase": "Records"}, "plan": {"digest": "d"},
        });
        assert_eq!(rest, expected);
        assert_eq!(super::essence(&status, Refused::TooLarge), essence, "the same each time");
        // The next pass finds what was written, and adds to it what it knows.
        let next = SherpackReleaseStatus { history: essence.history.clone(), ..status.clone() };
        assert_eq!(digest_of(&next), digest_of(&status));
        assert_ne!(digest_of(&SherpackReleaseStatus { revision: Some(5), ..next }), digest_of(&status));
    }

    #[test]
    fn a_reason_that_the_schema_takes_stays_and_another_one_goes() {
        let longest = "A".repeat(1024);
        for (reason, kept) in [
            ("HookFailed", true),
            (&longest, true),
            (&format!("{longest}A"), false),
            ("two words", false),
            ("9lives", false),
            ("", false),
        ] {
            let mut status = SherpackReleaseStatus::default();
            let standing = conditions::Standing::Retrying;
            conditions::summarize(&mut status.conditions, standing, reason, "m", None, Timestamp::UNIX_EPOCH);
            let essence = essence(&status, Refused::Invalid);
            let ready = conditions::find(&essence.conditions, condition::READY).unwrap();
            assert_eq!(ready.reason, if kept { reason } else { PROGRESSING }, "{reason}");
            assert!(ready.message.ends_with("as invalid: names and details are left out)"));
        }
    }
}
