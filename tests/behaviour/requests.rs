//! Requests by annotation.

use serde_json::json;

use crate::support::packs::config_map;
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
