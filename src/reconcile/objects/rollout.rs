//! The groups of one step: the objects of a group are applied together, and what became of each is settled before the next
//! group begins.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt, stream};

use crate::api::IgnoreRule;
use crate::cluster::{self, Applied};
use crate::manifest::{InventoryEntry, Object, ObjectId};
use crate::reconcile::Error;
use crate::reconcile::objects::Rollout;
use crate::reconcile::objects::apply::There;
use crate::reconcile::state::{Running, Waiting};
use crate::storage::Stored;

/// Applies in flight for one release.
const PARALLEL: usize = 8;

/// What came of each object of a group.
type Results = Vec<(ObjectId, Result<Applied, cluster::Error>)>;

/// What the objects of one step are applied by. Nothing of it changes while the step lasts.
struct GroupStep<'s> {
    objects: &'s [Object],
    /// What is applied instead of an object, because other field managers keep some of its fields.
    instead: HashMap<ObjectId, Object>,
    entries: HashMap<ObjectId, InventoryEntry>,
    /// Of objects that are adopted: the resourceVersion that was written down.
    versions: HashMap<ObjectId, String>,
    /// The uids of Jobs that must be these very ones.
    runs: &'s HashMap<ObjectId, String>,
    /// Jobs that ran and that the cluster deleted since.
    gone: BTreeSet<ObjectId>,
    rules: Vec<Arc<IgnoreRule>>,
    /// Of this line of revisions.
    uid: String,
}

/// What the step changes.
struct Headway<'s> {
    stored: &'s mut Stored,
    /// Objects that were not there when that was asked.
    absent: &'s mut BTreeSet<ObjectId>,
    applied: &'s mut HashMap<ObjectId, Applied>,
    /// What has to be gone before the rest can be applied.
    leaving: BTreeMap<ObjectId, Waiting>,
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
        let Running { stored, parts, handed_over, absent, .. } = running;
        let objects = &parts.objects[..];
        let mut headway = Headway { stored, absent, applied, leaving: BTreeMap::new() };
        let Some(step) = self.begin(&mut headway, objects, groups, runs, handed_over).await? else {
            return Ok(BTreeMap::new());
        };
        for group in groups {
            let results = self.apply_group(&step, group, &headway).await;
            let refused = self.settle(&step, results, &mut headway).await?;
            self.meet_refusals(&step, group, refused, &mut headway).await?;
            if !headway.leaving.is_empty() {
                break;
            }
        }
        headway.learn();
        Ok(headway.leaving)
    }

    /// Writes down what has to be known before the first object is written. `None`: the record is not one of ours.
    async fn begin<'s>(
        &mut self,
        headway: &mut Headway<'_>,
        objects: &'s [Object],
        groups: &[Vec<usize>],
        runs: &'s HashMap<ObjectId, String>,
        handed_over: &mut bool,
    ) -> Result<Option<GroupStep<'s>>, Error> {
        let live = self.objects();
        let Headway { stored, absent, applied, .. } = headway;
        let Some(private) = stored.private.as_mut() else { return Ok(None) };
        let of_step = || groups.iter().flatten().map(|index| &objects[*index]);
        let now: BTreeSet<&ObjectId> = of_step().map(|object| &object.id).collect();
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
        let due: Vec<&Object> = of_step()
            .filter(|object| !applied.contains_key(&object.id) && !gone.contains(&object.id))
            .collect();
        let instead = live.leave_all_ignored(&due, private).await?;
        let due: Vec<&Object> =
            due.into_iter().map(|object| instead.get(&object.id).unwrap_or(object)).collect();
        let versions = self.keep_adopted(stored, &due, absent).await?;
        let Some(private) = stored.private.as_ref() else { return Ok(None) };
        let entries = private.inventory.iter().map(|entry| (entry.id.clone(), entry.clone())).collect();
        let (rules, uid) = (live.rules(private), private.owner.uid.clone());
        Ok(Some(GroupStep { objects, instead, entries, versions, runs, gone, rules, uid }))
    }

    /// The whole group is tried, so that one bad object hides no other.
    async fn apply_group(&self, step: &GroupStep<'_>, group: &[usize], headway: &Headway<'_>) -> Results {
        let live = self.objects();
        let calls = group.iter().filter_map(|index| {
            let object = &step.objects[*index];
            let entry = step.entries.get(&object.id)?;
            let due = !headway.applied.contains_key(&object.id)
                && !step.gone.contains(&object.id)
                && entry.skipped.is_empty();
            let there = step.there(&object.id, headway.absent);
            let object = step.instead.get(&object.id).unwrap_or(object);
            due.then(|| live.apply_as(object, entry, &step.rules, &step.uid, there))
        });
        stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await
    }

    /// Takes over what was applied. Gives the refusals that may be for fields that cannot change.
    ///
    /// # Errors
    /// The first other error by the object's id.
    async fn settle(
        &mut self,
        step: &GroupStep<'_>,
        results: Results,
        headway: &mut Headway<'_>,
    ) -> Result<BTreeMap<ObjectId, cluster::Error>, Error> {
        let live = self.objects();
        let revision = headway.stored.record.version;
        let mut failures = BTreeMap::new();
        let mut refused = BTreeMap::new();
        let mut appeared = false;
        for (id, result) in results {
            match result {
                Ok(done) if done.is_leaving() => {
                    let message = "is being deleted: what is applied to it now goes with it";
                    let version = step.entries.get(&id).map(|entry| entry.api_version.clone());
                    headway.leaving.insert(id, live.leaving(&version.unwrap_or_default(), message));
                }
                Ok(done) => {
                    // Something works: an error after it is a first one again.
                    self.records.backoff.errors = 0;
                    if let Some(before) = step.entries.get(&id) {
                        self.tally.applied(revision, before, &done);
                    }
                    headway.applied.insert(id, done);
                }
                Err(error @ cluster::Error::Appeared { .. }) => {
                    headway.adopt(&id);
                    appeared = true;
                    failures.insert(id, error);
                }
                Err(error) if !error.suspects().is_empty() => drop(refused.insert(id, error)),
                Err(error) => drop(failures.insert(id, error)),
            }
        }
        let Some((_, error)) = failures.pop_first() else { return Ok(refused) };
        if appeared {
            *headway.stored = self.records.save(headway.stored, true).await?;
            self.records.wrote(headway.stored);
        }
        Err(error.into())
    }

    /// Nothing is deleted before everything else of the group is done, and every refusal understood.
    async fn meet_refusals(
        &mut self,
        step: &GroupStep<'_>,
        group: &[usize],
        mut refused: BTreeMap<ObjectId, cluster::Error>,
        headway: &mut Headway<'_>,
    ) -> Result<(), Error> {
        let live = self.objects();
        let mut fates = Vec::new();
        for object in group.iter().map(|index| &step.objects[*index]) {
            let Some(error) = refused.remove(&object.id) else { continue };
            let Some(entry) = step.entries.get(&object.id) else { continue };
            fates.push((object, live.fate(object, entry, &step.rules, &step.uid, error).await?));
        }
        let revision = headway.stored.record.version;
        let Some(private) = headway.stored.private.as_mut() else { return Ok(()) };
        for (object, fate) in fates {
            let waiting = self.meet(object, fate, revision, private, headway.applied).await?;
            headway.leaving.extend(waiting.map(|waiting| (object.id.clone(), waiting)));
        }
        Ok(())
    }
}

impl GroupStep<'_> {
    /// What the apply of an object is to find.
    fn there(&self, id: &ObjectId, absent: &BTreeSet<ObjectId>) -> There<'_> {
        match (self.versions.get(id), self.runs.get(id)) {
            (Some(version), _) => There::Version(version),
            (None, Some(uid)) => There::Uid(uid),
            (None, None) if absent.contains(id) => There::Nothing,
            (None, None) => There::Anything,
        }
    }
}

impl Headway<'_> {
    /// Another field manager created the object meanwhile: nothing of it is touched before that is written down.
    fn adopt(&mut self, id: &ObjectId) {
        let revision = self.stored.record.version;
        let Some(private) = self.stored.private.as_mut() else { return };
        let entry = private.inventory.iter_mut().find(|entry| entry.id == *id);
        entry.into_iter().for_each(|entry| entry.adopt(revision, false));
        private.adopts = true;
        self.absent.remove(id);
    }

    /// What the inventory expects of each object from now on.
    fn learn(&mut self) {
        let Some(private) = self.stored.private.as_mut() else { return };
        for entry in &mut private.inventory {
            if let Some(done) = self.applied.get(&entry.id) {
                entry.uid = done.uid();
                entry.fingerprint.clone_from(&done.fingerprint);
            }
        }
    }
}
