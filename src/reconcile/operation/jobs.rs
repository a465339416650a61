//! Jobs that are no hooks: each runs once in a revision.
//!
//! Its `ttlSecondsAfterFinished` is left out of its apply until the record says how it ended. So nobody can take the result
//! away before it is written down, and afterwards it does not matter who takes the Job away: it is not made again. A revision
//! whose Job has the same body takes over that it succeeded; another body is another Job.
//!
//! Which Jobs an operation has made stands in its checkpoint. One that is gone without an end that is written down has failed,
//! also for a process that has not seen it go.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{names, reasons};
use crate::cluster::Applied;
use crate::health::{self, Status};
use crate::manifest::{InventoryEntry, Object, ObjectId, Ran};
use crate::plan;
use crate::reconcile::health::verdict::describe;
use crate::reconcile::health::wait::DELETED;
use crate::reconcile::operation::steps::Step;
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::reconcile::{Error, Pass};
use crate::release::{Begun, Operation, OperationPhase, Private};
use crate::storage::{Head, Stored};

impl Pass<'_> {
    /// Writes down which Jobs an operation has made. Until then their marks tell: who finds one of them goes on with it.
    pub(in crate::reconcile) async fn note_jobs(
        &mut self,
        running: &mut Running,
        wave: i32,
    ) -> Result<(), Error> {
        let known =
            |id: &ObjectId, uid: &String| begun(running).any(|begun| begun.id == *id && begun.uid == *uid);
        let open = jobs(running.stored.private.as_ref()).filter(|entry| entry.ran.is_none());
        let made = open.filter_map(|entry| {
            let uid = running.applied.get(&entry.id)?.uid()?;
            (!known(&entry.id, &uid)).then(|| Begun { id: entry.id.clone(), uid })
        });
        let jobs: Vec<Begun> = made.collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let operation = Operation { phase: OperationPhase::Apply, wave, step: 0, hook: None, jobs };
        self.checkpoint_with(running, operation, None).await
    }

    /// A Job among those that are about to be applied, which this operation has made and which is there no more: nobody knows
    /// how it ended, and it runs only once.
    pub(in crate::reconcile) async fn lost_job(
        &self,
        running: &mut Running,
        groups: &[Vec<usize>],
    ) -> Result<Option<Step>, Error> {
        for index in groups.iter().flatten() {
            let Some(object) = running.parts.objects.get(*index) else { continue };
            let id = &object.id;
            let Some(uid) = self.awaited_run(running, id) else { continue };
            if running.applied.contains_key(id) {
                continue;
            }
            let live = self.scope.cluster.metadata(&object.api_version, id).await?;
            if live.is_none_or(|live| live.uid.as_ref() != Some(&uid) || live.deletion_timestamp.is_some()) {
                let mut lost = Waiting::unseen(&object.api_version, DELETED, self.scope.now);
                (lost.uid, lost.failed_since) = (Some(uid), Some(self.scope.now));
                (lost.health.status, lost.health.terminal) = (Status::Failed, true);
                let message = describe(id, &lost);
                // What it failed for, so that nothing else heals it.
                let waiting = BTreeMap::from([(id.clone(), lost)]);
                let (looked_at, deadline) = (self.scope.now, running.deadline);
                running.stage = Stage::Wait { waiting, looked_at, deadline, jobs: BTreeSet::new() };
                return Ok(Some(Step::Failed { reason: reasons::HEALTH_FAILED, message, undo: false }));
            }
        }
        Ok(None)
    }

    /// The Job of this name that the operation has made and waits for. One that nobody waits for is put back like all else.
    pub(in crate::reconcile) fn awaited_run(&self, running: &Running, id: &ObjectId) -> Option<String> {
        let uid = run_of(running, id)?;
        let named = |index: &usize| running.parts.objects.get(*index).is_some_and(|object| object.id == *id);
        let waits = running.plan.steps.iter().any(|step| match step {
            plan::Step::Wait { objects, wait, .. } => self.waits(*wait) && objects.iter().any(named),
            _ => false,
        });
        (waits && !running.hasty).then_some(uid)
    }

    /// Jobs of a wait that have ended and whose end is not written down, or that have no ttl yet. Writes it down, then gives
    /// them their ttl.
    pub(in crate::reconcile) async fn settle_jobs(&mut self, running: &mut Running) -> Result<(), Error> {
        let Stage::Wait { waiting, jobs, .. } = &running.stage else { return Ok(()) };
        let ended: BTreeSet<ObjectId> = jobs.iter().filter(|id| !waiting.contains_key(id)).cloned().collect();
        if ended.is_empty() {
            return Ok(());
        }
        self.records().unpack(running).await?;
        let mut next = running.stored.clone();
        if self.record_ends(&mut next, &ended).await? {
            running.stored = self.records().save(&next, true).await?;
            self.records().wrote(&running.stored);
        }
        self.give_ttl(&mut running.stored).await?;
        let left = unsettled(running.stored.private.as_ref(), &ended);
        if let Stage::Wait { jobs, .. } = &mut running.stage {
            // A suspended one is waited for by nobody; it may go on later.
            jobs.retain(|id| !ended.contains(id) || left.contains(id));
        }
        Ok(())
    }

    /// The same for what is deployed: nobody may have waited for its Jobs. Wakes the release when they change.
    pub(in crate::reconcile) async fn settle_deployed_jobs(&mut self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.mem.records.head else { return Ok(()) };
        let all: BTreeSet<ObjectId> = jobs(head.private.as_ref()).map(|entry| entry.id.clone()).collect();
        let due = unsettled(head.private.as_ref(), &all);
        if due.is_empty() {
            return Ok(());
        }
        let news: BTreeSet<ObjectId> = {
            let mut table = self.scope.ctx.objects.table();
            table.wake_on(self.scope.key, &due);
            due.iter().filter(|id| table.news(id).is_some()).cloned().collect()
        };
        let has_no_ttl_yet =
            jobs(head.private.as_ref()).any(|entry| entry.ran.as_ref().is_some_and(|ran| ran.ttl_due));
        if news.is_empty() && !has_no_ttl_yet {
            return Ok(());
        }
        let mut stored = self.records().read_head_whole().await?;
        self.secrets.recall_record(self.mem.secrets.as_ref(), &stored);
        if self.record_ends(&mut stored, &news).await? {
            stored = self.records().save(&stored, true).await?;
            self.records().wrote(&stored);
        }
        if self.give_ttl(&mut stored).await? {
            let stored = self.records().save(&stored, true).await?;
            self.records().wrote(&stored);
        }
        Ok(())
    }

    /// Says in a record how these Jobs ended, if they have; whether there was anything to say.
    async fn record_ends(&self, stored: &mut Stored, of: &BTreeSet<ObjectId>) -> Result<bool, Error> {
        let objects = objects_in(stored).await?;
        let Some(private) = stored.private.as_mut() else { return Ok(false) };
        let uid = private.owner.uid.clone();
        let mut changed = false;
        for entry in
            private.inventory.iter_mut().filter(|entry| entry.ran.is_none() && of.contains(&entry.id))
        {
            let Some(live) = self.scope.cluster.get(&entry.api_version, &entry.id).await? else { continue };
            self.scope.ctx.objects.table().looked(&entry.id, live.version);
            if let Some(failed) = end_of(&live, entry, &uid, self.scope.now) {
                let object = objects.iter().find(|object| object.id == entry.id);
                entry.uid = live.uid();
                entry.ran = Some(Ran { failed, ttl_due: object.is_some_and(plan::has_ttl) });
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Applies Jobs whose end is written down once more, with their ttl; whether there were any. One that is gone by now needs
    /// none.
    async fn give_ttl(&mut self, stored: &mut Stored) -> Result<bool, Error> {
        // What was there before must not go for a ttl of ours before a revision with it is deployed.
        let lent = |entry: &InventoryEntry| entry.adopted.as_ref().is_some_and(|adopted| !adopted.deployed);
        let due = |entry: &InventoryEntry| entry.ran.as_ref().is_some_and(|ran| ran.ttl_due) && !lent(entry);
        if !stored.private.iter().flat_map(|private| &private.inventory).any(due) {
            return Ok(false);
        }
        let objects: BTreeMap<ObjectId, Object> =
            objects_in(stored).await?.into_iter().map(|object| (object.id.clone(), object)).collect();
        let Some(private) = stored.private.as_mut() else { return Ok(false) };
        let (rules, uid) = (self.rules(private), private.owner.uid.clone());
        for entry in private.inventory.iter_mut().filter(|entry| due(entry)) {
            if let Some(object) = objects.get(&entry.id) {
                let left = self.leave_ignored(object, entry, &rules, None).await?;
                let object = left.object.as_ref().unwrap_or(object);
                match self.apply_one(object, entry, &rules, &uid).await.1 {
                    Ok(applied) => entry.fingerprint = applied.fingerprint,
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(ran) = &mut entry.ran {
                ran.ttl_due = false;
            }
        }
        Ok(true)
    }

    /// Lets a failed Job go when its ttl says so: the next attempt can make it anew only when it is gone.
    pub(in crate::reconcile) async fn release_failed_jobs(
        &mut self,
        stored: &mut Stored,
        waiting: &BTreeMap<ObjectId, Waiting>,
    ) {
        let failed =
            |id: &ObjectId| waiting.get(id).is_some_and(|one| one.health.reason == health::JOB_FAILED);
        let of: BTreeSet<ObjectId> = waiting.keys().filter(|id| failed(id)).cloned().collect();
        if of.is_empty() {
            return;
        }
        let done = match self.record_ends(stored, &of).await {
            Ok(_) => self.give_ttl(stored).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            // That it failed is written down, and this is no part of it.
            let error = self.secrets.shown(&error);
            tracing::debug!(release = %self.scope.key, error, "a failed Job was given no ttl");
        }
    }

    /// Jobs that have run and are not there any more, or whose name another one has by now.
    pub(in crate::reconcile) async fn jobs_gone(
        &self,
        entries: &[InventoryEntry],
    ) -> Result<BTreeSet<ObjectId>, Error> {
        let mut gone = BTreeSet::new();
        for entry in entries.iter().filter(|entry| entry.ran.is_some()) {
            if self.job_is_gone(entry).await? {
                gone.insert(entry.id.clone());
            }
        }
        Ok(gone)
    }

    /// Whether a Job that has run is there no more. Then nothing that is seen of it is drift.
    pub(in crate::reconcile) async fn job_is_gone(&self, entry: &InventoryEntry) -> Result<bool, Error> {
        let meta = self.scope.cluster.metadata(&entry.api_version, &entry.id).await?;
        let gone = meta.is_none_or(|meta| meta.uid != entry.uid || meta.deletion_timestamp.is_some());
        if gone {
            self.scope.ctx.objects.table().expect(&entry.id, None, entry.uid.clone());
        }
        Ok(gone)
    }
}

/// Whether a live Job of this entry has ended, and if so whether it failed. One that was made from another body says nothing.
fn end_of(live: &Applied, entry: &InventoryEntry, uid: &str, now: jiff::Timestamp) -> Option<bool> {
    let annotations = live.live.metadata.annotations.as_ref();
    let mark = annotations.and_then(|all| all.get(names::APPLIED));
    if mark.is_none_or(|mark| *mark != plan::marker(uid, entry.changed_in)) {
        return None;
    }
    let health = health::assess_run(&live.value(), now);
    match health.status {
        Status::Current => Some(false),
        Status::Failed if health.terminal => Some(true),
        _ => None,
    }
}

fn jobs(private: Option<&Private>) -> impl Iterator<Item = &InventoryEntry> {
    let entries = private.into_iter().flat_map(|private| &private.inventory);
    entries.filter(|entry| plan::is_job(&entry.id) && entry.skipped.is_empty())
}

fn begun(running: &Running) -> impl Iterator<Item = &Begun> {
    let private = running.stored.private.iter();
    private.flat_map(|private| &private.operation).flat_map(|operation| &operation.jobs)
}

/// The uid of the Job of this name that the operation has made, as long as it has no end that is written down.
pub(in crate::reconcile) fn run_of(running: &Running, id: &ObjectId) -> Option<String> {
    let open = jobs(running.stored.private.as_ref()).any(|entry| entry.id == *id && entry.ran.is_none());
    begun(running).find(|begun| open && begun.id == *id).map(|begun| begun.uid.clone())
}

/// The Jobs of a checkpoint without those whose end is written down; of one name the last counts.
pub(in crate::reconcile) fn still_open(
    made: impl Iterator<Item = Begun>,
    inventory: &[InventoryEntry],
) -> Vec<Begun> {
    let ended = |id: &ObjectId| inventory.iter().any(|entry| entry.id == *id && entry.ran.is_some());
    let open: BTreeMap<ObjectId, String> =
        made.filter(|begun| !ended(&begun.id)).map(|begun| (begun.id, begun.uid)).collect();
    open.into_iter().map(|(id, uid)| Begun { id, uid }).collect()
}

/// Those of these Jobs that have no end that is written down, or no ttl yet.
pub(in crate::reconcile) fn unsettled(
    private: Option<&Private>,
    of: &BTreeSet<ObjectId>,
) -> BTreeSet<ObjectId> {
    let open = |entry: &&InventoryEntry| entry.ran.as_ref().is_none_or(|ran| ran.ttl_due);
    jobs(private).filter(open).filter(|entry| of.contains(&entry.id)).map(|entry| entry.id.clone()).collect()
}

/// Jobs whose end is written down: nobody waits for them.
pub(in crate::reconcile) fn ended(running: &Running) -> BTreeSet<ObjectId> {
    let jobs = jobs(running.stored.private.as_ref());
    jobs.filter(|entry| entry.ran.is_some()).map(|entry| entry.id.clone()).collect()
}
