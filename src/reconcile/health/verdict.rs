//! What the health of the objects that a release waits for means for its operation. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{duration, reasons};
use crate::health::Status;
use crate::manifest::ObjectId;
use crate::reconcile::state::Waiting;

/// A health rule that says "failed" must say so for this long: some failures pass when a dependency arrives.
pub(in crate::reconcile) const FAILED_FOR: Duration = Duration::from_secs(10);
/// A lost watch event must not make a release wait for ever.
pub(in crate::reconcile) const LOOK_ANYWAY: Duration = Duration::from_secs(15);

/// What comes of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum Verdict {
    /// It goes on at least until then.
    Wait {
        until: Timestamp,
    },
    Failed {
        reason: &'static str,
        message: String,
    },
}

/// Decides from the health of the waiting objects alone.
pub(in crate::reconcile) fn judge(
    waiting: &BTreeMap<ObjectId, Waiting>,
    deadline: Timestamp,
    now: Timestamp,
) -> Verdict {
    if let Some((reason, message)) = hopeless(waiting) {
        return Verdict::Failed { reason, message };
    }
    if let Some((id, object)) = waiting.iter().find(|(_, object)| failed_for_good(object, now)) {
        return Verdict::Failed { reason: reasons::HEALTH_FAILED, message: describe(id, object) };
    }
    if now >= deadline {
        let (reason, first) = what_is_late(waiting);
        let others = waiting.len().saturating_sub(1);
        let more = if others == 0 { String::new() } else { format!(" (and {others} more)") };
        let since = waiting.values().map(|object| object.since).min().unwrap_or(deadline);
        let waited = Duration::try_from(deadline.duration_since(since)).unwrap_or_default();
        let waited = Duration::from_secs(waited.as_secs().max(1));
        let message = format!("not healthy within {}: {first}{more}", duration::format(waited));
        return Verdict::Failed { reason, message };
    }
    let stable =
        waiting.values().filter_map(|object| object.failed_since?.checked_add(FAILED_FOR).ok()).min();
    let recheck = waiting.values().filter_map(|object| now.checked_add(object.health.recheck_in?).ok()).min();
    let anyway = now.checked_add(LOOK_ANYWAY).unwrap_or(Timestamp::MAX);
    let until = [Some(deadline), stable, recheck].into_iter().flatten().fold(anyway, Timestamp::min);
    Verdict::Wait { until }
}

/// Nothing is left that an operation waits for: what is not healthy hinders no operation and is only told.
pub(in crate::reconcile) fn bearable(waiting: &BTreeMap<ObjectId, Waiting>) -> bool {
    waiting.values().all(|object| object.health.status == Status::Failed && !object.health.terminal)
}

/// An object and what its health rule says of it.
pub(in crate::reconcile) fn describe(id: &ObjectId, object: &Waiting) -> String {
    format!("{id}: {}", object.health.message)
}

fn failed_for_good(object: &Waiting, now: Timestamp) -> bool {
    let Some(since) = object.failed_since else { return false };
    object.health.will_not_pass() || since.checked_add(FAILED_FOR).is_ok_and(|at| at <= now)
}

/// An object that asking again does not help: reason and message.
fn hopeless(waiting: &BTreeMap<ObjectId, Waiting>) -> Option<(&'static str, String)> {
    waiting.iter().find_map(|(id, object)| {
        let reason = object.probe.as_ref()?.hopeless?;
        Some((reason, describe(id, object)))
    })
}

/// What to say at the deadline: what is not healthy comes before what only does not answer.
fn what_is_late(waiting: &BTreeMap<ObjectId, Waiting>) -> (&'static str, String) {
    let asked = |object: &Waiting| object.probe.as_ref().is_some_and(|probe| probe.asked);
    let unhealthy = waiting.iter().find(|(_, object)| !asked(object));
    let reason = if unhealthy.is_some() { reasons::HEALTH_TIMEOUT } else { reasons::PROBE_FAILED };
    let first = unhealthy.or_else(|| waiting.iter().next());
    (reason, first.map(|(id, object)| describe(id, object)).unwrap_or_default())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
