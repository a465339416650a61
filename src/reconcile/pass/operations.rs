//! Operations that take several stages.

use crate::reconcile::prepare::revision::Prepared;
use crate::reconcile::state::progress::Progress;
use crate::reconcile::{Error, Pass};
use crate::release::State;
use crate::release::decide::{self, Deletion, Hold, Observation, Operation};
use crate::storage::Head;

impl Pass<'_> {
    /// Begins with a revision, if the account that acts may do all of it.
    pub(in crate::reconcile) async fn begin(&mut self, prepared: Prepared) -> Result<Progress, Error> {
        self.preflight().revision(&prepared).await?;
        self.operating().begin(prepared).await
    }

    /// A first install failed for good: its objects go.
    pub(in crate::reconcile) async fn remove_failed(&mut self) -> Result<Option<Progress>, Error> {
        let undone = self.newest().undone();
        self.operating().remove_failed(undone).await
    }

    /// Deletes the objects, then the records unless they are to be kept.
    pub(in crate::reconcile) async fn uninstall(&mut self) -> Result<Progress, Error> {
        self.preflight().uninstall().await?;
        if self.operating().uninstall_begins()
            && let Some(waits) = self.dependents().await_them()
        {
            return Ok(waits);
        }
        if let Some(progress) = self.operating().uninstall().await? {
            return Ok(progress);
        }
        if !self.scope.settings.uninstall.keep_history {
            let now = self.scope.now;
            self.finishing().writes().checkpoint_records(now).await?;
            self.departing().remove_records().await?;
        }
        Ok(Progress::Gone)
    }

    /// Begins with a revision. When that cannot begin, what runs goes on, and what is deployed stays locked.
    pub(in crate::reconcile) async fn launch(
        &mut self,
        prepared: Result<Option<Prepared>, Error>,
        seen: &Observation,
    ) -> Result<Option<Progress>, Error> {
        let launched = match prepared {
            Ok(Some(prepared)) => self.begin(prepared).await,
            Ok(None) => return Err(Error::Undecided),
            Err(error) => Err(error),
        };
        match launched {
            Ok(progress) => Ok(Some(progress)),
            Err(error) => {
                self.stay_locked().await;
                self.preparing().goes_on_instead(seen, error)?;
                Ok(None)
            }
        }
    }

    pub(in crate::reconcile) async fn take_release_away(
        &mut self,
        operation: &Operation,
        deletion: Deletion,
    ) -> Result<Progress, Error> {
        match operation {
            Operation::Uninstall => {
                return self.uninstall().await;
            }
            Operation::LetGo if deletion.account_gone => {
                self.departing().let_go_without_account(deletion.namespace_terminating).await?;
            }
            Operation::LetGo => self.departing().let_go().await?,
            _ => self.departing().clear_up_records().await?,
        }
        Ok(Progress::Gone)
    }

    /// An operation could not even begin, so what is deployed stays as it is, and stays locked.
    pub(in crate::reconcile) async fn stay_locked(&mut self) {
        // Its own error is the one to tell: it stands in the way, and drift is tried again with the operation.
        if let Err(error) = self.correct_deployed(None).await {
            let error = self.secrets.shown(&error);
            tracing::debug!(release = %self.scope.key, error, "drift was not put back");
        }
    }

    /// Puts drift back unless an operation of ours has begun, whatever is wanted next.
    pub(in crate::reconcile) async fn correct_deployed(
        &mut self,
        name_taken_by: Option<String>,
    ) -> Result<(), Error> {
        // Where it is pinned to is wanted next, too.
        let seen =
            Observation { rollback_to: None, ..self.observing().observation(None, None, name_taken_by) };
        if decide::decide(&seen).correct { self.drift().correct().await } else { Ok(()) }
    }

    /// The newest record is deployed, ours, and nothing is done about it in this pass.
    pub(in crate::reconcile) fn rests_deployed(&self, decision: &decide::Decision) -> bool {
        let rests = match &decision.operation {
            Operation::Nothing | Operation::Wait => true,
            Operation::Hold(hold) => !matches!(hold, Hold::Suspended | Hold::ReleaseNameTaken { .. }),
            _ => false,
        };
        let Some((Head::Ours(head), _)) = &self.mem.revisions.records.head else { return false };
        rests && self.newest().own_private().is_some() && head.record.state == State::Deployed
    }
}
