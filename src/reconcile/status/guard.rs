//! The status of a release that locks what another tool installed.

use super::drift::drift;
use super::verdict::Verdict;
use super::{Facts, acknowledge};
use crate::api::conditions::{self, Standing};
use crate::api::{LockOf, PackStatus, SherpackReleaseStatus, reasons};
use crate::reconcile::Error;
use crate::release::guard::{Stance, is_transitional};

/// What a pass knows of the release that it locks.
pub(in crate::reconcile) struct Guarding<'a> {
    pub lock: &'a LockOf,
    /// How many objects are locked.
    pub objects: usize,
    pub revision: Option<u32>,
    /// The chart or pack that is installed.
    pub pack: Option<&'a PackStatus>,
    /// Reason and message of the first object that cannot be kept, and how many there are.
    pub failing: Option<(&'static str, String, usize)>,
}

/// The status after a pass.
pub(in crate::reconcile) fn guarded(
    facts: &Facts<'_>,
    guarding: &Guarding<'_>,
    outcome: Result<&Stance, &Error>,
) -> (SherpackReleaseStatus, Verdict) {
    let mut status = facts.release.status.clone().unwrap_or_default();
    let generation = facts.release.metadata.generation;
    status.observed_generation = generation;
    let verdict = match (facts.invalid, outcome) {
        (Some(invalid), _) => Verdict::new(Standing::Stalled, invalid.reason(), invalid.to_string()),
        (None, Ok(stance)) => verdict(facts, guarding, stance),
        (None, Err(error)) => Verdict::of(error),
    };
    let Verdict { standing, reason, message } = &verdict;
    conditions::summarize(&mut status.conditions, *standing, reason, message, generation, facts.now);
    if guarding.revision.is_some() {
        status.revision = guarding.revision.map(i64::from);
        status.pack = guarding.pack.cloned();
    }
    drift(&mut status, facts, matches!(outcome, Ok(Stance::Guard { .. })));
    acknowledge(&mut status, facts.release, None, !matches!(outcome, Ok(Stance::Guard { .. })));
    status.bound();
    (status, verdict)
}

fn verdict(facts: &Facts<'_>, guarding: &Guarding<'_>, stance: &Stance) -> Verdict {
    let Guarding { lock, objects, failing, .. } = guarding;
    match stance {
        Stance::Suspended => Verdict::new(Standing::Held, reasons::SUSPENDED, "spec.suspend is true"),
        Stance::Taken { by } => {
            let message =
                format!("{lock} is locked or installed by the release {by} already: delete one of the two");
            Verdict::new(Standing::Stalled, reasons::RELEASE_NAME_TAKEN, message)
        }
        Stance::Missing { lost: true } => {
            let message = format!(
                "{lock} has no record any more: nothing is changed, locked or deleted; it is locked again when it is installed or its record is restored"
            );
            Verdict::new(Standing::Stalled, reasons::RECORD_LOST, message)
        }
        Stance::Missing { lost: false } => {
            let message = format!("{lock} does not exist: it is locked as soon as it is installed");
            Verdict::new(Standing::Stalled, reasons::RELEASE_NOT_FOUND, message)
        }
        Stance::Unreadable { message } => {
            let message = format!(
                "{message}: nothing is changed, locked or deleted; restore the record, or install the release again"
            );
            Verdict::new(Standing::Stalled, reasons::RECORD_UNREADABLE, message)
        }
        Stance::StandBack { revision, status } => {
            let message = format!(
                "revision {revision} of {lock} is {status}: nothing is touched until one is deployed"
            );
            let standing = if is_transitional(status) { Standing::Progressing } else { Standing::Held };
            Verdict::new(standing, reasons::STANDING_BACK, message)
        }
        Stance::Open { revision } => {
            let reason = match facts.release.spec.drift.as_ref().and_then(|drift| drift.mode) {
                Some(crate::api::DriftMode::Disabled) => reasons::DRIFT_DISABLED,
                _ => reasons::DRIFT_PAUSED,
            };
            let message = format!("revision {revision} of {lock} is deployed, and the lock is off");
            Verdict::new(Standing::Ready, reason, message)
        }
        Stance::Guard { revision } => match failing {
            Some((reason, message, count)) => {
                let more = match count {
                    0 | 1 => String::new(),
                    count => format!(" (and {} more objects are not locked)", count - 1),
                };
                let message = format!(
                    "revision {revision} of {lock} is not locked in all its objects: {message}{more}"
                );
                Verdict::new(Standing::Retrying, reason, message)
            }
            None => {
                let message = format!("guards {lock}, revision {revision}: {objects} objects");
                Verdict::new(Standing::Ready, reasons::LOCKED, message)
            }
        },
    }
}
