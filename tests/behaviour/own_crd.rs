//! The CustomResourceDefinition of SherpackRelease going away takes no workload along.

use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::support::control_plane;
use crate::support::packs::{config_map, deployment};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

const CRD: &str = "CustomResourceDefinition/sherpackreleases.sherpack.io";
const OBJECTS: [&str; 2] = ["ConfigMap/settings", "Deployment/web"];

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(deployment("web", 1))
}

async fn install_crd(h: &Harness) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let api: Api<CustomResourceDefinition> = Api::all(h.client.clone());
    let crd = sherpack_operator::api::crd();
    let params = PatchParams::apply("test").force();
    api.patch(crd.metadata.name.as_ref().unwrap(), &params, &Patch::Apply(&crd)).await.unwrap();
    eventually("SherpackRelease is served", async || {
        let releases: Api<sherpack_operator::api::SherpackRelease> =
            Api::namespaced(h.client.clone(), &h.namespace);
        releases.list(&kube::api::ListParams::default()).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_outlive_the_definition_and_are_taken_back_when_it_returns() {
    // Deleting it is felt by every operator on the same control plane.
    let own = control_plane::own().await;
    let h = Harness::on(own.plane, "crd-gone").await;
    h.start();
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;

    // With an operator that is there while it happens.
    let mark = h.wire.mark();
    h.objects.delete(CRD).await;
    h.gone(CRD).await;
    assert!(
        h.wire.writes_since(mark).iter().all(|request| request.verb != "delete"),
        "something was deleted"
    );
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    h.records_show("web", &["1 deployed"]).await;

    install_crd(&h).await;
    h.deploy("web", &pack(), json!({})).await;
    h.shows_states("web", &["1 deployed"]).await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;

    // With one that comes when it is already on its way out.
    h.stop().await;
    h.objects.delete(CRD).await;
    h.sees("SherpackRelease/web", |release| !release["metadata"]["deletionTimestamp"].is_null()).await;
    h.start();
    h.gone(CRD).await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    h.records_show("web", &["1 deployed"]).await;
}
