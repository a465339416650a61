//! Requests of a person who does not give up while the API server is away.

use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::failure::{Failure, Result};
use crate::objects::{RELEASE_LABEL, text};

/// Longer than any disturbance.
const LIMIT: Duration = Duration::from_secs(90);
/// A request that hangs, because etcd stands still or its connection is dead.
const HANGS: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Calls {
    pub(super) client: Client,
}

impl Calls {
    pub(super) fn api(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
    }

    pub(super) async fn get(&self, namespace: &str, title: &str) -> Result<Option<DynamicObject>> {
        let (kind, name) = split(title)?;
        let api = self.api(namespace, kind);
        insist(title, || api.get(name)).await
    }

    /// Server-side apply in a person's name: it may be sent twice.
    pub(super) async fn apply(&self, namespace: &str, title: &str, mut body: Value) -> Result<()> {
        let (kind, name) = split(title)?;
        let resource = resource(kind);
        body["apiVersion"] = resource.api_version.clone().into();
        body["kind"] = kind.into();
        body["metadata"]["name"] = name.into();
        let api = self.api(namespace, kind);
        let params = PatchParams::apply("soak").force();
        let patch = Patch::Apply(&body);
        insist(title, || api.patch(name, &params, &patch)).await.map(drop)
    }

    /// A merge patch as another writer; whether the object was there.
    pub(super) async fn edit(&self, namespace: &str, title: &str, patch: &Value) -> Result<bool> {
        let (kind, name) = split(title)?;
        let api = self.api(namespace, kind);
        let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..Default::default() };
        let patch = Patch::Merge(patch);
        Ok(insist(title, || api.patch(name, &params, &patch)).await?.is_some())
    }

    pub(super) async fn delete(&self, namespace: &str, title: &str) -> Result<()> {
        let (kind, name) = split(title)?;
        let api = self.api(namespace, kind);
        let params = DeleteParams::default();
        insist(title, || async { api.delete(name, &params).await.map(drop) }).await.map(drop)
    }

    /// Makes an object that must not be there; `None`: it was.
    pub(super) async fn create(&self, namespace: &str, body: &Value) -> Result<Option<DynamicObject>> {
        let kind = text(&body["kind"]);
        let object: DynamicObject = serde_json::from_value(body.clone())?;
        let api = self.api(namespace, kind);
        let params = PostParams { field_manager: Some("kubectl-create".to_owned()), ..Default::default() };
        insist(&format!("{kind}/{}", object.name_any()), || api.create(&params, &object)).await
    }

    /// All objects of a kind, whatever the namespace, with the label of some release.
    pub(super) async fn labelled(&self, kind: &str) -> Result<Vec<DynamicObject>> {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource(kind));
        let params = ListParams::default().labels(RELEASE_LABEL);
        let list = insist(kind, || api.list(&params)).await?;
        Ok(list.map(|list| list.items).unwrap_or_default())
    }

    pub(super) async fn releases(&self) -> Result<Vec<DynamicObject>> {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource("SherpackRelease"));
        let params = ListParams::default();
        let list = insist("SherpackReleases", || api.list(&params)).await?;
        Ok(list.map(|list| list.items).unwrap_or_default())
    }
}

/// `namespace/name`, by which everything here is found.
pub(super) fn place(object: &DynamicObject, name: &str) -> String {
    format!("{}/{name}", object.namespace().unwrap_or_default())
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "SherpackRelease" => ("sherpack.io", "v1alpha1"),
        "Deployment" => ("apps", "v1"),
        "Job" => ("batch", "v1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn split(title: &str) -> Result<(&str, &str)> {
    title.split_once('/').ok_or_else(|| Failure::new(format!("{title} is no Kind/name")))
}

/// Repeats a request until the API server gives an answer that is about the request. `None`: the object is not there, or
/// is there already.
pub(super) async fn insist<T, F>(what: &str, mut request: impl FnMut() -> F) -> Result<Option<T>>
where
    F: Future<Output = kube::Result<T>>,
{
    let began = Instant::now();
    loop {
        let trouble = match timeout(HANGS, request()).await {
            Ok(Ok(answer)) => return Ok(Some(answer)),
            Ok(Err(kube::Error::Api(status))) if is_answer(status.code, &status.message) => return Ok(None),
            Ok(Err(kube::Error::Api(status))) if status.code == 422 || status.code == 400 => {
                return Err(Failure::from(kube::Error::Api(status)).during(what));
            }
            Ok(Err(error)) => Failure::from(error),
            Err(_) => Failure::new("no answer"),
        };
        if began.elapsed() > LIMIT {
            return Err(trouble.during(format!("{what}, in vain for {} s", LIMIT.as_secs())));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// About the object itself. A server that has just started also says 404 for what it does not serve yet.
fn is_answer(code: u16, message: &str) -> bool {
    match code {
        404 => message.ends_with("\" not found"),
        409 => message.ends_with("already exists"),
        _ => false,
    }
}
