//! One pass for one release: observe, decide, act, update the status.
//!
//! A pass never blocks on health: a wait returns, and a watch event or a timer starts the next pass. All state
//! that matters is in the revision record; what a pass remembers only saves reads.

mod access;
mod context;
mod crds;
mod drift;
mod health;
mod inputs;
mod lock;
mod objects;
mod observe;
mod operation;
mod prepare;
mod records;
mod state;
mod status;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use context::budget::Budget;
pub use context::error::Error;
pub use context::let_go::LetGo;
pub use context::name_claims::NameClaims;
pub use context::packs::Packs;
pub use context::review_cache::Rights;
pub use context::sharing::Sharing;
pub use context::throttle::Calm;
pub use context::values::ValuesKept;
pub use context::walks::Walks;
pub use context::{Context, Report, Snapshot};
pub(crate) use crds::definitions::refused_definition;
pub(crate) use inputs::lookup::Seen;
pub use lock::{Reserve, correct};
pub(crate) use objects::field_handover::left_to_others;
pub(crate) use records::parsed::stored_parts;
pub use state::Memory;

use crate::api::{self, Invalid, Settings, SherpackRelease, names};
use crate::release::decide::{self, Deletion, Hold, Observation, Operation};
use crate::release::{Action, ReleaseKey, State};
use crate::storage::{self, Head};
use crate::watch::RecordsOf;
use access::Access;
use access::claims::Claims;
use context::Scope;
use context::fair::Turn;
use crds::{Crds, Judging, TakeOver};
use drift::Drift;
use health::Waits;
use inputs::Inputs;
use inputs::wanted::Wanted;
use objects::{Deployed, Objects};
use observe::Observe;
use observe::dependencies::Dependents;
use operation::uninstall::Uninstalled;
use operation::{CatchUp, Conclude, Departing, Operate, Orphaned};
use prepare::revision::Prepared;
use records::{NewestRecord, Records};
use state::Remembered;
use state::progress::{Finished, Outcome, Progress};
use status::finish::Finish;
use status::release_writes::ReleaseWrites;

/// Decisions that one pass may make: marking a pending record as failed is followed by another decision.
const DECISIONS: usize = 6;

/// One pass over one release.
struct Pass<'a> {
    scope: Scope<'a>,
    mem: &'a mut Remembered,
    /// The decision in a word, for metrics.
    decided: &'static str,
    /// The memory that it may use.
    claimed: Option<Turn>,
    /// What came from Secrets.
    secrets: state::redact::Secrets,
}

impl<'a> Pass<'a> {
    fn new(scope: Scope<'a>, mem: &'a mut Remembered, decided: &'static str) -> Self {
        Self { scope, mem, decided, claimed: None, secrets: state::redact::Secrets::default() }
    }

    fn access(&self) -> Access<'_> {
        Access { scope: self.scope }
    }

    fn claims(&mut self) -> Claims<'_> {
        Claims { scope: self.scope, claimed: &mut self.claimed }
    }

    fn newest(&self) -> NewestRecord<'_> {
        NewestRecord { scope: self.scope, memory: &self.mem.records }
    }

    fn records(&mut self) -> Records<'_> {
        let Remembered { records, running, history, backoff, .. } = &mut *self.mem;
        Records { scope: self.scope, memory: records, running, history, backoff, claimed: &mut self.claimed }
    }

    fn inputs(&mut self) -> Inputs<'_> {
        Inputs { scope: self.scope, secrets: &mut self.secrets }
    }

    fn observe(&mut self) -> Observe<'_> {
        Observe { records: self.records() }
    }

    fn dependents(&mut self) -> Dependents<'_> {
        Dependents { scope: self.scope, awaited: &mut self.mem.awaited }
    }

    fn finishing(&mut self) -> Finish<'_> {
        let Remembered {
            status,
            records,
            running,
            backoff,
            history,
            drift,
            tally,
            claimant,
            ailing,
            prepare,
            ..
        } = &mut *self.mem;
        Finish {
            scope: self.scope,
            status,
            records,
            running,
            backoff,
            history,
            drift,
            tally,
            claimant,
            ailing: ailing.as_ref(),
            prepared: prepare,
        }
    }

    fn live(&self) -> Objects<'a> {
        Objects { scope: self.scope }
    }

    fn operate(&mut self) -> Operate<'_> {
        let Remembered {
            records,
            running,
            history,
            backoff,
            tally,
            expectations,
            ailing,
            deletion,
            secrets,
            ..
        } = &mut *self.mem;
        let claimed = &mut self.claimed;
        Operate {
            scope: self.scope,
            records: Records { scope: self.scope, memory: records, running, history, backoff, claimed },
            tally,
            expectations,
            ailing,
            deletion,
            secrets: &mut self.secrets,
            known: secrets,
        }
    }

    fn deployed(&mut self) -> Deployed<'_> {
        let Remembered { records, running, history, backoff, secrets, .. } = &mut *self.mem;
        let claimed = &mut self.claimed;
        Deployed {
            records: Records { scope: self.scope, memory: records, running, history, backoff, claimed },
            secrets: &mut self.secrets,
            known: secrets.as_ref(),
        }
    }

    fn concluding(&mut self) -> Conclude<'_> {
        Conclude { deployed: self.deployed() }
    }

    fn catching_up(&mut self) -> CatchUp<'_> {
        let Remembered { records, running, history, backoff, secrets, counted, .. } = &mut *self.mem;
        let claimed = &mut self.claimed;
        let records = Records { scope: self.scope, memory: records, running, history, backoff, claimed };
        let deployed = Deployed { records, secrets: &mut self.secrets, known: secrets.as_ref() };
        CatchUp { take_over: TakeOver { deployed, counted } }
    }

    fn departing(&self) -> Departing<'_> {
        Departing { newest: self.newest(), secrets: &self.secrets }
    }

    fn orphaned(&mut self) -> Orphaned<'_> {
        let Remembered { records, running, history, backoff, .. } = &mut *self.mem;
        let claimed = &mut self.claimed;
        let records = Records { scope: self.scope, memory: records, running, history, backoff, claimed };
        Orphaned { records, secrets: &self.secrets }
    }

    fn crds(&self) -> Crds<'a> {
        Crds { scope: self.scope }
    }

    fn judging(&mut self) -> Judging<'_> {
        let Remembered { records, counted, .. } = &mut *self.mem;
        Judging { newest: NewestRecord { scope: self.scope, memory: records }, counted }
    }

    fn drift(&mut self) -> Drift<'_> {
        let Remembered { records, running, history, backoff, secrets, drift, expectations, .. } =
            &mut *self.mem;
        let claimed = &mut self.claimed;
        let records = Records { scope: self.scope, memory: records, running, history, backoff, claimed };
        let deployed = Deployed { records, secrets: &mut self.secrets, known: secrets.as_ref() };
        Drift { deployed, memory: drift, expectations }
    }

    fn health(&self) -> Waits<'_> {
        Waits { scope: self.scope, secrets: &self.secrets }
    }

    /// Tells the metrics what was decided and how long the pass took.
    fn report(&self) {
        let took = Duration::try_from(Timestamp::now().duration_since(self.scope.now)).unwrap_or_default();
        self.scope.ctx.report.decided(self.decided, took);
    }
}

impl Remembered {
    /// The writes to a release, before anything is known of it.
    pub(in crate::reconcile) fn writes<'a>(
        &'a mut self,
        ctx: &'a Context,
        key: &'a ReleaseKey,
        release: &'a SherpackRelease,
    ) -> ReleaseWrites<'a> {
        let head = self.records.head.as_ref().map(|(head, _)| head);
        ReleaseWrites { ctx, key, release, memory: &mut self.status, head }
    }
}

/// Reconciles one release; gives when to come back, besides when something changes.
///
/// # Errors
/// Only what could not be told in the release's own status.
pub async fn reconcile(release: Arc<SherpackRelease>, ctx: &Context) -> Result<Option<Duration>, Error> {
    let key = ReleaseKey::of(&release);
    let mut memory = ctx.memory.of(&key);
    let mut mem = Arc::clone(&memory).lock_owned().await;
    if mem.records.told.as_ref().is_some_and(|(uid, _)| Some(uid) != release.metadata.uid.as_ref()) {
        // What is remembered is of another release of this name, whose finalizer somebody tore off.
        drop(mem);
        ctx.forget_key(&key);
        memory = ctx.memory.of(&key);
        mem = memory.lock_owned().await;
    }
    let _in_pass = ctx.packs.turns.in_pass(&key);
    if ctx.was_let_go(&release) {
        // The watch has not seen it go yet.
        drop(mem);
        ctx.memory.forget(&key);
        return Ok(None);
    }
    let Some(release) = ctx.current(&release, mem.status.own_version).await? else {
        ctx.forget(&key, &release);
        return Ok(None);
    };
    let now = Timestamp::now();
    let deleting = release.metadata.deletion_timestamp.is_some();
    if deleting && !has_finalizer(&release.metadata) {
        // Somebody else's finalizer holds it; ours is done.
        ctx.forget(&key, &release);
        return Ok(None);
    }
    let (settings, invalid) = match api::validate(&release, &ctx.policy) {
        Ok(settings) => {
            let cycle = ctx.cycle(&key, &settings);
            (settings, cycle)
        }
        Err(invalid) => (Settings::without_spec(&release, &ctx.policy), Some(invalid)),
    };
    if !ctx.policy.selects(&release) {
        // Another shard's, or that of none.
        ctx.leave(&key, &records_of(&settings));
        return Ok(None);
    }
    let invalid = invalid.filter(|_| !deleting);
    if !deleting {
        ctx.tell_bounded(&release, &settings.bounded, &mut mem.bounded);
    }
    if settings.lock.is_some() && !deleting {
        return lock::guard(&release, ctx, settings, invalid.as_ref(), &mut mem, now).await;
    }
    if let Some(invalid) = invalid.as_ref().filter(|_| !has_finalizer(&release.metadata)) {
        // Nothing was ever done for it, so nothing has to be undone either: no finalizer.
        ctx.claims_nothing(&release);
        let refused = status::refused(&release, invalid, now);
        return mem.writes(ctx, &key, &release).write_status(refused).await.map(|_| None);
    }
    let release = if has_finalizer(&release.metadata) {
        release
    } else {
        mem.writes(ctx, &key, &release).add_finalizer().await?
    };
    let cluster = ctx.cluster_of(&settings.acts_as, &key);
    let _claims = ctx.budget.in_pass(&key);
    let scope = Scope { ctx, key: &key, release: &release, settings: &settings, cluster: &cluster, now };
    let mut pass = Pass::new(scope, &mut mem, "None");
    let result = match &invalid {
        Some(invalid) => pass.refuse(invalid).await,
        None => pass.run().await,
    };
    pass.health().leave_probes(pass.mem.running.as_deref());
    pass.report();
    result
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<Option<Duration>, Error> {
        let changes = self.scope.ctx.references.changes(self.scope.key);
        let source_changed = std::mem::replace(&mut self.mem.backoff.source_changes, changes) != changes;
        let newest = self.scope.ctx.record_watch.newest(&self.records_of());
        let record_changed = self.mem.records.head.as_ref().is_some_and(|(_, at)| *at != newest);
        let sees_again = self.mem.backoff.blind && !self.scope.ctx.objects.blind(self.scope.key);
        let asked_before = self.mem.backoff.take_requests(&self.scope.settings.requests);
        if let Some(at) = self.mem.backoff.retry_at.filter(|at| self.scope.now < *at)
            && !(source_changed || record_changed || sees_again || self.scope.generation_changed())
            && !self.scope.ctx.names.is_contested(self.scope.key)
            && self.scope.release.metadata.deletion_timestamp.is_none()
            && self.scope.ctx.objects.suspicions(self.scope.key).is_empty()
        {
            // Whatever woke us, the last try failed a moment ago.
            return Ok(Some(self.finishing().tell_until(at)));
        }
        let outcome = self.decide_and_act().await;
        match &outcome {
            Ok(Outcome {
                progress: Progress::Finished(Finished { failure: Some((reason, _)), .. }), ..
            }) => {
                self.access().doubt_rights(reason);
            }
            Ok(Outcome { progress: Progress::Blocked(error), .. }) | Err(error) => {
                self.access().doubt_rights(error.reason());
            }
            Ok(_) => {}
        }
        let outcome = match outcome {
            Ok(Outcome { decision, progress: Progress::Blocked(error) }) => {
                Ok(Outcome { decision, progress: Progress::Blocked(self.secrets.hidden_error(error)) })
            }
            Ok(Outcome { decision, progress: Progress::Testing { run, blocked } }) => {
                let blocked = blocked.map(|error| self.secrets.hidden_error(error));
                Ok(Outcome { decision, progress: Progress::Testing { run, blocked } })
            }
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(self.secrets.hidden_error(error)),
        };
        let result = self.settle(outcome).await;
        if result.is_err() {
            // Nobody has been told: the request is as new as before.
            self.mem.backoff.requests = asked_before;
        }
        result
    }

    /// The main street: observe, decide, act; again when the act only made way for another decision.
    async fn decide_and_act(&mut self) -> Result<Outcome, Error> {
        for _ in 0..DECISIONS {
            let refused = self.observe().head().await?;
            let deletion = match self.scope.release.metadata.deletion_timestamp {
                Some(_) => Some(self.departing().observe_deletion().await?),
                None => None,
            };
            let taken = self.scope.ctx.name_taken_by(
                self.scope.release,
                self.scope.settings,
                self.newest().head_owner(),
            );
            let wanted = match (&deletion, &taken) {
                (None, None) if !self.scope.settings.suspend => Some(self.inputs().read().await),
                _ => {
                    self.scope.ctx.fetcher.leave(self.scope.key);
                    None
                }
            };
            let (wanted, source_error) = match wanted {
                Some(Ok(wanted)) => (Some(wanted), None),
                Some(Err(error)) => (None, Some(error)),
                None => (None, None),
            };
            let inputs = wanted.as_ref().map(|wanted| wanted.inputs.clone());
            let healed = inputs.is_some() && self.healed().await?;
            let unreadable = source_error.as_ref().is_some_and(|error| error.class() != api::Class::Retry);
            let mut seen =
                Observation { healed, unreadable, ..self.observe().observation(inputs, deletion, taken) };
            if deletion.is_none() && !self.scope.settings.suspend {
                self.observe_rollback(&mut seen).await?;
            }
            let lacks = self.observe().dependencies(&mut seen).await;
            let mut prepared = None;
            if decide::asks_for_successor(&seen) {
                (seen.successor, prepared) = self.successor(&seen, wanted.as_ref()).await;
            }
            self.learn_what_waits(&seen, source_error.as_ref());
            let mut decision = decide::decide(&seen);
            self.mem.prepare.no_way_back = None;
            self.mem.prepare.wanted.clone_from(&seen.inputs);
            if let (Operation::Rollback { target, .. }, None) = (&decision.operation, &seen.rollback_to)
                && !self.has_way_back(&mut seen, *target).await?
            {
                decision = decide::decide(&seen);
            }
            if decision.operation == Operation::Remove
                && !self.operate().removal_goes_on()
                && self.records().was_deployed_before(&mut seen).await?
            {
                decision = decide::decide(&seen);
            }
            tracing::debug!(release = %self.scope.key, ?decision, "decided");
            if let Some(error) = refused.filter(|_| !lets_go(&decision.operation)) {
                return Err(error);
            }
            self.decided = status::finish::decision_name(&decision.operation);
            self.concluding().conclude_before(&decision.operation).await?;
            let drift_error = if decision.correct { self.drift().correct().await.err() } else { None };
            if goes_on(&decision.operation) {
                // What begins anew has asked with what it reads.
                self.access().require_account().await?;
            }
            let progress = match &decision.operation {
                Operation::Recover | Operation::Interrupt => {
                    self.records().end_pending(&decision.operation).await?;
                    continue;
                }
                Operation::AcceptRecord => {
                    self.records().accept_record().await?;
                    self.mem.expectations.of = None;
                    continue;
                }
                Operation::Install { revision, attempt } | Operation::Upgrade { revision, attempt } => {
                    let installs = matches!(decision.operation, Operation::Install { .. });
                    let action = if installs { Action::Install } else { Action::Upgrade };
                    let Some(wanted) = &wanted else { return Err(Error::Undecided) };
                    let launched = match prepared {
                        Some(prepared) => self.begin(prepared).await,
                        None => self.launch(wanted, action, *revision, *attempt, false).await,
                    };
                    match launched {
                        Ok(progress) => progress,
                        Err(error) => {
                            self.stay_locked().await;
                            self.goes_on_instead(&seen, error)?;
                            continue;
                        }
                    }
                }
                Operation::StartOver => {
                    let Some(wanted) = &wanted else {
                        return Err(source_error.unwrap_or(Error::Undecided));
                    };
                    let revision = self.records().next_free_revision().await?;
                    self.launch(wanted, Action::Install, revision, 1, true).await?
                }
                Operation::AwaitHook => match self.operate().await_hook().await? {
                    Some(progress) => progress,
                    None => continue,
                },
                Operation::Rollback { revision, target, attempt } => {
                    let launched = match prepared.filter(|_| seen.rollback_to.is_some()) {
                        Some(prepared) => self.begin(prepared).await,
                        None => self.launch_rollback(*revision, *target, *attempt).await,
                    };
                    match launched {
                        Ok(progress) => progress,
                        Err(error) => {
                            self.stay_locked().await;
                            self.goes_on_instead(&seen, error)?;
                            continue;
                        }
                    }
                }
                Operation::Hasten => self.operate().hasten().await?,
                Operation::Remove => match self.remove_failed().await? {
                    Some(progress) => progress,
                    None => continue,
                },
                Operation::Test => match (self.operate().test().await?, source_error) {
                    (Progress::Testing { run, .. }, blocked) => Progress::Testing { run, blocked },
                    // That was all that could be done.
                    (Progress::Nothing, Some(error)) => Progress::Blocked(error),
                    (progress, _) => progress,
                },
                Operation::Resume => self.operate().resume().await?,
                Operation::Uninstall => self.uninstall().await?,
                Operation::LetGo => {
                    match deletion.unwrap_or_default() {
                        Deletion { account_gone: true, namespace_terminating, .. } => {
                            self.departing().let_go_without_account(namespace_terminating).await?;
                        }
                        _ => self.departing().let_go().await?,
                    }
                    Progress::Gone
                }
                Operation::Orphan => {
                    self.departing().clear_up_records().await?;
                    Progress::Gone
                }
                Operation::Hold(Hold::InputsUnknown) => match source_error {
                    Some(error) => Progress::Blocked(error),
                    None => Progress::Nothing,
                },
                Operation::Hold(Hold::AwaitingApproval { digest, next }) => {
                    if let Some(wanted) = &wanted {
                        self.show_plan(wanted, digest, next).await?;
                    }
                    Progress::Nothing
                }
                Operation::Hold(Hold::DependencyNotReady(_)) => match lacks {
                    Some(error) => Progress::Blocked(error),
                    None => Progress::Nothing,
                },
                Operation::Nothing => Progress::Nothing,
                Operation::Hold(Hold::Suspended) => {
                    // Its time counts from when it goes on.
                    self.mem.running = None;
                    Progress::Nothing
                }
                Operation::Hold(_) | Operation::Wait => Progress::Nothing,
            };
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

    /// The newest record is deployed, ours, and nothing is done about it in this pass.
    fn rests_deployed(&self, decision: &decide::Decision) -> bool {
        let rests = match &decision.operation {
            Operation::Nothing | Operation::Wait => true,
            Operation::Hold(hold) => !matches!(hold, Hold::Suspended | Hold::ReleaseNameTaken { .. }),
            _ => false,
        };
        let Some((Head::Ours(head), _)) = &self.mem.records.head else { return false };
        rests && self.newest().own_private().is_some() && head.record.state == State::Deployed
    }

    /// An operation could not even begin, so what is deployed stays as it is, and stays locked.
    async fn stay_locked(&mut self) {
        // Its own error is the one to tell: it stands in the way, and drift is tried again with the operation.
        if let Err(error) = self.correct_deployed(None).await {
            let error = self.secrets.shown(&error);
            tracing::debug!(release = %self.scope.key, error, "drift was not put back");
        }
    }

    /// Puts drift back unless an operation of ours has begun, whatever is wanted next.
    async fn correct_deployed(&mut self, name_taken_by: Option<String>) -> Result<(), Error> {
        // Where it is pinned to is wanted next, too.
        let seen = Observation { rollback_to: None, ..self.observe().observation(None, None, name_taken_by) };
        if decide::decide(&seen).correct { self.drift().correct().await } else { Ok(()) }
    }

    /// A spec that cannot be acted on: said in the status. What is deployed stays, and stays locked.
    async fn refuse(&mut self, invalid: &Invalid) -> Result<Option<Duration>, Error> {
        self.decided = "Refuse";
        self.scope.ctx.fetcher.leave(self.scope.key);
        if let Err(error) = self.observe().head().await {
            return self.finishing().settle_refused(invalid, Err(error)).await;
        }
        let taken =
            self.scope.ctx.name_taken_by(self.scope.release, self.scope.settings, self.newest().head_owner());
        // Only a person can mend it, and until then nothing takes the place of what failed.
        let mut seen = Observation {
            unreadable: true,
            rollback_to: None,
            ..self.observe().observation(None, None, taken)
        };
        let decision = decide::decide(&seen);
        // An operation that has begun goes on to its end with what its record says.
        let outcome = match &decision.operation {
            Operation::Rollback { .. } => self.undo_refused(&mut seen, &decision.operation).await,
            Operation::Resume => match self.access().require_account().await {
                Ok(()) => self.operate().resume().await,
                Err(error) => Err(error),
            },
            _ if decision.correct => self.drift().correct().await.map(|()| Progress::Nothing),
            _ => Ok(Progress::Nothing),
        };
        let outcome = match outcome {
            Ok(Progress::Nothing) if self.rests_deployed(&decision) => self.catching_up().catch_up().await,
            outcome => outcome,
        };
        let outcome = outcome.map(|progress| Outcome { decision, progress });
        self.finishing().settle_refused(invalid, outcome).await
    }

    /// The status of what the pass came to; without it, the end of a release that is gone.
    async fn settle(&mut self, outcome: Result<Outcome, Error>) -> Result<Option<Duration>, Error> {
        let Ok(Outcome { progress: Progress::Gone, decision }) = &outcome else {
            return self.finishing().settle(outcome).await;
        };
        self.mem.backoff.conflicts = 0;
        if matches!(decision.operation, Operation::Orphan) {
            self.orphaned().tell_what_stays().await;
        }
        let Scope { ctx, key, release, .. } = self.scope;
        self.mem.writes(ctx, key, release).drop_finalizer().await?;
        ctx.forget(key, release);
        Ok(None)
    }

    /// Begins with a revision, if the account that acts may do all of it.
    async fn begin(&mut self, prepared: Prepared) -> Result<Progress, Error> {
        self.preflight(&prepared).await?;
        self.operate().begin(prepared).await
    }

    /// A first install failed for good: its objects go.
    async fn remove_failed(&mut self) -> Result<Option<Progress>, Error> {
        let undone = self.undone();
        self.operate().remove_failed(undone).await
    }

    /// Deletes the objects, then the records unless they are to be kept.
    async fn uninstall(&mut self) -> Result<Progress, Error> {
        self.preflight_uninstall().await?;
        if self.operate().uninstall_begins()
            && let Some(waits) = self.dependents().await_them()
        {
            return Ok(waits);
        }
        if let Uninstalled::Not(progress) = self.operate().uninstall().await? {
            return Ok(progress);
        }
        if !self.scope.settings.uninstall.keep_history {
            let now = self.scope.now;
            self.finishing().writes().checkpoint_records(now).await?;
            self.departing().remove_records().await?;
        }
        Ok(Progress::Gone)
    }

    async fn launch(
        &mut self,
        wanted: &Wanted,
        action: Action,
        revision: u32,
        attempt: u32,
        start_over: bool,
    ) -> Result<Progress, Error> {
        let prepared = self.prepare(wanted, action, revision, attempt, start_over).await?;
        self.begin(prepared).await
    }

    fn records_of(&self) -> RecordsOf {
        records_of(self.scope.settings)
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

fn has_finalizer(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER)
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    // A little late is better than a little early: an early pass would find nothing to do and come back.
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO) + Duration::from_millis(5)
}

fn records_of(settings: &Settings) -> RecordsOf {
    let Settings { history_storage, history_namespace, target_namespace, release_name, .. } = settings;
    RecordsOf {
        storage: *history_storage,
        namespace: history_namespace.clone(),
        stem: storage::stem(history_namespace, target_namespace, release_name),
    }
}
