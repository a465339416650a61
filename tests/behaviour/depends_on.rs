//! `spec.dependsOn`: what waits for a dependency, what wakes it, and deletion the other way round.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

fn pack(name: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"})))
}

fn on(others: &[&str]) -> Value {
    let others: Vec<Value> = others.iter().map(|name| json!({"name": name})).collect();
    json!({"dependsOn": others})
}

/// Waits until a release is held with this reason and says this.
async fn held(h: &Harness, name: &str, reason: &str, says: &str) -> Value {
    h.sees(&format!("SherpackRelease/{name}"), |release| {
        let ready = condition(release, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        ready["status"] != "True" && ready["reason"] == reason && message.contains(says)
    })
    .await
}

/// Nothing of the release was ever made.
async fn untouched(h: &Harness, name: &str) {
    assert_eq!(h.records(name).await.len(), 0, "{name} has a revision");
    let object = format!("configmaps/{name}");
    assert!(h.wire.writes_to(&object, 0).is_empty(), "{object} was written");
}

/// The place of the first request that `matches`.
fn place(requests: &[Request], what: &str, matches: impl Fn(&Request) -> bool) -> usize {
    requests.iter().position(matches).unwrap_or_else(|| panic!("no request: {what}"))
}

/// The pending record of a release is stored.
fn begins(name: &str) -> impl Fn(&Request) -> bool {
    let record = format!("sh.sherpack.release.v1.{name}.v1");
    move |request| request.verb == "create" && request.body["metadata"]["name"] == record.as_str()
}

/// A status is written that says Ready.
fn turns_ready(name: &str) -> impl Fn(&Request) -> bool {
    let status = format!("sherpackreleases/{name}/status");
    move |request| request.is_about(&status) && condition(&request.body, "Ready")["status"] == "True"
}

fn deletes(name: &str) -> impl Fn(&Request) -> bool {
    let object = format!("configmaps/{name}");
    move |request| request.verb == "delete" && request.is_about(&object)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_is_installed_from_its_end() {
    let h = Harness::new("depends-chain").await;
    h.apply("web", &pack("web"), on(&["api"])).await;
    held(&h, "web", "DependencyNotReady", "depends-chain/api, which does not exist").await;
    h.apply("api", &pack("api"), on(&["db"])).await;
    held(&h, "api", "DependencyNotReady", "depends-chain/db, which does not exist").await;
    held(&h, "web", "DependencyNotReady", "depends-chain/api, which is not Ready: DependencyNotReady").await;
    untouched(&h, "web").await;
    untouched(&h, "api").await;

    h.deploy("db", &pack("db"), json!({})).await;
    h.ready("web").await;
    let requests = h.wire.writes_since(0);
    let places = [
        place(&requests, "db is Ready", turns_ready("db")),
        place(&requests, "api begins", begins("api")),
        place(&requests, "api is Ready", turns_ready("api")),
        place(&requests, "web begins", begins("web")),
    ];
    assert!(places.is_sorted(), "{places:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_that_fails_holds_its_dependents_until_it_is_mended() {
    let h = Harness::new("depends-fails").await;
    let never = with_pod_annotation(deployment("db", 1), "devcluster/unready", "true");
    let spec = json!({"timeout": "1s", "install": {"retries": 0}});
    h.apply("db", &pack("db").object(never), spec).await;
    h.apply("cache", &pack("cache"), json!({"suspend": true})).await;
    h.apply("web", &pack("web"), on(&["db", "cache"])).await;
    let release = held(&h, "web", "DependencyNotReady", "RetriesExceeded (and for 1 more)").await;
    // Nothing is wrong with it, it only waits.
    assert_eq!(condition(&release, "Ready")["status"], "False");
    assert!(condition(&release, "Stalled").is_null(), "{release}");
    untouched(&h, "web").await;

    h.deploy("db", &pack("db"), json!({})).await;
    held(&h, "web", "DependencyNotReady", "depends-fails/cache, which is not Ready: Suspended").await;
    untouched(&h, "web").await;
    h.edit_spec("cache", json!({"suspend": null})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependent_asks_for_nothing_while_it_waits_and_is_woken_by_the_dependency() {
    let h = Harness::new("depends-quiet").await;
    h.apply("db", &pack("db"), json!({"suspend": true})).await;
    h.apply("web", &pack("web"), on(&["db"])).await;
    held(&h, "web", "DependencyNotReady", "Suspended").await;
    let mark = h.wire.mark();
    for number in 0..3 {
        let name = format!("other-{number}");
        h.deploy(&name, &pack(&name), json!({})).await;
    }
    let about_web = |request: &Request| {
        ["web", "web-pack", "sh.sherpack.release.v1.web.v1"]
            .iter()
            .any(|name| request.path.split('/').any(|part| part == *name))
            || request.path.ends_with("/sherpackreleases")
    };
    let asked: Vec<String> = h.wire.since(mark).into_iter().filter(about_web).map(|r| r.line()).collect();
    assert_eq!(asked, Vec::<String>::new(), "it asks while it waits");
    // The next look by itself would come after ten minutes.
    h.edit_spec("db", json!({"suspend": null})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deployed_stays_ready_and_locked_while_a_dependency_is_not() {
    let h = Harness::new("depends-deployed").await;
    h.deploy("db", &pack("db"), json!({})).await;
    h.deploy("web", &pack("web"), on(&["db"])).await;
    h.edit_spec("db", json!({"suspend": true})).await;
    h.condition("db", "Ready", "False", Some("Suspended")).await;
    h.pass("web").await;
    assert_eq!(condition(&h.ready("web").await, "Ready")["reason"], "InstallSucceeded");
    let drift = json!({"data": {"color": "red"}});
    h.objects.edit("ConfigMap/web", "kubectl-edit", drift.clone()).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;

    let newer = Pack::new("web", "2.0.0").object(config_map("web", json!({"color": "green"})));
    h.pack("web-pack", &newer).await;
    held(&h, "web", "DependencyNotReady", "Suspended").await;
    h.objects.edit("ConfigMap/web", "kubectl-edit", drift).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
    h.shows_states("web", &["1 deployed"]).await;

    h.edit_spec("db", json!({"suspend": null})).await;
    h.shows("ConfigMap/web", "/data/color", "green").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_has_begun_goes_on_when_a_dependency_fails_even_with_another_process() {
    let h = Harness::new("depends-midway").await;
    h.deploy("db", &pack("db"), json!({})).await;
    let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.apply("web", &pack("web").object(slow), on(&["db"])).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.edit_spec("db", json!({"suspend": true})).await;
    h.condition("db", "Ready", "False", Some("Suspended")).await;
    h.start();
    h.operator_ready().await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

/// Nothing can take the place of what fails meanwhile, so that is undone, and locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_while_its_release_is_in_a_cycle_is_undone() {
    let h = Harness::new("depends-undone").await;
    h.deploy("a", &pack("a"), json!({"timeout": "8s"})).await;
    let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.pack("a-pack", &pack("a").object(slow)).await;
    h.shows("SherpackRelease/a", "/status/operation/phase", "Wait").await;
    h.apply("b", &pack("b"), on(&["a"])).await;
    h.edit_spec("a", on(&["b"])).await;
    h.condition("a", "Stalled", "True", Some("DependencyCycle")).await;
    h.shows_states("a", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.gone("Deployment/slow").await;
    h.objects.edit("ConfigMap/a", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/a", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_is_reported_on_every_member_and_over_when_it_is_broken() {
    let h = Harness::new("depends-cycle").await;
    // One of them is deployed before it becomes a part of it.
    h.deploy("a", &pack("a"), json!({})).await;
    h.apply("b", &pack("b"), on(&["c"])).await;
    h.apply("c", &pack("c"), on(&["a"])).await;
    h.ready("b").await;
    h.apply("d", &pack("d"), on(&["e"])).await;
    h.apply("e", &pack("e"), on(&["d"])).await;
    h.edit_spec("a", on(&["b"])).await;
    for (name, path) in [
        ("a", "depends-cycle/a -> depends-cycle/b -> depends-cycle/c -> depends-cycle/a"),
        ("b", "depends-cycle/b -> depends-cycle/c -> depends-cycle/a -> depends-cycle/b"),
        ("c", "depends-cycle/c -> depends-cycle/a -> depends-cycle/b -> depends-cycle/c"),
        ("d", "depends-cycle/d -> depends-cycle/e -> depends-cycle/d"),
        ("e", "depends-cycle/e -> depends-cycle/d -> depends-cycle/e"),
    ] {
        let release = held(&h, name, "DependencyCycle", path).await;
        let stalled = condition(&release, "Stalled");
        assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("DependencyCycle")));
    }
    untouched(&h, "d").await;
    untouched(&h, "e").await;
    h.objects.edit("ConfigMap/a", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/a", "/data/color", "blue").await;

    h.edit_spec("c", json!({"dependsOn": null})).await;
    h.objects.delete("SherpackRelease/d").await;
    held(&h, "e", "DependencyNotReady", "depends-cycle/d, which does not exist").await;
    for name in ["a", "b", "c"] {
        let release = h.ready(name).await;
        assert!(condition(&release, "Stalled").is_null(), "{release}");
        h.shows_states(name, &["1 deployed"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_depends_on_itself_or_on_what_is_not_watched_is_refused() {
    let h = Harness::new("depends-self").await;
    for (name, namespace, says) in [
        ("web", "depends-self", "spec.dependsOn[0].name: `web` is this release itself"),
        ("db", "elsewhere", "spec.dependsOn[0].namespace: `elsewhere` is not watched"),
    ] {
        let spec = json!({"dependsOn": [{"name": name, "namespace": namespace}]});
        h.apply("web", &pack("web"), spec).await;
        let release = h.condition("web", "Stalled", "True", Some("InvalidSpec")).await;
        let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(says), "{message}");
    }
    untouched(&h, "web").await;
    h.edit_spec("web", json!({"dependsOn": null})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_are_deleted_together_go_in_reverse_even_with_another_process() {
    let h = Harness::new("depends-delete").await;
    h.deploy("db", &pack("db"), json!({})).await;
    h.deploy("api", &pack("api"), on(&["db"])).await;
    h.deploy("web", &pack("web"), on(&["api"])).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    h.objects.edit("ConfigMap/web", "test", finalizer).await;
    let mark = h.wire.mark();
    for name in ["db", "api", "web"] {
        h.objects.delete(&format!("SherpackRelease/{name}")).await;
    }
    for again in [false, true] {
        if again {
            h.start();
        }
        h.sees("SherpackRelease/web", |web| condition(web, "Ready")["reason"] == "Uninstalling").await;
        for (name, dependent) in [("api", "web"), ("db", "api")] {
            let says = format!("depends-delete/{dependent}, which depends on this one");
            let release = held(&h, name, "WaitingForDependents", &says).await;
            let operation = &release["status"]["operation"];
            assert_eq!(operation["phase"], "Dependents", "{release}");
            let object = format!("SherpackRelease depends-delete/{dependent}");
            assert_eq!(operation["waitingFor"][0]["object"], object.as_str());
            h.shows_states(name, &["1 deployed"]).await;
        }
    }
    h.objects.edit("ConfigMap/web", "test", json!({"metadata": {"finalizers": null}})).await;
    for name in ["web", "api", "db"] {
        h.gone(&format!("SherpackRelease/{name}")).await;
    }
    let requests = h.wire.writes_since(mark);
    let places = ["web", "api", "db"].map(|name| place(&requests, name, deletes(name)));
    assert!(places.is_sorted(), "{places:?}");
    for name in ["web", "api", "db"] {
        assert!(h.objects.find(&format!("ConfigMap/{name}")).await.is_none(), "{name}");
        assert_eq!(h.records(name).await.len(), 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_dependent_holds_no_deletion() {
    let h = Harness::new("depends-living").await;
    h.deploy("db", &pack("db"), json!({})).await;
    h.deploy("web", &pack("web"), on(&["db"])).await;
    h.uninstall("db").await;
    assert!(h.objects.find("ConfigMap/db").await.is_none());
    h.ready("web").await;
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_of_a_cycle_do_not_wait_for_each_others_deletion() {
    let h = Harness::new("depends-delete-cycle").await;
    h.deploy("a", &pack("a"), json!({})).await;
    h.deploy("b", &pack("b"), on(&["a"])).await;
    h.edit_spec("a", on(&["b"])).await;
    held(&h, "a", "DependencyCycle", "depends-delete-cycle/b").await;
    for name in ["a", "b"] {
        h.objects.delete(&format!("SherpackRelease/{name}")).await;
    }
    for name in ["a", "b"] {
        h.gone(&format!("SherpackRelease/{name}")).await;
        assert!(h.objects.find(&format!("ConfigMap/{name}")).await.is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependent_that_does_not_get_away_is_not_waited_for_for_ever() {
    let h = Harness::new("depends-late").await;
    h.deploy("db", &pack("db"), json!({"uninstall": {"timeout": "4s"}})).await;
    h.deploy("web", &pack("web"), on(&["db"])).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    h.objects.edit("ConfigMap/web", "test", finalizer).await;
    h.objects.delete("SherpackRelease/db").await;
    h.objects.delete("SherpackRelease/web").await;
    held(&h, "db", "WaitingForDependents", "depends-late/web").await;
    h.gone("SherpackRelease/db").await;
    eventually("an Event says so", async || {
        let notes = h.events("db", "WaitingForDependents").await;
        notes.iter().any(|note| note.contains("depends-late/web"))
    })
    .await;
    assert!(h.objects.find("ConfigMap/db").await.is_none());
    assert!(h.objects.find("SherpackRelease/web").await.is_some());
    h.objects.edit("ConfigMap/web", "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone("SherpackRelease/web").await;
}
