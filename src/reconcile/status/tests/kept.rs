//! What a status keeps of the one before it, and what it takes back.

use super::*;
use crate::reconcile::state::drift::{DriftAction, Drifted};

fn healthy(status: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": "Healthy", "status": status, "reason": reason, "message": "as it was",
        "lastTransitionTime": at(-99)}]})
}

#[test]
fn health_that_was_judged_stays_until_something_else_is_known() {
    let failing = || failed("HealthTimeout: late");
    let again = "Unknown HealthUnknown: nothing is known to be missing, but health was not judged since: the next revision judges it";
    for (head, outcome, before, says) in [
        (record(State::Deployed), nothing(), ("True", "Healthy"), "True Healthy: as it was"),
        (record(State::Deployed), nothing(), ("False", "HealthFailed"), "False HealthFailed: as it was"),
        // What was missing is there again, what was lost is back: that says nothing of health.
        (record(State::Deployed), nothing(), ("False", "ObjectMissing"), again),
        (record(State::Deployed), nothing(), ("Unknown", "RecordLost"), again),
        (record(State::Deployed), nothing(), ("Unknown", "RecordUnreadable"), again),
        // Only what was healthy is not known to be so any more.
        (failing(), nothing(), ("False", "HealthTimeout"), "False HealthTimeout: as it was"),
        (
            Head::None,
            held(Hold::RecordUnreadable { message: "damaged".to_owned() }),
            ("True", "Healthy"),
            "Unknown RecordUnreadable: the revision record cannot be read, so what belongs to the release is not known",
        ),
    ] {
        let scene = Scene::new(head, outcome).with("/status", healthy(before.0, before.1));
        assert_eq!(scene.says("Healthy"), says);
    }
    let going = Scene::new(record(State::Deployed), nothing())
        .with("/metadata/deletionTimestamp", json!(at(-1)))
        .with("/status", healthy("False", "HealthFailed"));
    assert_eq!(going.says("Healthy"), "False HealthFailed: as it was");
}

#[test]
fn health_is_not_claimed_only_where_the_spec_does_not_wait_for_it() {
    for (wait, says) in [
        (json!(true), "True Healthy: every object is healthy"),
        (Value::Null, "True Healthy: every object is healthy"),
        (json!(false), "Unknown HealthProgressing: spec.wait is false: health was not waited for"),
    ] {
        let progress = Progress::Finished(finished(Action::Install, None, None));
        let outcome = decided(Operation::Nothing, progress);
        let scene = Scene::new(record(State::Deployed), outcome).with("/spec/wait", wait);
        assert_eq!(scene.says("Healthy"), says);
    }
}

/// A status that speaks of drift: what was reported, and what was put back.
fn told_of_drift(count: i64) -> Value {
    json!({"drift": {
        "count": count, "lastRevertedAt": at(-60),
        "contended": [{"object": "Deployment apps/web"}],
        "objects": [
            {"object": "Deployment apps/web", "action": "Reverted"},
            {"object": "Deployment apps/api", "action": "Reported"}
        ]
    }})
}

#[test]
fn a_pass_that_compared_the_objects_takes_back_what_differs_no_more() {
    let both = ["Deployment apps/web", "Deployment apps/api"];
    let disabled = json!({"mode": "Disabled"});
    for (looked, drift, count, contended, objects) in [
        (false, Value::Null, Some(2), 1, &both[..]),
        (true, Value::Null, Some(0), 0, &both[..1]),
        // Not looked for any more: how many differ is not known.
        (false, disabled, None, 0, &both[..1]),
    ] {
        let decision = Decision { operation: Operation::Nothing, correct: looked, until: None };
        let outcome = Ok(Outcome { decision, progress: Progress::Nothing });
        let scene = Scene::new(record(State::Deployed), outcome)
            .with("/status", told_of_drift(2))
            .with("/spec/drift", drift);
        let told = scene.status().drift.unwrap();
        let named: Vec<&str> = told.objects.iter().map(|object| &*object.object).collect();
        assert_eq!((told.count, told.contended.len(), &named[..]), (count, contended, objects), "{looked}");
        assert!(told.last_reverted_at.is_some(), "what was put back stays told");
    }
}

#[test]
fn that_nothing_differs_is_said_once_and_only_of_what_is_deployed() {
    let says = "False NoDrift: every object is as it was applied";
    let pending = || record(State::PendingInstall { started_at: at(-10), timeout: 300 });
    for (head, looked, before, expected) in [
        (record(State::Deployed), false, None, says),
        (pending(), false, None, ""),
        (record(State::Deployed), true, Some(2), says),
        (record(State::Deployed), false, Some(2), ""),
        (record(State::Deployed), true, Some(0), ""),
        (pending(), true, Some(2), ""),
    ] {
        let decision = Decision { operation: Operation::Nothing, correct: looked, until: None };
        let mut scene = Scene::new(head, Ok(Outcome { decision, progress: Progress::Nothing }));
        if let Some(count) = before {
            scene = scene.with("/status", told_of_drift(count));
        }
        assert_eq!(scene.says("Drifted"), expected, "{looked} {before:?}");
    }
    let nothing_there = Scene { pause: DriftPause::Until(at(60)), ..Scene::new(Head::None, nothing()) };
    assert_eq!(nothing_there.says("Drifted"), "", "what does not exist is not paused");
}

#[test]
fn the_time_of_the_last_revert_outlives_a_restart() {
    let mut scene = Scene::new(record(State::Deployed), nothing()).with("/status", told_of_drift(1));
    let note = |name: &str, action| Drifted {
        id: deployment(name),
        manager: Some("kubectl-edit".to_owned()),
        paths: vec!["/spec/replicas".to_owned()],
        action,
        at: at(-1),
    };
    scene.drift.note(note("web", DriftAction::Reported));
    scene.drift.note(note("api", DriftAction::HandedOver));
    let expected = json!({
        "count": 1, "lastRevertedAt": at(-60),
        "objects": [
            {"object": "Deployment apps/api", "paths": ["/spec/replicas"], "manager": "kubectl-edit",
                "action": "HandedOver", "at": at(-1)},
            {"object": "Deployment apps/web", "paths": ["/spec/replicas"], "manager": "kubectl-edit",
                "action": "Reported", "at": at(-1)}
        ]
    });
    assert_eq!(json!(scene.status().drift), expected);
}

#[test]
fn a_request_that_was_answered_stays_answered() {
    let asked = |test: Option<&str>| {
        let request = test.map(str::to_owned);
        let tested = Tested { at: at(-3), count: 1, failure: None, request };
        with_private(State::Deployed, |private| private.tested = Some(tested))
    };
    let handled = |scene: Scene| json!(scene.status().last_handled);
    let annotated =
        |head, annotations: Value| Scene::new(head, nothing()).with("/metadata/annotations", annotations);
    let before = json!({"lastHandled": {"testAt": "then"}});
    for (scene, expected) in [
        (Scene::new(asked(None), nothing()), Value::Null),
        (Scene::new(asked(Some("now")), nothing()), json!({"testAt": "now"})),
        (Scene::new(asked(None), nothing()).with("/status", before.clone()), json!({"testAt": "then"})),
        (Scene::new(asked(Some("now")), nothing()).with("/status", before), json!({"testAt": "now"})),
        (annotated(asked(None), json!({"sherpack.io/reconcile-at": "a"})), json!({"reconcileAt": "a"})),
        (annotated(asked(None), json!({"sherpack.io/reset-at": "b"})), json!({"resetAt": "b"})),
    ] {
        assert_eq!(handled(scene), expected);
    }
}

#[test]
fn a_definition_that_was_changed_by_force_is_told_as_such() {
    let shipped = |name: &str, forced: bool| {
        serde_json::from_value(
            json!({"name": name, "policy": "managed", "verdict": "Dangerous", "forced": forced}),
        )
        .unwrap()
    };
    let head = || {
        with_private(State::Deployed, |private| {
            private.definitions =
                vec![shipped("a.x.io", true), shipped("b.x.io", false), shipped("c.x.io", true)];
        })
    };
    let scene = Scene::new(head(), nothing());
    let forced = "; definitions changed by force: a.x.io, c.x.io";
    assert_eq!(scene.says("Released"), format!("True Deployed: revision 3 is deployed{forced}"));
    let crds = scene.status().crds;
    let verdicts: Vec<&str> = crds.iter().filter_map(|crd| crd.verdict.as_deref()).collect();
    assert_eq!(verdicts, ["Dangerous (forced)", "Dangerous", "Dangerous (forced)"]);
    // Counts that were told with the end of the operation stay, and the note is not told twice.
    let counted = format!("revision 3 is deployed: 2 created{forced}");
    let before = json!({"conditions": [{"type": "Released", "status": "True", "reason": "Deployed",
        "message": counted, "lastTransitionTime": at(-9)}]});
    let scene = Scene::new(head(), nothing()).with("/status", before);
    assert_eq!(scene.says("Released"), format!("True Deployed: {counted}"));
    // What stands in the way takes the place of what is known of the same definition.
    let stopped = vec![crate::reconcile::context::error::Stopped {
        name: "c.x.io".to_owned(),
        policy: crate::crd::policy::Policy::Shared,
        verdict: crate::crd::Severity::Blocked,
        changes: Vec::new(),
        token: None,
    }];
    let crds = Scene::new(head(), Err(Error::CrdBreakingChange { stopped })).status().crds;
    let told: Vec<String> = crds
        .iter()
        .map(|crd| format!("{} {}", crd.name, crd.verdict.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(told, ["c.x.io Blocked", "a.x.io Dangerous (forced)", "b.x.io Dangerous"]);
}

#[test]
fn a_spec_that_was_never_acted_on_is_refused_with_its_reason() {
    let invalid =
        Invalid { reason: "InvalidSpec", field: "spec.timeout".to_owned(), message: "too long".to_owned() };
    let scene = Scene::new(Head::None, nothing())
        .with("/metadata/annotations", json!({"sherpack.io/reconcile-at": "a", "sherpack.io/reset-at": "b"}))
        .with("/status", json!({"revision": 2}));
    let status = scene.told(false, |facts| refused(facts.release, &invalid, at(0)));
    let ready = conditions::find(&status.conditions, "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "InvalidSpec"));
    assert_eq!((status.observed_generation, status.revision), (Some(4), Some(2)));
    assert_eq!(json!(status.last_handled), json!({"reconcileAt": "a"}), "nothing was reset");
}
