//! The lock: whether it is on. `drift.mode`, the annotations that open it, and everything that lets it wait.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use sherpack_operator::release::State;
use sherpack_operator::storage::{Compression, MacKey, codec};

use crate::support::harness::condition;
use crate::support::objects::uid;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

const RED: &str = "red";

fn settings() -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue", "size": "small"})))
}

fn mode(mode: &str) -> Value {
    json!({"drift": {"mode": mode}})
}

async fn paint(h: &Harness, what: &str) {
    h.objects.edit(what, "kubectl-edit", json!({"data": {"color": RED}})).await;
}

/// A second release that is locked; when its ConfigMap is back, every earlier change of a ConfigMap was seen.
async fn deploy_other(h: &Harness) {
    let pack = Pack::new("other", "1.0.0").object(config_map("other", json!({"color": "blue"})));
    h.deploy("other", &pack, json!({})).await;
}

async fn until_seen(h: &Harness) {
    paint(h, "ConfigMap/other").await;
    h.shows("ConfigMap/other", "/data/color", "blue").await;
}

/// Changes the ConfigMap, and shows that it stays changed although the operator saw it and made a pass.
async fn stays_changed(h: &Harness) {
    let mark = h.wire.mark();
    paint(h, "ConfigMap/settings").await;
    until_seen(h).await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("configmaps/settings", mark).len(), 0);
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], RED);
}

/// The next try is an interval away; what is put back meanwhile is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_cannot_go_on_stays_locked_and_tells_what_it_puts_back() {
    let h = Harness::new("drift-held-up").await;
    h.deploy("web", &settings(), json!({"interval": "1h"})).await;
    h.pack("web-pack", &settings().template("broken.yaml", "{{ values.missing.color }}")).await;
    h.condition("web", "Ready", "False", Some("RenderFailed")).await;
    paint(&h, "ConfigMap/settings").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.condition("web", "Drifted", "False", Some("DriftReverted")).await;
    wait_for("an Event tells it", async || {
        let events = h.events("web", "DriftReverted").await;
        if events.is_empty() { Err("no Event".to_owned()) } else { Ok(()) }
    })
    .await;
    let release = h.condition("web", "Ready", "False", Some("RenderFailed")).await;
    assert_eq!(release["status"]["drift"]["objects"][0]["action"], "Reverted", "{}", release["status"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warn_tells_who_changed_what_and_writes_nothing() {
    let h = Harness::new("drift-warn").await;
    h.deploy("web", &settings(), mode("Warn")).await;
    let mark = h.wire.mark();
    paint(&h, "ConfigMap/settings").await;
    let release = h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    let told = &release["status"]["drift"];
    assert_eq!(told["count"], 1);
    assert_eq!(told["objects"][0]["object"], "ConfigMap drift-warn/settings");
    assert_eq!(told["objects"][0]["paths"], json!(["/data/color"]));
    assert_eq!(told["objects"][0]["manager"], "kubectl-edit");
    assert_eq!(told["objects"][0]["action"], "Reported");
    let message = condition(&release, "Drifted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("settings") && message.contains("kubectl-edit"), "{message}");
    assert_eq!(condition(&release, "Ready")["status"], "True", "drift alone is no reason not to be ready");
    wait_for("an Event tells it", async || {
        let events = h.events("web", "DriftDetected").await;
        if events.is_empty() { Err("no Event".to_owned()) } else { Ok(()) }
    })
    .await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("configmaps/settings", mark).len(), 0);
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], RED);

    h.edit_spec("web", mode("Enabled")).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    let release = h.condition("web", "Drifted", "False", Some("DriftReverted")).await;
    assert_eq!(release["status"]["drift"]["count"], 0);
    assert_eq!(h.records("web").await.len(), 1, "a mode is no input of a revision");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warn_takes_back_what_it_told_when_the_difference_is_gone() {
    let h = Harness::new("drift-warn-back").await;
    let pack = settings().object(config_map("more", json!({"color": "blue"})));
    h.deploy("web", &pack, mode("Warn")).await;
    paint(&h, "ConfigMap/settings").await;
    h.objects.delete("ConfigMap/more").await;
    wait_for("both are told", async || {
        let drift = h.status("web").await["drift"].clone();
        if drift["count"] == 2 { Ok(()) } else { Err(drift.to_string()) }
    })
    .await;
    assert!(h.objects.find("ConfigMap/more").await.is_none());
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "blue"}})).await;
    wait_for("one difference is left", async || {
        let drift = h.status("web").await["drift"].clone();
        if drift["count"] == 1 { Ok(()) } else { Err(drift.to_string()) }
    })
    .await;
    h.edit_spec("web", mode("Enabled")).await;
    h.shows("ConfigMap/more", "/data/color", "blue").await;
    let release = h.condition("web", "Drifted", "False", None).await;
    assert_eq!(release["status"]["drift"]["count"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disabled_neither_writes_nor_tells() {
    let h = Harness::new("drift-disabled").await;
    h.deploy("web", &settings(), mode("Disabled")).await;
    deploy_other(&h).await;
    stays_changed(&h).await;
    let release = h.objects.get("SherpackRelease/web").await;
    assert_eq!(release["status"]["drift"], Value::Null);
    let drifted = condition(&release, "Drifted");
    assert_eq!((&drifted["status"], &drifted["reason"]), (&json!("Unknown"), &json!("DriftDisabled")));

    h.edit_spec("web", mode("Warn")).await;
    h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    // What was told is not claimed any more when nobody looks.
    h.edit_spec("web", mode("Disabled")).await;
    let release = h.condition("web", "Drifted", "Unknown", Some("DriftDisabled")).await;
    assert_eq!(release["status"]["drift"]["objects"], Value::Null);
    h.edit_spec("web", mode("Enabled")).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_says_so_is_not_locked() {
    let h = Harness::new("drift-ignored").await;
    let mut open = config_map("settings", json!({"color": "blue"}));
    open["metadata"]["annotations"] = json!({"sherpack.io/drift": "ignore"});
    let mut deleted = open.clone();
    deleted["metadata"]["name"] = json!("deleted");
    let pack = |version: &str| {
        let locked = config_map("locked", json!({"color": "blue"}));
        Pack::new("web", version).objects([open.clone(), deleted.clone(), locked])
    };
    h.deploy("web", &pack("1.0.0"), json!({})).await;
    deploy_other(&h).await;
    h.objects.delete("ConfigMap/deleted").await;
    stays_changed(&h).await;
    assert!(h.objects.find("ConfigMap/deleted").await.is_none());
    // Its neighbours are, and it is the same after a restart.
    paint(&h, "ConfigMap/locked").await;
    h.shows("ConfigMap/locked", "/data/color", "blue").await;
    h.start();
    h.operator_ready().await;
    stays_changed(&h).await;
    assert!(h.objects.find("ConfigMap/deleted").await.is_none());
    // A person who writes this on a live object opens nothing.
    let note = json!({"metadata": {"annotations": {"sherpack.io/drift": "ignore"}}});
    h.objects.edit("ConfigMap/locked", "kubectl-annotate", note).await;
    paint(&h, "ConfigMap/locked").await;
    h.shows("ConfigMap/locked", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_opens_until_a_moment_and_closes_by_itself() {
    let h = Harness::new("drift-pause").await;
    h.deploy("web", &settings(), json!({})).await;
    deploy_other(&h).await;
    let pause = "sherpack.io/drift-pause-until";
    let hour = Timestamp::now() + SignedDuration::from_hours(1);
    h.annotate("web", pause, hour.to_string()).await;
    // Changes of objects come by other watches than annotations do, and may be faster.
    h.condition("web", "Drifted", "Unknown", Some("DriftPaused")).await;
    stays_changed(&h).await;
    h.annotate("web", pause, Value::Null).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;

    let soon = Timestamp::now() + SignedDuration::from_secs(3);
    h.annotate("web", pause, soon.to_string()).await;
    h.pass("web").await;
    paint(&h, "ConfigMap/settings").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert!(Timestamp::now() >= soon, "it was put back before the pause had ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_more_than_a_day_opens_nothing() {
    let h = Harness::new("drift-pause-long").await;
    h.deploy("web", &settings(), json!({})).await;
    let far = Timestamp::now() + SignedDuration::from_hours(25);
    h.annotate("web", "sherpack.io/drift-pause-until", far.to_string()).await;
    h.pass("web").await;
    paint(&h, "ConfigMap/settings").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_of_a_suspended_release_is_put_back_when_it_goes_on() {
    let h = Harness::new("drift-suspended").await;
    h.deploy("web", &settings(), json!({})).await;
    deploy_other(&h).await;
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    let before = h.objects.get("ConfigMap/settings").await;
    stays_changed(&h).await;
    h.edit_spec("web", json!({"suspend": false})).await;
    let after = h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert_eq!(uid(&after), uid(&before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_put_back_when_another_tool_has_ended_its_operation() {
    let h = Harness::new("drift-foreign").await;
    h.deploy("web", &settings(), json!({})).await;
    deploy_other(&h).await;
    let ours: Secret = serde_json::from_value(h.records("web").await[0].clone()).unwrap();
    // A key of nobody: what it reads and writes is another tool's.
    let key = MacKey::new([7; 32]);
    let mut record = codec::decode(&ours, &key).unwrap().record;
    record.version = 2;
    record.state = State::PendingUpgrade { started_at: Timestamp::now(), timeout: 600, previous_version: 1 };
    let theirs = codec::encode(&record, None, Compression::Zstd, &key, false).unwrap();
    let theirs = serde_json::to_value(&theirs).unwrap();
    let name = theirs["metadata"]["name"].as_str().unwrap().to_owned();
    h.objects.create("sherpack-cli", theirs).await;
    h.condition("web", "Ready", "False", Some("ForeignPending")).await;
    stays_changed(&h).await;
    h.objects.delete(&format!("Secret/{name}")).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_during_an_operation_is_put_back_after_it() {
    let h = Harness::new("drift-pending").await;
    h.deploy("web", &settings(), json!({})).await;
    deploy_other(&h).await;
    let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    let next =
        Pack::new("web", "2.0.0").object(config_map("settings", json!({"color": "green"}))).object(slow);
    h.apply("web", &next, json!({})).await;
    wait_for("the upgrade waits", async || {
        let operation = h.status("web").await["operation"].clone();
        if operation["phase"] == "Wait" { Ok(()) } else { Err(operation.to_string()) }
    })
    .await;
    let mark = h.wire.mark();
    paint(&h, "ConfigMap/settings").await;
    until_seen(&h).await;
    assert_eq!(h.wire.writes_to("configmaps/settings", mark).len(), 0, "hands off while pending");
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warn_does_not_look_at_each_event_of_an_object_that_it_told_of() {
    let h = Harness::new("drift-warn-calm").await;
    h.deploy("web", &settings(), mode("Warn")).await;
    paint(&h, "ConfigMap/settings").await;
    h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    let mark = h.wire.mark();
    let events = 6;
    for number in 0..events {
        // As a controller that writes a status: nothing of ours changes.
        let note = json!({"metadata": {"annotations": {"example.com/seen": number.to_string()}}});
        h.objects.edit("ConfigMap/settings", "a-controller", note).await;
        h.pass("web").await;
    }
    let looks = h
        .wire
        .since(mark)
        .into_iter()
        .filter(|request| request.is_about("configmaps/settings") && request.query.contains("dryRun="));
    let looks = looks.count();
    assert!(looks < events, "{looks} looks at {events} events");
    // A change of what is ours is looked at without a wait, and one that is over is noticed after it.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"size": "big"}})).await;
    h.sees("SherpackRelease/web", |release| {
        release["status"]["drift"]["objects"][0]["paths"] == json!(["/data"])
    })
    .await;
    let back = json!({"data": {"color": "blue", "size": "small"}});
    h.objects.edit("ConfigMap/settings", "kubectl-edit", back).await;
    h.condition("web", "Drifted", "False", None).await;
}
