//! An older state of a record, put back with its seal in order: nothing is done a second time.

use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, hook, with_annotation, with_pod_annotation};
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    let migrate =
        with_annotation(hook("migrate", "post-upgrade"), "sherpack.io/hook-delete-policy", "hook-succeeded");
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color}))).object(migrate)
}

/// An upgrade that waits until its pod is healed.
fn slow(color: &str) -> Pack {
    pack(color).object(with_pod_annotation(deployment("web", 1), "devcluster/unready", "true"))
}

fn runs(h: &Harness) -> usize {
    let creates = |request: &&Request| request.verb == "create";
    h.wire.writes_to("jobs", 0).iter().filter(creates).count()
}

fn digest(release: &Value) -> String {
    let message = condition(release, "Ready")["message"].as_str().unwrap().to_owned();
    let (_, digest) =
        message.split_once("sherpack.io/accept-record: ").unwrap_or_else(|| panic!("{message}"));
    digest.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_put_back_is_not_resumed_and_no_hook_runs_twice() {
    let h = Harness::new("rewound").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    h.pack("web-pack", &slow("green")).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    let old = h.record_secret("web", 2).await;
    h.heal("Deployment/web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    let newest = h.record_secret("web", 2).await;
    assert_eq!(runs(&h), 1);

    h.restore(old.clone()).await;
    h.condition("web", "Ready", "False", Some("RecordRewound")).await;
    // The next process knows it from the status.
    h.stop().await;
    h.start();
    h.pass("web").await;
    let held = h.condition("web", "Ready", "False", Some("RecordRewound")).await;
    assert_eq!(held["status"]["revision"], 2);
    assert!(h.decoded("web", 2).await.record.state.is_pending(), "it was written");
    assert_eq!(runs(&h), 1, "the hook ran again");

    h.restore(newest).await;
    h.ready("web").await;
    h.records_show("web", &["1 superseded", "2 deployed"]).await;
    assert_eq!(runs(&h), 1, "the hook ran again");
}

/// A hook that is deleted as soon as it is there, so that nothing but its creation tells that it ran.
fn announces(color: &str) -> Pack {
    let mut announced = config_map("announced", json!({"color": color}));
    announced["metadata"]["annotations"] =
        json!({"helm.sh/hook": "post-upgrade", "helm.sh/hook-delete-policy": "hook-succeeded"});
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color}))).object(announced)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_state_that_is_replayed_runs_no_hook_and_ends_no_second_upgrade() {
    let h = Harness::new("rewound-replay").await;
    h.deploy("web", &announces("blue"), json!({})).await;
    let slow = with_pod_annotation(deployment("web", 1), "devcluster/unready", "true");
    h.pack("web-pack", &announces("green").object(slow)).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    let pending = h.record_secret("web", 2).await;
    h.heal("Deployment/web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    let ran = || {
        let makes =
            |request: &&Request| request.verb == "create" && request.body["metadata"]["name"] == "announced";
        h.wire.writes_to("configmaps", 0).iter().filter(makes).count()
    };
    let ended = || {
        let tells = |request: &&Request| request.body["reason"] == "UpgradeSucceeded";
        h.wire.writes_to("events", 0).iter().filter(tells).count()
    };
    eventually("the upgrade is told", async || !h.events("web", "UpgradeSucceeded").await.is_empty()).await;
    assert_eq!((ran(), ended()), (1, 1));

    // The data of then, in a PUT with the resourceVersion of now.
    let mut replayed = h.record_secret("web", 2).await;
    replayed.data = pending.data;
    let name = replayed.metadata.name.clone().unwrap();
    let replayed = h.secrets().replace(&name, &PostParams::default(), &replayed).await.unwrap();
    h.condition("web", "Ready", "False", Some("RecordRewound")).await;
    h.pass("web").await;
    for again in [false, true] {
        if again {
            h.stop().await;
            h.start();
        }
        h.pass("web").await;
        h.condition("web", "Ready", "False", Some("RecordRewound")).await;
    }
    assert_eq!((ran(), ended()), (1, 1), "the upgrade went on once more");
    assert_eq!(h.record_secret("web", 2).await.data, replayed.data, "the record was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_state_counts_once_when_somebody_vouches_for_it() {
    let h = Harness::new("rewound-accept").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let old = h.record_secret("web", 1).await;
    // A test writes its result into the record.
    h.annotate("web", "sherpack.io/test-at", "1").await;
    h.shows("SherpackRelease/web", "/status/lastHandled/testAt", "1").await;
    h.restore(old.clone()).await;
    let held = h.condition("web", "Ready", "False", Some("RecordRewound")).await;
    h.annotate("web", "sherpack.io/accept-record", digest(&held)).await;
    h.ready("web").await;
    h.records_show("web", &["1 deployed"]).await;
    // What is vouched for is locked, and the same state put back once more is another matter.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.restore(old).await;
    let again = h.condition("web", "Ready", "False", Some("RecordRewound")).await;
    assert_ne!(digest(&again), digest(&held));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_of_records_and_release_together_holds_nothing() {
    let h = Harness::new("rewound-all").await;
    let first = h.deploy("web", &pack("blue"), json!({})).await;
    let old = h.record_secret("web", 1).await;
    h.pack("web-pack", &pack("green")).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    let ran = runs(&h);
    h.stop().await;
    h.pack("web-pack", &pack("blue")).await;
    h.lose_record("web", 2).await;
    h.restore(old).await;
    let status = &first["status"];
    let back = json!({"revision": status["revision"], "recordWrites": status["recordWrites"]});
    h.forge_status("web", back).await;
    h.start();
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.ready("web").await;
    h.records_show("web", &["1 deployed"]).await;
    assert_eq!(runs(&h), ran, "a hook ran");
}
