//! Attempts at the wanted inputs: what counts as a failure of them, whether they are tried again, and when.

use std::time::Duration;

use super::{Decided, Failure, HeadState, Hold, Observation, Operation, OurHead, after};
use crate::release::backoff;

/// Nothing is deployed, so that an upgrade would have nothing to start from.
#[must_use]
pub fn is_fresh(head: &OurHead) -> bool {
    !ever_deployed(head) || head.state == HeadState::Uninstalled
}

/// Any revision of the name was deployed once, whichever tool wrote it: what serves now may be of that one.
pub(super) fn ever_deployed(head: &OurHead) -> bool {
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

/// How the wanted inputs failed under this spec: as the head, as what it undid, or earlier. A head that is deployed with
/// them says that they work.
pub(super) fn failure(seen: &Observation, head: &OurHead, inputs: &str) -> Option<Failure> {
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
pub(super) fn retries_of(seen: &Observation, head: &OurHead, failure: &Failure) -> (bool, Option<Duration>) {
    let (allowed, again) = if ever_deployed(head) {
        (seen.retries.upgrade, seen.retry_interval.upgrade)
    } else {
        (seen.retries.install, seen.retry_interval.install)
    };
    (failure.for_good || failure.attempt > allowed, again)
}

/// The time between attempts, unless it is over. `spent`: no retries are left, and after which interval one more attempt
/// is asked for all the same; without one the release rests, because what failed that often does not get better by being
/// repeated. What healed by itself is applied once more at once, because a failed revision was not locked meanwhile.
pub(super) fn pause(
    seen: &Observation,
    failure: &Failure,
    spent: Option<Option<Duration>>,
) -> Option<Decided> {
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
