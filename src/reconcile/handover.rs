//! Fields that somebody in the cluster sets by trade: left to them, without a moment at which they are reset.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::{Error, Pass};
use crate::manifest::{Object, ObjectId, fingerprint};
use crate::plan;
use crate::release::Private;

impl Pass<'_> {
    /// Leaves to others what they took since the last apply, so that this operation does not take it back.
    ///
    /// While the lock is on, a revert has done that already. It may be off, or the release was suspended.
    pub(super) async fn respect_takers(
        &self,
        objects: &[Object],
        private: &mut Private,
    ) -> Result<(), Error> {
        let bodies: BTreeMap<&ObjectId, &Value> =
            objects.iter().map(|object| (&object.id, &object.body)).collect();
        for suspicion in self.ctx.objects.suspicions(&self.key) {
            let entry = private.inventory.iter_mut().find(|entry| entry.id == suspicion.id);
            let (Some(entry), Some(body)) = (entry, bodies.get(&suspicion.id)) else { continue };
            if suspicion.gone {
                // It may have lost no more than our label. A create applies the whole object.
                if self.ctx.cluster.metadata(&entry.api_version, &entry.id).await?.is_none() {
                    entry.handed_over.clear();
                }
                continue;
            }
            for pointer in left_to_others(body, &suspicion.managed_fields) {
                if !entry.handed_over.contains(&pointer) {
                    entry.handed_over.push(pointer);
                }
            }
        }
        Ok(())
    }

    /// Leaves replicas to an autoscaler of the same manifest, without the reset that dropping an owned field
    /// would cause: the live value gets another owner first.
    pub(super) async fn hand_over_replicas(
        &self,
        objects: &[Object],
        private: &mut Private,
    ) -> Result<(), Error> {
        let autoscaled = plan::autoscaled(objects);
        for entry in &mut private.inventory {
            let handed_over = entry.handed_over.iter().any(|pointer| pointer == plan::REPLICAS);
            if handed_over || entry.uid.is_none() || !autoscaled.contains(&entry.id) {
                continue;
            }
            let Some(live) = self.ctx.cluster.get(&entry.api_version, &entry.id).await? else { continue };
            let Some(replicas) = live.value().pointer(plan::REPLICAS).cloned() else { continue };
            let fields = serde_json::json!({
                "apiVersion": entry.api_version, "kind": entry.id.kind,
                "metadata": {"name": entry.id.name, "namespace": entry.id.namespace},
                "spec": {"replicas": replicas},
            });
            self.ctx.cluster.hand_over(&entry.api_version, &entry.id, &fields).await?;
            entry.handed_over.push(plan::REPLICAS.to_owned());
        }
        Ok(())
    }
}

/// Fields that somebody in the cluster sets by trade: replicas by an autoscaler, CA bundles by an injector.
pub(super) fn left_to_others(body: &Value, managed_fields: &[ManagedFieldsEntry]) -> Vec<String> {
    let mut pointers = fingerprint::taken_ca_bundles(body, managed_fields);
    let lost = fingerprint::lost_paths(body, managed_fields);
    if fingerprint::autoscaled(managed_fields) && lost.iter().any(|path| path == plan::REPLICAS) {
        pointers.push(plan::REPLICAS.to_owned());
    }
    pointers
}
