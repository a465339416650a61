//! From what is wanted to a pending record: `reconcile/{prepare,rollback,past,ownership}.rs`, the first half of `act.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Found, Progress, Running, Shell, Stop, at};
use crate::api::{names, reasons};
use crate::manifest::ObjectId;
use crate::plan::{self, Occasion, Parts, Plan};
use crate::release::story::faults::Fault;
use crate::release::story::model::{Stored, Trouble, parts_of};
use crate::release::{Action, Owner, PRIVATE_VERSION, Past, Private, State, Undone};

/// Seconds that an operation may take.
const TIMEOUT: u64 = 300;

/// A revision that can be stored.
pub(super) struct Prepared {
    stored: Stored,
    parts: Parts,
    plan: Plan,
    /// In which revision the objects that records know last changed; `None`: no record says anything.
    before: Option<BTreeMap<ObjectId, u32>>,
}

/// What is there of the objects to come.
#[derive(Default)]
struct Survey {
    /// Those that the release has not made; whether they carry its mark all the same.
    adopted: BTreeMap<ObjectId, bool>,
    absent: BTreeSet<ObjectId>,
}

pub(super) fn occasion(action: Action) -> Occasion {
    match action {
        Action::Install | Action::Uninstall => Occasion::Install,
        Action::Upgrade => Occasion::Upgrade,
        Action::Rollback => Occasion::Rollback,
    }
}

impl Shell<'_> {
    /// `Pass::past`.
    fn past(&self, revision: u32, start_over: bool) -> Result<Past, Stop> {
        if let Some((_, private)) = self.own().filter(|_| !start_over) {
            return Ok(Past::of_newest(private));
        }
        if matches!(self.mem.head, Found::None) && !start_over {
            return Ok(Past::default());
        }
        let mut past = self.past_records();
        if start_over {
            past.unreachable = past.unreachable.max(revision.checked_sub(1).filter(|before| *before > 0));
        } else if past.doubt().is_some() {
            return Err(Stop::Fix("RecordDoubtful"));
        }
        Ok(past)
    }

    pub(super) fn past_records(&self) -> Past {
        let mut past = Past::default();
        for stored in self.world.records.values() {
            let judged = self.judged(stored.clone());
            if matches!(judged, Found::Doubtful(..)) {
                past.add_doubtful(stored.revision, String::new());
            }
            let proved = matches!(judged, Found::Ours(_));
            past.add(stored.revision, &stored.state, stored.private.clone().filter(|_| proved));
        }
        past.add_known(self.known().0);
        past
    }

    /// `Pass::prepare`.
    pub(super) fn prepare(
        &mut self,
        installs: bool,
        revision: u32,
        attempt: u32,
        start_over: bool,
    ) -> Result<Prepared, Stop> {
        let spec = self.release().spec;
        if spec.trouble != Trouble::None {
            return Err(Stop::Fix("RenderFailed"));
        }
        let action = if installs { Action::Install } else { Action::Upgrade };
        let past = self.past(revision, start_over)?;
        let known = past.private.as_ref().filter(|_| !start_over);
        let uid = known.map_or_else(|| &self.release().uid, |private| &private.owner.uid).clone();
        let parts = parts_of(spec.items);
        let plan = plan::roll_out(&parts, occasion(action)).unwrap();
        let inventory = if start_over { Vec::new() } else { past.inventory() };
        if parts.objects.is_empty() && !inventory.is_empty() {
            return Err(Stop::Fix("EmptyRender"));
        }
        let before = past.prunes();
        let leftovers = if start_over { Vec::new() } else { past.leftovers() };
        let hooks_before = before.map_or(&[][..], |private| &private.hook_objects[..]);
        let mut next = plan::next_inventory(&parts.objects, revision, &inventory, &leftovers)
            .with_hooks(&parts.hooks, hooks_before);
        if before.is_none() {
            next.leftovers.retain(|entry| entry.adopted.is_some());
        }
        let started_at = at(self.world.now);
        let state = match action {
            Action::Install => State::PendingInstall { started_at, timeout: TIMEOUT },
            _ => State::PendingUpgrade { started_at, timeout: TIMEOUT, previous_version: revision - 1 },
        };
        let own = self.own().map(|(_, private)| private).filter(|_| !start_over);
        let mut private = self.new_private(action, uid, attempt);
        private.inventory = next.wanted;
        private.leftovers = next.leftovers;
        private.hook_objects = plan::hook_objects(&parts.hooks, revision);
        private.inputs = self.inputs();
        private.last_deployed = known.and_then(|private| private.last_deployed);
        private.unreachable = past.unreachable;
        private.failures = own.map(|private| private.failures.clone()).unwrap_or_default();
        if self.fault == Some(Fault::ForgetDeployed) {
            private.last_deployed = None;
        }
        let stored = self.new_record(revision, state, private, spec.items);
        let before = (!start_over).then(|| past.objects());
        Ok(Prepared { stored, parts, plan, before })
    }

    /// `Pass::prepare_rollback`.
    pub(super) fn prepare_rollback(
        &mut self,
        revision: u32,
        target: u32,
        attempt: u32,
    ) -> Result<Prepared, Stop> {
        let Some(of_target) = self.target(target).cloned() else { return Err(Stop::Fix("RollbackTarget")) };
        let items = of_target.items;
        let of_target = of_target.private.unwrap();
        let parts = parts_of(items);
        let plan = plan::roll_out(&parts, Occasion::Rollback).unwrap();
        let before = self.own().map(|(_, private)| private.clone());
        let uid = before.as_ref().map_or(&of_target.owner.uid, |private| &private.owner.uid).clone();
        let past = self.past(revision, false)?;
        let leftovers = past.leftovers();
        let hooks_before = before.as_ref().map_or(&[][..], |private| &private.hook_objects[..]);
        let mut next = plan::next_inventory(&parts.objects, revision, &past.inventory(), &leftovers)
            .with_hooks(&parts.hooks, hooks_before);
        if past.prunes().is_none() {
            next.leftovers.retain(|entry| entry.adopted.is_some());
        }
        let pinned = self.release().spec.rollback_to == Some(target);
        let mut private = self.new_private(Action::Rollback, uid, attempt);
        private.inventory = next.wanted;
        private.leftovers = next.leftovers;
        private.hook_objects = plan::hook_objects(&parts.hooks, revision);
        private.inputs = of_target.inputs;
        private.last_deployed =
            before.as_ref().and_then(|private| private.last_deployed).or(of_target.last_deployed);
        private.unreachable = past.unreachable;
        private.target = Some(target);
        private.undone = if pinned { None } else { self.undone() };
        private.failures = before.map(|private| private.failures).unwrap_or_default();
        let state = State::PendingRollback {
            started_at: at(self.world.now),
            timeout: TIMEOUT,
            target_version: target,
        };
        let stored = self.new_record(revision, state, private, items);
        Ok(Prepared { stored, parts, plan, before: Some(past.objects()) })
    }

    fn new_private(&self, action: Action, uid: String, attempt: u32) -> Private {
        let private = serde_json::json!({
            "version": PRIVATE_VERSION, "owner": {"namespace": "apps", "name": "web", "uid": ""}, "holder": "",
            "action": action, "attempt": attempt, "inputs": "", "packDigest": "", "inventory": [],
        });
        let private: Private = serde_json::from_value(private).unwrap();
        let owner = Owner { uid, ..private.owner };
        Private { owner, spec: self.spec_digest(), ..private }
    }

    fn new_record(
        &mut self,
        revision: u32,
        state: State,
        private: Private,
        items: crate::release::story::model::Items,
    ) -> Stored {
        let (private, key, uid) = (Some(private), self.world.key, self.world.tick());
        Stored { revision, state, private, key, items, head: true, uid, resource_version: 0 }
    }

    /// `Pass::undone`.
    pub(super) fn undone(&self) -> Option<Undone> {
        let Found::Ours(stored) = &self.mem.head else { return None };
        let private = stored.private.as_ref()?;
        if private.undone.is_some() {
            return private.undone.clone();
        }
        matches!(stored.state, State::Failed { .. }).then(|| failure_of(stored, self.world.now))
    }

    /// `Pass::begin`.
    pub(super) fn begin(&mut self, prepared: Prepared) -> Result<Progress, Stop> {
        let Prepared { mut stored, parts, plan, before } = prepared;
        let mut private = stored.private.take().unwrap();
        let Survey { adopted, absent } = self.check_ownership(&parts, &private, before.as_ref())?;
        for entry in &mut private.inventory {
            if let Some(unexplained) = adopted.get(&entry.id) {
                entry.adopt(stored.revision, *unexplained);
            }
        }
        for entry in private.inventory.iter_mut().filter(|entry| absent.contains(&entry.id)) {
            (entry.uid, entry.fingerprint) = (None, None);
        }
        private.adopts = private.has_adopted();
        stored.private = Some(private);
        let before = std::mem::replace(&mut self.mem.head, Found::None);
        if self.fault == Some(Fault::InterruptFirst) {
            self.interrupt(stored.revision - 1)?;
        }
        if self.world.records.contains_key(&stored.revision) {
            return Err(Stop::Conflict);
        }
        self.save(&mut stored, true)?;
        self.wrote(&stored);
        self.mem.running = None;
        match before {
            Found::Ours(old) if old.state.is_pending() => self.interrupt(old.revision)?,
            Found::Ours(old) if old.state != State::Deployed => self.no_head(old.revision)?,
            Found::Foreign(_) => self.end_left(stored.revision)?,
            _ => {}
        }
        self.mem.running = Some(self.running(stored, parts, plan, absent));
        self.advance()
    }

    /// `Pass::check_ownership`.
    fn check_ownership(
        &self,
        parts: &Parts,
        private: &Private,
        before: Option<&BTreeMap<ObjectId, u32>>,
    ) -> Result<Survey, Stop> {
        let uid = &private.owner.uid;
        let doubted = private.last_deployed.is_none() && private.unreachable.is_none();
        let mut survey = Survey::default();
        for object in &parts.objects {
            let id = &object.id;
            let entry = private.inventory.iter().find(|entry| entry.id == *id);
            let made = entry.and_then(|entry| entry.uid.as_ref());
            if made.is_some() && (!doubted || entry.is_some_and(|entry| entry.ran.is_some())) {
                continue;
            }
            let Some(live) = self.world.live.get(id) else {
                survey.absent.insert(id.clone());
                continue;
            };
            let annotations = Some(&live.annotations);
            let marked = plan::is_marked(annotations, uid);
            // `is_made_by`. No story has a copy that carries our marks.
            let ours = before.is_some_and(|before| {
                let known = before.get(id).is_some_and(|changed_in| plan::explains(*changed_in, annotations));
                made == Some(&live.uid) || (marked && known)
            });
            if ours && made.is_some() {
                continue;
            }
            if !marked && !self.release().spec.adopt {
                return Err(Stop::Fix("ObjectNotOwned"));
            }
            if !ours {
                survey.adopted.insert(id.clone(), marked);
            }
        }
        // `Pass::check_hooks`
        for hook in &parts.hooks {
            let id = &hook.object.id;
            let Some(live) = self.world.live.get(id) else { continue };
            let annotations = Some(&live.annotations);
            let ordinary =
                !live.annotations.contains_key(names::HOOK_RUN) && plan::is_marked(annotations, uid);
            let known = before.and_then(|before| before.get(id));
            if ordinary && !known.is_some_and(|changed_in| plan::explains(*changed_in, annotations)) {
                return Err(Stop::Fix("ObjectNotOwned"));
            }
        }
        Ok(survey)
    }

    /// `Pass::interrupt`.
    pub(super) fn interrupt(&mut self, newest: u32) -> Result<(), Stop> {
        let mut revision = newest;
        while revision > 0 {
            let stored = self.world.records.get(&revision).cloned();
            let Some(mut stored) = stored.filter(|stored| self.world.is_sealed(stored)) else { break };
            if !stored.state.is_pending() {
                break;
            }
            self.end_interrupted(&mut stored)?;
            revision -= 1;
        }
        if revision < newest {
            self.retain()?;
        }
        Ok(())
    }

    pub(super) fn end_interrupted(&mut self, stored: &mut Stored) -> Result<(), Stop> {
        self.mark_failed(stored, format!("{}: other inputs are wanted now", reasons::INTERRUPTED));
        self.save(stored, false)?;
        self.mem.ended.push(stored.revision);
        Ok(())
    }

    pub(super) fn mark_failed(&self, stored: &mut Stored, reason: String) {
        stored.state = State::Failed { reason, recoverable: true, failed_at: at(self.world.now) };
        if let Some(private) = stored.private.as_mut() {
            private.operation = None;
        }
    }

    /// `Pass::running`, with the checkpoint that fits the plan.
    pub(super) fn running(
        &self,
        stored: Stored,
        parts: Parts,
        plan: Plan,
        absent: BTreeSet<ObjectId>,
    ) -> Box<Running> {
        let checkpoint = stored.private.as_ref().and_then(|private| private.operation.as_ref());
        let at = checkpoint.map_or(0, |operation| operation.step as usize);
        let uninstalls = matches!(stored.state, State::PendingUninstall { .. });
        let deadline = if uninstalls { i64::MAX } else { self.world.now + TIMEOUT as i64 };
        let (begun, hasty, applied, hook) = (self.world.now, false, BTreeMap::new(), None);
        Box::new(Running { stored, parts, plan, at, begun, deadline, hasty, applied, absent, hook })
    }
}

/// How the inputs of a failed revision failed.
pub(super) fn failure_of(stored: &Stored, now: i64) -> Undone {
    let private = stored.private.as_ref().unwrap();
    let failed_at = match stored.state {
        State::Failed { failed_at, .. } => failed_at,
        _ => at(now),
    };
    Undone {
        inputs: private.inputs.clone(),
        attempt: private.attempt,
        at: failed_at,
        reason: String::new(),
        message: String::new(),
        spec: private.spec.clone(),
        revision: stored.revision,
        for_good: private.undo_at_once,
    }
}
