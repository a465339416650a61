//! The lock: objects that are deleted, on their way out, made anew by somebody else, or have lost our label.

use serde_json::{Value, json};

use crate::support::objects::uid;
use crate::support::packs::{config_map, service};
use crate::support::wait::wait_for;
use crate::support::{Effect, Fault, Harness, Pack};

const RELEASE_NAME: &str = "/metadata/labels/sherpack.io~1release-name";

fn two_config_maps() -> Pack {
    let blue = |name: &str| config_map(name, json!({"color": "blue"}));
    Pack::new("web", "1.0.0").objects(["settings", "last"].map(blue))
}

/// Changes `last` and waits until it is back: whatever was done to a ConfigMap before has been seen by then.
async fn until_seen(h: &Harness) {
    h.objects.edit("ConfigMap/last", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/last", "/data/color", "blue").await;
}

/// Waits until the status names the object with what was done about it.
async fn told(h: &Harness, object: &str, action: &str) -> Value {
    wait_for(&format!("the status says that {object} was {action}"), async || {
        let status = h.status("web").await;
        let objects = status["drift"]["objects"].as_array().cloned().unwrap_or_default();
        let found = objects.into_iter().find(|entry| entry["object"].as_str().unwrap().ends_with(object));
        found.filter(|entry| entry["action"] == action).ok_or_else(|| status["drift"].to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_object_is_made_again() {
    let h = Harness::new("deleted-object").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let before = h.objects.get("ConfigMap/settings").await;
    h.objects.delete("ConfigMap/settings").await;
    let after = h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert_ne!(uid(&before), uid(&after));
    told(&h, "/settings", "Recreated").await;
    // The new uid is what is expected from now on, after a restart too.
    h.start();
    h.operator_ready().await;
    let mark = h.wire.mark();
    until_seen(&h).await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("configmaps/settings", mark).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_somebody_else_made_in_place_of_ours_is_put_back() {
    let h = Harness::new("made-by-others").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let mark = h.wire.mark();
    h.wire.fault(Fault::on_writes(Effect::Hold, "configmaps/settings").once());
    h.objects.delete("ConfigMap/settings").await;
    wait_for("our apply is on its way", async || {
        let writes = h.wire.writes_to("configmaps/settings", mark);
        if writes.is_empty() { Err(format!("{writes:?}")) } else { Ok(()) }
    })
    .await;
    h.objects.create("kubectl-create", config_map("settings", json!({"color": "red", "size": "big"}))).await;
    h.wire.release();
    let back = h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert_eq!(back["data"]["size"], "big", "what they added is theirs");
    assert_eq!(back.pointer(RELEASE_NAME), Some(&json!("web")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_a_backup_restored_with_our_labels_is_put_back() {
    let h = Harness::new("restored-by-backup").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    h.kill();
    let mut copy = h.objects.get("ConfigMap/settings").await;
    h.objects.delete("ConfigMap/settings").await;
    let metadata = copy["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
    copy["data"]["color"] = json!("red");
    h.objects.create("velero", copy).await;
    h.start();
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    // It was not deleted and made anew once more.
    told(&h, "/settings", "Reverted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_on_its_way_out_is_awaited_and_then_made_again() {
    let h = Harness::new("on-its-way-out").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    h.objects.edit("ConfigMap/settings", "backup", hold).await;
    let before = h.objects.get("ConfigMap/settings").await;
    let mark = h.wire.mark();
    h.objects.delete("ConfigMap/settings").await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    until_seen(&h).await;
    h.pass("web").await;
    // An apply that leaves the finalizer out would finish the deletion under the hands of whoever holds it.
    assert_eq!(h.wire.writes_to("configmaps/settings", mark).len(), 0);
    let live = h.objects.get("ConfigMap/settings").await;
    assert_eq!((uid(&live), &live["data"]["color"]), (uid(&before), &json!("red")));
    h.objects.edit("ConfigMap/settings", "backup", json!({"metadata": {"finalizers": null}})).await;
    let after = h.sees("ConfigMap/settings", |object| uid(object) != uid(&before)).await;
    assert_eq!(after["data"]["color"], "blue");
}

/// Nothing tells that such an object has gone: it left our watch with its label.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_on_its_way_out_that_lost_our_label_is_made_again_too() {
    let h = Harness::new("out-without-label").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    h.objects.edit("ConfigMap/settings", "backup", hold).await;
    let before = h.objects.get("ConfigMap/settings").await;
    let mark = h.wire.mark();
    h.objects.delete("ConfigMap/settings").await;
    let unlabelled = json!({"metadata": {"labels": {"sherpack.io/release-name": null}}});
    h.objects.edit("ConfigMap/settings", "kubectl-label", unlabelled).await;
    until_seen(&h).await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("configmaps/settings", mark).len(), 0);
    h.objects.edit("ConfigMap/settings", "backup", json!({"metadata": {"finalizers": null}})).await;
    let after = h.sees("ConfigMap/settings", |object| uid(object) != uid(&before)).await;
    assert_eq!(after["data"]["color"], "blue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_label_is_put_back_and_is_no_deletion() {
    let h = Harness::new("lost-label").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let before = h.objects.get("ConfigMap/settings").await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"size": "big"}})).await;
    let unlabelled = json!({"metadata": {"labels": {"sherpack.io/release-name": null}}});
    h.objects.edit("ConfigMap/settings", "kubectl-label", unlabelled).await;
    let after = h.shows("ConfigMap/settings", RELEASE_NAME, "web").await;
    assert_eq!((uid(&after), &after["data"]["size"]), (uid(&before), &json!("big")));
    told(&h, "/settings", "Reverted").await;
    // It is back in the watch.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_with_our_labels_that_no_inventory_names_are_left_alone() {
    let h = Harness::new("unknown-objects").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let ours = h.objects.get("ConfigMap/settings").await;
    let mark = h.wire.mark();
    let mut stranger = config_map("stranger", json!({"color": "red"}));
    stranger["metadata"]["labels"] = ours["metadata"]["labels"].clone();
    stranger["metadata"]["annotations"] = ours["metadata"]["annotations"].clone();
    h.objects.create("sherpack", stranger).await;
    h.objects.edit("ConfigMap/stranger", "kubectl-edit", json!({"data": {"color": "green"}})).await;
    until_seen(&h).await;
    h.pass("web").await;
    let about: Vec<_> =
        h.wire.since(mark).into_iter().filter(|request| request.is_about("configmaps/stranger")).collect();
    assert!(about.is_empty(), "{about:?}");
    // Neither an upgrade nor the end of the release takes it along.
    let next = Pack::new("web", "2.0.0").object(config_map("last", json!({"color": "blue"})));
    h.deploy("web", &next, json!({})).await;
    h.gone("ConfigMap/settings").await;
    h.uninstall("web").await;
    assert_eq!(h.objects.get("ConfigMap/stranger").await["data"]["color"], "green");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_that_inherit_the_labels_of_a_service_are_left_alone() {
    let h = Harness::new("inherited-labels").await;
    let own = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "external"},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.7"]}], "ports": [],
    });
    h.deploy("web", &Pack::new("web", "1.0.0").object(service("web")).object(own), json!({})).await;
    let inherited = wait_for("a slice with our label that the cluster made", async || {
        let all = h.objects.list("EndpointSlice", "sherpack.io/release-name=web").await;
        let theirs = all.iter().find(|slice| slice["metadata"]["name"] != "external");
        theirs.cloned().ok_or_else(|| format!("{all:?}"))
    })
    .await;
    let name = inherited["metadata"]["name"].as_str().unwrap().to_owned();
    let note = json!({"metadata": {"annotations": {"example.com/note": "mine"}}});
    h.objects.edit(&format!("EndpointSlice/{name}"), "kubectl-annotate", note).await;
    h.objects.delete(&format!("EndpointSlice/{name}")).await;
    let moved = json!({"endpoints": [{"addresses": ["192.0.2.8"]}]});
    h.objects.edit("EndpointSlice/external", "kubectl-edit", moved).await;
    h.shows("EndpointSlice/external", "/endpoints/0/addresses/0", "192.0.2.7").await;
    h.pass("web").await;
    let all = h.wire.writes_to("endpointslices", 0);
    let others: Vec<_> = all.iter().filter(|request| !request.path.ends_with("/external")).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// The watches of objects leave records out by a label; on an object it means nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_that_hides_an_object_from_its_watch_is_taken_off() {
    let h = Harness::new("hidden-by-label").await;
    h.deploy("web", &two_config_maps(), json!({})).await;
    let before = h.objects.get("ConfigMap/settings").await;
    let hide = json!({"metadata": {"labels": {"sherpack.io/storage-driver": "x", "example.com/a": "b"}}});
    let shown = |object: &Value| {
        let labels = &object["metadata"]["labels"];
        labels["sherpack.io/storage-driver"].is_null() && labels["example.com/a"] == "b"
    };
    h.objects.edit("ConfigMap/settings", "kubectl-label", hide.clone()).await;
    let after = h.sees("ConfigMap/settings", shown).await;
    assert_eq!(uid(&after), uid(&before));
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    // The same when it happens while nobody looks.
    h.kill();
    h.objects.edit("ConfigMap/settings", "kubectl-label", hide.clone()).await;
    h.start();
    h.sees("ConfigMap/settings", shown).await;
    // Where nothing is written it is told.
    h.edit_spec("web", json!({"drift": {"mode": "Warn"}})).await;
    h.ready("web").await;
    h.objects.edit("ConfigMap/settings", "kubectl-label", hide).await;
    h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    told(&h, "/settings", "Reported").await;
}
