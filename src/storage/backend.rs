//! What a driver needs of the place where it keeps objects, and the two kinds of objects of the API server.
//!
//! A Secret is the shape of everything that is stored; a ConfigMap is another spelling of it. Thin: each method is one
//! call. The client is the operator's own, never one that impersonates.
//!
//! RBAC, in every namespace that holds records: `get, list, create, update, patch, delete` on `secrets`, and on
//! `configmaps` for releases that keep their records there.

pub(super) mod page;

use std::{borrow::Cow, fmt, future::Future, marker::PhantomData};

use k8s_openapi::{
    ByteString, NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use self::page::Limit;
use super::{CALL_TIMEOUT, Error, PAGE, codec};
use crate::api::names;

/// How often a list that grew too old is started again before it counts as an error.
pub(super) const LIST_TRIES: u32 = 3;

/// One page of a list, and the token of the next one.
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// Keeps objects by namespace and name, with the API server's rules for creating, replacing and deleting.
pub trait Backend: Clone + Send + Sync + 'static {
    /// What it keeps, for messages.
    const KIND: &'static str;
    /// Value of the label that names the driver.
    const DRIVER: &'static str;

    /// Stores a new object. [`Error::Conflict`] if there is one of this name.
    fn create(&self, object: &Secret) -> impl Future<Output = Result<ObjectMeta, Error>> + Send;

    /// Replaces an object, if it still has the resourceVersion that `object` carries.
    fn replace(&self, object: &Secret) -> impl Future<Output = Result<ObjectMeta, Error>> + Send;

    /// Sets or takes the mark of the newest record, if the object still has this resourceVersion.
    fn mark(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        head: bool,
    ) -> impl Future<Output = Result<ObjectMeta, Error>> + Send;

    fn get(&self, namespace: &str, name: &str) -> impl Future<Output = Result<Option<Secret>, Error>> + Send;

    /// One page of metadata; an empty token asks for the first one.
    fn list(
        &self,
        namespace: &str,
        selector: &Selector,
        token: &str,
    ) -> impl Future<Output = Result<Page<ObjectMeta>, Error>> + Send;

    /// Metadata of everything that `selector` means. A list that grew too old is started again.
    fn all(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> impl Future<Output = Result<Vec<ObjectMeta>, Error>> + Send {
        async move {
            let (mut all, mut token, mut tries) = (Vec::new(), String::new(), LIST_TRIES);
            loop {
                match self.list(namespace, selector, &token).await {
                    Ok(Page { items, next }) => {
                        all.extend(items);
                        match next {
                            Some(next) => token = next,
                            None => return Ok(all),
                        }
                    }
                    Err(error) if error.is_expired() && tries > 1 => {
                        tries -= 1;
                        token.clear();
                        all.clear();
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// One page of objects, of one namespace or of all, and the limit of the next one.
    fn scan(
        &self,
        namespace: Option<&str>,
        selector: &Selector,
        token: &str,
        limit: Limit,
    ) -> impl Future<Output = Result<(Page<Secret>, Limit), Error>> + Send;

    /// Deletes an object if it is still the one with this uid and, if given, this resourceVersion.
    /// [`Error::Missing`] if it is gone.
    fn delete(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Which objects are meant, by their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Is(&'static str, String),
    Has(&'static str),
    HasNot(&'static str),
}

impl Selector {
    fn managed(more: impl IntoIterator<Item = Requirement>) -> Self {
        let ours = Requirement::Is(names::MANAGED_BY, names::MANAGED_BY_SHERPACK.to_owned());
        Self([ours].into_iter().chain(more).collect())
    }

    /// The records of one release, without their parts.
    pub(super) fn records(release: &str) -> Self {
        let of_release = Requirement::Is(names::RELEASE_NAME, release.to_owned());
        Self::managed([of_release, Requirement::HasNot(names::CHUNK_PARENT)])
    }

    /// The records of one release and their parts.
    pub(super) fn everything(release: &str) -> Self {
        Self::managed([Requirement::Is(names::RELEASE_NAME, release.to_owned())])
    }

    /// The parts of one revision.
    pub(super) fn parts(release: &str, revision: u32) -> Self {
        Self::managed([
            Requirement::Is(names::RELEASE_NAME, release.to_owned()),
            Requirement::Is(names::RELEASE_VERSION, revision.to_string()),
            Requirement::Has(names::CHUNK_PARENT),
        ])
    }

    /// The parts that belong together by this label.
    pub(super) fn siblings(parent: &str) -> Self {
        Self::managed([Requirement::Is(names::CHUNK_PARENT, parent.to_owned())])
    }

    /// The records that are marked as the newest of their release.
    pub(super) fn heads() -> Self {
        Self::managed([Requirement::Has(names::HEAD)])
    }

    /// The revisions of one release of Helm.
    pub(super) fn helm(release: &str) -> Self {
        Self(vec![Requirement::Is("owner", "helm".to_owned()), Requirement::Is("name", release.to_owned())])
    }

    /// Whether an object with these metadata is meant.
    pub(super) fn matches(&self, meta: &ObjectMeta) -> bool {
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
        self.0.iter().all(|requirement| match requirement {
            Requirement::Is(key, value) => label(key) == Some(value),
            Requirement::Has(key) => label(key).is_some(),
            Requirement::HasNot(key) => label(key).is_none(),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match requirement {
                Requirement::Is(key, value) => write!(f, "{comma}{key}={value}")?,
                Requirement::Has(key) => write!(f, "{comma}{key}")?,
                Requirement::HasNot(key) => write!(f, "{comma}!{key}")?,
            }
        }
        Ok(())
    }
}

/// A kind of the API server that can hold what a Secret holds.
pub trait Holds:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    const KIND: &'static str;
    const DRIVER: &'static str;

    fn dress(secret: &Secret) -> Cow<'_, Self>;
    fn undress(self) -> Secret;
}

impl Holds for Secret {
    const KIND: &'static str = "Secret";
    const DRIVER: &'static str = names::DRIVER_SECRETS;

    fn dress(secret: &Secret) -> Cow<'_, Self> {
        Cow::Borrowed(secret)
    }

    fn undress(self) -> Secret {
        self
    }
}

impl Holds for ConfigMap {
    const KIND: &'static str = "ConfigMap";
    const DRIVER: &'static str = names::DRIVER_CONFIGMAP;

    fn dress(secret: &Secret) -> Cow<'_, Self> {
        let (mut data, mut binary) = (Vec::new(), Vec::new());
        for (key, bytes) in secret.data.iter().flatten() {
            // All that we write is text; what was damaged by others need not be.
            match String::from_utf8(bytes.0.clone()) {
                Ok(text) => data.push((key.clone(), text)),
                Err(error) => binary.push((key.clone(), ByteString(error.into_bytes()))),
            }
        }
        Cow::Owned(Self {
            metadata: secret.metadata.clone(),
            data: Some(data.into_iter().collect()),
            binary_data: (!binary.is_empty()).then(|| binary.into_iter().collect()),
            immutable: None,
        })
    }

    fn undress(self) -> Secret {
        // A ConfigMap has no type: its labels say what it is.
        let part = self.metadata.labels.as_ref().is_some_and(|l| l.contains_key(names::CHUNK_PARENT));
        let type_ = if part { names::CHUNK_TYPE } else { names::RECORD_TYPE };
        let text = self.data.into_iter().flatten().map(|(key, text)| (key, ByteString(text.into_bytes())));
        let data = text.chain(self.binary_data.into_iter().flatten()).collect();
        Secret {
            metadata: self.metadata,
            type_: Some(type_.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }
}

/// Objects of one kind, kept by the API server.
pub struct InCluster<K> {
    client: Client,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for InCluster<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), kind: PhantomData }
    }
}

impl<K: Holds> InCluster<K> {
    pub(super) fn new(client: Client) -> Self {
        Self { client, kind: PhantomData }
    }

    fn api(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn what(verb: &str, object: &Secret) -> String {
        let (namespace, name) = names_of(object);
        format!("{verb} {} {namespace}/{name}", <K as Holds>::KIND)
    }
}

impl<K: Holds> Backend for InCluster<K> {
    const KIND: &'static str = <K as Holds>::KIND;
    const DRIVER: &'static str = <K as Holds>::DRIVER;

    async fn create(&self, object: &Secret) -> Result<ObjectMeta, Error> {
        let (namespace, _) = names_of(object);
        let (api, body) = (self.api(namespace), K::dress(object));
        let call = async { api.create(&post_params(), &body).await };
        let created =
            bounded(&Self::what("create", object), namespace, codec::bytes_of([object]), call).await?;
        Ok(created.meta().clone())
    }

    async fn replace(&self, object: &Secret) -> Result<ObjectMeta, Error> {
        let (namespace, name) = names_of(object);
        let (api, body) = (self.api(namespace), K::dress(object));
        let call = async { api.replace(name, &post_params(), &body).await };
        let updated =
            bounded(&Self::what("update", object), namespace, codec::bytes_of([object]), call).await?;
        Ok(updated.meta().clone())
    }

    async fn mark(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
        head: bool,
    ) -> Result<ObjectMeta, Error> {
        let value = head.then_some(codec::HEAD_VALUE);
        // With a resourceVersion in it a merge patch is refused with 409 once the object has moved on.
        let patch = json!({"metadata": {
            "resourceVersion": resource_version,
            "labels": {names::HEAD: value},
        }});
        let params =
            PatchParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PatchParams::default() };
        let what = format!("patch {} {namespace}/{name}", Self::KIND);
        let api = self.api(namespace);
        let patched =
            bounded(&what, namespace, 0, api.patch_metadata(name, &params, &Patch::Merge(&patch))).await?;
        Ok(patched.metadata)
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
        let what = format!("get {} {namespace}/{name}", Self::KIND);
        let found = bounded(&what, namespace, 0, self.api(namespace).get_opt(name)).await?;
        Ok(found.map(K::undress))
    }

    async fn list(
        &self,
        namespace: &str,
        selector: &Selector,
        token: &str,
    ) -> Result<Page<ObjectMeta>, Error> {
        let what = format!("list {}s in {namespace}", Self::KIND);
        let (api, params) = (self.api(namespace), page_params(selector, token));
        let list = bounded(&what, namespace, 0, api.list_metadata(&params)).await?;
        let items = list.items.into_iter().map(|item| item.metadata).collect();
        Ok(Page { items, next: next(list.metadata) })
    }

    async fn scan(
        &self,
        namespace: Option<&str>,
        selector: &Selector,
        token: &str,
        limit: Limit,
    ) -> Result<(Page<Secret>, Limit), Error> {
        let (url, params) = (K::url_path(&(), namespace), page_params(selector, token));
        let scope = namespace.unwrap_or("all namespaces");
        let what = format!("list {}s in {scope}", Self::KIND);
        let read = page::read::<K>(&self.client, &url, &params, limit);
        let (list, limit) = bounded(&what, scope, 0, read).await?;
        let items = list.items.into_iter().map(K::undress).collect();
        Ok((Page { items, next: next(list.metadata) }, limit))
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> Result<(), Error> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(str::to_owned),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let what = format!("delete {} {namespace}/{name}", Self::KIND);
        let api = self.api(namespace);
        bounded(&what, namespace, 0, api.delete(name, &params)).await.map(drop)
    }
}

/// Ends every call within [`CALL_TIMEOUT`] and sorts its error.
pub(super) async fn bounded<T>(
    what: &str,
    namespace: &str,
    size: usize,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map_err(|error| Error::from_kube(error, what, namespace, size)),
        Err(_) => Err(Error::Timeout { what: what.to_owned(), after: CALL_TIMEOUT }),
    }
}

/// Namespace and name.
pub(super) fn names_of(object: &Secret) -> (&str, &str) {
    (
        object.metadata.namespace.as_deref().unwrap_or_default(),
        object.metadata.name.as_deref().unwrap_or_default(),
    )
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PostParams::default() }
}

fn page_params(selector: &Selector, token: &str) -> ListParams {
    let params = ListParams::default().labels(&selector.to_string()).limit(PAGE);
    if token.is_empty() { params } else { params.continue_token(token) }
}

fn next(meta: ListMeta) -> Option<String> {
    meta.continue_.filter(|token| !token.is_empty())
}
