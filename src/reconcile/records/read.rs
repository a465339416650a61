//! The newest record with all that it holds.

use crate::reconcile::Error;
use crate::reconcile::records::Records;
use crate::storage::{Head, Records as _, Stored};

impl Records<'_> {
    /// The newest record with manifest and values, verified again.
    pub(in crate::reconcile) async fn read_head_whole(&mut self) -> Result<Stored, Error> {
        self.claim_head()?;
        self.read_head_within().await
    }

    /// The same for a pass that has the memory for it.
    pub(in crate::reconcile) async fn read_head_within(&mut self) -> Result<Stored, Error> {
        let revision = match &self.memory.head {
            Some((Head::Ours(stored), _)) => stored.record.version,
            _ => 0,
        };
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        let read = self.access().record_store().await?.get(namespace, name, revision).await?;
        match self.newest().judged(read) {
            Head::Ours(stored) => Ok(*stored),
            Head::None | Head::Foreign(_) | Head::Unreadable(_) => {
                // It changed under us: the next pass observes it anew.
                self.memory.doubt_head();
                *self.running = None;
                Err(Error::RecordChanged { revision })
            }
        }
    }

    /// A revision number that no record has, read from the records themselves.
    pub(in crate::reconcile) async fn next_free_revision(&mut self) -> Result<u32, Error> {
        let all = self
            .access()
            .record_store()
            .await?
            .list(&self.scope.settings.target_namespace, &self.scope.settings.release_name)
            .await?;
        let newest = all.last().map(|meta| meta.revision);
        Ok(newest.unwrap_or(0).max(self.newest().known_revision()) + 1)
    }
}
