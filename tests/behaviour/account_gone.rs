//! A release whose service account is gone when it is deleted: never in the way for ever, and never as somebody else.

use serde_json::{Value, json};

use crate::support::accounts::{ALL, rule};
use crate::support::packs::{config_map, service};
use crate::support::wait::{eventually, wait_for};
use crate::support::{Harness, Pack};

const OBJECTS: [&str; 2] = ["ConfigMap/settings", "Service/web"];

fn pack() -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"}))).object(service("web"))
}

fn enough() -> Vec<Value> {
    vec![rule(&[""], &["configmaps", "services"], &ALL)]
}

async fn deployed(name: &str) -> Harness {
    let h = Harness::new(name).await;
    h.account("deployer").await;
    h.grant("deployer", &enough()).await;
    h.deploy("web", &pack(), json!({"serviceAccountName": "deployer"})).await;
    h
}

/// Takes the account's rights away, and waits until the API server knows it.
async fn unbound(h: &Harness) {
    h.objects.delete("RoleBinding/deployer").await;
    eventually("the rights are gone", async || !h.may("deployer", "delete", "configmaps").await).await;
}

/// The Event that tells it.
async fn told(h: &Harness) -> String {
    wait_for("an Event ServiceAccountNotFound of the uninstall", async || {
        let notes = h.events("web", "ServiceAccountNotFound").await;
        let note = notes.iter().find(|note| note.contains("the release is gone")).cloned();
        note.ok_or_else(|| format!("{notes:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_its_name_may_still_do_is_done_and_the_records_go_too() {
    let h = deployed("gone-bound").await;
    h.objects.delete("ServiceAccount/deployer").await;
    let mark = h.wire.mark();
    h.uninstall("web").await;
    for what in OBJECTS {
        assert!(h.objects.find(what).await.is_none(), "{what}");
    }
    assert!(h.records("web").await.is_empty());
    let note = told(&h).await;
    assert!(note.starts_with("the service account gone-bound/deployer does not exist"), "{note}");
    let writes = h.wire.writes_since(mark);
    assert!(writes.iter().all(|request| request.verb != "update"), "a record was written");
    for request in writes.iter().filter(|request| {
        OBJECTS.iter().any(|what| {
            let (kind, name) = what.split_once('/').unwrap();
            request.is_about(&format!("{}s/{name}", kind.to_lowercase()))
        })
    }) {
        assert_eq!(request.user, h.user("deployer"), "{}", request.line());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_may_delete_stays_is_named_and_is_taken_over_by_the_next_release() {
    let h = deployed("gone-unbound").await;
    let before = h.objects.uids(&OBJECTS).await;
    // As in a namespace that is being taken apart.
    unbound(&h).await;
    h.objects.delete("ServiceAccount/deployer").await;
    h.uninstall("web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, before);
    let note = told(&h).await;
    for part in ["2 of its 2 objects", "ConfigMap gone-unbound/settings", "Service gone-unbound/web"] {
        assert!(note.contains(part), "{part}: {note}");
    }
    assert_eq!(h.records("web").await.len(), 1, "what speaks of them stays");

    h.account("other").await;
    h.grant("other", &enough()).await;
    h.deploy("web", &pack(), json!({"serviceAccountName": "other"})).await;
    assert_eq!(h.objects.uids(&OBJECTS).await, before);
    h.uninstall("web").await;
    for what in OBJECTS {
        assert!(h.objects.find(what).await.is_none(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_goes_in_the_middle_of_an_uninstall_does_not_hold_it() {
    let h = deployed("gone-midway").await;
    // Somebody's finalizer keeps one object.
    h.objects
        .edit("ConfigMap/settings", "test", json!({"metadata": {"finalizers": ["example.com/hold"]}}))
        .await;
    h.objects.delete("SherpackRelease/web").await;
    h.gone("Service/web").await;
    h.condition("web", "Ready", "Unknown", Some("Uninstalling")).await;
    // In this order: an account that is gone may do what it is still bound to.
    unbound(&h).await;
    h.objects.delete("ServiceAccount/deployer").await;
    h.gone("SherpackRelease/web").await;
    let note = told(&h).await;
    assert!(note.contains("ConfigMap gone-midway/settings"), "{note}");
    h.objects.edit("ConfigMap/settings", "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone("ConfigMap/settings").await;
}
