//! A pass for a spec that cannot be acted on.

use std::time::Duration;

use crate::api::Invalid;
use crate::reconcile::state::progress::{Outcome, Progress};
use crate::reconcile::{Error, Pass};
use crate::release::decide::{self, Observation, Operation};

impl Pass<'_> {
    /// A spec that cannot be acted on: said in the status. What is deployed stays, and stays locked.
    pub(in crate::reconcile) async fn refuse(
        &mut self,
        invalid: &Invalid,
    ) -> Result<Option<Duration>, Error> {
        self.decided = "Refuse";
        self.scope.ctx.fetcher.leave(self.scope.key);
        if let Err(error) = self.observing().head().await {
            return self.finishing().settle_refused(invalid, Err(error)).await;
        }
        let taken =
            self.scope.ctx.name_taken_by(self.scope.release, self.scope.settings, self.newest().head_owner());
        // Only a person can mend it, and until then nothing takes the place of what failed.
        let mut seen = Observation {
            unreadable: true,
            rollback_to: None,
            ..self.observing().observation(None, None, taken)
        };
        let decision = decide::decide(&seen);
        // An operation that has begun goes on to its end with what its record says.
        let outcome = match &decision.operation {
            Operation::Rollback { .. } => self.undo_refused(&mut seen, &decision.operation).await,
            Operation::Resume => match self.access().require_account().await {
                Ok(()) => self.operating().resume().await,
                Err(error) => Err(error),
            },
            _ if decision.correct => self.drift().correct().await.map(|()| Progress::Nothing),
            _ => Ok(Progress::Nothing),
        };
        let outcome = match outcome {
            Ok(Progress::Nothing) if self.rests_deployed(&decision) => self.catching_up().catch_up().await,
            outcome => outcome,
        };
        let outcome = outcome.map(|progress| Outcome { decision, progress });
        self.finishing().settle_refused(invalid, outcome).await
    }

    /// Undoes what failed while the spec cannot be acted on.
    async fn undo_refused(
        &mut self,
        seen: &mut Observation,
        operation: &Operation,
    ) -> Result<Progress, Error> {
        let Operation::Rollback { revision, target, attempt } = *operation else {
            return Ok(Progress::Nothing);
        };
        self.access().require_account().await?;
        if !self.preparing().has_way_back(seen, target).await? {
            return Ok(Progress::Nothing);
        }
        let prepared = self.preparing().rollback(revision, target, attempt).await?;
        self.begin(prepared).await
    }
}
