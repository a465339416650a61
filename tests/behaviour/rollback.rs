//! Going back: because an upgrade failed, or because the spec says so; and the tests of what is deployed.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, hook, with_annotation, with_pod_annotation};
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": color})))
        .object(deployment("web", 1))
}

/// With a Deployment that does not get ready.
fn stuck(color: &str) -> Pack {
    pack(color).object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

fn message(release: &Value, type_: &str) -> String {
    condition(release, type_)["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_upgrade_makes_way_for_what_was_deployed_and_is_not_tried_on_and_on() {
    let h = Harness::new("undo-upgrade").await;
    let hooks = |pack: Pack| pack.object(hook("undo", "pre-rollback"));
    h.deploy("web", &hooks(pack("blue")), json!({"upgrade": {"retries": 0}})).await;
    // Enough for the hook of the way back on a busy machine.
    h.edit_spec("web", json!({"timeout": "8s"})).await;
    h.ready("web").await;
    h.pack("web-pack", &hooks(stuck("green"))).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("Deployment undo-upgrade/slow"), "{held}");
    assert_eq!(condition(&held, "Released")["status"], "True");
    assert_eq!((&held["status"]["revision"], &held["status"]["failures"]), (&json!(3), &json!(1)));
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.gone("Deployment/slow").await;
    h.objects.get("Job/undo").await;
    let back = h.decoded("web", 3).await;
    assert_eq!(back.private.unwrap().target, Some(1));
    // It is locked.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    // Nothing more happens by itself.
    h.pass("web").await;
    h.kill();
    h.start();
    h.pass("web").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    // A reset tries it once more, and other inputs go their own way.
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 superseded", "4 failed", "5 deployed"]).await;
    h.pack("web-pack", &hooks(pack("yellow"))).await;
    h.ready("web").await;
    h.shows("ConfigMap/settings", "/data/color", "yellow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_install_that_fails_is_taken_away_when_the_spec_says_so() {
    let h = Harness::new("undo-install").await;
    let spec = json!({"timeout": "3s", "install": {"retries": 0, "onFailure": "Uninstall"}});
    h.apply("web", &stuck("blue"), spec).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    // The history of the status says that it failed.
    h.records_show("web", &["1 uninstalled"]).await;
    assert!(message(&held, "Ready").contains("Deployment undo-install/slow"), "{held}");
    for object in ["ConfigMap/settings", "Deployment/web", "Deployment/slow"] {
        h.gone(object).await;
    }
    // Without a workload: it has no more time than the first one had.
    h.pack("web-pack", &Pack::new("web", "2.0.0").object(config_map("settings", json!({"color": "green"}))))
        .await;
    h.ready("web").await;
    h.shows_states("web", &["1 uninstalled", "2 deployed"]).await;
    h.uninstall("web").await;
    assert!(h.records("web").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_pinned_to_a_revision_until_the_field_is_removed() {
    let h = Harness::new("pin").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    h.pack("web-pack", &pack("green").object(config_map("new", json!({"a": "b"})))).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.condition("web", "Ready", "True", Some("RollbackSucceeded")).await;
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.gone("ConfigMap/new").await;
    // Whatever else is wanted waits.
    h.pack("web-pack", &pack("yellow")).await;
    h.pass("web").await;
    let pinned = h.ready("web").await;
    assert!(message(&pinned, "Ready").contains("pinned by spec.rollbackTo"), "{pinned}");
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.edit_spec("web", json!({"rollbackTo": null})).await;
    h.shows("ConfigMap/settings", "/data/color", "yellow").await;
    h.ready("web").await;

    for (revision, problem) in [(9, "there is no such revision"), (77, "there is no such revision")] {
        h.edit_spec("web", json!({"rollbackTo": revision})).await;
        let held = h.condition("web", "Ready", "False", Some("RollbackTargetInvalid")).await;
        assert!(message(&held, "Ready").contains(problem), "{held}");
        assert_eq!(condition(&held, "Stalled")["status"], "True");
    }
    // The lock stays on meanwhile.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "yellow").await;
    h.damage("web", 1, |blob| blob.truncate(20)).await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.sees("SherpackRelease/web", |release| {
        message(release, "Ready").contains("revision 1 cannot be gone back to")
    })
    .await;
    h.shows_states("web", &["Damaged", "2 superseded", "3 superseded", "4 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_is_kept_outlives_the_release() {
    let h = Harness::new("keep-history").await;
    h.deploy("web", &pack("blue"), json!({"uninstall": {"keepHistory": true}})).await;
    h.uninstall("web").await;
    h.gone("ConfigMap/settings").await;
    h.records_show("web", &["1 uninstalled"]).await;
    h.deploy("web", &pack("green"), json!({})).await;
    h.shows_states("web", &["1 uninstalled", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_run_after_success_and_when_they_are_asked_for() {
    let h = Harness::new("tests").await;
    let test = |color: &str| pack(color).object(hook("smoke", "test"));
    h.deploy("web", &test("blue"), json!({})).await;
    assert!(h.objects.find("Job/smoke").await.is_none(), "nobody asked");
    h.annotate("web", "sherpack.io/test-at", "one").await;
    let tested = h.condition("web", "Tested", "True", Some("TestsSucceeded")).await;
    assert_eq!(tested["status"]["lastHandled"]["testAt"], "one");
    let first = h.objects.uids(&["Job/smoke"]).await;
    h.pass("web").await;
    assert_eq!(h.objects.uids(&["Job/smoke"]).await, first, "once for each request");
    h.annotate("web", "sherpack.io/test-at", "two").await;
    h.shows("SherpackRelease/web", "/status/lastHandled/testAt", "two").await;
    assert_ne!(h.objects.uids(&["Job/smoke"]).await, first);

    // Enabled: after each upgrade, and a failure counts.
    let failing = with_pod_annotation(
        with_annotation(hook("smoke", "test"), "sherpack.io/hook-weight", "1"),
        "devcluster/fail",
        "true",
    );
    h.edit_spec("web", json!({"test": {"enabled": true}})).await;
    h.pack("web-pack", &pack("green").object(failing)).await;
    let held = h.condition("web", "Ready", "False", Some("TestFailed")).await;
    assert!(message(&held, "Tested").contains("exit code 1"), "{held}");
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.edit_spec("web", json!({"test": {"ignoreFailures": true}})).await;
    let ready = h.ready("web").await;
    assert_eq!(condition(&ready, "Tested")["status"], "False");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_need_no_pack_but_only_what_is_deployed() {
    let h = Harness::new("tests-without-pack").await;
    h.deploy("web", &pack("blue").object(hook("smoke", "test")), json!({})).await;
    h.objects.delete("ConfigMap/web-pack").await;
    h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    h.annotate("web", "sherpack.io/test-at", "now").await;
    let tested = h.condition("web", "Tested", "True", Some("TestsSucceeded")).await;
    assert_eq!(tested["status"]["lastHandled"]["testAt"], "now", "{tested}");
    // What is missing is missed all the same.
    h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_back_goes_on_while_other_inputs_wait() {
    let h = Harness::new("undo-interrupted").await;
    let slow = with_pod_annotation(hook("undo", "pre-rollback"), "devcluster/unready", "true");
    h.deploy("web", &pack("blue").object(slow), json!({"upgrade": {"retries": 0, "onFailure": "Rollback"}}))
        .await;
    h.edit_spec("web", json!({"timeout": "8s"})).await;
    h.ready("web").await;
    h.pack("web-pack", &stuck("green")).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "pre-rollback").await;
    // Other inputs, which wait.
    h.edit_spec("web", json!({"values": {"a": "b"}, "upgrade": {"paused": true}})).await;
    h.sees("SherpackRelease/web", |release| {
        message(release, "Ready")
            .ends_with("what is wanted now does not take over: spec.upgrade.paused is true")
    })
    .await;
    h.heal("Job/undo").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.condition("web", "Ready", "False", Some("Paused")).await;
    h.gone("Deployment/slow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_upgrade_whose_way_back_is_gone_is_held_and_recovers_when_the_pack_is_mended() {
    let h = Harness::new("undo-nowhere").await;
    h.deploy("web", &pack("blue"), json!({"upgrade": {"retries": 0}})).await;
    h.edit_spec("web", json!({"timeout": "8s"})).await;
    h.ready("web").await;
    h.pack("web-pack", &stuck("green")).await;
    h.sees("Deployment/slow", |object| object["status"]["unavailableReplicas"] == 1).await;
    h.lose_record("web", 1).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    let told = message(&held, "Ready");
    assert!(told.contains("Deployment undo-nowhere/slow"), "{told}");
    assert!(told.contains("revision 1 cannot be gone back to: there is no such revision"), "{told}");
    assert!(told.contains("sherpack.io/reset-at") && !told.contains("next try at"), "{told}");
    assert_eq!(condition(&held, "Stalled")["status"], "True");
    let mark = h.wire.mark();
    h.pass("web").await;
    assert!(h.wire.writes_to("secrets", mark).is_empty(), "it is not tried on and on");
    h.shows_states("web", &["2 failed"]).await;
    h.pack("web-pack", &pack("yellow")).await;
    h.ready("web").await;
    h.shows_states("web", &["2 failed", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "yellow").await;
    h.gone("Deployment/slow").await;
}
