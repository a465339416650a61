//! Fields change hands: what is left to others gets another owner, and what others added becomes ours to be dropped.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Applied, Cluster, Error, Mode};
use crate::api::{Class, names};
use crate::manifest::ObjectId;

/// How often fields are given back while others change the same object.
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

    /// Takes away what `claimed` makes ours and `body` does not have. `Conflict` when the object changed after it was
    /// `seen`. When the API server wants to keep it, `give_back` makes of the managedFields of then what they were.
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
        give_back: impl Fn(&[ManagedFieldsEntry]) -> Vec<ManagedFieldsEntry>,
    ) -> Result<Applied, Error> {
        let mut ours = self.json_patch(api_version, id, seen, holding(claimed)).await?;
        let refusal = match self.apply(api_version, id, body, Mode::Real).await {
            Err(error) if error.class() != Class::Retry => error,
            answer => return answer,
        };
        // What is ours and not in the body would have every apply refused from now on.
        for _ in 0..TRIES {
            let now = ours.live.metadata.managed_fields.as_deref().unwrap_or_default();
            match self.json_patch(api_version, id, &ours, holding(&give_back(now))).await {
                Err(error) if error.is_conflict() => match self.get(api_version, id).await? {
                    Some(live) => ours = live,
                    None => break,
                },
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        Err(refusal)
    }
}

/// The operations of a JSON patch that says anew who holds what of an object.
pub(super) fn holding(entries: &[ManagedFieldsEntry]) -> Vec<Value> {
    vec![json!({"op": "replace", "path": "/metadata/managedFields", "value": entries})]
}
