//! What becomes of a revision that fails: backoff, spent retries, and objects that get healthy by themselves.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .values("color: blue\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
        .object(deployment("web", 1))
}

/// [`pack`] with a Deployment that does not get ready by itself.
fn stuck() -> Pack {
    Pack::new("web", "2.0.0")
        .values("color: green\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
        .object(deployment("web", 1))
        .object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

fn message(release: &Value, type_: &str) -> String {
    condition(release, type_)["message"].as_str().unwrap_or_default().to_owned()
}

/// From now on what does not get healthy fails soon. What is deployed before has all the time that a busy machine takes.
async fn in_a_hurry(h: &Harness) {
    h.edit_spec("web", json!({"timeout": "1s"})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_install_is_tried_again_after_a_wait_and_then_held_until_it_is_reset() {
    let h = Harness::new("retry-install").await;
    h.apply("web", &stuck(), json!({"timeout": "1s", "install": {"retries": 1}})).await;
    let failed = h.condition("web", "Ready", "False", Some("HealthTimeout")).await;
    assert!(message(&failed, "Ready").contains("Deployment retry-install/slow"), "{failed}");
    assert_eq!(failed["status"]["failures"], 1);

    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("Deployment retry-install/slow"), "{held}");
    assert_eq!(condition(&held, "Stalled")["status"], "True");
    assert_eq!(held["status"]["failures"], 2);
    h.shows_states("web", &["1 failed", "2 failed"]).await;
    let (first, second) = (h.decoded("web", 1).await, h.decoded("web", 2).await);
    let waited = second.record.created_at.duration_since(first.record.updated_at);
    assert!(waited.as_secs() >= 5, "the second attempt was made after {waited}");
    assert_eq!(second.private.unwrap().attempt, 2);

    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.sees("Secret/sh.sherpack.release.v1.web.v3", |_| true).await;
    assert_eq!(h.decoded("web", 3).await.private.unwrap().attempt, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_upgrade_is_kept_and_not_locked_and_other_inputs_go_on_from_it() {
    let h = Harness::new("retry-upgrade").await;
    h.deploy("web", &pack(), json!({"upgrade": {"retries": 0, "onFailure": "Retain"}})).await;
    in_a_hurry(&h).await;
    h.pack("web-pack", &stuck()).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Released").contains("not locked"), "{held}");
    assert_eq!(condition(&held, "Released")["status"], "False");
    assert_eq!(condition(&held, "Healthy")["reason"], "HealthTimeout");

    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pass("web").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");

    h.pack("web-pack", &pack()).await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert!(h.objects.find("Deployment/slow").await.is_none(), "what only the failed revision had is pruned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_release_whose_objects_get_healthy_by_themselves_is_deployed() {
    let h = Harness::new("heals").await;
    h.apply("web", &stuck(), json!({"timeout": "1s", "install": {"retries": 0}})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    // The failed revision is not locked, so this would stay.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_notices_as_well_that_a_failed_release_has_healed() {
    let h = Harness::new("heals-restart").await;
    h.apply("web", &stuck(), json!({"timeout": "1s", "install": {"retries": 0}})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.start();
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_wait_costs_nothing_while_nothing_heals() {
    let h = Harness::new("heals-idle").await;
    // Enough for the other Deployment to get healthy on a busy machine: what is not is looked at.
    h.apply("web", &stuck(), json!({"timeout": "8s", "install": {"retries": 0}})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.pass("web").await;
    let mark = h.wire.mark();
    // An event of an object that is healthy is none of its business; what follows it is seen after it.
    let label = json!({"metadata": {"annotations": {"example.com/a": "b"}}});
    h.objects.edit("Deployment/web", "test", label).await;
    h.pass("web").await;
    let reads: Vec<String> =
        h.wire.since(mark).iter().filter(|r| r.is_about("deployments")).map(|r| r.line()).collect();
    assert!(reads.iter().all(|line| line.contains("deployments/slow")) && reads.len() <= 2, "{reads:#?}");
}

/// Minutes before the deadline would tell, and with the image named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_fails_for_its_failing_pod_and_not_for_the_time_that_it_took() {
    let h = Harness::new("pod-fails").await;
    let stuck = with_pod_annotation(deployment("web", 1), "devcluster/unready", "true");
    h.apply("web", &Pack::new("web", "1.0.0").object(stuck), json!({"timeout": "20m"})).await;
    h.sees("SherpackRelease/web", |release| release["status"]["operation"]["phase"] == "Wait").await;
    let pod = wait_for("a pod", async || {
        let pods = h.objects.list("Pod", "app=web").await;
        let name = pods.first().and_then(|pod| pod["metadata"]["name"].as_str());
        name.map(str::to_owned).ok_or_else(|| "none yet".to_owned())
    })
    .await;
    let waiting = json!({"reason": "CrashLoopBackOff", "message": "back-off 10s"});
    let container = json!({
        "name": "app", "image": "example.com/app:1.0.0", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": waiting},
    });
    let status = json!({"status": {"containerStatuses": [container]}});
    h.objects.edit_subresource(&format!("Pod/{pod}"), "status", "kubelet", status).await;
    let failed = h
        .sees("SherpackRelease/web", |release| condition(release, "Ready")["reason"] == "HealthFailed")
        .await;
    let message = condition(&failed, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("Deployment pod-fails/web: pod {pod}")), "{message}");
}
