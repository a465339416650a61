//! Sync waves: one after another, each healthy before the next, and in reverse when they go.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_annotation, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

fn wave(object: Value, wave: &str) -> Value {
    with_annotation(object, "sherpack.io/sync-wave", wave)
}

/// It has a pod that runs and is not ready until `heal`.
fn slow(name: &str) -> Value {
    with_pod_annotation(deployment(name, 1), "devcluster/unready", "true")
}

fn message(release: &Value, type_: &str) -> String {
    condition(release, type_)["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wave_begins_when_the_one_before_is_healthy() {
    let h = Harness::new("wave-order").await;
    let pack = Pack::new("web", "1.0.0")
        .object(wave(config_map("last", json!({"a": "b"})), "2"))
        .object(slow("db"))
        .object(wave(config_map("early", json!({"a": "b"})), "-1"))
        .object(wave(deployment("web", 1), "1"));
    h.apply("web", &pack, json!({})).await;
    let shown = h.sees("SherpackRelease/web", |release| release["status"]["operation"]["wave"] == 0).await;
    let operation = &shown["status"]["operation"];
    assert_eq!(
        (&operation["waves"], &operation["waitingFor"][0]["object"]),
        (&json!(4), &json!("Deployment wave-order/db"))
    );
    h.objects.get("ConfigMap/early").await;
    assert!(h.objects.find("Deployment/web").await.is_none(), "its wave has not begun");
    h.heal("Deployment/db").await;
    h.ready("web").await;
    let writes: Vec<String> = h
        .wire
        .writes_since(0)
        .iter()
        .filter(|request| request.is_about("configmaps") || request.is_about("deployments"))
        .map(|request| request.path.rsplit('/').next().unwrap_or_default().to_owned())
        .filter(|name| ["early", "db", "web", "last"].contains(&name.as_str()))
        .collect();
    assert_eq!(writes, ["early", "db", "web", "last"]);

    let mark = h.wire.mark();
    h.uninstall("web").await;
    let deleted: Vec<String> = h
        .wire
        .writes_since(mark)
        .iter()
        .filter(|request| request.verb == "delete")
        .map(|request| request.path.rsplit('/').next().unwrap_or_default().to_owned())
        .filter(|name| ["early", "db", "web", "last"].contains(&name.as_str()))
        .collect();
    assert_eq!(deleted, ["last", "web", "db", "early"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_operator_goes_on_with_the_wave_at_which_it_was() {
    let h = Harness::new("wave-resume").await;
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("early", json!({"a": "b"})))
        .object(wave(slow("db"), "1"))
        .object(wave(config_map("last", json!({"a": "b"})), "2"));
    h.apply("web", &pack, json!({})).await;
    h.sees("SherpackRelease/web", |release| release["status"]["operation"]["wave"] == 1).await;
    let mark = h.wire.mark();
    h.kill();
    h.start();
    h.heal("Deployment/db").await;
    h.ready("web").await;
    assert!(h.wire.writes_to("configmaps/early", mark).is_empty(), "the first wave was done");
    assert_eq!(h.wire.writes_to("configmaps/last", mark).len(), 1);
    h.shows_states("web", &["1 deployed"]).await;
    // What the killed one applied is locked all the same.
    h.objects.edit("ConfigMap/early", "kubectl-edit", json!({"data": {"a": "x"}})).await;
    h.shows("ConfigMap/early", "/data/a", "b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wave_has_its_own_time() {
    let h = Harness::new("wave-timeout").await;
    let pack =
        Pack::new("web", "1.0.0").object(slow("db")).object(wave(config_map("last", json!({"a": "b"})), "1"));
    h.apply("web", &pack, json!({"waves": {"timeout": "1s"}, "install": {"retries": 0}})).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("not healthy within 1s: Deployment wave-timeout/db"), "{held}");
    assert!(h.objects.find("ConfigMap/last").await.is_none());
    // Without waits between them all waves are applied.
    h.edit_spec("web", json!({"waves": {"wait": false}, "wait": false, "values": {"a": 1}})).await;
    h.ready("web").await;
    h.objects.get("ConfigMap/last").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_wait_for_those_that_they_name_and_for_none_that_is_skipped() {
    let h = Harness::new("wave-named").await;
    let pack = Pack::new("web", "1.0.0")
        .object(slow("db"))
        .object(with_annotation(slow("cache"), "sherpack.io/skip-wait", "true"))
        .object(with_annotation(
            config_map("after", json!({"a": "b"})),
            "sherpack.io/wait-for",
            "Deployment/db",
        ));
    h.apply("web", &pack, json!({})).await;
    wait_for("both Deployments", async || {
        let both = h.objects.find("Deployment/db").await.is_some()
            && h.objects.find("Deployment/cache").await.is_some();
        if both { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let shown =
        h.sees("SherpackRelease/web", |release| release["status"]["operation"]["phase"] == "Wait").await;
    assert_eq!(shown["status"]["operation"]["waitingFor"].as_array().map(Vec::len), Some(1));
    assert!(h.objects.find("ConfigMap/after").await.is_none());
    h.heal("Deployment/db").await;
    h.ready("web").await;
    h.objects.get("ConfigMap/after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_spec_ends_the_wait_of_a_wave_at_once() {
    let h = Harness::new("wave-interrupt").await;
    let pack = |color: &str| {
        Pack::new("web", "1.0.0")
            .object(config_map("settings", json!({"color": color})))
            .object(wave(slow("db"), "1"))
            .object(wave(config_map("last", json!({"a": "b"})), "2"))
    };
    h.apply("web", &pack("blue"), json!({"waves": {"timeout": "1h"}, "timeout": "2h"})).await;
    h.sees("SherpackRelease/web", |release| release["status"]["operation"]["wave"] == 1).await;
    h.pack("web-pack", &pack("green")).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.heal("Deployment/db").await;
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
}
