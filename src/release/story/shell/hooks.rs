//! One hook from its checkpoint to its end: `reconcile/operation/hooks.rs`.

use super::steps::Went;
use super::{Progress, Running, Shell, Stop};
use crate::api::names;
use crate::manifest::ObjectId;
use crate::plan::{self, DeletePolicy, FailurePolicy, Hook, Phase, Step};
use crate::release::story::faults::Fault;
use crate::release::story::model::place_of;
use crate::release::story::promises::Why;
use crate::release::{HookResult, HookRun, OperationPhase, Private};

/// What a look at a hook showed.
enum Seen {
    Runs,
    /// Nothing of it was ever made.
    NotBegun,
    Ended {
        failed: bool,
    },
}

impl Shell<'_> {
    /// `Pass::hook`.
    pub(super) fn hook(&mut self, running: &mut Running, phase: Phase, index: usize) -> Result<Went, Stop> {
        let Some(hook) = running.parts.hooks.get(index).cloned() else { return Ok(Went::Done) };
        loop {
            let checkpoint = running.stored.private.as_ref().and_then(|private| private.operation.as_ref());
            let here = checkpoint.filter(|operation| operation.step as usize == running.at);
            let Some(run) = here.and_then(|operation| operation.hook.clone()) else {
                let first = next_attempt(running.stored.private.as_ref().unwrap(), &hook, phase);
                let run = HookRun { attempt: first, first, failed: None, uid: None };
                if self.fault == Some(Fault::HookUnwritten)
                    && let Seen::Ended { failed } = self.look_at(running, &hook, phase, &run, true)?
                {
                    self.clean_up(running, &hook, phase, &run, failed)?;
                    self.write_down(running, &hook, phase, &run, failed)?;
                    continue;
                }
                self.checkpoint(running, phase_of(phase), Some(run), Vec::new())?;
                continue;
            };
            if let Some(failed) = run.failed {
                self.clean_up(running, &hook, phase, &run, failed)?;
                let undo = hook.on_failure == FailurePolicy::Rollback;
                return Ok(if failed { Went::Failed { health: false, undo } } else { Went::Done });
            }
            match self.look_at(running, &hook, phase, &run, true)? {
                Seen::Runs | Seen::NotBegun => return Ok(Went::Wait(running.deadline)),
                Seen::Ended { failed } => self.write_down(running, &hook, phase, &run, failed)?,
            }
        }
    }

    /// `Pass::await_hook`.
    pub(super) fn await_hook(&mut self) -> Result<Option<Progress>, Stop> {
        self.load_running()?;
        let Some(mut running) = self.mem.running.take() else { return Ok(None) };
        let checkpoint = running.stored.private.as_ref().and_then(|private| private.operation.clone());
        let run = checkpoint.and_then(|operation| operation.hook).filter(|run| run.failed.is_none());
        let (Some(run), Some(Step::Hook { phase, hook })) =
            (run, running.plan.steps.get(running.at).cloned())
        else {
            return Err(Stop::Fix("no story has two versions of the operator"));
        };
        let hook = running.parts.hooks[hook].clone();
        match self.look_at(&mut running, &hook, phase, &run, false)? {
            Seen::Runs => {
                let until = running.deadline;
                self.mem.running = Some(running);
                Ok(Some(Progress::Running(until)))
            }
            Seen::NotBegun => {
                self.checkpoint(&mut running, phase_of(phase), None, Vec::new())?;
                Ok(None)
            }
            Seen::Ended { failed } => {
                self.write_down(&mut running, &hook, phase, &run, failed)?;
                self.clean_up(&running, &hook, phase, &run, failed)?;
                Ok(None)
            }
        }
    }

    fn write_down(
        &mut self,
        running: &mut Running,
        hook: &Hook,
        phase: Phase,
        run: &HookRun,
        failed: bool,
    ) -> Result<(), Stop> {
        let failure = failed.then(|| ("HookFailed".to_owned(), String::new()));
        let at = super::at(self.world.now);
        let result = HookResult {
            phase: phase.to_string(),
            object: hook.object.id.short(),
            attempt: run.attempt,
            failure,
            at,
        };
        running.stored.private.as_mut().unwrap().hooks.push(result);
        let ended = HookRun { failed: Some(failed), uid: None, ..run.clone() };
        self.checkpoint(running, phase_of(phase), Some(ended), Vec::new())
    }

    /// `Pass::look_at`, with `make_way`.
    fn look_at(
        &mut self,
        running: &mut Running,
        hook: &Hook,
        phase: Phase,
        run: &HookRun,
        create: bool,
    ) -> Result<Seen, Stop> {
        let id = &hook.object.id;
        let name = run_of(running, phase, run);
        if running.hook.is_none() {
            running.hook.clone_from(&run.uid);
        }
        loop {
            let live = self.world.live.get(id);
            let is_run = live.is_some_and(|live| live.annotations.get(names::HOOK_RUN) == Some(&name));
            match (live, &running.hook) {
                (Some(live), None) if is_run => {
                    running.hook = Some(live.uid.clone());
                    self.note_run(running, phase, run)?;
                }
                (Some(live), Some(uid)) if live.uid == *uid => {
                    let place = place_of(id);
                    return Ok(if !self.world.sick.contains(&place) {
                        Seen::Ended { failed: self.world.failing.contains(&place) }
                    } else if self.world.now >= running.deadline {
                        Seen::Ended { failed: true }
                    } else {
                        Seen::Runs
                    });
                }
                (_, Some(_)) => return Ok(Seen::Ended { failed: true }),
                (_, None) if !create => return Ok(Seen::NotBegun),
                (Some(_), None) => self.make_way(running, id)?,
                (None, None) => {
                    self.world.runs(running.stored.uid, running.stored.revision, id, name.clone());
                    let marker = plan::marker(
                        &running.stored.private.as_ref().unwrap().owner.uid,
                        running.stored.revision,
                    );
                    let live = self.world.make(id, 0, false);
                    live.annotations.insert(names::APPLIED.to_owned(), marker);
                    live.annotations.insert(names::HOOK_RUN.to_owned(), name.clone());
                    running.hook = Some(live.uid.clone());
                    self.world.written()?;
                    self.note_run(running, phase, run)?;
                }
            }
        }
    }

    /// `Pass::note_run`.
    fn note_run(&mut self, running: &mut Running, phase: Phase, run: &HookRun) -> Result<(), Stop> {
        if self.fault == Some(Fault::HookUnwritten) {
            return Ok(());
        }
        let begun = HookRun { uid: running.hook.clone(), failed: None, ..run.clone() };
        self.checkpoint(running, phase_of(phase), Some(begun), Vec::new())
    }

    fn make_way(&mut self, running: &Running, id: &ObjectId) -> Result<(), Stop> {
        let private = running.stored.private.as_ref().unwrap();
        let mut entries = private.inventory.iter().chain(&private.leftovers);
        let adopted = entries.any(|entry| entry.id == *id && entry.adopted.is_some());
        let annotations = &self.world.live[id].annotations;
        let before = annotations.get(names::HOOK_RUN);
        let owner =
            before.and_then(|run| run.split('.').next()).or_else(|| plan::marked_by(Some(annotations)));
        let ours = owner == Some(private.owner.uid.as_str());
        let by_a_hook = before.is_some() && self.release().spec.adopt;
        if adopted || !(ours || by_a_hook) {
            return Err(Stop::Fix("ObjectNotOwned"));
        }
        self.world.delete(id, Why::Hook);
        Ok(self.world.written()?)
    }

    fn clean_up(
        &mut self,
        running: &Running,
        hook: &Hook,
        phase: Phase,
        run: &HookRun,
        failed: bool,
    ) -> Result<(), Stop> {
        let policy = if failed { DeletePolicy::HookFailed } else { DeletePolicy::HookSucceeded };
        let id = &hook.object.id;
        let name = run_of(running, phase, run);
        let live = self.world.live.get(id);
        let is_run = live.is_some_and(|live| live.annotations.get(names::HOOK_RUN) == Some(&name));
        if hook.delete.contains(&policy) && is_run {
            self.world.delete(id, Why::Hook);
            self.world.written()?;
        }
        Ok(())
    }
}

fn phase_of(phase: Phase) -> OperationPhase {
    match phase {
        Phase::PostInstall | Phase::PostUpgrade | Phase::PostRollback => OperationPhase::PostHooks,
        _ => OperationPhase::PreHooks,
    }
}

/// The value of the annotation.
fn run_of(running: &Running, phase: Phase, run: &HookRun) -> String {
    let uid = &running.stored.private.as_ref().unwrap().owner.uid;
    format!("{uid}.{}.{phase}.{}", running.stored.revision, run.attempt)
}

fn next_attempt(private: &Private, hook: &Hook, phase: Phase) -> u32 {
    let object = hook.object.id.short();
    let results = private.hooks.iter();
    let before = results.filter(|result| result.phase == phase.as_str() && result.object == object);
    before.map(|result| result.attempt).max().unwrap_or(0).saturating_add(1)
}
