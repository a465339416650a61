//! One pass for one release: observe, decide, prepare, operate, update the status.
//!
//! A pass never blocks on health: a wait returns, and a watch event or a timer starts the next pass. All state
//! that matters is in the revision record; what a pass remembers only saves reads.

mod access;
mod context;
mod crds;
mod drift;
mod health;
mod inputs;
mod objects;
mod observe;
mod operation;
mod pass;
mod prepare;
mod records;
mod state;
mod status;

use std::time::Duration;

use jiff::Timestamp;

pub use context::budget::Budget;
pub use context::error::Error;
pub use context::let_go::LetGo;
pub use context::name_claims::NameClaims;
pub use context::packs::{Packs, PathLooks};
pub use context::review_cache::Rights;
pub use context::sharing::Sharing;
pub use context::throttle::Calm;
pub use context::values::ValuesKept;
pub use context::walks::Walks;
pub use context::{Context, Report, Snapshot};
pub(crate) use crds::definitions::refused_definition;
pub(crate) use inputs::lookup::Seen;
pub(crate) use objects::field_handover::left_to_others;
pub use pass::{Reconciler, Reserve};
pub(crate) use records::parsed::stored_parts;

use crate::api::{self};
use crate::release::Action;
use crate::release::decide::{self, Decision, Hold, Observation, Operation};
use context::Scope;
use inputs::wanted::Wanted;
use pass::Pass;
use prepare::revision::Prepared;
use state::progress::{Finished, Outcome, Progress};

/// Decisions that one pass may make: marking a pending record as failed is followed by another decision.
const DECISIONS: usize = 6;

/// How a pass ended.
enum End {
    /// When to come back, besides when something changes.
    Again(Option<Duration>),
    /// The release is gone.
    Gone,
}

/// What a decision is made from, and what is needed to act on it.
struct Observed {
    seen: Observation,
    /// What the release asks for, or why that cannot be read.
    wanted: Option<Wanted>,
    source_error: Option<Error>,
    /// What the account lacks to know the newest record.
    refused: Option<Error>,
    /// What it lacks to know the dependencies.
    lacks: Option<Error>,
    /// What is wanted instead of the newest revision, if it was prepared for the decision.
    prepared: Option<Prepared>,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<End, Error> {
        let asked_before = self.mem.revisions.backoff.requests.clone();
        if let Some(at) = self.waits_until() {
            // Whatever woke us, the last try failed a moment ago.
            return Ok(End::Again(Some(self.finishing().tell_until(at))));
        }
        let outcome = self.decide_and_operate().await;
        let refused = match &outcome {
            Ok(Outcome {
                progress: Progress::Finished(Finished { failure: Some((reason, _)), .. }), ..
            }) => Some(*reason),
            Ok(Outcome { progress: Progress::Blocked(error), .. }) | Err(error) => Some(error.reason()),
            Ok(_) => None,
        };
        if let Some(reason) = refused {
            self.access().doubt_rights(reason);
        }
        let result = self.update_status(self.shown(outcome)).await;
        if result.is_err() {
            // Nothing has been told: the request is as new as before.
            self.mem.revisions.backoff.requests = asked_before;
        }
        result
    }

    /// The main street; again when an operation only made way for another decision.
    async fn decide_and_operate(&mut self) -> Result<Outcome, Error> {
        for _ in 0..DECISIONS {
            let mut observed = self.observe().await?;
            let decision = self.decide(&mut observed).await?;
            if let Some(error) = observed.refused.take().filter(|_| !lets_go(&decision.operation)) {
                return Err(error);
            }
            let drift_error = self.before_operation(&decision).await?;
            let prepared = self.prepare(&decision.operation, &mut observed).await;
            let operated = self.operate(&decision.operation, prepared, observed).await?;
            let Some(progress) = operated else { continue };
            let progress = match progress {
                // A process may have died between deploying this revision and what follows from it, whatever holds the
                // next one up.
                Progress::Nothing | Progress::Blocked(_) if self.rests_deployed(&decision) => {
                    match self.catching_up().catch_up().await? {
                        Progress::Nothing => progress,
                        caught => caught,
                    }
                }
                progress => progress,
            };
            let progress = match (progress, drift_error) {
                (Progress::Nothing, Some(error)) => Progress::Blocked(error),
                (progress, _) => progress,
            };
            return Ok(Outcome { decision, progress });
        }
        Err(Error::Undecided)
    }

    async fn observe(&mut self) -> Result<Observed, Error> {
        let Scope { ctx, key, release, settings, .. } = self.scope;
        let refused = self.observing().head().await?;
        let deletion = match release.metadata.deletion_timestamp {
            Some(_) => Some(self.departing().observe_deletion().await?),
            None => None,
        };
        let taken = ctx.name_taken_by(release, settings, self.newest().head_owner());
        let (wanted, source_error) = if deletion.is_none() && taken.is_none() && !settings.suspend {
            match self.inputs().read().await {
                Ok(wanted) => (Some(wanted), None),
                Err(error) => (None, Some(error)),
            }
        } else {
            ctx.fetcher.leave(key);
            (None, None)
        };
        let inputs = wanted.as_ref().map(|wanted| wanted.inputs.clone());
        let healed = inputs.is_some() && self.recovery().healed().await?;
        let unreadable = source_error.as_ref().is_some_and(|error| error.class() != api::Class::Retry);
        let seen = self.observing().observation(inputs, deletion, taken);
        let mut seen = Observation { healed, unreadable, ..seen };
        if deletion.is_none() && !settings.suspend {
            self.preparing().observe_rollback(&mut seen).await?;
        }
        let lacks = self.observing().dependencies(&mut seen).await;
        Ok(Observed { seen, wanted, source_error, refused, lacks, prepared: None })
    }

    async fn decide(&mut self, observed: &mut Observed) -> Result<Decision, Error> {
        let Observed { seen, wanted, source_error, prepared, .. } = observed;
        if decide::asks_for_successor(seen) {
            (seen.successor, *prepared) = self.preparing().successor(seen, wanted.as_ref()).await;
        }
        self.preparing().learn_what_waits(seen, source_error.as_ref());
        let mut decision = decide::decide(seen);
        self.mem.prepare.no_way_back = None;
        self.mem.prepare.wanted.clone_from(&seen.inputs);
        if let (Operation::Rollback { target, .. }, None) = (&decision.operation, &seen.rollback_to)
            && !self.preparing().has_way_back(seen, *target).await?
        {
            decision = decide::decide(seen);
        }
        if decision.operation == Operation::Remove
            && !self.operating().removal_goes_on()
            && self.records().was_deployed_before(seen).await?
        {
            decision = decide::decide(seen);
        }
        tracing::debug!(release = %self.scope.key, ?decision, "decided");
        Ok(decision)
    }

    /// What comes before any operation: what a crash left to do, and drift of what is deployed. Gives why that was not put back.
    async fn before_operation(&mut self, decision: &Decision) -> Result<Option<Error>, Error> {
        self.decided = status::finish::decision_name(&decision.operation);
        self.concluding().conclude_before(&decision.operation).await?;
        let drift_error = if decision.correct { self.drift().correct().await.err() } else { None };
        if goes_on(&decision.operation) {
            // What begins anew has asked with what it reads.
            self.access().require_account().await?;
        }
        Ok(drift_error)
    }

    /// The revision that an operation begins with, if it begins with one.
    async fn prepare(
        &mut self,
        operation: &Operation,
        observed: &mut Observed,
    ) -> Result<Option<Prepared>, Error> {
        let prepared = observed.prepared.take();
        let (action, revision, attempt) = match *operation {
            Operation::Rollback { revision, target, attempt } => {
                return match prepared.filter(|_| observed.seen.rollback_to.is_some()) {
                    Some(prepared) => Ok(Some(prepared)),
                    None => self.preparing().rollback(revision, target, attempt).await.map(Some),
                };
            }
            Operation::Install { revision, attempt } => (Action::Install, revision, attempt),
            Operation::Upgrade { revision, attempt } => (Action::Upgrade, revision, attempt),
            Operation::StartOver if observed.wanted.is_some() => {
                (Action::Install, self.records().next_free_revision().await?, 1)
            }
            _ => return Ok(None),
        };
        let Some(wanted) = &observed.wanted else { return Ok(None) };
        let start_over = *operation == Operation::StartOver;
        match prepared.filter(|_| !start_over) {
            Some(prepared) => Ok(Some(prepared)),
            None => self.preparing().revision(wanted, action, revision, attempt, start_over).await.map(Some),
        }
    }

    /// Carries a decision out; `None`: it only made way for another one.
    async fn operate(
        &mut self,
        operation: &Operation,
        prepared: Result<Option<Prepared>, Error>,
        observed: Observed,
    ) -> Result<Option<Progress>, Error> {
        let Observed { seen, wanted, source_error, lacks, .. } = observed;
        let blocked = |error: Option<Error>| error.map_or(Progress::Nothing, Progress::Blocked);
        let progress = match operation {
            Operation::Recover | Operation::Interrupt => {
                self.records().end_pending(operation).await?;
                return Ok(None);
            }
            Operation::AcceptRecord => {
                self.records().accept_record().await?;
                self.mem.expectations.of = None;
                return Ok(None);
            }
            Operation::Install { .. } | Operation::Upgrade { .. } | Operation::Rollback { .. } => {
                return self.launch(prepared, &seen).await;
            }
            Operation::StartOver => match prepared? {
                Some(prepared) => self.begin(prepared).await?,
                None => return Err(source_error.unwrap_or(Error::Undecided)),
            },
            Operation::AwaitHook => return self.operating().await_hook().await,
            Operation::Hasten => self.operating().hasten().await?,
            Operation::Remove => return self.remove_failed().await,
            Operation::Test => match (self.operating().test().await?, source_error) {
                (Progress::Testing { run, .. }, blocked) => Progress::Testing { run, blocked },
                // That was all that could be done.
                (Progress::Nothing, error) => blocked(error),
                (progress, _) => progress,
            },
            Operation::Resume => self.operating().resume().await?,
            Operation::Uninstall | Operation::LetGo | Operation::Orphan => {
                self.take_release_away(operation, seen.deletion.unwrap_or_default()).await?
            }
            Operation::Hold(Hold::InputsUnknown) => blocked(source_error),
            Operation::Hold(Hold::AwaitingApproval { digest, next }) => {
                if let Some(wanted) = &wanted {
                    self.preparing().show_plan(wanted, digest, next).await?;
                }
                Progress::Nothing
            }
            Operation::Hold(Hold::DependencyNotReady(_)) => blocked(lacks),
            Operation::Hold(Hold::Suspended) => {
                // Its time counts from when it goes on.
                self.mem.revisions.running = None;
                Progress::Nothing
            }
            Operation::Nothing | Operation::Hold(_) | Operation::Wait => Progress::Nothing,
        };
        Ok(Some(progress))
    }

    /// The status of what the pass came to; without it, the end of a release that is gone.
    async fn update_status(&mut self, outcome: Result<Outcome, Error>) -> Result<End, Error> {
        let Ok(Outcome { progress: Progress::Gone, decision }) = &outcome else {
            return self.finishing().settle(outcome).await.map(End::Again);
        };
        self.mem.revisions.backoff.conflicts = 0;
        if matches!(decision.operation, Operation::Orphan) {
            self.orphaned().tell_what_stays().await;
        }
        let Scope { ctx, key, release, .. } = self.scope;
        self.mem.writes(ctx, key, release).drop_finalizer().await?;
        Ok(End::Gone)
    }

    /// When the last try failed a moment ago: until when nothing is tried again. Takes note of what is new.
    fn waits_until(&mut self) -> Option<Timestamp> {
        let Scope { ctx, key, release, settings, now, .. } = self.scope;
        let changes = ctx.references.changes(key);
        let source_changed =
            std::mem::replace(&mut self.mem.revisions.backoff.source_changes, changes) != changes;
        let newest = ctx.record_watch.newest(&self.records_of());
        let record_changed = self.mem.revisions.records.head.as_ref().is_some_and(|(_, at)| *at != newest);
        let sees_again = self.mem.revisions.backoff.blind && !ctx.objects.blind(key);
        self.mem.revisions.backoff.take_requests(&settings.requests);
        self.mem.revisions.backoff.retry_at.filter(|at| {
            now < *at
                && !(source_changed || record_changed || sees_again || self.scope.generation_changed())
                && !ctx.names.is_contested(key)
                && release.metadata.deletion_timestamp.is_none()
                && ctx.objects.suspicions(key).is_empty()
        })
    }

    /// The outcome without what Secrets hold.
    fn shown(&self, outcome: Result<Outcome, Error>) -> Result<Outcome, Error> {
        match outcome {
            Ok(Outcome { decision, progress: Progress::Blocked(error) }) => {
                Ok(Outcome { decision, progress: Progress::Blocked(self.secrets.hidden_error(error)) })
            }
            Ok(Outcome { decision, progress: Progress::Testing { run, blocked } }) => {
                let blocked = blocked.map(|error| self.secrets.hidden_error(error));
                Ok(Outcome { decision, progress: Progress::Testing { run, blocked } })
            }
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(self.secrets.hidden_error(error)),
        }
    }
}

/// The operation needs nothing but the record, and touches objects.
fn goes_on(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Resume
            | Operation::AwaitHook
            | Operation::Hasten
            | Operation::Rollback { .. }
            | Operation::Remove
            | Operation::Test
    )
}

/// The release goes without its records, so it need not have them.
fn lets_go(operation: &Operation) -> bool {
    matches!(operation, Operation::LetGo | Operation::Orphan)
}
