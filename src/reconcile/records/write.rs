//! Writes of records that are there.

use jiff::Timestamp;

use crate::reconcile::Error;
use crate::reconcile::context::records_of;
use crate::reconcile::records::Records;
use crate::release::State;
use crate::storage::{Head, Records as _, Stored};

impl Records<'_> {
    /// Writes a changed record. When another writer was first, nothing that we know of it holds.
    pub(in crate::reconcile) async fn save(&mut self, stored: &Stored, head: bool) -> Result<Stored, Error> {
        let records = self.access().record_store().await?;
        let written = records.update(stored, &stored.record, stored.private.as_ref(), head).await;
        if written.is_err() {
            self.memory.doubt_head();
            *self.running = None;
        }
        Ok(written?)
    }

    /// Remembers a record that we wrote, without its bulk.
    pub(in crate::reconcile) fn wrote(&mut self, stored: &Stored) {
        let version = stored.resource_version.parse().unwrap_or(0);
        let of = records_of(self.scope.settings);
        self.backoff.errors = 0;
        self.knows(stored);
        self.scope.ctx.record_watch.wrote(&of, stored.record.version, version, self.scope.key);
        self.keep_manifest(stored);
        let newest = crate::watch::Newest::At { revision: stored.record.version, version };
        self.memory.head = Some((Head::Ours(Box::new(stored.clone().slim())), newest));
    }
}

/// Says in a record that its operation has failed for this reason.
pub(in crate::reconcile) fn mark_failed(stored: &mut Stored, reason: String, now: Timestamp) {
    stored.record.state = State::Failed { reason, recoverable: true, failed_at: now };
    stored.record.updated_at = now;
    if let Some(private) = stored.private.as_mut() {
        private.operation = None;
    }
}
