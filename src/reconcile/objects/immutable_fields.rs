//! Objects that have to change in a field that cannot change: they stop the operation, are deleted and created anew, or
//! stay as they are, as `spec.upgrade.immutableFields` says.
//!
//! Only operations do this; the lock deletes nothing. What may be deleted is what this release made, what is not to be
//! kept, and what holds no data of its own. Nothing of it is written down: a process that takes over an operation finds the
//! object as it was, on its way out, or gone, and each of these says by itself what comes next.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::api::{IgnoreRule, ImmutableFields, reasons};
use crate::cluster::{self, Applied, Instead, Propagation};
use crate::health::Status;
use crate::manifest::{InventoryEntry, Object, ObjectId};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::apply::There;
use crate::reconcile::objects::{Objects, Rollout};
use crate::reconcile::records::history;
use crate::reconcile::state::Waiting;
use crate::release::Private;

/// What becomes of an object whose apply was refused.
pub(in crate::reconcile) enum Fate {
    /// It was gone when it was looked at, and is there as it should be now.
    Applied(Box<Applied>),
    /// It is on its way out already.
    Leaves,
    /// It is deleted to be created anew.
    Recreated { uid: String, fields: Vec<String> },
    /// It stays as it is.
    Skipped { fields: Vec<String> },
}

impl Objects<'_> {
    /// What becomes of an object whose apply was refused for fields that may be such as cannot change. Touches nothing.
    ///
    /// # Errors
    /// The refusal, if it has other reasons, or if nothing can be done about it.
    pub(in crate::reconcile) async fn fate(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        owner_uid: &str,
        refusal: cluster::Error,
    ) -> Result<Fate, cluster::Error> {
        let id = &object.id;
        let Some(live) = self.scope.cluster.get(&object.api_version, id).await? else {
            // A create applies the whole object.
            let entry = InventoryEntry { ignored: Vec::new(), ..entry.clone() };
            return self
                .apply_as(object, &entry, rules, owner_uid, There::Nothing)
                .await
                .1
                .map(|done| Fate::Applied(Box::new(done)));
        };
        if live.is_leaving() {
            return Ok(Fate::Leaves);
        }
        let marks = self.marks(owner_uid);
        let body = plan::apply_body(object, entry, marks);
        let found =
            self.scope.cluster.immutable_fields(&object.api_version, id, &body, &live, &refusal).await;
        let Some(fields) = found else { return Err(refusal) };
        let annotations = live.live.metadata.annotations.as_ref();
        let refused = |fields, instead| cluster::Error::Immutable { id: id.clone(), fields, instead };
        // What cannot help is not offered, whatever the spec says now.
        match (self.scope.settings.immutable_fields, live.uid()) {
            _ if !plan::is_marked(annotations, owner_uid) => Err(refused(fields, Instead::NotOurs)),
            (ImmutableFields::Skip, _) => Ok(Fate::Skipped { fields }),
            _ if plan::holds_data(id) => Err(refused(fields, Instead::HoldsData)),
            _ if entry.adopted.is_some() => Err(refused(fields, Instead::NotOurs)),
            _ if !plan::may_delete(entry, &live.live.metadata, owner_uid) => {
                Err(refused(fields, Instead::Kept))
            }
            (ImmutableFields::Recreate, Some(uid)) => Ok(Fate::Recreated { uid, fields }),
            (ImmutableFields::Fail | ImmutableFields::Recreate, _) => Err(refused(fields, Instead::Nothing)),
        }
    }

    /// An object that has to be gone first, as what an operation waits for.
    pub(in crate::reconcile) fn leaving(&self, api_version: &str, message: &str) -> Waiting {
        let mut waiting = Waiting::unseen(api_version, message, self.scope.now);
        waiting.health.status = Status::Terminating;
        waiting
    }

    /// The error of a lock that cannot put an object back, because a field of it cannot change.
    pub(in crate::reconcile) async fn unchangeable(
        &self,
        object: &Object,
        body: &Value,
        refusal: cluster::Error,
    ) -> cluster::Error {
        if refusal.suspects().is_empty() {
            return refusal;
        }
        let id = &object.id;
        let Ok(Some(live)) = self.scope.cluster.get(&object.api_version, id).await else { return refusal };
        match self.scope.cluster.immutable_fields(&object.api_version, id, body, &live, &refusal).await {
            Some(fields) => cluster::Error::Immutable { id: id.clone(), fields, instead: Instead::Drifted },
            None => refusal,
        }
    }

    /// The account that acts for the release has to be allowed to delete it.
    pub(in crate::reconcile) fn may_have_to_recreate(&self, entry: &InventoryEntry) -> bool {
        self.scope.settings.immutable_fields == ImmutableFields::Recreate
            && entry.uid.is_some()
            && entry.adopted.is_none()
            && !entry.keep
            && !plan::holds_data(&entry.id)
    }
}

impl Rollout<'_> {
    /// Lets an object meet its fate; gives what has to be waited for.
    pub(in crate::reconcile) async fn meet(
        &mut self,
        object: &Object,
        fate: Fate,
        revision: u32,
        private: &mut Private,
        applied: &mut HashMap<ObjectId, Applied>,
    ) -> Result<Option<Waiting>, Error> {
        let id = &object.id;
        let (uid, fields) = match fate {
            Fate::Applied(done) => {
                applied.insert(id.clone(), *done);
                return Ok(None);
            }
            Fate::Leaves => {
                let message = "is being deleted: it is created anew once it is gone";
                return Ok(Some(self.objects().leaving(&object.api_version, message)));
            }
            Fate::Skipped { fields } => {
                self.tally.skipped(revision, id);
                let entry = private.inventory.iter_mut().find(|entry| entry.id == *id);
                if let Some(entry) = entry {
                    // It is not what this revision wants, so there is nothing to lock it to.
                    entry.fingerprint = None;
                    entry.skipped = fields;
                    self.records.scope.ctx.objects.table().expect(id, None, entry.uid.clone());
                }
                return Ok(None);
            }
            Fate::Recreated { uid, fields } => (uid, fields.join(", ")),
        };
        let propagation = propagation(id);
        self.records.scope.cluster.delete_with(&object.api_version, id, &uid, propagation).await?;
        self.tally.recreated(revision, id);
        let note =
            format!("{id} is deleted and created anew, because these fields of it cannot change: {fields}");
        let action = history::action_name(private.action);
        self.records.scope.ctx.report.event(
            self.records.scope.release,
            false,
            reasons::RECREATED,
            action,
            note,
        );
        let message = format!("is deleted and created anew, because {fields} cannot change");
        Ok(Some(self.objects().leaving(&object.api_version, &message)))
    }
}

/// Pods of a StatefulSet stay and are taken over by the next one. Two Jobs of one name must not run at a time. All else
/// goes after its owner.
fn propagation(id: &ObjectId) -> Propagation {
    match (id.group.as_str(), id.kind.as_str()) {
        ("apps", "StatefulSet") => Propagation::Orphan,
        ("batch", "Job") => Propagation::Foreground,
        _ => Propagation::Background,
    }
}
