//! Every row of the table of operations, in its order.

mod afterwards;
mod any;
mod deletion;
mod failures;
mod properties;
mod records;
mod undoing;
mod waits;

use super::*;

const NOW: i64 = 1_000_000;
const WANTED: &str = "sha256:wanted";
const OTHER: &str = "sha256:other";
const SPEC: &str = "sha256:spec";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A release that was just created: nothing is there and nothing is in the way.
fn created() -> Observation {
    Observation {
        deletion: None,
        suspended: false,
        name_taken_by: None,
        unapproved: None,
        head: Head::None { expected: false },
        inputs: Some(WANTED.to_owned()),
        unreadable: false,
        accepted: None,
        spec: SPEC.to_owned(),
        reset_requested: false,
        paused: false,
        dependency: None,
        successor: Successor::Ready,
        healed: false,
        retries: Retries { install: 3, upgrade: 3 },
        retry_interval: RetryInterval::default(),
        on_failure: OnFailure::default(),
        rollback_to: None,
        test: false,
        drift: Drift::Watched,
        now: at(NOW),
    }
}

fn with(head: Head) -> Observation {
    Observation { head, ..created() }
}

/// Revision 4 of this release, made from `inputs`, after an earlier one was deployed.
fn ours(state: HeadState, inputs: &str) -> Head {
    Head::Ours(OurHead { last_deployed: Some(3), ..head_of(state, inputs, 1) })
}

fn head_of(state: HeadState, inputs: &str, attempt: u32) -> OurHead {
    OurHead {
        revision: 4,
        state,
        inputs: inputs.to_owned(),
        spec: SPEC.to_owned(),
        attempt,
        last_deployed: None,
        unreachable: None,
        earlier_deployed: false,
        target: None,
        undone: None,
        failures: Vec::new(),
        undo_at_once: false,
        hook_running: false,
    }
}

fn never_deployed(state: HeadState, inputs: &str, attempt: u32) -> Head {
    Head::Ours(head_of(state, inputs, attempt))
}

fn pending(started_at: i64, timeout: u64) -> HeadState {
    HeadState::Pending { started_at: at(started_at), timeout: secs(timeout), uninstalling: false }
}

fn failed(seconds_ago: i64) -> HeadState {
    HeadState::Failed { at: at(NOW - seconds_ago) }
}

fn deleted(head: Head, deletion: Deletion) -> Observation {
    Observation { deletion: Some(deletion), inputs: None, ..with(head) }
}

fn lost() -> Head {
    Head::None { expected: true }
}

fn unreadable() -> Head {
    Head::Unreadable { message: "cut off".to_owned() }
}

fn doubted(doubt: Doubt) -> Doubtful {
    Doubtful { doubt, digest: Some("sha256:seen".to_owned()), message: "its key is unknown".to_owned() }
}

fn foreign(state: HeadState) -> Head {
    Head::Foreign { revision: 7, state }
}

fn waits() -> Blocked {
    let by = crate::release::ReleaseKey { namespace: "apps".to_owned(), name: "db".to_owned() };
    Blocked { by, why: crate::release::depends::Unready::Missing, others: 0 }
}

struct Row {
    name: &'static str,
    seen: Observation,
    operation: Operation,
    correct: bool,
    until: Option<i64>,
}

fn row(name: &'static str, seen: Observation, operation: Operation) -> Row {
    Row { name, seen, operation, correct: false, until: None }
}

impl Row {
    fn locked(self) -> Self {
        Self { correct: true, ..self }
    }

    fn until(self, seconds: i64) -> Self {
        Self { until: Some(seconds), ..self }
    }
}

fn check(rows: Vec<Row>) {
    for Row { name, seen, operation, correct, until } in rows {
        let expected = Decision { operation, correct, until: until.map(at) };
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

fn undone(attempt: u32, ago: i64) -> Option<Failure> {
    Some(known(attempt, ago))
}

fn known(attempt: u32, ago: i64) -> Failure {
    let (inputs, spec) = (WANTED.to_owned(), SPEC.to_owned());
    Failure { inputs, attempt, at: at(NOW - ago), spec, for_good: false }
}
