//! Jobs that are no hooks, in an operation: each runs once in a revision.
//!
//! Which Jobs an operation has made stands in its checkpoint. One that is gone without an end that is written down has failed,
//! also for a process that has not seen it go.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::api::reasons;
use crate::health::Status;
use crate::manifest::ObjectId;
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::health::verdict::describe;
use crate::reconcile::health::wait::DELETED;
use crate::reconcile::objects::jobs::{jobs, unsettled};
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::release::{Begun, Operation, OperationPhase};

impl Operate<'_> {
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

    /// A Job among those that are about to be applied, which this operation has made and which is there no more: it is not known
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

    /// Of these objects, the Jobs that the operation has made and waits for.
    pub(in crate::reconcile) fn awaited_runs(
        &self,
        running: &Running,
        groups: &[Vec<usize>],
    ) -> HashMap<ObjectId, String> {
        let ids = groups.iter().flatten().map(|index| &running.parts.objects[*index].id);
        ids.filter_map(|id| Some((id.clone(), self.awaited_run(running, id)?))).collect()
    }

    /// The Job of this name that the operation has made and waits for. One that no step waits for is put back like all else.
    fn awaited_run(&self, running: &Running, id: &ObjectId) -> Option<String> {
        let uid = run_of(running, id)?;
        let named = |index: &usize| running.parts.objects.get(*index).is_some_and(|object| object.id == *id);
        let waits = running.plan.steps.iter().any(|step| match step {
            plan::Step::Wait { objects, wait, .. } => self.scope.waits(*wait) && objects.iter().any(named),
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
        self.records.unpack(running).await?;
        let mut next = running.stored.clone();
        if self.live().record_ends(&mut next, &ended).await? {
            running.stored = self.records.save(&next, true).await?;
            self.records.wrote(&running.stored);
        }
        self.live().give_ttl(&mut running.stored).await?;
        let left = unsettled(running.stored.private.as_ref(), &ended);
        if let Stage::Wait { jobs, .. } = &mut running.stage {
            // No step waits for a suspended one; it may go on later.
            jobs.retain(|id| !ended.contains(id) || left.contains(id));
        }
        Ok(())
    }
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

/// Jobs whose end is written down: no step waits for them.
pub(in crate::reconcile) fn ended(running: &Running) -> BTreeSet<ObjectId> {
    let jobs = jobs(running.stored.private.as_ref());
    jobs.filter(|entry| entry.ran.is_some()).map(|entry| entry.id.clone()).collect()
}
