//! What definitions of resources define: how many objects there are, and where.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::{Cluster, Error};
use crate::crd::policy::Count;
use crate::crd::{Definition, Evidence};
use crate::manifest::{Defined, ObjectId};

/// How long one page may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// Objects of one page; only their metadata is read.
const PAGE: u32 = 500;
/// Objects of one page that are read whole: each may have more than a megabyte.
const WHOLE: u32 = 50;
/// A walk that sees more than this, or takes longer, ends without having seen all.
const OBJECTS: u64 = 50_000;
const WALK: Duration = Duration::from_secs(120);

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

    /// The same as what speaks for or against a deletion: whoever cannot count must not take it for none.
    pub async fn count_for_deletion(&self, name: &str) -> Count {
        match self.count_defined(name).await {
            Ok(counts) => {
                let counts = counts.into_iter();
                Count::Known(counts.map(|(namespace, count)| (namespace, count as u64)).collect())
            }
            Err(error) => Count::Failed(error.to_string()),
        }
    }

    /// Looks at every object of a definition, as far as that can be done; what was not seen is no evidence.
    pub async fn walk(
        &self,
        defined: &Defined,
        (old, new): (&Definition, &Definition),
        mut evidence: Evidence,
    ) -> Evidence {
        let Some(version) = Evidence::version(old).map(str::to_owned) else { return evidence };
        let began = Instant::now();
        let mut from = None;
        loop {
            match self.page_of(defined, &version, from.take()).await {
                Ok((objects, next)) => {
                    for object in &objects {
                        evidence.add(old, new, object);
                    }
                    match next {
                        None => return evidence.complete(),
                        Some(_) if evidence.objects() >= OBJECTS || began.elapsed() >= WALK => {
                            return evidence;
                        }
                        next => from = next,
                    }
                }
                Err(error) => {
                    tracing::warn!(definition = %new.name, %error, "its objects cannot all be looked at");
                    return evidence;
                }
            }
        }
    }

    /// One page of the objects of a definition, in one of its versions, and where the next one begins.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn page_of(
        &self,
        defined: &Defined,
        version: &str,
        from: Option<String>,
    ) -> Result<(Vec<Value>, Option<String>), Error> {
        let id = ObjectId::definition(&format!("{}.{}", defined.plural, defined.group));
        let kind = GroupVersionKind::gvk(&defined.group, version, &defined.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &defined.plural);
        let api: Api<DynamicObject> = Api::all_with(self.client().clone(), &resource);
        let params = ListParams { continue_token: from, ..ListParams::default().limit(WHOLE) };
        let page = match tokio::time::timeout(DEADLINE, api.list(&params)).await {
            Ok(page) => page.map_err(|source| Error::Api { verb: "list", id, source: Box::new(source) })?,
            Err(_) => return Err(Error::Timeout { verb: "list", id, after: DEADLINE }),
        };
        let objects = page.items.into_iter().map(|object| serde_json::to_value(object).unwrap_or_default());
        Ok((objects.collect(), page.metadata.continue_.filter(|token| !token.is_empty())))
    }
}
