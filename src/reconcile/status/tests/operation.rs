//! The operation under way, as the status shows it: what it does, how far it is, and what it waits for.

use std::time::Duration;

use super::*;
use crate::health;
use crate::release::ReleaseKey;
use crate::release::dependents::{Awaited, Turn, turn};
use crate::release::depends::Dependents;

fn shown(progress: Progress) -> Value {
    let scene = Scene::new(record(State::Deployed), decided(Operation::Resume, progress));
    json!(scene.status().operation)
}

fn awaited() -> (Awaited, Timestamp) {
    let going = [(ReleaseKey { namespace: "apps".to_owned(), name: "shop".to_owned() }, None)].into();
    match turn(None, Dependents { going, living: false }, Duration::from_secs(60), at(-3)) {
        Turn::Wait { awaited, until } => (awaited, until),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_shows_its_step_its_wave_and_its_attempt() {
    let mut plain = json!({
        "action": "Upgrade", "revision": 3, "phase": "Apply", "wave": -1, "waves": 2, "step": 4, "steps": 6,
        "startedAt": "2027-01-15T07:59:50Z", "deadline": "2027-01-15T08:01:00Z", "attempt": 2
    });
    assert_eq!(shown(Progress::Running(run(Action::Upgrade, "Apply"))), plain);
    for (action, phase, word) in [
        (Action::Install, "Apply", "Install"),
        (Action::Rollback, "Wait", "Rollback"),
        (Action::Uninstall, "Delete", "Uninstall"),
        // What runs is a test, whatever the revision was made by.
        (Action::Upgrade, "test", "Test"),
    ] {
        plain["action"] = json!(word);
        plain["phase"] = json!(phase);
        assert_eq!(shown(Progress::Running(run(action, phase))), plain);
        let testing = Progress::Testing { run: run(action, phase), blocked: Some(Error::Undecided) };
        assert_eq!(shown(testing), plain, "what blocks the next revision hides no test");
    }
}

#[test]
fn an_object_that_is_waited_for_shows_its_state_and_how_many_parts_are_ready() {
    for (status, word) in [
        (health::Status::InProgress, "InProgress"),
        (health::Status::Current, "Current"),
        (health::Status::Failed, "Failed"),
        (health::Status::Terminating, "Terminating"),
        (health::Status::Suspended, "Suspended"),
    ] {
        let mut waiting = Waiting::unseen("apps/v1", "1 of 3 ready", at(-9));
        waiting.health.status = status;
        waiting.health.progress = Some((1, 3));
        let waiting = [(deployment("web"), waiting)].into();
        let operation = shown(Progress::Running(Run { waiting, ..run(Action::Install, "Wait") }));
        let object = json!({
            "object": "Deployment apps/web", "state": word, "ready": 1, "desired": 3, "reason": "1 of 3 ready",
            "since": "2027-01-15T07:59:51Z"
        });
        assert_eq!(operation["waitingFor"], json!([object]));
    }
}

#[test]
fn an_uninstall_shows_the_objects_that_are_not_gone_yet() {
    let progress = Progress::Uninstalling {
        deadline: at(60),
        late: false,
        remaining: vec![deployment("a"), deployment("b")],
        started: at(-4),
        until: at(1),
    };
    let expected = json!({
        "action": "Uninstall", "phase": "Delete", "startedAt": "2027-01-15T07:59:56Z",
        "deadline": "2027-01-15T08:01:00Z",
        "waitingFor": [
            {"object": "Deployment apps/a", "state": "Terminating"},
            {"object": "Deployment apps/b", "state": "Terminating"}
        ]
    });
    assert_eq!(shown(progress), expected);
}

#[test]
fn a_release_that_waits_for_its_dependents_names_those_that_its_author_may_know() {
    let (awaited, until) = awaited();
    let known = ReleaseKey { namespace: "apps".to_owned(), name: "shop".to_owned() };
    let expected = json!({
        "action": "Uninstall", "phase": "Dependents", "startedAt": "2027-01-15T07:59:57Z",
        "deadline": "2027-01-15T08:00:57Z",
        "waitingFor": [
            {"object": "SherpackRelease apps/shop", "state": "Terminating"},
            {"object": "SherpackRelease in another namespace", "state": "Terminating"}
        ]
    });
    assert_eq!(shown(Progress::Dependents { awaited, named: vec![Some(known), None], until }), expected);
}

#[test]
fn nothing_is_shown_of_an_operation_that_is_over() {
    for outcome in
        [nothing(), decided(Operation::Uninstall, Progress::Gone), held(Hold::Paused), Err(Error::Undecided)]
    {
        let before = json!({"operation": {"action": "Upgrade", "phase": "Apply"}});
        let scene = Scene::new(record(State::Deployed), outcome).with("/status", before);
        assert_eq!(scene.status().operation, None);
    }
}

#[test]
fn before_the_records_go_the_status_says_that_it_is_the_operator_who_takes_them() {
    let scene = Scene::new(Head::None, nothing()).with("/status", json!({"revision": 3}));
    let status = scene.told(false, |facts| records_going(facts.release, at(0)));
    let operation = json!({"action": "Uninstall", "phase": "Records", "startedAt": "2027-01-15T08:00:00Z"});
    assert_eq!((json!(status.operation), status.revision), (operation, Some(3)));
}
