//! An operation from its record to its end: `reconcile/operation/run.rs`, the end of `objects/apply.rs`, `drift/revert.rs`.

use std::collections::BTreeSet;

use super::begin::{failure_of, occasion};
use super::steps::Went;
use super::{Found, Progress, Running, Shell, Stop};
use crate::api::{names, reasons};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::release::story::faults::Fault;
use crate::release::story::model::{Stored, parts_of, value_of};
use crate::release::story::promises::Why;
use crate::release::{Action, State};

impl Shell<'_> {
    /// `Pass::save`: one write of a record.
    pub(super) fn save(&mut self, stored: &mut Stored, head: bool) -> Result<(), Stop> {
        self.save_ended(stored, head, false)
    }

    pub(super) fn save_ended(
        &mut self,
        stored: &mut Stored,
        head: bool,
        on_purpose: bool,
    ) -> Result<(), Stop> {
        let there = self.world.records.get(&stored.revision).map_or(0, |there| there.resource_version);
        if there != stored.resource_version {
            self.mem.running = None;
            return Err(Stop::Conflict);
        }
        if let Some(private) = stored.private.as_mut() {
            private.writes += 1;
            stored.key = self.world.key;
        }
        stored.head = head;
        stored.resource_version = self.world.tick();
        self.world.states.push(stored.clone());
        self.world.wrote_record(stored, on_purpose);
        self.world.records.insert(stored.revision, stored.clone());
        Ok(self.world.written()?)
    }

    /// `Pass::wrote`.
    pub(super) fn wrote(&mut self, stored: &Stored) {
        self.mem.head = Found::Ours(stored.clone());
        self.knows();
    }

    pub(super) fn no_head(&mut self, revision: u32) -> Result<(), Stop> {
        let resource_version = self.world.tick();
        let Some(stored) = self.world.records.get_mut(&revision) else { return Ok(()) };
        (stored.head, stored.resource_version) = (false, resource_version);
        Ok(self.world.written()?)
    }

    /// `Pass::resume` and `Pass::hasten`.
    pub(super) fn go_on(&mut self, hasty: bool) -> Result<Progress, Stop> {
        self.load_running()?;
        if let Some(running) = self.mem.running.as_mut() {
            running.hasty |= hasty;
        }
        self.advance()
    }

    /// `Pass::read_head_whole`.
    pub(super) fn read_head(&mut self) -> Result<Stored, Stop> {
        let revision = self.own().map_or(0, |(revision, _)| revision);
        let read = self.world.records.get(&revision).cloned().map(|stored| self.judged(stored));
        match read {
            Some(Found::Ours(stored)) => Ok(stored),
            _ => Err(Stop::Retry("RecordChanged")),
        }
    }

    pub(super) fn load_running(&mut self) -> Result<(), Stop> {
        if self.mem.running.is_some() {
            return Ok(());
        }
        let stored = self.read_head()?;
        if stored.revision > 1 && stored.state.is_pending() {
            self.interrupt(stored.revision - 1)?;
        }
        let parts = parts_of(stored.items);
        let private = stored.private.as_ref().unwrap();
        let plan = match stored.state {
            State::PendingUninstall { .. } => plan::deletion(
                &parts,
                &private.inventory,
                &private.leftovers,
                &BTreeSet::new(),
                private.last_deployed.is_some(),
            ),
            _ => plan::roll_out(&parts, occasion(private.action)),
        };
        // `never_applied` and `made_anew`
        let first = private.last_deployed.is_none() && private.unreachable.is_none();
        let unknown = |entry: &&InventoryEntry| match &entry.uid {
            None => entry.adopted.is_none(),
            Some(_) if !first || plan::is_job(&entry.id) => false,
            made => self.world.live.get(&entry.id).map(|live| &live.uid) != made.as_ref(),
        };
        let absent: BTreeSet<ObjectId> =
            private.inventory.iter().filter(unknown).map(|entry| entry.id.clone()).collect();
        self.mem.running = Some(self.running(stored, parts, plan.unwrap(), absent));
        Ok(())
    }

    pub(super) fn advance(&mut self) -> Result<Progress, Stop> {
        let Some(mut running) = self.mem.running.take() else { return Ok(Progress::Nothing) };
        match self.steps(&mut running) {
            Ok(Went::Done) => self.finish(running),
            Ok(Went::Wait(until)) => {
                self.mem.running = Some(running);
                Ok(Progress::Running(until))
            }
            Ok(Went::Failed { health, undo }) => {
                running.stored.private.as_mut().unwrap().undo_at_once = undo;
                self.fail(*running, if health { reasons::HEALTH_TIMEOUT } else { "Failed" })
            }
            Err(Stop::Fix(reason)) => self.fail(*running, reason),
            Err(Stop::Retry(reason)) if self.world.now >= running.deadline => self.fail(*running, reason),
            Err(Stop::Retry(reason)) => {
                self.mem.running = Some(running);
                Err(Stop::Retry(reason))
            }
            Err(stop) => Err(stop),
        }
    }

    fn finish(&mut self, mut running: Box<Running>) -> Result<Progress, Stop> {
        self.prune(&mut running)?;
        let mut stored = running.stored;
        stored.state = State::Deployed;
        let private = stored.private.as_mut().unwrap();
        let before = private.last_deployed;
        plan::make_own(&mut private.inventory);
        private.last_deployed = Some(stored.revision);
        private.forget_failure();
        private.operation = None;
        self.save(&mut stored, true)?;
        self.wrote(&stored);
        self.conclude(stored.revision, before)
    }

    fn fail(&mut self, running: Running, reason: &str) -> Result<Progress, Stop> {
        let mut stored = running.stored;
        self.mark_failed(&mut stored, reason.to_owned());
        let failed = failure_of(&stored, self.world.now);
        let private = stored.private.as_mut().unwrap();
        if matches!(private.action, Action::Install | Action::Upgrade) {
            private.note_failure(failed);
        }
        self.save(&mut stored, true)?;
        self.wrote(&stored);
        self.retain()?;
        Ok(Progress::Finished(stored.revision))
    }

    fn prune(&mut self, running: &mut Running) -> Result<(), Stop> {
        let private = running.stored.private.as_mut().unwrap();
        let uid = private.owner.uid.clone();
        let why = if private.undone.is_some() { Why::Undone } else { Why::NotWanted };
        for entry in plan::deletion_order(std::mem::take(&mut private.leftovers)) {
            self.delete_ours(&entry, &uid, why)?;
        }
        Ok(())
    }

    /// Deletes an object, or hands it back.
    pub(super) fn delete_ours(&mut self, entry: &InventoryEntry, uid: &str, why: Why) -> Result<(), Stop> {
        let mut entry = entry.clone();
        if self.fault == Some(Fault::PruneAdopted) {
            entry.adopted = None;
        }
        let Some(live) = self.world.live.get_mut(&entry.id) else { return Ok(()) };
        if let Some(adopted) = &entry.adopted {
            if !plan::is_marked(Some(&live.annotations), uid) {
                return Ok(());
            }
            live.annotations.remove(names::APPLIED);
            if let Some(before) = adopted.kept.as_ref().and_then(|kept| kept.parse().ok()) {
                live.value = before;
            }
            return Ok(self.world.written()?);
        }
        if !plan::may_delete(&entry, &live.meta(), uid) {
            return Ok(());
        }
        self.world.delete(&entry.id, why);
        Ok(self.world.written()?)
    }

    /// `Pass::correct`.
    pub(super) fn correct(&mut self) -> Result<(), Stop> {
        let mut stored = self.read_head()?;
        let items = stored.items;
        let private = stored.private.as_mut().unwrap();
        if self.fault == Some(Fault::Unlocked) || private.accepted {
            return Ok(());
        }
        let uid = private.owner.uid.clone();
        let mut taught = false;
        for object in parts_of(items).objects {
            let Some(entry) = private.inventory.iter_mut().find(|entry| entry.id == object.id) else {
                continue;
            };
            let marker = plan::marker(&uid, entry.changed_in);
            let live = self.world.live.get(&object.id);
            let in_order = live.is_some_and(|live| {
                live.value == value_of(&object) && live.annotations.get(names::APPLIED) == Some(&marker)
            });
            if in_order || self.job_is_gone(entry) {
                continue;
            }
            let is = self.put(&object, entry, &uid, stored.uid, stored.revision);
            let live = self.world.live.get_mut(&object.id).unwrap();
            // A writer that put something into the place of what is deployed has made it the release's.
            live.owned = true;
            self.world.truth.deploys(&is);
            taught |= entry.uid.as_ref() != Some(&is);
            entry.uid = Some(is);
            self.world.written()?;
        }
        if taught {
            self.save(&mut stored, true)?;
            self.wrote(&stored);
        }
        Ok(())
    }
}
