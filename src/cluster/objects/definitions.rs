//! What definitions of resources define: how many objects there are, and where.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::handle::within;
use super::handle::{Applied, Cluster, Mode};
use crate::api::names;
use crate::cluster::Error;
use crate::crd::policy::Count;
use crate::crd::{Definition, Evidence};
use crate::manifest::{Defined, ObjectId};

/// How long one page may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// Objects of one page; only their metadata is read.
const PAGE: u32 = 500;
/// Objects of one page that are read whole: each may have more than a megabyte.
const WHOLE: u32 = 50;
/// A walk that sees more objects than this, or takes longer, ends without having seen all.
const WALKED: u64 = 50_000;
const WALK: Duration = Duration::from_secs(120);
/// The API of definitions.
const API_VERSION: &str = "apiextensions.k8s.io/v1";

impl Cluster {
    /// How many objects of a definition exist, by namespace; those without one under the empty name.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`: then it is not known, and must not be taken for none. `UnknownKind` when
    /// the definition serves no version.
    pub async fn count_defined(&self, name: &str) -> Result<BTreeMap<String, usize>, Error> {
        let id = ObjectId::definition(name);
        let mut counts = BTreeMap::new();
        let Some(found) = self.get(API_VERSION, &id).await? else { return Ok(counts) };
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

    /// The same as what speaks for or against a deletion: what cannot be counted must not be taken for none.
    pub async fn count_for_deletion(&self, name: &str) -> Count {
        match self.count_defined(name).await {
            Ok(counts) => {
                let counts = counts.into_iter();
                Count::Known(counts.map(|(namespace, count)| (namespace, count as u64)).collect())
            }
            Err(error) => Count::Failed(error.to_string()),
        }
    }

    /// One page of the objects of a definition, in one of its versions, and where the next one begins.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    async fn page_of(
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

    /// Lets every object of a definition speak, page by page, as far as that can be done within bounds: what was not seen is no
    /// evidence. `defined` is what the old one serves. With the evidence comes what ended the walk early, if it was an error.
    pub async fn hear(
        &self,
        defined: &Defined,
        (old, new): (&Definition, &Definition),
        mut evidence: Evidence,
    ) -> (Evidence, Option<Error>) {
        let Some(version) = Evidence::version(old) else { return (evidence, None) };
        let began = Instant::now();
        let mut from = None;
        loop {
            let (objects, next) = match self.page_of(defined, version, from.take()).await {
                Ok(page) => page,
                Err(error) => return (evidence, Some(error)),
            };
            for object in &objects {
                evidence.add(old, new, object);
            }
            match next {
                None => return (evidence.complete(), None),
                Some(_) if evidence.objects() >= WALKED || began.elapsed() >= WALK => {
                    return (evidence, None);
                }
                next => from = next,
            }
        }
    }

    /// Whether the API server would take a definition: in place of the live one, or as a new one. A dry run, nothing is stored.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`. Of class `FixSpec`: it refuses the definition.
    pub async fn try_definition(
        &self,
        name: &str,
        mut body: Value,
        live: Option<&Applied>,
    ) -> Result<(), Error> {
        let id = ObjectId::definition(name);
        body["metadata"]["name"] = name.into();
        let Some(live) = live else { return self.post(API_VERSION, &id, body, Mode::DryRun).await.map(drop) };
        // What only the server and its controllers write.
        let meta = &live.live.metadata;
        body["metadata"]["resourceVersion"] = meta.resource_version.clone().into();
        body["metadata"]["uid"] = meta.uid.clone().into();
        body["metadata"]["finalizers"] = meta.finalizers.clone().into();
        let unreadable = |source| Error::Api {
            verb: "update",
            id: id.clone(),
            source: Box::new(kube::Error::SerdeError(source)),
        };
        let object: DynamicObject = serde_json::from_value(body).map_err(unreadable)?;
        let params = PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), dry_run: true };
        let api = self.api(API_VERSION, &id).await?;
        within("update", &id, api.replace(name, &params, &object)).await.map(drop)
    }
}
