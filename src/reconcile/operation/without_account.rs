//! The end of a release whose account is gone, and what of a deletion is done as far as it may be.

use crate::api::reasons;
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::reconcile::objects::apply::Away;
use crate::reconcile::prepare::preflight::REMOVE;
use crate::reconcile::{Error, Pass};
use crate::release::State;
use crate::storage::Head;

/// What is left of a release that goes.
#[derive(Default)]
pub(in crate::reconcile) struct Left {
    /// What could not be deleted.
    pub(in crate::reconcile) refused: Vec<ObjectId>,
    /// What is not to be deleted.
    pub(in crate::reconcile) kept: Vec<ObjectId>,
}

impl Pass<'_> {
    /// What an uninstall takes that has not begun yet, asked for before anything of it is done.
    pub(in crate::reconcile) async fn preflight_uninstall(&self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.mem.records.head else { return Ok(()) };
        let begun = matches!(head.record.state, State::PendingUninstall { .. });
        let Some(private) =
            head.private.as_ref().filter(|_| !begun && self.scope.cluster.account().is_some())
        else {
            return Ok(());
        };
        let mut needed = Vec::new();
        for entry in private.inventory.iter().chain(&private.leftovers).filter(|entry| !entry.keep) {
            self.need(&entry.api_version, &entry.id, REMOVE, &[], &mut needed).await?;
        }
        self.access().require(needed, false).await
    }

    /// Deletes what may be deleted.
    pub(in crate::reconcile) async fn delete_allowed(
        &self,
        entries: Vec<InventoryEntry>,
        owner_uid: &str,
    ) -> Result<Left, Error> {
        let asked_at = self.scope.release.metadata.deletion_timestamp.as_ref().map(|at| at.0);
        let deadline = asked_at.and_then(|at| at.checked_add(self.scope.settings.uninstall.timeout).ok());
        let late = deadline.is_some_and(|deadline| deadline <= self.scope.now);
        let mut left = Left::default();
        for entry in plan::deletion_order(entries) {
            match self.live().take_away(&entry, owner_uid).await {
                Ok(Away::Stays) => left.kept.push(entry.id),
                Ok(Away::Going | Away::NotOurs) => {}
                // Nobody is going to mend it, so nothing waits for that. Longer than an uninstall may take nothing waits
                // for anything.
                Err(error) if late || error.class() != crate::api::Class::Retry => {
                    tracing::debug!(release = %self.scope.key, error = self.secrets.shown(&error), "an object is left behind");
                    // Whoever may not look learns from the operator's watch that it went before.
                    if !self.scope.ctx.objects.table().is_gone(&entry.id) {
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
        &mut self,
        namespace_terminating: bool,
    ) -> Result<(), Error> {
        let head = match &self.mem.records.head {
            Some((Head::Ours(head), _)) => Some(&**head),
            _ => self.mem.records.departed.as_deref(),
        };
        let private = head.and_then(|head| head.private.clone());
        let mut left = Left::default();
        let mut all = 0;
        let mut records = None;
        if let Some(private) = private.filter(|private| self.scope.owns(&private.owner)) {
            let goes = |entry: &&InventoryEntry| {
                let target = entry.id.namespace.as_ref() == Some(&self.scope.settings.target_namespace);
                !(namespace_terminating && target)
            };
            let entries: Vec<InventoryEntry> = {
                let all = private.inventory.iter().chain(&private.leftovers).chain(&private.hook_objects);
                all.filter(goes).cloned().collect()
            };
            all = entries.len();
            // Nothing of this may be put back while it goes.
            self.scope.ctx.objects.table().wake_on(self.scope.key, &std::collections::BTreeSet::new());
            left = match self.scope.cluster.account() {
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
        let gone = match self.scope.cluster.account() {
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
        let reason = match self.scope.cluster.account() {
            Some(_) => reasons::SERVICE_ACCOUNT_NOT_FOUND,
            None => reasons::SERVICE_ACCOUNT_REQUIRED,
        };
        let records = records.unwrap_or_default();
        self.tell_remaining(true, reason, &what, refused.into_iter().chain(kept).collect(), &records);
        Ok(())
    }
}
