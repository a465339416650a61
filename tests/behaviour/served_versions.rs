//! An object outlives the version of its kind by which it was applied.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

const GROUP: &str = "served-versions.example.com";
const GONE_GROUP: &str = "gone-versions.example.com";

fn definition(old_is_served: bool) -> Value {
    definition_of(GROUP, true, old_is_served)
}

fn definition_of(group: &str, old_is_there: bool, old_is_served: bool) -> Value {
    let version = |name: &str, served: bool, storage: bool| {
        json!({
            "name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": match old_is_there {
                true => vec![version("v1beta1", old_is_served, false), version("v1", true, true)],
                false => vec![version("v1", true, true)],
            },
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

/// The API server takes no apply of an object any more whose managedFields speak of a version that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_whose_version_its_definition_does_not_have_any_more_is_upgraded_and_locked() {
    let h = Harness::new("gone-versions").await;
    let what = format!("CustomResourceDefinition/widgets.{GONE_GROUP}");
    let resource = |version: &str| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GONE_GROUP, version, "Widget"));
        Api::<DynamicObject>::namespaced_with(h.client.clone(), &h.namespace, &resource)
    };
    h.objects.create("test-person", definition_of(GONE_GROUP, true, true)).await;
    eventually("the kind is served", async || {
        resource("v1beta1").list(&kube::api::ListParams::default()).await.is_ok()
    })
    .await;
    let pack = |version: &str, served: &str, spec: Value| {
        Pack::new("web", version).object(json!({
            "apiVersion": format!("{GONE_GROUP}/{served}"), "kind": "Widget", "metadata": {"name": "a"},
            "spec": spec,
        }))
    };
    h.deploy("web", &pack("1.0.0", "v1beta1", json!({"size": 3, "color": "blue"})), json!({})).await;
    let theirs = kube::api::Patch::Merge(json!({"spec": {"note": "theirs"}}));
    resource("v1").patch("a", &kube::api::PatchParams::default(), &theirs).await.unwrap();
    h.objects.edit(&what, "test-person", definition_of(GONE_GROUP, false, false)).await;
    eventually("the old version is gone", async || {
        resource("v1beta1").list(&kube::api::ListParams::default()).await.is_err()
    })
    .await;

    let spec = async || resource("v1").get("a").await.unwrap().data["spec"].clone();
    h.deploy("web", &pack("2.0.0", "v1", json!({"size": 4})), json!({})).await;
    // What is ours is known still: a field that the pack dropped goes, and what others added stays.
    assert_eq!(spec().await, json!({"size": 4, "note": "theirs"}));
    let other = kube::api::Patch::Merge(json!({"spec": {"size": 9}}));
    resource("v1").patch("a", &kube::api::PatchParams::default(), &other).await.unwrap();
    eventually("it is put back", async || spec().await["size"] == 4).await;
    h.uninstall("web").await;
    h.objects.delete(&what).await;
}
