//! What a release says of another namespace takes nothing from the releases there, nor from those that have the right to it:
//! neither the name, nor the news of the records, nor the lock of what is installed there, nor the time of its deletion.

use serde_json::{Value, json};
use sherpack_operator::release::State;

use super::guard_tools::{apply, sherpack_installs};
use crate::support::accounts::{ALL, rule};
use crate::support::harness::{PERSON, condition};
use crate::support::packs::config_map;
use crate::support::wait::eventually;
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

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// A namespace with accounts that may do everything to ConfigMaps and Secrets there and in that of `h`.
async fn with_rights(h: &Harness, name: &str, accounts: &[&str]) -> Harness {
    let ops = Harness::without_operator(&format!("{name}-ops")).await;
    for account in accounts {
        ops.account(account).await;
        ops.grant(account, &[everything()]).await;
        may_do_everything(&ops, h, account, true).await;
    }
    ops
}

fn everything() -> Value {
    rule(&[""], &["configmaps", "secrets"], &["get", "list", "watch", "create", "update", "patch", "delete"])
}

async fn may_do_everything(ops: &Harness, h: &Harness, account: &str, granted: bool) {
    let rules = if granted { vec![everything()] } else { Vec::new() };
    ops.grant_in(&h.namespace, account, &rules).await;
    eventually("the API server knows the rights", async || {
        ops.may_in(&h.namespace, account, "delete", "secrets").await == granted
    })
    .await;
}

fn as_account(account: &str, mut spec: Value) -> Value {
    spec["serviceAccountName"] = json!(account);
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_have_the_records_of_a_name_keeps_nobody_from_it_at_any_start() {
    let trial = "names-squatted";
    let (h, evil) = with_evil(trial).await;
    let ops = with_rights(&h, trial, &["keeper"]).await;
    install(&evil, trial, "thief", targets(&h.namespace, "shop")).await;
    let told = evil.condition("thief", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&told).contains("secrets in names-squatted"), "{}", message(&told));
    install(&ops, trial, "web", as_account("keeper", targets(&h.namespace, "shop"))).await;
    ops.ready("web").await;
    for color in ["green", "white"] {
        h.start();
        let pack = Pack::new("web", "1.0.0").object(config_map("web", json!({"color": color})));
        ops.pack("web-pack", &pack).await;
        h.shows("ConfigMap/web", "/data/color", color).await;
        ops.ready("web").await;
        let told = evil.condition("thief", "Ready", "False", Some("Forbidden")).await;
        assert!(!told["status"].to_string().contains(&ops.namespace), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_have_the_records_of_a_name_any_more_gives_it_to_who_lives_there() {
    let trial = "names-revoked";
    let (h, _evil) = with_evil(trial).await;
    let ops = with_rights(&h, trial, &["keeper"]).await;
    install(&ops, trial, "web", as_account("keeper", targets(&h.namespace, "shop"))).await;
    ops.ready("web").await;
    // Its record is sealed for it, so the name is its own as long as it may have that.
    install(&h, trial, "shop", json!({})).await;
    h.condition("shop", "Ready", "False", Some("ReleaseNameTaken")).await;
    h.start();
    h.pass("shop").await;
    h.condition("shop", "Ready", "False", Some("ReleaseNameTaken")).await;
    ops.ready("web").await;
    may_do_everything(&ops, &h, "keeper", false).await;
    // Nobody tells of rights. Who waits for the name has them asked about.
    h.pass("shop").await;
    ops.condition("web", "Ready", "False", Some("Forbidden")).await;
    h.ready("shop").await;
    h.objects.get("ConfigMap/shop").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_may_have_the_records_of_a_name_the_older_has_it_at_every_start() {
    let trial = "names-older";
    let (h, _evil) = with_evil(trial).await;
    let ops = with_rights(&h, trial, &["keeper", "other"]).await;
    // Neither stores a record: what the older one installs is not there.
    let older = as_account("keeper", targets(&h.namespace, "shop"));
    let missing = json!({"pack": {"configMap": {"name": "nowhere"}}});
    let mut spec = older;
    json_patch::merge(&mut spec, &missing);
    release(&ops, trial, "older", spec).await;
    let older = ops.condition("older", "Ready", "False", Some("SourceNotFound")).await;
    // The API server counts the age of a release in seconds.
    let created: jiff::Timestamp = older["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    eventually("the next second has begun", async || {
        jiff::Timestamp::now().as_second() > created.as_second()
    })
    .await;
    install(&ops, trial, "younger", as_account("other", targets(&h.namespace, "shop"))).await;
    for restart in 0..3 {
        if restart > 0 {
            h.start();
        }
        ops.pass("younger").await;
        let told = ops.condition("younger", "Ready", "False", Some("ReleaseNameTaken")).await;
        assert!(message(&told).contains("names-older-ops/older"), "{}", message(&told));
        assert!(h.records("shop").await.is_empty());
    }
    // It gives the name up with the right to it.
    may_do_everything(&ops, &h, "keeper", false).await;
    ops.pass("younger").await;
    ops.ready("younger").await;
    ops.condition("older", "Ready", "False", Some("Forbidden")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_name_takes_no_news_of_its_records_from_who_has_it() {
    let trial = "names-news";
    let (h, evil) = with_evil(trial).await;
    let ops = with_rights(&h, trial, &["keeper"]).await;
    install(&h, trial, "shop", json!({})).await;
    h.ready("shop").await;
    install(&ops, trial, "web", as_account("keeper", targets(&h.namespace, "shop"))).await;
    ops.condition("web", "Ready", "False", Some("ReleaseNameTaken")).await;
    install(&evil, trial, "thief", targets(&h.namespace, "shop")).await;
    evil.condition("thief", "Ready", "False", Some("Forbidden")).await;
    let record = h.records("shop").await.remove(0);
    let name = record["metadata"]["name"].as_str().unwrap().to_owned();
    h.objects.delete(&format!("Secret/{name}")).await;
    h.condition("shop", "Ready", "False", Some("RecordLost")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_have_the_records_of_a_name_is_not_told_by_a_lock_whether_there_are_any() {
    let trial = "names-peek";
    let (h, evil) = with_evil(trial).await;
    let objects = [config_map("settings", json!({"color": "blue"}))];
    apply(&h, &objects).await;
    sherpack_installs(&h, 1, State::Deployed, &objects).await;
    release(&h, trial, "secretive", json!({"lock": {"sherpackRelease": {"name": "shop"}}})).await;
    h.condition("secretive", "Ready", "True", Some("Locked")).await;
    let mut told = Vec::new();
    for name in ["shop", "nothing"] {
        let of = json!({"name": name, "namespace": h.namespace});
        release(&evil, trial, name, as_account("low", json!({"lock": {"sherpackRelease": of}}))).await;
        let held = evil.condition(name, "Ready", "False", Some("Forbidden")).await;
        assert!(!held["status"].to_string().contains("secretive"), "{held}");
        told.push((message(&held), held["status"]["revision"].clone()));
    }
    assert_eq!(told[0], told[1]);
    for kind in ["helmRelease", "sherpackRelease"] {
        // One that is locked already by a release of which it may not know.
        let name = if kind == "helmRelease" { "helm" } else { "sherpack" };
        let of = json!({"name": "shop", "namespace": h.namespace});
        release(&evil, trial, name, as_account("low", json!({"lock": {kind: of}}))).await;
        evil.condition(name, "Ready", "False", Some("Forbidden")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_have_the_records_of_a_name_keeps_nobody_from_locking_it() {
    let trial = "names-locks";
    let (h, evil) = with_evil(trial).await;
    let ops = with_rights(&h, trial, &["keeper", "other"]).await;
    let objects = [config_map("settings", json!({"color": "blue"}))];
    apply(&h, &objects).await;
    sherpack_installs(&h, 1, State::Deployed, &objects).await;
    let lock = |account| {
        let of = json!({"name": "shop", "namespace": h.namespace});
        as_account(account, json!({"lock": {"sherpackRelease": of}}))
    };
    release(&evil, trial, "thief", lock("low")).await;
    evil.condition("thief", "Ready", "False", Some("Forbidden")).await;
    release(&ops, trial, "older", lock("keeper")).await;
    ops.condition("older", "Ready", "True", Some("Locked")).await;
    release(&ops, trial, "younger", lock("other")).await;
    for restart in 0..3 {
        if restart > 0 {
            h.start();
        }
        let color = format!("red-{restart}");
        h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": color}})).await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
        ops.pass("older").await;
        ops.condition("older", "Ready", "True", Some("Locked")).await;
        ops.condition("younger", "Ready", "False", Some("ReleaseNameTaken")).await;
        evil.condition("thief", "Ready", "False", Some("Forbidden")).await;
    }
    may_do_everything(&ops, &h, "keeper", false).await;
    ops.pass("younger").await;
    ops.condition("younger", "Ready", "True", Some("Locked")).await;
    ops.condition("older", "Ready", "False", Some("Forbidden")).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
