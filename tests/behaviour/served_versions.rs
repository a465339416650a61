//! An object outlives the version of its kind by which it was applied.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

const GROUP: &str = "served-versions.example.com";

fn definition(old_is_served: bool) -> Value {
    let version = |name: &str, served: bool, storage: bool| {
        json!({
            "name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version("v1beta1", old_is_served, false), version("v1", true, true)],
        },
    })
}

fn widget(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "Widget", "metadata": {"name": name},
        "spec": {"size": 3},
    })
}

fn widgets(h: &Harness, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, version, "Widget"));
    Api::namespaced_with(h.client.clone(), &h.namespace, &resource)
}

async fn names(h: &Harness) -> Vec<String> {
    let found = widgets(h, "v1").list(&kube::api::ListParams::default()).await.unwrap();
    found.items.into_iter().filter_map(|widget| widget.metadata.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_whose_version_is_not_served_any_more_are_deleted_all_the_same() {
    let h = Harness::new("served-versions").await;
    h.objects.create("test-person", definition(true)).await;
    eventually("the kind is served", async || {
        widgets(&h, "v1beta1").list(&kube::api::ListParams::default()).await.is_ok()
    })
    .await;
    let pack = |version: &str, objects: Vec<Value>| Pack::new("web", version).objects(objects);
    let both = vec![widget("v1beta1", "kept"), widget("v1beta1", "pruned")];
    h.deploy("warm", &pack("1.0.0", both), json!({})).await;
    h.deploy("fresh", &pack("1.0.0", vec![widget("v1beta1", "uninstalled")]), json!({})).await;
    assert_eq!(names(&h).await, ["kept", "pruned", "uninstalled"]);

    let what = format!("CustomResourceDefinition/widgets.{GROUP}");
    h.objects.edit(&what, "test-person", definition(false)).await;
    eventually("the old version is not served", async || {
        widgets(&h, "v1beta1").list(&kube::api::ListParams::default()).await.is_err()
    })
    .await;
    // This process has seen the old version, the next one has not.
    h.deploy("warm", &pack("2.0.0", vec![widget("v1", "kept")]), json!({})).await;
    assert_eq!(names(&h).await, ["kept", "uninstalled"]);
    h.start();
    h.uninstall("fresh").await;
    assert_eq!(names(&h).await, ["kept"]);
    h.uninstall("warm").await;
    assert_eq!(names(&h).await, Vec::<String>::new());
    h.objects.delete(&what).await;
}
