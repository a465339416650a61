//! The lock: what others do to a field of ours is put back, what they add of their own stays.

use serde_json::json;

use crate::support::packs::{config_map, deployment};
use crate::support::{Harness, Pack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_value_is_put_back() {
    let h = Harness::new("a-changed-value").await;
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(deployment("web", 1));
    h.deploy("web", &pack, json!({})).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
