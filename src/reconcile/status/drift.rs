//! What the status says of drift.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Facts, stored, verdict};
use crate::api::conditions::{self, ConditionStatus};
use crate::api::reasons::{self, condition};
use crate::api::{
    Contended, DriftMode, DriftPause, DriftStatus, DriftedObject, SherpackReleaseStatus, names,
};
use crate::reconcile::state::drift::{DriftAction, DriftMemory};
use crate::release::State;
use crate::storage::Head;

/// `looked`: this pass compared the objects, so that what it did not find is not there.
pub(super) fn drift(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, looked: bool) {
    let DriftMemory { seen, last_reverted, .. } = facts.drift;
    let contended = facts.drift.contended(facts.now);
    let generation = facts.release.metadata.generation;
    let mut set = |value, reason, message: String| {
        conditions::set(
            &mut status.conditions,
            condition::DRIFTED,
            value,
            reason,
            &message,
            generation,
            facts.now,
        );
    };
    let disabled =
        facts.release.spec.drift.as_ref().and_then(|drift| drift.mode) == Some(DriftMode::Disabled);
    let off = match facts.pause {
        _ if disabled => {
            let message =
                "spec.drift.mode is Disabled: what others change is neither looked for nor put back";
            Some((reasons::DRIFT_DISABLED, message.to_owned()))
        }
        DriftPause::Until(until) => {
            let annotation = names::DRIFT_PAUSE_UNTIL;
            let message =
                format!("nothing is put back until {until:.0}, as the annotation {annotation} asks");
            Some((reasons::DRIFT_PAUSED, message))
        }
        DriftPause::Off | DriftPause::TooFar { .. } => None,
    };
    if let Some((reason, message)) = off {
        if stored(facts.head).is_some() || facts.guards {
            set(ConditionStatus::Unknown, reason, message);
        }
        if let Some(drift) = &mut status.drift {
            drift.count = None;
            forget_the_present(drift);
        }
        return;
    }
    let reported = seen.iter().filter(|drifted| drifted.action == DriftAction::Reported).count();
    let by = |manager: Option<&String>| manager.map(|manager| format!(" by {manager}")).unwrap_or_default();
    if let Some(first) = contended.first() {
        let rival = seen.iter().find(|drifted| drifted.id == **first);
        let who = by(rival.and_then(|rival| rival.manager.as_ref()));
        let paths = rival.map(|rival| rival.paths.join(", ")).unwrap_or_default();
        let message = format!("{first} keeps being changed{who} at {paths}; it is put back ever less often");
        set(ConditionStatus::True, reasons::CONTENDED, message);
    } else if reported > 0 {
        let first = seen.iter().find(|drifted| drifted.action == DriftAction::Reported);
        let what =
            first.map(|first| format!("{}{}", first.id, by(first.manager.as_ref()))).unwrap_or_default();
        set(
            ConditionStatus::True,
            reasons::DRIFT_DETECTED,
            format!("{reported} objects differ, first {what}"),
        );
    } else if let Some(last) = seen.last() {
        let then = if last.action == DriftAction::HandedOver { "is left to others" } else { "put back" };
        let message = format!("{} was changed{} and {then}", last.id, by(last.manager.as_ref()));
        set(ConditionStatus::False, reasons::DRIFT_REVERTED, message);
    } else if status.drift.as_ref().is_none_or(|drift| looked && drift.count != Some(0))
        && (facts.guards
            || matches!(facts.head, Head::Ours(stored) if stored.record.state == State::Deployed))
    {
        let message = format!("every object is as it was applied{}", verdict::skipped(facts));
        set(ConditionStatus::False, reasons::NO_DRIFT, message);
    }
    if seen.is_empty() && contended.is_empty() {
        if let Some(drift) = status.drift.as_mut().filter(|_| looked) {
            drift.count = Some(0);
            forget_the_present(drift);
        }
        return;
    }
    status.drift = Some(DriftStatus {
        count: Some(i64::try_from(reported + contended.len()).unwrap_or(i64::MAX)),
        last_reverted_at: last_reverted.map(Time).or_else(|| status.drift.as_ref()?.last_reverted_at.clone()),
        contended: contended
            .iter()
            .map(|id| {
                let rival = seen.iter().find(|drifted| drifted.id == **id);
                Contended {
                    object: id.to_string(),
                    manager: rival.and_then(|rival| rival.manager.clone()),
                    paths: rival.map(|rival| rival.paths.clone()).unwrap_or_default(),
                }
            })
            .collect(),
        objects: seen
            .iter()
            .rev()
            .map(|drifted| DriftedObject {
                object: drifted.id.to_string(),
                paths: drifted.paths.clone(),
                manager: drifted.manager.clone(),
                action: Some(drifted.action.as_str().to_owned()),
                at: Some(Time(drifted.at)),
            })
            .collect(),
    });
}

/// What was told of the present is over; what was put back stays told.
fn forget_the_present(drift: &mut DriftStatus) {
    drift.contended.clear();
    drift.objects.retain(|object| object.action.as_deref() != Some(DriftAction::Reported.as_str()));
}
