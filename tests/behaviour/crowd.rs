//! Many releases that wait for what never comes hold up nobody else.

use serde_json::json;

use crate::support::harness::condition;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

/// Of each of the two kinds; the operator of a test works on four releases at once.
const CROWD: usize = 10;

fn pack(name: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"}))).object(deployment(name, 1))
}

/// The releases of the crowd that are not on their way as they should be.
async fn stray(h: &Harness) -> Vec<String> {
    let mut stray = Vec::new();
    for number in 0..CROWD {
        let unhealthy = h.status(&format!("unhealthy-{number}")).await;
        if unhealthy["operation"]["phase"] != "Wait" {
            stray.push(format!("unhealthy-{number}: {unhealthy}"));
        }
        let unreachable = h.objects.get(&format!("SherpackRelease/unreachable-{number}")).await;
        let ready = condition(&unreachable, "Ready");
        // First it is being fetched, and after the time for an answer it is tried again.
        if ready.is_null() || ready["status"] == "True" {
            stray.push(format!("unreachable-{number}: {ready}"));
        }
    }
    stray
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_installed_upgraded_healed_and_deleted_while_a_crowd_waits() {
    let server = HttpServer::start().await;
    let mut h = Harness::without_operator("crowd").await;
    h.settings.sources.allow = vec!["127.0.0.1".parse().unwrap()];
    h.start();
    for number in 0..CROWD {
        let name = format!("unhealthy-{number}");
        let never = with_pod_annotation(deployment(&name, 1), "devcluster/unready", "true");
        let stuck = Pack::new(&name, "1.0.0").object(never);
        h.apply(&name, &stuck, json!({"timeout": "1h"})).await;
        let path = format!("/{number}.tgz");
        server.serve(&path, Route::Silent);
        let source = json!({"pack": {"http": {"url": server.url(&path)}}});
        h.release(&format!("unreachable-{number}"), source).await;
    }
    wait_for("the whole crowd waits", async || {
        let stray = stray(&h).await;
        if stray.is_empty() { Ok(()) } else { Err(stray.join("\n")) }
    })
    .await;

    h.deploy("web", &pack("web"), json!({})).await;
    h.deploy("web", &pack("web").object(config_map("more", json!({}))), json!({})).await;
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
    h.uninstall("web").await;
    assert_eq!(stray(&h).await, Vec::<String>::new(), "they do not wait any more");
}
