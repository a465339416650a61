//! Objects that have to change in a field that cannot change: they stop the operation, are deleted and created anew, or
//! stay as they are, as `spec.upgrade.immutableFields` says.
//!
//! Only operations do this; the lock deletes nothing. What may be deleted is what this release made, what is not to be
//! kept, and what holds no data of its own. Nothing of it is written down: whoever takes over an operation finds the
//! object as it was, on its way out, or gone, and each of these says by itself what comes next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::{IgnoreRule, ImmutableFields, reasons};
use crate::cluster::{self, Applied, Instead, Propagation};
use crate::health::Status;
use crate::manifest::{InventoryEntry, Object, ObjectId};
use crate::plan;
use crate::reconcile::health::verdict::LOOK_ANYWAY;
use crate::reconcile::health::wait::LOOK_AGAIN;
use crate::reconcile::objects::apply::There;
use crate::reconcile::operation::steps::Step;
use crate::reconcile::records::history;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::reconcile::{Error, Pass};
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

impl Pass<'_> {
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
                return Ok(Some(self.leaving(&object.api_version, message)));
            }
            Fate::Skipped { fields } => {
                self.mem.tally.skipped(revision, id);
                let entry = private.inventory.iter_mut().find(|entry| entry.id == *id);
                if let Some(entry) = entry {
                    // It is not what this revision wants, so nobody can say what it is locked to.
                    entry.fingerprint = None;
                    entry.skipped = fields;
                    self.scope.ctx.objects.table().expect(id, None, entry.uid.clone());
                }
                return Ok(None);
            }
            Fate::Recreated { uid, fields } => (uid, fields.join(", ")),
        };
        let propagation = propagation(id);
        self.scope.cluster.delete_with(&object.api_version, id, &uid, propagation).await?;
        self.mem.tally.recreated(revision, id);
        let note =
            format!("{id} is deleted and created anew, because these fields of it cannot change: {fields}");
        let action = history::action_name(private.action);
        self.scope.ctx.report.event(self.scope.release, false, reasons::RECREATED, action, note);
        let message = format!("is deleted and created anew, because {fields} cannot change");
        Ok(Some(self.leaving(&object.api_version, &message)))
    }

    /// An object that has to be gone first, as what an operation waits for.
    pub(in crate::reconcile) fn leaving(&self, api_version: &str, message: &str) -> Waiting {
        let mut waiting = Waiting::unseen(api_version, message, self.scope.now);
        waiting.health.status = Status::Terminating;
        waiting
    }

    /// Waits until everything is gone that has to be. `None`: nothing has to be waited for any more.
    pub(in crate::reconcile) async fn await_leaving(
        &mut self,
        running: &mut Running,
    ) -> Result<Option<Step>, Error> {
        let Stage::Leaving { leaving, looked_at } = &mut running.stage else { return Ok(None) };
        let due = looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        if *looked_at < self.scope.now && self.scope.now < due {
            return Ok(Some(Step::Wait { until: due }));
        }
        *looked_at = self.scope.now;
        let mut gone = BTreeSet::new();
        for (id, waiting) in leaving.iter() {
            let meta = self.scope.cluster.metadata(&waiting.api_version, id).await?;
            // Another object of this name may be there already. It is told from the one before by not leaving.
            if meta.is_none_or(|meta| meta.deletion_timestamp.is_none()) {
                gone.insert(id.clone());
            }
        }
        leaving.retain(|id, _| !gone.contains(id));
        let left: BTreeMap<ObjectId, Waiting> = leaving.clone();
        for entry in running.stored.private.iter_mut().flat_map(|private| &mut private.inventory) {
            if gone.contains(&entry.id) {
                // A create applies the whole object.
                entry.handed_over.clear();
                entry.ignored.clear();
            }
        }
        // Whatever has their names now is judged before it is touched.
        running.absent.extend(gone);
        self.health().wake_on(&left);
        let Some((id, first)) = left.first_key_value() else {
            running.stage = Stage::Begin;
            return Ok(None);
        };
        if self.scope.now >= running.deadline {
            let error = cluster::Error::Terminating { id: id.clone() };
            let message =
                format!("{id} {}, and it did not go in time: see its finalizers", first.health.message);
            return Ok(Some(Step::Failed { reason: error.reason(), message, undo: false }));
        }
        Ok(Some(Step::Wait { until: self.scope.later(LOOK_ANYWAY).min(running.deadline) }))
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

    /// Whoever acts for the release has to be allowed to delete it.
    pub(in crate::reconcile) fn may_have_to_recreate(&self, entry: &InventoryEntry) -> bool {
        self.scope.settings.immutable_fields == ImmutableFields::Recreate
            && entry.uid.is_some()
            && entry.adopted.is_none()
            && !entry.keep
            && !plan::holds_data(&entry.id)
    }
}

/// Objects that an operation left as they are.
pub(in crate::reconcile) fn skipped(running: &Running) -> BTreeSet<ObjectId> {
    let inventory = running.stored.private.iter().flat_map(|private| &private.inventory);
    inventory.filter(|entry| !entry.skipped.is_empty()).map(|entry| entry.id.clone()).collect()
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
