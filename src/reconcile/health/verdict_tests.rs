//! Each rule of the wait as a table: what is waited for, for how long, and what the operation says.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::manifest::Object;
use crate::plan::probes::probe;
use crate::reconcile::state::Probing;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn id(name: &str) -> ObjectId {
    web(name).id
}

fn web(name: &str) -> Object {
    let annotations = json!({"sherpack.io/health-check": "true", "sherpack.io/health-check-command": "true"});
    let metadata = json!({"name": name, "namespace": "apps", "annotations": annotations});
    Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).unwrap()
}

/// Waited for since second 0, and in progress.
fn progressing(message: &str) -> Waiting {
    Waiting::unseen("v1", message, at(0))
}

/// Its rule says "failed" since this second.
fn failing(since: i64) -> Waiting {
    let mut waiting = progressing("crashed");
    waiting.health.status = Status::Failed;
    waiting.health.terminal = true;
    waiting.failed_since = Some(at(since));
    waiting
}

fn gone() -> Waiting {
    let mut waiting = failing(0);
    waiting.health.message = "deleted".to_owned();
    waiting
}

fn probed(asked: bool, hopeless: Option<&'static str>, message: &str) -> Waiting {
    let probe = Arc::new(probe(&web("x")).unwrap().unwrap());
    let probe = Some(Probing { probe, revision: 1, asked, hopeless });
    Waiting { probe, ..progressing(message) }
}

fn recheck(seconds: u64) -> Waiting {
    let mut waiting = progressing("0 of 1 ready");
    waiting.health.recheck_in = Some(Duration::from_secs(seconds));
    waiting
}

fn waiting(objects: Vec<(&str, Waiting)>) -> BTreeMap<ObjectId, Waiting> {
    objects.into_iter().map(|(name, waiting)| (id(name), waiting)).collect()
}

/// Judged at a second, with the deadline at second 300.
fn judged(objects: Vec<(&str, Waiting)>, now: i64) -> Verdict {
    judge(&waiting(objects), at(300), at(now))
}

fn until(second: i64) -> Verdict {
    Verdict::Wait { until: at(second) }
}

fn failed(reason: &'static str, message: &str) -> Verdict {
    Verdict::Failed { reason, message: message.to_owned() }
}

#[test]
fn a_wait_is_looked_at_again_at_the_earliest_time_at_which_its_verdict_can_change() {
    for (objects, now, verdict) in [
        (vec![("a", progressing("0 of 1 ready"))], 0, until(15)),
        (vec![("a", progressing("0 of 1 ready"))], 290, until(300)),
        (vec![("a", recheck(3)), ("b", recheck(2))], 1, until(3)),
        (vec![("a", recheck(60))], 1, until(16)),
        (vec![("a", failing(4)), ("b", recheck(20))], 6, until(14)),
    ] {
        assert_eq!(judged(objects.clone(), now), verdict, "{objects:?} at {now}");
    }
}

#[test]
fn a_failure_counts_when_it_lasts_ten_seconds() {
    let says = failed(reasons::HEALTH_FAILED, "Pod apps/b: crashed");
    for (since, now, verdict) in [(0, 9, until(10)), (0, 10, says), (5, 14, until(15))] {
        assert_eq!(
            judged(vec![("a", progressing("")), ("b", failing(since))], now),
            verdict,
            "{since} {now}"
        );
    }
}

#[test]
fn a_failure_that_no_controller_mends_counts_at_once() {
    for (reason, verdict) in [
        ("ProgressDeadlineExceeded", failed(reasons::HEALTH_FAILED, "Pod apps/a: crashed")),
        ("ImagePullBackOff", failed(reasons::HEALTH_FAILED, "Pod apps/a: crashed")),
        ("CrashLoopBackOff", until(11)),
    ] {
        let mut object = failing(1);
        object.health.reason = reason.to_owned();
        assert_eq!(judged(vec![("a", object)], 1), verdict, "{reason}");
    }
}

#[test]
fn a_probe_that_cannot_be_made_fails_the_operation_at_once_and_before_all_else() {
    let refused = probed(true, Some("ProbeForbidden"), "its probe is not made: a host's address");
    let says = failed("ProbeForbidden", "Pod apps/b: its probe is not made: a host's address");
    assert_eq!(judged(vec![("a", failing(-60)), ("b", refused)], 1), says);
}

#[test]
fn at_the_deadline_the_operation_says_what_was_late_and_how_long_it_waited() {
    for (objects, reason, message) in [
        (
            vec![("a", progressing("0 of 1 ready"))],
            reasons::HEALTH_TIMEOUT,
            "not healthy within 5m: Pod apps/a: 0 of 1 ready",
        ),
        (
            vec![("a", progressing("0 of 1 ready")), ("b", progressing("")), ("c", progressing(""))],
            reasons::HEALTH_TIMEOUT,
            "not healthy within 5m: Pod apps/a: 0 of 1 ready (and 2 more)",
        ),
        (
            vec![("a", probed(true, None, "exit code 1")), ("b", probed(true, None, "exit code 2"))],
            reasons::PROBE_FAILED,
            "not healthy within 5m: Pod apps/a: exit code 1 (and 1 more)",
        ),
        (
            vec![("a", probed(true, None, "exit code 1")), ("b", probed(false, None, "0 of 1 ready"))],
            reasons::HEALTH_TIMEOUT,
            "not healthy within 5m: Pod apps/b: 0 of 1 ready (and 1 more)",
        ),
        (
            vec![("a", probed(true, None, "exit code 1")), ("b", progressing("0 of 1 ready"))],
            reasons::HEALTH_TIMEOUT,
            "not healthy within 5m: Pod apps/b: 0 of 1 ready (and 1 more)",
        ),
    ] {
        assert_eq!(judged(objects.clone(), 300), failed(reason, message), "{objects:?}");
    }
}

#[test]
fn a_wait_of_less_than_a_second_is_told_as_a_second() {
    let objects = waiting(vec![("a", progressing("0 of 1 ready"))]);
    let says = "not healthy within 1s: Pod apps/a: 0 of 1 ready";
    assert_eq!(judge(&objects, at(0), at(0)), failed(reasons::HEALTH_TIMEOUT, says));
}

#[test]
fn only_what_failed_without_an_end_is_no_hindrance() {
    let mut passing = failing(0);
    passing.health.terminal = false;
    for (objects, hinders) in [
        (vec![], false),
        (vec![("a", passing.clone())], false),
        (vec![("a", failing(0))], true),
        (vec![("a", gone())], true),
        (vec![("a", progressing(""))], true),
        (vec![("a", passing), ("b", progressing(""))], true),
    ] {
        assert_eq!(!bearable(&waiting(objects.clone())), hinders, "{objects:?}");
    }
}
