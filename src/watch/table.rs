//! What the watches know of the objects of releases: last seen against last applied.
//!
//! Suspicion is a comparison, not a queued event: it stays until an apply makes the two equal, however long
//! the release is busy, suspended or pending meanwhile. Only ids, hashes and versions are kept; managedFields
//! stay for objects under suspicion alone, because they name who did it.

mod subject;
mod tracked;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

pub use self::subject::{Place, Subject};
use self::tracked::{News, Seen, Tracked};
pub use self::tracked::{Sighting, Suspicion};
use crate::manifest::{ObjectId, managed_fields};
use crate::release::ReleaseKey;

/// Objects by id, each owned by one release. Most of the memory of a release that rests is here, so what is the same text is there once,
/// and what a map has not filled yet is small.
#[derive(Debug, Default)]
pub struct Table {
    objects: HashMap<Arc<ObjectId>, Box<Tracked>>,
    by_owner: HashMap<ReleaseKey, BTreeSet<Arc<ObjectId>>>,
    /// Field managers whose additions count, for the releases that have such.
    strict: HashMap<ReleaseKey, Vec<String>>,
    /// What was taken over from a release that does not know it yet.
    lost: HashMap<ReleaseKey, BTreeSet<ObjectId>>,
}

impl Table {
    /// Begins to track `id` for `owner`. Says which other release owns it already.
    ///
    /// # Errors
    /// The key of the release that owns the object.
    pub fn track(&mut self, owner: &ReleaseKey, id: &ObjectId) -> Result<(), ReleaseKey> {
        if let Some(tracked) = self.objects.get(id) {
            return if tracked.owner == *owner { Ok(()) } else { Err(tracked.owner.clone()) };
        }
        let id = Arc::new(id.clone());
        self.by_owner.entry(owner.clone()).or_default().insert(Arc::clone(&id));
        self.objects.insert(id, Box::new(Tracked::new(owner.clone())));
        Ok(())
    }

    /// Takes an object over from the release that tracks it, which is told by [`Table::take_lost`]. Gives that release.
    pub fn take_over(&mut self, owner: &ReleaseKey, id: &ObjectId) -> Option<ReleaseKey> {
        let before = self.owner(id).filter(|before| *before != owner).cloned();
        if let Some(before) = &before {
            self.forget(before, id);
            self.lost.entry(before.clone()).or_default().insert(id.clone());
        }
        // Nothing else tracks it now.
        let _ = self.track(owner, id);
        before
    }

    /// The objects that other releases took over from this one since it last asked.
    pub fn take_lost(&mut self, owner: &ReleaseKey) -> BTreeSet<ObjectId> {
        self.lost.remove(owner).unwrap_or_default()
    }

    /// The object carries no label: only the watch of its namespace tells that it is gone.
    pub fn is_unlabelled(&mut self, id: &ObjectId) {
        if let Some(tracked) = self.objects.get_mut(id) {
            tracked.unlabelled = true;
        }
    }

    /// What a stored record says of an object: used after a restart, before any event.
    pub fn expect(&mut self, id: &ObjectId, fingerprint: Option<String>, uid: Option<String>) {
        if let Some(tracked) = self.objects.get_mut(id) {
            tracked.expected = fingerprint.map(Arc::from);
            tracked.uid = uid.map(Arc::from);
            tracked.fresh = false;
        }
    }

    /// An apply of ours is about to be sent.
    pub fn begin(&mut self, id: &ObjectId) {
        if let Some(tracked) = self.objects.get_mut(id) {
            tracked.in_flight = true;
        }
    }

    /// An apply of ours ended without an answer that can be compared.
    pub fn abandon(&mut self, id: &ObjectId) {
        if let Some(tracked) = self.objects.get_mut(id) {
            tracked.in_flight = false;
        }
    }

    /// An apply of ours returned. `true`: something newer was seen meanwhile, so look again.
    pub fn applied(
        &mut self,
        id: &ObjectId,
        fingerprint: Option<String>,
        version: u64,
        uid: Option<String>,
    ) -> bool {
        let Some(tracked) = self.objects.get_mut(id) else { return false };
        let (fingerprint, uid) = (fingerprint.map(Arc::from), uid.map(Arc::from));
        tracked.in_flight = false;
        tracked.expected = fingerprint.clone();
        tracked.applied_version = version;
        tracked.uid = uid.clone();
        tracked.fresh = true;
        let newer = match &tracked.seen {
            Seen::Unknown => false,
            Seen::Live { version: seen, .. } | Seen::Gone { version: seen } => *seen > version,
        };
        if newer {
            return tracked.is_suspicious();
        }
        tracked.evidence = Vec::new();
        tracked.since = None;
        tracked.news = None;
        tracked.seen = Seen::Live { fingerprint, version, uid, terminating: false };
        false
    }

    /// Events of an object that was neither applied nor looked at since.
    #[must_use]
    pub fn news(&self, id: &ObjectId) -> Option<News> {
        self.objects.get(id)?.news
    }

    /// The object was read in this version: what events tell of it up to that is no news.
    pub fn looked(&mut self, id: &ObjectId, version: u64) {
        if let Some(tracked) = self.objects.get_mut(id) {
            tracked.looked_version = version;
            tracked.news = tracked.news.filter(|news| news.version > version);
        }
    }

    /// From now on additions by these managers make the objects of a release suspicious.
    pub fn be_strict(&mut self, owner: &ReleaseKey, managers: &[String]) {
        if managers.is_empty() {
            self.strict.remove(owner);
        } else if self.strict.get(owner).is_none_or(|known| known != managers) {
            self.strict.insert(owner.clone(), managers.to_vec());
        }
    }

    /// What was seen of the objects of a release does not count: they are to be looked at again.
    pub fn doubt(&mut self, owner: &ReleaseKey) {
        for id in self.by_owner.get(owner).into_iter().flatten() {
            if let Some(tracked) = self.objects.get_mut(id) {
                tracked.seen = Seen::Unknown;
                // What the last apply answered is to be seen again.
                tracked.applied_version = 0;
            }
        }
    }

    /// The release waits for `ids` and for no others of its objects.
    pub fn wake_on(&mut self, owner: &ReleaseKey, ids: &BTreeSet<ObjectId>) {
        for id in self.by_owner.get(owner).into_iter().flatten() {
            if let Some(tracked) = self.objects.get_mut(id) {
                tracked.wake = ids.contains(id);
            }
        }
    }

    /// Stops to track one object.
    pub fn forget(&mut self, owner: &ReleaseKey, id: &ObjectId) {
        if self.objects.get(id).is_some_and(|tracked| tracked.owner == *owner) {
            self.objects.remove(id);
        }
        if let Some(ids) = self.by_owner.get_mut(owner) {
            ids.remove(id);
        }
    }

    /// Stops to track everything of a release.
    pub fn forget_all(&mut self, owner: &ReleaseKey) {
        for id in self.by_owner.remove(owner).unwrap_or_default() {
            self.objects.remove(&id);
        }
        self.lost.remove(owner);
    }

    /// The release that an object is tracked for.
    #[must_use]
    pub fn owner(&self, id: &ObjectId) -> Option<&ReleaseKey> {
        self.objects.get(id).map(|tracked| &tracked.owner)
    }

    /// The tracked objects of a release.
    #[must_use]
    pub fn tracked(&self, owner: &ReleaseKey) -> BTreeSet<ObjectId> {
        self.by_owner.get(owner).into_iter().flatten().map(|id| id.as_ref().clone()).collect()
    }

    /// Objects of a release with an expectation of which no event was seen.
    #[must_use]
    pub fn unseen(&self, owner: &ReleaseKey) -> Vec<ObjectId> {
        let unseen = |id: &&Arc<ObjectId>| {
            let tracked = self.objects.get(*id);
            tracked.is_some_and(|t| t.expected.is_some() && matches!(t.seen, Seen::Unknown))
        };
        self.by_owner.get(owner).into_iter().flatten().filter(unseen).map(|id| id.as_ref().clone()).collect()
    }

    /// Every tracked object of a release was seen to be gone.
    #[must_use]
    pub fn all_gone(&self, owner: &ReleaseKey) -> bool {
        self.by_owner.get(owner).into_iter().flatten().all(|id| self.is_gone(id))
    }

    /// The object was seen to be gone after our last apply.
    #[must_use]
    pub fn is_gone(&self, id: &ObjectId) -> bool {
        matches!(self.objects.get(id).map(|tracked| &tracked.seen), Some(Seen::Gone { .. }))
    }

    /// Objects of a release that were applied and have left the watch since, in their order.
    #[must_use]
    pub fn missing(&self, owner: &ReleaseKey) -> Vec<ObjectId> {
        let missing = |id: &&Arc<ObjectId>| {
            let tracked = self.objects.get(*id);
            tracked.is_some_and(|t| t.expected.is_some() && matches!(t.seen, Seen::Gone { .. }))
        };
        self.by_owner.get(owner).into_iter().flatten().filter(missing).map(|id| id.as_ref().clone()).collect()
    }

    /// Objects of a release that are not as we applied them.
    #[must_use]
    pub fn suspicions(&self, owner: &ReleaseKey) -> Vec<Suspicion> {
        let ids = self.by_owner.get(owner).into_iter().flatten();
        ids.filter_map(|id| {
            let tracked = self.objects.get(id)?;
            tracked.is_suspicious().then(|| tracked.suspicion(id))
        })
        .collect()
    }

    /// An event that shows the object. Gives the release to wake.
    pub fn saw(&mut self, id: &ObjectId, sighting: Sighting) -> Option<ReleaseKey> {
        let tracked = self.objects.get_mut(id)?;
        tracked.fresh = true;
        if sighting.version != 0 && sighting.version <= tracked.applied_version {
            return None;
        }
        let news = tracked.hears(sighting.version);
        let Sighting { mut fingerprint, version, uid, terminating, managed_fields } = sighting;
        if let Some(managers) = self.strict.get(&tracked.owner).filter(|_| !id.is_definition()) {
            fingerprint = managed_fields::with_additions(fingerprint, &managed_fields, managers);
        }
        let fingerprint = tracked::shared(&tracked.expected, fingerprint);
        let uid = tracked::shared(&tracked.uid, uid);
        tracked.seen = Seen::Live { fingerprint, version, uid, terminating };
        let suspicious = tracked.is_suspicious();
        tracked.since = if suspicious { tracked.since.or_else(|| Some(Instant::now())) } else { None };
        tracked.evidence = if suspicious || tracked.in_flight { managed_fields } else { Vec::new() };
        ((tracked.wake && news) || (suspicious && !tracked.in_flight)).then(|| tracked.owner.clone())
    }

    /// An event that says the object left the watch: deleted, or without our label.
    pub fn lost(&mut self, id: &ObjectId, version: u64) -> Option<ReleaseKey> {
        let tracked = self.objects.get_mut(id)?;
        if version != 0 && version <= tracked.applied_version {
            return None;
        }
        tracked.fresh = true;
        tracked.hears(version);
        tracked.seen = Seen::Gone { version };
        tracked.evidence = Vec::new();
        tracked.since.get_or_insert_with(Instant::now);
        (tracked.wake || !tracked.in_flight).then(|| tracked.owner.clone())
    }

    /// A list begins: what it does not contain at its end is gone.
    pub fn list_begins(&mut self, of: &Subject) {
        for (id, tracked) in &mut self.objects {
            if of.covers(id, tracked.unlabelled) {
                tracked.fresh = false;
            }
        }
    }

    /// The list is complete. Gives the releases to wake.
    pub fn list_ends(&mut self, of: &Subject) -> Vec<ReleaseKey> {
        let mut owners = Vec::new();
        for (id, tracked) in &mut self.objects {
            if !of.covers(id, tracked.unlabelled) || tracked.fresh || tracked.in_flight {
                continue;
            }
            tracked.fresh = true;
            if !matches!(tracked.seen, Seen::Gone { .. }) {
                tracked.seen = Seen::Gone { version: tracked.applied_version.saturating_add(1) };
                owners.push(tracked.owner.clone());
            }
        }
        owners
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
