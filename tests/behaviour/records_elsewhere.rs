//! Records in another namespace than the release's own: read, written and deleted only as far as the release's account
//! could do that itself. And wherever they are, a release deletes its own records only.

use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use sherpack_operator::api::Tenancy;
use sherpack_operator::release::{Record, State};
use sherpack_operator::storage::{Compression, codec};

use crate::support::accounts::{ALL, RECORDS, rule};
use crate::support::harness::{PERSON, condition};
use crate::support::packs::{config_map, service};
use crate::support::records::pending_since;
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::{Effect, Fault, Request};
use crate::support::{Harness, Pack};

const GOLDEN: &str = include_str!("../../src/release/golden/record_full.json");

/// One ConfigMap, in the namespace of the release.
fn pack(h: &Harness, color: &str) -> Pack {
    let mut settings = config_map("settings", json!({"color": color}));
    settings["metadata"]["namespace"] = json!(h.namespace);
    Pack::new("web", "1.0.0").object(settings)
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// An operator whose releases act as the account `low`, and a namespace in which that may do nothing.
async fn started(name: &str, tenancy: Tenancy) -> (Harness, String) {
    let mut h = Harness::without_operator(name).await;
    h.settings.tenancy = tenancy;
    h.settings.default_service_account = Some("low".to_owned());
    h.start();
    let there = format!("{name}-there");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": there}});
    h.objects.create(PERSON, namespace).await;
    h.account("low").await;
    h.grant("low", &[rule(&[""], &["configmaps", "secrets"], &ALL)]).await;
    (h, there)
}

fn elsewhere(there: &str) -> Value {
    json!({"releaseName": "shop", "targetNamespace": there})
}

async fn may_keep_records(h: &Harness, there: &str, granted: bool) {
    let rules = if granted { vec![rule(&[""], &["secrets"], &RECORDS)] } else { Vec::new() };
    h.grant_in(there, "low", &rules).await;
    eventually("the API server knows the rights", async || {
        h.may_in(there, "low", "delete", "secrets").await == granted
    })
    .await;
}

/// Another tool's record of the release `shop`.
async fn theirs(h: &Harness, there: &str, version: u32, state: State) {
    let mut record: Record = serde_json::from_str(GOLDEN).unwrap();
    record.pack.name = "vault".to_owned();
    let record = Record { name: "shop".to_owned(), namespace: there.to_owned(), version, state, ..record };
    let key = h.record_key().await;
    let secret = codec::encode(&record, None, Compression::Gzip, &key, version == 3).unwrap();
    let secrets: Api<Secret> = Api::namespaced(h.client.clone(), there);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

/// The records, byte for byte.
async fn records(h: &Harness, there: &str) -> Vec<Value> {
    h.objects.elsewhere(there).list("Secret", "sherpack.io/release-name").await
}

async fn refused(h: &Harness, name: &str, there: &str) -> Value {
    let missing = format!("missing: get, list, create, update, patch, delete secrets in {there}");
    let held = h
        .sees(&format!("SherpackRelease/{name}"), |release| {
            let ready = condition(release, "Ready");
            ready["status"] == "False"
                && ready["reason"] == "Forbidden"
                && message(release).ends_with(&missing)
        })
        .await;
    let account = format!("the service account {}/low lacks rights", h.namespace);
    assert!(message(&held).starts_with(&account), "{}", message(&held));
    held
}

/// Records of `shop` that another tool wrote, `newest` the newest of them, and a release of an account without rights to them.
async fn are_left_alone(name: &str, tenancy: Tenancy, newest: State) {
    let (h, there) = started(name, tenancy).await;
    for (version, state) in [(1, State::Superseded), (2, State::Superseded), (3, newest)] {
        theirs(&h, &there, version, state).await;
    }
    let before = records(&h, &there).await;
    assert_eq!(before.len(), 3);
    h.apply("s", &pack(&h, "blue"), elsewhere(&there)).await;
    refused(&h, "s", &there).await;
    h.pass("s").await;
    let held = refused(&h, "s", &there).await;
    let status = &held["status"];
    assert!(status["history"].as_array().is_none_or(Vec::is_empty), "{status}");
    assert!(status["revision"].is_null() && status["pack"].is_null(), "{status}");
    let told = status.to_string();
    for word in ["vault", "another tool", "pending", "revision 3", "shop.v"] {
        assert!(!told.contains(word), "{word} is told: {told}");
    }
    assert_eq!(records(&h, &there).await, before);
    // A spec that is refused is told, and no more than that.
    h.edit_spec("s", json!({"dependsOn": [{"name": "db", "namespace": "nowhere"}]})).await;
    let held = h.condition("s", "Stalled", "True", None).await;
    assert!(held["status"]["history"].as_array().is_none_or(Vec::is_empty), "{held}");
    let asked =
        h.wire.since(0).into_iter().filter(|request| request.path.contains(&format!("/{there}/secrets")));
    let asked: Vec<String> = asked.filter(|request| request.verb != "watch").map(|r| r.line()).collect();
    assert!(asked.is_empty(), "the operator asked for them: {asked:?}");
    h.uninstall("s").await;
    assert_eq!(records(&h, &there).await, before);
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tools_records_are_left_alone_with_a_default_account() {
    are_left_alone("elsewhere-single", Tenancy::Single, State::Deployed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tools_records_are_left_alone_in_multi_tenancy() {
    are_left_alone("elsewhere-multi", Tenancy::Multi, State::Deployed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tools_pending_record_is_not_ended_with_a_default_account() {
    are_left_alone("elsewhere-ended-s", Tenancy::Single, pending_since(3600)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tools_pending_record_is_not_ended_in_multi_tenancy() {
    are_left_alone("elsewhere-ended-m", Tenancy::Multi, pending_since(3600)).await;
}

/// A release that lives, whose account loses its rights while no operator runs.
async fn bereft(name: &str, tenancy: Tenancy) -> (Harness, String) {
    let (h, there) = started(name, tenancy).await;
    may_keep_records(&h, &there, true).await;
    h.deploy("s", &pack(&h, "blue"), elsewhere(&there)).await;
    h.stop().await;
    may_keep_records(&h, &there, false).await;
    (h, there)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uninstall_without_rights_to_the_records_says_so_and_ends_when_they_are_granted() {
    for (name, tenancy) in [("elsewhere-lost-s", Tenancy::Single), ("elsewhere-lost-m", Tenancy::Multi)] {
        let (h, there) = bereft(name, tenancy).await;
        let before = records(&h, &there).await;
        let uids = h.objects.uids(&["ConfigMap/settings"]).await;
        h.objects.delete("SherpackRelease/s").await;
        h.start();
        refused(&h, "s", &there).await;
        assert_eq!(records(&h, &there).await, before);
        assert_eq!(h.objects.uids(&["ConfigMap/settings"]).await, uids);
        may_keep_records(&h, &there, true).await;
        h.gone("SherpackRelease/s").await;
        assert!(h.objects.find("ConfigMap/settings").await.is_none());
        assert!(records(&h, &there).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_account_is_gone_leaves_records_that_it_might_not_delete() {
    let (h, there) = bereft("elsewhere-gone", Tenancy::Single).await;
    let before = records(&h, &there).await;
    h.objects.delete("ServiceAccount/low").await;
    h.objects.delete("SherpackRelease/s").await;
    h.start();
    h.gone("SherpackRelease/s").await;
    // What its name may still do is done.
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
    assert_eq!(records(&h, &there).await, before);
    wait_for("an Event tells of the records", async || {
        let notes = h.events("s", "ServiceAccountNotFound").await;
        let told = format!("its revision records in {there} stay: ");
        if notes.iter().any(|note| note.contains(&told)) { Ok(()) } else { Err(format!("{notes:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_asked_about_once_a_minute_at_most_and_not_at_all_while_nothing_is_done() {
    let (h, there) = started("elsewhere-asked", Tenancy::Single).await;
    may_keep_records(&h, &there, true).await;
    let began = Instant::now();
    for color in ["blue", "green", "white", "black"] {
        h.deploy("s", &pack(&h, color), elsewhere(&there)).await;
    }
    let reviews = |mark: usize| {
        let all = h.wire.since(mark).into_iter();
        let reviews = all.filter(|request| request.is_about("selfsubjectrulesreviews"));
        reviews.filter(|request| request.body["spec"]["namespace"] == there.as_str()).count()
    };
    let most = 1 + usize::try_from(began.elapsed().as_secs() / 60).unwrap();
    assert!((1..=most).contains(&reviews(0)), "{} reviews for four revisions", reviews(0));

    // A refusal of anything to the account makes all doubtful that is known of its rights.
    h.apply("other", &Pack::new("other", "1.0.0").object(service("other")), json!({})).await;
    h.condition("other", "Ready", "False", Some("Forbidden")).await;
    let mark = h.wire.mark();
    h.pass("s").await;
    assert_eq!(reviews(mark), 0, "asked for a pass in which there was nothing to do");
    let records = |mark: usize| {
        let all = h.wire.since(mark).into_iter();
        all.filter(|request| request.path.contains(&format!("/{there}/")) && request.verb != "watch").count()
    };
    assert_eq!(records(mark), 0, "a record was asked for");
    h.deploy("s", &pack(&h, "red"), elsewhere(&there)).await;
    assert!(reviews(mark) > 0, "a revision was made on an answer that was doubtful");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_account_is_asked_about_before_anything_is_told_to_it() {
    let (h, there) = started("elsewhere-changed", Tenancy::Single).await;
    may_keep_records(&h, &there, true).await;
    h.deploy("s", &pack(&h, "blue"), elsewhere(&there)).await;
    let before = records(&h, &there).await;
    h.account("lower").await;
    h.grant("lower", &[rule(&[""], &["configmaps", "secrets"], &ALL)]).await;
    h.edit_spec("s", json!({"serviceAccountName": "lower"})).await;
    let held = h.condition("s", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&held).contains("lower lacks rights"), "{}", message(&held));
    assert_eq!(records(&h, &there).await, before);
    h.edit_spec("s", json!({"serviceAccountName": null})).await;
    h.ready("s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_deletes_what_is_sealed_for_it_and_names_the_other_records() {
    let h = Harness::new("elsewhere-sealed").await;
    for color in ["blue", "green", "white"] {
        h.deploy("web", &pack(&h, color), json!({})).await;
    }
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    let first = h.decoded("web", 1).await.record;
    let theirs = h.write_as_another_tool(&first).await;
    let damaged = h.damage("web", 2, |bytes| bytes.truncate(10)).await;
    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
    assert_eq!(h.record_secret("web", 1).await, theirs);
    assert_eq!(h.record_secret("web", 2).await, damaged);
    assert_eq!(h.records("web").await.len(), 2);
    wait_for("an Event names the records that stay", async || {
        let notes = h.events("web", "Orphaned").await;
        let named = |note: &String| [1, 2].iter().all(|v| note.contains(&Record::key_of("web", *v)));
        if notes.iter().any(named) { Ok(()) } else { Err(format!("{notes:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_adopted_objects_were_is_kept_in_secrets_that_the_account_may_write() {
    let (h, there) = started("elsewhere-adopts", Tenancy::Single).await;
    let config_maps = rule(&[""], &["configmaps"], &RECORDS);
    h.grant_in(&there, "low", std::slice::from_ref(&config_maps)).await;
    eventually("the API server knows the rights", async || {
        h.may_in(&there, "low", "delete", "configmaps").await
    })
    .await;
    h.objects.create(PERSON, config_map("settings", json!({"color": "red"}))).await;
    let mut spec = elsewhere(&there);
    spec["history"] = json!({"storage": "ConfigMap"});
    spec["install"] = json!({"adopt": "Unowned"});
    h.apply("s", &pack(&h, "blue"), spec).await;
    // The records would be allowed.
    refused(&h, "s", &there).await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    let revisions = async || h.objects.elsewhere(&there).list("ConfigMap", "sherpack.io/release-name").await;
    assert!(revisions().await.is_empty(), "a revision was made");
    h.grant_in(&there, "low", &[config_maps, rule(&[""], &["secrets"], &RECORDS)]).await;
    h.ready("s").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.uninstall("s").await;
    assert!(revisions().await.is_empty());
}

/// A read of the namespace itself, made as the release's account.
fn looks_up(request: &Request, there: &str) -> bool {
    request.verb == "get" && request.path.ends_with(&format!("/api/v1/namespaces/{there}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_namespace_that_is_made_after_it_was_looked_up_no_record_is_read() {
    let (h, there) = started("elsewhere-made", Tenancy::Multi).await;
    theirs(&h, &there, 1, State::Deployed).await;
    // It is there by now, and was not when the operator asked.
    let missing = there.clone();
    h.wire.fault(Fault::new(Effect::Answer(404), move |request| looks_up(request, &missing)));
    h.apply("s", &pack(&h, "blue"), elsewhere(&there)).await;
    let held = h.condition("s", "Ready", "False", Some("NamespaceNotFound")).await;
    assert!(h.wire.since(0).iter().any(|request| looks_up(request, &there)));
    let about = format!("/{there}/secrets");
    let read = |request: &Request| request.path.contains(&about) && request.verb != "watch";
    let reads: Vec<String> = h.wire.since(0).into_iter().filter(read).map(|r| r.line()).collect();
    assert!(reads.is_empty(), "the operator read there: {reads:?}");
    assert!(!held["status"].to_string().contains("vault"), "{held}");
    // Once it is seen, the account is asked.
    h.wire.heal();
    h.pass("s").await;
    refused(&h, "s", &there).await;
}
