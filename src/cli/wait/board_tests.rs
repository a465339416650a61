use serde_json::{Value, json};

use super::*;
use crate::health::assess;

const NOW: &str = "2026-01-01T12:00:00Z";

pub(in crate::cli::wait) fn id(kind: &str, name: &str) -> ObjectId {
    ObjectId {
        group: if kind == "Deployment" { "apps" } else { "" }.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("apps".to_owned()),
        name: name.to_owned(),
    }
}

/// A Deployment with so many of three replicas ready, as its controller reports it.
pub(in crate::cli::wait) fn deployment(ready: u32) -> Sight {
    let live = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "backend", "namespace": "apps", "generation": 1},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready,
                   "availableReplicas": ready,
                   "conditions": [{"type": "Available", "status": if ready == 3 { "True" } else { "False" }}]},
    });
    Sight::There(assess(&live, None, NOW.parse().unwrap()))
}

pub(in crate::cli::wait) fn settings() -> Sight {
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    Sight::There(assess(&live, None, NOW.parse().unwrap()))
}

pub(in crate::cli::wait) fn status(status: Value) -> SherpackReleaseStatus {
    serde_json::from_value(status).unwrap()
}

fn ready() -> SherpackReleaseStatus {
    status(
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "m",
                                  "lastTransitionTime": NOW}]}),
    )
}

fn waiting(object: &str, state: &str, parts: Option<(i64, i64)>, reason: &str) -> SherpackReleaseStatus {
    status(json!({"operation": {"action": "Install", "revision": 1, "phase": "Wait", "waitingFor": [{
        "object": object, "state": state, "ready": parts.map(|parts| parts.0),
        "desired": parts.map(|parts| parts.1), "reason": reason,
    }]}}))
}

type Line = (String, State, Option<(i64, i64)>);

fn states(board: &Board) -> Vec<Line> {
    board.lines().into_iter().map(|line| (line.object, line.state, line.parts)).collect()
}

#[test]
fn an_object_goes_from_pending_to_ready_and_away() {
    let mut board = Board::new("apps");
    let backend = id("Deployment", "backend");
    let line = |state, parts| vec![("Deployment/backend".to_owned(), state, parts)];
    board.want([backend.clone()]);
    assert_eq!(states(&board), line(State::Pending, None));
    board.see(backend.clone(), Sight::Gone);
    assert_eq!(states(&board), line(State::Pending, None), "it was not there yet");
    let unbound = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                         "metadata": {"name": "data"}, "status": {"phase": "Pending"}});
    board.see(backend.clone(), Sight::There(assess(&unbound, None, NOW.parse().unwrap())));
    assert_eq!(states(&board), line(State::Creating, None), "it has no parts to count");
    board.see(backend.clone(), deployment(1));
    assert_eq!(states(&board), line(State::Waiting, Some((1, 3))));
    assert_eq!(board.unsettled(), std::slice::from_ref(&backend));
    board.see(backend.clone(), deployment(3));
    assert_eq!(states(&board), line(State::Ready, Some((3, 3))));
    assert!(board.unsettled().is_empty());
    // Pruned: no revision wants it any more, and it was there.
    board.want([]);
    assert!(board.lines().is_empty());
    board.see(backend, Sight::Gone);
    assert_eq!(states(&board), line(State::Deleted, None));
}

#[test]
fn what_cannot_be_watched_is_told_by_the_status() {
    let mut board = Board::new("apps");
    board.want([id("Deployment", "backend"), id("ConfigMap", "settings")]);
    board.status(&waiting("Deployment apps/backend", "InProgress", Some((1, 3)), "1 of 3"));
    let lines = board.lines();
    assert_eq!((lines[0].state, lines[1].state), (State::Pending, State::Waiting));
    assert_eq!(lines[1].parts, Some((1, 3)));
    board.status(&ready());
    assert!(board.lines().iter().all(|line| line.state == State::Ready));
}

#[test]
fn the_status_says_why_an_object_fails_that_only_looks_late() {
    let mut board = Board::new("apps");
    board.want([id("Deployment", "backend")]);
    board.see(id("Deployment", "backend"), deployment(1));
    board.status(&waiting("Deployment apps/backend", "Failed", None, "no such image"));
    let line = board.lines().remove(0);
    assert_eq!((line.state, line.why.as_str(), line.parts), (State::Failed, "no such image", Some((1, 3))));
}

#[test]
fn what_the_status_alone_knows_has_a_line_too() {
    let mut board = Board::new("apps");
    for (object, state, expected) in [
        ("Job apps/migrate", "InProgress", ("Job/migrate", State::Creating)),
        ("Job other/migrate", "Failed", ("Job/migrate (other)", State::Failed)),
        ("ClusterRole admin", "Terminating", ("ClusterRole/admin", State::Waiting)),
    ] {
        board.status(&waiting(object, state, None, ""));
        let line = board.lines().remove(0);
        assert_eq!((line.object.as_str(), line.state), expected);
    }
    board.status(&ready());
    assert!(board.lines().is_empty());
}

#[test]
fn the_headline_tells_the_operation_or_the_condition() {
    let mut board = Board::new("apps");
    board.status(&SherpackReleaseStatus::default());
    assert_eq!(board.headline(), "not looked at yet");
    let running = json!({"operation": {"action": "Upgrade", "revision": 4, "phase": "Wait", "wave": 1, "waves": 2,
                                       "attempt": 2}});
    board.status(&status(running));
    assert_eq!(board.headline(), "Upgrade to revision 4, wave 1 of 2, Wait, attempt 2");
    board.status(&ready());
    assert_eq!(board.headline(), "InstallSucceeded: m");
}
