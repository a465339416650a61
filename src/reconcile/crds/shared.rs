//! Definitions that several releases ship: one writes them, and when it goes, the next one takes over.

use std::time::Duration;

use crate::manifest::Object;
use crate::pack::DefinitionWishes;
use crate::plan;
use crate::reconcile::crds::definitions::Candidate;
use crate::reconcile::{Error, Pass};
use crate::release::ReleaseKey;
use crate::storage::{Head, Stored};

impl Pass<'_> {
    /// Shared definitions whose writer is gone are this release's to write; and so is what a process before had begun to.
    ///
    /// No new revision and no hook: what the release asks for is the same as before.
    pub(in crate::reconcile) async fn take_over_definitions(&mut self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.mem.records.head else { return Ok(()) };
        let Some(private) = &head.private else { return Ok(()) };
        let left: Vec<(String, String)> = private
            .definitions
            .iter()
            .filter(|shipped| !shipped.written)
            .filter_map(|shipped| Some((shipped.name.clone(), shipped.writer.clone()?)))
            .collect();
        self.scope.ctx.sharing.leaves(self.scope.key, left.iter().map(|(_, writer)| writer.clone()));
        let mut orphaned = Vec::new();
        for (name, writer) in left {
            if let Some(key) = ReleaseKey::parse(&writer)
                && self.scope.ctx.departed(&key).await?
            {
                orphaned.push(name);
            }
        }
        let begun = private.inventory.iter().any(|entry| entry.id.is_definition() && entry.uid.is_none());
        if orphaned.is_empty() && !begun {
            return Ok(());
        }
        self.access().require_account().await?;
        let mut stored = self.records().read_head_whole().await?;
        self.secrets.recall_record(self.mem.secrets.as_ref(), &stored);
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
            let judged = self.judge_definitions(vec![candidate], &uid, true).await?;
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
            stored = self.records().save(&stored, true).await?;
            self.records().wrote(&stored);
        }
        self.apply_begun(stored).await
    }

    /// Applies the definitions of a deployed revision that nobody has seen applied yet.
    async fn apply_begun(&mut self, mut stored: Stored) -> Result<(), Error> {
        let objects = crate::reconcile::records::parsed::objects_in(&stored).await?;
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        let uid = private.owner.uid.clone();
        self.live().watch(&private.inventory).await?;
        for entry in private.inventory.iter_mut() {
            if !entry.id.is_definition() || entry.uid.is_some() {
                continue;
            }
            let Some(object) = objects.iter().find(|object| object.id == entry.id) else { continue };
            self.mark_adopted(&private.definitions, &[object]).await?;
            let applied = self.live().apply_one(object, entry, &[], &uid).await.1?;
            entry.uid = applied.uid();
            entry.fingerprint.clone_from(&applied.fingerprint);
        }
        let stored = self.records().save(&stored, true).await?;
        self.records().wrote(&stored);
        Ok(())
    }
}
