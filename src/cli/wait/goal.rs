//! When a wait is over, and how it ends. Pure.

use crate::api::reasons::condition::{READY, RECONCILING, STALLED, TESTED};
use crate::api::{SherpackRelease, SherpackReleaseStatus, conditions, reasons};

/// What is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goal {
    /// The spec that must be in effect; what the release has when it is first seen, if unset.
    pub(crate) generation: Option<i64>,
    /// The request to reconcile that must have been acknowledged.
    pub(crate) reconcile_at: Option<String>,
    /// The request to test that must have been acknowledged.
    pub(crate) test_at: Option<String>,
    /// A failed attempt is no end as long as it is tried again.
    pub(crate) through_retries: bool,
}

/// How a wait stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Why it is not over.
    Waiting(String),
    /// Ready, with its message.
    Ready(String),
    /// It will not get Ready by itself, or this attempt failed.
    Failed(String),
    /// The tests that were asked for failed; the release may be Ready for all that.
    Untested(String),
}

impl Goal {
    pub(crate) fn judge(&self, release: &SherpackRelease) -> Stand {
        let empty = SherpackReleaseStatus::default();
        let status = release.status.as_ref().unwrap_or(&empty);
        let generation = release.metadata.generation.unwrap_or(0).max(self.generation.unwrap_or(0));
        if release.metadata.deletion_timestamp.is_some() {
            return Stand::Waiting("it is being deleted".to_owned());
        }
        if status.observed_generation != Some(generation) {
            let message = format!(
                "the operator has not looked at generation {generation} of it yet: does it run, and does it watch \
                 this namespace?"
            );
            return Stand::Waiting(message);
        }
        let handled = status.last_handled.clone().unwrap_or_default();
        if self.reconcile_at.is_some() && self.reconcile_at != handled.reconcile_at {
            return Stand::Waiting("the operator has not acknowledged the request yet".to_owned());
        }
        let find = |type_| conditions::find(&status.conditions, type_);
        let Some(ready) = find(READY) else {
            return Stand::Waiting("it has no condition Ready yet".to_owned());
        };
        let says = format!("{}: {}", ready.reason, ready.message);
        if conditions::is_true(&status.conditions, STALLED) {
            return Stand::Failed(says);
        }
        match ready.status.as_str() {
            "True" if self.test_at.is_some() && self.test_at != handled.test_at => {
                Stand::Waiting("the operator has not run the tests yet".to_owned())
            }
            "True" => {
                match find(TESTED).filter(|tested| self.test_at.is_some() && tested.status == "False") {
                    Some(tested) => Stand::Untested(tested.message.clone()),
                    None => Stand::Ready(ready.message.clone()),
                }
            }
            // Held on purpose: only a person lets it go on. Other holds end by themselves.
            "False" if [reasons::SUSPENDED, reasons::PAUSED].contains(&ready.reason.as_str()) => {
                Stand::Failed(says)
            }
            "False"
                if conditions::is_true(&status.conditions, RECONCILING)
                    && status.failures.is_some_and(|failures| failures > 0)
                    && status.operation.is_none()
                    && !self.through_retries =>
            {
                Stand::Failed(says)
            }
            _ => Stand::Waiting(says),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn release(status: Value) -> SherpackRelease {
        serde_json::from_value(json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps", "generation": 2}, "spec": {}, "status": status,
        }))
        .unwrap()
    }

    fn status(generation: i64, ready: &str, reason: &str, companion: Option<&str>, more: Value) -> Value {
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "m",
                   "lastTransitionTime": "2026-01-01T12:00:00Z"})
        };
        let mut conditions = vec![condition("Ready", ready)];
        conditions.extend(companion.map(|type_| condition(type_, "True")));
        let mut status = json!({"observedGeneration": generation, "conditions": conditions});
        for (key, value) in more.as_object().into_iter().flatten() {
            status[key] = value.clone();
        }
        status
    }

    #[test]
    fn every_state_of_a_release_ends_a_wait_or_not() {
        let waiting = |stand: Stand| matches!(stand, Stand::Waiting(_));
        let ready = |stand: Stand| stand == Stand::Ready("m".to_owned());
        let failed = |stand: Stand| matches!(stand, Stand::Failed(_));
        let reconciling = Some("Reconciling");
        let once = json!({"failures": 1});
        type Is = fn(Stand) -> bool;
        let cases: [(&str, Value, Is); 13] = [
            ("never seen", json!({}), waiting),
            ("of an older spec", status(1, "True", "InstallSucceeded", None, json!({})), waiting),
            (
                "stalled for an older spec",
                status(1, "False", "InvalidSpec", Some("Stalled"), json!({})),
                waiting,
            ),
            ("no condition", json!({"observedGeneration": 2}), waiting),
            ("ready", status(2, "True", "InstallSucceeded", None, json!({})), ready),
            ("at work", status(2, "Unknown", "Progressing", reconciling, json!({})), waiting),
            ("stalled", status(2, "False", "InvalidSpec", Some("Stalled"), json!({})), failed),
            ("suspended", status(2, "False", "Suspended", None, json!({})), failed),
            ("paused", status(2, "False", "Paused", None, json!({})), failed),
            ("another tool's", status(2, "False", "ForeignPending", None, json!({})), waiting),
            ("no source yet", status(2, "False", "SourceNotFound", reconciling, json!({})), waiting),
            ("failed", status(2, "False", "HealthTimeout", reconciling, once.clone()), failed),
            (
                "tried again",
                status(2, "Unknown", "Progressing", reconciling, json!({"operation": {"action": "Upgrade"}})),
                waiting,
            ),
        ];
        for (what, status, expected) in cases {
            assert!(expected(Goal::default().judge(&release(status))), "{what}");
        }
        let patient = Goal { through_retries: true, ..Goal::default() };
        assert!(waiting(patient.judge(&release(status(2, "False", "HealthTimeout", reconciling, once)))));
    }

    #[test]
    fn a_request_must_have_been_acknowledged() {
        let goal = Goal { reconcile_at: Some("b".to_owned()), ..Goal::default() };
        let at = |at: &str| {
            release(status(2, "True", "InstallSucceeded", None, json!({"lastHandled": {"reconcileAt": at}})))
        };
        assert!(matches!(goal.judge(&at("a")), Stand::Waiting(_)));
        assert!(matches!(goal.judge(&at("b")), Stand::Ready(_)));
        let tested = Goal { test_at: Some("t".to_owned()), ..goal.clone() };
        assert!(matches!(tested.judge(&at("b")), Stand::Waiting(_)));
        let failed = |test_at: &str| {
            let mut status = status(2, "True", "InstallSucceeded", None, json!({}));
            status["lastHandled"] = json!({"reconcileAt": "b", "testAt": test_at});
            let told = json!({"type": "Tested", "status": "False", "reason": "TestFailed", "message": "m",
                "lastTransitionTime": "2026-01-01T12:00:00Z"});
            status["conditions"].as_array_mut().unwrap().push(told);
            release(status)
        };
        assert!(matches!(tested.judge(&failed("s")), Stand::Waiting(_)), "of an earlier run");
        assert_eq!(tested.judge(&failed("t")), Stand::Untested("m".to_owned()));
        assert!(matches!(goal.judge(&failed("t")), Stand::Ready(_)), "nobody asked for tests");
        // What stood before the request is no answer to it.
        let stalled = |at: &str| {
            let more = json!({"lastHandled": {"reconcileAt": at}});
            release(status(2, "False", "RetriesExceeded", Some("Stalled"), more))
        };
        assert!(matches!(goal.judge(&stalled("a")), Stand::Waiting(_)));
        assert!(matches!(tested.judge(&stalled("b")), Stand::Failed(_)));
    }

    #[test]
    fn a_patched_spec_must_be_in_effect() {
        let goal = Goal { generation: Some(3), ..Goal::default() };
        let before = status(2, "True", "InstallSucceeded", None, json!({}));
        assert!(matches!(goal.judge(&release(before)), Stand::Waiting(_)));
    }

    #[test]
    fn a_release_on_its_way_out_is_waited_for() {
        let mut release = release(status(2, "True", "InstallSucceeded", None, json!({})));
        release.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap());
        assert!(matches!(Goal::default().judge(&release), Stand::Waiting(_)));
    }
}
