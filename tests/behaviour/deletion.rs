//! What happens to objects and records when a release is deleted.

use serde_json::json;

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, service, with_annotation};
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

const OBJECTS: [&str; 3] = ["ConfigMap/settings", "Service/web", "Deployment/web"];

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(service("web"))
        .object(deployment("web", 1))
}

async fn told(h: &Harness, name: &str, reason: &str) {
    eventually(&format!("an Event {reason}"), async || !h.events(name, reason).await.is_empty()).await;
}

async fn told_of(h: &Harness, reason: &str, what: &str) {
    wait_for(&format!("an Event {reason} with {what}"), async || {
        let notes = h.events("web", reason).await;
        if notes.iter().any(|note| note.contains(what)) { Ok(()) } else { Err(format!("{notes:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uninstall_names_what_stays() {
    let h = Harness::new("uninstall-stays").await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": {"sherpack.io/skip-wait": "true"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    h.objects.create("kubectl-create", claim.clone()).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.uninstall-stays.example.com"},
        "spec": {
            "group": "uninstall-stays.example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let kept =
        |name: &str| with_annotation(config_map(name, json!({})), "sherpack.io/resource-policy", "keep");
    let pack = pack().objects([claim, definition, kept("zeal")]);
    h.deploy("web", &pack, json!({"install": {"adopt": "Unowned"}})).await;
    // A person keeps one more.
    let keep = json!({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}});
    h.objects.edit("ConfigMap/settings", "kubectl-annotate", keep).await;
    h.uninstall("web").await;
    let stays = [
        "ConfigMap uninstall-stays/settings",
        "ConfigMap uninstall-stays/zeal",
        "CustomResourceDefinition widgets.uninstall-stays.example.com",
        "PersistentVolumeClaim uninstall-stays/data",
    ];
    told_of(
        &h,
        "UninstallSucceeded",
        &format!("release web is uninstalled; what stays: {}", stays.join(", ")),
    )
    .await;
    for what in &OBJECTS[1..] {
        assert!(h.objects.find(what).await.is_none(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uninstall_deletes_workloads_before_what_they_read_and_records_after_its_checkpoint() {
    let h = Harness::new("uninstall-order").await;
    h.deploy("web", &pack(), json!({})).await;
    let mark = h.wire.mark();
    h.uninstall("web").await;
    for object in OBJECTS {
        assert!(h.objects.find(object).await.is_none(), "{object} is still there");
    }
    assert_eq!(h.records("web").await.len(), 0);
    told(&h, "web", "UninstallSucceeded").await;

    let lines = wait_for("the answer to the last write", async || {
        let lines: Vec<String> = h.wire.writes_since(mark).iter().map(Request::line).collect();
        // The release is gone before the operator hears of it.
        if lines.iter().any(|line| line.ends_with("sherpackreleases/web 200")) {
            Ok(lines)
        } else {
            Err(format!("{lines:#?}"))
        }
    })
    .await;
    let place = |what: &str| {
        let found = lines.iter().position(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("no {what} in {lines:#?}"))
    };
    let order = [
        "update /api/v1/namespaces/uninstall-order/secrets/sh.sherpack.release.v1.web.v1",
        "delete /apis/apps/v1/namespaces/uninstall-order/deployments/web",
        "delete /api/v1/namespaces/uninstall-order/configmaps/settings",
        "sherpackreleases/web/status",
        "delete /api/v1/namespaces/uninstall-order/secrets/sh.sherpack.release.v1.web.v1",
        "patch /apis/sherpack.io/v1alpha1/namespaces/uninstall-order/sherpackreleases/web 200",
    ];
    let places: Vec<usize> = order.iter().map(|what| place(what)).collect();
    assert!(places.is_sorted(), "{places:?} in {lines:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_to_be_kept_outlives_its_release() {
    let h = Harness::new("uninstall-keep").await;
    let mut kept = config_map("kept", json!({"a": "b"}));
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    h.deploy("web", &pack().object(kept), json!({})).await;
    let before = h.objects.uids(&["ConfigMap/kept"]).await;
    h.uninstall("web").await;
    assert_eq!(h.objects.uids(&["ConfigMap/kept"]).await, before);
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
    assert_eq!(h.records("web").await.len(), 0);
    // The same release once more is told how to take it over, and not to delete what was kept.
    let mut kept = config_map("kept", json!({"a": "b"}));
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    h.apply("web", &pack().object(kept), json!({})).await;
    let held = h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
    let told = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("set spec.install.adopt to Unowned") && !told.contains("delete"), "{told}");
    h.edit_spec("web", json!({"install": {"adopt": "Unowned"}})).await;
    h.ready("web").await;
    assert_eq!(h.objects.uids(&["ConfigMap/kept"]).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_release_rolls_nothing_out_and_is_uninstalled_all_the_same() {
    let h = Harness::new("uninstall-suspended").await;
    h.deploy("web", &pack(), json!({})).await;
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    let mark = h.wire.mark();
    h.pack("web-pack", &pack().object(config_map("more", json!({"a": "b"})))).await;
    h.edit_spec("web", json!({"values": {"a": "b"}})).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    // This one is not our release's: it was deleted and made anew behind our back.
    h.objects.delete("Service/web").await;
    h.objects.create("somebody", service("web")).await;
    h.pass("web").await;
    for kind in ["configmaps", "services", "deployments", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written while suspended");
    }
    h.shows_states("web", &["1 deployed"]).await;

    let strangers = h.objects.uids(&["Service/web"]).await;
    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
    assert!(h.objects.find("Deployment/web").await.is_none());
    assert_eq!(h.objects.uids(&["Service/web"]).await, strangers);
    assert_eq!(h.records("web").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphaning_release_leaves_objects_and_records_and_takes_them_back_when_it_is_made_again() {
    let h = Harness::new("orphan").await;
    let spec = json!({"uninstall": {"policy": "Orphan"}});
    h.deploy("web", &pack(), spec.clone()).await;
    // Neither with our label nor without it is an object touched.
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    let no_label = json!({"metadata": {"labels": {"sherpack.io/release-name": null}}});
    h.objects.edit("Service/web", "kubectl-label", no_label).await;
    let (before, mark) = (h.objects.uids(&OBJECTS).await, h.wire.mark());
    h.uninstall("web").await;
    let all = "what stays: ConfigMap orphan/settings, Deployment orphan/web, Service orphan/web";
    told_of(&h, "Orphaned", all).await;
    for kind in ["configmaps", "services", "deployments", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written by an orphaning release");
    }
    assert_eq!(h.objects.uids(&OBJECTS).await, before);

    h.deploy("web", &pack(), spec).await;
    h.sees("Service/web", |service| service["metadata"]["labels"]["sherpack.io/release-name"] == "web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, before);
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_record_holds_the_deletion_until_it_is_reset_and_then_nothing_is_deleted() {
    let h = Harness::new("delete-lost-reset").await;
    h.deploy("web", &pack(), json!({})).await;
    let before = h.objects.uids(&OBJECTS).await;
    h.lose_record("web", 1).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.objects.delete("SherpackRelease/web").await;
    h.pass("web").await;
    let held = h.condition("web", "Ready", "False", Some("RecordLost")).await;
    assert!(condition(&held, "Ready")["message"].as_str().unwrap().contains("reset-at"), "{held}");
    assert_eq!(h.objects.uids(&OBJECTS).await, before);

    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.gone("SherpackRelease/web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_record_holds_the_deletion_until_the_policy_is_orphan() {
    let h = Harness::new("delete-lost-orphan").await;
    h.deploy("web", &pack(), json!({})).await;
    let before = h.objects.uids(&OBJECTS).await;
    h.lose_record("web", 1).await;
    h.objects.delete("SherpackRelease/web").await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.pass("web").await;
    h.edit_spec("web", json!({"uninstall": {"policy": "Orphan"}})).await;
    h.gone("SherpackRelease/web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_record_holds_no_deletion_when_no_object_is_left() {
    let h = Harness::new("delete-lost-empty").await;
    h.deploy("web", &pack(), json!({})).await;
    h.lose_record("web", 1).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.objects.delete("SherpackRelease/web").await;
    h.pass("web").await;
    for object in OBJECTS {
        h.objects.delete(object).await;
    }
    h.gone("SherpackRelease/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_holds_the_deletion_and_a_restored_one_lets_it_go_on() {
    let h = Harness::new("delete-damaged").await;
    h.deploy("web", &pack(), json!({})).await;
    let (before, whole) = (h.objects.uids(&OBJECTS).await, h.record_secret("web", 1).await);
    h.damage("web", 1, |bytes| bytes.truncate(40)).await;
    h.condition("web", "Ready", "False", Some("RecordUnreadable")).await;
    h.objects.delete("SherpackRelease/web").await;
    h.pass("web").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, before);

    h.restore(whole).await;
    h.gone("SherpackRelease/web").await;
    for object in OBJECTS {
        assert!(h.objects.find(object).await.is_none(), "{object} is still there");
    }
    assert_eq!(h.records("web").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_goes_takes_its_release_along() {
    let h = Harness::new("namespace-goes").await;
    h.deploy("web", &pack(), json!({})).await;
    h.objects.delete("Namespace/namespace-goes").await;
    h.gone("Namespace/namespace-goes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_outside_a_target_namespace_that_goes_are_deleted_and_nothing_is_written_in_it() {
    let h = Harness::new("target-goes").await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "target-goes"}, "rules": [],
    });
    let target = "target-goes-there";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}});
    h.objects.create("test-person", namespace).await;
    let kept = with_annotation(config_map("kept", json!({})), "sherpack.io/resource-policy", "keep");
    let mut kept = kept;
    kept["metadata"]["namespace"] = json!(h.namespace);
    h.deploy("web", &pack().objects([role, kept]), json!({"targetNamespace": target})).await;
    // Keeps the record, and with it the namespace, on its way out.
    let there = h.objects.elsewhere(target);
    let record = "Secret/sh.sherpack.release.v1.web.v1";
    there.edit(record, "test", json!({"metadata": {"finalizers": ["example.com/test"]}})).await;
    h.objects.delete(&format!("Namespace/{target}")).await;
    h.sees(&format!("Namespace/{target}"), |object| object["status"]["phase"] == "Terminating").await;

    let mark = h.wire.mark();
    h.uninstall("web").await;
    assert!(h.objects.find("ClusterRole/target-goes").await.is_none());
    let inside = h.wire.writes_since(mark).into_iter().filter(|request| request.is_about(target));
    assert_eq!(inside.map(|request| request.line()).collect::<Vec<_>>(), Vec::<String>::new());
    told_of(&h, "NamespaceTerminating", "what stays: ConfigMap target-goes/kept").await;
    there.edit(record, "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone(&format!("Namespace/{target}")).await;
}

/// The namespace controller deletes kind by kind, and the Secrets may come before the release does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_goes_first_with_its_namespace_is_still_known() {
    let h = Harness::new("record-goes-first").await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "record-goes-first"}, "rules": [],
    });
    let target = "record-goes-first-there";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}});
    h.objects.create("test-person", namespace).await;
    h.deploy("web", &pack().object(role), json!({"targetNamespace": target})).await;
    let there = h.objects.elsewhere(target);
    let last = json!({"metadata": {"finalizers": ["example.com/test"]}});
    there.edit("Service/web", "test", last).await;
    h.objects.delete(&format!("Namespace/{target}")).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.uninstall("web").await;
    assert!(h.objects.find("ClusterRole/record-goes-first").await.is_none());
    told(&h, "web", "NamespaceTerminating").await;
    there.edit("Service/web", "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone(&format!("Namespace/{target}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_never_made_anything_goes_at_once() {
    let h = Harness::new("delete-nothing").await;
    h.release("web", json!({"pack": {"configMap": {"name": "no-such-pack"}}})).await;
    h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    h.uninstall("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_deleted_while_it_is_installed_leaves_nothing() {
    let h = Harness::new("delete-installing").await;
    let unready =
        crate::support::packs::with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.apply("web", &pack().object(unready), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.uninstall("web").await;
    for object in OBJECTS.into_iter().chain(["Deployment/slow"]) {
        assert!(h.objects.find(object).await.is_none(), "{object} is still there");
    }
    assert_eq!(h.records("web").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_takes_its_time_to_go_is_waited_for_and_named() {
    let h = Harness::new("delete-slow").await;
    h.deploy("web", &pack(), json!({})).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/test"]}});
    h.objects.edit("ConfigMap/settings", "test", finalizer).await;
    h.objects.delete("SherpackRelease/web").await;
    let held = h.condition("web", "Ready", "Unknown", Some("Uninstalling")).await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("ConfigMap delete-slow/settings"), "{message}");
    // The record is what a later process knows of all this by.
    h.shows_states("web", &["1 pending-uninstall"]).await;
    h.objects.edit("ConfigMap/settings", "test", json!({"metadata": {"finalizers": null}})).await;
    h.gone("SherpackRelease/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_that_is_refused_is_said_and_tried_again() {
    let h = Harness::new("delete-refused").await;
    h.deploy("web", &pack(), json!({})).await;
    let deletes = |request: &crate::support::wire::Request| {
        request.verb == "delete" && request.is_about("configmaps/settings")
    };
    h.wire.fault(Fault::new(Effect::Answer(403), deletes));
    h.objects.delete("SherpackRelease/web").await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("settings"), "{message}");
    h.wire.heal();
    h.gone("SherpackRelease/web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_left_is_looked_for_while_a_deletion_waits() {
    let h = Harness::new("delete-remaining").await;
    let held = ["ConfigMap/held-0", "ConfigMap/held-1", "ConfigMap/held-2"];
    let more = held.map(|name| config_map(name.split_once('/').unwrap().1, json!({"a": "b"})));
    h.deploy("web", &pack().objects(more), json!({})).await;
    let hold = |finalizers: serde_json::Value| json!({"metadata": {"finalizers": finalizers}});
    for object in held {
        h.objects.edit(object, "test", hold(json!(["example.com/test"]))).await;
    }
    h.objects.delete("SherpackRelease/web").await;
    h.condition("web", "Ready", "Unknown", Some("Uninstalling")).await;
    let mark = h.wire.mark();
    let waits_for = async |left: usize| {
        h.sees("SherpackRelease/web", |release| {
            release["status"]["operation"]["waitingFor"].as_array().map(Vec::len) == Some(left)
        })
        .await;
    };
    for (object, left) in [(held[0], 2), (held[1], 1)] {
        h.objects.edit(object, "test", hold(json!(null))).await;
        waits_for(left).await;
    }
    let again: Vec<String> = h
        .wire
        .since(mark)
        .into_iter()
        .filter(|request| OBJECTS.iter().any(|object| request.is_about(&plural(object))))
        .map(|request| request.line())
        .collect();
    assert_eq!(again, Vec::<String>::new(), "these had gone");
    h.objects.edit(held[2], "test", hold(json!(null))).await;
    h.gone("SherpackRelease/web").await;
}

/// `Service/web` as it stands in a path.
fn plural(object: &str) -> String {
    let (kind, name) = object.split_once('/').unwrap();
    format!("{}s/{name}", kind.to_lowercase())
}

/// The watch tells late that the release is gone, and by then its name is somebody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_gone_takes_no_record_of_whoever_has_its_name_now() {
    let h = Harness::new("uninstall-late-watch").await;
    h.deploy("web", &pack(), json!({})).await;
    let successor = h.decoded("web", 1).await.record;
    h.wire.fault(Fault::on_writes(Effect::Hold, "secrets/sh.sherpack.release.v1.web.v1").after(1).once());
    let mark = h.wire.mark();
    h.objects.delete("SherpackRelease/web").await;
    let deletes = |request: &Request| request.verb == "delete" && request.is_about("secrets");
    eventually("the record is about to go", async || h.wire.since(mark).iter().any(deletes)).await;
    // When a later release is seen, so is all that was written of this one. That it goes is not heard.
    h.deploy("later", &Pack::new("later", "1.0.0").object(config_map("later", json!({}))), json!({})).await;
    let deaf = |request: &Request| request.verb == "watch" && request.is_about("sherpackreleases");
    h.wire.fault(Fault::new(Effect::DropBeforeSend, deaf));
    h.wire.cut_watches();
    h.wire.release();
    h.gone("SherpackRelease/web").await;

    // It wakes the release that the watch still shows, as all changes of records and objects do.
    let last = h.wire.mark();
    h.write_as_another_tool(&successor).await;
    let touch = json!({"metadata": {"annotations": {"a": "b"}}});
    h.objects.edit("Secret/sh.sherpack.release.v1.web.v1", "kubectl-annotate", touch).await;
    h.objects.delete("ConfigMap/later").await;
    eventually("the other release is locked", async || h.objects.find("ConfigMap/later").await.is_some())
        .await;
    h.records_show("web", &["1 deployed"]).await;
    let about = |request: &Request| request.is_about("sherpackreleases/web");
    let about: Vec<String> = h.wire.since(last).iter().filter(|one| about(one)).map(Request::line).collect();
    assert!(about.is_empty(), "{about:?}");
}

/// Somebody tears the finalizer off and makes the release anew, while a status of the one before is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_is_written_on_the_release_that_it_is_about_and_on_no_other_of_its_name() {
    let h = Harness::new("status-anew").await;
    h.deploy("web", &pack(), json!({})).await;
    let status = |request: &Request| request.path.ends_with("/sherpackreleases/web/status");
    h.wire.fault(Fault::new(Effect::Hold, status).once());
    let mark = h.wire.mark();
    h.pack("web-pack", &Pack::new("web", "2.0.0").object(config_map("settings", json!({"color": "red"}))))
        .await;
    eventually("a status", async || h.wire.since(mark).iter().any(status)).await;
    h.objects.edit("SherpackRelease/web", "kubectl-edit", json!({"metadata": {"finalizers": null}})).await;
    h.objects.delete("SherpackRelease/web").await;
    h.gone("SherpackRelease/web").await;
    let other = Pack::new("other", "1.0.0").object(config_map("other", json!({})));
    h.pack("other-pack", &other).await;
    let spec = json!({"pack": {"configMap": {"name": "other-pack"}}, "releaseName": "other"});
    h.release("web", spec).await;
    h.wire.release();
    let release = h.ready("web").await;
    assert_eq!(release["status"]["revision"], 1, "{release}");
    assert_eq!(release["status"]["history"].as_array().map(Vec::len), Some(1), "{release}");
}
