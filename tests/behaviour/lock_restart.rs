//! The lock: nothing that happened while nobody looked is missed, and looking again costs no read of an object.

use serde_json::json;

use crate::support::packs::{config_map, service};
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_made_while_no_operator_ran_is_found_without_reading_objects() {
    let h = Harness::new("drift-while-down").await;
    for release in ["a", "b", "c"] {
        let names = ["value", "deleted", "untouched"].map(|name| format!("{release}-{name}"));
        let objects = names.iter().map(|name| config_map(name, json!({"color": "blue"})));
        h.deploy(release, &Pack::new(release, "1.0.0").objects(objects), json!({})).await;
    }
    h.stop().await;
    for release in ["a", "b", "c"] {
        let red = json!({"data": {"color": "red"}});
        h.objects.edit(&format!("ConfigMap/{release}-value"), "kubectl-edit", red).await;
        h.objects.delete(&format!("ConfigMap/{release}-deleted")).await;
    }
    let mark = h.wire.mark();
    h.start();
    for release in ["a", "b", "c"] {
        h.shows(&format!("ConfigMap/{release}-value"), "/data/color", "blue").await;
        h.shows(&format!("ConfigMap/{release}-deleted"), "/data/color", "blue").await;
    }
    for release in ["a", "b", "c"] {
        h.pass(release).await;
        let untouched = format!("configmaps/{release}-untouched");
        let about: Vec<String> =
            h.wire.since(mark).iter().filter(|r| r.is_about(&untouched)).map(Request::line).collect();
        assert!(about.is_empty(), "{about:?}");
        // What changed is put back without a look at it.
        let changed = format!("configmaps/{release}-value");
        let reads: Vec<String> = h
            .wire
            .since(mark)
            .iter()
            .filter(|r| r.is_read() && r.is_about(&changed))
            .map(Request::line)
            .collect();
        assert!(reads.is_empty(), "{reads:?}");
    }
    // Packs are looked for by another watch, which leaves the records out.
    let lists = |request: &&Request| {
        request.verb == "list"
            && request.is_about("configmaps")
            && request.query.contains("release-name")
            && !request.query.contains("storage-driver%3D")
            // Objects of other tests may make it more than one page.
            && !request.query.contains("continue=")
    };
    let lists: Vec<String> = h.wire.since(mark).iter().filter(lists).map(Request::line).collect();
    assert_eq!(lists.len(), 1, "one list of the kind for all releases: {lists:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_locked_after_its_watches_were_cut() {
    let h = Harness::new("watch-cut").await;
    let pack = Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"})));
    h.deploy("web", &pack, json!({})).await;
    for _ in 0..2 {
        h.wire.cut_watches();
        h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
    }
}

fn about_services(verb: &'static str) -> impl Fn(&Request) -> bool {
    move |request| request.verb == verb && request.path == "/api/v1/services"
}

/// The API server has forgotten what happened since the watch broke, so a list has to tell what is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deleted_while_the_watch_was_broken_is_found_by_the_next_list() {
    let h = Harness::new("watch-expired").await;
    let pack = Pack::new("web", "1.0.0").objects(["gone", "changed", "still"].map(service));
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();
    h.wire.fault(Fault::new(Effect::Expired, about_services("watch")).once());
    h.wire.fault(Fault::new(Effect::Hold, about_services("list")).once());
    h.wire.cut_watches();
    wait_for("the kind is about to be listed again", async || {
        let listed = h.wire.since(mark).iter().any(about_services("list"));
        if listed { Ok(()) } else { Err("no list".to_owned()) }
    })
    .await;
    h.objects.delete("Service/gone").await;
    let elsewhere = json!({"spec": {"selector": {"app": "elsewhere"}}});
    h.objects.edit("Service/changed", "kubectl-edit", elsewhere).await;
    h.wire.release();
    h.shows("Service/gone", "/spec/ports/0/port", 80).await;
    h.shows("Service/changed", "/spec/selector/app", "changed").await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("services/still", mark).len(), 0);
}
