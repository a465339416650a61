//! A newest record of another tool: ours below it are still read, and nothing that was deployed is lost.

use serde_json::{Value, json};

use crate::support::packs::{config_map, deployment, secret, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

const OBJECTS: [&str; 3] = ["ConfigMap/settings", "Secret/web-gen", "Deployment/web"];

fn pack(color: &str) -> Pack {
    let password = json!({"password": "{{ generate_secret('p', 12) }}"});
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": color})))
        .object(secret("web-gen", password))
        .object(deployment("web", 1))
}

fn bad(color: &str) -> Pack {
    pack(color).object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

fn doomed() -> Value {
    json!({
        "timeout": "1s",
        "install": {"retries": 0, "onFailure": "Uninstall"},
        "upgrade": {"retries": 0, "onFailure": "Rollback"},
    })
}

/// The newest record becomes another tool's while nobody acts.
async fn theirs(h: &Harness, revision: u32) {
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    let record = h.decoded("web", revision).await.record;
    h.write_as_another_tool(&record).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_fails_over_another_tools_revision_is_retained() {
    let h = Harness::new("foreign-head-fails").await;
    h.deploy("web", &pack("blue"), doomed()).await;
    let uids = h.objects.uids(&OBJECTS).await;
    theirs(&h, 1).await;
    h.pack("web-pack", &bad("green")).await;
    h.edit_spec("web", json!({"suspend": null})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.records_show("web", &["1 deployed", "2 failed"]).await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    // What comes next is an upgrade.
    h.pack("web-pack", &pack("white")).await;
    h.shows("ConfigMap/settings", "/data/color", "white").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_does_not_go_back_past_another_tools_revision() {
    let h = Harness::new("foreign-head-past").await;
    h.deploy("web", &pack("blue"), doomed()).await;
    let password = h.objects.get("Secret/web-gen").await["data"].clone();
    h.pack("web-pack", &pack("green")).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    theirs(&h, 2).await;
    h.pack("web-pack", &bad("white")).await;
    h.edit_spec("web", json!({"suspend": null})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.records_show("web", &["1 superseded", "2 deployed", "3 failed"]).await;
    let private = h.decoded("web", 3).await.private.unwrap();
    assert_eq!((private.last_deployed, private.unreachable), (Some(1), Some(2)));
    assert!(private.leftovers.is_empty(), "what others may use by now is pruned: {:?}", private.leftovers);
    assert_eq!(h.objects.get("Secret/web-gen").await["data"], password);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_goes_over_another_tools_revision_says_what_stays() {
    let h = Harness::new("foreign-head-gone").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    h.pack("web-pack", &pack("green")).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    let uids = h.objects.uids(&OBJECTS).await;
    theirs(&h, 2).await;
    h.uninstall("web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    wait_for("an Event names what stays", async || {
        let told = h.events("web", "Orphaned").await;
        let named = told.iter().any(|note| {
            OBJECTS.iter().all(|object| {
                let (kind, name) = object.split_once('/').unwrap();
                note.contains(kind) && note.contains(name)
            })
        });
        if named { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_orphaned_names_what_stays() {
    let h = Harness::new("orphan-told").await;
    h.deploy("web", &pack("blue"), json!({"uninstall": {"policy": "Orphan"}})).await;
    h.uninstall("web").await;
    wait_for("an Event names what stays", async || {
        let told = h.events("web", "Orphaned").await;
        let named = told.iter().any(|note| note.contains("settings") && note.contains("web-gen"));
        if named { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
}
