//! What must hold whatever happens, and what has to be known of the truth to say so.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Stored, World, parts_of, value_of};
use crate::manifest::ObjectId;
use crate::plan::{self, holds_data};
use crate::release::decide::HeadState;
use crate::release::{FAILED_KEPT, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Promise {
    /// What existed before the release is not deleted without a person's wish.
    NothingOfOthersGoes,
    /// Nothing of a deployed revision goes because a later one failed.
    WhatIsDeployedStays,
    /// A hook, and a Job that is none, runs once in a revision.
    EverythingRunsOnce,
    /// Records do not pile up.
    RecordsAreBounded,
    /// What is deployed is locked, what runs is ended only for what is stored, and every release comes to rest.
    DeployedIsLocked,
    /// One record at most is deployed.
    OneIsDeployed,
}

impl Promise {
    pub(super) const COUNT: usize = 6;
}

/// Why an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A person no longer wants it.
    NotWanted,
    /// A later revision failed.
    Undone,
    /// Its release goes.
    Uninstalled,
    /// A hook has run, or is to run.
    Hook,
}

/// What no process of the story knows for sure.
#[derive(Default)]
pub(super) struct Truth {
    /// The first promise that was broken, and how.
    pub broken: Option<(Promise, String)>,
    /// Uids of the objects of the revision that was deployed last.
    deployed: BTreeSet<String>,
    /// The places that it locks.
    locked: BTreeSet<ObjectId>,
    /// How often something ran, by the record and by what it is.
    runs: BTreeMap<(u64, String, String), u32>,
    /// Records that may be too many until revisions are given up the next time: the operator died, or records came back.
    pub slack: usize,
}

impl Truth {
    /// This object belongs to what is deployed.
    pub(super) fn deploys(&mut self, uid: &str) {
        self.deployed.insert(uid.to_owned());
    }

    pub(super) fn forget_runs(&mut self) {
        self.runs.clear();
    }

    /// Whatever stands there is the release's to put back.
    pub(super) fn locks(&self, id: &ObjectId) -> bool {
        self.locked.contains(id)
    }

    /// Only what these records say is deployed still counts as such: a person wants the state of a backup.
    pub(super) fn goes_back_to<'r>(&mut self, records: impl Iterator<Item = &'r Stored>) {
        let deployed = records.filter(|stored| matches!(stored.state, State::Deployed | State::Superseded));
        let entries =
            deployed.filter_map(|stored| stored.private.as_ref()).flat_map(|private| &private.inventory);
        let still: BTreeSet<&String> = entries.filter_map(|entry| entry.uid.as_ref()).collect();
        self.deployed.retain(|uid| still.contains(uid));
    }
}

impl World {
    pub(super) fn breaks(&mut self, promise: Promise, how: String) {
        self.truth.broken.get_or_insert((promise, how));
    }

    /// The operator deletes an object.
    pub(super) fn delete(&mut self, id: &ObjectId, why: Why) {
        let Some(live) = self.live.remove(id) else { return };
        let wished = why != Why::Undone && live.owned && !holds_data(id);
        if live.was_there_before && !wished {
            self.breaks(Promise::NothingOfOthersGoes, format!("{id} existed before and goes: {why:?}"));
        }
        if why == Why::Undone && self.truth.deployed.contains(&live.uid) {
            self.breaks(Promise::WhatIsDeployedStays, format!("{id} is deployed and goes"));
        }
    }

    /// The operator begins something that is to run once.
    pub(super) fn runs(&mut self, record: u64, revision: u32, id: &ObjectId, run: String) {
        let count = self.truth.runs.entry((record, id.name.clone(), run)).or_default();
        *count += 1;
        if *count > 1 {
            let how = format!("{id} runs again in revision {revision}");
            self.breaks(Promise::EverythingRunsOnce, how);
        }
    }

    /// A person took away what ran: it is not known how it would have ended.
    pub(super) fn may_run_again(&mut self, id: &ObjectId) {
        self.truth.runs.retain(|(_, name, _), _| *name != id.name);
    }

    /// The operator wrote a record.
    pub(super) fn wrote_record(&mut self, stored: &Stored, ends_on_purpose: bool) {
        let newest = self.newest().is_none_or(|newest| newest.revision <= stored.revision);
        match (HeadState::of(&stored.state), &stored.private) {
            (HeadState::Deployed, Some(private)) if newest => {
                self.truth.deployed.clear();
                self.truth.locked = private.inventory.iter().map(|entry| entry.id.clone()).collect();
                for entry in &private.inventory {
                    if let Some(live) =
                        self.live.get_mut(&entry.id).filter(|live| Some(&live.uid) == entry.uid.as_ref())
                    {
                        live.owned = true;
                        self.truth.deployed.insert(live.uid.clone());
                    }
                }
            }
            (HeadState::Interrupted, Some(_)) if newest && !ends_on_purpose => {
                let how = format!("revision {} is ended and nothing takes its place", stored.revision);
                self.breaks(Promise::DeployedIsLocked, how);
            }
            _ => {}
        }
    }

    /// Nothing is left to do for now. `own`: the newest record, where the operator has no doubt of it.
    pub(super) fn check_at_rest(&mut self, own: Option<&Stored>) {
        let Some(release) = &self.release else { return };
        if release.deleting || release.spec.suspended {
            return;
        }
        self.check_bounds();
        let Some(newest) = own.filter(|newest| newest.state == State::Deployed) else { return };
        let deployed = self.records.values().filter(|stored| stored.state == State::Deployed);
        let proved = deployed.filter(|stored| stored.private.is_none() || self.is_sealed(stored));
        let proved: Vec<u32> = proved.map(|stored| stored.revision).collect();
        if proved.len() > 1 {
            self.breaks(Promise::OneIsDeployed, format!("deployed at once: {proved:?}"));
        }
        self.check_lock(newest);
    }

    fn check_lock(&mut self, newest: &Stored) {
        let Some(private) = newest.private.as_ref().filter(|private| !private.accepted) else { return };
        for object in parts_of(newest.items).objects {
            let entry = private.inventory.iter().find(|entry| entry.id == object.id);
            if entry.is_some_and(|entry| entry.ran.is_some()) {
                continue;
            }
            let live = self.live.get(&object.id);
            let marked =
                |live: &super::model::Live| plan::is_marked(Some(&live.annotations), &private.owner.uid);
            if !live.is_some_and(|live| live.value == value_of(&object) && marked(live)) {
                self.breaks(Promise::DeployedIsLocked, format!("{} is not put back", object.id));
                return;
            }
        }
    }

    fn check_bounds(&mut self) {
        let Some(release) = &self.release else { return };
        let ours: Vec<&Stored> = self.records.values().filter(|stored| self.is_sealed(stored)).collect();
        let was_deployed = |stored: &&&Stored| matches!(stored.state, State::Deployed | State::Superseded);
        let deployed = ours.iter().filter(was_deployed).count();
        let pinned = usize::from(release.spec.rollback_to.is_some());
        let others = ours.len() - deployed;
        let limit = release.spec.limit.max(3) + pinned;
        if deployed > limit + self.truth.slack || others > FAILED_KEPT + 1 + pinned + self.truth.slack {
            let how = format!("{deployed} were deployed and {others} not");
            self.breaks(Promise::RecordsAreBounded, how);
        }
    }
}
