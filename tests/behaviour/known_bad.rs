//! Inputs that are known to fail: they rest until somebody asks for them, whatever comes in between.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

/// With a Deployment that does not get ready.
fn stuck(color: &str) -> Pack {
    pack(color).object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// Revision 1 is blue, 2 failed, 3 went back.
async fn undone(name: &str, more: Value) -> Harness {
    let h = Harness::new(name).await;
    h.deploy("web", &pack("blue"), more).await;
    h.pack("web-pack", &stuck("red")).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h
}

/// As if everything that the newest revision knows of failures had been two hours ago. The operator must not run.
async fn two_hours_later(h: &Harness, revision: u32) {
    let decoded = h.decoded("web", revision).await;
    let mut private = decoded.private.unwrap();
    let earlier = |at: &mut Timestamp| *at -= Duration::from_hours(2);
    private.undone.iter_mut().chain(&mut private.failures).for_each(|failed| earlier(&mut failed.at));
    h.write_as_ours(&decoded.record, &private).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_upgrade_that_was_undone_is_not_tried_again_hours_later() {
    let h = undone("known-bad-rests", json!({"upgrade": {"retries": 0}, "timeout": "1s"})).await;
    h.stop().await;
    two_hours_later(&h, 3).await;
    h.start();
    h.pass("web").await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held).contains("Deployment known-bad-rests/slow"), "{held}");
    assert!(!message(&held).contains("next try at"), "{held}");
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    // Another spec tries it anew, whatever it is that changed.
    h.edit_spec("web", json!({"timeout": "2s"})).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 superseded", "4 failed", "5 deployed"]).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_goes_back_to_what_failed_has_nothing_rolled_out() {
    let h = undone("known-bad-again", json!({"upgrade": {"retries": 0}, "timeout": "1s"})).await;
    let states = ["1 superseded", "2 failed", "3 superseded", "4 deployed"];
    h.pack("web-pack", &pack("yellow")).await;
    h.shows_states("web", &states).await;
    h.ready("web").await;
    h.pack("web-pack", &stuck("red")).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held).contains("Deployment known-bad-again/slow"), "{held}");
    h.shows_states("web", &states).await;
    // The next process knows it from the record, also when the status is lost.
    h.stop().await;
    h.forge_status("web", json!({"conditions": null, "failures": null, "history": null, "inputs": null}))
        .await;
    h.start();
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.pass("web").await;
    h.records_show("web", &states).await;
    // What is deployed stays locked meanwhile.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "white"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "yellow").await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.sees("Secret/sh.sherpack.release.v1.web.v5", |_| true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_tries_are_made_when_they_are_asked_for_and_each_takes_the_place_of_the_one_before() {
    let more = json!({"upgrade": {"retries": 0, "retryInterval": "1h"}, "timeout": "1s"});
    let h = undone("known-bad-interval", more).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held).contains("next try at"), "{held}");
    h.stop().await;
    two_hours_later(&h, 3).await;
    h.start();
    h.shows_states("web", &["1 superseded", "4 failed", "5 deployed"]).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held).contains("failed 2 times"), "{held}");
    assert_eq!(h.decoded("web", 4).await.private.unwrap().attempt, 2);
    // It is what revision 1 was.
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interval_that_is_none_is_refused() {
    let h = Harness::new("known-bad-zero").await;
    h.apply("web", &pack("blue"), json!({"install": {"retryInterval": "0s"}})).await;
    let refused = h.condition("web", "Ready", "False", Some("InvalidSpec")).await;
    assert!(message(&refused).contains("spec.install.retryInterval"), "{refused}");
}

/// The record is lost, so nobody can tell what the failed revision brought from what served before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_started_over_is_not_taken_away_when_it_fails() {
    let h = Harness::new("known-bad-start-over").await;
    let retries = json!({"retries": 0});
    let spec =
        json!({"timeout": "1s", "install": {"retries": 0, "onFailure": "Uninstall"}, "upgrade": retries});
    h.deploy("web", &pack("blue"), spec).await;
    let before = h.objects.uids(&["ConfigMap/settings"]).await;
    h.lose_record("web", 1).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.pack("web-pack", &stuck("red")).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.shows_states("web", &["2 failed"]).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.pass("web").await;
    h.records_show("web", &["2 failed"]).await;
    assert_eq!(h.objects.uids(&["ConfigMap/settings"]).await, before);
}

/// A failed install is being taken away, and waits for somebody's finalizer, when another one takes its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_takes_away_what_its_own_revision_made() {
    let h = Harness::new("known-bad-going").await;
    let mut slow = config_map("held", json!({"a": "b"}));
    slow["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let spec = json!({"timeout": "1s", "install": {"retries": 0, "onFailure": "Uninstall"}});
    h.apply("web", &stuck("red").object(slow), spec).await;
    h.sees("ConfigMap/held", |object| !object["metadata"]["deletionTimestamp"].is_null()).await;
    h.gone("Deployment/slow").await;
    let other = with_pod_annotation(deployment("other", 1), "devcluster/unready", "true");
    h.pack("web-pack", &pack("green").object(config_map("other", json!({"a": "b"}))).object(other)).await;
    h.sees("Deployment/other", |_| true).await;
    h.sees("SherpackRelease/web", |release| {
        let uninstalling = condition(release, "Ready")["reason"] == "Uninstalling";
        uninstalling && release["status"]["revision"] == 2
    })
    .await;
    h.objects.edit("ConfigMap/held", "backup", json!({"metadata": {"finalizers": null}})).await;
    h.records_show("web", &["1 failed", "2 uninstalled"]).await;
    for object in ["ConfigMap/settings", "ConfigMap/other", "Deployment/other", "ConfigMap/held"] {
        h.gone(object).await;
    }
}
