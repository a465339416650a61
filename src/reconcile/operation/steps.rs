//! The steps of an operation, one after another, from the checkpoint on.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use crate::api::WAVE_TIMEOUT;
use crate::manifest::Object;
use crate::plan::{self, Wait};
use crate::reconcile::Error;
use crate::reconcile::health::probes::probing;
use crate::reconcile::health::verdict::bearable;
use crate::reconcile::health::verdict::describe;
use crate::reconcile::health::verdict::{LOOK_ANYWAY, judge};
use crate::reconcile::objects::jobs::unsettled;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::jobs::ended;
use crate::reconcile::operation::jobs::run_of;
use crate::reconcile::operation::leaving::skipped;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::release::OperationPhase;

/// In one pass: one that deletes what is to be created anew, one that creates it, and one to spare.
const ROUNDS: usize = 3;

impl Operate<'_> {
    /// Goes through the steps until one has to wait, fails, or the last is done. The time in which the operation waits for its
    /// turn is not its own.
    pub(in crate::reconcile) async fn steps(&mut self, running: &mut Running) -> Result<Step, Error> {
        running.add_time(self.scope.now);
        let outcome = self.go_through(running).await;
        running.queued_at = matches!(outcome, Err(Error::Queued { .. })).then_some(self.scope.now);
        outcome
    }

    async fn go_through(&mut self, running: &mut Running) -> Result<Step, Error> {
        while let Some(step) = running.plan.steps.get(running.at).cloned() {
            if needs_bulk(running) {
                self.records.unpack(running).await?;
            }
            let outcome = match step {
                plan::Step::Hook { phase, hook } => self.hook(running, phase, hook).await?,
                plan::Step::Apply { wave, groups } => self.apply_step(running, wave, &groups).await?,
                plan::Step::Wait { objects, wait, .. } => self.wait_step(running, &objects, wait).await?,
                plan::Step::Delete { entries, .. } => self.delete_step(running, &entries).await?,
                plan::Step::Define { definitions, conversion } => {
                    self.define_step(running, &definitions, conversion).await?
                }
                plan::Step::AwaitServed { definitions } => self.served_step(running, &definitions).await?,
                plan::Step::Undefine { entries } => self.undefine_step(running, &entries).await?,
            };
            match outcome {
                Step::Done => {
                    running.at += 1;
                    running.stage = Stage::Begin;
                }
                other => return Ok(other),
            }
        }
        // What follows writes the record.
        self.records.unpack(running).await?;
        Ok(Step::Done)
    }

    async fn apply_step(
        &mut self,
        running: &mut Running,
        wave: i32,
        groups: &[Vec<usize>],
    ) -> Result<Step, Error> {
        let after_a_wait =
            running.at.checked_sub(1).and_then(|before| running.plan.steps.get(before)).is_some_and(
                |before| matches!(before, plan::Step::Wait { .. } | plan::Step::AwaitServed { .. }),
            );
        if after_a_wait && running.saved != running.at {
            // What was waited for is not waited for again.
            self.checkpoint(running, OperationPhase::Apply, wave, None).await?;
        }
        if let Some(lost) = self.lost_job(running, groups).await? {
            return Ok(lost);
        }
        let result = self.apply_rounds(running, groups).await;
        // However the others fared: a Job that was made is not made again.
        self.note_jobs(running, wave).await?;
        result
    }

    /// Applies groups; waits for what has to be gone first.
    pub(in crate::reconcile) async fn apply_rounds(
        &mut self,
        running: &mut Running,
        groups: &[Vec<usize>],
    ) -> Result<Step, Error> {
        for _ in 0..ROUNDS {
            if let Some(waits) = self.await_leaving(running).await? {
                return Ok(waits);
            }
            let runs = self.awaited_runs(running, groups);
            let mut applied = std::mem::take(&mut running.applied);
            let result = self.rollout().apply_groups(running, groups, &runs, &mut applied).await;
            running.applied = applied;
            let leaving = result?;
            if leaving.is_empty() {
                return Ok(Step::Done);
            }
            // Most are gone by now.
            running.stage = Stage::Leaving { leaving, looked_at: Timestamp::MIN };
        }
        Ok(Step::Wait { until: self.scope.later(LOOK_ANYWAY) })
    }

    async fn wait_step(
        &mut self,
        running: &mut Running,
        objects: &[usize],
        wait: Wait,
    ) -> Result<Step, Error> {
        if !self.scope.waits(wait) || running.hasty {
            self.health().wake_on(&BTreeMap::new());
            return Ok(Step::Done);
        }
        if !matches!(running.stage, Stage::Wait { .. }) {
            running.stage = self.begin_wait(running, objects);
            if wait != Wait::Named {
                // The answers of the applies were looked at, and hundreds of releases may wait.
                running.applied = HashMap::new();
            }
        }
        let deadline = running.deadline;
        let Stage::Wait { waiting, looked_at, deadline: own, .. } = &mut running.stage else {
            return Ok(Step::Done);
        };
        let deadline = deadline.min(*own);
        if !bearable(waiting)
            && let Some(due) = self.health().look_due(waiting, *looked_at)
        {
            if self.scope.now < due {
                return Ok(Step::Wait { until: due });
            }
            *looked_at = self.scope.now;
            self.health().look_at_news(waiting).await?;
        }
        self.settle_jobs(running).await?;
        let Stage::Wait { waiting, .. } = &running.stage else { return Ok(Step::Done) };
        if bearable(waiting) {
            running.ailing = waiting.iter().next().map(|(id, object)| describe(id, object));
            self.health().wake_on(&BTreeMap::new());
            return Ok(Step::Done);
        }
        Ok(judge(waiting, deadline, self.scope.now).into())
    }

    /// Objects that this process applied are known by the answer; at others it has to look.
    fn begin_wait(&self, running: &Running, objects: &[usize]) -> Stage {
        let (skipped, ended) = (skipped(running), ended(running));
        let ids = objects.iter().filter_map(|index| running.parts.objects.get(*index));
        let ids = ids.map(|object| object.id.clone()).collect();
        let jobs = unsettled(running.stored.private.as_ref(), &ids);
        let objects: Vec<&Object> = objects
            .iter()
            .filter_map(|index| running.parts.objects.get(*index))
            .filter(|object| !skipped.contains(&object.id) && !ended.contains(&object.id))
            .collect();
        let revision = running.stored.record.version;
        let mut waiting = self.health().unhealthy(&objects, &running.applied, revision);
        let mut looked_at = self.scope.now;
        for object in objects.iter().filter(|object| !running.applied.contains_key(&object.id)) {
            looked_at = Timestamp::MIN;
            let unseen = Waiting::unseen(&object.api_version, "has not been looked at yet", self.scope.now);
            let unseen =
                Waiting { probe: probing(object, revision), uid: run_of(running, &object.id), ..unseen };
            waiting.insert(object.id.clone(), unseen);
        }
        self.health().wake_on(&waiting);
        // Packs inside that name no waves have the time of the operation.
        let several = running.plan.waves.iter().any(|wave| Some(wave) != running.plan.waves.first());
        let bound = self.scope.settings.waves.timeout.or_else(|| several.then_some(WAVE_TIMEOUT));
        let deadline = bound.map_or(Timestamp::MAX, |bound| self.scope.later(bound));
        Stage::Wait { waiting, looked_at, deadline, jobs }
    }
}

/// Whether the step under way works with manifest and objects. A look at what is waited for, and a deletion, do not.
fn needs_bulk(running: &Running) -> bool {
    match running.plan.steps.get(running.at) {
        Some(plan::Step::Wait { .. }) => !matches!(running.stage, Stage::Wait { .. }),
        Some(plan::Step::Delete { .. } | plan::Step::Undefine { .. }) => false,
        _ => true,
    }
}
