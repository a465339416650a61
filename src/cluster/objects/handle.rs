//! Calls for the objects of releases: apply, read, delete. Every call has a deadline.
//!
//! Manager `sherpack` is only for full applies of release objects: an apply of anything less by that manager
//! would delete the fields it leaves out.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, DynamicObject, PartialObjectMeta, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::api::names;
use crate::cluster::{Account, Error, Kind, Kinds, client};
use crate::manifest::{ObjectId, managed_fields};

const DEADLINE: Duration = Duration::from_secs(30);

/// The one way to the objects of releases, as the operator or as a service account.
pub struct Cluster {
    /// Sends as the account that this cluster is for.
    client: Client,
    /// Sends as the operator: what is served, and whether a namespace is there, is no secret.
    own: Client,
    kinds: Arc<Kinds>,
    account: Option<Account>,
}

/// What an apply returned: the object as the API server holds it now.
#[derive(Clone, Debug)]
pub struct Applied {
    pub live: DynamicObject,
    pub fingerprint: Option<String>,
    /// The resourceVersion, 0 when the API server gave none that can be compared.
    pub version: u64,
}

impl Applied {
    pub(in crate::cluster) fn new(live: DynamicObject) -> Self {
        let fingerprint = fingerprint_of(&live.metadata);
        let version = version_of(&live.metadata);
        Self { live, fingerprint, version }
    }

    #[must_use]
    pub fn uid(&self) -> Option<String> {
        self.live.uid()
    }

    /// Who holds what of it.
    #[must_use]
    pub fn managed_fields(&self) -> &[ManagedFieldsEntry] {
        self.live.metadata.managed_fields.as_deref().unwrap_or_default()
    }

    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.live.metadata.generation
    }

    /// It is on its way out: what was applied goes with it.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.live.metadata.deletion_timestamp.is_some()
    }

    /// The whole object as data, for health rules.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::to_value(&self.live).unwrap_or_default()
    }
}

pub type Meta = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The fingerprint of what manager `sherpack` owns of an object.
#[must_use]
pub fn fingerprint_of(meta: &Meta) -> Option<String> {
    let managed: &[ManagedFieldsEntry] = meta.managed_fields.as_deref().unwrap_or_default();
    managed_fields::fingerprint(managed, meta.annotations.as_ref())
}

/// The resourceVersion as a number: the API server promises that they compare.
#[must_use]
pub fn version_of(meta: &Meta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// How an apply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Real,
    /// The API server does everything but store it.
    DryRun,
}

impl Cluster {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { own: client.clone(), client, kinds: Arc::default(), account: None }
    }

    /// The cluster for a service account: everything is read and written in its name.
    #[must_use]
    pub fn acting_as(&self, account: &Account) -> Self {
        let client = account.user().map(|user| client::acting_as(&self.own, &user));
        Self {
            client: client.unwrap_or_else(|| client::acting_as_nobody(&self.own)),
            own: self.own.clone(),
            kinds: Arc::clone(&self.kinds),
            account: Some(account.clone()),
        }
    }

    /// The cluster for a release that no account may act for: every call for an object ends in an error.
    #[must_use]
    pub fn acting_as_nobody(&self) -> Self {
        let client = client::acting_as_nobody(&self.own);
        Self { client, own: self.own.clone(), kinds: Arc::clone(&self.kinds), account: None }
    }

    /// The service account in whose name everything is read and written; `None` when that is the operator.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Resolves a kind; see [`Kinds::resolve`].
    ///
    /// # Errors
    /// As [`Kinds::resolve`].
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Kind, Error> {
        self.kinds.resolve(&self.own, api_version, kind).await
    }

    /// Lets the API server be asked again for a kind that it did not serve a moment ago.
    pub fn doubt_absence(&self, api_version: &str, kind: &str) {
        self.kinds.doubt_absence(api_version, kind);
    }

    pub(in crate::cluster) async fn api(
        &self,
        api_version: &str,
        id: &ObjectId,
    ) -> Result<Api<DynamicObject>, Error> {
        let kind = self.kind(api_version, &id.kind).await?;
        let api = Api::dynamic(self.client.clone(), &kind.resource, &kind.scope());
        Ok(match &id.namespace {
            Some(namespace) => api.constrain(namespace),
            None => api,
        })
    }

    /// Changes exactly the object that was `seen`; `Conflict` when it changed meanwhile.
    pub(in crate::cluster) async fn json_patch(
        &self,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        operations: Vec<Value>,
    ) -> Result<Applied, Error> {
        self.json_patch_as(names::MANAGER_OWN, api_version, id, seen, operations).await
    }

    /// The same in the name of another manager.
    pub(in crate::cluster) async fn json_patch_as(
        &self,
        manager: &str,
        api_version: &str,
        id: &ObjectId,
        seen: &Applied,
        mut operations: Vec<Value>,
    ) -> Result<Applied, Error> {
        let version = seen.live.metadata.resource_version.clone();
        // Set, and not tested: a test that fails is a refusal, and this is a conflict.
        operations.insert(0, json!({"op": "add", "path": "/metadata/resourceVersion", "value": version}));
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).unwrap_or_default();
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let api = self.api(api_version, id).await?;
        // One that has gone meanwhile says nothing of its kind.
        let patched = within("patch", id, api.patch(&id.name, &params, &Patch::Json::<()>(patch))).await;
        patched.map(Applied::new)
    }

    /// An apply answers 404 when the namespace or the kind is gone; says which.
    pub(in crate::cluster) async fn explain_not_found(&self, api_version: &str, id: &ObjectId) -> Error {
        match &id.namespace {
            Some(namespace) if !self.namespace_exists(namespace).await => {
                Error::NamespaceNotFound { namespace: namespace.clone() }
            }
            _ => self.unknown_kind(api_version, id),
        }
    }

    /// What was known of the kind does not hold any more.
    fn unknown_kind(&self, api_version: &str, id: &ObjectId) -> Error {
        self.kinds.forget(api_version, &id.kind);
        Error::UnknownKind { api_version: api_version.to_owned(), kind: id.kind.clone() }
    }

    async fn namespace_exists(&self, namespace: &str) -> bool {
        // Anything but a clear "no" counts as yes: the caller's own error is then the better one.
        !matches!(self.namespace(namespace).await, Ok(None))
    }

    /// The metadata of a namespace, `None` when there is none. Always read as the operator.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn namespace(&self, name: &str) -> Result<Option<Meta>, Error> {
        use k8s_openapi::api::core::v1::Namespace;
        let id = namespace_id(name);
        let api: Api<Namespace> = Api::all(self.own.clone());
        let found = within("get", &id, api.get_metadata_opt(name)).await?;
        Ok(found.map(|namespace| namespace.metadata))
    }

    /// The metadata of an object, `None` when there is none.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`; `UnknownKind` when this version of the kind is not served.
    pub async fn metadata(&self, api_version: &str, id: &ObjectId) -> Result<Option<Meta>, Error> {
        let api = self.api(api_version, id).await?;
        let found: Option<PartialObjectMeta<DynamicObject>> =
            self.unless_absent(api_version, id, api.get_metadata(&id.name)).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// [`Cluster::metadata`] by whatever version of the kind is served, and that version: an object outlives the
    /// version by which it was applied.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn find(&self, api_version: &str, id: &ObjectId) -> Result<Option<(String, Meta)>, Error> {
        let version = match self.metadata(api_version, id).await {
            Err(Error::UnknownKind { .. }) => self.kinds.served(&self.own, &id.group, &id.kind).await?,
            found => return Ok(found?.map(|meta| (api_version.to_owned(), meta))),
        };
        // Without its kind the object cannot exist.
        let Some(version) = version else { return Ok(None) };
        Ok(self.metadata(&version, id).await?.map(|meta| (version, meta)))
    }

    /// A 404 says that the object is absent only when it comes from the one who serves the kind.
    pub(in crate::cluster) async fn unless_absent<T>(
        &self,
        api_version: &str,
        id: &ObjectId,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<Option<T>, Error> {
        match within("get", id, call).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::Api { source, .. }) if names_an_object(&source) => Ok(None),
            Err(error) if error.is_not_found() => Err(self.unknown_kind(api_version, id)),
            Err(error) => Err(error),
        }
    }

    /// The whole object, `None` when there is none.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn get(&self, api_version: &str, id: &ObjectId) -> Result<Option<Applied>, Error> {
        let api = self.api(api_version, id).await?;
        Ok(self.unless_absent(api_version, id, api.get(&id.name)).await?.map(Applied::new))
    }
}

/// The 404 of a resource that is served; the one of an unknown path is plain text.
fn names_an_object(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == "NotFound")
}

pub(in crate::cluster) fn namespace_id(name: &str) -> ObjectId {
    ObjectId { kind: "Namespace".to_owned(), name: name.to_owned(), ..ObjectId::default() }
}

pub(in crate::cluster) async fn within<T>(
    verb: &'static str,
    id: &ObjectId,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::Api { verb, id: id.clone(), source: Box::new(source) }),
        Err(_) => Err(Error::Timeout { verb, id: id.clone(), after: DEADLINE }),
    }
}
