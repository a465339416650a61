//! Carries out an install, upgrade or rollback: record, steps, prune, record.
//!
//! Every step may be repeated: applies are idempotent, deletes carry the uid, hooks know their run. A wait returns
//! and is woken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Class, conditions, names};
use crate::manifest::ObjectId;
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::ownership::Survey;
use crate::reconcile::objects::ownership::never_applied;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::checkpoint::checkpointed;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::prepare::revision::Prepared;
use crate::reconcile::records::bulk::pack;
use crate::reconcile::records::failures;
use crate::reconcile::records::history;
use crate::reconcile::records::parsed::parts_in;
use crate::reconcile::records::planned::{action_of, plan_of, private};
use crate::reconcile::records::write::mark_failed;
use crate::reconcile::state::Ailing;
use crate::reconcile::state::Bulk;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::progress::{Finished, Progress, Run};
use crate::release::{State, description};
use crate::storage::{Head, Records, Stored};

/// What an API server refuses for this long is refused: it has long known by then who may do what.
const REFUSED_FOR: Duration = Duration::from_secs(10);

impl Operate<'_> {
    /// Stores the pending revision and begins to act on it.
    pub(in crate::reconcile) async fn begin(&mut self, prepared: Prepared) -> Result<Progress, Error> {
        if self.scope.settings.create_namespace {
            self.scope.cluster.ensure_namespace(&self.scope.settings.target_namespace).await?;
        }
        let Prepared { record, mut private, parts, plan, before } = prepared;
        let Survey { found, adopted, unexplained, absent } =
            self.live().check_ownership(&parts.objects, &private, before.as_ref()).await?;
        self.live().check_hooks(&parts.hooks, &private.owner.uid, before.as_ref()).await?;
        for entry in private.inventory.iter_mut().filter(|entry| adopted.contains(&entry.id)) {
            entry.adopt(record.version, unexplained.contains(&entry.id));
        }
        for entry in private.inventory.iter_mut().filter(|entry| absent.contains(&entry.id)) {
            // What comes there is another object, and may be another owner's.
            (entry.uid, entry.fingerprint) = (None, None);
        }
        private.adopts = private.has_adopted();
        self.expected().expect_wanted(&private.inventory).await?;
        self.live().respect_takers(&parts.objects, &found, &mut private).await?;
        let records = self.access().record_store().await?;
        let before = self.records.memory.head.take();
        let stored = match records.create(&record, &private).await {
            Ok(stored) => stored,
            Err(error) => {
                if error.class() == Class::Retry {
                    // It may be stored, and then what ran until now is over.
                    *self.records.running = None;
                    self.records.memory.unanswered = true;
                }
                // A clear refusal stored nothing: what is known of the newest record still holds.
                self.records.memory.head = before.filter(|_| error.class() != Class::Retry);
                return Err(error.into());
            }
        };
        self.records.wrote(&stored);
        *self.known = self.secrets.known(stored.record.version);
        // What ran until now is over, whether it can be written down now or later.
        *self.records.running = None;
        match &before {
            Some((Head::Ours(old), _)) if old.record.state.is_pending() => {
                self.records.interrupt(old.record.version).await?;
            }
            Some((Head::Ours(old), _)) if old.record.state != State::Deployed => {
                // A failed revision is not rewritten any more: this is where it stops being the head.
                self.access().record_store().await?.set_head(&old.meta(), false).await?;
            }
            Some((Head::Foreign(_), _)) => self.records.end_left(record.version).await?,
            _ => {}
        }
        *self.records.running = Some(self.running(stored, parts, plan, absent));
        self.advance().await
    }

    /// Goes on with a rollback, without waiting for what it applies to be healthy.
    pub(in crate::reconcile) async fn hasten(&mut self) -> Result<Progress, Error> {
        self.load_running().await?;
        if let Some(running) = &mut *self.records.running {
            running.hasty = true;
        }
        self.advance().await
    }

    /// Goes on with our own pending record from what it says.
    pub(in crate::reconcile) async fn resume(&mut self) -> Result<Progress, Error> {
        self.load_running().await?;
        self.advance().await
    }

    /// Makes sure that the operation of the newest record is in memory.
    pub(in crate::reconcile) async fn load_running(&mut self) -> Result<(), Error> {
        if self.records.running.is_none() {
            let stored = self.records.read_head_whole().await?;
            if stored.record.version > 1 && stored.record.state.is_pending() {
                // The process before may have died when it had stored this and not yet ended what it replaces.
                self.records.interrupt(stored.record.version - 1).await?;
            }
            let parts = parts_in(&stored).await?;
            let plan = plan_of(&stored, &parts)?;
            // It is not known how long ago it was asked whose they are; those that the process before applied carry our mark.
            let mut absent = never_applied(&stored);
            if !matches!(stored.record.state, State::Deployed | State::PendingUninstall { .. }) {
                absent.extend(self.live().made_anew(&stored).await?);
            }
            let running = self.running(stored, parts, plan, absent);
            if running.at > 0
                && let Some(private) = private(&running.stored)
            {
                // What the process before applied is locked by what it wrote down.
                self.live().expect(&private.inventory).await?;
            }
            *self.records.running = Some(running);
        }
        Ok(())
    }

    /// The deadline counts from here: the time in which no process worked on the operation does not count.
    fn running(
        &self,
        stored: Stored,
        parts: plan::Parts,
        plan: plan::Plan,
        absent: BTreeSet<ObjectId>,
    ) -> Box<Running> {
        // An uninstall never gives up; a status says when it is late.
        let (started, deadline) = match stored.record.state {
            State::PendingUninstall { started_at, .. } => (started_at, Timestamp::MAX),
            _ => (self.scope.now, self.scope.later(self.scope.settings.timeout)),
        };
        let checkpoint = private(&stored).and_then(|private| private.operation.as_ref());
        let at = checkpoint.and_then(|operation| checkpointed(operation, &plan)).unwrap_or(0);
        Box::new(Running {
            at,
            saved: at,
            stored,
            parts,
            plan,
            deadline,
            started,
            bulk: Bulk::Here,
            applied: HashMap::new(),
            absent,
            handed_over: false,
            hasty: false,
            ailing: None,
            refused_since: None,
            queued_at: None,
            stage: Stage::Begin,
            untold: Some(self.scope.ctx.calm.operation()),
        })
    }

    async fn advance(&mut self) -> Result<Progress, Error> {
        // Taken out for the time of the steps; put back unless the operation ended.
        let Some(mut running) = self.records.running.take() else { return Ok(Progress::Nothing) };
        let generated = private(&running.stored).map(|private| &private.secrets);
        let hooks = running.parts.hooks.iter().map(|hook| &hook.object);
        let bodies = running.parts.objects.iter().chain(hooks);
        self.secrets.recall(self.known.as_ref(), running.stored.record.version, generated, bodies);
        let step = self.steps(&mut running).await;
        if let Ok(Step::Wait { .. }) = step {
            running.refused_since = None;
        }
        match step {
            Ok(Step::Done) => self.finish(running).await,
            Ok(Step::Wait { until }) => {
                let progress = Progress::Running(Run::of(&running, until));
                self.keep_running(running);
                Ok(progress)
            }
            Ok(Step::Failed { reason, message, undo }) => {
                if let Some(private) = running.stored.private.as_mut() {
                    private.undo_at_once = undo;
                }
                self.fail(running, reason, message).await
            }
            // Another writer holds the record: that writer says what is to be done.
            Err(error) if error.is_conflict() => Err(error),
            Err(error) if error.class() != Class::Retry && !self.bears(&error, &mut running) => {
                let (reason, message) = (error.reason(), self.secrets.shown(&error));
                self.fail(running, reason, message).await
            }
            Err(error @ Error::Queued { .. }) => {
                self.keep_running(running);
                Err(error)
            }
            Err(error) if self.scope.now >= running.deadline => {
                let gave_up = crate::api::duration::format(self.scope.settings.timeout);
                let message = format!("{}; gave up after {gave_up}", self.secrets.shown(&error));
                self.fail(running, error.reason(), message).await
            }
            Err(error) => {
                self.keep_running(running);
                Err(error)
            }
        }
    }

    /// Keeps an operation until the next pass, without its bulk.
    pub(in crate::reconcile) fn keep_running(&mut self, mut running: Box<Running>) {
        pack(&mut running);
        *self.records.running = Some(running);
    }

    /// A refusal that is not final yet: an operation does not fail for an API server that is starting.
    fn bears(&self, error: &Error, running: &mut Running) -> bool {
        if !error.may_pass() {
            return false;
        }
        let since = *running.refused_since.get_or_insert(self.scope.now);
        since.checked_add(REFUSED_FOR).is_ok_and(|stands| self.scope.now < stands)
    }

    async fn finish(&mut self, mut running: Box<Running>) -> Result<Progress, Error> {
        let result = self.rollout().prune(&mut running).await;
        if let Err(error) = result {
            // The objects are applied and healthy; what could not be pruned is tried again until the deadline.
            let passes = error.class() == Class::Retry || self.bears(&error, &mut running);
            if passes && self.scope.now < running.deadline {
                self.keep_running(running);
                return Err(error);
            }
            let (reason, message) = (error.reason(), self.secrets.shown(&error));
            return self.fail(running, reason, message).await;
        }
        let Running { mut stored, started, ailing, .. } = *running;
        let last_deployed = private(&stored).and_then(|private| private.last_deployed);
        let action = action_of(&stored);
        stored.record.state = State::Deployed;
        stored.record.updated_at = self.scope.now;
        let mut kept = Vec::new();
        if let Some(private) = stored.private.as_mut() {
            kept = plan::make_own(&mut private.inventory);
            private.last_deployed = Some(stored.record.version);
            private.forget_failure();
            private.operation = None;
            if let Some(skipped) = description::skipped(&private.inventory) {
                let happened = description::describe(&stored.record, Some(action));
                let told = conditions::clip(&format!("{happened}; {skipped}"));
                stored.record.labels.insert(names::DESCRIPTION.to_owned(), told);
            }
        }
        let stored = self.records.save(&stored, true).await?;
        self.records.wrote(&stored);
        self.live().forget_kept(kept).await;
        self.expectations.of = Some(stored.record.version);
        self.live().release_unused_kinds(&stored);
        self.scope.ctx.report.operation(self.scope.key, action, "success", since(started));
        self.concluding().conclude(&stored, last_deployed, ailing).await
    }

    pub(in crate::reconcile) async fn fail(
        &mut self,
        running: Box<Running>,
        reason: &'static str,
        message: String,
    ) -> Result<Progress, Error> {
        let message = self.secrets.hidden(message);
        let mut running = running;
        if let Err(error) = self.records.unpack(&mut running).await {
            self.keep_running(running);
            return Err(error);
        }
        let Running { mut stored, started, stage, .. } = *running;
        let mut waiting = match stage {
            Stage::Wait { waiting, .. } => waiting,
            Stage::Begin | Stage::Leaving { .. } | Stage::Hook(_) => BTreeMap::new(),
        };
        // Only an operation asks; from now on the objects' own health counts.
        waiting.values_mut().for_each(|object| object.probe = None);
        self.health().wake_on(&waiting);
        let action = action_of(&stored);
        let revision = stored.record.version;
        mark_failed(&mut stored, format!("{reason}: {message}"), self.scope.now);
        failures::note(&mut stored, reason, &message, self.scope.now);
        let mut stored = self.records.save(&stored, true).await?;
        self.records.wrote(&stored);
        self.live().release_failed_jobs(self.secrets, &mut stored, &waiting).await;
        // Where nothing was waited for yet, nothing is known of the objects.
        let known = !waiting.is_empty();
        *self.ailing =
            known.then_some(Ailing { revision, waiting, looked_at: self.scope.now, look_at: None });
        self.records.retain_if_possible(revision).await;
        self.records.newest().sweep_kept(stored.private.as_ref()).await;
        let (manifest_digest, values_digest) = history::digests(&stored);
        self.scope.ctx.report.operation(self.scope.key, action, "failure", since(started));
        let failure = Some((reason, message));
        let ailing = None;
        Ok(Progress::Finished(Finished { action, revision, failure, ailing, manifest_digest, values_digest }))
    }
}

/// How long an operation took; the clock of the pass is too coarse for one that began in it.
pub(in crate::reconcile) fn since(started: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(started)).unwrap_or_default()
}
