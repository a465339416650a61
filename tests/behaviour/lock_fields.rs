//! The lock: what others do to a field of ours is put back, what they add of their own stays.

use serde_json::{Value, json};

use crate::support::objects::Objects;
use crate::support::packs::{config_map, deployment, secret, service};
use crate::support::{Harness, Pack};

/// `blue` and `red` in base64.
const BLUE: &str = "Ymx1ZQ==";
const RED: &str = "cmVk";

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

fn containers(change: &Value) -> Value {
    let mut container = json!({"name": "app"});
    for (key, value) in change.as_object().into_iter().flatten() {
        container[key] = value.clone();
    }
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

const CONTAINER: &str = "/spec/template/spec/containers/0";

/// What others add to objects, each to another one.
async fn others_add(o: &Objects) {
    let ready = json!([{"type": "Seen", "status": "True"}]);
    o.edit_subresource("Deployment/status", "status", "watcher", json!({"status": {"conditions": ready}}))
        .await;
    let note = json!({"metadata": {"annotations": {"example.com/note": "mine"}}});
    o.edit("Deployment/annotated", "kubectl-annotate", note).await;
    let extra = json!({"env": [{"name": "EXTRA", "value": "1"}]});
    o.strategic("Deployment/env", "kubectl-set", containers(&extra)).await;
    let proxy = json!([{"name": "proxy", "image": "example.com/proxy:1"}]);
    let sidecar = json!({"spec": {"template": {"spec": {"containers": proxy}}}});
    o.strategic("Deployment/sidecar", "injector", sidecar).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    o.edit("Deployment/finalizer", "backup", hold).await;
    let restart = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"});
    let restart = json!({"spec": {"template": {"metadata": {"annotations": restart}}}});
    o.strategic("Deployment/restarted", "kubectl-rollout", restart).await;
    o.server_side_apply("Deployment/shared", "other", json!({"spec": {"replicas": 0}})).await;
    let cpu = json!({"resources": {"requests": {"cpu": "1000m"}}});
    o.strategic("Deployment/quantity", "kubectl-set", containers(&cpu)).await;
    let owner = o.get("ConfigMap/web-pack").await["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web-pack", "uid": owner}]);
    o.edit("Deployment/owner", "adopter", json!({"metadata": {"ownerReferences": owner}})).await;
    o.edit("ConfigMap/key", "kubectl-edit", json!({"data": {"size": "big"}})).await;
    o.server_side_apply("ConfigMap/same", "other", json!({"data": {"color": "blue"}})).await;
    o.edit("ConfigMap/label", "kubectl-label", json!({"metadata": {"labels": {"team": "a"}}})).await;
    o.edit("Secret/password", "kubectl-edit", json!({"data": {"size": RED}})).await;
}

/// Everybody's object is another one, so that the log of requests tells who was written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_add_or_do_elsewhere_makes_us_write_nothing() {
    let h = Harness::new("others-add").await;
    let workloads =
        ["status", "annotated", "env", "sidecar", "finalizer", "restarted", "shared", "quantity", "owner"];
    let blue = |name: &str| config_map(name, json!({"color": "blue"}));
    let pack = Pack::new("web", "1.0.0")
        .objects(workloads.map(|name| deployment(name, 0)))
        .objects(["key", "same", "label", "settings"].map(blue))
        .object(secret("password", json!({"color": "blue"})))
        .object(secret("last-secret", json!({"color": "blue"})))
        .object(deployment("last-deployment", 0));
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();

    others_add(&h.objects).await;

    let o = &h.objects;
    // A watch gives the events of its kind in order, so when these are back, the others were seen.
    o.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    o.edit("Secret/last-secret", "kubectl-edit", json!({"data": {"color": RED}})).await;
    o.strategic(
        "Deployment/last-deployment",
        "kubectl-set",
        json!({"spec": {"paused": false, "replicas": 1}}),
    )
    .await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows("Secret/last-secret", "/data/color", BLUE).await;
    h.shows("Deployment/last-deployment", "/spec/replicas", 0).await;
    h.pass("web").await;

    for name in workloads {
        let writes = h.wire.writes_to(&format!("deployments/{name}"), mark);
        assert!(writes.is_empty(), "{name}: {writes:?}");
    }
    for name in ["configmaps/key", "configmaps/same", "configmaps/label", "secrets/password"] {
        let writes = h.wire.writes_to(name, mark);
        assert!(writes.is_empty(), "{name}: {writes:?}");
    }
    for (what, pointer, expected) in [
        ("Deployment/annotated", "/metadata/annotations/example.com~1note".to_owned(), json!("mine")),
        ("Deployment/finalizer", "/metadata/finalizers/0".to_owned(), json!("example.com/hold")),
        ("Deployment/quantity", format!("{CONTAINER}/resources/requests/cpu"), json!("1")),
        ("ConfigMap/key", "/data/size".to_owned(), json!("big")),
        ("ConfigMap/label", "/metadata/labels/team".to_owned(), json!("a")),
        ("Secret/password", "/data/size".to_owned(), json!(RED)),
    ] {
        let object = o.get(what).await;
        assert_eq!(object.pointer(&pointer), Some(&expected), "{what}");
    }
    for (what, pointer, count) in [
        ("Deployment/env", format!("{CONTAINER}/env"), 3),
        ("Deployment/sidecar", "/spec/template/spec/containers".to_owned(), 2),
    ] {
        let object = o.get(what).await;
        assert_eq!(object.pointer(&pointer).unwrap().as_array().unwrap().len(), count, "{what}");
    }
}

/// One write for each change: more would be a loop.
async fn put_back_once(h: &Harness, mark: usize, rows: &[(&str, &str, Value)]) {
    for (what, pointer, expected) in rows {
        h.shows(what, pointer, expected.clone()).await;
    }
    h.pass("web").await;
    for (what, ..) in rows {
        let (kind, name) = what.split_once('/').unwrap();
        let path = format!("{}s/{name}", kind.to_lowercase());
        let lines: Vec<String> =
            h.wire.writes_to(&path, mark).iter().map(crate::support::wire::Request::line).collect();
        assert_eq!(lines.len(), 1, "{what}: {lines:?}");
    }
    for (what, pointer, expected) in rows {
        assert_eq!(h.objects.get(what).await.pointer(pointer), Some(expected), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_change_a_field_of_a_workload_is_put_back_with_one_write() {
    let h = Harness::new("workload-fields").await;
    let names =
        ["scaled", "image", "env-value", "args", "env-gone", "label-gone", "replaced", "applied", "spelling"];
    let pack = Pack::new("web", "1.0.0").objects(names.map(|name| deployment(name, 0)));
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();

    let o = &h.objects;
    let other_image = json!({"image": "example.com/other:2"});
    o.edit_subresource("Deployment/scaled", "scale", "kubectl", json!({"spec": {"replicas": 2}})).await;
    o.strategic("Deployment/image", "kubectl-set", containers(&other_image)).await;
    let red = json!({"env": [{"name": "COLOR", "value": "red"}]});
    o.strategic("Deployment/env-value", "kubectl-set", containers(&red)).await;
    let args = json!({"args": ["--port=8080", "--verbose", "--debug"]});
    o.strategic("Deployment/args", "kubectl-edit", containers(&args)).await;
    let no_mode = json!({"env": [{"name": "MODE", "$patch": "delete"}]});
    o.strategic("Deployment/env-gone", "kubectl-edit", containers(&no_mode)).await;
    o.edit("Deployment/label-gone", "kubectl-label", json!({"metadata": {"labels": {"tier": null}}})).await;
    o.replace("Deployment/replaced", "some-controller", |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/other:2");
    })
    .await;
    o.server_side_apply("Deployment/applied", "other", containers(&other_image)).await;
    // The same value in other words, by somebody who takes the field over with them.
    let cpu = json!({"resources": {"requests": {"cpu": "1000m"}}});
    o.server_side_apply("Deployment/spelling", "other", containers(&cpu)).await;

    let image = format!("{CONTAINER}/image");
    put_back_once(
        &h,
        mark,
        &[
            ("Deployment/scaled", "/spec/replicas", json!(0)),
            ("Deployment/image", &image, json!("example.com/app:1.0.0")),
            ("Deployment/env-value", &format!("{CONTAINER}/env/0/value"), json!("blue")),
            ("Deployment/args", &format!("{CONTAINER}/args"), json!(["--port=8080", "--verbose"])),
            ("Deployment/env-gone", &format!("{CONTAINER}/env/1/name"), json!("MODE")),
            ("Deployment/label-gone", "/metadata/labels/tier", json!("front")),
            ("Deployment/replaced", &image, json!("example.com/app:1.0.0")),
            ("Deployment/applied", &image, json!("example.com/app:1.0.0")),
        ],
    )
    .await;
    let spelling = o.get("Deployment/spelling").await;
    assert_eq!(spelling.pointer(&format!("{CONTAINER}/resources/requests/cpu")), Some(&json!("1")));
    assert!(h.wire.writes_to("deployments/spelling", mark).len() <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_change_data_is_put_back_with_one_write() {
    let h = Harness::new("data-fields").await;
    let names = ["value", "key-gone", "stripped", "bare-apply", "late-apply", "renamed", "from-file"];
    let both = |name: &str| config_map(name, json!({"color": "blue", "size": "small"}));
    let pack = Pack::new("web", "1.0.0")
        .objects(names.map(both))
        .object(secret("password", json!({"color": "blue"})))
        .object(secret("secret-key-gone", json!({"color": "blue"})));
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();

    let o = &h.objects;
    let red = json!({"data": {"color": "red"}});
    o.edit("ConfigMap/value", "kubectl-edit", red.clone()).await;
    o.edit("ConfigMap/key-gone", "kubectl-edit", json!({"data": {"size": null}})).await;
    let strip = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": [{}]},
        {"op": "replace", "path": "/data/color", "value": "red"},
    ]);
    o.json_patch("ConfigMap/stripped", "backup", strip).await;
    // The published command line, which has our name and knows nothing of our marks.
    o.server_side_apply("ConfigMap/bare-apply", "sherpack", red.clone()).await;
    // A paused replica of ours that wakes up with what an earlier revision said.
    let live = o.get("ConfigMap/late-apply").await;
    let marker = live["metadata"]["annotations"]["sherpack.io/applied"].as_str().unwrap();
    let (uid, _) = marker.rsplit_once('.').unwrap();
    let late = json!({
        "metadata": {
            "namespace": h.namespace, "labels": live["metadata"]["labels"],
            "annotations": {"sherpack.io/applied": format!("{uid}.0")},
        },
        "data": {"color": "red", "size": "small"},
    });
    o.server_side_apply("ConfigMap/late-apply", "sherpack", late).await;
    // Our label stays, with another's name in it.
    let renamed = json!({"metadata": {"labels": {"sherpack.io/release-name": "other"}}});
    o.edit("ConfigMap/renamed", "kubectl-label", renamed).await;
    o.replace("ConfigMap/from-file", "kubectl-replace", |object| {
        object["metadata"]["labels"] = json!({});
        object["metadata"]["annotations"] = json!({});
        object["data"] = json!({"color": "red"});
    })
    .await;
    o.edit("Secret/password", "kubectl-edit", json!({"data": {"color": RED}})).await;
    o.edit("Secret/secret-key-gone", "kubectl-edit", json!({"data": {"color": null}})).await;

    put_back_once(
        &h,
        mark,
        &[
            ("ConfigMap/value", "/data/color", json!("blue")),
            ("ConfigMap/key-gone", "/data/size", json!("small")),
            ("ConfigMap/stripped", "/data/color", json!("blue")),
            ("ConfigMap/bare-apply", "/data/color", json!("blue")),
            ("ConfigMap/late-apply", "/data/color", json!("blue")),
            ("ConfigMap/renamed", "/metadata/labels/sherpack.io~1release-name", json!("web")),
            ("ConfigMap/from-file", "/data/color", json!("blue")),
            ("Secret/password", "/data/color", json!(BLUE)),
            ("Secret/secret-key-gone", "/data/color", json!(BLUE)),
        ],
    )
    .await;
    assert_eq!(h.records("web").await.len(), 1, "a revert makes no revision");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quantity_is_applied_in_its_canonical_spelling() {
    let h = Harness::new("canonical-quantity").await;
    let mut workload = deployment("web", 0);
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}});
    let pack = Pack::new("web", "1.0.0").object(workload).object(deployment("last", 0));
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();
    // Another applier with the canonical spelling: no conflict, so both own it.
    let canonical = json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    h.objects.server_side_apply("Deployment/web", "other", containers(&canonical)).await;
    h.objects.edit("Deployment/last", "kubectl-edit", json!({"spec": {"replicas": 1}})).await;
    h.shows("Deployment/last", "/spec/replicas", 0).await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("deployments/web", mark).len(), 0);
}

/// Ports are merged by their number: an apply alone would add ours beside the changed one, and be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_key_of_a_list_is_put_back() {
    let h = Harness::new("changed-key").await;
    let pack = |more: &[Value]| {
        let mut ports = vec![json!({"name": "http", "port": 80, "targetPort": "http"})];
        ports.extend_from_slice(more);
        let mut service = service("web");
        service["spec"]["ports"] = json!(ports);
        Pack::new("web", format!("1.{}.0", more.len()).as_str()).object(service).object(deployment("web", 0))
    };
    h.deploy("web", &pack(&[json!({"name": "metrics", "port": 9090})]), json!({})).await;
    h.objects
        .json_patch(
            "Service/web",
            "kubectl-edit",
            json!([
                {"op": "replace", "path": "/spec/ports/0/port", "value": 81},
                {"op": "add", "path": "/spec/ports/-", "value": {"name": "extra", "port": 7}},
            ]),
        )
        .await;
    let ports = |service: &Value| -> Vec<(String, i64)> {
        let ports = service["spec"]["ports"].as_array().unwrap().iter();
        ports
            .map(|port| (port["name"].as_str().unwrap().to_owned(), port["port"].as_i64().unwrap()))
            .collect()
    };
    let expected =
        [("http", 80), ("metrics", 9090), ("extra", 7)].map(|(name, port)| (name.to_owned(), port));
    let sorted = |mut ports: Vec<(String, i64)>| {
        ports.sort();
        ports
    };
    h.sees("Service/web", |service| sorted(ports(service)) == sorted(expected.to_vec())).await;

    let port = json!([{"op": "replace", "path": format!("{CONTAINER}/ports/0/containerPort"), "value": 81}]);
    h.objects.json_patch("Deployment/web", "kubectl-edit", port).await;
    h.shows(
        "Deployment/web",
        &format!("{CONTAINER}/ports"),
        json!([{"name": "http", "containerPort": 8080, "protocol": "TCP"}]),
    )
    .await;

    // We own the port once: a revision without it takes it away.
    h.deploy("web", &pack(&[]), json!({})).await;
    h.sees("Service/web", |service| {
        sorted(ports(service)) == [("extra".to_owned(), 7), ("http".to_owned(), 80)]
    })
    .await;
    let mut service = h.objects.get("Service/web").await;
    let managers: Vec<Value> = service["metadata"]["managedFields"]
        .as_array_mut()
        .unwrap()
        .drain(..)
        .map(|entry| entry["manager"].clone())
        .collect();
    assert!(!managers.contains(&json!("sherpack-operator")), "{managers:?}");
}
