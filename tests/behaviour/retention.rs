//! Which revisions are kept: those that can be gone back to, and a few of those that failed.

use serde_json::{Value, json};

use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0")
        .values("round: 0\n")
        .object(config_map("settings", json!({"color": color, "round": "{{ values.round }}"})))
}

/// With a Deployment that does not get ready.
fn stuck(color: &str) -> Pack {
    pack(color).object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_upgrades_and_the_ways_back_from_them_push_no_deployed_revision_out() {
    let h = Harness::new("retention-undone").await;
    let spec = json!({"history": {"limit": 3}, "upgrade": {"retries": 0}});
    h.deploy("web", &pack("blue"), spec).await;
    for (revision, color) in [(2, "green"), (3, "yellow")] {
        h.pack("web-pack", &pack(color)).await;
        h.shows("SherpackRelease/web", "/status/revision", revision).await;
        h.ready("web").await;
    }
    h.edit_spec("web", json!({"timeout": "1s"})).await;
    h.ready("web").await;
    h.pack("web-pack", &stuck("red")).await;
    h.shows_states("web", &["2 superseded", "3 superseded", "4 failed", "5 deployed"]).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    // Once more: revision 5 says nothing that 3 and 7 do not.
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    let kept = ["2 superseded", "3 superseded", "4 failed", "6 failed", "7 deployed"];
    h.shows_states("web", &kept).await;
    // The status names those that can be gone back to, and no others.
    let history = h.status("web").await["history"].as_array().cloned().unwrap_or_default();
    let told: Vec<String> = history.iter().rev().map(crate::support::records::told).collect();
    assert_eq!(told, kept);
    h.edit_spec("web", json!({"rollbackTo": 2})).await;
    h.condition("web", "Ready", "True", Some("RollbackSucceeded")).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_revisions_that_only_fail_three_are_kept() {
    let h = Harness::new("retention-fails").await;
    let spec = json!({"timeout": "1s", "install": {"retries": 0}, "history": {"limit": 10}});
    h.apply("web", &stuck("red"), spec).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    for round in 2..=5 {
        h.edit_spec("web", json!({"values": {"round": round}})).await;
        h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    }
    h.records_show("web", &["3 failed", "4 failed", "5 failed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_that_come_faster_than_operations_end_make_no_revisions_without_bound() {
    let h = Harness::new("retention-edits").await;
    h.apply("web", &stuck("red"), json!({"timeout": "1h"})).await;
    for round in 1..=7 {
        h.sees(&format!("Secret/sh.sherpack.release.v1.web.v{round}"), |_| true).await;
        if round < 7 {
            h.edit_spec("web", json!({"values": {"round": round}})).await;
        }
    }
    // Three that were ended, and the one under way.
    eventually("surplus revisions are deleted", async || h.records("web").await.len() <= 4).await;
    let newest: Vec<Value> = h.records("web").await;
    let newest = &newest.last().unwrap()["metadata"]["labels"]["sherpack.io/release-version"];
    assert_eq!(newest, "7");
}

/// A release of another namespace that had the name is gone; what it left of its history is not this one's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_another_release_is_neither_counted_nor_deleted() {
    let h = Harness::new("retention-others").await;
    h.deploy("old", &pack("blue"), json!({"releaseName": "web", "uninstall": {"policy": "Orphan"}})).await;
    h.pack("old-pack", &pack("green")).await;
    h.shows("SherpackRelease/old", "/status/revision", 2).await;
    h.ready("old").await;
    h.uninstall("old").await;
    let spec = json!({"releaseName": "web", "history": {"limit": 1}, "install": {"adopt": "Unowned"}});
    h.deploy("new", &pack("yellow"), spec).await;
    for (revision, color) in [(4, "white"), (5, "black")] {
        h.pack("new-pack", &pack(color)).await;
        h.shows("SherpackRelease/new", "/status/revision", revision).await;
        h.ready("new").await;
    }
    h.records_show("web", &["1 superseded", "2 superseded", "5 deployed"]).await;
}
