//! What the operator knows from its watches: reads that lose a race with an event, and watches that fail.

use serde_json::json;
use sherpack_operator::release::Record;

use crate::support::harness::condition;
use crate::support::packs::{config_map, service};
use crate::support::records::pending_since;
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

fn pack(name: &str, color: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": color})))
}

fn gets(what: &'static str) -> impl Fn(&Request) -> bool + Clone + Send + Sync + 'static {
    move |request| request.verb == "get" && request.is_about(what)
}

/// The answer of the next read of this object is held back; waits until it is on its way.
async fn held(h: &Harness, what: &'static str, change: impl AsyncFnOnce()) {
    let mark = h.wire.mark();
    h.wire.fault(Fault::new(Effect::HoldAnswer, gets(what)).once());
    change().await;
    eventually("the API server has answered the read", async || {
        h.wire.since(mark).iter().any(|request| gets(what)(request) && request.code == 200)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_changes_while_it_is_read_is_read_again() {
    let h = Harness::new("stale-pack").await;
    h.deploy("web", &pack("web", "blue"), json!({})).await;
    h.deploy("other", &pack("other", "blue"), json!({})).await;
    held(&h, "configmaps/web-pack", async || h.pack("web-pack", &pack("web", "red")).await).await;
    h.pack("web-pack", &pack("web", "green")).await;
    // One watch tells of both, in order.
    h.deploy("other", &pack("other", "green"), json!({})).await;
    h.wire.release();
    h.shows("ConfigMap/web", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_changes_while_it_is_read_is_read_again() {
    let h = Harness::new("stale-record").await;
    h.deploy("web", &pack("web", "blue"), json!({})).await;
    h.deploy("other", &pack("other", "blue"), json!({})).await;
    let first = h.decoded("web", 1).await.record;
    let (record, others) =
        ("secrets/sh.sherpack.release.v1.web.v1", "secrets/sh.sherpack.release.v1.other.v1");
    let touch = json!({"metadata": {"annotations": {"example.com/note": "seen"}}});
    let touched = async || {
        h.objects.edit("Secret/sh.sherpack.release.v1.web.v1", "kubectl-annotate", touch.clone()).await;
    };
    held(&h, record, touched).await;
    h.write_as_another_tool(&Record { version: 2, state: pending_since(0), ..first }).await;
    // One watch tells of both, in order.
    let mark = h.wire.mark();
    h.objects.edit("Secret/sh.sherpack.release.v1.other.v1", "kubectl-annotate", touch.clone()).await;
    eventually("the watch of records is that far", async || h.wire.since(mark).iter().any(gets(others)))
        .await;
    h.wire.release();
    h.condition("web", "Ready", "False", Some("ForeignPending")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_reconcile_reads_the_pack_whatever_the_watch_says() {
    let h = Harness::new("asked-pack").await;
    h.deploy("web", &pack("web", "blue"), json!({})).await;
    let mark = h.wire.mark();
    h.pass("web").await;
    wait_for("a read of the pack", async || {
        let reads = h.wire.since(mark).into_iter().filter(gets("configmaps/web-pack")).count();
        if reads > 0 { Ok(()) } else { Err(format!("{reads}")) }
    })
    .await;
}

/// Every list and watch of this kind is refused.
fn refused(kind: &'static str) -> Fault {
    Fault::new(Effect::Answer(403), move |request| {
        matches!(request.verb, "list" | "watch") && request.is_about(kind)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_keeps_failing_is_told_and_the_rest_stays_locked() {
    let h = Harness::new("watch-refused").await;
    h.deploy("web", &pack("web", "blue").object(service("web")), json!({})).await;
    h.wire.fault(refused("services"));
    h.wire.cut_watches();
    let release = h.condition("web", "Ready", "False", Some("WatchFailed")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Service") && message.contains("403"), "{message}");
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
    // What is changed meanwhile is put back as soon as it can be seen.
    let moved = json!({"spec": {"selector": {"app": "other"}}});
    h.objects.edit("Service/web", "kubectl-edit", moved).await;
    h.wire.heal();
    h.shows("Service/web", "/spec/selector/app", "web").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_cannot_be_listed_is_told_at_once_and_taken_up_when_it_can() {
    let h = Harness::without_operator("list-refused").await;
    h.wire.fault(refused("services"));
    h.start();
    h.apply("web", &pack("web", "blue").object(service("web")), json!({})).await;
    h.condition("web", "Ready", "False", Some("WatchFailed")).await;
    // The pass did not wait for more tries of the watch.
    let requests = h.wire.since(0);
    let told = requests.iter().position(|request| {
        request.is_about("sherpackreleases/web/status") && request.body.to_string().contains("WatchFailed")
    });
    let lists = requests[..told.unwrap()].iter().filter(|request| request.is_about("services")).count();
    assert!(lists <= 2, "{lists} lists before it was told");
    h.wire.heal();
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_does_not_come_holds_no_pass_up_and_wakes_its_release_when_it_comes() {
    let h = Harness::without_operator("list-held").await;
    let listed = |request: &Request| request.verb == "list" && request.is_about("services");
    h.wire.fault(Fault::new(Effect::HoldAnswer, listed));
    h.start();
    h.apply("web", &pack("web", "blue").object(service("web")), json!({})).await;
    let release = h.condition("web", "Ready", "False", Some("WatchFailed")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Service") && message.contains("its first list has not come yet"), "{message}");
    h.wire.release();
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_stays_locked_when_its_version_is_no_longer_served() {
    let h = Harness::new("watch-version").await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "string"}}},
    }}});
    let definition = |beta: bool| {
        let version = |name: &str, served: bool, storage: bool| json!({"name": name, "served": served, "storage": storage, "schema": schema});
        json!({"spec": {
            "group": "watches.example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [version("v1beta1", beta, false), version("v1", true, true)],
        }})
    };
    let gadget = |version: &str| {
        let api_version = format!("watches.example.com/{version}");
        let object = json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": "one"}, "spec": {"size": "small"}});
        Pack::new("web", "1.0.0").object(object)
    };
    let crd = "CustomResourceDefinition/gadgets.watches.example.com";
    h.objects.server_side_apply(crd, "test", definition(true)).await;
    h.deploy("web", &gadget("v1beta1"), json!({})).await;
    h.objects.server_side_apply(crd, "test", definition(false)).await;
    h.deploy("web", &gadget("v1"), json!({})).await;
    h.objects.edit("Gadget/one", "kubectl-edit", json!({"spec": {"size": "big"}})).await;
    h.shows("Gadget/one", "/spec/size", "small").await;
    let last =
        h.wire.since(0).into_iter().rfind(|request| request.verb == "watch" && request.is_about("gadgets"));
    assert!(last.unwrap().path.contains("/v1/"), "the version that is served is watched");
    h.uninstall("web").await;
    h.objects.delete(crd).await;
}
