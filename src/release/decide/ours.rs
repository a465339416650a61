//! The rows of the table for a release whose newest record is ours.

use jiff::Timestamp;

use super::attempts::{ever_deployed, failure, is_fresh, next, pause, retries_of, way_back};
use super::{
    Decided, Failure, Head, HeadState, Hold, Observation, Operation, OurHead, RollbackTo, after, no_target,
    successor,
};
use crate::release::backoff;

pub(super) fn ours(seen: &Observation, head: &OurHead) -> Decided {
    debug_assert!(matches!(&seen.head, Head::Ours(_)));
    if let HeadState::Pending { uninstalling, .. } = head.state {
        return (successor::pending(seen, head, uninstalling), None);
    }
    if let Some(to) = &seen.rollback_to {
        return rollback_to(seen, head, to);
    }
    let Some(inputs) = &seen.inputs else {
        if let Some(undo) = successor::stranded(seen, head) {
            return undo;
        }
        // Tests need nothing but the record of what is deployed.
        let tests = seen.test && head.state == HeadState::Deployed;
        return (if tests { Operation::Test } else { Operation::Hold(Hold::InputsUnknown) }, None);
    };
    if let Some(undo) = successor::stranded(seen, head) {
        return undo;
    }
    if let Some(failure) = failure(seen, head, inputs)
        && !seen.reset_requested
    {
        return failed(seen, head, &failure);
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
        if let Some(pause) = pause_of_pin(seen, head, at) {
            return pause;
        }
        attempt = head.attempt + 1;
    }
    (Operation::Rollback { revision: head.revision + 1, target: to.revision, attempt }, None)
}

/// The wanted inputs have failed before. What is left of retries comes first; when none is, what failed last is undone,
/// and then the release rests.
fn failed(seen: &Observation, head: &OurHead, failure: &Failure) -> Decided {
    let (spent, again) = retries_of(seen, head, failure);
    // Only the head's own objects were looked at.
    let healed = seen.healed && head.inputs == failure.inputs && head.target.is_none();
    if let HeadState::Failed { at } = head.state {
        // Where the release was pinned, no release goes back to any more.
        if let Some(target) = head.target.filter(|_| head.undone.is_some()) {
            // Undoing it failed as well: nothing comes before that.
            let until = after(at, backoff::slow(head.attempt));
            if seen.now < until && !seen.healed {
                return (Operation::Hold(Hold::RetriesExceeded { attempts: failure.attempt }), Some(until));
            }
            let (revision, attempt) = (head.revision + 1, head.attempt + 1);
            return (Operation::Rollback { revision, target, attempt }, None);
        }
        if spent && !healed {
            match way_back(head) {
                Some(target) if head.undo_at_once || seen.on_failure.rollback => {
                    return (Operation::Rollback { revision: head.revision + 1, target, attempt: 1 }, None);
                }
                // What was there before cannot be told from what this revision brought.
                None if ever_deployed(head) || head.earlier_deployed => {}
                None if head.undo_at_once || seen.on_failure.uninstall => return (Operation::Remove, None),
                _ => {}
            }
        }
    }
    let spent = spent || head.undone.as_ref().is_some_and(|undone| undone.inputs == failure.inputs);
    if let Some(pause) = pause(seen, failure, spent.then_some(again)).filter(|_| !healed) {
        return pause;
    }
    if head.state == HeadState::Deployed && head.hook_running {
        // A test of what is deployed runs.
        return (Operation::AwaitHook, None);
    }
    if seen.paused && ever_deployed(head) {
        return (Operation::Hold(Hold::Paused), None);
    }
    (next(head, failure.attempt + 1), None)
}

/// The time between attempts at going back to where the release is pinned. Nothing comes before that, so it is never given
/// up.
fn pause_of_pin(seen: &Observation, head: &OurHead, failed_at: Timestamp) -> Option<Decided> {
    let over = head.attempt.saturating_sub(seen.retries.upgrade);
    let delay = if over > 0 { backoff::slow(over) } else { backoff::retry(head.attempt) };
    let until = after(failed_at, delay);
    if seen.healed || until <= seen.now {
        return None;
    }
    let operation = match over {
        0 => Operation::Wait,
        _ => Operation::Hold(Hold::RetriesExceeded { attempts: head.attempt }),
    };
    Some((operation, Some(until)))
}
