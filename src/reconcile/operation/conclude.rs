//! What follows on a revision that was deployed: the history behind it, its Jobs, and what is kept of adopted objects.

use crate::reconcile::Error;
use crate::reconcile::context::records_of;
use crate::reconcile::operation::{CatchUp, Conclude};
use crate::reconcile::records::{Records, history};
use crate::reconcile::state::progress::{Finished, Progress};
use crate::release::decide::Operation;
use crate::release::{Action, State};
use crate::storage::{Head, Stored};

impl Conclude<'_> {
    /// Puts the history in order behind a revision that was just deployed, then says that the operation is finished.
    ///
    /// `before` is the revision that was deployed until now, as far as the new one knows; `ailing` what is not healthy
    /// and was not waited for.
    pub(in crate::reconcile) async fn conclude(
        &mut self,
        deployed: &Stored,
        before: Option<u32>,
        ailing: Option<String>,
    ) -> Result<Progress, Error> {
        let revision = deployed.record.version;
        self.deployed.records.conclude(revision, before).await?;
        self.deployed.settle_deployed_jobs().await?;
        self.deployed.records.newest().sweep_kept(deployed.private.as_ref()).await;
        let action = deployed.private.as_ref().map_or(Action::Install, |private| private.action);
        let (manifest_digest, values_digest) = history::digests(deployed);
        Ok(Progress::Finished(Finished {
            action,
            revision,
            failure: None,
            ailing,
            manifest_digest,
            values_digest,
        }))
    }

    /// What a crash left to do behind a deployed revision is done before another one begins: that one may be refused for
    /// good.
    pub(in crate::reconcile) async fn conclude_before(&mut self, next: &Operation) -> Result<(), Error> {
        let begins = matches!(
            next,
            Operation::Install { .. } | Operation::Upgrade { .. } | Operation::Rollback { .. }
        );
        let newest = self.deployed.records.newest();
        let Some((Head::Ours(head), _)) = &newest.memory.head else { return Ok(()) };
        let deployed = head.record.state == State::Deployed && newest.own_private().is_some();
        if !(begins && deployed) || self.is_told(head.record.version) {
            return Ok(());
        }
        let deployed = self.deployed.records.read_head_whole().await?;
        self.conclude(&deployed, None, None).await?;
        let records = &mut self.deployed.records;
        records.history.ended.push(history::ended(&deployed, records.scope.now));
        Ok(())
    }

    /// The status says how this revision ended, or the next one will.
    fn is_told(&self, revision: u32) -> bool {
        let Records { scope, history, .. } = &self.deployed.records;
        let told = scope.release.status.iter().flat_map(|status| &status.history);
        told.chain(&history.ended).any(|entry| entry.revision == i64::from(revision))
    }
}

impl CatchUp<'_> {
    /// What a crash or an error left to do after the newest revision was deployed.
    pub(in crate::reconcile) async fn catch_up(&mut self) -> Result<Progress, Error> {
        let scope = self.take_over.deployed.records.scope;
        let revision = match &self.take_over.deployed.records.memory.head {
            Some((Head::Ours(stored), _)) => stored.record.version,
            _ => return Ok(Progress::Nothing),
        };
        if !self.conclude().is_told(revision) {
            let deployed = self.take_over.deployed.records.read_head_whole().await?;
            return self.conclude().conclude(&deployed, None, None).await;
        }
        // Told, and yet an older one called itself the newest when this process began.
        for old in scope.ctx.outdated(&records_of(scope.settings)).into_iter().filter(|old| *old < revision) {
            self.take_over.deployed.records.supersede(old).await?;
        }
        self.take_over.take_over_definitions().await?;
        self.take_over.deployed.settle_deployed_jobs().await?;
        Ok(Progress::Nothing)
    }
}
