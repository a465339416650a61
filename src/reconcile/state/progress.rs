//! How far a pass got.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Running, Stage, Waiting};
use crate::manifest::ObjectId;
use crate::plan::Step;
use crate::reconcile::Error;
use crate::release::decide::Decision;
use crate::release::dependents::Awaited;
use crate::release::{Action, ReleaseKey, State};

/// `status.operation.phase` once all objects are gone and only records are left: what tells a later process
/// that a missing record is our own doing.
pub(in crate::reconcile) const PHASE_RECORDS: &str = "Records";

/// What a pass ended with.
pub(in crate::reconcile) enum Progress {
    Nothing,
    /// An error stands in the way; whatever is deployed stays and stays locked.
    Blocked(Error),
    Running(Run),
    /// Tests of what is deployed run; `blocked`: what stands in the way of the next revision meanwhile.
    Testing {
        run: Run,
        blocked: Option<Error>,
    },
    Finished(Finished),
    Uninstalling {
        deadline: Timestamp,
        late: bool,
        remaining: Vec<ObjectId>,
        started: Timestamp,
        until: Timestamp,
    },
    /// It is the turn of releases that depend on this one and are being deleted too.
    Dependents {
        awaited: Awaited,
        /// They; `None`: one that no message to the author of this release names.
        named: Vec<Option<ReleaseKey>>,
        until: Timestamp,
    },
    /// Nothing of the release is left, or nothing of it is ours to touch: the finalizer can go.
    Gone,
}

/// An operation under way.
pub(in crate::reconcile) struct Run {
    pub action: Action,
    pub revision: u32,
    pub attempt: u32,
    pub started: Timestamp,
    /// When the operation gives up; the hook under way where the operation never does.
    pub deadline: Option<Timestamp>,
    /// What the step under way is.
    pub phase: &'static str,
    pub wave: Option<i32>,
    pub waves: usize,
    pub step: usize,
    pub steps: usize,
    pub waiting: BTreeMap<ObjectId, Waiting>,
    pub until: Timestamp,
}

impl Run {
    pub(in crate::reconcile) fn of(running: &Running, until: Timestamp) -> Self {
        let private = running.stored.private.as_ref();
        let step = running.plan.steps.get(running.at);
        let waiting = match &running.stage {
            Stage::Wait { waiting, .. } | Stage::Leaving { leaving: waiting, .. } => waiting.clone(),
            Stage::Begin => BTreeMap::new(),
            Stage::Hook(_) => waiting_for(running),
        };
        Self {
            action: match running.stored.record.state {
                State::PendingUninstall { .. } => Action::Uninstall,
                _ => private.map_or(Action::Install, |private| private.action),
            },
            revision: running.stored.record.version,
            attempt: private.map_or(1, |private| private.attempt),
            started: running.started,
            deadline: match &running.stage {
                Stage::Hook(watch) if running.deadline == Timestamp::MAX => Some(watch.deadline),
                _ => Some(running.deadline).filter(|deadline| *deadline < Timestamp::MAX),
            },
            phase: match step {
                Some(Step::Hook { phase, .. }) => phase.as_str(),
                Some(Step::Define { .. } | Step::AwaitServed { .. } | Step::Undefine { .. }) => "Crds",
                Some(Step::Apply { .. }) => "Apply",
                Some(Step::Wait { .. }) => "Wait",
                Some(Step::Delete { .. }) => "Delete",
                None => "Prune",
            },
            wave: step.and_then(Step::wave),
            waves: running.plan.waves.len(),
            step: running.at,
            steps: running.plan.steps.len(),
            waiting,
            until,
        }
    }

    /// People like to see a hook, and a wave that is not the first, when it begins.
    pub(in crate::reconcile) fn is_beyond_the_first_wave(&self) -> bool {
        self.wave.is_none() || self.step > 1
    }
}

/// An operation that ended.
pub(in crate::reconcile) struct Finished {
    pub action: Action,
    pub revision: u32,
    pub failure: Option<(&'static str, String)>,
    /// What is not healthy although the operation succeeded.
    pub ailing: Option<String>,
    pub manifest_digest: String,
    pub values_digest: String,
}

/// What a pass decided and how far it got.
pub(in crate::reconcile) struct Outcome {
    pub decision: Decision,
    pub progress: Progress,
}

/// The hook that runs, as what the operation waits for.
fn waiting_for(running: &Running) -> BTreeMap<ObjectId, Waiting> {
    let (Stage::Hook(watch), Some(Step::Hook { hook, .. })) =
        (&running.stage, running.plan.steps.get(running.at))
    else {
        return BTreeMap::new();
    };
    let hook = running.parts.hooks.get(*hook);
    hook.map(|hook| (hook.object.id.clone(), watch.waiting.clone())).into_iter().collect()
}
