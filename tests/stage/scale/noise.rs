//! What other people have in the cluster: definitions, ConfigMaps and Secrets that no release knows.

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::{CONCURRENCY, say};
use crate::failure::{During, Failure, Result};
use crate::release;

const NAMESPACE: &str = "noise";
/// Bytes in each ConfigMap and Secret, as in the measurements this is compared with.
const SIZE: usize = 2048;

/// Makes `definitions` definitions, and `objects` ConfigMaps and Secrets, half of each.
pub(crate) async fn make(client: &Client, definitions: usize, objects: usize) -> Result<()> {
    if definitions + objects == 0 {
        return Ok(());
    }
    say(format!("{definitions} definitions and {objects} ConfigMaps and Secrets of others"));
    release::create_namespace(client, NAMESPACE).await?;
    let content = "x".repeat(SIZE);
    let named = |index: usize| match index % 2 {
        0 => ("ConfigMap", format!("noise-{index:05}"), json!({"data": {"content": content}})),
        _ => ("Secret", format!("noise-{index:05}"), json!({"stringData": {"content": content}})),
    };
    let create = |(kind, name, body): (&'static str, String, Value)| async move {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &resource);
        let mut object = DynamicObject::new(&name, &resource);
        object.data = body;
        api.create(&PostParams::default(), &object).await.during(&name)?;
        Ok::<_, Failure>(())
    };
    stream::iter((0..objects).map(named))
        .map(create)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<()>>()
        .await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let define = |index: usize| {
        let (api, resource) = (api.clone(), resource.clone());
        async move {
            let name = format!("noise{index:04}s.example.com");
            let mut object = DynamicObject::new(&name, &resource);
            object.data = definition(index);
            api.create(&PostParams::default(), &object).await.during(&name)?;
            Ok::<_, Failure>(())
        }
    };
    stream::iter((0..definitions).map(define)).buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
    Ok(())
}

fn definition(index: usize) -> Value {
    let fields: serde_json::Map<String, Value> =
        (0..20).map(|field| (format!("field{field}"), json!({"type": "string"}))).collect();
    json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": format!("Noise{index:04}"), "plural": format!("noise{index:04}s")},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": fields}},
        }}}],
    }})
}
