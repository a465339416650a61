//! Is it ready, and if not, why.

use super::*;
use crate::release::Undone;
use crate::release::decide::{Doubt, Doubtful};

#[test]
fn what_holds_a_release_up_is_what_ready_says() {
    let doubtful = |doubt, digest: Option<&str>| {
        let message = "revision 3 was not sealed by this operator".to_owned();
        Hold::RecordDoubtful(Doubtful { doubt, digest: digest.map(str::to_owned), message })
    };
    for (hold, companion, says) in [
        (Hold::Suspended, None, "False Suspended: spec.suspend is true"),
        (
            Hold::ReleaseNameTaken { by: "apps/other".to_owned() },
            Some("Stalled"),
            "False ReleaseNameTaken: the release apps/other has this name and target already: set another spec.releaseName or delete one of the two",
        ),
        (
            Hold::RecordLost,
            Some("Stalled"),
            "False RecordLost: the revision record is gone: nothing is changed, locked or deleted; restore the Secret, or set the annotation sherpack.io/reset-at to start over from the spec",
        ),
        (
            Hold::RecordUnreadable { message: "the Secret is damaged".to_owned() },
            Some("Stalled"),
            "False RecordUnreadable: the Secret is damaged: nothing is changed, locked or deleted; restore the Secret, or set the annotation sherpack.io/reset-at to start over from the spec",
        ),
        (
            doubtful(Doubt::KeyLost, Some("sha256:1")),
            Some("Stalled"),
            "False RecordKeyLost: revision 3 was not sealed by this operator: nothing is changed, locked or deleted; restore the record or the key of the records, or vouch for this record with the annotation sherpack.io/accept-record: sha256:1",
        ),
        (
            doubtful(Doubt::Rewound, None),
            Some("Stalled"),
            "False RecordRewound: revision 3 was not sealed by this operator: nothing is changed, locked or deleted; restore its newest state, or give it up: delete its Secret and set the annotation sherpack.io/reset-at to start over from the spec",
        ),
        (
            Hold::ForeignPending { until: at(60) },
            None,
            "False ForeignPending: another tool has a pending revision of this release; it is left alone until 2027-01-15T08:01:00Z",
        ),
        (
            Hold::RetriesExceeded { attempts: 4 },
            Some("Stalled"),
            "False RetriesExceeded: failed 4 times: the last attempt failed; it is tried again with another spec, pack or values, or with the annotation sherpack.io/reset-at",
        ),
        (Hold::Paused, None, "False Paused: spec.upgrade.paused is true and other inputs are waiting"),
        (
            Hold::RollbackTargetInvalid { message: "revision 9 does not exist".to_owned() },
            Some("Stalled"),
            "False RollbackTargetInvalid: revision 9 does not exist; correct spec.rollbackTo or remove it",
        ),
    ] {
        let scene = Scene::new(record(State::Deployed), held(hold));
        assert_eq!(scene.says("Ready"), says);
        assert_eq!(scene.companion().as_deref(), companion, "{says}");
        assert!(scene.says("Released").starts_with("True Deployed: revision 3 is deployed"), "{says}");
    }
}

#[test]
fn a_release_of_which_another_tool_has_a_pending_revision_names_it() {
    let hold = Hold::ForeignPending { until: at(60) };
    let scene = Scene { claimant: Some("helm has revision 4 pending"), ..Scene::new(Head::None, held(hold)) };
    assert_eq!(
        scene.says("Ready"),
        "False ForeignPending: helm has revision 4 pending; it is left alone until 2027-01-15T08:01:00Z"
    );
}

#[test]
fn retries_that_are_spent_name_the_cause_and_why_there_is_no_way_back() {
    let hold = Hold::RetriesExceeded { attempts: 2 };
    let head = failed("HealthTimeout: not healthy within 5m: Deployment apps/web");
    let scene = Scene { no_way_back: Some("revision 2 is gone"), ..Scene::new(head, held(hold)) };
    assert_eq!(
        scene.says("Ready"),
        "False RetriesExceeded: failed 2 times: not healthy within 5m: Deployment apps/web; revision 2 is gone; it is tried again with another spec, pack or values, or with the annotation sherpack.io/reset-at"
    );
    assert_eq!(
        scene.says("Released"),
        "False UpgradeFailed: revision 3 failed and is not locked: not healthy within 5m: Deployment apps/web"
    );
    assert_eq!(scene.status().failures, Some(1));
}

#[test]
fn a_failure_is_told_with_its_own_reason_until_the_next_try() {
    for (recorded, says) in [
        (
            "HookFailed: Job apps/migrate failed",
            "False HookFailed: Job apps/migrate failed; next try at 2027-01-15T08:00:30Z",
        ),
        // What another tool wrote is no reason of ours.
        ("it broke", "False UpgradeFailed: it broke; next try at 2027-01-15T08:00:30Z"),
        ("two words: it broke", "False UpgradeFailed: two words: it broke; next try at 2027-01-15T08:00:30Z"),
    ] {
        let decision = Decision { operation: Operation::Wait, correct: false, until: Some(at(30)) };
        let outcome = Ok(Outcome { decision, progress: Progress::Nothing });
        let scene = Scene::new(failed(recorded), outcome);
        assert_eq!(scene.says("Ready"), says);
        assert_eq!(scene.companion().as_deref(), Some("Reconciling"));
    }
}

#[test]
fn what_was_undone_is_the_cause_and_not_the_revision_that_undid_it() {
    let head = record(State::Deployed);
    let Head::Ours(mut stored) = head else { unreachable!() };
    let undone = json!({"inputs": "sha256:b", "attempt": 3, "at": at(-9), "reason": "HealthFailed", "message": "crashed"});
    let undone: Undone = serde_json::from_value(undone).unwrap();
    stored.private.as_mut().unwrap().undone = Some(undone);
    let scene = Scene::new(Head::Ours(stored), held(Hold::RetriesExceeded { attempts: 3 }));
    assert!(scene.says("Ready").starts_with("False RetriesExceeded: failed 3 times: crashed;"));
    assert_eq!(scene.says("Released"), "True Deployed: revision 3 is deployed");
    assert_eq!(scene.status().failures, Some(3));
}

#[test]
fn an_operation_that_ended_is_told_by_what_it_did() {
    let ended = |action, failure: Option<(&'static str, &str)>, ailing: Option<&str>| {
        Progress::Finished(finished(action, failure, ailing))
    };
    let deployed = "revision 3 of podinfo 1.2.3 is deployed";
    for (progress, ready, healthy) in [
        (
            ended(Action::Install, None, None),
            format!("True InstallSucceeded: {deployed}"),
            "True Healthy: every object is healthy",
        ),
        (
            ended(Action::Upgrade, None, None),
            format!("True UpgradeSucceeded: {deployed}"),
            "True Healthy: every object is healthy",
        ),
        (
            ended(Action::Rollback, None, None),
            format!("True RollbackSucceeded: {deployed}"),
            "True Healthy: every object is healthy",
        ),
        (
            ended(Action::Upgrade, None, Some("HorizontalPodAutoscaler apps/web: no metrics")),
            format!("True UpgradeSucceeded: {deployed}"),
            "False HealthFailed: HorizontalPodAutoscaler apps/web: no metrics",
        ),
        (
            ended(Action::Upgrade, Some((reasons::HEALTH_TIMEOUT, "late")), None),
            "False HealthTimeout: late".to_owned(),
            "False HealthTimeout: late",
        ),
    ] {
        let scene = Scene::new(record(State::Deployed), decided(Operation::Nothing, progress));
        assert_eq!(scene.says("Ready"), ready);
        assert_eq!(scene.says("Healthy"), healthy);
        let status = scene.status();
        let [entry] = &status.history[..] else { panic!("one revision") };
        assert_eq!((entry.revision, entry.manifest_digest.as_deref()), (3, Some("sha256:m")));
    }
}

#[test]
fn an_operation_under_way_says_what_it_waits_for_until_when_and_what_it_keeps_from_beginning() {
    let waited = |name: &str| (deployment(name), Waiting::unseen("apps/v1", "0 of 1 ready", at(-9)));
    let run = |action, waiting: Vec<&str>| Run {
        action,
        revision: 3,
        attempt: 1,
        started: at(-10),
        deadline: Some(at(60)),
        phase: "Wait",
        wave: Some(0),
        waves: 1,
        step: 1,
        steps: 2,
        waiting: waiting.into_iter().map(waited).collect(),
        until: at(5),
    };
    for (action, waiting, why, says) in [
        (Action::Install, vec![], None, "installing to revision 3"),
        (
            Action::Upgrade,
            vec!["web"],
            None,
            "upgrading to revision 3: waiting until 2027-01-15T08:01:00Z for Deployment apps/web: 0 of 1 ready",
        ),
        (
            Action::Rollback,
            vec!["a", "b", "c"],
            Some("the pack is gone"),
            "rolling back to revision 3: waiting until 2027-01-15T08:01:00Z for Deployment apps/a and 2 more: 0 of 1 ready; what is wanted now does not take over: the pack is gone",
        ),
        (Action::Uninstall, vec![], None, "uninstalling revision 3"),
    ] {
        let outcome = decided(Operation::Resume, Progress::Running(run(action, waiting.clone())));
        let pending = State::PendingUpgrade { started_at: at(-10), timeout: 300, previous_version: 2 };
        let scene = Scene { waits_to_begin: why, ..Scene::new(record(pending), outcome) };
        assert_eq!(scene.says("Ready"), format!("Unknown Progressing: {says}"));
        assert_eq!(scene.says("Released"), "Unknown Progressing: revision 3 is pending-upgrade");
        let operation = scene.status().operation.unwrap();
        assert_eq!((operation.phase.as_deref(), operation.waiting_for.len()), (Some("Wait"), waiting.len()));
    }
}

#[test]
fn a_spec_that_is_invalid_is_said_whatever_else_went_on() {
    let invalid = Invalid {
        reason: "InvalidSpec",
        field: "spec.timeout".to_owned(),
        message: "must be at most 24h".to_owned(),
    };
    let outcome = decided(Operation::Nothing, Progress::Nothing);
    let scene = Scene { invalid: Some(invalid), ..Scene::new(record(State::Deployed), outcome) };
    assert!(scene.says("Ready").starts_with("False InvalidSpec: "), "{}", scene.says("Ready"));
    assert!(scene.says("Ready").contains("spec.timeout"), "{}", scene.says("Ready"));
    assert_eq!(scene.companion().as_deref(), Some("Stalled"));
    assert_eq!(scene.says("Released"), "True Deployed: revision 3 is deployed", "what is deployed stays");
    assert_eq!(scene.status().observed_generation, Some(4));
}

#[test]
fn a_plan_is_shown_only_while_its_approval_is_waited_for() {
    let plan = PlanStatus { digest: "sha256:p".to_owned(), summary: Some("2 objects change".to_owned()) };
    let waiting = |digest: &str| {
        let next = Box::new(Operation::Upgrade { revision: 4, attempt: 1 });
        held(Hold::AwaitingApproval { digest: digest.to_owned(), next })
    };
    for (outcome, shown) in [
        (waiting("sha256:p"), true),
        (waiting("sha256:q"), false),
        (held(Hold::Suspended), false),
        (decided(Operation::Nothing, Progress::Nothing), false),
    ] {
        let scene = Scene { plan: Some(plan.clone()), ..Scene::new(record(State::Deployed), outcome) };
        assert_eq!(scene.status().plan.is_some(), shown);
    }
    let scene = Scene { plan: Some(plan), ..Scene::new(record(State::Deployed), waiting("sha256:p")) };
    assert_eq!(
        scene.says("Ready"),
        "False AwaitingApproval: 2 objects change; approve it with the annotation sherpack.io/approve: sha256:p, or with sherpack-operator approve"
    );
}
