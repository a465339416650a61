//! What definitions of resources define: how many objects there are, and where.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::{Cluster, Error};
use crate::manifest::{Defined, ObjectId};

/// How long one page may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// Objects of one page; only their metadata is read.
const PAGE: u32 = 500;

impl Cluster {
    /// How many objects of a definition exist, by namespace; those without one under the empty name.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`: then nobody knows, and nobody may take it for none. `UnknownKind` when
    /// the definition serves no version.
    pub async fn count_defined(&self, name: &str) -> Result<BTreeMap<String, usize>, Error> {
        let id = ObjectId::definition(name);
        let mut counts = BTreeMap::new();
        let Some(found) = self.get("apiextensions.k8s.io/v1", &id).await? else { return Ok(counts) };
        let defined = Defined::of(&found.value());
        let served = defined.as_ref().and_then(|defined| Some((defined, defined.versions.first()?)));
        let Some((defined, version)) = served else {
            return Err(Error::UnknownKind { api_version: "no version".to_owned(), kind: name.to_owned() });
        };
        let kind = GroupVersionKind::gvk(&defined.group, version, &defined.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &defined.plural);
        let api: Api<DynamicObject> = Api::all_with(self.client().clone(), &resource);
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let failed = |source| Error::Api { verb: "list", id: id.clone(), source: Box::new(source) };
            let page = match tokio::time::timeout(DEADLINE, api.list_metadata(&params)).await {
                Ok(page) => page.map_err(failed)?,
                Err(_) => return Err(Error::Timeout { verb: "list", id, after: DEADLINE }),
            };
            for object in &page.items {
                *counts.entry(object.namespace().unwrap_or_default()).or_default() += 1;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(counts),
            }
        }
    }
}
