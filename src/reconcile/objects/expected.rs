//! What the watches expect of a release's objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{self, Holder, is_hidden};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::reconcile::Error;
use crate::reconcile::objects::Objects;
use crate::reconcile::records::NewestRecord;
use crate::reconcile::state::Expectations;
use crate::release::ReleaseKey;
use crate::storage::{Head, Stored};
use crate::watch::{ObjectWatches, Sighting};

impl Objects<'_> {
    pub(in crate::reconcile) async fn expect(&self, inventory: &[InventoryEntry]) -> Result<(), Error> {
        self.evict_departed(inventory).await?;
        {
            let mut table = self.scope.ctx.objects.table();
            let known = table.tracked(self.scope.key);
            for entry in inventory.iter().filter(|entry| !known.contains(&entry.id)) {
                if table.track(self.scope.key, &entry.id).is_ok() {
                    table.expect(&entry.id, entry.fingerprint.clone(), entry.uid.clone());
                }
            }
        }
        let watched = self.watch(inventory).await;
        if watched.as_ref().is_err_and(|error| !error.is_blind()) {
            return watched;
        }
        // Objects of kinds that were listed before we said what we expect: one read each.
        let unseen = self.scope.ctx.objects.table().unseen(self.scope.key);
        for entry in inventory.iter().filter(|entry| unseen.contains(&entry.id)) {
            let meta = self.scope.cluster.metadata(&entry.api_version, &entry.id).await?;
            let mut table = self.scope.ctx.objects.table();
            match meta {
                Some(meta) if !is_hidden(&meta) => drop(table.saw(&entry.id, Sighting::of(meta))),
                _ => drop(table.lost(&entry.id, 0)),
            }
        }
        watched
    }

    /// Watches every kind of `inventory` and tracks every object of it.
    pub(in crate::reconcile) async fn watch(&self, inventory: &[InventoryEntry]) -> Result<(), Error> {
        self.evict_departed(inventory).await?;
        self.track(inventory)?;
        let kinds: BTreeSet<(&str, &str)> =
            inventory.iter().map(|entry| (entry.api_version.as_str(), entry.id.kind.as_str())).collect();
        let mut result = Ok(());
        let patience = ObjectWatches::patience();
        for (api_version, kind) in kinds {
            let kind = self.scope.cluster.kind(api_version, kind).await?;
            // One that cannot be watched does not keep the others from it.
            result = result.and(self.scope.ctx.objects.ensure(&kind, self.scope.key, patience).await);
        }
        Ok(result?)
    }

    pub(in crate::reconcile) fn track(&self, inventory: &[InventoryEntry]) -> Result<(), Error> {
        for entry in inventory {
            let owner = self.scope.ctx.objects.table().track(self.scope.key, &entry.id);
            if let Err(owner) = owner {
                let holder = Holder::Release(owner.to_string());
                return Err(cluster::Error::NotOwned { id: entry.id.clone(), holder }.into());
            }
        }
        Ok(())
    }

    /// Objects are tracked from what the records say, and a record may outlive its release: what is tracked for a
    /// release that is not there any more belongs to no release.
    async fn evict_departed(&self, inventory: &[InventoryEntry]) -> Result<(), Error> {
        let others: BTreeSet<ReleaseKey> = {
            let table = self.scope.ctx.objects.table();
            inventory.iter().filter_map(|entry| table.owner(&entry.id)).cloned().collect()
        };
        for owner in others.into_iter().filter(|owner| owner != self.scope.key) {
            if self.scope.ctx.departed(&owner).await? {
                self.scope.ctx.objects.table().forget_all(&owner);
            }
        }
        Ok(())
    }

    pub(in crate::reconcile) fn release_unused_kinds(&self, stored: &Stored) {
        let inventory = stored.private.iter().flat_map(|private| &private.inventory);
        let kinds = inventory.map(|entry| (entry.id.group.clone(), entry.id.kind.clone())).collect();
        self.scope.ctx.objects.retain_kinds(self.scope.key, &kinds);
    }
}

/// Makes sure that the watches know what to expect of the newest revision's objects.
pub(in crate::reconcile) struct Expected<'a> {
    pub newest: NewestRecord<'a>,
    pub memory: &'a mut Expectations,
}

impl<'a> Expected<'a> {
    fn objects(&self) -> Objects<'a> {
        Objects { scope: self.newest.scope }
    }

    /// Makes sure that the watches know what the deployed revision left behind. After a restart this is where
    /// drift made meanwhile becomes visible.
    pub(in crate::reconcile) async fn expect_deployed(&mut self) -> Result<(), Error> {
        let Some((Head::Ours(stored), _)) = &self.newest.memory.head else { return Ok(()) };
        let revision = stored.record.version;
        let strict_before = self.memory.strict.replace(self.newest.scope.settings.strict.clone());
        if strict_before.is_some_and(|before| before != self.newest.scope.settings.strict) {
            // What was seen was not looked at with these eyes.
            self.newest.scope.ctx.objects.table().doubt(self.newest.scope.key);
        } else if self.memory.of == Some(revision)
            && !self.newest.scope.ctx.objects.blind(self.newest.scope.key)
        {
            return Ok(());
        }
        let inventory =
            stored.private.iter().flat_map(|private| private.inventory.clone()).collect::<Vec<_>>();
        self.objects().expect(&inventory).await?;
        self.memory.of = Some(revision);
        Ok(())
    }

    /// Makes sure of the same before an operation, for what it is going to apply: no pass may have looked yet.
    pub(in crate::reconcile) async fn expect_wanted(
        &mut self,
        wanted: &[InventoryEntry],
    ) -> Result<(), Error> {
        let Some((Head::Ours(stored), _)) = &self.newest.memory.head else { return Ok(()) };
        if self.memory.of == Some(stored.record.version) {
            return Ok(());
        }
        // The version of before may not be served any more.
        let versions: BTreeMap<&ObjectId, &String> =
            wanted.iter().map(|entry| (&entry.id, &entry.api_version)).collect();
        let known = stored.private.iter().flat_map(|private| &private.inventory);
        let inventory: Vec<InventoryEntry> = known
            .filter_map(|entry| {
                let api_version = (*versions.get(&entry.id)?).clone();
                Some(InventoryEntry { api_version, ..entry.clone() })
            })
            .collect();
        self.objects().expect(&inventory).await
    }
}
