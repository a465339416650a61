//! Is it ready: what is said while something runs, is awaited, or stands in the way.

use std::time::{Duration, Instant};

use super::*;
use crate::release::dependents::{Turn, turn};
use crate::release::depends::{Blocked, Dependents, Unready};
use crate::release::{ReleaseKey, Undone};

fn ready(head: Head, outcome: Result<Outcome, Error>) -> String {
    Scene::new(head, outcome).says("Ready")
}

fn key(name: &str) -> ReleaseKey {
    ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
}

#[test]
fn an_error_is_told_by_who_has_to_act() {
    let since = Instant::now();
    let hidden = |class, may_pass| Error::Hidden { reason: "X", class, may_pass, message: "m".to_owned() };
    for (error, companion, status) in [
        (Error::EmptyRender { before: 2 }, Some("Stalled"), "False EmptyRender"),
        (hidden(Class::FixSpec, false), Some("Stalled"), "False X"),
        // An API server that has just been started says it too.
        (hidden(Class::FixSpec, true), Some("Reconciling"), "False X"),
        (hidden(Class::FixCluster, false), Some("Reconciling"), "False X"),
        (hidden(Class::Retry, false), Some("Reconciling"), "False X"),
        (Error::Queued { since }, Some("Reconciling"), "Unknown Progressing"),
        (Error::Fetching { url: "https://x".to_owned(), since }, Some("Reconciling"), "Unknown Fetching"),
        (Error::Walking { name: "a.b".to_owned(), since }, Some("Reconciling"), "Unknown Progressing"),
    ] {
        let scene = Scene::new(record(State::Deployed), Err(error));
        let says = scene.says("Ready");
        assert_eq!(says.split_once(':').unwrap().0, status, "{says}");
        assert_eq!(scene.companion().as_deref(), companion, "{says}");
    }
    let blocked = decided(Operation::Nothing, Progress::Blocked(Error::EmptyRender { before: 2 }));
    assert!(ready(record(State::Deployed), blocked).starts_with("False EmptyRender: "));
}

#[test]
fn a_release_without_a_deployed_revision_is_not_ready_yet() {
    let pending = || State::PendingInstall { started_at: at(-10), timeout: 300 };
    for (head, says) in [
        (Head::None, "Unknown Progressing: nothing is deployed yet"),
        (record(pending()), "Unknown Progressing: nothing is deployed yet"),
        (failed("HookFailed: x"), "Unknown Progressing: nothing is deployed yet"),
        (record(State::Deployed), "True UpgradeSucceeded: revision 3 of podinfo 1.2.3 is deployed"),
    ] {
        assert_eq!(ready(head, nothing()), says);
    }
}

#[test]
fn what_is_deployed_says_what_it_does_not_do() {
    let skipped = |private: &mut Private| private.inventory = samples::private(3).inventory;
    let scene = Scene::new(with_private(State::Deployed, skipped), nothing());
    let left = "; skipped, because fields cannot change, and not locked: Deployment apps/web (spec.selector)";
    assert_eq!(
        scene.says("Ready"),
        format!("True UpgradeSucceeded: revision 3 of podinfo 1.2.3 is deployed{left}")
    );
    assert_eq!(scene.says("Drifted"), format!("False NoDrift: every object is as it was applied{left}"));
    let pinned = Scene::new(record(State::Deployed), nothing()).with("/spec/rollbackTo", json!(2));
    assert_eq!(
        pinned.says("Ready"),
        "True UpgradeSucceeded: revision 3 of podinfo 1.2.3 is deployed and pinned by spec.rollbackTo to what revision 2 was"
    );
}

#[test]
fn a_hook_that_is_seen_to_its_end_says_what_comes_after_it() {
    let outcome = || decided(Operation::AwaitHook, Progress::Running(run(Action::Upgrade, "pre-upgrade")));
    let pending = || record(State::PendingUpgrade { started_at: at(-10), timeout: 300, previous_version: 2 });
    assert_eq!(
        ready(pending(), outcome()),
        "Unknown Progressing: other inputs are wanted: first a hook of revision 3 has to end"
    );
    let going = Scene::new(pending(), outcome()).with("/metadata/deletionTimestamp", json!(at(-1)));
    assert_eq!(
        going.says("Ready"),
        "Unknown Uninstalling: uninstalling: first a hook of revision 3 has to end"
    );
}

#[test]
fn tests_hold_a_release_up_only_until_they_ended_once() {
    let tested = Tested { at: at(-3), count: 2, failure: None, request: None };
    let deployed = "True UpgradeSucceeded: revision 3 of podinfo 1.2.3 is deployed";
    for (spec, tested, says) in [
        (json!({"enabled": true}), None, "Unknown Progressing: testing to revision 3"),
        (json!({"enabled": true}), Some(tested), deployed),
        (json!({"enabled": false}), None, deployed),
        (json!({}), None, deployed),
    ] {
        let head = with_private(State::Deployed, |private| private.tested = tested);
        let testing = Progress::Testing { run: run(Action::Upgrade, "test"), blocked: None };
        let scene = Scene::new(head, decided(Operation::Test, testing)).with("/spec/test", spec);
        assert_eq!(scene.says("Ready"), says);
    }
    let blocked = Some(Error::EmptyRender { before: 2 });
    let testing = Progress::Testing { run: run(Action::Upgrade, "test"), blocked };
    let says = ready(record(State::Deployed), decided(Operation::Test, testing));
    assert!(says.starts_with("False EmptyRender: "), "{says}");
}

#[test]
fn an_uninstall_says_how_many_objects_are_left_and_when_it_is_late() {
    for (late, says) in [
        (false, "Unknown Uninstalling: waiting until 2 objects are gone, first Deployment apps/a"),
        (true, "False UninstallFailed: timed out waiting until 2 objects are gone, first Deployment apps/a"),
    ] {
        let remaining = vec![deployment("a"), deployment("b")];
        let progress =
            Progress::Uninstalling { deadline: at(60), late, remaining, started: at(-4), until: at(1) };
        assert_eq!(ready(record(State::Deployed), decided(Operation::Uninstall, progress)), says);
    }
    let gone = decided(Operation::Uninstall, Progress::Gone);
    assert_eq!(ready(Head::None, gone), "Unknown Uninstalling: the objects are gone");
}

#[test]
fn dependents_that_go_first_are_named_as_far_as_the_author_may_know_them() {
    for (named, says) in [
        (vec![], "waiting a moment: releases that depend on this one may be deleted too"),
        (
            vec![Some(key("shop"))],
            "waiting until the release apps/shop, which depends on this one and is being deleted too, is gone",
        ),
        (
            vec![None, Some(key("shop")), None],
            "waiting until a release in another namespace (and 2 more), which depends on this one and is being deleted too, is gone",
        ),
    ] {
        let dependents = Dependents { going: [(key("shop"), None)].into(), living: false };
        let Turn::Wait { awaited, until } = turn(None, dependents, Duration::from_secs(60), at(0)) else {
            panic!("its turn")
        };
        let progress = Progress::Dependents { awaited, named, until };
        let found = ready(record(State::Deployed), decided(Operation::Uninstall, progress));
        assert_eq!(found, format!("Unknown WaitingForDependents: {says}"));
    }
}

#[test]
fn a_dependency_that_is_not_ready_holds_the_release_up() {
    let blocked = Blocked { by: key("db"), why: Unready::Missing, others: 0 };
    let says = ready(record(State::Deployed), held(Hold::DependencyNotReady(blocked.clone())));
    assert_eq!(says, format!("False DependencyNotReady: {blocked}"));
    let unknown = ready(record(State::Deployed), held(Hold::InputsUnknown));
    assert_eq!(unknown, "False SourceInvalid: the inputs cannot be read");
}

#[test]
fn the_cause_is_that_of_the_inputs_that_are_wanted() {
    let failure = |inputs: &str, message: &str| -> Undone {
        serde_json::from_value(json!({"inputs": inputs, "attempt": 1, "at": at(-9), "reason": "HookFailed",
            "message": message}))
        .unwrap()
    };
    let wait = || {
        let decision = Decision { operation: Operation::Wait, correct: false, until: None };
        Ok(Outcome { decision, progress: Progress::Nothing })
    };
    for (wanted, says) in [
        (None, "False UpgradeFailed: it broke"),
        (Some("sha256:other"), "False UpgradeFailed: it broke"),
        (Some("sha256:a"), "False HookFailed: a failed"),
        (Some("sha256:b"), "False HookFailed: b failed"),
    ] {
        let state = State::Failed { reason: "it broke".to_owned(), recoverable: true, failed_at: at(-5) };
        let head = with_private(state, |private| {
            private.failures = vec![failure("sha256:a", "a failed"), failure("sha256:b", "b failed")];
        });
        assert_eq!(Scene { wanted, ..Scene::new(head, wait()) }.says("Ready"), says);
    }
    // Going back failed as well: both are told.
    let state = State::Failed { reason: "it broke".to_owned(), recoverable: true, failed_at: at(-5) };
    let head = with_private(state, |private| private.undone = Some(failure("sha256:a", "a failed")));
    assert_eq!(
        ready(head, wait()),
        "False HookFailed: a failed; going back from it in revision 3 failed too: it broke"
    );
}

#[test]
fn each_decision_has_its_word_in_the_metrics() {
    use crate::reconcile::status::finish::decision_name;
    for (operation, word) in [
        (Operation::Nothing, "Nothing"),
        (Operation::Upgrade { revision: 4, attempt: 1 }, "Upgrade"),
        (Operation::Hold(Hold::Paused), "HoldPaused"),
        (Operation::Hold(Hold::InputsUnknown), "HoldInputsUnknown"),
    ] {
        assert_eq!(decision_name(&operation), word);
    }
}
