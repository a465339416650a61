//! How far an operation is, in its record: what is before its checkpoint is done and is not done again.

use std::collections::BTreeMap;

use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan::{self, Phase};
use crate::reconcile::Error;
use crate::reconcile::operation::Operate;
use crate::reconcile::state::Running;
use crate::release::{Begun, HOOK_RESULTS, HookResult, HookRun, Operation, OperationPhase};

impl Operate<'_> {
    /// Writes down how far the operation is. Everything before `running.at` is done and is not done again.
    pub(in crate::reconcile) async fn checkpoint(
        &mut self,
        running: &mut Running,
        phase: OperationPhase,
        wave: i32,
        hook: Option<HookRun>,
    ) -> Result<(), Error> {
        self.checkpoint_with(running, Operation { phase, wave, step: 0, hook, jobs: Vec::new() }, None).await
    }

    /// [`Operate::checkpoint`], with the result of a hook. Jobs are added to those of before. Nothing counts as written down, in memory neither, unless it is.
    pub(in crate::reconcile) async fn checkpoint_with(
        &mut self,
        running: &mut Running,
        operation: Operation,
        result: Option<HookResult>,
    ) -> Result<(), Error> {
        self.records.unpack(running).await?;
        let mut next = running.stored.clone();
        if let Some(private) = next.private.as_mut() {
            let step = u32::try_from(running.at).unwrap_or(u32::MAX);
            let before = private.operation.take().map(|before| before.jobs).unwrap_or_default();
            let jobs = still_open(before.into_iter().chain(operation.jobs), &private.inventory);
            private.operation = Some(Operation { step, jobs, ..operation });
            private.hooks.extend(result);
            let surplus = private.hooks.len().saturating_sub(HOOK_RESULTS);
            private.hooks.drain(..surplus);
        }
        running.stored = self.records.save(&next, true).await?;
        self.records.wrote(&running.stored);
        running.saved = running.at;
        Ok(())
    }
}

/// The Jobs of a checkpoint without those whose end is written down; of one name the last counts.
fn still_open(made: impl Iterator<Item = Begun>, inventory: &[InventoryEntry]) -> Vec<Begun> {
    let ended = |id: &ObjectId| inventory.iter().any(|entry| entry.id == *id && entry.ran.is_some());
    let open: BTreeMap<ObjectId, String> =
        made.filter(|begun| !ended(&begun.id)).map(|begun| (begun.id, begun.uid)).collect();
    open.into_iter().map(|(id, uid)| Begun { id, uid }).collect()
}

pub(in crate::reconcile) fn operation_phase(phase: Phase) -> OperationPhase {
    match phase {
        Phase::PreInstall | Phase::PreUpgrade | Phase::PreRollback | Phase::PreDelete => {
            OperationPhase::PreHooks
        }
        Phase::PostInstall | Phase::PostUpgrade | Phase::PostRollback | Phase::PostDelete => {
            OperationPhase::PostHooks
        }
        Phase::Test => OperationPhase::Test,
    }
}

/// The step that a checkpoint names, if it is one of this plan: another version of the operator may have planned
/// otherwise, and then everything is done again.
pub(in crate::reconcile) fn checkpointed(operation: &Operation, plan: &plan::Plan) -> Option<usize> {
    let at = usize::try_from(operation.step).ok()?;
    let fits = match plan.steps.get(at)? {
        plan::Step::Hook { phase, .. } => operation.phase == operation_phase(*phase),
        plan::Step::Apply { wave, .. } => operation.phase == OperationPhase::Apply && operation.wave == *wave,
        plan::Step::Define { .. }
        | plan::Step::AwaitServed { .. }
        | plan::Step::Wait { .. }
        | plan::Step::Delete { .. }
        | plan::Step::Undefine { .. } => false,
    };
    fits.then_some(at)
}
