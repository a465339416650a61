//! `spec.lock` under what a release may say of its lock, and as whom it is done.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sherpack_operator::api::Tenancy;

use crate::support::accounts::{ALL, rule};
use crate::support::harness::condition;
use crate::support::helm::{Helm, Line};
use crate::support::packs::{config_map, service};
use crate::support::{Effect, Fault, Harness};

fn chart() -> Vec<Value> {
    vec![config_map("settings", json!({"color": "blue", "size": "small"})), service("web")]
}

async fn installed(h: &Harness) -> Helm {
    let helm = Helm::new(h, Line::Four, "shop");
    helm.chart("1.0.0", &chart());
    helm.does("install", &[]).await;
    helm
}

async fn guard(h: &Harness, more: Value) {
    let mut spec = json!({"lock": {"helmRelease": {"name": "shop"}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    h.release("guard", spec).await;
}

async fn paint(h: &Harness) {
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
}

async fn stays_changed(h: &Harness) {
    let mark = h.wire.mark();
    paint(h).await;
    h.pass("guard").await;
    h.pass("guard").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    assert!(h.wire.writes_to("configmaps", mark).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warn_tells_and_writes_nothing_until_the_lock_is_on() {
    let h = Harness::new("guard-warn").await;
    let _helm = installed(&h).await;
    guard(&h, json!({"drift": {"mode": "Warn"}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    let mark = h.wire.mark();
    paint(&h).await;
    let told = h.condition("guard", "Drifted", "True", Some("DriftDetected")).await;
    let object = &told["status"]["drift"]["objects"][0];
    assert_eq!(object["object"], "ConfigMap guard-warn/settings");
    assert_eq!((&object["manager"], &object["action"]), (&json!("kubectl-edit"), &json!("Reported")));
    assert_eq!(object["paths"], json!(["/data/color"]));
    h.objects.delete("Service/web").await;
    h.sees("SherpackRelease/guard", |release| release["status"]["drift"]["count"] == 2).await;
    h.pass("guard").await;
    assert!(h.wire.writes_to("configmaps", mark).is_empty() && h.wire.writes_to("services", mark).is_empty());
    // Back by hand, it is told of no more.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "blue"}})).await;
    h.sees("SherpackRelease/guard", |release| release["status"]["drift"]["count"] == 1).await;
    paint(&h).await;
    h.sees("SherpackRelease/guard", |release| release["status"]["drift"]["count"] == 2).await;
    h.edit_spec("guard", json!({"drift": {"mode": "Enabled"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.sees("Service/web", |_| true).await;
    h.condition("guard", "Drifted", "False", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_off_while_it_is_disabled_paused_or_suspended() {
    let h = Harness::new("guard-off").await;
    let _helm = installed(&h).await;
    guard(&h, json!({"drift": {"mode": "Disabled"}})).await;
    h.condition("guard", "Drifted", "Unknown", Some("DriftDisabled")).await;
    stays_changed(&h).await;
    h.edit_spec("guard", json!({"drift": {"mode": "Enabled"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;

    let pause = "sherpack.io/drift-pause-until";
    let hour = Timestamp::now() + SignedDuration::from_hours(1);
    h.annotate("guard", pause, hour.to_string()).await;
    h.condition("guard", "Ready", "True", Some("DriftPaused")).await;
    stays_changed(&h).await;
    h.annotate("guard", pause, Value::Null).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;

    h.edit_spec("guard", json!({"suspend": true})).await;
    h.condition("guard", "Ready", "False", Some("Suspended")).await;
    stays_changed(&h).await;
    h.edit_spec("guard", json!({"suspend": false})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_reads_the_record_and_puts_back_and_other_namespaces_are_refused() {
    let mut h = Harness::without_operator("guard-account").await;
    h.settings.tenancy = Tenancy::Multi;
    h.start();
    let _helm = installed(&h).await;
    let lock = |namespace: &str| json!({"helmRelease": {"name": "shop", "namespace": namespace}});
    h.release("elsewhere", json!({"lock": lock("default"), "serviceAccountName": "keeper"})).await;
    h.condition("elsewhere", "Ready", "False", Some("CrossNamespaceRefused")).await;
    guard(&h, json!({"serviceAccountName": "keeper"})).await;
    h.condition("guard", "Ready", "False", Some("ServiceAccountNotFound")).await;
    h.account("keeper").await;
    let told = h.condition("guard", "Ready", "False", Some("Forbidden")).await;
    let message = condition(&told, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("the records of the Helm release guard-account/shop"), "{message}");
    let reads = rule(&[""], &["secrets"], &["get", "list"]);
    let watched = rule(&[""], &["services", "configmaps"], &["list", "watch"]);
    h.grant("keeper", &[reads.clone(), watched.clone(), rule(&[""], &["services"], &ALL)]).await;
    let told = h
        .sees("SherpackRelease/guard", |release| {
            let ready = condition(release, "Ready");
            let message = ready["message"].as_str().unwrap_or_default();
            // The records can be read now, and what stands in the way is another right.
            let forbidden = ready["status"] == "False" && ready["reason"] == "Forbidden";
            forbidden && message.contains("configmaps") && !message.contains("the records of")
        })
        .await;
    assert!(!h.wire.writes_to("secrets", 0).iter().any(|request| request.user.is_some()), "{told}");
    h.grant("keeper", &[reads, watched, rule(&[""], &["services", "configmaps"], &ALL)]).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    paint(&h).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    let written = h.wire.writes_to("configmaps/settings", 0);
    assert!(!written.is_empty() && written.iter().all(|request| request.user == h.user("keeper")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_says_how_a_pack_is_installed_is_refused_and_never_becomes_one() {
    let h = Harness::new("guard-refused").await;
    let _helm = installed(&h).await;
    guard(&h, json!({"values": {"color": "red"}})).await;
    let told = h.condition("guard", "Ready", "False", Some("InvalidSpec")).await;
    assert!(condition(&told, "Ready")["message"].as_str().unwrap().starts_with("spec.values: "));
    h.edit_spec("guard", json!({"values": null})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    let objects = h.objects.api("SherpackRelease");
    let patch =
        kube::api::Patch::Merge(json!({"spec": {"lock": null, "pack": {"configMap": {"name": "p"}}}}));
    let refused = objects.patch("guard", &kube::api::PatchParams::default(), &patch).await.unwrap_err();
    assert!(refused.to_string().contains("cannot change between spec.pack and spec.lock"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_put_back_is_told_and_the_rest_is_locked() {
    let h = Harness::new("guard-stuck").await;
    let _helm = installed(&h).await;
    guard(&h, json!({})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    // Another release of Helm says that it is its own.
    let taken = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}});
    h.objects.edit("ConfigMap/settings", "kubectl-annotate", taken).await;
    let told = h.condition("guard", "Ready", "False", Some("ObjectNotOwned")).await;
    let message = condition(&told, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("ConfigMap guard-stuck/settings") && message.contains("guard-stuck/other"),
        "{message}"
    );
    h.objects.delete("Service/web").await;
    h.sees("Service/web", |_| true).await;
    paint(&h).await;
    h.pass("guard").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    let back = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "shop"}}});
    h.objects.edit("ConfigMap/settings", "kubectl-annotate", back).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_of_which_nothing_could_be_learned_is_locked_as_soon_as_it_can() {
    let mut h = Harness::without_operator("guard-unasked").await;
    // Without it, and without an account, nothing beyond the namespace is written.
    h.settings.lock.as_operator = true;
    let helm = Helm::new(&h, Line::Four, "shop");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "guard-unasked"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    helm.chart("1.0.0", &[config_map("settings", json!({"color": "blue"})), role]);
    helm.does("install", &[]).await;
    h.wire.fault(Fault::new(Effect::Answer(500), |request| {
        request.path == "/apis/rbac.authorization.k8s.io/v1"
    }));
    h.start();
    guard(&h, json!({})).await;
    h.condition("guard", "Ready", "False", Some("DiscoveryFailed")).await;
    paint(&h).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.wire.heal();
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]}]);
    h.objects.edit("ClusterRole/guard-unasked", "kubectl-edit", json!({ "rules": rules })).await;
    h.shows("ClusterRole/guard-unasked", "/rules/0/verbs", json!(["get"])).await;
}
