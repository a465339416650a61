//! A restart costs lists and no writes; what happened meanwhile is found all the same.

use serde_json::json;

use crate::support::packs::{config_map, deployment, service};
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

fn pack(name: &str) -> Pack {
    Pack::new(name, "1.0.0")
        .object(config_map(name, json!({"color": "blue"})))
        .object(service(name))
        .object(deployment(name, 0))
}

const RELEASES: [&str; 4] = ["one", "two", "three", "four"];

async fn deployed(name: &str) -> Harness {
    let h = Harness::new(name).await;
    for release in RELEASES {
        h.deploy(release, &pack(release), json!({})).await;
    }
    h
}

/// Waits until the running operator has been over every release.
async fn all_passed(h: &Harness) {
    h.operator_ready().await;
    eventually("a pass over every release", async || {
        h.metric("sherpack_reconcile_duration_seconds_count", &["\"Nothing\""]).await >= RELEASES.len() as f64
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_writes_nothing_and_reads_no_object_by_itself() {
    let h = deployed("restart-idle").await;
    h.stop().await;
    let mark = h.wire.mark();
    h.start();
    all_passed(&h).await;
    let writes: Vec<String> = h.wire.writes_since(mark).iter().map(Request::line).collect();
    assert_eq!(writes, Vec::<String>::new());
    // Neither releases, nor their objects, nor their records are read one by one.
    let single = |request: &Request| {
        let pack = RELEASES.iter().any(|name| request.is_about(&format!("configmaps/{name}-pack")));
        let key = ["sherpack-operator-record-key", "sherpack-operator-record-keys"];
        let start = key.iter().any(|name| request.is_about(name)) || !request.path.contains("/namespaces/");
        // Large revisions of releases elsewhere, those of other tests, take a read for each of their parts.
        let elsewhere = !start && !request.path.contains("/namespaces/restart-idle/");
        request.verb == "get" && !pack && !start && !elsewhere
    };
    let reads: Vec<String> =
        h.wire.since(mark).iter().filter(|request| single(request)).map(Request::line).collect();
    assert_eq!(reads, Vec::<String>::new());
    // Records of other tests are more pages of one list, and their parts are looked for by label in their namespaces.
    let own = |request: &&Request| {
        let elsewhere =
            request.path.contains("/namespaces/") && !request.path.contains("/namespaces/restart-idle/");
        request.verb == "list" && !request.query.contains("continue=") && !elsewhere
    };
    let since = h.wire.since(mark);
    let lists: Vec<String> =
        since.iter().filter(own).map(|request| format!("{} {}", request.path, request.query)).collect();
    assert!(lists.len() <= 20, "{} lists: {lists:#?}", lists.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_made_while_nobody_looked_is_put_back_and_nothing_else_is_touched() {
    let h = deployed("restart-drift").await;
    h.stop().await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/one", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.objects.delete("Service/two").await;
    let unlabelled = json!({"metadata": {"labels": {"sherpack.io/release-name": null}}});
    h.objects.edit("ConfigMap/three", "kubectl-label", unlabelled).await;
    h.start();
    h.shows("ConfigMap/one", "/data/color", "blue").await;
    h.sees("Service/two", |_| true).await;
    h.shows("ConfigMap/three", "/metadata/labels/sherpack.io~1release-name", "three").await;
    for quiet in ["configmaps/two", "services/one", "services/three", "configmaps/four", "deployments"] {
        assert!(h.wire.writes_to(quiet, mark).is_empty(), "{quiet} was written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_watch_misses_nothing() {
    let h = deployed("watches-cut").await;
    for color in ["red", "green", "white"] {
        h.wire.cut_watches();
        h.objects.edit("ConfigMap/one", "kubectl-edit", json!({"data": {"color": color}})).await;
        h.shows("ConfigMap/one", "/data/color", "blue").await;
    }
    // The watches of releases, packs and records go on as well.
    h.wire.cut_watches();
    h.pack("two-pack", &pack("two").object(config_map("more", json!({"a": "b"})))).await;
    h.sees("ConfigMap/more", |_| true).await;
    h.wire.cut_watches();
    h.edit_spec("three", json!({"suspend": true})).await;
    h.condition("three", "Ready", "False", Some("Suspended")).await;
    h.wire.cut_watches();
    h.lose_record("four", 1).await;
    h.condition("four", "Ready", "False", Some("RecordLost")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_status_was_lost_makes_no_revision() {
    let h = Harness::new("status-lost").await;
    h.deploy("web", &pack("web"), json!({})).await;
    let uids = h.objects.uids(&["ConfigMap/web", "Service/web", "Deployment/web"]).await;
    h.stop().await;
    h.forge_status(
        "web",
        json!({
            "conditions": null, "revision": null, "pack": null, "history": null, "inputs": null, "observedGeneration": -1,
        }),
    )
    .await;
    h.start();
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["revision"], 1);
    h.shows_states("web", &["1 deployed"]).await;
    assert_eq!(h.objects.uids(&["ConfigMap/web", "Service/web", "Deployment/web"]).await, uids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_spec_made_while_nobody_looked_is_rolled_out() {
    let h = Harness::new("restart-spec").await;
    h.deploy("web", &pack("web"), json!({})).await;
    h.stop().await;
    h.pack("web-pack", &pack("web").object(config_map("more", json!({"a": "b"})))).await;
    h.start();
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.sees("ConfigMap/more", |_| true).await;
}
