//! Reads for templates: whole objects of any kind, bounded in time, number and size.

use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::handle::Cluster;
use crate::api::names;
use crate::cluster::{Error, Kind};
use crate::manifest::ObjectId;
use crate::plan;

/// How long one read may take, all pages of a list together.
pub const LOOK_DEADLINE: Duration = Duration::from_secs(10);
/// Objects of one list, and their bytes as JSON.
const ITEMS: usize = 500;
const BYTES: usize = 4 << 20;
/// Objects of one page: each may have more than a megabyte.
const PAGE: u32 = 20;

/// Why objects were not read.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error(transparent)]
    Cluster(#[from] Error),
    #[error("the API server did not answer within {}s", LOOK_DEADLINE.as_secs())]
    Late,
    #[error("there are more than {ITEMS} of them in {namespace}: look them up by name")]
    TooMany { namespace: String },
    #[error("they are larger than {} MiB together: look them up by name", BYTES >> 20)]
    TooLarge,
}

impl Cluster {
    /// One object as data, `None` when there is none. Not for records of releases: those are not to be read here.
    ///
    /// # Errors
    /// What the API server answered, and no answer within [`LOOK_DEADLINE`].
    pub async fn look(&self, api_version: &str, id: &ObjectId) -> Result<Option<Value>, LookError> {
        let found = tokio::time::timeout(LOOK_DEADLINE, self.get(api_version, id)).await;
        let found = found.map_err(|_| LookError::Late)??;
        Ok(found.and_then(|found| data(found.live)))
    }

    /// All objects of a kind in one namespace, or of the cluster when the kind has none, by name.
    ///
    /// # Errors
    /// As [`Cluster::look`], and more or larger objects than a template may have.
    pub async fn look_all(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Value>, LookError> {
        tokio::time::timeout(LOOK_DEADLINE, self.pages(kind, namespace)).await.map_err(|_| LookError::Late)?
    }

    /// Whether an autoscaler of the namespace has this workload as its target.
    ///
    /// # Errors
    /// As [`Cluster::kind`]. A cluster that serves no autoscalers has none, and an account that may not see them does without.
    pub async fn is_scaled(&self, id: &ObjectId) -> Result<bool, Error> {
        let kind = match self.kind("autoscaling/v2", "HorizontalPodAutoscaler").await {
            Err(Error::UnknownKind { .. }) => return Ok(false),
            kind => kind?,
        };
        match self.look_all(&kind, id.namespace.as_deref()).await {
            Ok(found) => Ok(found.iter().any(|autoscaler| plan::scales(autoscaler).as_ref() == Some(id))),
            Err(error) => {
                tracing::debug!(object = %id, %error, "cannot see whether it is autoscaled");
                Ok(false)
            }
        }
    }

    async fn pages(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Value>, LookError> {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client().clone(), namespace, &kind.resource),
            None => Api::all_with(self.client().clone(), &kind.resource),
        };
        let mut params = ListParams::default().limit(PAGE);
        let mut all = Vec::new();
        let mut bytes = 0;
        loop {
            let page = api.list(&params).await.map_err(|source| Error::Api {
                verb: "list",
                id: ObjectId {
                    group: kind.resource.group.clone(),
                    kind: kind.resource.kind.clone(),
                    namespace: namespace.map(str::to_owned),
                    name: "*".to_owned(),
                },
                source: Box::new(source),
            })?;
            for mut item in page.items {
                // Items of a list do not say what they are.
                item.types.get_or_insert_with(|| kube::api::TypeMeta {
                    api_version: kind.resource.api_version.clone(),
                    kind: kind.resource.kind.clone(),
                });
                let Some(item) = data(item) else { continue };
                bytes += item.to_string().len();
                all.push(item);
                if all.len() > ITEMS {
                    let namespace = namespace.map_or_else(|| "the cluster".to_owned(), str::to_owned);
                    return Err(LookError::TooMany { namespace });
                }
                if bytes > BYTES {
                    return Err(LookError::TooLarge);
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}

/// The object for a template: without the bookkeeping of its fields, and no record of a release.
fn data(mut object: DynamicObject) -> Option<Value> {
    object.metadata.managed_fields = None;
    let labels = object.metadata.labels.as_ref();
    if labels.is_some_and(|labels| labels.contains_key(names::STORAGE_DRIVER)) {
        return None;
    }
    serde_json::to_value(object).ok()
}
