//! What the status says of the health of the objects: what the newest operation judged, as long as nothing that is known
//! since says otherwise. The API server is not asked for it.

use super::{Facts, Finished, Outcome, Progress, stored};
use crate::api::conditions::{self, ConditionStatus};
use crate::api::reasons::{self, condition};
use crate::api::{SherpackReleaseStatus, names};
use crate::reconcile::Error;
use crate::release::State;
use crate::release::decide::{Hold, Operation};

type Health = (ConditionStatus, &'static str, String);

pub(super) fn health(
    status: &mut SherpackReleaseStatus,
    facts: &Facts<'_>,
    outcome: &Result<Outcome, Error>,
) {
    let judged = match outcome {
        Ok(Outcome { progress: Progress::Finished(finished), .. }) => Some(judged(facts, finished)),
        _ => None,
    };
    let Some((healthy, reason, message)) = unjudged(status, facts, outcome).or(judged) else { return };
    let generation = facts.release.metadata.generation;
    conditions::set(
        &mut status.conditions,
        condition::HEALTHY,
        healthy,
        reason,
        &message,
        generation,
        facts.now,
    );
}

/// What the operation that ended found.
fn judged(facts: &Facts<'_>, finished: &Finished) -> Health {
    match &finished.failure {
        None if facts.release.spec.wait == Some(false) => (
            ConditionStatus::Unknown,
            reasons::HEALTH_PROGRESSING,
            "spec.wait is false: health was not waited for".to_owned(),
        ),
        None => match &finished.ailing {
            None => (ConditionStatus::True, reasons::HEALTHY, "every object is healthy".to_owned()),
            Some(ailing) => (ConditionStatus::False, reasons::HEALTH_FAILED, ailing.clone()),
        },
        Some((reason, message)) => (ConditionStatus::False, *reason, message.clone()),
    }
}

/// What is known to be otherwise than it was judged.
fn unjudged(
    status: &SherpackReleaseStatus,
    facts: &Facts<'_>,
    outcome: &Result<Outcome, Error>,
) -> Option<Health> {
    if let Some(lost) = lost(outcome) {
        return Some(lost);
    }
    let before = conditions::find(&status.conditions, condition::HEALTHY);
    let was_healthy = before.is_some_and(|before| before.status == ConditionStatus::True.as_str());
    if facts.release.metadata.deletion_timestamp.is_some() {
        let message = "the release is being deleted";
        return if was_healthy { unknown(reasons::UNINSTALLING, message) } else { None };
    }
    if let Some(missing) = missing(facts) {
        return Some(missing);
    }
    if matches!(outcome, Ok(Outcome { progress: Progress::Finished(_), .. })) {
        return None;
    }
    let failed = matches!(stored(facts.head).map(|stored| &stored.record.state), Some(State::Failed { .. }));
    if failed && was_healthy {
        return unknown(reasons::HEALTH_UNKNOWN, "the newest revision ended before its objects were judged");
    }
    let over = [reasons::RECORD_LOST, reasons::RECORD_UNREADABLE, reasons::OBJECT_MISSING];
    match before {
        Some(before) if over.contains(&before.reason.as_str()) => {
            let message = "nothing is known to be missing, but health was not judged since: the next revision judges it";
            unknown(reasons::HEALTH_UNKNOWN, message)
        }
        _ => None,
    }
}

/// Without its record it is not known what belongs to the release.
fn lost(outcome: &Result<Outcome, Error>) -> Option<Health> {
    let Ok(Outcome { decision, .. }) = outcome else { return None };
    let Operation::Hold(hold) = &decision.operation else { return None };
    match hold {
        Hold::RecordLost => unknown(
            reasons::RECORD_LOST,
            "the revision record is gone, so what belongs to the release is not known",
        ),
        Hold::RecordUnreadable { .. } => unknown(
            reasons::RECORD_UNREADABLE,
            "the revision record cannot be read, so what belongs to the release is not known",
        ),
        _ => None,
    }
}

fn missing(facts: &Facts<'_>) -> Option<Health> {
    let first = facts.missing.first()?;
    let others = match facts.missing.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let message = format!(
        "{first}{others} is missing: it was deleted, or does not carry the label {} any more",
        names::RELEASE_NAME
    );
    Some((ConditionStatus::False, reasons::OBJECT_MISSING, message))
}

fn unknown(reason: &'static str, message: &str) -> Option<Health> {
    Some((ConditionStatus::Unknown, reason, message.to_owned()))
}
