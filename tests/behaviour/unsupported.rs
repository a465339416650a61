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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_is_not_built_yet_is_named_and_nothing_is_applied() {
    let h = Harness::new("unsupported-fields").await;
    h.pack("web-pack", &pack()).await;
    let asks = [("spec.pack.artifact", json!({"pack": {"artifact": {"kind": "Bucket", "name": "web"}}}))];
    for (number, (field, more)) in asks.iter().enumerate() {
        let name = format!("web-{number}");
        let mut spec = json!({"pack": {"configMap": {"name": "web-pack"}}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        h.release(&name, spec).await;
        let held = h.condition(&name, "Ready", "False", Some("NotSupported")).await;
        let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(&format!("{field}: ")), "{field}: {message}");
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{field}");
        // Nothing was done, so there is nothing to wait for when it goes.
        assert!(held["metadata"]["finalizers"].is_null(), "{field}");
    }
    for kind in ["configmaps", "deployments"] {
        assert!(h.wire.writes_to(kind, 0).is_empty(), "{kind} were written");
    }
    assert!(h.objects.list("Secret", "sherpack.io/storage-driver").await.is_empty());

    // One of them repaired goes on.
    h.edit_spec("web-0", json!({"pack": {"artifact": null, "configMap": {"name": "web-pack"}}})).await;
    h.ready("web-0").await;
}

fn not_built() -> Value {
    json!({"pack": {"configMap": null, "artifact": {"kind": "Bucket", "name": "web"}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployed_release_that_asks_for_something_that_is_not_built_stays_locked() {
    let h = Harness::new("unsupported-later").await;
    h.deploy("web", &pack(), json!({})).await;
    h.edit_spec("web", not_built()).await;
    h.condition("web", "Ready", "False", Some("NotSupported")).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_has_begun_goes_on_to_its_end_when_its_spec_becomes_one_that_is_not_built() {
    let h = Harness::new("unsupported-midway").await;
    let never = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.apply("web", &pack().object(never), json!({})).await;
    h.sees("SherpackRelease/web", |release| release["status"]["operation"]["phase"] == "Wait").await;
    h.edit_spec("web", not_built()).await;
    h.condition("web", "Ready", "False", Some("NotSupported")).await;
    h.heal("Deployment/slow").await;
    h.shows_states("web", &["1 deployed"]).await;
    let done = |release: &Value| condition(release, "Released")["status"] == "True";
    let still = h.sees("SherpackRelease/web", done).await;
    assert_eq!(condition(&still, "Ready")["reason"], "NotSupported", "{still}");
    // And it is locked, as any deployed release.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
