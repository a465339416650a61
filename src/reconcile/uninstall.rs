//! Takes a release away: objects in reverse order, then records, then the finalizer.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use jiff::Timestamp;

use super::memory::Going;
use super::{Error, Pass, Progress};
use crate::api::{HistoryStorage, UninstallPolicy, names, reasons};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::release::decide::Deletion;
use crate::release::{Private, State, backoff};
use crate::storage::{Head, Records};

/// `status.operation.phase` once all objects are gone and only records are left: what tells a later process
/// that a missing record is our own doing.
pub(super) const PHASE_RECORDS: &str = "Records";
/// Looks in flight for one release.
const PARALLEL: usize = 8;

impl Pass<'_> {
    /// What decides how a deletion goes. One read of our CRD and one of the target namespace.
    pub(super) async fn observe_deletion(&self) -> Result<Deletion, Error> {
        let orphan = self.settings.uninstall.policy == UninstallPolicy::Orphan;
        if orphan {
            return Ok(Deletion { orphan, ..Deletion::default() });
        }
        let crd = ObjectId {
            group: "apiextensions.k8s.io".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: None,
            name: names::CRD_NAME.to_owned(),
        };
        let crd = self.ctx.cluster.metadata("apiextensions.k8s.io/v1", &crd).await?;
        let own_crd_terminating = crd.is_none_or(|meta| meta.deletion_timestamp.is_some());
        let namespace = self.ctx.cluster.namespace(&self.settings.target_namespace).await?;
        let namespace_terminating = namespace.is_none_or(|meta| meta.deletion_timestamp.is_some());
        Ok(Deletion { orphan, own_crd_terminating, namespace_terminating })
    }

    /// Deletes the objects and the records; returns while objects are still going.
    pub(super) async fn uninstall(&mut self) -> Result<Progress, Error> {
        self.mem.running = None;
        let Some((Head::Ours(head), _)) = &self.mem.head else { return Ok(Progress::Gone) };
        let mut head = (**head).clone();
        let started = match &head.record.state {
            State::PendingUninstall { started_at, .. } => *started_at,
            _ => {
                if let Some(waits) = self.await_dependents() {
                    return Ok(waits);
                }
                let mut whole = self.read_head_whole().await?;
                let timeout = self.settings.uninstall.timeout.as_secs().max(1);
                whole.record.state = State::PendingUninstall { started_at: self.now, timeout };
                whole.record.updated_at = self.now;
                let stored = self.save(&whole, true).await?;
                self.wrote(&stored);
                head = stored;
                self.now
            }
        };
        let Some(private) = head.private.clone() else { return Ok(Progress::Gone) };
        if !self.past_objects() {
            let going = match self.mem.going.take() {
                Some(going) => self.look_for(going, &private).await?,
                None => self.delete_all(&private).await?,
            };
            if self.settings.uninstall.wait && !going.remaining.is_empty() {
                return Ok(self.await_gone(going, started));
            }
            let note = format!("release {} is uninstalled", self.settings.release_name);
            self.ctx.report.event(self.release, false, reasons::UNINSTALL_SUCCEEDED, "Uninstall", note);
            self.checkpoint_records().await?;
        }
        self.remove_records().await?;
        Ok(Progress::Gone)
    }

    /// A process may have died between the last record and what is left of it.
    pub(super) async fn clear_up_records(&self) -> Result<(), Error> {
        let gone = matches!(self.mem.head, None | Some((Head::None, _)));
        if gone && self.past_objects() { self.remove_records().await } else { Ok(()) }
    }

    /// Oldest first: as long as the newest is there, a later process knows what this is about.
    async fn remove_records(&self) -> Result<(), Error> {
        self.records().remove_all(&self.settings.target_namespace, &self.settings.release_name).await?;
        self.ctx.record_watch.removed(&self.records_of());
        Ok(())
    }

    fn past_objects(&self) -> bool {
        let operation = self.release.status.as_ref().and_then(|status| status.operation.as_ref());
        operation.is_some_and(|operation| operation.phase.as_deref() == Some(PHASE_RECORDS))
    }

    fn await_gone(&mut self, going: Going, started: Timestamp) -> Progress {
        let remaining: Vec<ObjectId> = going.remaining.iter().map(|entry| entry.id.clone()).collect();
        self.ctx.objects.table().wake_on(&self.key, &remaining.iter().cloned().collect());
        let deadline = started.checked_add(self.settings.uninstall.timeout).unwrap_or(Timestamp::MAX);
        let until = going.look_at;
        self.mem.going = Some(going);
        Progress::Uninstalling { started, deadline, late: self.now >= deadline, remaining, until }
    }

    /// Asks for the deletion of everything that is ours; gives what still exists.
    async fn delete_all(&self, private: &Private) -> Result<Going, Error> {
        let entries: Vec<InventoryEntry> =
            private.inventory.iter().chain(&private.leftovers).cloned().collect();
        // Nothing of this may be put back while it goes.
        self.ctx.objects.table().wake_on(&self.key, &BTreeSet::new());
        let mut remaining = Vec::new();
        for entry in plan::deletion_order(entries) {
            if self.delete_ours(&entry, &private.owner.uid).await? {
                remaining.push(entry);
            }
        }
        if self.settings.uninstall.wait {
            // Most objects are gone with the answer.
            remaining = self.still_there(remaining, private).await?;
        }
        Ok(self.going(remaining, 1))
    }

    /// Looks for what was still there: for all of it from time to time, and between that for what the watch saw go.
    /// Nothing else of the release costs a call any more.
    async fn look_for(&self, going: Going, private: &Private) -> Result<Going, Error> {
        let Going { remaining, looks, look_at } = going;
        if look_at <= self.now {
            let remaining = self.still_there(remaining, private).await?;
            return Ok(self.going(remaining, looks.saturating_add(1)));
        }
        let (gone, mut remaining): (Vec<_>, Vec<_>) = {
            let table = self.ctx.objects.table();
            remaining.into_iter().partition(|entry| table.is_gone(&entry.id))
        };
        // It may only be out of the watch's sight.
        remaining.extend(self.still_there(gone, private).await?);
        Ok(Going { remaining, looks, look_at })
    }

    fn going(&self, remaining: Vec<InventoryEntry>, looks: u32) -> Going {
        let look_at = self.now.checked_add(backoff::going(looks)).unwrap_or(Timestamp::MAX);
        Going { remaining, looks, look_at }
    }

    /// Which of these objects exist and are ours. One that was not told to go yet is.
    async fn still_there(
        &self,
        entries: Vec<InventoryEntry>,
        private: &Private,
    ) -> Result<Vec<InventoryEntry>, Error> {
        let looks = entries.into_iter().map(|entry| async move {
            let there = self.delete_ours(&entry, &private.owner.uid).await?;
            Ok::<_, Error>(there.then_some(entry))
        });
        let seen: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        let seen: Result<Vec<_>, Error> = seen.into_iter().collect();
        Ok(seen?.into_iter().flatten().collect())
    }

    /// The namespace is going away: everything in it goes with it, and nothing may be written there. Objects
    /// elsewhere are deleted as far as that is still possible.
    pub(super) async fn let_go(&mut self) -> Result<(), Error> {
        let target = &self.settings.target_namespace;
        let note = format!("the namespace {target} is going away: what the release has in it goes with it");
        self.ctx.report.event(self.release, true, reasons::NAMESPACE_TERMINATING, "Uninstall", note);
        let head = match &self.mem.head {
            Some((Head::Ours(head), _)) => Some(head),
            _ => self.mem.departed.as_ref(),
        };
        let Some(private) = head.and_then(|head| head.private.clone()) else { return Ok(()) };
        if !self.owns(&private.owner) {
            return Ok(());
        }
        let target = Some(self.settings.target_namespace.clone());
        let entries: Vec<InventoryEntry> = private
            .inventory
            .iter()
            .chain(&private.leftovers)
            .filter(|entry| entry.id.namespace != target)
            .cloned()
            .collect();
        for entry in plan::deletion_order(entries) {
            self.delete_ours(&entry, &private.owner.uid).await?;
        }
        let settings = &self.settings;
        if settings.history_storage == HistoryStorage::File
            || settings.history_namespace != settings.target_namespace
        {
            // Records that do not go with the namespace.
            self.remove_records().await?;
        }
        Ok(())
    }
}
