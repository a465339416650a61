//! The steps of an operation: `reconcile/{steps,apply,adoption,jobs}.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Running, Shell, Stop};
use crate::api::names;
use crate::manifest::adoption::Adopted;
use crate::manifest::{InventoryEntry, Object, ObjectId, Ran};
use crate::plan::{self, Step};
use crate::release::story::model::{place_of, value_of};
use crate::release::story::promises::Why;
use crate::release::{Begun, HookRun, Operation, OperationPhase, Private};

/// How a step, or all of them, came out.
pub(super) enum Went {
    Done,
    Wait(i64),
    Failed { health: bool, undo: bool },
}

impl Shell<'_> {
    pub(super) fn steps(&mut self, running: &mut Running) -> Result<Went, Stop> {
        while let Some(step) = running.plan.steps.get(running.at).cloned() {
            let went = match step {
                Step::Hook { phase, hook } => self.hook(running, phase, hook)?,
                Step::Apply { groups, .. } => self.apply(running, &groups)?,
                Step::Wait { objects, .. } => self.wait(running, &objects)?,
                Step::Delete { entries, .. } => {
                    let uid = running.stored.private.as_ref().unwrap().owner.uid.clone();
                    for entry in entries {
                        self.delete_ours(&entry, &uid, Why::Uninstalled)?;
                    }
                    Went::Done
                }
                Step::Define { .. } | Step::AwaitServed { .. } | Step::Undefine { .. } => Went::Done,
            };
            match went {
                Went::Done => {
                    running.at += 1;
                    running.hook = None;
                }
                other => return Ok(other),
            }
        }
        Ok(Went::Done)
    }

    /// `Pass::apply_step`.
    fn apply(&mut self, running: &mut Running, groups: &[Vec<usize>]) -> Result<Went, Stop> {
        for id in groups.iter().flatten().map(|index| &running.parts.objects[*index].id) {
            // `lost_job`
            let Some(uid) = awaited_run(running, id).filter(|_| !running.applied.contains_key(id)) else {
                continue;
            };
            if self.world.live.get(id).is_none_or(|live| live.uid != uid) {
                return Ok(Went::Failed { health: true, undo: false });
            }
        }
        let result = self.apply_groups(running, groups);
        if matches!(result, Err(Stop::Died)) {
            return result;
        }
        // `note_jobs`
        let open =
            running.stored.private.as_ref().unwrap().inventory.iter().filter(|entry| entry.ran.is_none());
        let made = open.filter(|entry| plan::is_job(&entry.id)).filter_map(|entry| {
            let uid = running.applied.get(&entry.id).cloned()?;
            (run_of_job(running, &entry.id).as_ref() != Some(&uid))
                .then(|| Begun { id: entry.id.clone(), uid })
        });
        let jobs: Vec<Begun> = made.collect();
        if !jobs.is_empty() {
            self.checkpoint(running, OperationPhase::Apply, None, jobs)?;
        }
        result
    }

    /// `Pass::apply_groups`.
    fn apply_groups(&mut self, running: &mut Running, groups: &[Vec<usize>]) -> Result<Went, Stop> {
        let wanted: Vec<Object> =
            groups.iter().flatten().map(|index| running.parts.objects[*index].clone()).collect();
        let private = running.stored.private.as_ref().unwrap();
        let gone = private.inventory.iter().filter(|entry| self.job_is_gone(entry));
        let gone: BTreeSet<ObjectId> = gone.map(|entry| entry.id.clone()).collect();
        let due = |running: &Running, object: &Object| {
            !running.applied.contains_key(&object.id) && !gone.contains(&object.id)
        };
        let first: Vec<&Object> = wanted.iter().filter(|object| due(running, object)).collect();
        self.keep_adopted(running, &first)?;
        for group in groups {
            let (mut error, mut appeared) = (None, false);
            for index in group {
                let object = running.parts.objects[*index].clone();
                if !due(running, &object) {
                    continue;
                }
                match self.apply_one(running, &object) {
                    Ok(()) => {}
                    Err(Stop::Died) => return Err(Stop::Died),
                    Err(stop) => {
                        appeared |= matches!(stop, Stop::Retry(_));
                        error.get_or_insert(stop);
                    }
                }
            }
            if let Some(error) = error {
                if appeared {
                    self.save(&mut running.stored, true)?;
                    self.wrote(&running.stored.clone());
                }
                return Err(error);
            }
        }
        for entry in &mut running.stored.private.as_mut().unwrap().inventory {
            if let Some(uid) = running.applied.get(&entry.id) {
                (entry.uid, entry.fingerprint) = (Some(uid.clone()), Some("as applied".to_owned()));
            }
        }
        Ok(Went::Done)
    }

    /// `Pass::keep_adopted`. The values of before are kept for what still has any.
    fn keep_adopted(&mut self, running: &mut Running, due: &[&Object]) -> Result<(), Stop> {
        let private = running.stored.private.as_ref().unwrap();
        let uid = private.owner.uid.clone();
        let mut next = private.clone();
        for entry in &mut next.inventory {
            let lent = entry.adopted.as_ref().is_some_and(|adopted| !adopted.deployed);
            let Some(object) = due.iter().find(|object| object.id == entry.id).filter(|_| lent) else {
                continue;
            };
            let Some(live) = self.world.live.get(&entry.id) else {
                entry.adopted = None;
                running.absent.insert(entry.id.clone());
                continue;
            };
            let touched = entry.uid.is_some() || plan::is_marked(Some(&live.annotations), &uid);
            let Adopted { kept, unexplained, .. } = entry.adopted.take().unwrap_or_default();
            let changes = live.value != value_of(object);
            let known = kept.filter(|_| touched);
            let kept = known.or_else(|| changes.then(|| live.value.to_string()));
            entry.adopted = Some(Adopted { kept, deployed: false, unexplained });
        }
        if running.stored.private.as_ref() != Some(&next) {
            running.stored.private = Some(next);
            self.save(&mut running.stored, true)?;
            self.wrote(&running.stored.clone());
        }
        Ok(())
    }

    fn apply_one(&mut self, running: &mut Running, object: &Object) -> Result<(), Stop> {
        let id = &object.id;
        let stored = &mut running.stored;
        let private = stored.private.as_mut().unwrap();
        let uid = private.owner.uid.clone();
        let entry = private.inventory.iter_mut().find(|entry| entry.id == *id).unwrap();
        if self.world.refused.contains(&place_of(id)) {
            return Err(Stop::Fix("Refused"));
        }
        let live = self.world.live.get(id);
        if let Some(live) = live.filter(|_| running.absent.contains(id))
            && !plan::is_marked(Some(&live.annotations), &uid)
        {
            if !self.release().spec.adopt {
                return Err(Stop::Fix("ObjectNotOwned"));
            }
            entry.adopt(stored.revision, false);
            private.adopts = true;
            running.absent.remove(id);
            return Err(Stop::Retry("ObjectAppeared"));
        }
        let entry = entry.clone();
        let is = self.put(object, &entry, &uid, stored.uid, stored.revision);
        running.applied.insert(id.clone(), is);
        Ok(self.world.written()?)
    }

    /// Applies an object; gives its uid.
    pub(super) fn put(
        &mut self,
        object: &Object,
        entry: &InventoryEntry,
        uid: &str,
        record: u64,
        revision: u32,
    ) -> String {
        let id = &object.id;
        if !self.world.live.contains_key(id) {
            if plan::is_job(id) {
                self.world.runs(record, revision, id, "Job".to_owned());
            }
            self.world.make(id, 0, false);
        }
        let live = self.world.live.get_mut(id).unwrap();
        live.value = value_of(object);
        live.annotations.insert(names::APPLIED.to_owned(), plan::marker(uid, entry.changed_in));
        live.uid.clone()
    }

    /// `Pass::wait_step`, with `settle_jobs`.
    fn wait(&mut self, running: &mut Running, objects: &[usize]) -> Result<Went, Stop> {
        if running.hasty {
            return Ok(Went::Done);
        }
        let private = running.stored.private.as_ref().unwrap();
        let ended =
            |id: &ObjectId| private.inventory.iter().any(|entry| entry.id == *id && entry.ran.is_some());
        let ids = objects.iter().map(|index| &running.parts.objects[*index].id);
        let vanished = |id: &ObjectId| {
            let run = run_of_job(running, id);
            run.is_some_and(|uid| self.world.live.get(id).is_none_or(|live| live.uid != uid))
        };
        if ids.clone().any(vanished) {
            return Ok(Went::Failed { health: true, undo: false });
        }
        let waiting = ids.filter(|id| !ended(id) && !self.is_healthy(id)).count();
        if self.record_ends(running.stored.private.as_mut().unwrap()) {
            self.save(&mut running.stored, true)?;
            self.wrote(&running.stored.clone());
        }
        Ok(match waiting {
            0 => Went::Done,
            _ if self.world.now >= running.deadline => Went::Failed { health: true, undo: false },
            _ => Went::Wait(running.deadline),
        })
    }

    /// Says in a private part which Jobs have ended; whether there was anything to say.
    pub(super) fn record_ends(&self, private: &mut Private) -> bool {
        let mut changed = false;
        let uid = private.owner.uid.clone();
        for entry in
            private.inventory.iter_mut().filter(|entry| plan::is_job(&entry.id) && entry.ran.is_none())
        {
            let Some(live) = self.world.live.get(&entry.id) else { continue };
            let mark = live.annotations.get(names::APPLIED);
            if mark == Some(&plan::marker(&uid, entry.changed_in)) && self.is_healthy(&entry.id) {
                entry.uid = Some(live.uid.clone());
                entry.ran = Some(Ran::default());
                changed = true;
            }
        }
        changed
    }

    pub(super) fn job_is_gone(&self, entry: &InventoryEntry) -> bool {
        let live = self.world.live.get(&entry.id);
        entry.ran.is_some() && live.is_none_or(|live| Some(&live.uid) != entry.uid.as_ref())
    }

    /// `Pass::checkpoint_with`.
    pub(super) fn checkpoint(
        &mut self,
        running: &mut Running,
        phase: OperationPhase,
        hook: Option<HookRun>,
        jobs: Vec<Begun>,
    ) -> Result<(), Stop> {
        let step = u32::try_from(running.at).unwrap();
        let private = running.stored.private.as_mut().unwrap();
        let before = private.operation.take().map(|before| before.jobs).unwrap_or_default();
        let ended =
            |id: &ObjectId| private.inventory.iter().any(|entry| entry.id == *id && entry.ran.is_some());
        // `still_open`
        let open: BTreeMap<ObjectId, String> = before
            .into_iter()
            .chain(jobs)
            .filter(|begun| !ended(&begun.id))
            .map(|begun| (begun.id, begun.uid))
            .collect();
        let jobs = open.into_iter().map(|(id, uid)| Begun { id, uid }).collect();
        private.operation = Some(Operation { phase, wave: 0, step, hook, jobs });
        self.save(&mut running.stored, true)?;
        self.wrote(&running.stored.clone());
        Ok(())
    }
}

/// The Job of this name that the operation has made, as long as it has no end that is written down.
fn run_of_job(running: &Running, id: &ObjectId) -> Option<String> {
    let private = running.stored.private.as_ref()?;
    let open = private.inventory.iter().any(|entry| entry.id == *id && entry.ran.is_none());
    let begun = private.operation.as_ref()?.jobs.iter().find(|begun| open && begun.id == *id);
    begun.map(|begun| begun.uid.clone())
}

fn awaited_run(running: &Running, id: &ObjectId) -> Option<String> {
    run_of_job(running, id).filter(|_| !running.hasty)
}
