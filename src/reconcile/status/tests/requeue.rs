//! When a release is looked at again, and whether its status waits for that.

use std::time::Duration;

use super::*;
use crate::api::OperationStatus;
use crate::reconcile::status::requeue::{Due, asked_by, wait_after, waits_to_be_shown};

const INTERVAL: Duration = Duration::from_secs(30);

/// The next pass at this second; a pass that comes due is a little late.
fn in_seconds(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 1000 + 5)
}

fn outcome(operation: Operation, until: Option<Timestamp>, progress: Progress) -> Outcome {
    Outcome { decision: Decision { operation, correct: false, until }, progress }
}

fn ended(action: Action, failure: Option<&'static str>) -> Progress {
    Progress::Finished(finished(action, failure.map(|reason| (reason, "it failed")), None))
}

#[test]
fn what_a_pass_came_to_asks_for_the_next_one() {
    let wait = || Operation::Wait;
    let run = || run(Action::Upgrade, "Apply");
    let uninstalling = Progress::Uninstalling {
        deadline: at(60),
        late: false,
        remaining: vec![deployment("web")],
        started: at(-1),
        until: at(7),
    };
    let never = Duration::MAX;
    let again = Duration::from_millis(100);
    for (what, outcome, expected) in [
        ("nothing happened", outcome(Operation::Nothing, None, Progress::Nothing), never),
        ("it is gone", outcome(Operation::Nothing, None, Progress::Gone), never),
        ("the decision holds until then", outcome(wait(), Some(at(9)), Progress::Nothing), in_seconds(9)),
        ("that is past", outcome(wait(), Some(at(-9)), Progress::Nothing), in_seconds(0)),
        ("a step waits", outcome(Operation::Nothing, None, Progress::Running(run())), in_seconds(5)),
        (
            "the decision comes before the step",
            outcome(Operation::Nothing, Some(at(2)), Progress::Running(run())),
            in_seconds(2),
        ),
        (
            "a test waits",
            outcome(Operation::Nothing, None, Progress::Testing { run: run(), blocked: None }),
            in_seconds(5),
        ),
        ("objects go", outcome(Operation::Nothing, None, uninstalling), in_seconds(7)),
        (
            "an upgrade is all there is to say",
            outcome(Operation::Nothing, None, ended(Action::Upgrade, None)),
            never,
        ),
        (
            "what failed is followed by a decision",
            outcome(Operation::Nothing, None, ended(Action::Upgrade, Some("HookFailed"))),
            again,
        ),
        (
            "after a rollback it is told why",
            outcome(Operation::Nothing, None, ended(Action::Rollback, None)),
            again,
        ),
        ("a wait has its reason", outcome(wait(), Some(at(60)), ended(Action::Install, None)), again),
        (
            "so has a hold",
            outcome(Operation::Hold(Hold::Suspended), None, ended(Action::Install, None)),
            again,
        ),
    ] {
        assert_eq!(asked_by(&outcome, at(0)), expected, "{what}");
    }
}

#[test]
fn drift_and_what_is_not_healthy_ask_for_the_first_moment_that_is_still_ahead() {
    let due = || Due { revert: None, report: None, look: None, cold: None, pause: DriftPause::Off };
    for (what, due, expected) in [
        ("nothing is due", due(), Duration::MAX),
        ("a revert", Due { revert: Some(at(4)), ..due() }, in_seconds(4)),
        ("a report", Due { report: Some(at(3)), ..due() }, in_seconds(3)),
        ("a look", Due { look: Some(at(8)), ..due() }, in_seconds(8)),
        ("right now", Due { look: Some(at(0)), ..due() }, in_seconds(0)),
        (
            "the first of them",
            Due { revert: Some(at(4)), report: Some(at(3)), look: Some(at(8)), ..due() },
            in_seconds(3),
        ),
        // This pass had no reason to do it, and the next one would have none either.
        ("what was due before", Due { revert: Some(at(-1)), ..due() }, Duration::MAX),
        ("and something else", Due { revert: Some(at(-1)), cold: Some(at(6)), ..due() }, in_seconds(6)),
        ("the end of a pause", Due { pause: DriftPause::Until(at(5)), ..due() }, in_seconds(5)),
        ("a pause begins", Due { pause: DriftPause::TooFar { from: at(2) }, ..due() }, in_seconds(2)),
    ] {
        assert_eq!(due.first(at(0)), expected, "{what}");
    }
}

fn error(class: Class, may_pass: bool) -> Error {
    Error::Hidden { reason: "Forbidden", class, may_pass, message: "refused".to_owned() }
}

#[test]
fn the_wait_after_an_error_doubles_and_what_only_the_spec_mends_waits_for_the_interval() {
    let seconds = Duration::from_secs;
    for (error, errors, operates, expected) in [
        (error(Class::Retry, false), 1, false, seconds(1)),
        (error(Class::Retry, false), 3, false, seconds(4)),
        (error(Class::Retry, false), 30, false, seconds(60)),
        (error(Class::FixCluster, false), 2, true, seconds(2)),
        (error(Class::FixSpec, false), 1, false, INTERVAL),
        (error(Class::FixSpec, false), 1, true, INTERVAL),
        (error(Class::FixSpec, true), 1, false, INTERVAL),
        // The API server that says so has just been started, perhaps.
        (error(Class::FixSpec, true), 1, true, seconds(1)),
        (error(Class::FixSpec, false), 30, false, seconds(60)),
    ] {
        let said = format!("{:?} {errors} {operates}", error.class());
        assert_eq!(wait_after(&error, errors, operates, INTERVAL), expected, "{said}");
    }
}

#[test]
fn the_status_waits_for_more_drift_and_for_five_seconds_of_one_step() {
    let shown = |revision: i64, phase: &str, step: i64| OperationStatus {
        action: "Upgrade".to_owned(),
        revision: Some(revision),
        phase: Some(phase.to_owned()),
        step: Some(step),
        ..OperationStatus::default()
    };
    let running = || Progress::Running(run(Action::Upgrade, "Apply"));
    let same = shown(3, "Apply", 4);
    for (what, progress, drift_due, shown, shown_at, waits) in [
        ("drift is told a moment later", Progress::Nothing, Some(at(1)), None, None, true),
        ("that moment has come", Progress::Nothing, Some(at(0)), None, None, false),
        ("no drift", Progress::Nothing, None, Some(&same), Some(at(-1)), false),
        ("the first status of an operation", running(), None, None, None, false),
        ("the same step", running(), None, Some(&same), Some(at(-1)), true),
        ("for five seconds", running(), None, Some(&same), Some(at(-5)), false),
        ("shown by another process", running(), None, Some(&same), None, false),
        ("another step", running(), None, Some(&shown(3, "Apply", 3)), Some(at(-1)), false),
        ("another phase", running(), None, Some(&shown(3, "Wait", 4)), Some(at(-1)), false),
        ("another revision", running(), None, Some(&shown(2, "Apply", 4)), Some(at(-1)), false),
        ("drift does not hold an operation up", running(), Some(at(1)), None, None, false),
        (
            "the end is told at once",
            ended(Action::Upgrade, None),
            Some(at(1)),
            Some(&same),
            Some(at(-1)),
            false,
        ),
    ] {
        assert_eq!(waits_to_be_shown(&progress, drift_due, shown, shown_at, at(0)), waits, "{what}");
    }
}
