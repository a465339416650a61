//! What ends, and what is put in order behind it: `reconcile/{own,accept,uninstall,history}.rs`.

use super::steps::Went;
use super::{Found, Progress, Shell, Stop, at};
use crate::api::{names, reasons};
use crate::manifest::InventoryEntry;
use crate::plan;
use crate::release::decide::{Doubt, Operation};
use crate::release::story::faults::Fault;
use crate::release::story::model::Stored;
use crate::release::story::promises::Why;
use crate::release::{HookRun, Private, Retained, State, surplus};

impl Shell<'_> {
    /// `Pass::end_pending`.
    pub(super) fn end_pending(&mut self, interrupts: bool) -> Result<(), Stop> {
        self.mem.running = None;
        let (Found::Ours(head) | Found::Foreign(head)) = self.mem.head.clone() else { return Ok(()) };
        let mut stored = head;
        let reason = if interrupts { reasons::INTERRUPTED } else { "Recovered" };
        self.mark_failed(&mut stored, reason.to_owned());
        self.save_ended(&mut stored, true, true)?;
        self.mem.ended.push(stored.revision);
        if stored.private.is_some() {
            self.wrote(&stored);
        } else {
            self.mem.head = Found::None;
        }
        self.retain()
    }

    /// `Pass::accept_record`.
    pub(super) fn accept_record(&mut self) -> Result<(), Stop> {
        let Found::Doubtful(mut stored, doubt) = self.mem.head.clone() else { return Ok(()) };
        let mut private = stored.private.take().unwrap();
        if doubt != Doubt::Rewound {
            self.strip(&mut private);
            private.accepted = true;
            if stored.state.is_pending() {
                let reason = reasons::INTERRUPTED.to_owned();
                stored.state = State::Failed { reason, recoverable: true, failed_at: at(self.world.now) };
                private.operation = None;
            }
        }
        let (known, writes) = self.known();
        if stored.revision == known && private.writes < writes && self.head_is_pending() {
            private.unreachable = private.unreachable.max(Some(stored.revision - 1));
        }
        private.writes = private.writes.max(writes);
        // A person who vouches for an older state wants what it had still to do.
        stored.uid = self.world.tick();
        stored.private = Some(private);
        self.save_ended(&mut stored, true, true)?;
        self.mem.running = None;
        self.wrote(&stored);
        Ok(())
    }

    fn head_is_pending(&self) -> bool {
        matches!(&self.mem.head, Found::Doubtful(stored, _) if stored.state.is_pending())
    }

    /// Leaves in a record only objects that live with the mark of this release.
    fn strip(&self, private: &mut Private) {
        let uid = private.owner.uid.clone();
        let marked = |entry: &InventoryEntry| {
            self.world.live.get(&entry.id).is_some_and(|live| {
                let run = live.annotations.get(names::HOOK_RUN).and_then(|run| run.split_once('.'));
                plan::is_marked(Some(&live.annotations), &uid) || run.is_some_and(|(of, _)| of == uid)
            })
        };
        for entries in [&mut private.inventory, &mut private.leftovers, &mut private.hook_objects] {
            entries.retain(marked);
            for adopted in entries.iter_mut().filter_map(|entry| entry.adopted.as_mut()) {
                adopted.kept = None;
            }
        }
    }

    /// `Pass::remove_failed`.
    pub(super) fn remove_failed(&mut self) -> Result<(), Stop> {
        let undone = self.undone();
        let mut stored = self.read_head()?;
        let private = stored.private.clone().unwrap();
        let uid = private.owner.uid.clone();
        let entries = private.inventory.into_iter().chain(private.leftovers).collect();
        for entry in plan::deletion_order(entries) {
            self.delete_ours(&entry, &uid, Why::Undone)?;
        }
        for entry in &private.hook_objects {
            self.delete_ours(entry, &uid, Why::Hook)?;
        }
        stored.state = State::Uninstalled;
        let private = stored.private.as_mut().unwrap();
        empty(private);
        private.undone = undone;
        self.save(&mut stored, true)?;
        self.wrote(&stored);
        Ok(())
    }

    /// `Pass::uninstall`.
    pub(super) fn uninstall(&mut self) -> Result<Progress, Stop> {
        let Found::Ours(head) = self.mem.head.clone() else { return Ok(Progress::Gone) };
        if self.release().status.past_objects || head.state == State::Uninstalled {
            return self.records_go();
        }
        if !matches!(head.state, State::PendingUninstall { .. }) {
            self.mem.running = None;
            let mut stored = self.read_head()?;
            stored.state = State::PendingUninstall { started_at: at(self.world.now), timeout: 300 };
            stored.private.as_mut().unwrap().operation = None;
            self.save(&mut stored, true)?;
            self.wrote(&stored);
        }
        self.load_running()?;
        let Some(mut running) = self.mem.running.take() else { return Ok(Progress::Nothing) };
        match self.steps(&mut running) {
            Ok(Went::Done) => {
                let private = running.stored.private.clone().unwrap();
                for entry in &private.hook_objects {
                    self.delete_ours(entry, &private.owner.uid, Why::Uninstalled)?;
                }
                self.records_go()
            }
            Ok(Went::Wait(until)) => {
                self.mem.running = Some(running);
                Ok(Progress::Running(until))
            }
            Ok(Went::Failed { .. }) => {
                let private = running.stored.private.as_mut().unwrap();
                if let Some(run) = private.operation.as_mut().and_then(|operation| operation.hook.as_mut()) {
                    let attempt = run.attempt + 1;
                    *run = HookRun { attempt, first: attempt, failed: None, uid: None };
                }
                self.save(&mut running.stored, true)?;
                self.wrote(&running.stored.clone());
                self.mem.running = Some(running);
                Err(Stop::Retry("HookFailed"))
            }
            Err(Stop::Conflict) => Err(Stop::Conflict),
            Err(stop) => {
                self.mem.running = Some(running);
                Err(stop)
            }
        }
    }

    fn records_go(&mut self) -> Result<Progress, Stop> {
        if !self.release().status.past_objects {
            self.release_mut().status.past_objects = true;
            self.world.written()?;
        }
        while self.world.records.pop_first().is_some() {
            self.world.written()?;
        }
        Ok(Progress::Gone)
    }

    /// `Pass::clear_up_records`.
    pub(super) fn orphan(&mut self) -> Result<Progress, Stop> {
        if matches!(self.mem.head, Found::None) && self.release().status.past_objects {
            return self.records_go();
        }
        Ok(Progress::Gone)
    }

    /// `Pass::conclude`.
    pub(super) fn conclude(&mut self, revision: u32, before: Option<u32>) -> Result<Progress, Stop> {
        if self.fault != Some(Fault::NoSupersede) {
            if before.is_some_and(|before| before + 1 == revision) {
                self.supersede(revision - 1)?;
            } else if revision > 1 {
                let outdated = |shell: &Self, stored: &Stored| {
                    let deployed = stored.state == State::Deployed && !shell.in_doubt(stored);
                    stored.head || deployed || shell.is_left(stored)
                };
                self.supersede_all(revision, outdated)?;
            }
        }
        self.retain()?;
        self.settle_jobs()?;
        Ok(Progress::Finished(revision))
    }

    /// `Pass::conclude_before`.
    pub(super) fn conclude_before(&mut self, next: &Operation) -> Result<(), Stop> {
        let begins = matches!(
            next,
            Operation::Install { .. } | Operation::Upgrade { .. } | Operation::Rollback { .. }
        );
        let Found::Ours(head) = &self.mem.head else { return Ok(()) };
        let revision = head.revision;
        if begins && head.state == State::Deployed && !self.is_told(revision) {
            self.conclude(revision, None)?;
            self.mem.ended.push(revision);
        }
        Ok(())
    }

    fn is_told(&self, revision: u32) -> bool {
        self.release().status.history.contains(&revision) || self.mem.ended.contains(&revision)
    }

    /// `Pass::catch_up`.
    pub(super) fn catch_up(&mut self) -> Result<Progress, Stop> {
        let Some((revision, _)) = self.own() else { return Ok(Progress::Nothing) };
        if !self.is_told(revision) {
            return self.conclude(revision, None);
        }
        for old in std::mem::take(&mut self.mem.outdated).into_iter().filter(|old| *old < revision) {
            self.supersede(old)?;
        }
        self.settle_jobs()?;
        Ok(Progress::Nothing)
    }

    /// `Pass::end_left`.
    pub(super) fn end_left(&mut self, revision: u32) -> Result<(), Stop> {
        self.supersede_all(revision, Self::is_left)
    }

    fn is_left(&self, stored: &Stored) -> bool {
        self.world.is_sealed(stored) && stored.state.is_pending()
    }

    fn supersede_all(&mut self, below: u32, meant: impl Fn(&Self, &Stored) -> bool) -> Result<(), Stop> {
        let older = self.world.records.range(..below).map(|(_, stored)| stored);
        let older: Vec<u32> =
            older.filter(|stored| meant(self, stored)).map(|stored| stored.revision).collect();
        older.into_iter().try_for_each(|old| self.supersede(old))
    }

    fn in_doubt(&self, stored: &Stored) -> bool {
        stored.private.is_some() && !self.world.is_sealed(stored)
    }

    fn supersede(&mut self, old: u32) -> Result<(), Stop> {
        let Some(mut stored) = self.world.records.get(&old).cloned() else { return Ok(()) };
        if stored.state == State::Deployed && !self.in_doubt(&stored) {
            stored.state = State::Superseded;
            self.save(&mut stored, false)
        } else if self.is_left(&stored) {
            self.end_interrupted(&mut stored)
        } else if stored.head {
            self.no_head(old)
        } else {
            Ok(())
        }
    }

    /// `Pass::settle_deployed_jobs`.
    fn settle_jobs(&mut self) -> Result<(), Stop> {
        let mut stored = self.read_head()?;
        let mut private = stored.private.clone().unwrap();
        if self.record_ends(&mut private) {
            stored.private = Some(private);
            self.save(&mut stored, true)?;
            self.wrote(&stored);
        }
        Ok(())
    }

    /// `Pass::retain`.
    pub(super) fn retain(&mut self) -> Result<(), Stop> {
        if self.fault == Some(Fault::KeepFailures) {
            return Ok(());
        }
        let spec = self.release().spec;
        let retained = |stored: &Stored| {
            let private = stored.private.as_ref().filter(|_| self.world.is_sealed(stored));
            Retained {
                revision: stored.revision,
                state: stored.state.name(),
                is_ours: private.is_some(),
                pinned: spec.rollback_to == Some(stored.revision),
                manifest: private.map(|_| format!("{:?}", stored.items)).unwrap_or_default(),
                replaces: private.map(|private| private.replaces.clone()).unwrap_or_default(),
            }
        };
        let all: Vec<Retained> = self.world.records.values().map(retained).collect();
        for revision in surplus(&all, spec.limit) {
            self.world.records.remove(&revision);
            self.mem.given_up.push(revision);
            self.world.written()?;
        }
        self.world.truth.slack = 0;
        Ok(())
    }
}

fn empty(private: &mut Private) {
    private.inventory.clear();
    private.leftovers.clear();
    private.hook_objects.clear();
    private.operation = None;
}
