//! The operator of the stories: what `reconcile` does, one write at a time. What decides is the product's own.

mod begin;
mod end;
mod hooks;
mod observe;
mod run;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::faults::Fault;
use super::model::{Died, Stored, Trouble, World};
use crate::api::reasons;
use crate::manifest::ObjectId;
use crate::plan::{Parts, Plan};
use crate::release::decide::{self, Doubt, Hold, Observation, Operation};
use crate::release::{Private, State};

/// As in `reconcile`.
const DECISIONS: usize = 6;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// The newest record, as `reconcile` sees it.
#[derive(Clone)]
pub(super) enum Found {
    None,
    Ours(Stored),
    Foreign(Stored),
    Doubtful(Stored, Doubt),
}

/// An operation between two passes.
pub(super) struct Running {
    stored: Stored,
    parts: Parts,
    plan: Plan,
    at: usize,
    begun: i64,
    deadline: i64,
    hasty: bool,
    applied: BTreeMap<ObjectId, String>,
    absent: BTreeSet<ObjectId>,
    /// The object of the hook that runs.
    hook: Option<String>,
}

/// What goes with the process.
pub(super) struct Memory {
    known: (u32, u64),
    told: Option<(String, (u32, u64))>,
    head: Found,
    running: Option<Box<Running>>,
    /// What was refused instead of the newest revision, of which generation, and when to try again.
    refused: Option<(String, i64, i64)>,
    /// Older revisions that called themselves the newest when the process began.
    outdated: Vec<u32>,
    ended: Vec<u32>,
    given_up: Vec<u32>,
}

impl Memory {
    pub(super) fn of_new_process(world: &World) -> Self {
        let newest = world.newest().map_or(0, |newest| newest.revision);
        let older = world.records.values().filter(|stored| stored.head && stored.revision < newest);
        Self {
            known: (0, 0),
            told: None,
            head: Found::None,
            running: None,
            refused: None,
            outdated: older.map(|stored| stored.revision).collect(),
            ended: Vec::new(),
            given_up: Vec::new(),
        }
    }

    /// The newest record as the last pass saw it, if it is the release's own.
    pub(super) fn own(&self) -> Option<&Stored> {
        match &self.head {
            Found::Ours(stored) => Some(stored),
            _ => None,
        }
    }
}

/// What ends a pass before its time.
pub(super) enum Stop {
    Died,
    /// Another writer was first.
    Conflict,
    /// It may pass.
    Retry(&'static str),
    /// A person has to mend it.
    Fix(&'static str),
}

impl From<Died> for Stop {
    fn from(_: Died) -> Self {
        Self::Died
    }
}

/// How far a pass got.
pub(super) enum Progress {
    Nothing,
    /// An operation waits, at most until then.
    Running(i64),
    Finished(u32),
    Blocked,
    Gone,
}

/// What is left after a pass.
pub(super) enum Rest {
    /// Something is under way; nothing happens before this time.
    Busy(i64),
    /// Nothing happens by itself, or not soon.
    Quiet,
    /// Something stood in the way, and is tried again a little later.
    SetBack,
    Dead,
}

pub(super) struct Shell<'w> {
    pub world: &'w mut World,
    pub mem: &'w mut Memory,
    pub fault: Option<Fault>,
}

impl Shell<'_> {
    /// `reconcile::reconcile`.
    pub(super) fn pass(&mut self) -> Rest {
        self.world.now += 1;
        if self.world.release.is_none() {
            return Rest::Quiet;
        }
        let trouble = self.release().spec.trouble == Trouble::Invalid && !self.release().deleting;
        let outcome = if trouble { self.refuse() } else { self.decide_and_act() };
        match self.settle(outcome, trouble) {
            Ok(rest) => rest,
            Err(_) => Rest::Dead,
        }
    }

    /// `Pass::decide_and_act`.
    fn decide_and_act(&mut self) -> Result<(Operation, Option<Timestamp>, Progress), Stop> {
        for _ in 0..DECISIONS {
            self.observe_head();
            let mut seen = self.observation();
            let mut prepared = None;
            if decide::asks_for_successor(&seen) {
                (seen.successor, prepared) = self.successor(&seen)?;
            }
            let mut decision = decide::decide(&seen);
            if let (Operation::Rollback { target, .. }, None) = (&decision.operation, &seen.rollback_to)
                && !self.has_way_back(&mut seen, *target)
            {
                decision = decide::decide(&seen);
            }
            if decision.operation == Operation::Remove && self.was_deployed_before(&mut seen) {
                decision = decide::decide(&seen);
            }
            self.conclude_before(&decision.operation)?;
            if decision.correct {
                self.correct()?;
            }
            let Some(progress) = self.act(&seen, &decision.operation, prepared)? else { continue };
            let progress = match progress {
                Progress::Nothing | Progress::Blocked if self.rests_deployed(&decision.operation) => {
                    match self.catch_up()? {
                        Progress::Nothing => progress,
                        caught => caught,
                    }
                }
                progress => progress,
            };
            return Ok((decision.operation, decision.until, progress));
        }
        Err(Stop::Retry("Undecided"))
    }

    /// `None`: it only made way for another decision.
    fn act(
        &mut self,
        seen: &Observation,
        operation: &Operation,
        prepared: Option<begin::Prepared>,
    ) -> Result<Option<Progress>, Stop> {
        let begun = match *operation {
            Operation::Recover | Operation::Interrupt => {
                return self.end_pending(*operation == Operation::Interrupt).map(|()| None);
            }
            Operation::AcceptRecord => return self.accept_record().map(|()| None),
            Operation::AwaitHook => return self.await_hook(),
            Operation::Remove => return self.remove_failed().map(|()| None),
            Operation::Install { revision, attempt } | Operation::Upgrade { revision, attempt } => {
                let installs = matches!(operation, Operation::Install { .. });
                let prepared = match prepared {
                    Some(prepared) => Ok(prepared),
                    None => self.prepare(installs, revision, attempt, false),
                };
                prepared.and_then(|prepared| self.begin(prepared))
            }
            Operation::Rollback { revision, target, attempt } => {
                self.prepare_rollback(revision, target, attempt).and_then(|prepared| self.begin(prepared))
            }
            Operation::StartOver => {
                if seen.inputs.is_none() {
                    return Err(Stop::Fix("InputsUnknown"));
                }
                let newest = self.world.newest().map_or(0, |newest| newest.revision);
                let revision = newest.max(self.known().0) + 1;
                let prepared = self.prepare(true, revision, 1, true)?;
                return self.begin(prepared).map(Some);
            }
            Operation::Hasten => return self.go_on(true).map(Some),
            Operation::Resume => return self.go_on(false).map(Some),
            Operation::Uninstall => return self.uninstall().map(Some),
            Operation::LetGo | Operation::Test => unreachable!("no story asks for it"),
            Operation::Orphan => return self.orphan().map(Some),
            Operation::Hold(Hold::InputsUnknown) => return Ok(Some(Progress::Blocked)),
            Operation::Hold(Hold::Suspended) => {
                self.mem.running = None;
                return Ok(Some(Progress::Nothing));
            }
            Operation::Nothing | Operation::Hold(_) | Operation::Wait => return Ok(Some(Progress::Nothing)),
        };
        match begun {
            Ok(progress) => Ok(Some(progress)),
            Err(Stop::Died) => Err(Stop::Died),
            Err(error) => {
                self.stay_locked()?;
                self.goes_on_instead(seen, error).map(|()| None)
            }
        }
    }

    fn rests_deployed(&self, operation: &Operation) -> bool {
        let rests = match operation {
            Operation::Nothing | Operation::Wait => true,
            Operation::Hold(hold) => !matches!(hold, Hold::Suspended),
            _ => false,
        };
        matches!(&self.mem.head, Found::Ours(head) if rests && head.state == State::Deployed)
    }

    fn stay_locked(&mut self) -> Result<(), Stop> {
        let seen = Observation { inputs: None, rollback_to: None, ..self.observation() };
        if decide::decide(&seen).correct { self.correct() } else { Ok(()) }
    }

    /// `Pass::refuse`: a spec that cannot be acted on.
    fn refuse(&mut self) -> Result<(Operation, Option<Timestamp>, Progress), Stop> {
        self.observe_head();
        let mut seen =
            Observation { unreadable: true, inputs: None, rollback_to: None, ..self.observation() };
        let decision = decide::decide(&seen);
        let progress = match decision.operation {
            Operation::Rollback { revision, target, attempt } => {
                if self.has_way_back(&mut seen, target) {
                    let prepared = self.prepare_rollback(revision, target, attempt)?;
                    self.begin(prepared)?
                } else {
                    Progress::Nothing
                }
            }
            Operation::Resume => self.go_on(false)?,
            _ => {
                if decision.correct {
                    self.correct()?;
                }
                if self.rests_deployed(&decision.operation) { self.catch_up()? } else { Progress::Nothing }
            }
        };
        Ok((decision.operation, decision.until, progress))
    }

    /// `Pass::settle`: the status, and when to come back.
    fn settle(
        &mut self,
        outcome: Result<(Operation, Option<Timestamp>, Progress), Stop>,
        invalid: bool,
    ) -> Result<Rest, Stop> {
        let (held, finished, rest) = match outcome {
            Err(Stop::Died) => return Err(Stop::Died),
            Err(Stop::Conflict) => {
                self.mem.head = Found::None;
                self.mem.running = None;
                return Ok(Rest::SetBack);
            }
            Ok((_, _, Progress::Gone)) => {
                self.world.release = None;
                self.world.written()?;
                *self.mem = Memory::of_new_process(self.world);
                return Ok(Rest::Quiet);
            }
            Ok((_, _, Progress::Running(until))) => {
                // The status of what has begun a moment ago is not written.
                let begun = self.mem.running.as_ref().map_or(0, |running| running.begun);
                if self.world.now > begun + 2 {
                    self.show(false, None)?;
                }
                return Ok(Rest::Busy(until));
            }
            Err(Stop::Retry(_) | Stop::Fix(_)) | Ok((_, _, Progress::Blocked)) => (true, None, Rest::SetBack),
            Ok((_, _, Progress::Finished(revision))) => (false, Some(revision), Rest::Quiet),
            Ok((operation, until, Progress::Nothing)) => {
                let until = until.map(Timestamp::as_second);
                let rest = match (&operation, until) {
                    (Operation::Wait | Operation::Hold(Hold::ForeignPending { .. }), Some(until)) => {
                        Rest::Busy(until)
                    }
                    _ => Rest::Quiet,
                };
                (matches!(operation, Operation::Hold(_)), None, rest)
            }
        };
        self.show(held || invalid, finished)?;
        Ok(rest)
    }

    fn show(&mut self, held: bool, finished: Option<u32>) -> Result<(), Stop> {
        let doubtful = match &self.mem.head {
            Found::Doubtful(stored, _) => Some(self.digest_of_doubt(stored)),
            _ => None,
        };
        let mut status = self.release().status.clone();
        if let Some((revision, private)) = self.own() {
            (status.revision, status.writes) = (revision, private.writes);
        }
        status.history.extend(self.mem.ended.drain(..).chain(finished));
        for gone in self.mem.given_up.drain(..) {
            status.history.remove(&gone);
        }
        if !held {
            status.reset_handled = self.release().reset_at;
        }
        status.past_objects = false;
        status.doubtful = doubtful;
        if self.release().status != status {
            self.release_mut().status = status;
            self.world.written()?;
        }
        Ok(())
    }

    /// Revision and private part of the newest record, if it is the release's own.
    fn own(&self) -> Option<(u32, &Private)> {
        match &self.mem.head {
            Found::Ours(stored) => Some((stored.revision, stored.private.as_ref()?)),
            _ => None,
        }
    }

    /// Whether a record says that it failed because something was not healthy in time.
    fn failed_for_health(stored: &Stored) -> bool {
        matches!(&stored.state, State::Failed { reason, .. } if reason.starts_with(reasons::HEALTH_TIMEOUT) || reason.starts_with(reasons::HEALTH_FAILED))
    }
}
