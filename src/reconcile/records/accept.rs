//! `sherpack.io/accept-record`: a user vouches for a record that no key proves.

use futures::{StreamExt, stream};

use crate::api::{names, reasons};
use crate::cluster;
use crate::manifest::InventoryEntry;
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::records::{NewestRecord, Records};
use crate::release::{Private, State};
use crate::storage::{Because, Head, Provenance, Records as _, Stored};

/// Looks under way for one release.
const PARALLEL: usize = 8;

impl NewestRecord<'_> {
    /// A request that names the record which is in doubt now.
    pub(in crate::reconcile) fn accept_pending(&self) -> bool {
        let wanted = self.scope.settings.requests.accept_record.as_ref();
        let Some((Head::Foreign(stored), _)) = self.memory.head.as_ref() else { return false };
        wanted.is_some() && self.doubtful(stored).is_some_and(|doubtful| doubtful.digest.as_ref() == wanted)
    }
}

impl Records<'_> {
    /// Seals the record that the request names, if it still is that one. Its objects count only as far as they live and
    /// carry this release's own mark: the writer of the record could name any object in it.
    pub(in crate::reconcile) async fn accept_record(&mut self) -> Result<(), Error> {
        self.claim_head()?;
        let revision = self.memory.head.as_ref().and_then(|(head, _)| head.revision()).unwrap_or(0);
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        let read = self.access().record_store().await?.get(namespace, name, revision).await?;
        let Head::Foreign(mut stored) = self.newest().judged(read) else {
            return Err(self.record_changed(revision));
        };
        let wanted = self.scope.settings.requests.accept_record.clone();
        let named = self.newest().doubtful(&stored).and_then(|doubtful| doubtful.digest);
        let private = stored.unproved.take().and_then(|unproved| unproved.private);
        let Some(mut private) = private.filter(|_| named.is_some() && named == wanted) else {
            return Err(self.record_changed(revision));
        };
        let (known, writes) = self.newest().known();
        if stored.record.state.is_pending() && revision == known && private.writes < writes {
            // What became of it since is lost: it may have been deployed.
            private.unreachable = private.unreachable.max(revision.checked_sub(1));
        }
        if stored.provenance != Provenance::Foreign(Because::Older) {
            self.strip(&mut private).await?;
            private.accepted = true;
            if stored.record.state.is_pending() {
                // No key proves what it was about to do.
                let reason = format!(
                    "{}: its record was vouched for, not what it had still to do",
                    reasons::INTERRUPTED
                );
                stored.record.state = State::Failed { reason, recoverable: true, failed_at: self.scope.now };
                private.operation = None;
            }
        }
        private.writes = private.writes.max(writes);
        let written =
            self.access().record_store().await?.update(&stored, &stored.record, Some(&private), true).await;
        let written: Stored = match written {
            Ok(written) => written,
            Err(error) => {
                self.memory.doubt_head();
                return Err(error.into());
            }
        };
        *self.running = None;
        self.wrote(&written);
        let note = format!("the record of revision {revision} counts again: an annotation vouches for it");
        self.scope.ctx.report.event(self.scope.release, false, reasons::RECORD_ACCEPTED, "Accept", note);
        Ok(())
    }

    fn record_changed(&mut self, revision: u32) -> Error {
        self.memory.doubt_head();
        Error::RecordChanged { revision }
    }

    /// Leaves in a record only objects that live with the mark of this release.
    async fn strip(&self, private: &mut Private) -> Result<(), Error> {
        if !self.may_be_ours(&private.owner.uid) {
            self.scope.uid().clone_into(&mut private.owner.uid);
        }
        let uid = private.owner.uid.clone();
        for entries in [&mut private.inventory, &mut private.leftovers, &mut private.hook_objects] {
            *entries = self.marked(std::mem::take(entries), &uid).await?;
            for adopted in entries.iter_mut().filter_map(|entry| entry.adopted.as_mut()) {
                // No key proves what stands in that Secret.
                adopted.kept = None;
            }
        }
        Ok(())
    }

    /// The uid of this release, or of one before it of this name that no living release has.
    fn may_be_ours(&self, uid: &str) -> bool {
        let sees_all =
            self.scope.ctx.policy.watch_namespace.is_none() && self.scope.ctx.policy.watch_labels.is_none();
        uid == self.scope.uid() || (sees_all && self.scope.ctx.living(uid).is_none())
    }

    async fn marked(&self, entries: Vec<InventoryEntry>, uid: &str) -> Result<Vec<InventoryEntry>, Error> {
        let looks = entries.into_iter().map(|entry| async move {
            let meta = match self.scope.cluster.metadata(&entry.api_version, &entry.id).await {
                Err(cluster::Error::UnknownKind { .. }) => None,
                meta => meta?,
            };
            let marked = meta.is_some_and(|meta| {
                let annotations = meta.annotations.as_ref();
                let run = annotations.and_then(|all| all.get(names::HOOK_RUN));
                let ran = run.and_then(|run| run.split_once('.')).is_some_and(|(of, _)| of == uid);
                plan::marked_by(annotations) == Some(uid) || ran
            });
            Ok::<_, Error>(marked.then_some(entry))
        });
        let looks: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        let kept: Result<Vec<_>, Error> = looks.into_iter().collect();
        Ok(kept?.into_iter().flatten().collect())
    }
}
