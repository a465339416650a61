//! A revision under way makes way only for one that can begin. Until then it goes on, and the release says what is wrong.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, hook, with_annotation, with_pod_annotation};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

/// Its replicas have to be a number.
fn pack(version: &str, v: &str) -> Pack {
    let schema = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    Pack::new("web", version)
        .file("values.schema.json", schema.to_string())
        .objects([config_map("settings", json!({"v": v})), deployment("web", 1)])
}

fn slow() -> Value {
    with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true")
}

/// Revision 1 is deployed, revision 2 waits for `slow`.
async fn waiting(h: &Harness, more: Value) {
    h.deploy("web", &pack("1.0.0", "1"), more).await;
    h.pack("web-pack", &pack("2.0.0", "2").object(slow())).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.shows("ConfigMap/settings", "/data/v", "2").await;
}

/// Ways to want something that cannot begin, with a word of what is told about it.
const WAYS: [(&str, &str); 5] = [
    ("schema", "replicas"),
    ("depends", "nowhere"),
    ("paused", "spec.upgrade.paused"),
    ("render", "missing"),
    ("source", "nowhere"),
];

async fn wants(h: &Harness, way: &str) {
    match way {
        "schema" => drop(h.edit_spec("web", json!({"values": {"replicas": "notint"}})).await),
        "depends" => {
            let spec = json!({"values": {"color": "red"}, "dependsOn": [{"name": "nowhere"}]});
            h.edit_spec("web", spec).await;
        }
        "paused" => {
            h.edit_spec("web", json!({"values": {"color": "red"}, "upgrade": {"paused": true}})).await;
        }
        "source" => drop(h.edit_spec("web", json!({"pack": {"configMap": {"name": "nowhere"}}})).await),
        _ => h.pack("web-pack", &pack("3.0.0", "3").template("x.yaml", "{{ values.missing.key }}")).await,
    }
}

async fn told(h: &Harness, word: &str) {
    h.sees("SherpackRelease/web", |release| {
        let message = condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned();
        message.contains("what is wanted now does not take over") && message.contains(word)
    })
    .await;
}

async fn locked(h: &Harness, v: &str) {
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"v": "9"}})).await;
    h.shows("ConfigMap/settings", "/data/v", v).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_begin_interrupts_nothing() {
    let lives = WAYS.map(async |(way, word)| {
        let h = Harness::new(&format!("successor-{way}")).await;
        waiting(&h, json!({"timeout": "2m"})).await;
        wants(&h, way).await;
        told(&h, word).await;
        h.shows_states("web", &["1 deployed", "2 pending-upgrade"]).await;
        h.heal("Deployment/slow").await;
        h.shows_states("web", &["1 superseded", "2 deployed"]).await;
        let release = h.condition("web", "Ready", "False", None).await;
        assert!(
            condition(&release, "Ready")["message"].as_str().unwrap().contains(word) || way == "paused",
            "{release}"
        );
        locked(&h, "2").await;
    });
    futures::future::join_all(lives).await;
}

/// Nothing else can help then: its own retries would need inputs that nobody wants any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_while_nothing_can_take_over_is_undone() {
    let lives = WAYS.map(async |(way, _)| {
        let h = Harness::new(&format!("successor-fails-{way}")).await;
        waiting(&h, json!({"timeout": "8s"})).await;
        wants(&h, way).await;
        h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
        h.shows("ConfigMap/settings", "/data/v", "1").await;
        h.gone("Deployment/slow").await;
        locked(&h, "1").await;
    });
    futures::future::join_all(lives).await;
}

/// A pause alone keeps the retries from coming, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_while_the_release_is_paused_is_undone() {
    let h = Harness::new("successor-paused-alone").await;
    waiting(&h, json!({"timeout": "8s"})).await;
    h.edit_spec("web", json!({"upgrade": {"paused": true}})).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    locked(&h, "1").await;
}

/// It renders, and yet it cannot be stored: an object of it is somebody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_while_an_object_of_the_next_one_is_not_ours_is_undone() {
    let h = Harness::new("successor-not-owned").await;
    h.objects.create("kubectl-create", config_map("theirs", json!({"a": "b"}))).await;
    waiting(&h, json!({"timeout": "8s"})).await;
    h.pack("web-pack", &pack("3.0.0", "3").object(config_map("theirs", json!({"a": "c"})))).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
    locked(&h, "1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_interrupted_has_not_failed() {
    let h = Harness::new("successor-back").await;
    waiting(&h, json!({"timeout": "2m", "upgrade": {"retries": 0}})).await;
    // A typo that is taken back changes nothing.
    wants(&h, "schema").await;
    told(&h, "replicas").await;
    h.edit_spec("web", json!({"values": null})).await;
    h.sees("SherpackRelease/web", |release| {
        !condition(release, "Ready")["message"].as_str().unwrap_or_default().contains("does not take over")
    })
    .await;
    h.shows_states("web", &["1 deployed", "2 pending-upgrade"]).await;
    h.pack("web-pack", &pack("3.0.0", "3").object(slow())).await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 pending-upgrade"]).await;
    h.pack("web-pack", &pack("2.0.0", "2").object(slow())).await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 failed", "4 pending-upgrade"]).await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 failed", "4 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/v", "2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_the_two_records_loses_neither() {
    let h = Harness::new("successor-crash").await;
    waiting(&h, json!({"timeout": "2m"})).await;
    let third = |request: &Request| {
        request.verb == "create" && request.body["metadata"]["name"] == "sh.sherpack.release.v1.web.v3"
    };
    h.wire.fault(Fault::new(Effect::KillAfter, third).once());
    h.pack("web-pack", &pack("3.0.0", "3")).await;
    h.wire.killed().await;
    assert_eq!(h.states("web").await, ["1 deployed", "2 pending-upgrade", "3 pending-upgrade"]);
    h.wire.heal();
    h.start();
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/v", "3").await;
    h.gone("Deployment/slow").await;
}

/// It finishes what it applies. Only its wait for health ends, when something else can begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_under_way_is_finished_before_something_else_begins() {
    let h = Harness::new("successor-rollback").await;
    let of = |version: &str, v: &str, web: Value| {
        Pack::new("web", version).objects([config_map("settings", json!({"v": v})), web])
    };
    let first = with_pod_annotation(deployment("web", 1), "devcluster/unready", "true");
    h.apply("web", &of("1.0.0", "1", first.clone()), json!({"timeout": "2m"})).await;
    h.heal("Deployment/web").await;
    h.ready("web").await;
    let check = with_annotation(hook("check", "post-upgrade"), "sherpack.io/hook-failure-policy", "rollback");
    let check = with_pod_annotation(check, "devcluster/fail", "true");
    h.pack("web-pack", &of("2.0.0", "2", deployment("web", 1)).object(check)).await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 pending-rollback"]).await;
    h.shows("ConfigMap/settings", "/data/v", "1").await;
    h.pack("web-pack", &of("4.0.0", "4", first).template("x.yaml", "{{ values.missing.key }}")).await;
    told(&h, "missing").await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 pending-rollback"]).await;
    h.pack("web-pack", &pack("5.0.0", "5")).await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 superseded", "4 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/v", "5").await;
}

/// What is wanted next may be refused for good: what a crash left to do is not left for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_older_revision_is_superseded_is_made_up_for() {
    let h = Harness::new("successor-supersede").await;
    h.deploy("web", &pack("1.0.0", "1"), json!({})).await;
    let supersede = |request: &Request| {
        request.is_about("secrets/sh.sherpack.release.v1.web.v1") && request.verb == "update"
    };
    h.wire.fault(Fault::new(Effect::KillBefore, supersede).once());
    h.pack("web-pack", &pack("2.0.0", "2")).await;
    h.wire.killed().await;
    assert_eq!(h.states("web").await, ["1 deployed", "2 deployed"]);
    h.pack("web-pack", &pack("3.0.0", "3").template("x.yaml", "{{ values.missing.key }}")).await;
    h.wire.heal();
    h.start();
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.condition("web", "Ready", "False", Some("RenderFailed")).await;
    locked(&h, "2").await;
}
