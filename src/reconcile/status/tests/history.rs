//! Which revisions the status lists, in which order, and what it says of each.

use super::*;
use crate::release::HookResult;

fn entry(revision: i64, state: &str) -> HistoryEntry {
    HistoryEntry { revision, state: state.to_owned(), ..HistoryEntry::default() }
}

fn listed(status: &SherpackReleaseStatus) -> Vec<String> {
    status.history.iter().map(|entry| format!("{} {}", entry.revision, entry.state)).collect()
}

/// The history of a release that had these revisions, newest first, when `more` came.
fn after(before: &[(i64, &str)], more: &[(i64, &str)]) -> Vec<String> {
    let all = |list: &[(i64, &str)]| -> Vec<HistoryEntry> {
        list.iter().map(|(revision, state)| entry(*revision, state)).collect()
    };
    let scene =
        Scene::new(record(State::Deployed), nothing()).with("/status", json!({"history": all(before)}));
    listed(&Scene { ended: all(more), ..scene }.status())
}

#[test]
fn a_revision_has_one_place_and_only_one_is_deployed() {
    for (before, more, expected) in [
        (&[][..], &[(1, "deployed")][..], &["1 deployed"][..]),
        (&[(1, "deployed")], &[(2, "deployed")], &["2 deployed", "1 superseded"]),
        (&[(1, "deployed")], &[(2, "failed")], &["2 failed", "1 deployed"]),
        (
            &[(3, "failed"), (2, "superseded"), (1, "failed")],
            &[(4, "deployed")],
            &["4 deployed", "3 failed", "2 superseded", "1 failed"],
        ),
        // One that is told late goes where its number is.
        (&[(5, "failed"), (2, "deployed")], &[(4, "failed")], &["5 failed", "4 failed", "2 deployed"]),
        // What is told twice stands once, as it was told last.
        (&[(3, "failed"), (2, "superseded")], &[(3, "deployed")], &["3 deployed", "2 superseded"]),
        (&[(3, "deployed")], &[(3, "deployed")], &["3 deployed"]),
        (
            &[(1, "superseded")],
            &[(2, "deployed"), (3, "deployed")],
            &["3 deployed", "2 superseded", "1 superseded"],
        ),
    ] {
        assert_eq!(after(before, more), expected, "{before:?} and {more:?}");
    }
}

#[test]
fn as_many_are_listed_as_records_are_kept() {
    let before: Vec<HistoryEntry> = (1..=8).rev().map(|revision| entry(revision, "failed")).collect();
    let scene = Scene::new(record(State::Deployed), nothing()).with("/status", json!({"history": before}));
    let scene = Scene { ended: vec![entry(9, "deployed")], history_limit: 2, ..scene };
    assert_eq!(listed(&scene.status()), ["9 deployed", "8 failed", "7 failed", "6 failed", "5 failed"]);
}

#[test]
fn a_revision_whose_record_was_given_up_is_not_listed() {
    let before: Vec<HistoryEntry> = (1..=3).rev().map(|revision| entry(revision, "superseded")).collect();
    let scene = Scene::new(record(State::Deployed), nothing()).with("/status", json!({"history": before}));
    let scene = Scene { given_up: vec![1, 3, 7], ..scene };
    assert_eq!(listed(&scene.status()), ["2 superseded"]);
}

#[test]
fn an_operation_that_ended_adds_its_revision_with_the_ends_of_its_hooks() {
    let result = |number: usize, failure: Option<(&str, &str)>| HookResult {
        phase: "pre-upgrade".to_owned(),
        object: format!("Job/migrate-{number}"),
        attempt: 1,
        failure: failure.map(|(reason, message)| (reason.to_owned(), message.to_owned())),
        at: at(-5),
    };
    let finished = |revision| {
        let progress = Progress::Finished(Finished { revision, ..finished(Action::Upgrade, None, None) });
        decided(Operation::Nothing, progress)
    };
    let hooks = vec![result(1, None), result(2, Some(("HookTimeout", "late")))];
    let head = with_private(State::Deployed, |private| private.hooks = hooks);
    let status = Scene::new(head, finished(3)).status();
    let [entry] = &status.history[..] else { panic!("{:?}", status.history) };
    assert_eq!(entry.hooks, ["pre-upgrade Job/migrate-1 Succeeded", "pre-upgrade Job/migrate-2 HookTimeout"]);
    assert_eq!(
        (entry.action.as_deref(), entry.values_digest.as_deref()),
        (Some("Upgrade"), Some("sha256:v"))
    );
    // The last ones when there are many.
    let hooks = (0..23).map(|number| result(number, None)).collect();
    let head = with_private(State::Deployed, |private| private.hooks = hooks);
    let hooks = Scene::new(head, finished(3)).status().history.remove(0).hooks;
    assert_eq!((hooks.len(), &*hooks[0]), (20, "pre-upgrade Job/migrate-3 Succeeded"));
    // The record at hand is of another revision: nothing is said of the one that ended.
    assert_eq!(listed(&Scene::new(record(State::Deployed), finished(2)).status()), Vec::<String>::new());
}
