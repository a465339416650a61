//! Everything outside of one namespace, as far as only people and the operator change it.

use std::collections::BTreeMap;

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::Discovery;
use kube::discovery::verbs::LIST;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::failure::{During, Result};

/// `Kind namespace/name` to what was written there.
pub(super) type Dump = BTreeMap<String, Value>;

/// Kinds that controllers of the cluster write all the time.
const RESTLESS: [&str; 8] =
    ["Event", "Lease", "Node", "CSINode", "EndpointSlice", "Endpoints", "IPAddress", "ComponentStatus"];

/// All objects but those of `namespace`.
pub(super) async fn outside_of(client: &Client, namespace: &str) -> Result<Dump> {
    let discovery = Discovery::new(client.clone()).run().await.during("discovery")?;
    let mut dump = Dump::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        if !capabilities.supports_operation(LIST) || RESTLESS.contains(&&*resource.kind) {
            continue;
        }
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let list = api.list(&ListParams::default()).await.during(format!("list of {}", resource.plural))?;
        for object in
            list.items.into_iter().filter(|object| object.metadata.namespace.as_deref() != Some(namespace))
        {
            let name = object.name_any();
            if resource.kind == "Namespace" && name == namespace {
                continue;
            }
            let place = object.metadata.namespace.as_deref().map(|namespace| format!("{namespace}/"));
            let key = format!("{} {}{name}", resource.kind, place.unwrap_or_default());
            dump.insert(key, written(&object));
        }
    }
    Ok(dump)
}

/// What was written of an object: no status, no version.
fn written(object: &DynamicObject) -> Value {
    let mut value = object.data.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    json!({
        "uid": object.metadata.uid, "labels": object.labels(), "annotations": object.annotations(),
        "finalizers": object.finalizers(), "data": value,
    })
}

/// What differs, in words.
pub(super) fn differences(before: &Dump, after: &Dump) -> Vec<String> {
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| format!("{key} is gone"));
    let new = after.keys().filter(|key| !before.contains_key(*key)).map(|key| format!("{key} is new"));
    let changed = before.iter().filter(|(key, value)| after.get(*key).is_some_and(|now| now != *value));
    gone.chain(new)
        .chain(changed.map(|(key, _)| format!("{key} is another one or holds something else")))
        .collect()
}
