//! Requests by annotation.

use serde_json::json;

use crate::support::packs::config_map;
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_still_written_after_a_request_was_taken_back() {
    let h = Harness::new("request-taken-back").await;
    let pack = Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"})));
    h.deploy("web", &pack, json!({})).await;
    h.pass("web").await;
    h.annotate("web", "sherpack.io/reconcile-at", json!(null)).await;
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    h.edit_spec("web", json!({"suspend": false})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_its_answer_makes_no_try_of_its_own() {
    let h = Harness::new("request-waits").await;
    h.release("web", json!({"pack": {"configMap": {"name": "nowhere"}}})).await;
    h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    // It is seen, and stays unanswered while nothing can be reset.
    h.pass("web").await;
    let passes = async || h.metric("sherpack_reconcile_duration_seconds_count", &[]).await;
    let mark = h.wire.mark();
    for touch in 0..20 {
        let before = passes().await;
        h.annotate("web", "example.com/touch", format!("{touch}")).await;
        eventually("a pass", async || passes().await > before).await;
    }
    let tries = h.wire.since(mark).iter().filter(|request| request.is_about("configmaps/nowhere")).count();
    assert!(tries < 15, "{tries} tries for 20 changes that nobody asked about");
}
