//! What a Flux source says of its artifact.

use kube::api::{Api, DynamicObject};
use serde::Deserialize;

use super::contents::{DEADLINE, Reference, Unread};
use super::handle::{Cluster, version_of};
use crate::cluster::status_code;

/// A Flux source, as far as who takes its artifact is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FluxSource {
    /// resourceVersion of the object.
    pub version: u64,
    /// `metadata.generation`.
    pub generation: i64,
    pub status: FluxStatus,
}

/// Its status. What it does not write stays at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxStatus {
    pub observed_generation: Option<i64>,
    pub artifact: Option<FluxArtifact>,
    pub conditions: Vec<FluxCondition>,
}

/// `status.artifact`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FluxArtifact {
    pub url: String,
    /// Names the bytes; `url` does not.
    pub digest: String,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FluxCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub message: String,
}

/// What was found in place of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFluxSource {
    /// There is no such object.
    Missing,
    /// The API server does not serve its kind.
    NotServed,
    Unread(Unread),
}

impl Cluster {
    /// Reads a Flux source.
    ///
    /// # Errors
    /// There is none, or the API server does not answer with one within 30 s.
    pub async fn flux_source(&self, reference: &Reference) -> Result<FluxSource, NoFluxSource> {
        let Reference { kind, namespace, name } = reference;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client().clone(), namespace, &kind.api_resource());
        let object = match tokio::time::timeout(DEADLINE, api.get(name)).await {
            Ok(Ok(object)) => object,
            Ok(Err(error)) => {
                return Err(match status_code(&error) {
                    // An object that is missing is named; a kind that is missing is answered without words.
                    Some(404) if names_object(&error) => NoFluxSource::Missing,
                    Some(404) => NoFluxSource::NotServed,
                    _ => NoFluxSource::Unread(error.into()),
                });
            }
            Err(_) => return Err(NoFluxSource::Unread(Unread::late())),
        };
        let status = object.data.get("status").cloned().unwrap_or_default();
        // A status that is not as it should be says nothing of an artifact.
        let status = serde_json::from_value(status).unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or_default();
        Ok(FluxSource { version: version_of(&object.metadata), generation, status })
    }
}

fn names_object(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.details.as_ref().is_some_and(|details| !details.name.is_empty()),
        _ => false,
    }
}
