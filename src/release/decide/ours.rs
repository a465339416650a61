//! The rows of the table for a release whose newest record is ours.

use std::time::Duration;

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
        if let Some(pause) = pause_of_pin(seen, head, at) {
            return pause;
        }
        attempt = head.attempt + 1;
    }
    (Operation::Rollback { revision: head.revision + 1, target: to.revision, attempt }, None)
}

/// How the wanted inputs failed under this spec: as the head, as what it undid, or earlier. A head that is deployed with
/// them says that they work.
fn failure(seen: &Observation, head: &OurHead, inputs: &str) -> Option<Failure> {
    if head.state == HeadState::Deployed && head.inputs == inputs {
        return None;
    }
    let known = head.failures.iter().rev().find(|failure| failure.inputs == inputs);
    let own = own_failure(head).filter(|failure| failure.inputs == inputs);
    own.or_else(|| known.cloned()).filter(|failure| failure.spec == seen.spec)
}

/// The wanted inputs failed before, and are not tried now.
pub(super) fn known_bad(seen: &Observation, head: &OurHead) -> bool {
    let known = seen.inputs.as_ref().and_then(|inputs| failure(seen, head, inputs));
    known.filter(|_| !seen.reset_requested).is_some_and(|failure| {
        let (spent, again) = retries_of(seen, head, &failure);
        pause(seen, &failure, spent.then_some(again)).is_some()
    })
}

/// Whether no retries are left for what failed, and after which interval one more attempt is asked for all the same.
fn retries_of(seen: &Observation, head: &OurHead, failure: &Failure) -> (bool, Option<Duration>) {
    let (allowed, again) = if ever_deployed(head) {
        (seen.retries.upgrade, seen.retry_interval.upgrade)
    } else {
        (seen.retries.install, seen.retry_interval.install)
    };
    (failure.for_good || failure.attempt > allowed, again)
}

/// Which try of the wanted inputs a new revision would be.
#[must_use]
pub fn next_attempt(seen: &Observation, head: &OurHead) -> u32 {
    let known = seen.inputs.as_ref().and_then(|inputs| failure(seen, head, inputs));
    known.filter(|_| !seen.reset_requested).map_or(1, |failure| failure.attempt.saturating_add(1))
}

/// The failure that the head stands for: its own, or the one that it undid.
pub(super) fn own_failure(head: &OurHead) -> Option<Failure> {
    match (&head.undone, &head.state) {
        (Some(undone), _) => Some(undone.clone()),
        (None, HeadState::Failed { at }) if head.target.is_none() => Some(Failure {
            inputs: head.inputs.clone(),
            attempt: head.attempt,
            at: *at,
            spec: head.spec.clone(),
            for_good: head.undo_at_once,
        }),
        _ => None,
    }
}

/// The wanted inputs have failed before. What is left of retries comes first; when none is, what failed last is undone,
/// and then the release rests.
fn failed(seen: &Observation, head: &OurHead, failure: &Failure) -> Decided {
    let (spent, again) = retries_of(seen, head, failure);
    // Only the head's own objects were looked at.
    let healed = seen.healed && head.inputs == failure.inputs && head.target.is_none();
    if let HeadState::Failed { at } = head.state {
        // Where the release was pinned, nobody goes back to any more.
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

/// The time between attempts, unless it is over. `spent`: no retries are left, and after which interval one more attempt
/// is asked for all the same; without one the release rests, because what failed that often does not get better by being
/// repeated. What healed by itself is applied once more at once, because a failed revision was not locked meanwhile.
fn pause(seen: &Observation, failure: &Failure, spent: Option<Option<Duration>>) -> Option<Decided> {
    let retry = backoff::retry(failure.attempt);
    let Some(interval) = spent else {
        let until = after(failure.at, retry);
        return (seen.now < until).then_some((Operation::Wait, Some(until)));
    };
    let rest = Operation::Hold(Hold::RetriesExceeded { attempts: failure.attempt });
    let Some(interval) = interval else { return Some((rest, None)) };
    // However short the interval, a release must not take all time from the others.
    let until = after(failure.at, interval.max(retry));
    (seen.now < until).then_some((rest, Some(until)))
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
