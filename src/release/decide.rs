//! What to do next with one release: a total function from an observation to a decision.
//!
//! Owns the table of operations. The operation is the first row that matches; whether drift is
//! corrected is decided beside it. Time is a value. Nothing here knows how an operation is carried out.

use std::time::Duration;

use jiff::Timestamp;

mod attempts;
mod doubtful;
mod head;
mod observation;
mod ours;
mod successor;

pub use attempts::{is_fresh, next_attempt};
pub use successor::{asks_for_successor, held_up};

pub use observation::{
    Deletion, Doubt, Doubtful, Drift, Failure, Head, HeadState, Observation, OnFailure, OurHead, Retries,
    RetryInterval, RollbackTo, Successor,
};

use super::ReleaseKey;
use super::depends::{Blocked, Unready};

/// What to do, and until when nothing else comes of it by itself.
type Decided = (Operation, Option<Timestamp>);

/// How long a record in state `recovering`, which carries no timeout of its own, is respected.
pub const RECOVERING_TIMEOUT: Duration = Duration::from_mins(2);

/// The row of the table that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Touch no object, drop the finalizer.
    Orphan,
    /// The namespace is going, or the service account is gone: delete what may still be deleted, write no record, drop the finalizer.
    LetGo,
    /// Delete the objects and the records, then drop the finalizer. Also resumes itself.
    Uninstall,
    Hold(Hold),
    /// Mark a record that its holder left pending as failed, then decide again.
    Recover,
    /// Go on with our own pending revision.
    Resume,
    /// Our own pending uninstall is not wanted any more: mark it failed, decide again.
    Interrupt,
    /// Go on with a rollback without waiting for health, because something else is wanted and ready.
    Hasten,
    /// Something else is to begin, but a hook may be running: see its end first.
    AwaitHook,
    /// A failed attempt is cooling down.
    Wait,
    Install {
        revision: u32,
        attempt: u32,
    },
    Upgrade {
        revision: u32,
        attempt: u32,
    },
    /// Deploy the manifest of an earlier revision as a new one.
    Rollback {
        revision: u32,
        target: u32,
        attempt: u32,
    },
    /// A first install failed for good: delete its objects.
    Remove,
    /// Run the tests of what is deployed.
    Test,
    /// Seal a record that a person vouched for, then decide again.
    AcceptRecord,
    /// Start over after a lost or unreadable record: the next free number, pruning nothing.
    StartOver,
    Nothing,
}

/// Why nothing is done although something might be wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Suspended,
    ReleaseNameTaken {
        by: String,
    },
    RecordLost,
    RecordUnreadable {
        message: String,
    },
    /// A person has to vouch for the newest record.
    RecordDoubtful(Doubtful),
    ForeignPending {
        until: Timestamp,
    },
    RetriesExceeded {
        attempts: u32,
    },
    Paused,
    /// `spec.rollbackTo` names a revision that is not to be had.
    RollbackTargetInvalid {
        message: String,
    },
    /// A person has to approve the plan with this digest before `next` begins.
    AwaitingApproval {
        digest: String,
        next: Box<Operation>,
    },
    DependencyNotReady(Blocked),
    /// The inputs could not be determined; the caller knows why.
    InputsUnknown,
}

/// The outcome: an operation, whether to correct drift in this pass, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub operation: Operation,
    pub correct: bool,
    pub until: Option<Timestamp>,
}

/// Decides. Total: every observation has exactly one decision.
#[must_use]
pub fn decide(seen: &Observation) -> Decision {
    let (operation, until) = operation(seen);
    let operation = after_approval(seen, operation);
    let operation = after_dependencies(seen, operation);
    let correct = corrects(seen, &operation);
    Decision { operation, correct, until }
}

/// Nothing new begins unapproved. What undoes a failure needs no approval, nor what the spec pins by its number.
fn after_approval(seen: &Observation, operation: Operation) -> Operation {
    match &seen.unapproved {
        Some(digest) if begins(&operation) => {
            Operation::Hold(Hold::AwaitingApproval { digest: digest.clone(), next: Box::new(operation) })
        }
        _ => operation,
    }
}

/// Nothing new begins before everything that it depends on is Ready. What has begun goes on.
fn after_dependencies(seen: &Observation, operation: Operation) -> Operation {
    match &seen.dependency {
        Some(blocked) if begins(&operation) => Operation::Hold(Hold::DependencyNotReady(blocked.clone())),
        _ => operation,
    }
}

/// Whether what is done or told now depends on the releases that this one waits for.
#[must_use]
pub fn asks_for_dependencies(seen: &Observation) -> bool {
    let by = ReleaseKey { namespace: String::new(), name: String::new() };
    let held = Blocked { by, why: Unready::Hidden, others: 0 };
    let [free, held] = [None, Some(held)].map(|dependency| Observation { dependency, ..seen.clone() });
    decide(&free) != decide(&held)
        || asks_for_successor(&free) != asks_for_successor(&held)
        || held_up(&free) != held_up(&held)
}

fn begins(operation: &Operation) -> bool {
    matches!(operation, Operation::Install { .. } | Operation::Upgrade { .. } | Operation::StartOver)
}

/// Drift is acted on whenever the head is deployed and ours and nothing else runs in this pass.
fn corrects(seen: &Observation, operation: &Operation) -> bool {
    let deployed = matches!(&seen.head, Head::Ours(head) if head.state == HeadState::Deployed);
    let idle = match operation {
        // Tests look at what is deployed, so it stays what it is meanwhile.
        Operation::Nothing | Operation::Wait | Operation::Test => true,
        Operation::Hold(hold) => !matches!(hold, Hold::Suspended | Hold::ReleaseNameTaken { .. }),
        Operation::Orphan
        | Operation::LetGo
        | Operation::Uninstall
        | Operation::Recover
        | Operation::Resume
        | Operation::Interrupt
        | Operation::Hasten
        | Operation::AwaitHook
        | Operation::Install { .. }
        | Operation::Upgrade { .. }
        | Operation::Rollback { .. }
        | Operation::Remove
        | Operation::AcceptRecord
        | Operation::StartOver => false,
    };
    deployed && idle && seen.deletion.is_none() && !seen.suspended && seen.drift == Drift::Watched
}

fn operation(seen: &Observation) -> (Operation, Option<Timestamp>) {
    if let Some(deletion) = seen.deletion {
        return (deleting(seen, deletion), None);
    }
    if seen.suspended {
        return (Operation::Hold(Hold::Suspended), None);
    }
    if let Some(by) = &seen.name_taken_by {
        return (Operation::Hold(Hold::ReleaseNameTaken { by: by.clone() }), None);
    }
    match &seen.head {
        Head::None { expected: true } if seen.reset_requested => (Operation::StartOver, None),
        Head::None { expected: true } => (Operation::Hold(Hold::RecordLost), None),
        Head::Unreadable { .. } if seen.reset_requested => (Operation::StartOver, None),
        Head::Unreadable { message } => {
            (Operation::Hold(Hold::RecordUnreadable { message: message.clone() }), None)
        }
        Head::Doubtful(head) => (doubtful::doubtful(seen, head), None),
        Head::None { expected: false } => match (&seen.rollback_to, &seen.inputs) {
            (Some(RollbackTo { problem: Some(problem), .. }), _) => (no_target(problem), None),
            (_, Some(_)) => (Operation::Install { revision: 1, attempt: 1 }, None),
            (_, None) => (Operation::Hold(Hold::InputsUnknown), None),
        },
        Head::Foreign { revision, state } => foreign(seen, *revision, state),
        Head::Ours(head) => ours::ours(seen, head),
    }
}

fn no_target(problem: &str) -> Operation {
    Operation::Hold(Hold::RollbackTargetInvalid { message: problem.to_owned() })
}

fn deleting(seen: &Observation, deletion: Deletion) -> Operation {
    if deletion.orphan || deletion.own_crd_terminating {
        return Operation::Orphan;
    }
    if deletion.namespace_terminating || deletion.account_gone {
        return Operation::LetGo;
    }
    match &seen.head {
        // Without a record it is not known what this release installed.
        Head::None { expected: true } if !seen.reset_requested => Operation::Hold(Hold::RecordLost),
        Head::Unreadable { message } if !seen.reset_requested => {
            Operation::Hold(Hold::RecordUnreadable { message: message.clone() })
        }
        Head::Doubtful(head) => doubtful::deleting(seen, head),
        // Another tool's objects are not ours to delete.
        Head::None { .. } | Head::Unreadable { .. } | Head::Foreign { .. } => Operation::Orphan,
        Head::Ours(head) if head.hook_running && !head.state.is_uninstalling() => Operation::AwaitHook,
        Head::Ours(_) => Operation::Uninstall,
    }
}

fn foreign(seen: &Observation, revision: u32, state: &HeadState) -> (Operation, Option<Timestamp>) {
    if let HeadState::Pending { started_at, timeout, .. } = state {
        let until = after(*started_at, *timeout);
        if seen.now < until {
            return (Operation::Hold(Hold::ForeignPending { until }), Some(until));
        }
        return (Operation::Recover, None);
    }
    match &seen.rollback_to {
        Some(RollbackTo { problem: Some(problem), .. }) => return (no_target(problem), None),
        Some(RollbackTo { revision: target, problem: None }) => {
            let rollback = Operation::Rollback { revision: revision + 1, target: *target, attempt: 1 };
            return (rollback, None);
        }
        None => {}
    }
    if seen.inputs.is_none() {
        return (Operation::Hold(Hold::InputsUnknown), None);
    }
    if seen.paused {
        return (Operation::Hold(Hold::Paused), None);
    }
    // A record of theirs is superseded by an upgrade of ours, never resumed or locked.
    let next = Operation::Upgrade { revision: revision + 1, attempt: 1 };
    match state {
        HeadState::Uninstalled => (Operation::Install { revision: revision + 1, attempt: 1 }, None),
        _ => (next, None),
    }
}

impl HeadState {
    fn is_uninstalling(&self) -> bool {
        matches!(self, Self::Pending { uninstalling: true, .. })
    }
}

/// `at + by`, at the end of time when that cannot be represented.
fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
