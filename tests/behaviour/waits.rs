//! Waiting for health: it holds no worker, ends with the process at once, and can be left out.

use std::time::Duration;

use serde_json::json;

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::{Harness, Pack};

fn pack(name: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"}))).object(deployment(name, 1))
}

/// Its Deployment does not get ready.
fn stuck(name: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"}))).object(with_pod_annotation(
        deployment(name, 1),
        "devcluster/unready",
        "true",
    ))
}

async fn waits(h: &Harness, name: &str) {
    h.shows(&format!("SherpackRelease/{name}"), "/status/operation/phase", "Wait").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_wait_hold_no_worker() {
    // The operator of a test works on four releases at once.
    let h = Harness::new("wait-workers").await;
    h.deploy("before", &pack("before"), json!({})).await;
    for number in 0..5 {
        let name = format!("stuck-{number}");
        h.apply(&name, &stuck(&name), json!({"timeout": "1h"})).await;
    }
    for number in 0..5 {
        waits(&h, &format!("stuck-{number}")).await;
    }
    h.deploy("after", &pack("after"), json!({})).await;
    h.objects.edit("ConfigMap/before", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/before", "/data/color", "blue").await;
    for number in 0..5 {
        let release = h.objects.get(&format!("SherpackRelease/stuck-{number}")).await;
        assert_eq!(condition(&release, "Ready")["status"], "Unknown", "{release}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_says_what_is_waited_for() {
    let h = Harness::new("wait-says").await;
    h.apply("web", &stuck("web"), json!({})).await;
    waits(&h, "web").await;
    let release = h.condition("web", "Ready", "Unknown", Some("Progressing")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Deployment wait-says/web"), "{message}");
    let waiting = &release["status"]["operation"]["waitingFor"][0];
    assert_eq!(waiting["object"], "Deployment wait-says/web");
    assert_eq!(condition(&release, "Reconciling")["status"], "True");
    assert_eq!(release["status"]["operation"]["action"], "Install");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_a_release_that_waits() {
    let h = Harness::new("wait-stop").await;
    h.apply("web", &stuck("web"), json!({"timeout": "1h"})).await;
    waits(&h, "web").await;
    // What a process has after SIGTERM before it is killed.
    let grace = sherpack_operator::operator::shutdown::GRACE;
    tokio::time::timeout(grace, h.stop()).await.expect("it stops within its grace period");
    h.shows_states("web", &["1 pending-install"]).await;
    h.start();
    h.operator_ready().await;
    // What the status says until then was written by the process before.
    h.pass("web").await;
    waits(&h, "web").await;
    h.shows_states("web", &["1 pending-install"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_middle_of_an_apply_lets_it_end_and_the_next_process_goes_on() {
    let h = Harness::new("stop-midway").await;
    let slow = crate::support::Effect::Slow(Duration::from_secs(1));
    h.wire.fault(crate::support::Fault::on_writes(slow, "configmaps/web"));
    let mark = h.wire.mark();
    h.apply("web", &pack("web"), json!({})).await;
    crate::support::wait::eventually("the apply is under way", async || {
        !h.wire.writes_to("configmaps/web", mark).is_empty()
    })
    .await;
    let grace = sherpack_operator::operator::shutdown::GRACE;
    tokio::time::timeout(grace, h.stop()).await.expect("it stops within its grace period");
    h.start();
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_wait_applied_is_deployed() {
    let h = Harness::new("wait-false").await;
    let ready = h.deploy("web", &stuck("web"), json!({"wait": false})).await;
    assert_eq!(ready["status"]["revision"], 1);
    assert_eq!(condition(&ready, "Healthy")["status"], "Unknown");
    h.shows_states("web", &["1 deployed"]).await;
    // Deployed is locked.
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_missing_is_not_healthy() {
    let h = Harness::new("health-missing").await;
    let ready = h.deploy("web", &pack("web"), json!({"drift": {"mode": "Disabled"}})).await;
    assert_eq!(condition(&ready, "Healthy")["status"], "True", "{ready}");
    let mark = h.wire.mark();
    h.objects.delete("Deployment/web").await;
    let missing = h.condition("web", "Healthy", "False", Some("ObjectMissing")).await;
    let told = condition(&missing, "Healthy")["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("Deployment health-missing/web is missing"), "{told}");
    let asked = h
        .wire
        .since(mark)
        .iter()
        .filter(|request| request.is_about("deployments") && request.verb == "get")
        .count();
    assert_eq!(asked, 0, "what the watch told is enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_put_back_while_a_revision_is_pending_and_everything_when_it_is_deployed() {
    let h = Harness::new("wait-hands-off").await;
    h.deploy("web", &pack("web"), json!({})).await;
    h.pack("web-pack", &stuck("web")).await;
    waits(&h, "web").await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pass("web").await;
    assert!(h.wire.writes_to("configmaps/web", mark).is_empty(), "drift was put back while pending");
    assert_eq!(h.objects.get("ConfigMap/web").await["data"]["color"], "red");
    h.heal("Deployment/web").await;
    h.ready("web").await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
}
