//! What the operator knows from its watches: reads that lose a race with an event.

use serde_json::json;
use sherpack_operator::release::Record;

use crate::support::packs::config_map;
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
