//! A newest record of another tool: ours below it are still read, and nothing that was deployed is lost.

use serde_json::{Value, json};
use sherpack_operator::release::{Record, State};

use crate::support::harness::condition;
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
        "timeout": "6s",
        "install": {"retries": 0, "onFailure": "Uninstall"},
        "upgrade": {"retries": 0, "onFailure": "Rollback"},
    })
}

pub(super) fn failed() -> State {
    State::Failed { reason: "theirs".to_owned(), recoverable: true, failed_at: jiff::Timestamp::now() }
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

/// What the lost revision had deployed is not the next one's to take away, whatever another tool says in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployed_revision_that_another_tools_failed_one_replaces_is_not_gone_back_past() {
    let h = Harness::new("foreign-head-lost").await;
    let with_extra = |pack: Pack| pack.object(config_map("extra", json!({"a": "b"})));
    h.deploy("web", &pack("blue"), doomed()).await;
    h.pack("web-pack", &with_extra(pack("green"))).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    let uids = h.objects.uids(&["ConfigMap/settings", "ConfigMap/extra"]).await;
    h.stop().await;
    let record = h.decoded("web", 2).await.record;
    h.write_as_another_tool(&Record { state: failed(), ..record }).await;
    h.pack("web-pack", &with_extra(bad("white"))).await;
    h.start();
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.records_show("web", &["1 superseded", "2 failed", "3 failed"]).await;
    assert_eq!(h.decoded("web", 3).await.private.unwrap().unreachable, Some(2));
    assert_eq!(h.objects.uids(&["ConfigMap/settings", "ConfigMap/extra"]).await, uids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_under_way_ends_when_another_tools_one_is_replaced() {
    let h = Harness::new("foreign-head-pending").await;
    h.deploy("web", &pack("blue"), json!({"timeout": "2m"})).await;
    h.pack("web-pack", &bad("green")).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.stop().await;
    let record = h.decoded("web", 2).await.record;
    h.write_as_another_tool(&Record { version: 3, state: failed(), ..record }).await;
    h.pack("web-pack", &pack("white")).await;
    h.start();
    h.ready("web").await;
    h.records_show("web", &["1 superseded", "2 failed", "3 failed", "4 deployed"]).await;
}

/// Another tool's revision on top of it proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_in_doubt_below_another_tools_revision_holds_the_release() {
    let h = Harness::new("foreign-head-doubt").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let password = h.objects.get("Secret/web-gen").await["data"].clone();
    h.stop().await;
    let proved = h.record_secret("web", 1).await;
    let record = h.decoded("web", 1).await.record;
    h.forge("web", 1, |record| record.notes = Some("forged".to_owned())).await;
    h.write_as_another_tool(&Record { version: 2, ..record }).await;
    h.pack("web-pack", &pack("green")).await;
    h.start();
    let held = h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("sh.sherpack.release.v1.web.v1") && message.contains("delete it"), "{message}");
    h.records_show("web", &["1 deployed", "2 deployed"]).await;
    h.restore(proved).await;
    h.pass("web").await;
    h.ready("web").await;
    h.records_show("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    assert_eq!(h.objects.get("Secret/web-gen").await["data"], password);
}
