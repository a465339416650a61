//! What is named in the API and not built yet ends in a clear condition, never in something half done.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::{Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(deployment("web", 0))
}

/// The operator of these tests has no pack directory.
fn refused() -> Value {
    json!({"pack": {"configMap": null, "path": "web"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployed_release_whose_spec_becomes_one_that_is_refused_stays_locked() {
    let h = Harness::new("unsupported-later").await;
    h.deploy("web", &pack(), json!({})).await;
    h.edit_spec("web", refused()).await;
    h.condition("web", "Ready", "False", Some("InvalidSpec")).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_has_begun_goes_on_to_its_end_when_its_spec_becomes_one_that_is_refused() {
    let h = Harness::new("unsupported-midway").await;
    let never = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.apply("web", &pack().object(never), json!({})).await;
    h.sees("SherpackRelease/web", |release| release["status"]["operation"]["phase"] == "Wait").await;
    h.edit_spec("web", refused()).await;
    h.condition("web", "Ready", "False", Some("InvalidSpec")).await;
    h.heal("Deployment/slow").await;
    h.shows_states("web", &["1 deployed"]).await;
    let done = |release: &Value| condition(release, "Released")["status"] == "True";
    let still = h.sees("SherpackRelease/web", done).await;
    assert_eq!(condition(&still, "Ready")["reason"], "InvalidSpec", "{still}");
    // And it is locked, as any deployed release.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
