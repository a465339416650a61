//! What is left to others gets another owner, and what others added is taken away.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::handle::{Applied, Cluster};
use super::holders::{holding, is_update_by};
use crate::api::{Class, names};
use crate::cluster::Error;
use crate::manifest::adoption::unmarked;
use crate::manifest::{ObjectId, remove_pointer};

/// How often it is said anew who holds what, while others change the same object.
const TRIES: usize = 10;

impl Cluster {
    /// Applies the live value of fields that are about to be left out of our applies, so that they keep it. Somebody who
    /// changes one of them meanwhile is not overruled: `Conflict`.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn keep(&self, api_version: &str, id: &ObjectId, fields: &Value) -> Result<(), Error> {
        let params = PatchParams::apply(names::MANAGER_HANDOVER);
        self.patch(api_version, id, &params, &Patch::Apply(fields)).await.map(drop)
    }

    /// Makes the object that was `seen` what `to` says; nothing is sent when it is that already. `Conflict` when it changed
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn change(
        &self,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        to: &Value,
    ) -> Result<Applied, Error> {
        let values = difference(&seen.value(), to);
        if values.is_empty() {
            return Ok(seen.clone());
        }
        self.json_patch(api_version, id, seen, values).await
    }

    /// Takes our marks off the object that was `seen`, and says that `holders` hold it. `Conflict` when it changed meanwhile.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn let_go(
        &self,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        holders: &[ManagedFieldsEntry],
    ) -> Result<(), Error> {
        let mut marks = difference(&seen.value(), &unmarked(seen.value()));
        // An empty list counts as none given; an empty entry says that it is meant.
        let none = [ManagedFieldsEntry::default()];
        marks.extend(holding(if holders.is_empty() { &none } else { holders }));
        self.json_patch(api_version, id, seen, marks).await.map(drop)
    }

    /// Takes values out of an object, in the name of `manager`, who holds nothing by that. `places` are JSON pointers, each with what
    /// those before it leave. `Conflict` when the object changed after it was `seen`.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn take_away(
        &self,
        manager: &str,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        places: &[String],
    ) -> Result<Applied, Error> {
        let remove = |place: &String| json!({"op": "remove", "path": place});
        let operations = places.iter().map(remove).collect();
        let mut taken = match self.json_patch_as(manager, api_version, id, seen, operations).await {
            // What has gone meanwhile cannot be taken away, and that is said before the version is compared.
            Err(refusal) if !refusal.is_conflict() && refusal.class() != Class::Retry => {
                self.json_patch_as(manager, api_version, id, seen, Vec::new()).await?;
                return Err(refusal);
            }
            answer => answer?,
        };
        // What the API server fills in instead counts as written by the manager that took the other away.
        let mut conflict = None;
        for _ in 0..TRIES {
            let entries = holding_as_before(manager, seen.managed_fields(), taken.managed_fields());
            let Some(entries) = entries else { break };
            match self.json_patch_as(manager, api_version, id, &taken, holding(&entries)).await {
                Err(error) if error.is_conflict() => match self.get(api_version, id).await? {
                    Some(live) => (taken, conflict) = (live, Some(error)),
                    None => return Err(error),
                },
                answer => {
                    taken = answer?;
                    break;
                }
            }
        }
        // A writer that came between has written something that was not looked at.
        conflict.map_or(Ok(taken), Err)
    }
}

/// The entries of `after`, in which `manager` has by updates what he had `before`; `None` when he has.
fn holding_as_before(
    manager: &str,
    before: &[ManagedFieldsEntry],
    after: &[ManagedFieldsEntry],
) -> Option<Vec<ManagedFieldsEntry>> {
    let is_his = |entry: &&ManagedFieldsEntry| is_update_by(manager, entry);
    let had = || before.iter().filter(is_his);
    let has = after.iter().filter(is_his).map(|entry| &entry.fields_v1);
    if has.eq(had().map(|entry| &entry.fields_v1)) {
        return None;
    }
    let others = after.iter().filter(|entry| !is_his(entry));
    Some(others.chain(had()).cloned().collect())
}

/// The operations of a JSON patch from one state of an object to another, whichever manager holds what.
fn difference(from: &Value, to: &Value) -> Vec<Value> {
    let bare = |object: &Value| {
        let mut object = object.clone();
        remove_pointer(&mut object, "/metadata/managedFields");
        object
    };
    let patch = serde_json::to_value(json_patch::diff(&bare(from), &bare(to)));
    patch.ok().and_then(|patch| patch.as_array().cloned()).unwrap_or_default()
}
