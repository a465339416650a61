//! One object of an operation: applied, taken away; what a revision no longer wants is pruned.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::{Adopt, IgnoreRule, names};
use crate::cluster::{self, Applied, Mode};
use crate::manifest::{InventoryEntry, Object, ObjectId};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::{Objects, Rollout};
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::Running;

/// What became of an object that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reconcile) enum Away {
    /// It was there and is now going.
    Going,
    /// It is kept, or was handed back.
    Stays,
    /// There is none, or none of ours.
    NotOurs,
}

/// What an apply is to find.
#[derive(Clone, Copy)]
pub(in crate::reconcile) enum There<'v> {
    Anything,
    /// Nothing of this name was there when that was asked, and there must be nothing of others now.
    Nothing,
    /// Exactly the object of this resourceVersion.
    Version(&'v str),
    /// The object of this uid.
    Uid(&'v str),
}

impl<'a> Objects<'a> {
    /// What every object of the release carries; `uid` is that of its line of revisions.
    pub(in crate::reconcile) fn marks<'u>(self, uid: &'u str) -> plan::Marks<'u>
    where
        'a: 'u,
    {
        plan::Marks {
            release_name: &self.scope.settings.release_name,
            release_namespace: &self.scope.key.namespace,
            uid,
        }
    }

    pub(in crate::reconcile) async fn apply_one(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        uid: &str,
    ) -> (ObjectId, Result<Applied, cluster::Error>) {
        self.apply_as(object, entry, rules, uid, There::Anything).await
    }

    /// [`Objects::apply_one`], if what is `there` is that still.
    pub(in crate::reconcile) async fn apply_as(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        uid: &str,
        there: There<'_>,
    ) -> (ObjectId, Result<Applied, cluster::Error>) {
        let marks = self.marks(uid);
        let body = plan::apply_body(object, entry, marks);
        let id = &object.id;
        self.scope.ctx.objects.table().begin(id);
        let mut result = match there {
            There::Nothing => self.apply_absent(object, &body, uid).await,
            There::Anything => self.scope.cluster.apply(&object.api_version, id, &body, Mode::Real).await,
            There::Version(version) => {
                let mut body = body.clone();
                body["metadata"]["resourceVersion"] = version.into();
                self.scope.cluster.apply(&object.api_version, id, &body, Mode::Real).await
            }
            There::Uid(uid) => {
                let mut body = body.clone();
                body["metadata"]["uid"] = uid.into();
                self.scope.cluster.apply(&object.api_version, id, &body, Mode::Real).await
            }
        };
        if let Ok(applied) = &result
            && self.scope.settings.adopt == Adopt::Unowned
        {
            match self.scope.cluster.strip_managers(&object.api_version, id, applied).await {
                Ok(stripped) => result = Ok(stripped),
                Err(error) => result = Err(error),
            }
        }
        if let Ok(applied) = &result
            && id.is_definition()
        {
            let owner = self.scope.key.to_string();
            result = self.scope.cluster.mark(id, applied, &[(names::OWNER, &owner)]).await;
        }
        if let Ok(applied) = result {
            result = self.strictly(object, entry, rules, &body, applied).await;
        }
        match &mut result {
            Ok(applied) => {
                if object.unlocked() || entry.is_open() {
                    // Without an expectation nothing that is seen of it is drift.
                    applied.fingerprint = None;
                }
                self.expect_applied(id, applied);
            }
            Err(_) => self.scope.ctx.objects.table().abandon(id),
        }
        (id.clone(), result)
    }

    /// Tells the watches what is expected of the object since this apply. What they saw of it meanwhile wakes the release.
    pub(in crate::reconcile) fn expect_applied(&self, id: &ObjectId, applied: &Applied) {
        let objects = &self.scope.ctx.objects;
        let again = objects.table().applied(id, applied.fingerprint.clone(), applied.version, applied.uid());
        if again {
            objects.wake(self.scope.key);
        }
    }

    /// [`Objects::take_away`]; `true`: the object was there and is now going.
    pub(in crate::reconcile) async fn delete_ours(
        &self,
        entry: &InventoryEntry,
        uid: &str,
    ) -> Result<bool, Error> {
        Ok(self.take_away(entry, uid).await? == Away::Going)
    }

    /// Deletes one object if it is still ours and not to be kept; one that was adopted is handed back.
    pub(in crate::reconcile) async fn take_away(
        &self,
        entry: &InventoryEntry,
        uid: &str,
    ) -> Result<Away, Error> {
        let found = self.scope.cluster.find(&entry.api_version, &entry.id).await?;
        let Some((version, meta)) = found else {
            let kept = entry.adopted.as_ref().and_then(|adopted| adopted.kept.clone());
            self.forget_kept(kept.into_iter().collect()).await;
            return Ok(Away::NotOurs);
        };
        let leaves = meta.deletion_timestamp.is_some();
        if entry.adopted.is_some() {
            self.hand_back(&version, entry, uid).await?;
            return Ok(if leaves { Away::NotOurs } else { Away::Stays });
        }
        if !plan::may_delete(entry, &meta, uid) {
            let kept = entry.keep || plan::is_kept(meta.annotations.as_ref());
            return Ok(if kept && !leaves { Away::Stays } else { Away::NotOurs });
        }
        let Some(object_uid) = &meta.uid else { return Ok(Away::NotOurs) };
        let going = leaves || self.scope.cluster.delete(&version, &entry.id, object_uid).await?;
        Ok(if going { Away::Going } else { Away::NotOurs })
    }
}

impl Rollout<'_> {
    /// Deletes what this revision no longer wants: only what an inventory of ours records, what still carries our
    /// marker, and what is not to be kept.
    pub(in crate::reconcile) async fn prune(&mut self, running: &mut Running) -> Result<(), Error> {
        let live = self.objects();
        let revision = running.stored.record.version;
        let Some(private) = running.stored.private.as_mut() else { return Ok(()) };
        let wanted: BTreeSet<String> =
            private.inventory.iter().filter_map(|entry| entry.uid.clone()).collect();
        let mut freed = BTreeSet::new();
        for entry in plan::deletion_order(private.leftovers.clone()) {
            // One object under two groups (an Ingress of old) is still wanted under the new one.
            if !entry.uid.as_ref().is_some_and(|uid| wanted.contains(uid)) {
                freed.extend(live.scaled_until_now(&entry, &private.owner.uid).await?);
                if live.delete_ours(&entry, &private.owner.uid).await? {
                    self.tally.pruned(revision, &entry.id);
                }
            }
            live.scope.ctx.objects.table().forget(live.scope.key, &entry.id);
            // What an error leaves to do stays in the record.
            private.leftovers.retain(|left| left.id != entry.id);
        }
        if freed.is_empty() {
            return Ok(());
        }
        // As long as it was there, the autoscaler may have taken the replicas once more, and that would look as if
        // it still were.
        let objects = objects_in(&running.stored).await?;
        let Some(private) = running.stored.private.as_mut() else { return Ok(()) };
        let rules = live.rules(private);
        for object in objects.iter().filter(|object| freed.contains(&object.id)) {
            let entry = private.inventory.iter_mut().find(|entry| entry.id == object.id);
            let Some(entry) = entry.filter(|entry| entry.skipped.is_empty()) else { continue };
            let left = live.leave_ignored(object, entry, &rules, None).await?;
            let object = left.object.as_ref().unwrap_or(object);
            let applied = live.apply_one(object, entry, &rules, &private.owner.uid).await.1?;
            entry.uid = applied.uid();
            entry.fingerprint = applied.fingerprint;
        }
        Ok(())
    }
}
