//! Whether a release waits until its objects are gone: `spec.uninstall.wait`.

use serde_json::json;

use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_does_not_wait_goes_before_its_objects() {
    let h = Harness::new("uninstall-nowait").await;
    let pack = Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"})));
    h.deploy("web", &pack, json!({"uninstall": {"wait": false}})).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    h.objects.edit("ConfigMap/settings", "test", finalizer).await;
    h.uninstall("web").await;
    let going = h.objects.get("ConfigMap/settings").await;
    assert!(going["metadata"]["deletionTimestamp"].is_string(), "{going}");
    assert!(h.records("web").await.is_empty());
    h.objects.edit("ConfigMap/settings", "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone("ConfigMap/settings").await;
}
