//! What to do next with one release: a total function from an observation to a decision.
//!
//! Owns the table of operations. The operation is the first row that matches; whether drift is
//! corrected is decided beside it. Time is a value. Nothing here knows how an operation is carried out.

use std::time::Duration;

use jiff::Timestamp;

mod attempts;
mod doubtful;
mod head;
mod ours;
mod successor;

pub use attempts::{is_fresh, next_attempt};
pub use successor::{Successor, asks_for_successor, held_up};

pub use doubtful::{Doubt, Doubtful};

use super::ReleaseKey;
use super::depends::{Blocked, Unready};

/// What to do, and until when nothing else comes of it by itself.
type Decided = (Operation, Option<Timestamp>);

/// How long a record in state `recovering`, which carries no timeout of its own, is respected.
pub const RECOVERING_TIMEOUT: Duration = Duration::from_mins(2);

/// Everything the decision depends on.
#[derive(Clone, Debug)]
pub struct Observation {
    pub deletion: Option<Deletion>,
    pub suspended: bool,
    /// `namespace/name` of another living release that owns the same target and name.
    pub name_taken_by: Option<String>,
    pub head: Head,
    /// Digest of the wanted inputs. `None`: not looked up, because the release is being deleted or
    /// held by something that comes first, or because its source cannot be read.
    pub inputs: Option<String>,
    /// The record that a person vouches for, by its digest.
    pub accepted: Option<String>,
    /// Digest of the spec: what failed under another one is tried anew.
    pub spec: String,
    /// There are no inputs because what is asked for cannot be read, and only a person can mend that.
    pub unreadable: bool,
    /// A `reset-at` request that has not been acknowledged yet.
    pub reset_requested: bool,
    /// `upgrade.paused`: keep healing, roll nothing out.
    pub paused: bool,
    /// `approval: Manual`: the digest of the plan for the wanted inputs, as long as no user has approved it.
    pub unapproved: Option<String>,
    /// A release that this one depends on is not Ready.
    pub dependency: Option<Blocked>,
    /// What is known of the revision that is wanted instead of the newest one.
    pub successor: Successor,
    /// What a failed head failed for is healthy by now.
    pub healed: bool,
    pub retries: Retries,
    pub retry_interval: RetryInterval,
    pub on_failure: OnFailure,
    /// `spec.rollbackTo`.
    pub rollback_to: Option<RollbackTo>,
    /// Tests of what is deployed are asked for, or have begun.
    pub test: bool,
    pub drift: Drift,
    pub now: Timestamp,
}

/// The release is being deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deletion {
    /// `uninstall.policy: Orphan`.
    pub orphan: bool,
    /// The operator's own CustomResourceDefinition is going away.
    pub own_crd_terminating: bool,
    /// The target namespace is going away or gone.
    pub namespace_terminating: bool,
    /// The service account that the release needs is not there.
    pub account_gone: bool,
}

/// Retries after the first attempt, by what the attempt is.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    pub install: u32,
    pub upgrade: u32,
}

/// How long after a failure one more attempt is made although no retries are left, by what the attempt is. `None`: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryInterval {
    pub install: Option<Duration>,
    pub upgrade: Option<Duration>,
}

/// Whether a release that failed for good is undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnFailure {
    /// A first install is taken away again.
    pub uninstall: bool,
    /// A later revision makes way for the last deployed one.
    pub rollback: bool,
}

/// The revision that a release is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackTo {
    pub revision: u32,
    /// Why it cannot be gone back to. Not looked at while it is the head or the head came from it.
    pub problem: Option<String>,
}

/// What `spec.drift` and the break-glass annotation ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Put back (`Enabled`) or report (`Warn`).
    Watched,
    /// `Disabled`, or paused by annotation.
    Ignored,
}

/// The newest revision record.
#[derive(Clone, Debug)]
pub enum Head {
    /// There is no record. `expected`: status or labelled objects say that there was one.
    None { expected: bool },
    /// There is a record that cannot be trusted to say anything.
    Unreadable { message: String },
    /// It says to be ours, and acting on it may be wrong.
    Doubtful(Doubtful),
    /// Written by another tool: it has no private part, or one of another release.
    Foreign { revision: u32, state: HeadState },
    /// Written by us for another object: a release of this name was deleted and made again, or the
    /// record was copied.
    Ours(OurHead),
}

/// A record of this very release, or of a predecessor of the same name and namespace.
#[derive(Clone, Debug)]
pub struct OurHead {
    pub revision: u32,
    pub state: HeadState,
    pub inputs: String,
    /// Digest of the spec under which it was begun.
    pub spec: String,
    /// Attempts at these inputs so far, this one included.
    pub attempt: u32,
    /// The newest revision of this release that was deployed, if one ever was.
    pub last_deployed: Option<u32>,
    /// The newest revision of this name that was deployed and to which no release can go back: another tool's, or one whose
    /// record is lost.
    pub unreachable: Option<u32>,
    /// A revision of this release was deployed that this one knows nothing of, or may have been.
    pub earlier_deployed: bool,
    /// The revision that this one goes back to.
    pub target: Option<u32>,
    /// What failed and was undone by this revision.
    pub undone: Option<Failure>,
    /// Inputs that failed, whatever came after them.
    pub failures: Vec<Failure>,
    /// It failed for a hook that asks to undo without further attempts.
    pub undo_at_once: bool,
    /// One of its hooks may be running.
    pub hook_running: bool,
}

/// Inputs that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub inputs: String,
    /// Attempts at them so far.
    pub attempt: u32,
    /// When the last one failed.
    pub at: Timestamp,
    /// Digest of the spec under which that was begun.
    pub spec: String,
    /// A hook asked that nothing more is attempted.
    pub for_good: bool,
}

/// The state of a record, as far as decisions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadState {
    Deployed,
    Superseded,
    Uninstalled,
    Failed {
        at: Timestamp,
    },
    /// Another revision took its place. It counts for no retry and is not undone.
    Interrupted,
    Pending {
        started_at: Timestamp,
        timeout: Duration,
        uninstalling: bool,
    },
}

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
