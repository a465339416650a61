//! What a status says, as tables: what was found, and each condition with its reason and message.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::api::Class;
use crate::reconcile::state::Waiting;
use crate::reconcile::state::progress::Run;
use crate::release::decide::Decision;
use crate::release::{Action, PackIdentity, Private};
use crate::storage::samples;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

mod history;
mod kept;
mod locked;
mod operation;
mod others;
mod ready;
mod requeue;
mod verdicts;

/// What one pass found. Begins as a release whose first revision is deployed.
struct Scene {
    release: Value,
    head: Head,
    drift: DriftMemory,
    pause: DriftPause,
    invalid: Option<Invalid>,
    missing: Vec<ObjectId>,
    plan: Option<PlanStatus>,
    claimant: Option<&'static str>,
    no_way_back: Option<&'static str>,
    waits_to_begin: Option<&'static str>,
    wanted: Option<&'static str>,
    ended: Vec<HistoryEntry>,
    given_up: Vec<u32>,
    history_limit: usize,
    outcome: Result<Outcome, Error>,
}

fn record(state: State) -> Head {
    let mut record = samples::record(3);
    record.state = state;
    record.pack =
        PackIdentity { name: "podinfo".to_owned(), version: "1.2.3".parse().unwrap(), ..record.pack };
    let mut private = samples::private(3);
    private.inventory.clear();
    Head::Ours(Box::new(Stored::sample(record, Some(private))))
}

fn object(group: &str, kind: &str, name: &str) -> ObjectId {
    let [group, kind, name] = [group, kind, name].map(str::to_owned);
    ObjectId { group, kind, namespace: Some("apps".to_owned()), name }
}

fn deployment(name: &str) -> ObjectId {
    object("apps", "Deployment", name)
}

/// The record with its private part changed.
fn with_private(state: State, change: impl FnOnce(&mut Private)) -> Head {
    let Head::Ours(mut stored) = record(state) else { unreachable!() };
    change(stored.private.as_mut().unwrap());
    Head::Ours(stored)
}

fn failed(reason: &str) -> Head {
    record(State::Failed { reason: reason.to_owned(), recoverable: true, failed_at: at(-5) })
}

fn decided(operation: Operation, progress: Progress) -> Result<Outcome, Error> {
    Ok(Outcome { decision: Decision { operation, correct: false, until: None }, progress })
}

fn nothing() -> Result<Outcome, Error> {
    decided(Operation::Nothing, Progress::Nothing)
}

fn run(action: Action, phase: &'static str) -> Run {
    Run {
        action,
        revision: 3,
        attempt: 2,
        started: at(-10),
        deadline: Some(at(60)),
        phase,
        wave: Some(-1),
        waves: 2,
        step: 4,
        steps: 6,
        waiting: std::collections::BTreeMap::new(),
        until: at(5),
    }
}

/// An operation that ended in this pass.
fn finished(action: Action, failure: Option<(&'static str, &str)>, ailing: Option<&str>) -> Finished {
    Finished {
        action,
        revision: 3,
        failure: failure.map(|(reason, message)| (reason, message.to_owned())),
        ailing: ailing.map(str::to_owned),
        manifest_digest: "sha256:m".to_owned(),
        values_digest: "sha256:v".to_owned(),
    }
}

fn held(hold: Hold) -> Result<Outcome, Error> {
    decided(Operation::Hold(hold), Progress::Nothing)
}

impl Scene {
    fn new(head: Head, outcome: Result<Outcome, Error>) -> Self {
        let release = json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps", "uid": "6f1c", "generation": 4},
            "spec": {"pack": {"path": "podinfo"}}
        });
        Self {
            release,
            head,
            drift: DriftMemory::default(),
            pause: DriftPause::Off,
            invalid: None,
            missing: Vec::new(),
            plan: None,
            claimant: None,
            no_way_back: None,
            waits_to_begin: None,
            wanted: None,
            ended: Vec::new(),
            given_up: Vec::new(),
            history_limit: 10,
            outcome,
        }
    }

    /// With this spec, status or metadata merged in.
    fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.release.pointer_mut(parent).unwrap()[key] = value;
        self
    }

    fn status(&self) -> SherpackReleaseStatus {
        self.told(false, |facts| build(facts, &self.outcome).0)
    }

    /// What is made of the facts. `guards`: the release locks what another tool installed.
    fn told<T>(&self, guards: bool, make: impl FnOnce(&Facts<'_>) -> T) -> T {
        let release: SherpackRelease = serde_json::from_value(self.release.clone()).unwrap();
        let facts = Facts {
            release: &release,
            head: &self.head,
            drift: &self.drift,
            pause: self.pause,
            invalid: self.invalid.as_ref(),
            missing: self.missing.clone(),
            guards,
            tally: &Tally::default(),
            ended: &self.ended,
            given_up: &self.given_up,
            claimant: self.claimant,
            plan: self.plan.as_ref(),
            waits_to_begin: self.waits_to_begin,
            no_way_back: self.no_way_back,
            wanted: self.wanted,
            history_limit: self.history_limit,
            now: at(0),
        };
        make(&facts)
    }

    /// One condition: `STATUS REASON: message`.
    fn says(&self, type_: &str) -> String {
        let status = self.status();
        let found = conditions::find(&status.conditions, type_);
        found.map(|found| format!("{} {}: {}", found.status, found.reason, found.message)).unwrap_or_default()
    }

    /// Which of Reconciling and Stalled stands.
    fn companion(&self) -> Option<String> {
        let status = self.status();
        let found = status.conditions.iter().find(|one| ["Reconciling", "Stalled"].contains(&&*one.type_));
        found.map(|one| one.type_.clone())
    }
}
