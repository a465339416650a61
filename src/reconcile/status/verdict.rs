//! One answer to "is it ready, and if not, why".

use jiff::Timestamp;

use super::{Facts, Finished, Outcome, Progress, stored};
use crate::api::conditions::Standing;
use crate::api::{Class, names, reasons};
use crate::reconcile::Error;
use crate::reconcile::records::failures::{failure, own_failure};
use crate::reconcile::state::progress::Run;
use crate::release::decide::{Decision, Doubt, Doubtful, Hold, Operation};
use crate::release::{Action, ReleaseKey, State, description};
use crate::storage::Head;

/// One answer to "is it ready, and if not, why".
pub(in crate::reconcile) struct Verdict {
    pub standing: Standing,
    pub reason: String,
    pub message: String,
}

impl Verdict {
    pub(super) fn new(standing: Standing, reason: &str, message: impl Into<String>) -> Self {
        Self { standing, reason: reason.to_owned(), message: message.into() }
    }

    /// The verdict on an error: its own reason and message.
    pub(in crate::reconcile) fn of(error: &Error) -> Self {
        let standing = match error.class() {
            _ if error.fetching_since().is_some() => Standing::Progressing,
            Class::FixSpec if !error.may_pass() => Standing::Stalled,
            Class::FixSpec | Class::Retry | Class::FixCluster => Standing::Retrying,
        };
        Self::new(standing, error.reason(), error.to_string())
    }
}

pub(super) fn verdict(facts: &Facts<'_>, outcome: &Outcome) -> Verdict {
    match &outcome.progress {
        Progress::Blocked(error) => Verdict::of(error),
        Progress::Running(run) if matches!(outcome.decision.operation, Operation::AwaitHook) => {
            ending(facts, run)
        }
        Progress::Running(run) => {
            let mut verdict = running(run);
            if let Some(why) = facts.waits_to_begin {
                verdict.message.push_str(&format!("; what is wanted now does not take over: {why}"));
            }
            verdict
        }
        Progress::Testing { blocked: Some(error), .. } => Verdict::of(error),
        Progress::Testing { run, blocked: None } => {
            let first = facts.release.spec.test.as_ref().is_some_and(|test| test.enabled == Some(true))
                && super::tested(facts).is_none();
            if first { running(run) } else { idle(facts, &outcome.decision) }
        }
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
        Progress::Dependents { named, .. } => dependents(named),
        Progress::Gone => Verdict::new(Standing::Progressing, reasons::UNINSTALLING, "the objects are gone"),
        Progress::Nothing => idle(facts, &outcome.decision),
    }
}

fn idle(facts: &Facts<'_>, decision: &Decision) -> Verdict {
    match &decision.operation {
        Operation::Hold(hold) => held(facts, hold, decision.until),
        Operation::Wait => {
            let (reason, message) = cause(facts);
            Verdict::new(Standing::Retrying, &reason, format!("{message}{}", next_try(decision.until)))
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

fn next_try(at: Option<Timestamp>) -> String {
    at.map(|at| format!("; next try at {at:.0}")).unwrap_or_default()
}

/// Why the release rests as it is. `until`: when it is tried again.
fn held(facts: &Facts<'_>, hold: &Hold, until: Option<Timestamp>) -> Verdict {
    match hold {
        Hold::Suspended => Verdict::new(Standing::Held, reasons::SUSPENDED, "spec.suspend is true"),
        Hold::ReleaseNameTaken { by } => {
            let message = format!(
                "the release {by} has this name and target already: set another spec.releaseName or delete one of the two"
            );
            Verdict::new(Standing::Stalled, reasons::RELEASE_NAME_TAKEN, message)
        }
        Hold::RecordLost => {
            let message = format!("the revision record is gone: {RECORD_MISSED}");
            Verdict::new(Standing::Stalled, reasons::RECORD_LOST, message)
        }
        Hold::RecordUnreadable { message } => {
            let message = format!("{message}: {RECORD_MISSED}");
            Verdict::new(Standing::Stalled, reasons::RECORD_UNREADABLE, message)
        }
        Hold::RecordDoubtful(doubtful) => doubted(doubtful),
        Hold::ForeignPending { until } => {
            let who = facts.claimant.unwrap_or("another tool has a pending revision of this release");
            let message = format!("{who}; it is left alone until {until:.0}");
            Verdict::new(Standing::Held, reasons::FOREIGN_PENDING, message)
        }
        Hold::RetriesExceeded { attempts } => exhausted(facts, *attempts, until),
        Hold::Paused => Verdict::new(
            Standing::Held,
            reasons::PAUSED,
            "spec.upgrade.paused is true and other inputs are waiting",
        ),
        Hold::AwaitingApproval { digest, .. } => {
            let summary = facts.plan.and_then(|plan| plan.summary.as_deref()).unwrap_or("a new revision");
            let message = format!(
                "{summary}; approve it with the annotation {}: {digest}, or with sherpack-operator approve",
                names::APPROVE
            );
            Verdict::new(Standing::Held, reasons::AWAITING_APPROVAL, message)
        }
        Hold::RollbackTargetInvalid { message } => Verdict::new(
            Standing::Stalled,
            reasons::ROLLBACK_TARGET_INVALID,
            format!("{message}; correct spec.rollbackTo or remove it"),
        ),
        Hold::DependencyNotReady(blocked) => {
            Verdict::new(Standing::Held, reasons::DEPENDENCY_NOT_READY, blocked.to_string())
        }
        // The caller has the error that says why.
        Hold::InputsUnknown => {
            Verdict::new(Standing::Retrying, reasons::SOURCE_INVALID, "the inputs cannot be read")
        }
    }
}

/// What is not done without a record, and the ways out.
const RECORD_MISSED: &str = "nothing is changed, locked or deleted; restore the Secret, or set the annotation sherpack.io/reset-at to start over from the spec";

fn exhausted(facts: &Facts<'_>, attempts: u32, until: Option<Timestamp>) -> Verdict {
    let (_, cause) = cause(facts);
    let undo = facts.no_way_back.map(|problem| format!("; {problem}")).unwrap_or_default();
    let next = match until {
        Some(_) => next_try(until),
        None => "; it is tried again with another spec, pack or values, or with the annotation sherpack.io/reset-at".to_owned(),
    };
    let message = format!("failed {attempts} times: {cause}{undo}{next}");
    Verdict::new(Standing::Stalled, reasons::RETRIES_EXCEEDED, message)
}

/// What to do about a record that is not acted on unasked.
fn doubted(doubtful: &Doubtful) -> Verdict {
    let Doubtful { doubt, digest, message } = doubtful;
    let (reason, restore) = match doubt {
        Doubt::KeyLost => (reasons::RECORD_KEY_LOST, "restore the record or the key of the records"),
        Doubt::Rewound => (reasons::RECORD_REWOUND, "restore its newest state"),
    };
    let otherwise = match digest {
        Some(digest) => {
            format!("vouch for this record with the annotation {}: {digest}", names::ACCEPT_RECORD)
        }
        None => format!(
            "give it up: delete its Secret and set the annotation {} to start over from the spec",
            names::RESET_AT
        ),
    };
    let message = format!("{message}: nothing is changed, locked or deleted; {restore}, or {otherwise}");
    Verdict::new(Standing::Stalled, reason, message)
}

fn dependents(named: &[Option<ReleaseKey>]) -> Verdict {
    let mut releases = named.iter();
    let Some(first) = releases.next() else {
        let message = "waiting a moment: releases that depend on this one may be deleted too";
        return Verdict::new(Standing::Progressing, reasons::WAITING_FOR_DEPENDENTS, message);
    };
    let first = match first {
        Some(first) => format!("the release {first}"),
        None => "a release in another namespace".to_owned(),
    };
    let others = match releases.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let message =
        format!("waiting until {first}{others}, which depends on this one and is being deleted too, is gone");
    Verdict::new(Standing::Progressing, reasons::WAITING_FOR_DEPENDENTS, message)
}

fn deployed(facts: &Facts<'_>, action: Action, revision: u32) -> Verdict {
    let reason = match action {
        Action::Upgrade => reasons::UPGRADE_SUCCEEDED,
        Action::Rollback => reasons::ROLLBACK_SUCCEEDED,
        Action::Install | Action::Uninstall => reasons::INSTALL_SUCCEEDED,
    };
    let test = facts.release.spec.test.clone().unwrap_or_default();
    if let Some(failure) = super::tested(facts).and_then(|tested| tested.failure.as_ref())
        && test.enabled == Some(true)
        && test.ignore_failures != Some(true)
    {
        let message = format!("revision {revision} is deployed, but a test failed: {failure}");
        return Verdict::new(Standing::Stalled, reasons::TEST_FAILED, message);
    }
    let pack = stored(facts.head)
        .map(|stored| format!(" of {} {}", stored.record.pack.name, stored.record.pack.version));
    Verdict::new(
        Standing::Ready,
        reason,
        format!(
            "revision {revision}{} is deployed{}{}",
            pack.unwrap_or_default(),
            pinned(facts),
            skipped(facts)
        ),
    )
}

/// What was left as it is.
pub(super) fn skipped(facts: &Facts<'_>) -> String {
    let private = stored(facts.head).and_then(|stored| stored.private.as_ref());
    let skipped = private.and_then(|private| description::skipped(&private.inventory));
    skipped.map(|skipped| format!("; {skipped}")).unwrap_or_default()
}

/// What a release that was rolled back by its spec does not do.
fn pinned(facts: &Facts<'_>) -> String {
    let pin = facts.release.spec.rollback_to;
    pin.map(|to| format!(" and pinned by spec.rollbackTo to what revision {to} was")).unwrap_or_default()
}

/// Reason and message of what the wanted inputs failed for, if that is known; else of the newest failure. Beside it how going back
/// failed where that did too.
fn cause(facts: &Facts<'_>) -> (String, String) {
    let stored = stored(facts.head);
    let private = stored.and_then(|stored| stored.private.as_ref());
    let mut known = private.into_iter().flat_map(|private| &private.failures);
    let (reason, mut message) = match known.find(|failed| Some(failed.inputs.as_str()) == facts.wanted) {
        Some(failed) => (failed.reason.clone(), failed.message.clone()),
        None => failure(facts.head),
    };
    let undoes = private.is_some_and(|private| private.undone.is_some());
    if let Some(record) = stored.map(|stored| &stored.record).filter(|_| undoes)
        && matches!(record.state, State::Failed { .. })
    {
        let (_, own) = own_failure(facts.head);
        message.push_str(&format!("; going back from it in revision {} failed too: {own}", record.version));
    }
    (reason, message)
}

fn running(run: &Run) -> Verdict {
    let verb = if run.phase == "test" { "testing" } else { verb(run.action) };
    // An uninstall leads to no revision.
    let to = if run.action == Action::Uninstall { "" } else { "to " };
    let message = format!("{verb} {to}revision {}{}", run.revision, awaited(run));
    Verdict::new(Standing::Progressing, reasons::PROGRESSING, message)
}

/// A hook of a revision that is not wanted any more is seen to its end.
fn ending(facts: &Facts<'_>, run: &Run) -> Verdict {
    let (reason, what) = match facts.release.metadata.deletion_timestamp {
        Some(_) => (reasons::UNINSTALLING, "uninstalling"),
        None => (reasons::PROGRESSING, "other inputs are wanted"),
    };
    let message = format!("{what}: first a hook of revision {} has to end{}", run.revision, awaited(run));
    Verdict::new(Standing::Progressing, reason, message)
}

/// What is waited for, and until when.
fn awaited(run: &Run) -> String {
    let Some((id, first)) = run.waiting.iter().next() else { return String::new() };
    let more = run.waiting.len() - 1;
    let others = if more == 0 { String::new() } else { format!(" and {more} more") };
    // The deadline and not the time that is left: that would be another message each time.
    let until = run.deadline.map(|deadline| format!(" until {deadline:.0}")).unwrap_or_default();
    format!(": waiting{until} for {id}{others}: {}", first.health.message)
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Install => "installing",
        Action::Upgrade => "upgrading",
        Action::Rollback => "rolling back",
        Action::Uninstall => "uninstalling",
    }
}
