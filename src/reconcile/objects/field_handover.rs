//! Fields that another controller of the cluster sets by trade: left to them, without a moment at which they are reset.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

use crate::cluster::Applied;
use crate::manifest::{InventoryEntry, Object, ObjectId, managed_fields};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::Objects;
use crate::release::Private;

impl Objects<'_> {
    /// Leaves to others what they took since the last apply, so that this operation does not take it back.
    ///
    /// While the lock is on, a revert has done that already. It may be off, or the release was suspended. `found` are
    /// objects that are to be adopted.
    pub(in crate::reconcile) async fn respect_takers(
        &self,
        objects: &[Object],
        found: &[Found],
        private: &mut Private,
    ) -> Result<(), Error> {
        let freed = self.take_back_replicas(objects, private).await?;
        let taken = |id: &ObjectId, body: &Value, managed_fields: &[ManagedFieldsEntry]| {
            let mut pointers = left_to_others(body, managed_fields);
            pointers.retain(|pointer| pointer != plan::REPLICAS || !freed.contains(id));
            pointers
        };
        let bodies: BTreeMap<&ObjectId, &Value> =
            objects.iter().map(|object| (&object.id, &object.body)).collect();
        for (id, managed_fields) in found {
            let entry = private.inventory.iter_mut().find(|entry| entry.id == *id);
            let (Some(entry), Some(body)) = (entry, bodies.get(id)) else { continue };
            hand_over(entry, taken(id, body, managed_fields));
        }
        for suspicion in self.scope.ctx.objects.suspicions(self.scope.key) {
            let entry = private.inventory.iter_mut().find(|entry| entry.id == suspicion.id);
            let (Some(entry), Some(body)) = (entry, bodies.get(&suspicion.id)) else { continue };
            if suspicion.gone {
                // It may have lost no more than our label. A create applies the whole object.
                if self.scope.cluster.metadata(&entry.api_version, &entry.id).await?.is_none() {
                    entry.handed_over.clear();
                }
                continue;
            }
            let mut pointers = taken(&entry.id, body, &suspicion.managed_fields);
            let decided = freed.contains(&entry.id) || entry.handed_over.iter().any(|p| p == plan::REPLICAS);
            if !decided
                && !pointers.iter().any(|pointer| pointer == plan::REPLICAS)
                && self.has_autoscaler(&entry.id, body, &suspicion.managed_fields).await?
            {
                pointers.push(plan::REPLICAS.to_owned());
            }
            hand_over(entry, pointers);
        }
        Ok(())
    }

    /// Ends the hand-over of replicas that no autoscaler sets any more; gives the workloads whose autoscaler goes
    /// with this revision.
    ///
    /// One that came from elsewhere shows in the managedFields only. There it stays after it is gone, so one
    /// that goes with this revision counts for nothing.
    async fn take_back_replicas(
        &self,
        objects: &[Object],
        private: &mut Private,
    ) -> Result<BTreeSet<ObjectId>, Error> {
        let autoscaled = plan::autoscaled(objects);
        let mut freed = self.freed(&private.leftovers, &private.owner.uid).await?;
        freed.retain(|id| !autoscaled.contains(id));
        for entry in &mut private.inventory {
            let handed_over = entry.handed_over.iter().any(|pointer| pointer == plan::REPLICAS);
            if !handed_over || autoscaled.contains(&entry.id) {
                continue;
            }
            let set_by_another = !freed.contains(&entry.id) && {
                let meta = self.scope.cluster.metadata(&entry.api_version, &entry.id).await?;
                let managed_fields = meta.and_then(|meta| meta.managed_fields).unwrap_or_default();
                managed_fields::autoscaled(&managed_fields) || self.scope.cluster.is_scaled(&entry.id).await?
            };
            if !set_by_another {
                entry.handed_over.retain(|pointer| pointer != plan::REPLICAS);
            }
        }
        Ok(freed)
    }

    /// The workloads whose autoscaler goes with this revision.
    async fn freed(
        &self,
        leftovers: &[InventoryEntry],
        owner_uid: &str,
    ) -> Result<BTreeSet<ObjectId>, Error> {
        let mut freed = BTreeSet::new();
        for entry in leftovers {
            freed.extend(self.scaled_until_now(entry, owner_uid).await?);
        }
        Ok(freed)
    }

    /// The workload that an object scales which this revision is going to delete, if it is an autoscaler.
    pub(in crate::reconcile) async fn scaled_until_now(
        &self,
        leftover: &InventoryEntry,
        owner_uid: &str,
    ) -> Result<Option<ObjectId>, Error> {
        if !plan::is_autoscaler(&leftover.id) {
            return Ok(None);
        }
        let found = self.scope.cluster.find(&leftover.api_version, &leftover.id).await?;
        let goes = |meta: &ObjectMeta| plan::may_delete(leftover, meta, owner_uid);
        let Some((version, _)) = found.filter(|(_, meta)| goes(meta)) else { return Ok(None) };
        let live = self.scope.cluster.get(&version, &leftover.id).await?;
        Ok(live.and_then(|live| plan::scale_target(&leftover.id, &live.value())))
    }

    /// Leaves replicas to an autoscaler, without the reset that dropping an owned field would cause: the live value gets
    /// another owner first. What was `absent` may be another owner's by now.
    ///
    /// An autoscaler of the namespace that is content has written nothing, so it is looked for when the number that the
    /// manifest says is another one than before.
    pub(in crate::reconcile) async fn hand_over_replicas(
        &self,
        objects: &[Object],
        absent: &BTreeSet<ObjectId>,
        private: &mut Private,
        applied: &HashMap<ObjectId, Applied>,
    ) -> Result<(), Error> {
        let autoscaled = plan::autoscaled(objects);
        let said: BTreeMap<&ObjectId, i64> = objects
            .iter()
            .filter_map(|object| Some((&object.id, object.body.pointer(plan::REPLICAS)?.as_i64()?)))
            .collect();
        let Private { inventory, leftovers, owner, .. } = private;
        for entry in inventory {
            if applied.contains_key(&entry.id) {
                continue;
            }
            let before = std::mem::replace(&mut entry.replicas, said.get(&entry.id).copied());
            let changes = before != entry.replicas && !absent.contains(&entry.id);
            if entry.handed_over.iter().any(|pointer| pointer == plan::REPLICAS) {
                continue;
            }
            let scaled = autoscaled.contains(&entry.id)
                || (changes
                    && self.scope.cluster.is_scaled(&entry.id).await?
                    && !self.freed(leftovers, &owner.uid).await?.contains(&entry.id));
            if !scaled {
                continue;
            }
            // A create applies the whole object.
            let Some(live) = self.scope.cluster.get(&entry.api_version, &entry.id).await? else { continue };
            if absent.contains(&entry.id)
                && self.obstacle(&entry.id, &live.live.metadata, &owner.uid).is_some()
            {
                continue;
            }
            let Some(replicas) = live.value().pointer(plan::REPLICAS).cloned() else { continue };
            let fields = serde_json::json!({
                "apiVersion": entry.api_version, "kind": entry.id.kind,
                "metadata": {"name": entry.id.name, "namespace": entry.id.namespace},
                "spec": {"replicas": replicas},
            });
            self.scope.cluster.hand_over(&entry.api_version, &entry.id, &fields).await?;
            entry.handed_over.push(plan::REPLICAS.to_owned());
        }
        Ok(())
    }
}

/// An object of the cluster that no earlier revision applied, and who holds which of its fields.
pub(in crate::reconcile) type Found = (ObjectId, Vec<ManagedFieldsEntry>);

fn hand_over(entry: &mut InventoryEntry, pointers: Vec<String>) {
    for pointer in pointers {
        if !entry.handed_over.contains(&pointer) {
            entry.handed_over.push(pointer);
        }
    }
}

/// Fields that another controller of the cluster sets by trade: replicas by an autoscaler, CA bundles by an injector.
pub(crate) fn left_to_others(body: &Value, managed_fields: &[ManagedFieldsEntry]) -> Vec<String> {
    let mut pointers = managed_fields::taken_ca_bundles(body, managed_fields);
    if managed_fields::autoscaled(managed_fields) && plan::lost_replicas(body, managed_fields) {
        pointers.push(plan::REPLICAS.to_owned());
    }
    pointers
}
