//! What is known before a decision: `reconcile/{observe,known,successor,rollback,failures}.rs`.

use super::begin::Prepared;
use super::{Found, Shell, Stop, at};
use crate::plan;
use crate::release::State;
use crate::release::decide::{
    self, Deletion, Doubt, Doubtful, Drift, Head, HeadState, Observation, OnFailure, OurHead, Retries,
    RetryInterval, RollbackTo, Successor,
};
use crate::release::story::faults::Fault;
use crate::release::story::model::{Release, Stored, Trouble, parts_of, place_of};

const TRY_AGAIN: i64 = 30;

impl Shell<'_> {
    pub(super) fn release(&self) -> &Release {
        self.world.release.as_ref().unwrap()
    }

    pub(super) fn release_mut(&mut self) -> &mut Release {
        self.world.release.as_mut().unwrap()
    }

    pub(super) fn observe_head(&mut self) {
        self.recall();
        let read = self.world.newest().cloned();
        let outlived = read.as_ref().is_some_and(|stored| stored.revision < self.known().0);
        let version = read.as_ref().map(|stored| stored.resource_version);
        if self.mem.running.as_ref().is_some_and(|running| Some(running.stored.resource_version) != version) {
            self.mem.running = None;
        }
        self.mem.head = match read {
            Some(stored) if !outlived => self.judged(stored),
            _ => Found::None,
        };
        self.knows();
    }

    /// `Pass::recall`.
    fn recall(&mut self) {
        let release = self.release();
        let told = (release.uid.clone(), (release.status.revision, release.status.writes));
        if self.mem.told.as_ref().is_some_and(|before| before.0 != told.0 || told.1 < before.1) {
            self.mem.known = (0, 0);
            self.mem.running = None;
        }
        self.mem.told = Some(told);
    }

    pub(super) fn known(&self) -> (u32, u64) {
        let status = &self.release().status;
        (status.revision, status.writes).max(self.mem.known)
    }

    pub(super) fn knows(&mut self) {
        if let Some((revision, private)) = self.own() {
            self.mem.known = self.mem.known.max((revision, private.writes));
        }
    }

    pub(super) fn judged(&self, stored: Stored) -> Found {
        let Some(private) = &stored.private else { return Found::Foreign(stored) };
        let (revision, writes) = self.known();
        let doubt = match () {
            () if self.fault == Some(Fault::Trusting) => None,
            () if !self.world.is_sealed(&stored) => Some(Doubt::KeyLost),
            () if stored.revision == revision && private.writes < writes => Some(Doubt::Rewound),
            () => None,
        };
        match doubt {
            Some(doubt) => Found::Doubtful(stored, doubt),
            None => Found::Ours(stored),
        }
    }

    pub(super) fn digest_of_doubt(&self, stored: &Stored) -> String {
        let writes = stored.private.as_ref().map_or(0, |private| private.writes);
        format!("{} {} {} {writes} {:?}", self.release().uid, stored.uid, stored.revision, self.known())
    }

    pub(super) fn observation(&self) -> Observation {
        let release = self.release();
        let spec = &release.spec;
        let known = !release.deleting && !spec.suspended && spec.trouble != Trouble::Source;
        Observation {
            deletion: release.deleting.then(Deletion::default),
            suspended: spec.suspended,
            name_taken_by: None,
            head: self.seen_head(),
            inputs: known.then(|| self.inputs()),
            accepted: release.accept.clone(),
            spec: self.spec_digest(),
            unreadable: spec.trouble == Trouble::Source,
            reset_requested: release.reset_at.is_some() && release.reset_at != release.status.reset_handled,
            paused: spec.paused,
            unapproved: None,
            dependency: None,
            successor: Successor::Unknown,
            healed: known && self.healed(),
            retries: Retries { install: spec.retries, upgrade: spec.retries },
            retry_interval: RetryInterval::default(),
            on_failure: OnFailure {
                uninstall: spec.uninstall_on_failure,
                rollback: spec.rollback_on_failure,
            },
            rollback_to: spec.rollback_to.map(|revision| {
                let back = matches!(self.own(), Some((head, private)) if head == revision || private.target == Some(revision));
                let problem = (!back && self.target(revision).is_none()).then(|| "gone".to_owned());
                RollbackTo { revision, problem }
            }),
            test: false,
            drift: Drift::Watched,
            now: at(self.world.now),
        }
    }

    pub(super) fn inputs(&self) -> String {
        let spec = &self.release().spec;
        format!("{:?} {}", spec.items, spec.trouble == Trouble::Render)
    }

    pub(super) fn spec_digest(&self) -> String {
        format!("{:?}", self.release().spec)
    }

    fn seen_head(&self) -> Head {
        match &self.mem.head {
            Found::None => Head::None { expected: self.known().0 > 0 && !self.release().status.past_objects },
            Found::Ours(stored) => match &stored.private {
                Some(private) => Head::Ours(OurHead::of(stored.revision, &stored.state, private)),
                None => unreachable!("it is foreign"),
            },
            Found::Foreign(stored) => {
                Head::Foreign { revision: stored.revision, state: HeadState::of(&stored.state) }
            }
            Found::Doubtful(stored, doubt) => Head::Doubtful(Doubtful {
                doubt: *doubt,
                digest: Some(self.digest_of_doubt(stored)),
                message: String::new(),
            }),
        }
    }

    /// `Pass::healed`.
    fn healed(&self) -> bool {
        let Found::Ours(stored) = &self.mem.head else { return false };
        let entries = stored.private.iter().flat_map(|private| &private.inventory);
        // Another Job of its name is not the one that failed.
        let mut jobs = entries.filter(|entry| plan::is_job(&entry.id) && entry.uid.is_some());
        let same = jobs.all(|entry| {
            self.world.live.get(&entry.id).is_some_and(|live| Some(&live.uid) == entry.uid.as_ref())
        });
        let healthy = parts_of(stored.items).objects.iter().all(|object| self.is_healthy(&object.id));
        Self::failed_for_health(stored) && same && healthy
    }

    pub(super) fn is_healthy(&self, id: &crate::manifest::ObjectId) -> bool {
        !self.world.sick.contains(&place_of(id)) && self.world.live.contains_key(id)
    }

    /// `Pass::target`.
    pub(super) fn target(&self, revision: u32) -> Option<&Stored> {
        self.world.records.get(&revision).filter(|stored| {
            self.world.is_sealed(stored) && matches!(stored.state, State::Deployed | State::Superseded)
        })
    }

    pub(super) fn has_way_back(&self, seen: &mut Observation, target: u32) -> bool {
        if self.target(target).is_some() {
            return true;
        }
        seen.on_failure.rollback = false;
        if let Head::Ours(head) = &mut seen.head {
            (head.target, head.undo_at_once) = (None, false);
        }
        false
    }

    pub(super) fn was_deployed_before(&self, seen: &mut Observation) -> bool {
        let past = self.past_records();
        let deployed = past.deployed || past.unreachable.is_some();
        let before = deployed && self.fault != Some(Fault::ForgetDeployed);
        if let Head::Ours(head) = &mut seen.head {
            head.earlier_deployed = before;
        }
        before
    }

    /// `Pass::successor`.
    pub(super) fn successor(&mut self, seen: &Observation) -> Result<(Successor, Option<Prepared>), Stop> {
        let Some(name) = name_of(seen) else { return Ok((Successor::Unknown, None)) };
        let generation = self.release().generation;
        let known = self.mem.refused.as_ref();
        if known.is_some_and(|known| known.0 == name && known.1 == generation && self.world.now < known.2) {
            return Ok((Successor::Refused, None));
        }
        let Head::Ours(head) = &seen.head else { return Ok((Successor::Unknown, None)) };
        let revision = head.revision + 1;
        let prepared = match &seen.rollback_to {
            Some(to) => self.prepare_rollback(revision, to.revision, 1),
            None => {
                let attempt = decide::next_attempt(seen, head);
                self.prepare(decide::is_fresh(head), revision, attempt, false)
            }
        };
        match prepared {
            Ok(prepared) => Ok((Successor::Ready, Some(prepared))),
            Err(Stop::Died) => Err(Stop::Died),
            Err(_) => {
                self.mem.refused = Some((name, generation, self.world.now + TRY_AGAIN));
                Ok((Successor::Refused, None))
            }
        }
    }

    pub(super) fn goes_on_instead(&mut self, seen: &Observation, error: Stop) -> Result<(), Stop> {
        let news = seen.successor != Successor::Refused && decide::asks_for_successor(seen);
        let name = name_of(seen).filter(|_| news && !matches!(error, Stop::Conflict));
        let Some(name) = name else { return Err(error) };
        self.mem.refused = Some((name, self.release().generation, self.world.now + TRY_AGAIN));
        Ok(())
    }
}

fn name_of(seen: &Observation) -> Option<String> {
    match &seen.rollback_to {
        Some(to) => Some(format!("rollback to {}", to.revision)),
        None => seen.inputs.clone(),
    }
}
