//! The objects of an operation: applied group by group, pruned.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt, stream};

use crate::api::{Adopt, IgnoreRule, names};
use crate::cluster::{self, Applied, Mode};
use crate::manifest::{InventoryEntry, Object, ObjectId};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::{Objects, Rollout};
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::Running;
use crate::reconcile::state::Waiting;

/// Applies in flight for one release.
const PARALLEL: usize = 8;

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
                let fingerprint = applied.fingerprint.clone();
                let again =
                    self.scope.ctx.objects.table().applied(id, fingerprint, applied.version, applied.uid());
                if again {
                    self.scope.ctx.objects.wake(self.scope.key);
                }
            }
            Err(_) => self.scope.ctx.objects.table().abandon(id),
        }
        (id.clone(), result)
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
    /// Applies what is not in `applied` yet: after an error only the rest is tried again. Gives what has to be gone before
    /// the rest can be applied; nothing: all of it is. `runs`: the uids of Jobs that must be these very ones.
    pub(in crate::reconcile) async fn apply_groups(
        &mut self,
        running: &mut Running,
        groups: &[Vec<usize>],
        runs: &HashMap<ObjectId, String>,
        applied: &mut HashMap<ObjectId, Applied>,
    ) -> Result<BTreeMap<ObjectId, Waiting>, Error> {
        let live = self.objects();
        let Running { stored, parts, handed_over, absent, .. } = running;
        let objects = &parts.objects;
        let revision = stored.record.version;
        let Some(private) = stored.private.as_mut() else { return Ok(BTreeMap::new()) };
        let now: BTreeSet<&ObjectId> = groups.iter().flatten().map(|index| &objects[*index].id).collect();
        let entries: Vec<InventoryEntry> =
            private.inventory.iter().filter(|entry| now.contains(&entry.id)).cloned().collect();
        // The kinds of later steps may not be served yet.
        live.track(&private.inventory)?;
        live.watch(&entries).await?;
        if !*handed_over {
            live.hand_over_replicas(objects, absent, private, applied).await?;
            *handed_over = true;
        }
        let gone = live.jobs_gone(&entries).await?;
        let due: Vec<&Object> = groups
            .iter()
            .flatten()
            .map(|index| &objects[*index])
            .filter(|object| !applied.contains_key(&object.id) && !gone.contains(&object.id))
            .collect();
        let instead = live.leave_all_ignored(&due, private).await?;
        let due: Vec<&Object> =
            due.into_iter().map(|object| instead.get(&object.id).unwrap_or(object)).collect();
        let versions = self.keep_adopted(stored, &due, absent).await?;
        let Some(private) = stored.private.as_mut() else { return Ok(BTreeMap::new()) };
        let rules = live.rules(private);
        let entries: HashMap<ObjectId, InventoryEntry> =
            private.inventory.iter().map(|entry| (entry.id.clone(), entry.clone())).collect();
        let uid = private.owner.uid.clone();
        let mut leaving = BTreeMap::new();
        for group in groups {
            let calls = group.iter().filter_map(|index| {
                let object = &objects[*index];
                let entry = entries.get(&object.id)?;
                let due = !applied.contains_key(&object.id) && !gone.contains(&object.id);
                let due = due && entry.skipped.is_empty();
                let object = instead.get(&object.id).unwrap_or(object);
                let there = match (versions.get(&object.id), runs.get(&object.id)) {
                    (Some(version), _) => There::Version(version),
                    (None, Some(uid)) => There::Uid(uid),
                    (None, None) if absent.contains(&object.id) => There::Nothing,
                    (None, None) => There::Anything,
                };
                due.then(|| live.apply_as(object, entry, &rules, &uid, there))
            });
            let results: Vec<_> =
                stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
            // The whole group is tried, so that one bad object hides no other; the first error by id is reported.
            let mut failures = BTreeMap::new();
            let mut refused = BTreeMap::new();
            let mut appeared = false;
            for (id, result) in results {
                match result {
                    Ok(done) if done.is_leaving() => {
                        let message = "is being deleted: what is applied to it now goes with it";
                        let version = entries.get(&id).map(|entry| entry.api_version.clone());
                        leaving.insert(id, live.leaving(&version.unwrap_or_default(), message));
                    }
                    Ok(done) => {
                        // Something works: an error after it is a first one again.
                        self.records.backoff.errors = 0;
                        if let Some(before) = entries.get(&id) {
                            self.tally.applied(revision, before, &done);
                        }
                        applied.insert(id, done);
                    }
                    Err(error @ cluster::Error::Appeared { .. }) => {
                        // Nothing of it is touched before that is written down.
                        let entry = private.inventory.iter_mut().find(|entry| entry.id == id);
                        entry.into_iter().for_each(|entry| entry.adopt(revision, false));
                        private.adopts = true;
                        absent.remove(&id);
                        appeared = true;
                        failures.insert(id, error);
                    }
                    Err(error) if !error.suspects().is_empty() => drop(refused.insert(id, error)),
                    Err(error) => drop(failures.insert(id, error)),
                }
            }
            if let Some((_, error)) = failures.pop_first() {
                if appeared {
                    *stored = self.records.save(stored, true).await?;
                    self.records.wrote(stored);
                }
                return Err(error.into());
            }
            // Nothing is deleted before everything else of the group is done, and every refusal understood.
            let mut fates = Vec::new();
            for object in group.iter().map(|index| &objects[*index]) {
                let Some(error) = refused.remove(&object.id) else { continue };
                let Some(entry) = entries.get(&object.id) else { continue };
                fates.push((object, live.fate(object, entry, &rules, &uid, error).await?));
            }
            for (object, fate) in fates {
                let waiting = self.meet(object, fate, revision, private, applied).await?;
                leaving.extend(waiting.map(|waiting| (object.id.clone(), waiting)));
            }
            if !leaving.is_empty() {
                break;
            }
        }
        for entry in &mut private.inventory {
            if let Some(done) = applied.get(&entry.id) {
                entry.uid = done.uid();
                entry.fingerprint.clone_from(&done.fingerprint);
            }
        }
        Ok(leaving)
    }

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
