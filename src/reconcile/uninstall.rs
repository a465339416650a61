//! Takes a release away: objects in reverse order, then records, then the finalizer.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::{Error, Pass, Progress};
use crate::api::{UninstallPolicy, names, reasons};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::release::decide::Deletion;
use crate::release::{Private, State};
use crate::storage::{Head, Records};

/// `status.operation.phase` once all objects are gone and only records are left: what tells a later process
/// that a missing record is our own doing.
pub(super) const PHASE_RECORDS: &str = "Records";
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
            let remaining = self.delete_all(&private).await?;
            if self.settings.uninstall.wait && !remaining.is_empty() {
                return Ok(self.await_gone(&remaining, started));
            }
            let note = format!("release {} is uninstalled", self.settings.release_name);
            self.ctx.report.event(self.release, false, reasons::UNINSTALL_SUCCEEDED, "Uninstall", note);
            self.checkpoint_records().await?;
        }
        // Oldest first: as long as the newest is there, a later process knows what this is about.
        for meta in
            self.ctx.records.list(&self.settings.target_namespace, &self.settings.release_name).await?
        {
            self.ctx.records.delete(&meta).await?;
        }
        Ok(Progress::Gone)
    }

    fn past_objects(&self) -> bool {
        let operation = self.release.status.as_ref().and_then(|status| status.operation.as_ref());
        operation.is_some_and(|operation| operation.phase.as_deref() == Some(PHASE_RECORDS))
    }

    fn await_gone(&self, remaining: &[ObjectId], started: Timestamp) -> Progress {
        let ids: BTreeSet<ObjectId> = remaining.iter().cloned().collect();
        self.ctx.objects.table().wake_on(&self.key, &ids);
        let deadline = started.checked_add(self.settings.uninstall.timeout).unwrap_or(Timestamp::MAX);
        let until = self.now.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        Progress::Uninstalling {
            started,
            deadline,
            late: self.now >= deadline,
            remaining: remaining.to_vec(),
            until,
        }
    }

    /// Asks for the deletion of everything that is ours; gives what still exists.
    async fn delete_all(&mut self, private: &Private) -> Result<Vec<ObjectId>, Error> {
        let entries: Vec<InventoryEntry> =
            private.inventory.iter().chain(&private.leftovers).cloned().collect();
        // Nothing of this may be put back while it goes.
        self.ctx.objects.table().wake_on(&self.key, &BTreeSet::new());
        let mut remaining = Vec::new();
        for entry in plan::deletion_order(entries) {
            if self.delete_ours(&entry, &private.owner.uid).await? {
                remaining.push(entry.id);
            }
        }
        if remaining.is_empty() || !self.settings.uninstall.wait {
            return Ok(remaining);
        }
        // Most objects are gone with the answer.
        let mut still = Vec::new();
        for id in remaining {
            let entry = private.inventory.iter().chain(&private.leftovers).find(|entry| entry.id == id);
            let Some(entry) = entry else { continue };
            let found = self.ctx.cluster.find(&entry.api_version, &id).await?;
            if found.is_some_and(|(_, meta)| plan::is_marked(meta.annotations.as_ref(), &private.owner.uid)) {
                still.push(id);
            }
        }
        Ok(still)
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
        Ok(())
    }
}
