//! Definitions that several releases ship: one writes them, and when it goes, the next one takes over.

use std::time::Duration;

use crate::manifest::Object;
use crate::pack::DefinitionWishes;
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::reconcile::crds::definitions::Candidate;
use crate::reconcile::crds::{Crds, TakeOver};
use crate::reconcile::objects::Objects;
use crate::release::ReleaseKey;
use crate::storage::{Head, Stored};

impl TakeOver<'_> {
    /// Shared definitions whose writer is gone are this release's to write; and so is what a process before had begun to.
    ///
    /// No new revision and no hook: what the release asks for is the same as before.
    pub(in crate::reconcile) async fn take_over_definitions(&mut self) -> Result<(), Error> {
        let scope = self.deployed.records.scope;
        let Some((Head::Ours(head), _)) = &self.deployed.records.memory.head else { return Ok(()) };
        let Some(private) = &head.private else { return Ok(()) };
        let left: Vec<(String, String)> = private
            .definitions
            .iter()
            .filter(|shipped| !shipped.written)
            .filter_map(|shipped| Some((shipped.name.clone(), shipped.writer.clone()?)))
            .collect();
        scope.ctx.sharing.leaves(scope.key, left.iter().map(|(_, writer)| writer.clone()));
        let mut orphaned = Vec::new();
        for (name, writer) in left {
            if let Some(key) = ReleaseKey::parse(&writer)
                && scope.ctx.departed(&key).await?
            {
                orphaned.push(name);
            }
        }
        let begun = private.inventory.iter().any(|entry| entry.id.is_definition() && entry.uid.is_none());
        if orphaned.is_empty() && !begun {
            return Ok(());
        }
        Access { scope }.require_account().await?;
        let mut stored = self.deployed.records.read_head_whole().await?;
        self.deployed.secrets.recall_record(self.deployed.known, &stored);
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        let uid = private.owner.uid.clone();
        let mut objects = Vec::new();
        for shipped in private.definitions.iter_mut().filter(|shipped| orphaned.contains(&shipped.name)) {
            let Some(body) = shipped.body.clone() else { continue };
            let wait = shipped.wait;
            let wishes = DefinitionWishes {
                wait_ready: Some(wait.is_some()),
                wait_timeout: wait.map(Duration::from_secs),
                keep: Some(!shipped.goes),
                ..DefinitionWishes::default()
            };
            let candidate = Candidate { object: Object::from_value(body)?, in_manifest: false, wishes };
            let judged = self.judging().judge_definitions(vec![candidate], &uid, true).await?;
            objects.extend(judged.objects);
            if let Some(mut now) = judged.shipped.into_iter().next() {
                now.body = now.body.or_else(|| shipped.body.take());
                *shipped = now;
            }
        }
        let next = plan::next_inventory(&objects, stored.record.version, &private.inventory, &[]);
        private.inventory.retain(|entry| objects.iter().all(|object| object.id != entry.id));
        private.inventory.extend(next.wanted);
        if !objects.is_empty() {
            // Intent before effect.
            stored = self.deployed.records.save(&stored, true).await?;
            self.deployed.records.wrote(&stored);
        }
        self.apply_begun(stored).await
    }

    /// Applies the definitions of a deployed revision that no release has seen applied yet.
    async fn apply_begun(&mut self, mut stored: Stored) -> Result<(), Error> {
        let scope = self.deployed.records.scope;
        let objects = crate::reconcile::records::parsed::objects_in(&stored).await?;
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        let uid = private.owner.uid.clone();
        Objects { scope }.watch(&private.inventory).await?;
        for entry in private.inventory.iter_mut() {
            if !entry.id.is_definition() || entry.uid.is_some() {
                continue;
            }
            let Some(object) = objects.iter().find(|object| object.id == entry.id) else { continue };
            Crds { scope }.mark_adopted(&private.definitions, &[object]).await?;
            let applied = Objects { scope }.apply_one(object, entry, &[], &uid).await.1?;
            entry.uid = applied.uid();
            entry.fingerprint.clone_from(&applied.fingerprint);
        }
        let stored = self.deployed.records.save(&stored, true).await?;
        self.deployed.records.wrote(&stored);
        Ok(())
    }
}
