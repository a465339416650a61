//! managedFields that speak of a version which the definition of the kind does not have any more.
//!
//! The API server refuses every server-side apply of such an object, whichever client sends it, and with the next plain write it
//! forgets all of its managedFields (tried on 1.36; Flux issue 5715). With the name of another version they say what they
//! said, so they are written anew before the apply is sent again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use super::handle::Cluster;
use super::holders::holding;
use crate::cluster::Error;
use crate::manifest::ObjectId;

/// What the API server says before the group and version. It has no code of its own for this, 500 only.
const REFUSAL: &str = "request to convert CR to an invalid group/version: ";

/// The group and version that stands in the way of an apply.
pub(in crate::cluster) fn gone_version(error: &Error) -> Option<&str> {
    let Error::Api { source, .. } = error else { return None };
    let kube::Error::Api(status) = source.as_ref() else { return None };
    status.message.split_once(REFUSAL).map(|(_, version)| version.trim())
}

impl Cluster {
    /// Lets the managedFields of an object speak of `api_version` where they speak of `gone`; `false`: there are none that do.
    pub(in crate::cluster) async fn renew_managed_fields(
        &self,
        api_version: &str,
        id: &ObjectId,
        gone: &str,
    ) -> Result<bool, Error> {
        let Some(live) = self.get(api_version, id).await? else { return Ok(false) };
        let entries = renewed(live.managed_fields().to_vec(), gone, api_version);
        if entries == live.managed_fields() {
            return Ok(false);
        }
        self.json_patch(api_version, id, &live, holding(&entries)).await?;
        Ok(true)
    }
}

/// The entries with one version in the place of another. A manager has one entry for each version and way of writing:
/// two that become one say together what both said.
fn renewed(entries: Vec<ManagedFieldsEntry>, gone: &str, version: &str) -> Vec<ManagedFieldsEntry> {
    let mut renewed: Vec<ManagedFieldsEntry> = Vec::with_capacity(entries.len());
    for mut entry in entries {
        if entry.api_version.as_deref() == Some(gone) {
            entry.api_version = Some(version.to_owned());
        }
        let same = |other: &&mut ManagedFieldsEntry| {
            (&other.api_version, &other.manager, &other.operation, &other.subresource)
                == (&entry.api_version, &entry.manager, &entry.operation, &entry.subresource)
        };
        match renewed.iter_mut().find(same) {
            Some(other) => match (&mut other.fields_v1, entry.fields_v1) {
                (Some(all), Some(fields)) => json_patch::merge(&mut all.0, &fields.0),
                (none, fields) => *none = none.take().or(fields),
            },
            None => renewed.push(entry),
        }
    }
    renewed
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn entries_of_a_version_that_is_gone_speak_of_another_and_no_field_is_lost() {
        let entry = |manager: &str, version: &str, fields: Value| json!({"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields});
        let entries = json!([
            entry("sherpack", "e.com/v1", json!({"f:spec": {"f:size": {}}})),
            entry("other", "e.com/v1beta1", json!({"f:data": {}})),
            entry("sherpack", "e.com/v1beta1", json!({"f:spec": {"f:color": {}}})),
        ]);
        let expected = json!([
            entry("sherpack", "e.com/v1", json!({"f:spec": {"f:size": {}, "f:color": {}}})),
            entry("other", "e.com/v1", json!({"f:data": {}})),
        ]);
        let done = renewed(serde_json::from_value(entries.clone()).unwrap(), "e.com/v1beta1", "e.com/v1");
        assert_eq!(serde_json::to_value(done).unwrap(), expected);
        let same = renewed(serde_json::from_value(entries.clone()).unwrap(), "e.com/v2", "e.com/v1");
        assert_eq!(serde_json::to_value(same).unwrap(), entries);
    }

    #[test]
    fn the_refusal_names_the_version() {
        let refused = |message: &str| {
            let status = kube::core::Status { message: message.to_owned(), code: 500, ..Default::default() };
            Error::Api {
                verb: "apply",
                id: ObjectId::default(),
                source: Box::new(kube::Error::Api(Box::new(status))),
            }
        };
        let error = refused("request to convert CR to an invalid group/version: e.com/v1beta1");
        assert_eq!(gone_version(&error), Some("e.com/v1beta1"));
        assert_eq!(gone_version(&refused("etcdserver: request timed out")), None);
    }
}
