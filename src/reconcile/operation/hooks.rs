//! Runs one hook to its end: written down before it is created, and with its result before anything follows from it.
//!
//! A run is known by the annotation `sherpack.io/hook-run` of its object: a process that finds an object of this very run
//! goes on with it, so that no crash and no second process makes it run twice.

use crate::api::reasons;
use crate::plan::{self, FailurePolicy, Hook, Phase};
use crate::reconcile::Error;
use crate::reconcile::health::verdict::LOOK_ANYWAY;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::checkpoint::operation_phase;
use crate::reconcile::operation::hook_runs::{Run, Seen};
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::progress::{self, Progress};
use crate::release::{HookResult, HookRun, Operation};

impl Operate<'_> {
    /// One step of an operation: a hook, from its checkpoint to its end.
    pub(in crate::reconcile) async fn hook(
        &mut self,
        running: &mut Running,
        phase: Phase,
        index: usize,
    ) -> Result<Step, Error> {
        let Some(hook) = running.parts.hooks.get(index).cloned() else { return Ok(Step::Done) };
        loop {
            let checkpoint = running.stored.private.as_ref().and_then(|private| private.operation.as_ref());
            let here = checkpoint.filter(|operation| usize::try_from(operation.step) == Ok(running.at));
            let Some(at) = here.and_then(|operation| operation.hook.clone()) else {
                let first = next_attempt(running, &hook, phase);
                let run = HookRun { attempt: first, first, failed: None, uid: None };
                self.checkpoint(running, operation_phase(phase), 0, Some(run)).await?;
                running.stage = Stage::Begin;
                continue;
            };
            let run = self.run_of(running, &hook, phase, &at);
            if let Some(failed) = at.failed {
                self.clean_up(&run, failed).await?;
                return Ok(if failed { consequence(running, &hook, phase) } else { Step::Done });
            }
            match self.look_at(running, &run, true).await? {
                Seen::Running { until } => return Ok(Step::Wait { until }),
                // It is made unless it is there.
                Seen::NotBegun => return Ok(Step::Wait { until: self.scope.later(LOOK_ANYWAY) }),
                Seen::Ended(failure) => self.write_down(running, &run, failure, true).await?,
            }
        }
    }

    /// Sees a hook to its end whose operation is not wanted any more. `None`: no hook runs.
    pub(in crate::reconcile) async fn await_hook(&mut self) -> Result<Option<Progress>, Error> {
        self.load_running().await?;
        let Some(mut running) = self.records.running.take() else { return Ok(None) };
        if let Err(error) = self.records.unpack(&mut running).await {
            self.keep_running(running);
            return Err(error);
        }
        let checkpoint = running.stored.private.as_ref().and_then(|private| private.operation.clone());
        let step = running.plan.steps.get(running.at).cloned();
        let attempt = checkpoint.and_then(|operation| operation.hook).filter(|run| run.failed.is_none());
        let found = match (attempt, step) {
            (Some(attempt), Some(plan::Step::Hook { phase, hook })) => {
                running.parts.hooks.get(hook).cloned().map(|hook| (attempt, phase, hook))
            }
            _ => None,
        };
        let Some((attempt, phase, hook)) = found else {
            // Another version of the operator wrote it: what cannot be found cannot be waited for.
            if let Some(private) = running.stored.private.as_mut() {
                private.operation = None;
            }
            let stored = self.records.save(&running.stored, true).await?;
            self.records.wrote(&stored);
            return Ok(None);
        };
        let run = self.run_of(&running, &hook, phase, &attempt);
        match self.look_at(&mut running, &run, false).await? {
            Seen::Running { until } => {
                let progress = Progress::Running(progress::Run::of(&running, until));
                self.keep_running(running);
                Ok(Some(progress))
            }
            Seen::NotBegun => {
                // The next pass that comes to it runs it: it has no result.
                self.checkpoint(&mut running, operation_phase(phase), 0, None).await?;
                self.scope.ctx.objects.table().forget(self.scope.key, &hook.object.id);
                Ok(None)
            }
            Seen::Ended(failure) => {
                let failed = failure.is_some();
                self.write_down(&mut running, &run, failure, false).await?;
                self.clean_up(&run, failed).await?;
                Ok(None)
            }
        }
    }

    fn run_of<'h>(&self, running: &Running, hook: &'h Hook, phase: Phase, run: &HookRun) -> Run<'h> {
        let HookRun { attempt, first, failed: _, uid } = run.clone();
        let private = running.stored.private.as_ref();
        let owner_uid = private.map_or_else(|| self.scope.uid(), |private| &private.owner.uid).to_owned();
        let revision = running.stored.record.version;
        let entries =
            private.into_iter().flat_map(|private| private.inventory.iter().chain(&private.leftovers));
        let mut adopted = entries.filter(|entry| entry.adopted.is_some());
        let adopted = adopted.any(|entry| entry.id == hook.object.id);
        Run {
            hook,
            phase,
            attempt,
            first,
            uid,
            id: format!("{owner_uid}.{revision}.{phase}.{attempt}"),
            owner_uid,
            adopted,
        }
    }

    /// Writes down how a run ended, and the next one if there is to be one.
    async fn write_down(
        &mut self,
        running: &mut Running,
        run: &Run<'_>,
        failure: Option<(&'static str, String)>,
        may_retry: bool,
    ) -> Result<(), Error> {
        let failed = failure.is_some();
        let failure = failure.map(|(reason, message)| (reason.to_owned(), self.secrets.hidden(message)));
        let outcome = if failed { "failure" } else { "success" };
        let result = HookResult {
            phase: run.phase.to_string(),
            object: hook_name(run.hook),
            attempt: run.attempt,
            failure,
            at: self.scope.now,
        };
        let retries_left = run.attempt.saturating_sub(run.first) < run.hook.retries;
        let next = if failed && may_retry && retries_left && self.scope.now < running.deadline {
            HookRun { attempt: run.attempt.saturating_add(1), first: run.first, failed: None, uid: None }
        } else {
            HookRun { attempt: run.attempt, first: run.first, failed: Some(failed), uid: None }
        };
        let phase = operation_phase(run.phase);
        let operation = Operation { phase, wave: 0, step: 0, hook: Some(next), jobs: Vec::new() };
        self.checkpoint_with(running, operation, Some(result)).await?;
        self.scope.ctx.report.hook(self.scope.key, run.phase.as_str(), outcome);
        running.stage = Stage::Begin;
        Ok(())
    }
}

/// What a hook that failed does to its operation.
fn consequence(running: &Running, hook: &Hook, phase: Phase) -> Step {
    if hook.on_failure == FailurePolicy::Continue || phase == Phase::Test {
        return Step::Done;
    }
    let last = running.stored.private.as_ref().and_then(|private| private.hooks.last());
    let (reason, message) = last
        .and_then(|result| result.failure.clone())
        .unwrap_or_else(|| (reasons::HOOK_FAILED.to_owned(), hook.object.id.to_string()));
    let reason = [reasons::HOOK_TIMEOUT, reasons::HOOK_VANISHED, reasons::HOOK_EXISTS, reasons::INTERRUPTED]
        .into_iter()
        .find(|known| *known == reason)
        .unwrap_or(reasons::HOOK_FAILED);
    let message = format!("{phase} hook {message}");
    Step::Failed { reason, message, undo: hook.on_failure == FailurePolicy::Rollback }
}

/// Tests run more than once for one revision, and so may the hooks of an uninstall.
fn next_attempt(running: &Running, hook: &Hook, phase: Phase) -> u32 {
    let object = hook_name(hook);
    let results = running.stored.private.iter().flat_map(|private| &private.hooks);
    let before = results.filter(|result| result.phase == phase.as_str() && result.object == object);
    before.map(|result| result.attempt).max().unwrap_or(0).saturating_add(1)
}

/// `Job/migrate`.
fn hook_name(hook: &Hook) -> String {
    format!("{}/{}", hook.object.id.kind, hook.object.id.name)
}
