//! What the other conditions, and the parts of the status beside them, say.

use super::*;

#[test]
fn what_is_known_since_is_told_over_what_was_judged() {
    let healthy = json!([{"type": "Healthy", "status": "True", "reason": "Healthy", "message": "every object is healthy",
        "lastTransitionTime": at(-99)}]);
    let config_map = |name| object("", "ConfigMap", name);
    let nothing = || decided(Operation::Nothing, Progress::Nothing);
    for (mut scene, missing, says) in [
        (Scene::new(record(State::Deployed), nothing()), vec![], "True Healthy: every object is healthy"),
        (
            Scene::new(record(State::Deployed), nothing()),
            vec![config_map("a")],
            "False ObjectMissing: ConfigMap apps/a is missing: it was deleted, or does not carry the label sherpack.io/release-name any more",
        ),
        (
            Scene::new(record(State::Deployed), nothing()),
            vec![config_map("a"), config_map("b")],
            "False ObjectMissing: ConfigMap apps/a (and 1 more) is missing: it was deleted, or does not carry the label sherpack.io/release-name any more",
        ),
        (
            Scene::new(Head::None, held(Hold::RecordLost)),
            vec![],
            "Unknown RecordLost: the revision record is gone, so what belongs to the release is not known",
        ),
        (
            Scene::new(failed("OperatorRestarted: it stopped"), nothing()),
            vec![],
            "Unknown HealthUnknown: the newest revision ended before its objects were judged",
        ),
        (
            Scene::new(record(State::Deployed), nothing()).with("/metadata/deletionTimestamp", json!(at(-1))),
            vec![config_map("a")],
            "Unknown Uninstalling: the release is being deleted",
        ),
    ] {
        scene.missing = missing;
        let scene = scene.with("/status", json!({"conditions": healthy}));
        assert_eq!(scene.says("Healthy"), says);
    }
}

#[test]
fn a_request_is_handled_by_any_pass_but_a_reset_only_where_nothing_stands_in_the_way() {
    let annotations = json!({"sherpack.io/reconcile-at": "now", "sherpack.io/reset-at": "now"});
    let before = json!({"lastHandled": {"reconcileAt": "then", "resetAt": "then"}});
    for (outcome, reset) in [
        (decided(Operation::Nothing, Progress::Nothing), "now"),
        (held(Hold::Suspended), "then"),
        (held(Hold::RecordLost), "then"),
        (Err(Error::Undecided), "then"),
    ] {
        let scene = Scene::new(record(State::Deployed), outcome)
            .with("/metadata/annotations", annotations.clone())
            .with("/status", before.clone());
        let handled = scene.status().last_handled.unwrap();
        assert_eq!(
            (handled.reconcile_at.as_deref(), handled.reset_at.as_deref()),
            (Some("now"), Some(reset))
        );
    }
    let since = std::time::Instant::now();
    let fetching = Scene::new(record(State::Deployed), Err(Error::Queued { since }))
        .with("/metadata/annotations", annotations)
        .with("/status", before);
    let handled = fetching.status().last_handled.unwrap();
    assert_eq!(handled.reconcile_at.as_deref(), Some("then"), "what is waited for is no answer yet");
    assert_eq!(fetching.companion().as_deref(), Some("Reconciling"));
}

#[test]
fn a_test_that_failed_is_told_and_makes_a_release_unready_where_the_spec_says_so() {
    for (spec, ready) in [
        (json!({}), "True UpgradeSucceeded: revision 3 of podinfo 1.2.3 is deployed"),
        (
            json!({"enabled": true}),
            "False TestFailed: revision 3 is deployed, but a test failed: Job apps/t failed",
        ),
        (
            json!({"enabled": true, "ignoreFailures": true}),
            "True UpgradeSucceeded: revision 3 of podinfo 1.2.3 is deployed",
        ),
    ] {
        let Head::Ours(mut stored) = record(State::Deployed) else { unreachable!() };
        stored.private.as_mut().unwrap().tested = Some(Tested {
            at: at(-3),
            count: 2,
            failure: Some("Job apps/t failed".to_owned()),
            request: None,
        });
        let outcome = decided(Operation::Nothing, Progress::Nothing);
        let scene = Scene::new(Head::Ours(stored), outcome).with("/spec/test", spec);
        assert_eq!(scene.says("Ready"), ready);
        assert_eq!(scene.says("Tested"), "False TestFailed: Job apps/t failed");
    }
    for (count, says) in [
        (0, "True TestsSucceeded: the pack has no tests"),
        (1, "True TestsSucceeded: 1 test succeeded"),
        (2, "True TestsSucceeded: 2 tests succeeded"),
    ] {
        let Head::Ours(mut stored) = record(State::Deployed) else { unreachable!() };
        stored.private.as_mut().unwrap().tested =
            Some(Tested { at: at(-3), count, failure: None, request: None });
        let scene = Scene::new(Head::Ours(stored), decided(Operation::Nothing, Progress::Nothing));
        assert_eq!(scene.says("Tested"), says);
    }
}

#[test]
fn drift_is_told_as_it_stands() {
    let drifted = |name: &str, action| crate::reconcile::state::drift::Drifted {
        id: deployment(name),
        manager: Some("kubectl-edit".to_owned()),
        paths: vec!["spec.replicas".to_owned()],
        action,
        at: at(-1),
    };
    use crate::reconcile::state::drift::DriftAction::{HandedOver, Recreated, Reported, Reverted};
    for (seen, pause, mode, says) in [
        (vec![], DriftPause::Off, None, "False NoDrift: every object is as it was applied"),
        (
            vec![drifted("web", Reverted)],
            DriftPause::Off,
            None,
            "False DriftReverted: Deployment apps/web was changed by kubectl-edit and put back",
        ),
        (
            vec![drifted("web", Recreated)],
            DriftPause::Off,
            None,
            "False DriftReverted: Deployment apps/web was changed by kubectl-edit and put back",
        ),
        (
            vec![drifted("web", HandedOver)],
            DriftPause::Off,
            None,
            "False DriftReverted: Deployment apps/web was changed by kubectl-edit and is left to others",
        ),
        (
            vec![drifted("web", Reported), drifted("api", Reported)],
            DriftPause::Off,
            None,
            "True DriftDetected: 2 objects differ, first Deployment apps/web by kubectl-edit",
        ),
        (
            vec![drifted("web", Reverted)],
            DriftPause::Until(at(60)),
            None,
            "Unknown DriftPaused: nothing is put back until 2027-01-15T08:01:00Z, as the annotation sherpack.io/drift-pause-until asks",
        ),
        (
            vec![drifted("web", Reverted)],
            DriftPause::Off,
            Some("Disabled"),
            "Unknown DriftDisabled: spec.drift.mode is Disabled: what others change is neither looked for nor put back",
        ),
    ] {
        let outcome = decided(Operation::Nothing, Progress::Nothing);
        let mut scene = Scene { pause, ..Scene::new(record(State::Deployed), outcome) };
        scene.drift.seen = seen;
        if let Some(mode) = mode {
            scene = scene.with("/spec/drift", json!({"mode": mode}));
        }
        assert_eq!(scene.says("Drifted"), says);
    }
}

#[test]
fn an_object_that_two_fight_over_is_named_with_who_and_where() {
    let id = deployment("web");
    let mut scene = Scene::new(record(State::Deployed), decided(Operation::Nothing, Progress::Nothing));
    (0..20).for_each(|second| scene.drift.reverted(&id, at(second - 20)));
    scene.drift.note(crate::reconcile::state::drift::Drifted {
        id,
        manager: Some("rival".to_owned()),
        paths: vec!["spec.replicas".to_owned()],
        action: crate::reconcile::state::drift::DriftAction::Reverted,
        at: at(-1),
    });
    assert_eq!(
        scene.says("Drifted"),
        "True Contended: Deployment apps/web keeps being changed by rival at spec.replicas; it is put back ever less often"
    );
    let drift = scene.status().drift.unwrap();
    assert_eq!((drift.count, drift.contended[0].manager.as_deref()), (Some(1), Some("rival")));
}

#[test]
fn definitions_that_stand_in_the_way_come_first_with_how_to_confirm_them() {
    let stopped = vec![crate::reconcile::context::error::Stopped {
        name: "widgets.example.com".to_owned(),
        policy: crate::crd::policy::Policy::Managed,
        verdict: crate::crd::Severity::Dangerous,
        changes: vec!["Dangerous: spec.size: removed".to_owned()],
        token: Some("widgets.example.com@sha256:1".to_owned()),
    }];
    let scene = Scene::new(record(State::Deployed), Err(Error::CrdBreakingChange { stopped }));
    let status = scene.status();
    let [crd] = &status.crds[..] else { panic!("one definition") };
    assert_eq!(crd.digest.as_deref(), Some("widgets.example.com@sha256:1"));
    assert_eq!(crd.verdict.as_deref(), Some("Dangerous"));
    assert!(scene.says("Ready").starts_with("False CrdBreakingChange: "), "{}", scene.says("Ready"));
}
