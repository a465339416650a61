//! How Jobs that are no hooks ended, written down.
//!
//! Their `ttlSecondsAfterFinished` is left out of their apply until the record says how they ended. So nothing can take the result
//! away before it is written down, and afterwards it does not matter what takes the Job away: it is not made again. A revision
//! whose Job has the same body takes over that it succeeded; another body is another Job.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names;
use crate::cluster::Applied;
use crate::health::{self, Status};
use crate::manifest::{InventoryEntry, Object, ObjectId, Ran};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::{Deployed, Objects};
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::Waiting;
use crate::reconcile::state::redact::Secrets;
use crate::release::Private;
use crate::storage::{Head, Stored};

impl Objects<'_> {
    /// Says in a record how these Jobs ended, if they have; whether there was anything to say.
    pub(in crate::reconcile) async fn record_ends(
        &self,
        stored: &mut Stored,
        of: &BTreeSet<ObjectId>,
    ) -> Result<bool, Error> {
        let objects = objects_in(stored).await?;
        let Some(private) = stored.private.as_mut() else { return Ok(false) };
        let uid = private.owner.uid.clone();
        let mut changed = false;
        for entry in
            private.inventory.iter_mut().filter(|entry| entry.ran.is_none() && of.contains(&entry.id))
        {
            let Some(live) = self.scope.cluster.get(&entry.api_version, &entry.id).await? else { continue };
            self.scope.ctx.objects.table().looked(&entry.id, live.version);
            if let Some(failed) = end_of(&live, entry, &uid, self.scope.now) {
                let object = objects.iter().find(|object| object.id == entry.id);
                entry.uid = live.uid();
                entry.ran = Some(Ran { failed, ttl_due: object.is_some_and(plan::has_ttl) });
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Applies Jobs whose end is written down once more, with their ttl; whether there were any. One that is gone by now needs
    /// none.
    pub(in crate::reconcile) async fn give_ttl(&self, stored: &mut Stored) -> Result<bool, Error> {
        // What was there before must not go for a ttl of ours before a revision with it is deployed.
        let lent = |entry: &InventoryEntry| entry.adopted.as_ref().is_some_and(|adopted| !adopted.deployed);
        let due = |entry: &InventoryEntry| entry.ran.as_ref().is_some_and(|ran| ran.ttl_due) && !lent(entry);
        if !stored.private.iter().flat_map(|private| &private.inventory).any(due) {
            return Ok(false);
        }
        let objects: BTreeMap<ObjectId, Object> =
            objects_in(stored).await?.into_iter().map(|object| (object.id.clone(), object)).collect();
        let Some(private) = stored.private.as_mut() else { return Ok(false) };
        let (rules, uid) = (self.rules(private), private.owner.uid.clone());
        for entry in private.inventory.iter_mut().filter(|entry| due(entry)) {
            if let Some(object) = objects.get(&entry.id) {
                let left = self.leave_ignored(object, entry, &rules, None).await?;
                let object = left.object.as_ref().unwrap_or(object);
                match self.apply_one(object, entry, &rules, &uid).await.1 {
                    Ok(applied) => entry.fingerprint = applied.fingerprint,
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(ran) = &mut entry.ran {
                ran.ttl_due = false;
            }
        }
        Ok(true)
    }

    /// Lets a failed Job go when its ttl says so: the next attempt can make it anew only when it is gone.
    pub(in crate::reconcile) async fn release_failed_jobs(
        &self,
        secrets: &Secrets,
        stored: &mut Stored,
        waiting: &BTreeMap<ObjectId, Waiting>,
    ) {
        let failed =
            |id: &ObjectId| waiting.get(id).is_some_and(|one| one.health.reason == health::JOB_FAILED);
        let of: BTreeSet<ObjectId> = waiting.keys().filter(|id| failed(id)).cloned().collect();
        if of.is_empty() {
            return;
        }
        let done = match self.record_ends(stored, &of).await {
            Ok(_) => self.give_ttl(stored).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            // That it failed is written down, and this is no part of it.
            let error = secrets.shown(&error);
            tracing::debug!(release = %self.scope.key, error, "a failed Job was given no ttl");
        }
    }

    /// Jobs that have run and are not there any more, or whose name another one has by now.
    pub(in crate::reconcile) async fn jobs_gone(
        &self,
        entries: &[InventoryEntry],
    ) -> Result<BTreeSet<ObjectId>, Error> {
        let mut gone = BTreeSet::new();
        for entry in entries.iter().filter(|entry| entry.ran.is_some()) {
            if self.job_is_gone(entry).await? {
                gone.insert(entry.id.clone());
            }
        }
        Ok(gone)
    }

    /// Whether a Job that has run is there no more. Then nothing that is seen of it is drift.
    pub(in crate::reconcile) async fn job_is_gone(&self, entry: &InventoryEntry) -> Result<bool, Error> {
        let meta = self.scope.cluster.metadata(&entry.api_version, &entry.id).await?;
        let gone = meta.is_none_or(|meta| meta.uid != entry.uid || meta.deletion_timestamp.is_some());
        if gone {
            self.scope.ctx.objects.table().expect(&entry.id, None, entry.uid.clone());
        }
        Ok(gone)
    }
}

impl Deployed<'_> {
    /// Writes down how Jobs of what is deployed ended, and gives them their ttl: no operation may have waited for them. Wakes the release when they change.
    pub(in crate::reconcile) async fn settle_deployed_jobs(&mut self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.records.memory.head else { return Ok(()) };
        let all: BTreeSet<ObjectId> = jobs(head.private.as_ref()).map(|entry| entry.id.clone()).collect();
        let due = unsettled(head.private.as_ref(), &all);
        if due.is_empty() {
            return Ok(());
        }
        let news: BTreeSet<ObjectId> = {
            let mut table = self.records.scope.ctx.objects.table();
            table.wake_on(self.records.scope.key, &due);
            due.iter().filter(|id| table.news(id).is_some()).cloned().collect()
        };
        let has_no_ttl_yet =
            jobs(head.private.as_ref()).any(|entry| entry.ran.as_ref().is_some_and(|ran| ran.ttl_due));
        if news.is_empty() && !has_no_ttl_yet {
            return Ok(());
        }
        let mut stored = self.records.read_head_whole().await?;
        self.secrets.recall_record(self.known, &stored);
        if self.objects().record_ends(&mut stored, &news).await? {
            stored = self.records.save(&stored, true).await?;
            self.records.wrote(&stored);
        }
        if self.objects().give_ttl(&mut stored).await? {
            let stored = self.records.save(&stored, true).await?;
            self.records.wrote(&stored);
        }
        Ok(())
    }
}

/// Whether a live Job of this entry has ended, and if so whether it failed. One that was made from another body says nothing.
fn end_of(live: &Applied, entry: &InventoryEntry, uid: &str, now: jiff::Timestamp) -> Option<bool> {
    let annotations = live.live.metadata.annotations.as_ref();
    let mark = annotations.and_then(|all| all.get(names::APPLIED));
    if mark.is_none_or(|mark| *mark != plan::marker(uid, entry.changed_in)) {
        return None;
    }
    let health = health::assess_run(&live.value(), now);
    match health.status {
        Status::Current => Some(false),
        Status::Failed if health.terminal => Some(true),
        _ => None,
    }
}

pub(in crate::reconcile) fn jobs(private: Option<&Private>) -> impl Iterator<Item = &InventoryEntry> {
    let entries = private.into_iter().flat_map(|private| &private.inventory);
    entries.filter(|entry| plan::is_job(&entry.id) && entry.skipped.is_empty())
}

/// Those of these Jobs that have no end that is written down, or no ttl yet.
pub(in crate::reconcile) fn unsettled(
    private: Option<&Private>,
    of: &BTreeSet<ObjectId>,
) -> BTreeSet<ObjectId> {
    let open = |entry: &&InventoryEntry| entry.ran.as_ref().is_none_or(|ran| ran.ttl_due);
    jobs(private).filter(open).filter(|entry| of.contains(&entry.id)).map(|entry| entry.id.clone()).collect()
}
