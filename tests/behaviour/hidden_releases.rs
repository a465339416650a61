//! A release that acts as a service account is told nothing of releases in other namespaces which that account may not get.

use serde_json::{Value, json};

use crate::support::accounts::{ALL, rule};
use crate::support::harness::{PERSON, condition};
use crate::support::packs::{config_map, service};
use crate::support::{Harness, Pack};

fn pack(name: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"})))
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// An operator for what carries the label of this test in two namespaces: `low` acts in one of them, and the second is of others.
async fn two(name: &str) -> (Harness, Harness) {
    let others = Harness::without_operator(&format!("{name}-others")).await;
    let mut h = Harness::new(name).await;
    // It has a key by then: beside the records of other tests none would be made.
    h.operator_ready().await;
    h.settings.watch_namespace = None;
    h.settings.watch_labels =
        Some(sherpack_operator::api::selector::parse(&format!("hidden={name}")).unwrap());
    h.settings.storage_namespaces = vec![name.to_owned()];
    h.start();
    h.account("low").await;
    h.grant("low", &[rule(&[""], &["configmaps"], &ALL)]).await;
    (h, others)
}

/// A release with the label that [`two`] asks for.
async fn install(h: &Harness, trial: &str, name: &str, more: Value) {
    h.pack(&format!("{name}-pack"), &pack(name)).await;
    let mut spec = json!({"pack": {"configMap": {"name": format!("{name}-pack")}}});
    json_patch::merge(&mut spec, &more);
    let body = json!({"metadata": {"labels": {"hidden": trial}}, "spec": spec});
    h.objects.server_side_apply(&format!("SherpackRelease/{name}"), PERSON, body).await;
}

fn low_on(namespace: &str, name: &str) -> Value {
    json!({"serviceAccountName": "low", "dependsOn": [{"name": name, "namespace": namespace}]})
}

fn reviews(h: &Harness, mark: usize, namespace: &str) -> usize {
    let all = h.wire.since(mark).into_iter();
    let reviews = all.filter(|request| request.is_about("selfsubjectrulesreviews"));
    reviews.filter(|request| request.body["spec"]["namespace"] == namespace).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_dependency_that_the_account_may_not_get_only_the_missing_right_is_told() {
    let trial = "hidden-depends";
    let (h, others) = two(trial).await;
    let there = others.namespace.clone();
    install(&others, trial, "ready", json!({})).await;
    others.ready("ready").await;
    install(&others, trial, "held", json!({"suspend": true})).await;
    others.condition("held", "Ready", "False", Some("Suspended")).await;
    let names = ["ready", "held", "nowhere"];
    for name in names {
        install(&h, trial, &format!("on-{name}"), low_on(&there, name)).await;
    }
    for name in names {
        let held = h.condition(&format!("on-{name}"), "Ready", "False", Some("Forbidden")).await;
        let expected = format!(
            "the service account {trial}/low lacks rights, so nothing was changed; missing: get \
             sherpackreleases.sherpack.io in {there} ({name})"
        );
        assert_eq!(message(&held), expected);
        assert!(h.records(&format!("on-{name}")).await.is_empty());
    }
    h.grant_in(&there, "low", &[rule(&["sherpack.io"], &["sherpackreleases"], &["get"])]).await;
    h.ready("on-ready").await;
    for (name, says) in [("held", "which is not Ready: Suspended"), ("nowhere", "which does not exist")] {
        let says = format!("waits for the release {there}/{name}, {says}");
        h.sees(&format!("SherpackRelease/on-{name}"), |release| message(release) == says).await;
    }

    for name in ["on-held", "on-nowhere"] {
        h.uninstall(name).await;
    }
    // What is deployed does not ask until it is to change.
    // A refusal of anything to the account makes all doubtful that is known of its rights.
    install(&h, trial, "other", json!({"serviceAccountName": "low"})).await;
    h.pack("other-pack", &Pack::new("other", "2.0.0").object(service("other"))).await;
    h.condition("other", "Ready", "False", Some("Forbidden")).await;
    let mark = h.wire.mark();
    h.pass("on-ready").await;
    assert_eq!(reviews(&h, mark, &there), 0, "asked although nothing was to begin");
    h.pack("on-ready-pack", &Pack::new("on-ready", "2.0.0").object(config_map("next", json!({})))).await;
    h.sees("ConfigMap/next", |_| true).await;
    assert!(reviews(&h, mark, &there) > 0, "it began on an answer that was doubtful");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_an_account_is_told_of_every_dependency() {
    let trial = "hidden-operator";
    let (h, others) = two(trial).await;
    let on = json!({"dependsOn": [{"name": "nowhere", "namespace": others.namespace}]});
    install(&h, trial, "web", on).await;
    let held = h.condition("web", "Ready", "False", Some("DependencyNotReady")).await;
    assert!(message(&held).contains("hidden-operator-others/nowhere, which does not exist"), "{held}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_in_other_namespaces_are_waited_for_and_not_named() {
    let trial = "hidden-dependents";
    let (h, others) = two(trial).await;
    install(&h, trial, "db", json!({"serviceAccountName": "low"})).await;
    h.ready("db").await;
    let on = json!({"dependsOn": [{"name": "db", "namespace": trial}], "uninstall": {"timeout": "1h"}});
    install(&others, trial, "secretive", on).await;
    others.ready("secretive").await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    others.objects.edit("ConfigMap/secretive", "test", finalizer).await;
    others.objects.delete("SherpackRelease/secretive").await;
    h.objects.delete("SherpackRelease/db").await;
    let held = h
        .sees("SherpackRelease/db", |release| condition(release, "Ready")["reason"] == "WaitingForDependents")
        .await;
    let status = &held["status"];
    assert!(!status.to_string().contains("secretive"), "{status}");
    assert_eq!(
        message(&held),
        "waiting until a release in another namespace, which depends on this one and is being deleted too, is gone"
    );
    assert_eq!(status["operation"]["waitingFor"][0]["object"], "SherpackRelease in another namespace");
    others.objects.edit("ConfigMap/secretive", "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone("SherpackRelease/db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_in_other_namespaces_that_do_not_go_in_time_are_not_named_either() {
    let trial = "hidden-late";
    let (h, others) = two(trial).await;
    let spec = json!({"serviceAccountName": "low", "uninstall": {"timeout": "1s"}});
    install(&h, trial, "db", spec).await;
    h.ready("db").await;
    install(&others, trial, "secretive", json!({"dependsOn": [{"name": "db", "namespace": trial}]})).await;
    others.ready("secretive").await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    others.objects.edit("ConfigMap/secretive", "test", finalizer).await;
    others.objects.delete("SherpackRelease/secretive").await;
    others.condition("secretive", "Ready", "Unknown", Some("Uninstalling")).await;
    h.uninstall("db").await;
    let notes = crate::support::wait::wait_for("an Event tells that it goes", async || {
        let notes = h.events("db", "WaitingForDependents").await;
        if notes.is_empty() { Err("none".to_owned()) } else { Ok(notes) }
    })
    .await;
    let told = notes.join("\n");
    assert!(told.contains("any longer: a release in another namespace"), "{told}");
    assert!(!told.contains("secretive"), "{told}");
    others.objects.edit("ConfigMap/secretive", "test", json!({"metadata": {"finalizers": null}})).await;
    others.gone("SherpackRelease/secretive").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_through_another_namespace_names_no_release_of_it() {
    let trial = "hidden-circle";
    let (h, others) = two(trial).await;
    let there = others.namespace.clone();
    install(&others, trial, "secret-a", json!({"dependsOn": [{"name": "secret-b"}]})).await;
    install(&others, trial, "secret-b", json!({"dependsOn": [{"name": "web", "namespace": trial}]})).await;
    install(&h, trial, "web", low_on(&there, "secret-a")).await;
    let held = h.condition("web", "Stalled", "True", Some("DependencyCycle")).await;
    let told = message(&held);
    let path = "hidden-circle/web -> a release in another namespace -> hidden-circle/web";
    assert!(told.contains(path) && !told.contains("secret-"), "{told}");
    // Whoever acts as the operator is told all of it.
    let all = others.condition("secret-a", "Stalled", "True", Some("DependencyCycle")).await;
    assert!(message(&all).contains(&format!("{there}/secret-b -> hidden-circle/web")), "{}", message(&all));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_another_namespace_that_has_the_name_is_not_named() {
    let trial = "hidden-name";
    let (h, others) = two(trial).await;
    let there = others.namespace.clone();
    install(&others, trial, "secretive", json!({"releaseName": "shop"})).await;
    others.ready("secretive").await;
    // Its records would stand beside it, so it needs no rights to those of the other.
    let spec = json!({
        "serviceAccountName": "low", "releaseName": "shop", "targetNamespace": there, "history": {"namespace": trial},
    });
    install(&h, trial, "web", spec).await;
    let held = h.condition("web", "Stalled", "True", Some("ReleaseNameTaken")).await;
    let told = message(&held);
    assert!(told.starts_with("the release in another namespace has this name"), "{told}");
    assert!(!held["status"].to_string().contains("secretive"), "{held}");
}
