//! From what a pass found to the status that it leaves. Pure: the status before, facts, and the time go in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Error;
use super::memory::{DriftAction, DriftMemory, Waiting};
use super::uninstall::PHASE_RECORDS;
use crate::api::conditions::{self, ConditionStatus, Standing};
use crate::api::reasons::{self, condition};
use crate::api::{
    Class, Contended, DriftMode, DriftStatus, DriftedObject, HistoryEntry, Invalid, LastHandled,
    OperationStatus, PackStatus, SherpackRelease, SherpackReleaseStatus, WaitingFor, names,
};
use crate::health::Status;
use crate::manifest::{self, ObjectId};
use crate::release::decide::{Decision, Hold, Operation};
use crate::release::{Action, State};
use crate::storage::{Head, Stored};

/// What a pass ended with.
pub(super) enum Progress {
    Nothing,
    /// An error stands in the way; whatever is deployed stays and stays locked.
    Blocked(Error),
    Running(Run),
    Finished(Finished),
    Uninstalling {
        deadline: Timestamp,
        late: bool,
        remaining: Vec<ObjectId>,
        started: Timestamp,
        until: Timestamp,
    },
    /// Nothing of the release is left, or nothing of it is ours to touch: the finalizer can go.
    Gone,
}

/// An operation under way.
pub(super) struct Run {
    pub action: Action,
    pub revision: u32,
    pub attempt: u32,
    pub started: Timestamp,
    pub deadline: Timestamp,
    pub waiting: BTreeMap<ObjectId, Waiting>,
    pub until: Timestamp,
}

/// An operation that ended.
pub(super) struct Finished {
    pub action: Action,
    pub revision: u32,
    pub failure: Option<(&'static str, String)>,
    /// What is not healthy although the operation succeeded.
    pub ailing: Option<String>,
    pub manifest_digest: String,
    pub values_digest: String,
}

/// What a pass decided and how far it got.
pub(super) struct Outcome {
    pub decision: Decision,
    pub progress: Progress,
}

/// Everything the status is made from.
pub(super) struct Facts<'a> {
    pub release: &'a SherpackRelease,
    pub head: &'a Head,
    pub drift: &'a DriftMemory,
    pub history_limit: usize,
    pub now: Timestamp,
}

/// One answer to "is it ready, and if not, why".
pub(super) struct Verdict {
    pub standing: Standing,
    pub reason: String,
    pub message: String,
}

impl Verdict {
    fn new(standing: Standing, reason: &str, message: impl Into<String>) -> Self {
        Self { standing, reason: reason.to_owned(), message: message.into() }
    }

    /// The verdict on an error: its own reason and message.
    pub(super) fn of(error: &Error) -> Self {
        let standing = match error.class() {
            Class::FixSpec => Standing::Stalled,
            Class::Retry | Class::FixCluster => Standing::Retrying,
        };
        Self::new(standing, error.reason(), error.to_string())
    }
}

/// The status of a release whose spec cannot be acted on.
pub(super) fn refused(release: &SherpackRelease, invalid: &Invalid, now: Timestamp) -> SherpackReleaseStatus {
    let mut status = release.status.clone().unwrap_or_default();
    let generation = release.metadata.generation;
    status.observed_generation = generation;
    let message = invalid.to_string();
    conditions::summarize(
        &mut status.conditions,
        Standing::Stalled,
        invalid.reason(),
        &message,
        generation,
        now,
    );
    status
}

/// The status after a pass.
pub(super) fn build(facts: &Facts<'_>, outcome: &Result<Outcome, Error>) -> (SherpackReleaseStatus, Verdict) {
    let mut status = facts.release.status.clone().unwrap_or_default();
    let generation = facts.release.metadata.generation;
    status.observed_generation = generation;
    let verdict = match outcome {
        Ok(outcome) => verdict(facts, outcome),
        Err(error) => Verdict::of(error),
    };
    let Verdict { standing, reason, message } = &verdict;
    conditions::summarize(&mut status.conditions, *standing, reason, message, generation, facts.now);
    record(&mut status, facts);
    status.operation = operation(outcome);
    if let Ok(Outcome { progress: Progress::Finished(finished), .. }) = outcome {
        history(&mut status, facts, finished);
        health(&mut status, facts, finished);
    }
    let looked = outcome.as_ref().is_ok_and(|outcome| outcome.decision.correct);
    drift(&mut status, facts, looked);
    if outcome.is_ok() {
        acknowledge(&mut status, facts.release);
    }
    status.bound();
    (status, verdict)
}

fn verdict(facts: &Facts<'_>, outcome: &Outcome) -> Verdict {
    match &outcome.progress {
        Progress::Blocked(error) => Verdict::of(error),
        Progress::Running(run) => running(run),
        Progress::Finished(Finished { failure: Some((reason, message)), .. }) => {
            Verdict::new(Standing::Retrying, reason, message.clone())
        }
        Progress::Finished(Finished { action, revision, failure: None, .. }) => {
            deployed(facts, *action, *revision)
        }
        Progress::Uninstalling { remaining, late, .. } => {
            let first = remaining.first().map(ToString::to_string).unwrap_or_default();
            let message = format!("waiting until {} objects are gone, first {first}", remaining.len());
            if *late {
                Verdict::new(Standing::Retrying, reasons::UNINSTALL_FAILED, format!("timed out {message}"))
            } else {
                Verdict::new(Standing::Progressing, reasons::UNINSTALLING, message)
            }
        }
        Progress::Gone => Verdict::new(Standing::Progressing, reasons::UNINSTALLING, "the objects are gone"),
        Progress::Nothing => idle(facts, &outcome.decision),
    }
}

fn idle(facts: &Facts<'_>, decision: &Decision) -> Verdict {
    let retry = |at: Option<Timestamp>| at.map(|at| format!("; next try at {at:.0}")).unwrap_or_default();
    match &decision.operation {
        Operation::Hold(hold) => match hold {
            Hold::Suspended => Verdict::new(Standing::Held, reasons::SUSPENDED, "spec.suspend is true"),
            Hold::ReleaseNameTaken { by } => {
                let message = format!(
                    "the release {by} has this name and target already: set another spec.releaseName or delete one of the two"
                );
                Verdict::new(Standing::Stalled, reasons::RELEASE_NAME_TAKEN, message)
            }
            Hold::RecordLost => {
                let message = "the revision record is gone: nothing is changed, locked or deleted; restore the Secret, or set the annotation sherpack.io/reset-at to start over from the spec";
                Verdict::new(Standing::Stalled, reasons::RECORD_LOST, message)
            }
            Hold::RecordUnreadable { message } => {
                let message = format!(
                    "{message}: nothing is changed, locked or deleted; restore the Secret, or set the annotation sherpack.io/reset-at to start over from the spec"
                );
                Verdict::new(Standing::Stalled, reasons::RECORD_UNREADABLE, message)
            }
            Hold::ForeignPending { until } => {
                let message = format!(
                    "another tool has a pending revision of this release; it is left alone until {until:.0}"
                );
                Verdict::new(Standing::Held, reasons::FOREIGN_PENDING, message)
            }
            Hold::RetriesExceeded { attempts } => {
                let (_, cause) = failure(facts.head);
                let message = format!("failed {attempts} times: {cause}{}", retry(decision.until));
                Verdict::new(Standing::Stalled, reasons::RETRIES_EXCEEDED, message)
            }
            Hold::Paused => Verdict::new(
                Standing::Held,
                reasons::PAUSED,
                "spec.upgrade.paused is true and other inputs are waiting",
            ),
            // The caller has the error that says why.
            Hold::InputsUnknown => {
                Verdict::new(Standing::Retrying, reasons::SOURCE_INVALID, "the inputs cannot be read")
            }
        },
        Operation::Wait => {
            let (reason, message) = failure(facts.head);
            Verdict::new(Standing::Retrying, &reason, format!("{message}{}", retry(decision.until)))
        }
        _ => match facts.head {
            Head::Ours(stored) if stored.record.state == State::Deployed => {
                let action = stored.private.as_ref().map_or(Action::Install, |private| private.action);
                deployed(facts, action, stored.record.version)
            }
            _ => Verdict::new(Standing::Progressing, reasons::PROGRESSING, "nothing is deployed yet"),
        },
    }
}

fn deployed(facts: &Facts<'_>, action: Action, revision: u32) -> Verdict {
    let reason = match action {
        Action::Upgrade => reasons::UPGRADE_SUCCEEDED,
        Action::Rollback => reasons::ROLLBACK_SUCCEEDED,
        Action::Install | Action::Uninstall => reasons::INSTALL_SUCCEEDED,
    };
    let pack = stored(facts.head)
        .map(|stored| format!(" of {} {}", stored.record.pack.name, stored.record.pack.version));
    Verdict::new(
        Standing::Ready,
        reason,
        format!("revision {revision}{} is deployed", pack.unwrap_or_default()),
    )
}

/// Reason and message of a failed record.
fn failure(head: &Head) -> (String, String) {
    let Some(State::Failed { reason, .. }) = stored(head).map(|stored| &stored.record.state) else {
        return (reasons::UPGRADE_FAILED.to_owned(), "the last attempt failed".to_owned());
    };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match reason.split_once(": ") {
        Some((code, message)) if word(code) => (code.to_owned(), message.to_owned()),
        _ => (reasons::UPGRADE_FAILED.to_owned(), reason.clone()),
    }
}

fn running(run: &Run) -> Verdict {
    let verb = verb(run.action);
    let Some((id, first)) = run.waiting.iter().next() else {
        return Verdict::new(
            Standing::Progressing,
            reasons::PROGRESSING,
            format!("{verb} to revision {}", run.revision),
        );
    };
    let more = run.waiting.len() - 1;
    let others = if more == 0 { String::new() } else { format!(" and {more} more") };
    // The deadline and not the time that is left: that would be another message each time.
    let message = format!(
        "{verb} to revision {}: waiting until {:.0} for {id}{others}: {}",
        run.revision, run.deadline, first.health.message
    );
    Verdict::new(Standing::Progressing, reasons::PROGRESSING, message)
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Install => "installing",
        Action::Upgrade => "upgrading",
        Action::Rollback => "rolling back",
        Action::Uninstall => "uninstalling",
    }
}

fn stored(head: &Head) -> Option<&Stored> {
    match head {
        Head::Ours(stored) | Head::Foreign(stored) => Some(stored),
        Head::None | Head::Unreadable(_) => None,
    }
}

/// What the newest record of ours says.
fn record(status: &mut SherpackReleaseStatus, facts: &Facts<'_>) {
    let Head::Ours(stored) = facts.head else { return };
    let record = &stored.record;
    status.revision = Some(i64::from(record.version));
    status.pack = Some(PackStatus {
        name: record.pack.name.clone(),
        version: record.pack.version.to_string(),
        app_version: record.pack.app_version.clone(),
        digest: stored.private.as_ref().map(|private| private.pack_digest.clone()),
    });
    status.inputs = stored.private.as_ref().map(|private| private.inputs.clone());
    let attempt = stored.private.as_ref().map_or(0, |private| i64::from(private.attempt));
    status.failures = matches!(record.state, State::Failed { .. }).then_some(attempt);
    let (released, reason, message) = match &record.state {
        State::Deployed => {
            (ConditionStatus::True, reasons::DEPLOYED, format!("revision {} is deployed", record.version))
        }
        State::Failed { .. } => {
            let (_, cause) = failure(facts.head);
            let message = format!("revision {} failed and is not locked: {cause}", record.version);
            (ConditionStatus::False, reasons::UPGRADE_FAILED, message)
        }
        state => (
            ConditionStatus::Unknown,
            reasons::PROGRESSING,
            format!("revision {} is {}", record.version, state.name()),
        ),
    };
    let generation = facts.release.metadata.generation;
    conditions::set(
        &mut status.conditions,
        condition::RELEASED,
        released,
        reason,
        &message,
        generation,
        facts.now,
    );
}

fn operation(outcome: &Result<Outcome, Error>) -> Option<OperationStatus> {
    match &outcome.as_ref().ok()?.progress {
        Progress::Running(run) => Some(OperationStatus {
            action: action_name(run.action).to_owned(),
            revision: Some(i64::from(run.revision)),
            phase: Some(if run.waiting.is_empty() { "Apply" } else { "Wait" }.to_owned()),
            started_at: Some(Time(run.started)),
            deadline: Some(Time(run.deadline)),
            attempt: Some(i64::from(run.attempt)),
            waiting_for: run.waiting.iter().map(|(id, waiting)| waiting_for(id, waiting)).collect(),
            ..OperationStatus::default()
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
        _ => None,
    }
}

/// The status right before the records go: a later process must know that their absence is our doing.
pub(super) fn records_going(release: &SherpackRelease, now: Timestamp) -> SherpackReleaseStatus {
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

pub(super) fn action_name(action: Action) -> &'static str {
    match action {
        Action::Install => "Install",
        Action::Upgrade => "Upgrade",
        Action::Rollback => "Rollback",
        Action::Uninstall => "Uninstall",
    }
}

fn history(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, finished: &Finished) {
    let revision = i64::from(finished.revision);
    status.history.retain(|entry| entry.revision != revision);
    if finished.failure.is_none() {
        for entry in status.history.iter_mut().filter(|entry| entry.state == "deployed") {
            "superseded".clone_into(&mut entry.state);
        }
    }
    let pack = stored(facts.head).map(|stored| &stored.record.pack);
    status.history.insert(
        0,
        HistoryEntry {
            revision,
            state: if finished.failure.is_none() { "deployed" } else { "failed" }.to_owned(),
            action: Some(action_name(finished.action).to_owned()),
            pack: pack.map(|pack| pack.name.clone()),
            version: pack.map(|pack| pack.version.to_string()),
            values_digest: Some(finished.values_digest.clone()),
            manifest_digest: Some(finished.manifest_digest.clone()),
            at: Some(Time(facts.now)),
            message: finished.failure.as_ref().map(|(_, message)| message.clone()),
        },
    );
    status.history.truncate(facts.history_limit);
}

fn health(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, finished: &Finished) {
    let (healthy, reason, message) = match &finished.failure {
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
    };
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

/// `looked`: this pass compared the objects, so that what it did not find is not there.
fn drift(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, looked: bool) {
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
    if facts.release.spec.drift.as_ref().is_some_and(|drift| drift.mode == Some(DriftMode::Disabled)) {
        if stored(facts.head).is_some() {
            let message =
                "spec.drift.mode is Disabled: what others change is neither looked for nor put back";
            set(ConditionStatus::Unknown, reasons::DRIFT_DISABLED, message.to_owned());
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
        let message = format!("{} was changed{} and put back", last.id, by(last.manager.as_ref()));
        set(ConditionStatus::False, reasons::DRIFT_REVERTED, message);
    } else if status.drift.as_ref().is_none_or(|drift| looked && drift.count != Some(0))
        && matches!(facts.head, Head::Ours(stored) if stored.record.state == State::Deployed)
    {
        set(ConditionStatus::False, reasons::NO_DRIFT, "every object is as it was applied".to_owned());
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

/// Requests by annotation count as handled once a pass got through.
fn acknowledge(status: &mut SherpackReleaseStatus, release: &SherpackRelease) {
    let annotation = |key: &str| release.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let (reconcile_at, reset_at) = (annotation(names::RECONCILE_AT), annotation(names::RESET_AT));
    if reconcile_at.is_none() && reset_at.is_none() && status.last_handled.is_none() {
        return;
    }
    let test_at = status.last_handled.as_ref().and_then(|handled| handled.test_at.clone());
    status.last_handled = Some(LastHandled { reconcile_at, reset_at, test_at });
}

/// Digests for the history, from a record with its bulk.
pub(super) fn digests(stored: &Stored) -> (String, String) {
    let manifest = manifest::digest(&serde_json::Value::String(stored.record.manifest.clone()));
    (manifest, manifest::digest(&stored.record.values))
}
