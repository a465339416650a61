//! From what a pass found to the status that it leaves. Pure: the status before, facts, and the time go in.

mod drift;
mod events;
pub(super) mod finish;
mod guard;
mod health;
mod history;
mod operation;
mod refused;
pub(super) mod release_writes;
mod requeue;
mod verdict;

use jiff::Timestamp;

pub(super) use guard::{Guarding, guarded};
use health::health;
pub(super) use operation::records_going;
pub(super) use refused::{Refused, digest_of, essence};
pub(super) use verdict::Verdict;

use super::Error;
use crate::api::conditions::{self, ConditionStatus, Standing};
use crate::api::reasons::{self, condition};
use crate::api::{
    CrdStatus, DriftPause, HistoryEntry, Invalid, LastHandled, PackStatus, PlanStatus, SherpackRelease,
    SherpackReleaseStatus, names,
};
use crate::manifest::ObjectId;
use crate::reconcile::records::failures::own_failure;
use crate::reconcile::state::change_summary::Tally;
use crate::reconcile::state::drift::DriftMemory;
use crate::reconcile::state::progress::{Finished, Outcome, Progress};
use crate::release::decide::{Hold, Operation};
use crate::release::{State, Tested};
use crate::storage::{Head, Stored};
use drift::drift;
use operation::operation;
use verdict::verdict;

/// What is remembered of the writes to the release.
#[derive(Default)]
pub(in crate::reconcile) struct StatusMemory {
    /// resourceVersion of the release after our own last write to it.
    pub own_version: u64,
    /// Digest of the status that the API server refused last, and why: it is not sent again.
    refused: Option<(String, Refused)>,
    /// When a running operation was last shown in the status.
    pub shown_at: Option<Timestamp>,
}

/// Everything the status is made from.
pub(super) struct Facts<'a> {
    pub release: &'a SherpackRelease,
    pub head: &'a Head,
    pub drift: &'a DriftMemory,
    pub pause: DriftPause,
    /// Why the spec cannot be acted on. Then this is what the status says, whatever else went on.
    pub invalid: Option<&'a Invalid>,
    /// Objects of the deployed revision that the watches know to be gone.
    pub missing: Vec<ObjectId>,
    /// It locks what another tool installed, and that is deployed.
    pub guards: bool,
    /// What the newest operation did with the objects.
    pub tally: &'a Tally,
    /// Revisions that were ended without an operation of ours.
    pub ended: &'a [HistoryEntry],
    /// Revisions that are not kept any more.
    pub given_up: &'a [u32],
    /// Who holds the release up with which pending revision.
    pub claimant: Option<&'a str>,
    /// The plan that was shown last.
    pub plan: Option<&'a PlanStatus>,
    /// Why what is wanted now does not take over from what runs.
    pub waits_to_begin: Option<&'a str>,
    /// Why what failed cannot be undone.
    pub no_way_back: Option<&'a str>,
    /// Digest of the inputs that the decision was about.
    pub wanted: Option<&'a str>,
    pub history_limit: usize,
    pub now: Timestamp,
}

/// The status of a release whose spec cannot be acted on, and for which nothing was ever done.
pub(super) fn refused(release: &SherpackRelease, invalid: &Invalid, now: Timestamp) -> SherpackReleaseStatus {
    let mut status = release.status.clone().unwrap_or_default();
    let generation = release.metadata.generation;
    status.observed_generation = generation;
    acknowledge(&mut status, release, None, true);
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
    let verdict = match (facts.invalid, outcome) {
        (Some(invalid), _) => Verdict::new(Standing::Stalled, invalid.reason(), invalid.to_string()),
        (None, Ok(outcome)) => verdict(facts, outcome),
        (None, Err(error)) => Verdict::of(error),
    };
    let Verdict { standing, reason, message } = &verdict;
    conditions::summarize(&mut status.conditions, *standing, reason, message, generation, facts.now);
    record(&mut status, facts);
    definitions(&mut status, facts, outcome);
    tests(&mut status, facts);
    status.operation = operation(outcome);
    status.plan = awaited_plan(facts, outcome);
    facts.ended.iter().for_each(|entry| history::add(&mut status, facts, entry.clone()));
    if let Ok(Outcome { progress: Progress::Finished(finished), .. }) = outcome {
        history::finished(&mut status, facts, finished);
    }
    health(&mut status, facts, outcome);
    status.history.retain(|entry| facts.given_up.iter().all(|gone| i64::from(*gone) != entry.revision));
    let looked = outcome.as_ref().is_ok_and(|outcome| outcome.decision.correct);
    drift(&mut status, facts, looked);
    let blocked = match outcome {
        Ok(Outcome { progress: Progress::Blocked(error), .. }) | Err(error) => Some(error),
        Ok(_) => None,
    };
    // A fetch that runs is no answer yet.
    if blocked.is_none_or(|error| error.fetching_since().is_none()) {
        let holds = |outcome: &Outcome| matches!(outcome.decision.operation, Operation::Hold(_));
        let held = blocked.is_some() || outcome.as_ref().is_ok_and(holds) || facts.invalid.is_some();
        acknowledge(&mut status, facts.release, tested(facts), held);
    }
    status.bound();
    (status, verdict)
}

/// The plan that waits for approval, if that is what the release waits for.
fn awaited_plan(facts: &Facts<'_>, outcome: &Result<Outcome, Error>) -> Option<PlanStatus> {
    let Ok(Outcome { decision, progress: Progress::Nothing }) = outcome else { return None };
    let Operation::Hold(Hold::AwaitingApproval { digest, .. }) = &decision.operation else { return None };
    facts.plan.filter(|plan| plan.digest == *digest).cloned()
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
    status.record_writes =
        stored.private.as_ref().map(|private| i64::try_from(private.writes).unwrap_or(i64::MAX));
    status.pack = Some(PackStatus {
        name: record.pack.name.clone(),
        version: record.pack.version.to_string(),
        app_version: record.pack.app_version.clone(),
        digest: stored.private.as_ref().map(|private| private.pack_digest.clone()),
    });
    status.inputs = stored.private.as_ref().map(|private| private.inputs.clone());
    let attempt = stored.private.as_ref().map_or(0, |private| i64::from(private.attempt));
    let undone = stored.private.as_ref().and_then(|private| private.undone.as_ref());
    status.failures = match undone {
        Some(undone) => Some(i64::from(undone.attempt)),
        None => matches!(record.state, State::Failed { .. }).then_some(attempt),
    };
    let (released, reason, message) = match &record.state {
        State::Deployed => {
            let plain = format!("revision {} is deployed", record.version);
            let before = conditions::find(&status.conditions, condition::RELEASED);
            let forced = forced(stored);
            let told =
                before.map(|released| released.message.strip_suffix(&forced).unwrap_or(&released.message));
            let told =
                told.filter(|told| told.strip_prefix(&plain).is_some_and(|rest| rest.starts_with(':')));
            let message = match (facts.tally.of(record.version), told) {
                (Some(counts), _) => format!("{plain}: {counts}"),
                (None, Some(told)) => told.to_owned(),
                (None, None) => plain,
            };
            (ConditionStatus::True, reasons::DEPLOYED, message + &forced)
        }
        State::Failed { .. } => {
            let (_, cause) = own_failure(facts.head);
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

/// The definitions of the newest revision, and those that stand in the way of the next one.
fn definitions(status: &mut SherpackReleaseStatus, facts: &Facts<'_>, outcome: &Result<Outcome, Error>) {
    let Head::Ours(stored) = facts.head else { return definitions_stopped(status, outcome) };
    let shipped = stored.private.iter().flat_map(|private| &private.definitions);
    status.crds = shipped
        .map(|shipped| CrdStatus {
            name: shipped.name.clone(),
            policy: Some(shipped.policy.to_string()),
            verdict: shipped.verdict.clone().map(|verdict| match shipped.forced {
                true => format!("{verdict} (forced)"),
                false => verdict,
            }),
            changes: shipped.changes.clone(),
            digest: None,
        })
        .collect();
    definitions_stopped(status, outcome);
}

fn definitions_stopped(status: &mut SherpackReleaseStatus, outcome: &Result<Outcome, Error>) {
    let blocked = match outcome {
        Ok(Outcome { progress: Progress::Blocked(error), .. }) | Err(error) => error,
        Ok(_) => return,
    };
    let Error::CrdBreakingChange { stopped } = blocked else { return };
    for one in stopped.iter().rev() {
        status.crds.retain(|known| known.name != one.name);
        let told = CrdStatus {
            name: one.name.clone(),
            policy: Some(one.policy.to_string()),
            verdict: Some(one.verdict.to_string()),
            changes: one.changes.clone(),
            digest: one.token.clone(),
        };
        status.crds.insert(0, told);
    }
}

/// Definitions that were changed although it may break what exists, as the end of a message.
fn forced(stored: &Stored) -> String {
    let shipped = stored.private.iter().flat_map(|private| &private.definitions);
    let forced: Vec<&str> = shipped.filter(|shipped| shipped.forced).map(|shipped| &*shipped.name).collect();
    if forced.is_empty() {
        String::new()
    } else {
        format!("; definitions changed by force: {}", forced.join(", "))
    }
}

/// How the tests of the deployed revision ended.
fn tested<'f>(facts: &'f Facts<'_>) -> Option<&'f Tested> {
    let Head::Ours(stored) = facts.head else { return None };
    stored.private.as_ref()?.tested.as_ref()
}

fn tests(status: &mut SherpackReleaseStatus, facts: &Facts<'_>) {
    let Some(tested) = tested(facts) else {
        // What was tested is not what is deployed now.
        status.conditions.retain(|known| known.type_ != condition::TESTED);
        return;
    };
    let (passed, reason, message) = match &tested.failure {
        None => {
            let message = match tested.count {
                0 => "the pack has no tests".to_owned(),
                1 => "1 test succeeded".to_owned(),
                count => format!("{count} tests succeeded"),
            };
            (ConditionStatus::True, reasons::TESTS_SUCCEEDED, message)
        }
        Some(failure) => (ConditionStatus::False, reasons::TEST_FAILED, failure.clone()),
    };
    let generation = facts.release.metadata.generation;
    conditions::set(
        &mut status.conditions,
        condition::TESTED,
        passed,
        reason,
        &message,
        generation,
        facts.now,
    );
}

/// Requests by annotation count as handled once a pass was made, however it ended. `held`: what stands in the
/// way left nothing to reset, so that request stays.
fn acknowledge(
    status: &mut SherpackReleaseStatus,
    release: &SherpackRelease,
    tested: Option<&Tested>,
    held: bool,
) {
    let annotation = |key: &str| release.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let reconcile_at = annotation(names::RECONCILE_AT);
    let before = status.last_handled.take();
    let reset_at = match annotation(names::RESET_AT) {
        Some(_) if held => before.as_ref().and_then(|handled| handled.reset_at.clone()),
        reset_at => reset_at,
    };
    let answered = tested.is_some_and(|tested| tested.request.is_some());
    if reconcile_at.is_none() && reset_at.is_none() && !answered && before.is_none() {
        return;
    }
    let tested = tested.and_then(|tested| tested.request.clone());
    let test_at = tested.or_else(|| before.and_then(|handled| handled.test_at));
    status.last_handled = Some(LastHandled { reconcile_at, reset_at, test_at });
}

#[cfg(test)]
mod tests;
