//! What users ask for by annotation and is not done yet: tests, and the approval of a plan.

use crate::api::names;
use crate::manifest::digest_of;
use crate::reconcile::observe::Observe;
use crate::release::{OperationPhase, Private, State};
use crate::storage::Head;

impl Observe<'_> {
    /// Whether tests of the deployed revision are due: asked for, switched on and not run yet, or begun.
    pub(super) fn test_wanted(&self) -> bool {
        let Some((Head::Ours(head), _)) = &self.records.memory.head else { return false };
        let Some(private) = head.private.as_ref().filter(|_| head.record.state == State::Deployed) else {
            return false;
        };
        let begun = private.operation.as_ref().is_some_and(|begun| begun.phase == OperationPhase::Test);
        let answered = private.tested.as_ref().and_then(|tested| tested.request.as_ref());
        let asked = self.records.scope.request_pending(names::TEST_AT)
            && answered != self.records.scope.settings.requests.test_at.as_ref();
        begun || asked || (self.records.scope.settings.test.enabled && private.tested.is_none())
    }

    /// The digest of the plan for these inputs, as long as no user has approved it.
    ///
    /// It holds for these inputs on top of what is deployed: through retries, and not once more when the same inputs are
    /// wanted again later, nor for another release, nor after records were lost.
    pub(super) fn unapproved(&self, inputs: &str) -> Option<String> {
        if !self.records.scope.needs_approval() {
            return None;
        }
        let digest =
            digest_of(format!("{}\n{inputs}\n{}", self.records.scope.uid(), self.approval_base()).as_bytes());
        let given = self.records.scope.settings.requests.approve.as_ref();
        let approved = given == Some(&digest) || self.retries_approved(inputs);
        (!approved).then_some(digest)
    }

    /// What the plan begins from. No two of these are ever the same, whatever is lost between them.
    fn approval_base(&self) -> String {
        match (self.records.newest().own_private(), self.records.memory.head.as_ref().map(|(head, _)| head)) {
            (Some(private), _) => match private.unreachable {
                None => private.last_deployed.unwrap_or(0).to_string(),
                lost => format!("{:?} past {lost:?}", private.last_deployed),
            },
            (None, Some(Head::Foreign(stored) | Head::Ours(stored))) => {
                format!("over {}", stored.record.version)
            }
            (None, _) if self.records.newest().known_revision() > 0 => {
                format!("lost {}", self.records.newest().known_revision())
            }
            (None, _) => "0".to_owned(),
        }
    }

    /// These inputs were approved before their last attempt, and the approval still stands.
    fn retries_approved(&self, inputs: &str) -> bool {
        let given = self.records.scope.settings.requests.approve.as_ref();
        let failed = |private: &&Private| private.undone.is_none() && private.inputs == inputs;
        let Some((Head::Ours(stored), _)) = &self.records.memory.head else { return false };
        let tried = stored.record.state.is_pending() || matches!(stored.record.state, State::Failed { .. });
        let last = self.records.newest().own_private().filter(failed);
        given.is_some() && tried && last.is_some_and(|private| private.approved.as_ref() == given)
    }
}
