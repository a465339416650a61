//! What the status says of drift.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Facts, stored, verdict};
use crate::api::conditions::{self, ConditionStatus};
use crate::api::reasons::{self, condition};
use crate::api::{
    Contended, DriftMode, DriftPause, DriftStatus, DriftedObject, SherpackReleaseStatus, names,
};
use crate::manifest::ObjectId;
use crate::reconcile::state::drift::{DriftAction, DriftMemory, Drifted};
use crate::release::State;
use crate::storage::Head;

/// `looked`: this pass compared the objects, so that what it did not find is not there.
pub(super) fn drift(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, looked: bool) {
    if let Some((reason, message)) = not_corrected(facts) {
        if stored(facts.head).is_some() || facts.guards {
            set_drifted(status, facts, ConditionStatus::Unknown, reason, &message);
        }
        if let Some(drift) = &mut status.drift {
            drift.count = None;
            forget_the_present(drift);
        }
        return;
    }
    let contended = facts.drift.contended(facts.now);
    // What is known to be in order is not said again by a pass that did not look.
    let unsaid = status.drift.as_ref().is_none_or(|drift| looked && drift.count != Some(0));
    let deployed =
        facts.guards || matches!(facts.head, Head::Ours(stored) if stored.record.state == State::Deployed);
    if let Some((value, reason, message)) = differs(&facts.drift.seen, &contended) {
        set_drifted(status, facts, value, reason, &message);
    } else if unsaid && deployed {
        let message = format!("every object is as it was applied{}", verdict::skipped(facts));
        set_drifted(status, facts, ConditionStatus::False, reasons::NO_DRIFT, &message);
    }
    if facts.drift.seen.is_empty() && contended.is_empty() {
        if let Some(drift) = status.drift.as_mut().filter(|_| looked) {
            drift.count = Some(0);
            forget_the_present(drift);
        }
        return;
    }
    let before = status.drift.as_ref().and_then(|drift| drift.last_reverted_at.clone());
    status.drift = Some(remembered(facts.drift, &contended, before));
}

fn set_drifted(
    status: &mut SherpackReleaseStatus,
    facts: &Facts<'_>,
    value: ConditionStatus,
    reason: &str,
    message: &str,
) {
    let generation = facts.release.metadata.generation;
    conditions::set(
        &mut status.conditions,
        condition::DRIFTED,
        value,
        reason,
        message,
        generation,
        facts.now,
    );
}

/// Reason and message, while the spec or an annotation keeps the operator from putting anything back.
fn not_corrected(facts: &Facts<'_>) -> Option<(&'static str, String)> {
    let mode = facts.release.spec.drift.as_ref().and_then(|drift| drift.mode);
    if mode == Some(DriftMode::Disabled) {
        let message = "spec.drift.mode is Disabled: what others change is neither looked for nor put back";
        return Some((reasons::DRIFT_DISABLED, message.to_owned()));
    }
    match facts.pause {
        DriftPause::Until(until) => {
            let annotation = names::DRIFT_PAUSE_UNTIL;
            let message =
                format!("nothing is put back until {until:.0}, as the annotation {annotation} asks");
            Some((reasons::DRIFT_PAUSED, message))
        }
        DriftPause::Off | DriftPause::TooFar { .. } => None,
    }
}

/// What to say of the objects that differ or differed: a contended one before one that is only told, and that before
/// the last one that was put back. `None`: none did.
fn differs(seen: &[Drifted], contended: &[&ObjectId]) -> Option<(ConditionStatus, &'static str, String)> {
    let by = |drifted: &Drifted| drifted.manager.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    if let Some(first) = contended.first() {
        let rival = seen.iter().find(|drifted| drifted.id == **first);
        let who = rival.map(by).unwrap_or_default();
        let paths = rival.map(|rival| rival.paths.join(", ")).unwrap_or_default();
        let message = format!("{first} keeps being changed{who} at {paths}; it is put back ever less often");
        return Some((ConditionStatus::True, reasons::CONTENDED, message));
    }
    if let Some(first) = seen.iter().find(|drifted| drifted.action == DriftAction::Reported) {
        let message = format!("{} objects differ, first {}{}", reported(seen), first.id, by(first));
        return Some((ConditionStatus::True, reasons::DRIFT_DETECTED, message));
    }
    let last = seen.last()?;
    let then = if last.action == DriftAction::HandedOver { "is left to others" } else { "put back" };
    let message = format!("{} was changed{} and {then}", last.id, by(last));
    Some((ConditionStatus::False, reasons::DRIFT_REVERTED, message))
}

fn reported(seen: &[Drifted]) -> usize {
    seen.iter().filter(|drifted| drifted.action == DriftAction::Reported).count()
}

/// `before`: when an object was put back last, as the status says; a restart forgets it.
fn remembered(memory: &DriftMemory, contended: &[&ObjectId], before: Option<Time>) -> DriftStatus {
    let seen = &memory.seen;
    let contended = contended.iter().map(|id| {
        let rival = seen.iter().find(|drifted| drifted.id == **id);
        Contended {
            object: id.to_string(),
            manager: rival.and_then(|rival| rival.manager.clone()),
            paths: rival.map(|rival| rival.paths.clone()).unwrap_or_default(),
        }
    });
    let objects = seen.iter().rev().map(|drifted| DriftedObject {
        object: drifted.id.to_string(),
        paths: drifted.paths.clone(),
        manager: drifted.manager.clone(),
        action: Some(drifted.action.as_str().to_owned()),
        at: Some(Time(drifted.at)),
    });
    DriftStatus {
        count: Some(i64::try_from(reported(seen) + contended.len()).unwrap_or(i64::MAX)),
        last_reverted_at: memory.last_reverted.map(Time).or(before),
        contended: contended.collect(),
        objects: objects.collect(),
    }
}

/// What was told of the present is over; what was put back stays told.
fn forget_the_present(drift: &mut DriftStatus) {
    drift.contended.clear();
    drift.objects.retain(|object| object.action.as_deref() != Some(DriftAction::Reported.as_str()));
}
