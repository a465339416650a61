//! Server-side apply of the objects of releases, and what has to be done to an object before or after it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};

use super::handle::{Applied, Cluster, Meta, Mode, within};
use super::holders::{holding, is_update_by};
use super::outdated::gone_version;
use crate::api::names;
use crate::cluster::Error;
use crate::cluster::crowded::{is_crowded, make_room};
use crate::manifest::ObjectId;

/// Annotations that [`Cluster::mark`] writes.
const MARKS: [&str; 2] = [names::OWNER, names::ADOPTED];
/// Versions that are gone and that one object may have been applied by.
const RENEWALS: usize = 4;

impl Cluster {
    /// A full forced apply by manager `sherpack`: creates the object or puts every field of `body` back.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn apply(
        &self,
        api_version: &str,
        id: &ObjectId,
        body: &Value,
        mode: Mode,
    ) -> Result<Applied, Error> {
        let mut params =
            PatchParams::apply(names::MANAGER_APPLY).force().validation(ValidationDirective::Strict);
        if mode == Mode::DryRun {
            params = params.dry_run();
        }
        let answer = self.patch(api_version, id, &params, &Patch::Apply(body)).await;
        match &answer {
            Ok(applied) if mode == Mode::Real && is_hidden(&applied.live.metadata) => {
                self.show(api_version, id, applied).await
            }
            Err(Error::Api { source, .. }) if mode == Mode::Real && is_crowded(source) => {
                let Some(live) = self.get(api_version, id).await? else { return answer };
                let turns = make_room(source, &live.value(), body);
                if turns.is_empty() {
                    return answer;
                }
                self.json_patch(api_version, id, &live, turns).await?;
                let applied = self.patch(api_version, id, &params, &Patch::Apply(body)).await?;
                // The patch made us an owner beside ourselves: fields that are dropped later would stay.
                self.strip(api_version, id, &applied, is_own_update).await
            }
            _ => answer,
        }
    }

    /// Takes the label off that hides an object from the watch of its kind. Only the operator reads it there, and an
    /// apply leaves what others added.
    async fn show(&self, api_version: &str, id: &ObjectId, applied: &Applied) -> Result<Applied, Error> {
        let path = format!("/metadata/labels/{}", names::STORAGE_DRIVER.replace('/', "~1"));
        self.json_patch(api_version, id, applied, vec![json!({"op": "remove", "path": path})]).await
    }

    /// Applies the live value of fields that are about to be left out of our applies, so that they keep it.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn hand_over(&self, api_version: &str, id: &ObjectId, fields: &Value) -> Result<(), Error> {
        let params = PatchParams::apply(names::MANAGER_HANDOVER).force();
        self.patch(api_version, id, &params, &Patch::Apply(fields)).await.map(drop)
    }

    /// Writes annotations on an object that exists, by manager `sherpack-operator`: they are no part of what the release applies.
    /// Those of `MARKS` that it has already stay.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn mark(
        &self,
        id: &ObjectId,
        applied: &Applied,
        marks: &[(&str, &str)],
    ) -> Result<Applied, Error> {
        let live = &applied.live;
        let marked = |(key, value): &(&str, &str)| live.annotations().get(*key).is_some_and(|is| is == value);
        if marks.iter().all(marked) {
            return Ok(applied.clone());
        }
        // What an apply of this manager leaves out goes.
        let known = MARKS.iter().filter_map(|key| Some((*key, live.annotations().get(*key)?.as_str())));
        let annotations: BTreeMap<&str, &str> = known.chain(marks.iter().copied()).collect();
        let types = live.types.clone().unwrap_or_default();
        let body = json!({
            "apiVersion": types.api_version, "kind": types.kind,
            // With the uid nothing is created that has gone meanwhile.
            "metadata": {"name": id.name, "namespace": id.namespace, "uid": live.uid(), "annotations": annotations},
        });
        let params = PatchParams::apply(names::MANAGER_OWN).force();
        self.patch(&types.api_version, id, &params, &Patch::Apply(body)).await
    }

    /// Takes ownership of fields away from the tools that managed an adopted object before, so that fields
    /// which are dropped later really go. Ends with `Conflict` when the object changed meanwhile.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn strip_managers(
        &self,
        api_version: &str,
        id: &ObjectId,
        applied: &Applied,
    ) -> Result<Applied, Error> {
        self.strip(api_version, id, applied, is_legacy).await
    }

    async fn strip(
        &self,
        api_version: &str,
        id: &ObjectId,
        applied: &Applied,
        goes: fn(&ManagedFieldsEntry) -> bool,
    ) -> Result<Applied, Error> {
        let managed = applied.managed_fields();
        let kept: Vec<ManagedFieldsEntry> = managed.iter().filter(|entry| !goes(entry)).cloned().collect();
        if kept.len() == managed.len() {
            return Ok(applied.clone());
        }
        self.json_patch(api_version, id, applied, holding(&kept)).await
    }

    pub(in crate::cluster) async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        api_version: &str,
        id: &ObjectId,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<Applied, Error> {
        let api = self.api(api_version, id).await?;
        let mut renewals = 0;
        loop {
            let answer = within("apply", id, api.patch(&id.name, params, patch)).await;
            if let Err(error) = &answer
                && let Some(gone) = gone_version(error).filter(|_| !params.dry_run && renewals < RENEWALS)
                && self.renew_managed_fields(api_version, id, gone).await?
            {
                renewals += 1;
                continue;
            }
            return self.applied(api_version, id, answer).await;
        }
    }
}

/// Another field manager gave an object the label that only records carry: the watches of objects do not show it.
#[must_use]
pub fn is_hidden(meta: &Meta) -> bool {
    meta.labels.as_ref().is_some_and(|labels| labels.contains_key(names::STORAGE_DRIVER))
}

/// What a JSON patch of ours leaves behind.
fn is_own_update(entry: &ManagedFieldsEntry) -> bool {
    is_update_by(names::MANAGER_OWN, entry)
}

/// Managers that leave `Update` entries behind when an object moves from another tool to us.
fn is_legacy(entry: &ManagedFieldsEntry) -> bool {
    let manager = entry.manager.as_deref().unwrap_or_default();
    let named = manager == "helm"
        || manager == "Helm"
        || manager == "before-first-apply"
        || manager.starts_with("kubectl");
    named && entry.subresource.is_none()
}
