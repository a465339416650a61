//! A record that is lost, damaged or another release's stops its release and deletes nothing.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, secret};
use crate::support::{Harness, Pack};

const OBJECTS: [&str; 4] =
    ["ConfigMap/settings", "ConfigMap/dropped", "Secret/credentials", "Deployment/web"];

fn settings() -> Value {
    config_map("settings", json!({"color": "{{ values.color }}"}))
}

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .values("color: blue\n")
        .object(settings())
        .object(config_map("dropped", json!({"a": "b"})))
        .object(secret("credentials", json!({"password": "s3cret"})))
        .object(deployment("web", 1))
}

/// The same without one of its objects: an upgrade to it would prune.
fn smaller() -> Pack {
    Pack::new("web", "1.1.0")
        .values("color: green\n")
        .object(settings())
        .object(secret("credentials", json!({"password": "s3cret"})))
        .object(deployment("web", 1))
}

/// The release is stopped for `reason`: whatever is wanted, nothing is changed, put back or deleted.
async fn is_stopped(h: &Harness, reason: &str, uids: &[String]) {
    let held = h.condition("web", "Ready", "False", Some(reason)).await;
    assert_eq!(condition(&held, "Stalled")["status"], "True", "{held}");
    let healthy = condition(&held, "Healthy");
    assert_eq!((&healthy["status"], &healthy["reason"]), (&json!("Unknown"), &json!(reason)), "{held}");
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pack("web-pack", &smaller()).await;
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some(reason)).await;
    for kind in ["configmaps", "deployments", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written");
    }
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
}

/// After a reset the release is deployed from its spec, under a number that was never used, and nothing is pruned.
async fn starts_over(h: &Harness, revision: u32, uids: &[String]) {
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["revision"], revision);
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    // It is locked again.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_record_stops_the_release_until_it_is_reset() {
    let h = Harness::new("record-lost").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    h.lose_record("web", 1).await;
    is_stopped(&h, "RecordLost", &uids).await;
    starts_over(&h, 2, &uids).await;
    h.shows_states("web", &["2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_lost_while_the_operator_is_down_stops_the_release() {
    let h = Harness::new("record-lost-down").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    h.stop().await;
    h.lose_record("web", 1).await;
    h.start();
    is_stopped(&h, "RecordLost", &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_revision_does_not_stand_in_for_a_lost_newest_one() {
    let h = Harness::new("record-lost-newest").await;
    h.deploy("web", &pack(), json!({})).await;
    h.edit_spec("web", json!({"values": {"color": "white"}})).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    let uids = h.objects.uids(&OBJECTS).await;
    h.lose_record("web", 2).await;
    is_stopped(&h, "RecordLost", &uids).await;
    h.edit_spec("web", json!({"values": null})).await;
    starts_over(&h, 3, &uids).await;
    h.shows_states("web", &["1 superseded", "3 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_record_is_taken_up_again_without_a_new_revision() {
    let h = Harness::new("record-restored").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    let backup = h.lose_record("web", 1).await;
    h.condition("web", "Healthy", "Unknown", Some("RecordLost")).await;
    // Made while nobody locked.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.restore(backup).await;
    let ready = h.ready("web").await;
    assert_eq!(
        condition(&ready, "Healthy")["reason"],
        "HealthUnknown",
        "nobody has judged it since: {ready}"
    );
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows_states("web", &["1 deployed"]).await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_record_stops_the_release_until_it_is_reset() {
    let h = Harness::new("record-truncated").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    h.damage("web", 1, |bytes| bytes.truncate(bytes.len() / 8 * 4)).await;
    is_stopped(&h, "RecordUnreadable", &uids).await;
    starts_over(&h, 2, &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_its_data_stops_the_release() {
    let h = Harness::new("record-empty").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    h.damage("web", 1, Vec::clear).await;
    is_stopped(&h, "RecordUnreadable", &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_names_another_release_inside_stops_the_release() {
    let h = Harness::new("record-foreign-name").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    let whole = h.record_secret("web", 1).await;
    h.forge("web", 1, |record| record.name = "other".to_owned()).await;
    is_stopped(&h, "RecordUnreadable", &uids).await;
    let message = condition(&h.objects.get("SherpackRelease/web").await, "Ready")["message"].clone();
    assert!(message.as_str().unwrap().contains("other"), "{message}");

    h.restore(whole).await;
    h.ready("web").await;
    assert!(h.objects.find("ConfigMap/dropped").await.is_none(), "the wanted upgrade goes on and prunes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_damaged_while_its_upgrade_runs_ends_the_operation_and_deletes_nothing() {
    let h = Harness::new("record-damaged-midway").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    let unready =
        crate::support::packs::with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.pack("web-pack", &smaller().object(unready)).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.damage("web", 2, |bytes| bytes.truncate(40)).await;
    h.condition("web", "Ready", "False", Some("RecordUnreadable")).await;
    h.pass("web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
}
