//! `--tenancy=multi` and `--default-service-account`: no release acts as the operator.

use serde_json::{Value, json};
use sherpack_operator::api::Tenancy;

use crate::support::accounts::{ALL, RECORDS, rule};
use crate::support::harness::{PERSON, condition};
use crate::support::packs::{config_map, service};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"}))).object(service("web"))
}

fn enough() -> Vec<Value> {
    vec![rule(&[""], &["configmaps", "services"], &ALL)]
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

async fn multi(name: &str, default: Option<&str>) -> Harness {
    let mut h = Harness::without_operator(name).await;
    h.settings.tenancy = Tenancy::Multi;
    h.settings.default_service_account = default.map(str::to_owned);
    h.start();
    h
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_an_account_is_refused_until_it_names_one() {
    let h = multi("tenancy-required", None).await;
    h.apply("web", &pack(), json!({})).await;
    let refused = h.condition("web", "Stalled", "True", Some("ServiceAccountRequired")).await;
    assert!(message(&refused).contains("spec.serviceAccountName"), "{}", message(&refused));
    assert!(refused["metadata"]["finalizers"].is_null());
    h.account("deployer").await;
    h.grant("deployer", &enough()).await;
    h.edit_spec("web", json!({"serviceAccountName": "deployer"})).await;
    h.ready("web").await;
    let applied = h.wire.writes_to("configmaps/settings", 0);
    assert!(!applied.is_empty() && applied.iter().all(|request| request.user == h.user("deployer")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_account_stands_in_for_one_that_is_not_named() {
    let h = multi("tenancy-default", Some("tenant")).await;
    h.apply("web", &pack(), json!({})).await;
    let held = h.condition("web", "Ready", "False", Some("ServiceAccountNotFound")).await;
    assert!(message(&held).contains("tenancy-default/tenant"), "{}", message(&held));
    h.account("tenant").await;
    h.grant("tenant", &enough()).await;
    h.ready("web").await;
    let applied = h.wire.writes_to("services/web", 0);
    assert!(!applied.is_empty() && applied.iter().all(|request| request.user == h.user("tenant")));
    // Named, another one counts.
    h.account("deployer").await;
    h.grant("deployer", &enough()).await;
    let mark = h.wire.mark();
    h.edit_spec("web", json!({"serviceAccountName": "deployer"})).await;
    h.ready("web").await;
    h.objects.edit("Service/web", "kubectl-edit", json!({"spec": {"selector": {"app": "other"}}})).await;
    h.shows("Service/web", "/spec/selector/app", "web").await;
    assert!(h.wire.writes_to("services/web", mark).iter().all(|request| request.user == h.user("deployer")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_to_other_namespaces_are_refused_by_their_field() {
    let mut h = Harness::without_operator("tenancy-references").await;
    h.settings.tenancy = Tenancy::Multi;
    h.settings.default_service_account = Some("tenant".to_owned());
    // Also where the operator would keep revisions for others.
    h.settings.storage_namespaces = vec!["other".to_owned()];
    h.start();
    h.account("tenant").await;
    h.grant("tenant", &enough()).await;
    let references = [
        ("spec.dependsOn[0].namespace", json!({"dependsOn": [{"name": "db", "namespace": "other"}]})),
        ("spec.history.namespace", json!({"history": {"namespace": "other"}})),
    ];
    for (number, (field, more)) in references.into_iter().enumerate() {
        let name = format!("web-{number}");
        h.apply(&name, &pack(), more).await;
        let refused = h.condition(&name, "Stalled", "True", Some("CrossNamespaceRefused")).await;
        assert!(message(&refused).starts_with(&format!("{field}: ")), "{}", message(&refused));
    }
    h.edit_spec("web-0", json!({"dependsOn": null})).await;
    h.ready("web-0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_another_target_namespace_nothing_is_kept_that_the_account_could_not_have_written() {
    let h = multi("tenancy-target", Some("tenant")).await;
    let target = "tenancy-target-other";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}});
    h.objects.create(PERSON, namespace).await;
    h.account("tenant").await;
    h.grant("tenant", &enough()).await;
    h.grant_in(target, "tenant", &enough()).await;
    h.apply("web", &pack(), json!({"targetNamespace": target})).await;
    let missing = format!("missing: get, list, create, update, patch, delete secrets in {target}");
    // What was granted may not be known at first.
    h.sees("SherpackRelease/web", |release| {
        let ready = condition(release, "Ready");
        ready["status"] == "False" && ready["reason"] == "Forbidden" && message(release).ends_with(&missing)
    })
    .await;
    assert!(h.wire.writes_to("secrets", 0).iter().all(|request| !request.path.contains(target)));
    // To make one is not enough: what is made has to be read, ended and deleted.
    let make = rule(&[""], &["secrets"], &["create"]);
    h.grant_in(target, "tenant", &[enough(), vec![make]].concat()).await;
    let missing = format!("missing: get, list, update, patch, delete secrets in {target}");
    h.sees("SherpackRelease/web", |release| message(release).ends_with(&missing)).await;
    assert!(h.wire.writes_to("secrets", 0).iter().all(|request| !request.path.contains(target)));
    let secrets = rule(&[""], &["secrets"], &RECORDS);
    h.grant_in(target, "tenant", &[enough(), vec![secrets]].concat()).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_installed_as_the_operator_is_not_touched_as_the_operator_any_more() {
    let mut h = Harness::new("tenancy-later").await;
    h.deploy("web", &pack(), json!({})).await;
    let before = h.objects.uids(&["ConfigMap/settings", "Service/web"]).await;
    h.stop().await;
    h.settings.tenancy = Tenancy::Multi;
    h.start();
    h.condition("web", "Stalled", "True", Some("ServiceAccountRequired")).await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.annotate("web", "sherpack.io/reconcile-at", "now").await;
    h.uninstall("web").await;
    assert_eq!(h.objects.uids(&["ConfigMap/settings", "Service/web"]).await, before);
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    for kind in ["configmaps", "services", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written");
    }
    eventually("an Event", async || !h.events("web", "ServiceAccountRequired").await.is_empty()).await;
    // With an account it is managed again, from the revisions that stayed.
    h.account("tenant").await;
    h.grant("tenant", &enough()).await;
    h.deploy("web", &pack(), json!({"serviceAccountName": "tenant"})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows_states("web", &["1 deployed"]).await;
}
