//! How a release goes: its records, and what of its objects is deleted when nothing waits for that.

use crate::api::{Class, HistoryStorage, UninstallPolicy, names, reasons};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::context::records_of;
use crate::reconcile::objects::apply::Away;
use crate::reconcile::operation::Departing;
use crate::reconcile::state::progress::PHASE_RECORDS;
use crate::release::Private;
use crate::release::decide::Deletion;
use crate::storage::{Head, Records};

/// What is left of a release that goes.
#[derive(Default)]
pub(in crate::reconcile) struct Left {
    /// What could not be deleted.
    pub(in crate::reconcile) refused: Vec<ObjectId>,
    /// What is not to be deleted.
    pub(in crate::reconcile) kept: Vec<ObjectId>,
}

impl Departing<'_> {
    /// What decides how a deletion goes. One read of our CRD, one of the target namespace, and one of the account.
    pub(in crate::reconcile) async fn observe_deletion(&self) -> Result<Deletion, Error> {
        let orphan = self.scope().settings.uninstall.policy == UninstallPolicy::Orphan;
        if orphan {
            return Ok(Deletion { orphan, ..Deletion::default() });
        }
        let crd = ObjectId {
            group: "apiextensions.k8s.io".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: None,
            name: names::CRD_NAME.to_owned(),
        };
        let crd = self.scope().ctx.as_operator.metadata("apiextensions.k8s.io/v1", &crd).await?;
        let own_crd_terminating = crd.is_none_or(|meta| meta.deletion_timestamp.is_some());
        let namespace = self.scope().cluster.namespace(&self.scope().settings.target_namespace).await?;
        let namespace_terminating = namespace.is_none_or(|meta| meta.deletion_timestamp.is_some());
        let account_gone = self.access().account_gone().await?;
        Ok(Deletion { orphan, own_crd_terminating, namespace_terminating, account_gone })
    }

    /// A process may have died between the last record and what is left of it.
    ///
    /// No other release takes the name while the release is there. Once it is gone, what is kept under the name is somebody
    /// else's, and the watch may not have told us yet: so the API server is asked.
    pub(in crate::reconcile) async fn clear_up_records(&self) -> Result<(), Error> {
        let gone = matches!(self.newest.memory.head, None | Some((Head::None, _)));
        if !(gone && self.past_objects() && self.scope().ctx.still_ours(self.scope().release).await?) {
            return Ok(());
        }
        if let Some(why) = self.remove_records_if_allowed().await? {
            let what = "the objects of the release are gone";
            self.tell_remaining(true, reasons::ORPHANED, what, Vec::new(), &why);
        }
        Ok(())
    }

    /// Deletes the records that are sealed for this release, and tells of the others. Oldest first: as long as the newest is
    /// there, a later process knows what this is about.
    pub(in crate::reconcile) async fn remove_records(&self) -> Result<(), Error> {
        let records = self.access().record_store().await?;
        self.newest.sweep_all_kept().await?;
        let (namespace, name) =
            (&self.scope().settings.target_namespace, &self.scope().settings.release_name);
        let stays = records.remove_all(namespace, name, self.scope().key).await?;
        self.scope().ctx.record_watch.removed(&records_of(self.scope().settings));
        self.tell_which_records_stay(stays);
        Ok(())
    }

    /// [`Departing::remove_records`] of a release that goes in any case: records that its account may not delete stay. Gives why.
    pub(in crate::reconcile) async fn remove_records_if_allowed(&self) -> Result<Option<String>, Error> {
        match self.remove_records().await {
            Ok(()) => Ok(None),
            Err(error) if error.class() == Class::Retry => Err(error),
            Err(error) => {
                let namespace = &self.scope().settings.history_namespace;
                Ok(Some(format!("; its revision records in {namespace} stay: {error}")))
            }
        }
    }

    /// Everything but the records is gone.
    pub(in crate::reconcile) fn past_objects(&self) -> bool {
        let operation = self.scope().release.status.as_ref().and_then(|status| status.operation.as_ref());
        operation.is_some_and(|operation| operation.phase.as_deref() == Some(PHASE_RECORDS))
    }

    /// The namespace is going away: everything in it goes with it, and nothing may be written there. Objects
    /// elsewhere are deleted as far as that is still possible.
    pub(in crate::reconcile) async fn let_go(&self) -> Result<(), Error> {
        let target = &self.scope().settings.target_namespace;
        let what = format!("the namespace {target} is going away: what the release has in it goes with it");
        let (stays, records) = self.delete_elsewhere().await?;
        let records = records.unwrap_or_default();
        self.tell_remaining(true, reasons::NAMESPACE_TERMINATING, &what, stays, &records);
        Ok(())
    }

    /// Deletes what the release has outside its namespace; gives what stays of it, and why its records do.
    async fn delete_elsewhere(&self) -> Result<(Vec<ObjectId>, Option<String>), Error> {
        let target = Some(self.scope().settings.target_namespace.clone());
        let head = match &self.newest.memory.head {
            Some((Head::Ours(head), _)) => Some(head),
            _ => self.newest.memory.departed.as_ref(),
        };
        let private = head.and_then(|head| head.private.clone());
        let Some(private) = private.filter(|private| self.scope().owns(&private.owner)) else {
            // Of what no record tells nothing is deleted.
            let mut tracked = self.scope().ctx.objects.table().tracked(self.scope().key);
            tracked.retain(|id| id.namespace != target);
            return Ok((tracked.into_iter().collect(), None));
        };
        let entries: Vec<InventoryEntry> = private
            .inventory
            .iter()
            .chain(&private.leftovers)
            .filter(|entry| entry.id.namespace != target)
            .cloned()
            .collect();
        let Left { refused, kept } = self.delete_allowed(entries, &private.owner.uid).await?;
        let settings = &self.scope().settings;
        // Others go with the namespace.
        let outlive = settings.history_storage == HistoryStorage::File
            || settings.history_namespace != settings.target_namespace;
        let records = if outlive { self.remove_records_if_allowed().await? } else { None };
        Ok((refused.into_iter().chain(kept).collect(), records))
    }

    /// Deletes what hooks of a revision left behind, when its release goes; gives what is kept.
    pub(in crate::reconcile) async fn delete_hook_objects(
        &self,
        private: &Private,
    ) -> Result<Vec<ObjectId>, Error> {
        let mut kept = Vec::new();
        for entry in &private.hook_objects {
            if self.live().take_away(entry, &private.owner.uid).await? == Away::Stays {
                kept.push(entry.id.clone());
            }
        }
        Ok(kept)
    }

    /// Deletes what may be deleted.
    pub(in crate::reconcile) async fn delete_allowed(
        &self,
        entries: Vec<InventoryEntry>,
        owner_uid: &str,
    ) -> Result<Left, Error> {
        let asked_at = self.scope().release.metadata.deletion_timestamp.as_ref().map(|at| at.0);
        let deadline = asked_at.and_then(|at| at.checked_add(self.scope().settings.uninstall.timeout).ok());
        let late = deadline.is_some_and(|deadline| deadline <= self.scope().now);
        let mut left = Left::default();
        for entry in plan::deletion_order(entries) {
            match self.live().take_away(&entry, owner_uid).await {
                Ok(Away::Stays) => left.kept.push(entry.id),
                Ok(Away::Going | Away::NotOurs) => {}
                // No retry mends it, so nothing waits for that. Longer than an uninstall may take nothing waits
                // for anything.
                Err(error) if late || error.class() != crate::api::Class::Retry => {
                    tracing::debug!(release = %self.scope().key, error = self.secrets.shown(&error), "an object is left behind");
                    // An account that may not look learns from the operator's watch that it went before.
                    if !self.scope().ctx.objects.table().is_gone(&entry.id) {
                        left.refused.push(entry.id);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    /// The account is gone: what it may still do by its name is done, and the release goes. No hook runs and no record
    /// is written; records go when nothing is left that they speak of. What is in a namespace on its way out goes with it.
    pub(in crate::reconcile) async fn let_go_without_account(
        &self,
        namespace_terminating: bool,
    ) -> Result<(), Error> {
        let head = match &self.newest.memory.head {
            Some((Head::Ours(head), _)) => Some(&**head),
            _ => self.newest.memory.departed.as_deref(),
        };
        let private = head.and_then(|head| head.private.clone());
        let mut left = Left::default();
        let mut all = 0;
        let mut records = None;
        if let Some(private) = private.filter(|private| self.scope().owns(&private.owner)) {
            let goes = |entry: &&InventoryEntry| {
                let target = entry.id.namespace.as_ref() == Some(&self.scope().settings.target_namespace);
                !(namespace_terminating && target)
            };
            let entries: Vec<InventoryEntry> = {
                let all = private.inventory.iter().chain(&private.leftovers).chain(&private.hook_objects);
                all.filter(goes).cloned().collect()
            };
            all = entries.len();
            // Nothing of this may be put back while it goes.
            self.scope().ctx.objects.table().wake_on(self.scope().key, &std::collections::BTreeSet::new());
            left = match self.scope().cluster.account() {
                Some(_) => self.delete_allowed(entries, &private.owner.uid).await?,
                None => {
                    let refused = entries.into_iter().map(|entry| entry.id).collect();
                    Left { refused, kept: Vec::new() }
                }
            };
            if left.refused.is_empty() {
                records = self.remove_records_if_allowed().await?;
            }
        }
        let gone = match self.scope().cluster.account() {
            Some(account) => format!("the service account {account} does not exist"),
            None => "no service account acts for the release".to_owned(),
        };
        let Left { refused, kept } = left;
        let what = if refused.is_empty() {
            format!(
                "{gone}: the release is gone without hooks, and so is every object of it that is not kept"
            )
        } else {
            format!(
                "{gone}: the release is gone, and {} of its {all} objects could not be deleted and stay, with its revisions",
                refused.len()
            )
        };
        let reason = match self.scope().cluster.account() {
            Some(_) => reasons::SERVICE_ACCOUNT_NOT_FOUND,
            None => reasons::SERVICE_ACCOUNT_REQUIRED,
        };
        let records = records.unwrap_or_default();
        self.tell_remaining(true, reason, &what, refused.into_iter().chain(kept).collect(), &records);
        Ok(())
    }
}
