//! What a release says of another namespace takes nothing from the releases there: neither the lock of what is installed
//! there nor the time of its deletion.

use serde_json::{Value, json};
use sherpack_operator::release::State;

use super::guard_tools::{apply, sherpack_installs};
use crate::support::accounts::{ALL, rule};
use crate::support::harness::PERSON;
use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

/// An operator for what carries the label of this test in two namespaces: its own, and one in which `low` may do everything
/// and nowhere else anything.
async fn with_evil(name: &str) -> (Harness, Harness) {
    let evil = Harness::without_operator(&format!("{name}-evil")).await;
    let mut h = Harness::new(name).await;
    // It has a key by then: beside the records of other tests none would be made.
    h.operator_ready().await;
    h.stop().await;
    h.settings.watch_namespace = None;
    h.settings.watch_labels =
        Some(sherpack_operator::api::selector::parse(&format!("claims={name}")).unwrap());
    h.start();
    evil.account("low").await;
    let all = [ALL.to_vec(), vec!["list", "watch"]].concat();
    evil.grant("low", &[rule(&[""], &["configmaps", "secrets"], &all)]).await;
    (h, evil)
}

/// A release with the label that [`with_evil`] asks for.
async fn release(h: &Harness, trial: &str, name: &str, spec: Value) {
    let body = json!({"metadata": {"labels": {"claims": trial}}, "spec": spec});
    h.objects.server_side_apply(&format!("SherpackRelease/{name}"), PERSON, body).await;
}

/// The same with a pack of one ConfigMap.
async fn install(h: &Harness, trial: &str, name: &str, more: Value) {
    let pack = Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"})));
    h.pack(&format!("{name}-pack"), &pack).await;
    let mut spec = json!({"pack": {"configMap": {"name": format!("{name}-pack")}}});
    json_patch::merge(&mut spec, &more);
    release(h, trial, name, spec).await;
}

fn targets(namespace: &str, name: &str) -> Value {
    json!({"serviceAccountName": "low", "releaseName": name, "targetNamespace": namespace})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_another_namespace_takes_no_lock_by_naming_what_is_locked() {
    let trial = "names-lock";
    let (h, evil) = with_evil(trial).await;
    let objects = [config_map("settings", json!({"color": "blue"}))];
    apply(&h, &objects).await;
    sherpack_installs(&h, 1, State::Deployed, &objects).await;
    release(&h, trial, "guard", json!({"lock": {"sherpackRelease": {"name": "shop"}}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    let mut thief = targets(&h.namespace, "shop");
    thief["suspend"] = json!(true);
    install(&evil, trial, "thief", thief).await;
    evil.condition("thief", "Ready", "False", None).await;
    h.pass("guard").await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_of_another_namespace_holds_up_no_deletion() {
    let trial = "names-deletion";
    let (h, evil) = with_evil(trial).await;
    install(&h, trial, "db", json!({})).await;
    h.ready("db").await;
    let account = json!({"serviceAccountName": "low", "uninstall": {"timeout": "1h"}});
    install(&evil, trial, "slow", account).await;
    evil.ready("slow").await;
    evil.edit_spec("slow", json!({"dependsOn": [{"name": "db", "namespace": trial}]})).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    evil.objects.edit("ConfigMap/slow", "test", finalizer).await;
    evil.objects.delete("SherpackRelease/slow").await;
    evil.condition("slow", "Ready", "Unknown", Some("Uninstalling")).await;
    h.uninstall("db").await;
    evil.objects.edit("ConfigMap/slow", "test", json!({"metadata": {"finalizers": null}})).await;
    evil.gone("SherpackRelease/slow").await;
}
