//! `spec.lock` follows the state of the release: deployed is locked, and in every other state nothing is touched.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::support::Harness;
use crate::support::harness::condition;
use crate::support::helm::{Helm, Line};
use crate::support::packs::{config_map, deployment, with_pod_annotation};

fn settings() -> Value {
    config_map("settings", json!({"color": "{{ .Values.color }}"}))
}

async fn installed(h: &Harness, line: Line) -> Helm {
    let helm = Helm::new(h, line, "shop");
    helm.chart("1.0.0", &[settings()]);
    helm.does("install", &["--set", "color=blue"]).await;
    h.release("guard", json!({"lock": {"helmRelease": {"name": "shop"}}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    helm
}

async fn paint(h: &Harness, color: &str) {
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": color}})).await;
}

async fn color(h: &Harness) -> Value {
    h.objects.get("ConfigMap/settings").await["data"]["color"].clone()
}

/// Nothing is written although the object was changed and passes were made.
async fn stays_changed(h: &Harness) {
    let mark = h.wire.mark();
    paint(h, "red").await;
    h.pass("guard").await;
    h.pass("guard").await;
    assert_eq!(color(h).await, "red");
    assert!(h.wire.writes_to("configmaps", mark).is_empty());
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap().to_owned()
}

async fn stands_back_while_pending(line: Line, namespace: &str) {
    let h = Harness::new(namespace).await;
    let helm = installed(&h, line).await;
    let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    helm.chart("1.1.0", &[settings(), slow]);
    let mut upgrade = helm.begin_upgrade(&["--set", "color=green", "--wait", "--timeout", "120s"]);
    let pending = h.condition("guard", "Reconciling", "True", Some("StandingBack")).await;
    assert!(message(&pending).contains("revision 2 of the Helm release"), "{}", message(&pending));
    assert!(message(&pending).contains("pending-upgrade"), "{}", message(&pending));
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    stays_changed(&h).await;
    h.heal("Deployment/slow").await;
    assert!(upgrade.wait().await.unwrap().success());
    // Deployed again: what was changed meanwhile is as the new revision says.
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    assert_eq!(h.status("guard").await["revision"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_of_helm_3_under_way_is_left_alone_and_locked_when_it_is_deployed() {
    stands_back_while_pending(Line::Three, "guard-pending-three").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_of_helm_4_under_way_is_left_alone_and_locked_when_it_is_deployed() {
    stands_back_while_pending(Line::Four, "guard-pending-four").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_upgrade_is_not_locked_until_helm_has_gone_back() {
    let h = Harness::new("guard-failed").await;
    // The other one would not go back over what somebody changed meanwhile, lock or not.
    let helm = installed(&h, Line::Three).await;
    let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    helm.chart("1.1.0", &[settings(), slow]);
    let failed = helm.run("upgrade", &["--set", "color=green", "--wait", "--timeout", "2s"]).await;
    assert_ne!(failed.code, 0);
    let held = h.condition("guard", "Ready", "False", Some("StandingBack")).await;
    assert!(message(&held).contains("is failed"), "{}", message(&held));
    stays_changed(&h).await;
    helm.does("rollback", &["1"]).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows("SherpackRelease/guard", "/status/revision", 3).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    paint(&h, "red").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_locked_as_soon_as_it_is_installed() {
    let h = Harness::new("guard-early").await;
    h.release("guard", json!({"lock": {"helmRelease": {"name": "shop"}}})).await;
    let waits = h.condition("guard", "Ready", "False", Some("ReleaseNotFound")).await;
    assert!(
        message(&waits).contains("the Helm release guard-early/shop does not exist"),
        "{}",
        message(&waits)
    );
    let helm = Helm::new(&h, Line::Four, "shop");
    helm.chart("1.0.0", &[settings()]);
    helm.does("install", &["--set", "color=blue"]).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    helm.does("uninstall", &[]).await;
    h.condition("guard", "Ready", "False", Some("RecordLost")).await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none(), "what Helm deleted is not made again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_installed_anew_is_locked_from_its_first_revision() {
    let h = Harness::new("guard-anew").await;
    let helm = installed(&h, Line::Three).await;
    for (color, revision) in [("red", 2), ("green", 3)] {
        helm.does("upgrade", &["--set", &format!("color={color}")]).await;
        h.shows("SherpackRelease/guard", "/status/revision", revision).await;
    }
    helm.does("uninstall", &[]).await;
    h.condition("guard", "Ready", "False", Some("RecordLost")).await;
    helm.does("install", &["--set", "color=blue"]).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    h.shows("SherpackRelease/guard", "/status/revision", 1).await;
    paint(&h, "red").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_record_stops_the_lock_and_leaves_the_objects() {
    let h = Harness::new("guard-lost").await;
    let helm = installed(&h, Line::Three).await;
    let mut record = helm.record(&h, 1).await;
    h.objects.delete(&format!("Secret/{}", helm.key(1))).await;
    let lost = h.condition("guard", "Ready", "False", Some("RecordLost")).await;
    assert_eq!(condition(&lost, "Stalled")["status"], "True");
    assert!(message(&lost).contains("nothing is changed, locked or deleted"), "{}", message(&lost));
    stays_changed(&h).await;
    // The same after a restart, which knows nothing of before.
    h.start();
    h.operator_ready().await;
    stays_changed(&h).await;
    h.condition("guard", "Ready", "False", Some("RecordLost")).await;
    record.metadata.resource_version = None;
    record.metadata.uid = None;
    let secrets: Api<Secret> = Api::namespaced(h.client.clone(), &h.namespace);
    secrets.create(&PostParams::default(), &record).await.unwrap();
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_believed_stops_the_lock() {
    let h = Harness::new("guard-unreadable").await;
    let helm = installed(&h, Line::Four).await;
    let what = format!("Secret/{}", helm.key(1));
    let before = h.objects.get(&what).await["data"]["release"].clone();
    let set = async |text: &Value| {
        h.objects.edit(&what, "a-disk", json!({"data": {"release": text}})).await;
    };
    for damaged in ["", "SDRzSQ==", "bm90IGJhc2U2NA=="] {
        set(&json!(damaged)).await;
        let told = h.condition("guard", "Ready", "False", Some("RecordUnreadable")).await;
        assert!(message(&told).contains(&helm.key(1)), "{}", message(&told));
        stays_changed(&h).await;
        set(&before).await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
        h.condition("guard", "Ready", "True", Some("Locked")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_locks_of_one_release_do_not_meet() {
    let h = Harness::new("guard-twice").await;
    let _helm = installed(&h, Line::Four).await;
    h.release("second", json!({"lock": {"helmRelease": {"name": "shop", "namespace": "guard-twice"}}})).await;
    let taken = h.condition("second", "Ready", "False", Some("ReleaseNameTaken")).await;
    assert!(message(&taken).contains("guard-twice/guard"), "{}", message(&taken));
    h.uninstall("guard").await;
    h.condition("second", "Ready", "True", Some("Locked")).await;
    paint(&h, "red").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
