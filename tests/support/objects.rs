//! Objects by `Kind/name`, read and changed the ways people and tools do it.

use std::sync::Arc;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::changes::{Changes, Place};
use super::wait;

/// Access to the objects of one namespace, and to cluster-wide ones.
#[derive(Clone)]
pub struct Objects {
    pub client: Client,
    pub namespace: String,
    changes: Arc<Changes>,
}

/// apiVersion, kind, namespaced.
const KINDS: &[(&str, &str, bool)] = &[
    ("v1", "ConfigMap", true),
    ("v1", "Secret", true),
    ("v1", "Service", true),
    ("v1", "ServiceAccount", true),
    ("v1", "Pod", true),
    ("v1", "PersistentVolumeClaim", true),
    ("v1", "PersistentVolume", false),
    ("v1", "Event", true),
    ("v1", "Namespace", false),
    ("apps/v1", "Deployment", true),
    ("apps/v1", "StatefulSet", true),
    ("batch/v1", "Job", true),
    ("networking.k8s.io/v1", "Ingress", true),
    ("networking.k8s.io/v1", "NetworkPolicy", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", true),
    ("discovery.k8s.io/v1", "EndpointSlice", true),
    ("rbac.authorization.k8s.io/v1", "Role", true),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", false),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", false),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", false),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", false),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", false),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", false),
    ("sherpack.io/v1alpha1", "SherpackRelease", true),
    ("source.toolkit.fluxcd.io/v1", "GitRepository", true),
    ("source.toolkit.fluxcd.io/v1", "OCIRepository", true),
    ("source.toolkit.fluxcd.io/v1", "Bucket", true),
    ("source.toolkit.fluxcd.io/v1", "HelmRepository", true),
    ("source.toolkit.fluxcd.io/v1", "HelmChart", true),
    ("source.toolkit.fluxcd.io/v1", "ExternalArtifact", true),
    ("watches.example.com/v1", "Gadget", true),
];

impl Objects {
    /// Those of a namespace; the changes are those of the client's control plane.
    #[must_use]
    pub fn new(client: Client, changes: &Arc<Changes>, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), changes: Arc::clone(changes) }
    }

    /// Those of another namespace.
    #[must_use]
    pub fn elsewhere(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The API of a kind in this namespace; cluster-wide kinds have theirs.
    #[must_use]
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        match resource(kind) {
            (resource, true) => Api::namespaced_with(self.client.clone(), &self.namespace, &resource),
            (resource, false) => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Tells the wait that looks, if one does, that it reads objects of this kind.
    pub fn read(&self, kind: &str) {
        wait::reads(|| match resource(kind) {
            (resource, true) => Place::new(&self.changes, resource, &self.namespace),
            (resource, false) => Place::new(&self.changes, resource, ""),
        });
    }

    fn of<'a>(&self, what: &'a str) -> (Api<DynamicObject>, &'a str) {
        let (kind, name) = parts(what);
        (self.api(kind), name)
    }

    /// The object, or nothing.
    pub async fn find(&self, what: &str) -> Option<Value> {
        let (api, name) = self.of(what);
        self.read(parts(what).0);
        api.get_opt(name).await.unwrap().map(|object| value(&object))
    }

    /// The object, which must be there.
    pub async fn get(&self, what: &str) -> Value {
        self.find(what).await.unwrap_or_else(|| panic!("{what} is not there"))
    }

    /// The uids of objects, which must all be there: the same uids later mean that none was deleted meanwhile.
    pub async fn uids(&self, all: &[&str]) -> Vec<String> {
        let mut uids = Vec::new();
        for what in all {
            let object = self.get(what).await;
            assert!(object["metadata"]["deletionTimestamp"].is_null(), "{what} is being deleted");
            uids.push(uid(&object));
        }
        uids
    }

    /// Everything of a kind in this namespace whose labels match the selector (empty: all).
    pub async fn list(&self, kind: &str, selector: &str) -> Vec<Value> {
        let params = kube::api::ListParams::default().labels(selector);
        self.read(kind);
        self.api(kind).list(&params).await.unwrap().items.iter().map(value).collect()
    }

    /// As `kubectl create`, by `manager`.
    pub async fn create(&self, manager: &str, object: Value) -> Value {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        value(&self.api(&kind).create(&params, &object).await.unwrap())
    }

    /// A merge patch by `manager`: what `kubectl edit`, `label`, `annotate`, `set image` send, more or less.
    pub async fn edit(&self, what: &str, manager: &str, patch: Value) -> Value {
        let (api, name) = self.of(what);
        value(&api.patch(name, &by(manager), &Patch::Merge(patch)).await.unwrap())
    }

    /// A merge patch of a subresource (`status`, `scale`).
    pub async fn edit_subresource(
        &self,
        what: &str,
        subresource: &str,
        manager: &str,
        patch: Value,
    ) -> Value {
        let (api, name) = self.of(what);
        // The answer of `scale` is a Scale, which has the two parts that matter here.
        value(&api.patch_subresource(subresource, name, &by(manager), &Patch::Merge(patch)).await.unwrap())
    }

    /// A strategic merge patch by `manager`: lists are merged by their keys.
    pub async fn strategic(&self, what: &str, manager: &str, patch: Value) -> Value {
        let (api, name) = self.of(what);
        value(&api.patch(name, &by(manager), &Patch::Strategic(patch)).await.unwrap())
    }

    /// A JSON patch by `manager`.
    pub async fn json_patch(&self, what: &str, manager: &str, operations: Value) -> Value {
        let (api, name) = self.of(what);
        let patch: json_patch::Patch = serde_json::from_value(operations).unwrap();
        value(&api.patch(name, &by(manager), &Patch::Json::<()>(patch)).await.unwrap())
    }

    /// A forced server-side apply by `manager`. `body` needs no apiVersion, kind and name.
    pub async fn server_side_apply(&self, what: &str, manager: &str, body: Value) -> Value {
        let (api, name) = self.of(what);
        let (api_version, kind, _) =
            KINDS.iter().find(|(_, kind, _)| what.starts_with(&format!("{kind}/"))).unwrap();
        let mut body = body;
        body["apiVersion"] = json!(api_version);
        body["kind"] = json!(kind);
        body["metadata"]["name"] = json!(name);
        value(&api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(body)).await.unwrap())
    }

    /// Reads the object, changes it, and writes it back whole, as `kubectl replace` and many controllers do.
    pub async fn replace(&self, what: &str, manager: &str, change: impl Fn(&mut Value)) -> Value {
        let (api, name) = self.of(what);
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        loop {
            let mut object = self.get(what).await;
            change(&mut object);
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            match api.replace(name, &params, &object).await {
                Ok(object) => return value(&object),
                // A controller wrote its status meanwhile.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }

    /// Deletes the object in the background; nothing happens when it is not there.
    pub async fn delete(&self, what: &str) {
        let (api, name) = self.of(what);
        match api.delete(name, &DeleteParams::background()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// Kind and name.
fn parts(what: &str) -> (&str, &str) {
    what.split_once('/').unwrap_or_else(|| panic!("{what}: Kind/name is expected"))
}

/// How a kind is served, and whether its objects are in namespaces.
fn resource(kind: &str) -> (ApiResource, bool) {
    let (api_version, kind, namespaced) = KINDS
        .iter()
        .find(|(_, known, _)| *known == kind)
        .unwrap_or_else(|| panic!("add {kind} to KINDS of tests/support/objects.rs"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    (ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)), *namespaced)
}

fn by(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

/// The uid of an object.
#[must_use]
pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The resourceVersion of a typed object.
#[must_use]
pub fn version<K: Resource>(object: &K) -> String {
    object.meta().resource_version.clone().unwrap_or_default()
}
