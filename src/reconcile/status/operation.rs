//! The operation under way, as the status shows it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Outcome, Progress};
use crate::api::{LIST_MAX, OperationStatus, SherpackRelease, SherpackReleaseStatus, WaitingFor, names};
use crate::health::Status;
use crate::manifest::ObjectId;
use crate::reconcile::Error;
use crate::reconcile::records::history::action_name;
use crate::reconcile::state::Waiting;
use crate::reconcile::state::progress::PHASE_RECORDS;
use crate::release::Action;

pub(super) fn operation(outcome: &Result<Outcome, Error>) -> Option<OperationStatus> {
    match &outcome.as_ref().ok()?.progress {
        Progress::Running(run) | Progress::Testing { run, .. } => Some(OperationStatus {
            action: if run.phase == "test" { "Test" } else { action_name(run.action) }.to_owned(),
            revision: Some(i64::from(run.revision)),
            phase: Some(run.phase.to_owned()),
            wave: run.wave.map(i64::from),
            waves: number(run.waves),
            step: number(run.step),
            steps: number(run.steps),
            started_at: Some(Time(run.started)),
            deadline: run.deadline.map(Time),
            attempt: Some(i64::from(run.attempt)),
            waiting_for: run.waiting.iter().map(|(id, waiting)| waiting_for(id, waiting)).collect(),
        }),
        Progress::Uninstalling { deadline, started, remaining, .. } => Some(OperationStatus {
            action: action_name(Action::Uninstall).to_owned(),
            phase: Some("Delete".to_owned()),
            started_at: Some(Time(*started)),
            deadline: Some(Time(*deadline)),
            waiting_for: remaining
                .iter()
                .map(|id| WaitingFor {
                    object: id.to_string(),
                    state: "Terminating".to_owned(),
                    ..WaitingFor::default()
                })
                .collect(),
            ..OperationStatus::default()
        }),
        Progress::Dependents { awaited, named, until } => Some(OperationStatus {
            action: action_name(Action::Uninstall).to_owned(),
            phase: Some("Dependents".to_owned()),
            started_at: Some(Time(awaited.began)),
            deadline: Some(Time(*until)),
            waiting_for: named
                .iter()
                .take(LIST_MAX)
                .map(|release| WaitingFor {
                    object: match release {
                        Some(release) => format!("{} {release}", names::KIND),
                        None => format!("{} in another namespace", names::KIND),
                    },
                    state: health_name(Status::Terminating).to_owned(),
                    ..WaitingFor::default()
                })
                .collect(),
            ..OperationStatus::default()
        }),
        _ => None,
    }
}

fn number(count: usize) -> Option<i64> {
    i64::try_from(count).ok()
}

/// The status right before the records go: a later process must know that their absence is our doing.
pub(in crate::reconcile) fn records_going(
    release: &SherpackRelease,
    now: Timestamp,
) -> SherpackReleaseStatus {
    let mut status = release.status.clone().unwrap_or_default();
    status.operation = Some(OperationStatus {
        action: action_name(Action::Uninstall).to_owned(),
        phase: Some(PHASE_RECORDS.to_owned()),
        started_at: Some(Time(now)),
        ..OperationStatus::default()
    });
    status
}

fn waiting_for(id: &ObjectId, waiting: &Waiting) -> WaitingFor {
    WaitingFor {
        object: id.to_string(),
        state: health_name(waiting.health.status).to_owned(),
        ready: waiting.health.progress.map(|(ready, _)| ready),
        desired: waiting.health.progress.map(|(_, desired)| desired),
        reason: Some(waiting.health.message.clone()),
        since: Some(Time(waiting.since)),
    }
}

fn health_name(status: Status) -> &'static str {
    match status {
        Status::InProgress => "InProgress",
        Status::Current => "Current",
        Status::Failed => "Failed",
        Status::Terminating => "Terminating",
        Status::Suspended => "Suspended",
    }
}
