//! The rows of the table for a release whose newest record is ours.

use jiff::Timestamp;

use super::{
    Failure, Head, HeadState, Hold, Observation, Operation, OurHead, RollbackTo, after, no_target, successor,
};
use crate::release::backoff;

type Decided = (Operation, Option<Timestamp>);

pub(super) fn ours(seen: &Observation, head: &OurHead) -> Decided {
    debug_assert!(matches!(&seen.head, Head::Ours(_)));
    if let HeadState::Pending { uninstalling, .. } = head.state {
        return (successor::pending(seen, head, uninstalling), None);
    }
    if let Some(to) = &seen.rollback_to {
        return rollback_to(seen, head, to);
    }
    let Some(inputs) = &seen.inputs else {
        // Tests need nothing but the record of what is deployed.
        let tests = seen.test && head.state == HeadState::Deployed;
        return (if tests { Operation::Test } else { Operation::Hold(Hold::InputsUnknown) }, None);
    };
    if let Some(failure) = failure_of(head).filter(|failure| failure.inputs == *inputs)
        && !seen.reset_requested
    {
        return failed(seen, head, &failure);
    }
    if let Some(undo) = successor::stranded(seen, head) {
        return undo;
    }
    let next = next(head, 1);
    match head.state {
        HeadState::Deployed if head.inputs == *inputs => (at_rest(seen), None),
        HeadState::Deployed if seen.paused => (Operation::Hold(Hold::Paused), None),
        // A test of what is deployed runs.
        HeadState::Deployed if head.hook_running => (Operation::AwaitHook, None),
        _ if is_fresh(head) => (next, None),
        _ if seen.paused => (Operation::Hold(Hold::Paused), None),
        _ => (next, None),
    }
}

/// Nothing is deployed, so that an upgrade would have nothing to start from.
#[must_use]
pub fn is_fresh(head: &OurHead) -> bool {
    !ever_deployed(head) || head.state == HeadState::Uninstalled
}

/// Any revision of the name was deployed once, whoever wrote it: what serves now may be of that one.
fn ever_deployed(head: &OurHead) -> bool {
    head.last_deployed.is_some() || head.unreachable.is_some()
}

/// What a failure can make way for: never past a deployed revision that cannot be gone back to.
pub(super) fn way_back(head: &OurHead) -> Option<u32> {
    head.last_deployed.filter(|deployed| head.unreachable.is_none_or(|barrier| *deployed > barrier))
}

pub(super) fn next(head: &OurHead, attempt: u32) -> Operation {
    let revision = head.revision + 1;
    if is_fresh(head) {
        Operation::Install { revision, attempt }
    } else {
        Operation::Upgrade { revision, attempt }
    }
}

fn at_rest(seen: &Observation) -> Operation {
    if seen.test { Operation::Test } else { Operation::Nothing }
}

fn rollback_to(seen: &Observation, head: &OurHead, to: &RollbackTo) -> Decided {
    let back = head.revision == to.revision || head.target == Some(to.revision);
    if back && head.state == HeadState::Deployed {
        return (at_rest(seen), None);
    }
    if let Some(problem) = &to.problem {
        return (no_target(problem), None);
    }
    if head.state == HeadState::Deployed && head.hook_running {
        return (Operation::AwaitHook, None);
    }
    let mut attempt = 1;
    if let HeadState::Failed { at } = head.state
        && head.target == Some(to.revision)
        && !seen.reset_requested
    {
        let failure = Failure { inputs: head.inputs.clone(), attempt: head.attempt, at };
        if let Some(pause) = pause(seen, &failure, seen.retries.upgrade, false) {
            return pause;
        }
        attempt = head.attempt + 1;
    }
    (Operation::Rollback { revision: head.revision + 1, target: to.revision, attempt }, None)
}

/// The failure that the head stands for: its own, or the one that it undid.
pub(super) fn failure_of(head: &OurHead) -> Option<Failure> {
    match (&head.undone, &head.state) {
        (Some(undone), _) => Some(undone.clone()),
        (None, HeadState::Failed { at }) if head.target.is_none() => {
            Some(Failure { inputs: head.inputs.clone(), attempt: head.attempt, at: *at })
        }
        _ => None,
    }
}

/// The wanted inputs have failed before.
fn failed(seen: &Observation, head: &OurHead, failure: &Failure) -> Decided {
    let allowed = if ever_deployed(head) { seen.retries.upgrade } else { seen.retries.install };
    if let HeadState::Failed { at } = head.state
        && !seen.healed
    {
        if let Some(target) = head.target {
            // Undoing it failed as well: nothing comes before that.
            let until = after(at, backoff::slow(head.attempt));
            if seen.now < until {
                return (Operation::Hold(Hold::RetriesExceeded { attempts: failure.attempt }), Some(until));
            }
            let (revision, attempt) = (head.revision + 1, head.attempt + 1);
            return (Operation::Rollback { revision, target, attempt }, None);
        }
        if head.undo_at_once || failure.attempt > allowed {
            match way_back(head) {
                Some(target) if head.undo_at_once || seen.on_failure.rollback => {
                    return (Operation::Rollback { revision: head.revision + 1, target, attempt: 1 }, None);
                }
                None if ever_deployed(head) => {}
                None if head.undo_at_once || seen.on_failure.uninstall => return (Operation::Remove, None),
                _ => {}
            }
        }
    }
    if let Some(pause) = pause(seen, failure, allowed, head.undone.is_some()) {
        return pause;
    }
    if seen.paused && ever_deployed(head) {
        return (Operation::Hold(Hold::Paused), None);
    }
    (next(head, failure.attempt + 1), None)
}

/// The time between attempts, unless it is over. What was undone is tried again as rarely as what has no retries left:
/// each attempt goes forth and back. What healed by itself is applied once more at once, because a failed
/// revision was not locked meanwhile.
fn pause(seen: &Observation, failure: &Failure, allowed: u32, undone: bool) -> Option<Decided> {
    let exceeded = undone || failure.attempt > allowed;
    let over = failure.attempt.saturating_sub(allowed).max(1);
    let delay = if exceeded { backoff::slow(over) } else { backoff::retry(failure.attempt) };
    let until = after(failure.at, delay);
    if seen.healed || until <= seen.now {
        return None;
    }
    let operation = if exceeded {
        Operation::Hold(Hold::RetriesExceeded { attempts: failure.attempt })
    } else {
        Operation::Wait
    };
    Some((operation, Some(until)))
}
