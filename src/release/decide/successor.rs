//! What takes the place of a revision that is under way, or that failed: nothing does unless it could begin.

use jiff::Timestamp;

use super::attempts::{is_fresh, known_bad, next, next_attempt, own_failure, way_back};
use super::{Head, HeadState, Observation, Operation, OurHead, Successor, after};
use crate::release::backoff;

/// Whether the decision depends on what is wanted instead of the newest revision, so that it has to be prepared.
#[must_use]
pub fn asks_for_successor(seen: &Observation) -> bool {
    let elsewhere = seen.deletion.is_some() || seen.suspended || seen.name_taken_by.is_some();
    let Head::Ours(head) = &seen.head else { return false };
    if elsewhere || held(seen, head) {
        return false;
    }
    match &head.state {
        HeadState::Pending { uninstalling, .. } => !uninstalling && !still_wanted(seen, head),
        HeadState::Failed { .. } => seen.rollback_to.is_none() && others_are_wanted(seen, head),
        _ => false,
    }
}

/// A revision is under way.
pub(super) fn pending(seen: &Observation, head: &OurHead, uninstalling: bool) -> Operation {
    if uninstalling {
        // An uninstall that no user wants any more cannot be resumed into a release.
        return if head.hook_running { Operation::AwaitHook } else { Operation::Interrupt };
    }
    if still_wanted(seen, head) || held(seen, head) || seen.successor != Successor::Ready {
        return Operation::Resume;
    }
    if head.target.is_some() {
        return Operation::Hasten;
    }
    if head.hook_running {
        return Operation::AwaitHook;
    }
    match &seen.rollback_to {
        Some(to) => Operation::Rollback { revision: head.revision + 1, target: to.revision, attempt: 1 },
        None => next(head, next_attempt(seen, head)),
    }
}

/// How long a failed revision waits for a dependency, or for a source that does not answer.
const PATIENCE: u32 = 1;

/// The newest revision failed, and neither a retry of it nor what is wanted instead can begin: no user wants its inputs any more,
/// they cannot be read, or a person holds it up. It would be neither locked nor tried again: so it is undone.
pub(super) fn stranded(seen: &Observation, head: &OurHead) -> Option<(Operation, Option<Timestamp>)> {
    let HeadState::Failed { at } = head.state else { return None };
    // Of a way back to where the release was pinned nothing is known that had failed.
    own_failure(head)?;
    if seen.healed || !cannot_go_on(seen, head, at) {
        return None;
    }
    let revision = head.revision + 1;
    match (head.target, way_back(head)) {
        (Some(_), _) if seen.now < after(at, backoff::slow(head.attempt)) => None,
        (Some(target), _) => {
            Some((Operation::Rollback { revision, target, attempt: head.attempt + 1 }, None))
        }
        (None, Some(target)) if seen.on_failure.rollback => {
            Some((Operation::Rollback { revision, target, attempt: 1 }, None))
        }
        _ => None,
    }
}

fn cannot_go_on(seen: &Observation, head: &OurHead, failed_at: Timestamp) -> bool {
    let waited_long = seen.now >= after(failed_at, backoff::slow(PATIENCE));
    if seen.inputs.is_none() {
        return seen.unreadable || waited_long;
    }
    if others_are_wanted(seen, head) {
        return held(seen, head) || seen.successor == Successor::Refused;
    }
    // A dependency may be back in a moment.
    (seen.paused && !is_fresh(head)) || (seen.dependency.is_some() && waited_long)
}

/// Why what is wanted instead of a revision under way may not begin.
#[must_use]
pub fn held_up(seen: &Observation) -> Option<String> {
    let Head::Ours(head) = &seen.head else { return None };
    if !matches!(head.state, HeadState::Pending { .. }) || still_wanted(seen, head) {
        return None;
    }
    if let Some(blocked) = seen.dependency.as_ref().filter(|_| seen.rollback_to.is_none()) {
        return Some(blocked.to_string());
    }
    match held(seen, head) {
        true if seen.paused => Some("spec.upgrade.paused is true".to_owned()),
        true if seen.unapproved.is_some() => Some("the plan for it is not approved".to_owned()),
        true => Some("it failed before".to_owned()),
        false => None,
    }
}

fn others_are_wanted(seen: &Observation, head: &OurHead) -> bool {
    let failure = own_failure(head);
    match (&seen.inputs, failure) {
        (Some(wanted), Some(failure)) => failure.inputs != *wanted,
        _ => false,
    }
}

/// What is wanted instead may not begin.
fn held(seen: &Observation, head: &OurHead) -> bool {
    let paused = seen.paused && !is_fresh(head);
    let waits = paused || seen.unapproved.is_some() || seen.dependency.is_some();
    seen.rollback_to.is_none() && (waits || known_bad(seen, head))
}

/// Inputs that cannot be read are no reason to stop what is stored and under way.
fn still_wanted(seen: &Observation, head: &OurHead) -> bool {
    let is = |inputs: &str| seen.inputs.as_ref().is_none_or(|wanted| wanted == inputs);
    match (&seen.rollback_to, head.target, &head.undone) {
        (Some(to), target, _) => target == Some(to.revision) || to.problem.is_some(),
        (None, Some(_), Some(undone)) => is(&undone.inputs),
        // The pin was taken away.
        (None, Some(_), None) => false,
        (None, None, _) => is(&head.inputs),
    }
}
