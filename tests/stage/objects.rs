//! The objects of a release, found by label whatever their kind.

use std::collections::BTreeMap;

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::verbs::LIST;
use kube::discovery::{Discovery, Scope};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::failure::{During, Result};

/// On every object of a release and on its records.
pub(crate) const RELEASE_LABEL: &str = "sherpack.io/release-name";

/// `Kind/name` to what a user wrote of it: no status and nothing that differs from one creation to the next.
pub(crate) type Snapshot = BTreeMap<String, Value>;

/// Every object in the namespace with the label of this release, records included.
pub(crate) async fn labelled(client: &Client, namespace: &str, release: &str) -> Result<Vec<DynamicObject>> {
    let discovery = Discovery::new(client.clone()).run().await.during("discovery")?;
    let selector = ListParams::default().labels(&format!("{RELEASE_LABEL}={release}"));
    let mut found = Vec::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(LIST) {
            continue;
        }
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
        let list = api.list(&selector).await.during(format!("list of {}", resource.plural))?;
        found.extend(list.items.into_iter().map(|mut object| {
            object.types = Some(kube::core::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
            object
        }));
    }
    Ok(found)
}

pub(crate) fn title(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("?", |types| types.kind.as_str());
    format!("{kind}/{}", object.name_any())
}

/// Whether a controller of the cluster made it (EndpointSlices and pods inherit labels).
fn is_derived(object: &DynamicObject) -> bool {
    let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
    matches!(kind, "EndpointSlice" | "Endpoints") || !object.owner_references().is_empty()
}

/// Whether it is a stored revision.
pub(crate) fn is_record(object: &DynamicObject) -> bool {
    object.labels().contains_key("sherpack.io/storage-driver")
}

/// The final state of a release, comparable between two runs.
pub(crate) fn snapshot(objects: &[DynamicObject]) -> Snapshot {
    let lasting = objects.iter().filter(|object| !is_derived(object) && !is_record(object));
    lasting.map(|object| (title(object), comparable(object))).collect()
}

fn comparable(object: &DynamicObject) -> Value {
    let mut value = object.data.clone();
    let ours =
        |key: &String| key.starts_with("sherpack.io/applied") || key.starts_with("deployment.kubernetes.io/");
    let annotations: BTreeMap<_, _> = object.annotations().iter().filter(|(key, _)| !ours(key)).collect();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
        fields.insert("labels".to_owned(), serde_json::json!(object.labels()));
        fields.insert("annotations".to_owned(), serde_json::json!(annotations));
    }
    // Drawn anew by the cluster for each new Service.
    if let Some(spec) = value.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| !matches!(key.as_str(), "clusterIP" | "clusterIPs"));
    }
    value
}

/// The string of a JSON value; empty for anything else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Sets a value below a path of object keys, making the objects on the way.
pub(crate) fn set(value: &mut Value, path: &[&str], leaf: Value) {
    let mut at = value;
    for key in path {
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        at = &mut at[*key];
    }
    *at = leaf;
}
