//! Fields change hands: what is left to others gets another owner, and what others added becomes ours to be dropped.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Applied, Cluster, Error, Mode};
use crate::api::{Class, names};
use crate::manifest::ObjectId;

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

    /// Takes away what `claimed` makes ours and `body` does not have. `Conflict` when the object changed after it was
    /// `seen`. When the API server wants to keep it, everything is as it was.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn take_away(
        &self,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        claimed: &[ManagedFieldsEntry],
        body: &Value,
    ) -> Result<Applied, Error> {
        let write =
            |entries| vec![json!({"op": "replace", "path": "/metadata/managedFields", "value": entries})];
        let ours = self.json_patch(api_version, id, seen, write(json!(claimed))).await?;
        let refusal = match self.apply(api_version, id, body, Mode::Real).await {
            Err(error) if error.class() != Class::Retry => error,
            answer => return answer,
        };
        let before = json!(seen.live.metadata.managed_fields);
        // The refusal is the better thing to say; the next apply would only be refused again.
        if let Err(error) = self.json_patch(api_version, id, &ours, write(before)).await {
            tracing::debug!(object = %id, %error, "fields that cannot be taken away stay ours");
        }
        Err(refusal)
    }
}
