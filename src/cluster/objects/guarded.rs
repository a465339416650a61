//! Calls that put back what another tool installed, in the installer's own name and way.
//!
//! What was applied by server-side apply is applied again, forced, by the same manager. What was created and patched
//! is patched by the same manager with what the manifest says: by a strategic merge where the API server knows how,
//! which keeps what others added to lists, else by a merge. Either way no field is ever ours.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::Value;

use super::handle::within;
use super::handle::{Applied, Cluster, Mode};
use super::holders::holding;
use crate::cluster::{Error, status_code};
use crate::manifest::ObjectId;
use crate::manifest::managed_fields::Holder;

/// The API server does not know this kind of patch for this kind of object.
const UNSUPPORTED_PATCH: u16 = 415;

impl Cluster {
    /// Puts an object that exists back as `body` says. A resourceVersion in the body has to be that of the object:
    /// otherwise this ends in a conflict.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn put_back(
        &self,
        api_version: &str,
        id: &ObjectId,
        body: &Value,
        holder: &Holder,
        mode: Mode,
    ) -> Result<Applied, Error> {
        if holder.applies {
            let params = params(holder, mode).force();
            // What the installer got past its own checks is put back all the same.
            let params = PatchParams { field_validation: Some(ValidationDirective::Ignore), ..params };
            return self.patch(api_version, id, &params, &Patch::Apply(body)).await;
        }
        let api = self.api(api_version, id).await?;
        let params = params(holder, mode);
        if may_merge_strategically(&id.group) {
            let answer = within("patch", id, api.patch(&id.name, &params, &Patch::Strategic(body))).await;
            let unsupported = matches!(&answer, Err(Error::Api { source, .. }) if status_code(source) == Some(UNSUPPORTED_PATCH));
            if !unsupported {
                return answer.map(Applied::new);
            }
        }
        within("patch", id, api.patch(&id.name, &params, &Patch::Merge(body))).await.map(Applied::new)
    }

    /// Creates an object that is gone, as its installer would.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`; a conflict when it is there again.
    pub async fn create_again(
        &self,
        api_version: &str,
        id: &ObjectId,
        body: &Value,
        holder: &Holder,
    ) -> Result<Applied, Error> {
        if holder.applies {
            return self.put_back(api_version, id, body, holder, Mode::Real).await;
        }
        let answer = self.create_as(&holder.manager, api_version, id, body.clone(), Mode::Real).await;
        self.applied(api_version, id, answer).await
    }

    /// Sets who holds what of the object that was `seen`, and nothing else of it; `Conflict` when it changed meanwhile.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn set_holders(
        &self,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        entries: &[ManagedFieldsEntry],
        holder: &Holder,
    ) -> Result<Applied, Error> {
        self.json_patch_as(&holder.manager, api_version, id, seen, holding(entries)).await
    }

    /// What cannot be created for want of its namespace or kind says so.
    pub(in crate::cluster) async fn applied(
        &self,
        api_version: &str,
        id: &ObjectId,
        answer: Result<DynamicObject, Error>,
    ) -> Result<Applied, Error> {
        match answer {
            Err(error) if error.is_not_found() => Err(self.explain_not_found(api_version, id).await),
            answer => answer.map(Applied::new),
        }
    }
}

fn params(holder: &Holder, mode: Mode) -> PatchParams {
    PatchParams {
        field_manager: Some(holder.manager.clone()),
        dry_run: mode == Mode::DryRun,
        ..PatchParams::default()
    }
}

/// Whether the API server may know a type whose lists it can merge: one of its own groups. A definition can have a
/// group that looks like one of them; that is told by the answer.
fn may_merge_strategically(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}
