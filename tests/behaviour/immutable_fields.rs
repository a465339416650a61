//! Objects that have to change in a field that cannot change.

use serde_json::{Value, json};
use sherpack_operator::cluster::{Cluster, Mode};
use sherpack_operator::manifest::{Object, ObjectId};
use sherpack_operator::release::State;

use crate::support::accounts::{ALL, rule};
use crate::support::harness::condition;
use crate::support::kills::{at_each_write, in_each_operation};
use crate::support::packs::{config_map, deployment, secret, service, with_annotation};
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Harness, Pack};

fn job(image: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": format!("example.com/job:{image}")}],
        }}},
    })
}

fn stateful_set(service: &str) -> Value {
    let mut set = deployment("db", 1);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!(service);
    set
}

fn claim(class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                 "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A ConfigMap that does not let its data change.
fn frozen(color: &str) -> Value {
    let mut frozen = config_map("frozen", json!({"color": color}));
    frozen["immutable"] = json!(true);
    frozen
}

/// A ConfigMap that changes, and one more object.
fn pack(color: &str, object: Value) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color}))).object(object)
}

fn policy(policy: &str) -> Value {
    json!({"upgrade": {"retries": 0, "immutableFields": policy}})
}

fn message(release: &Value, type_: &str) -> String {
    condition(release, type_)["message"].as_str().unwrap_or_default().to_owned()
}

async fn color(h: &Harness, color: &str) {
    h.shows("ConfigMap/settings", "/data/color", color).await;
}

/// Waits until the upgrade to a pack has failed and was undone; gives what the failed revision says.
async fn undone(h: &Harness) -> String {
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    let State::Failed { reason, .. } = h.decoded("web", 2).await.record.state else { panic!("not failed") };
    reason
}

/// An object, a change of it, and the fields that cannot change; none: it is refused for another reason.
#[expect(clippy::too_many_lines, reason = "a table: changes, and the fields that they are refused for")]
fn changes() -> Vec<(Value, Value, Option<&'static [&'static str]>)> {
    let with = |mut object: Value, pointer: &str, value: Value| {
        *object.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        object
    };
    let set = {
        let mut set = stateful_set("db");
        set["spec"]["volumeClaimTemplates"] =
            json!([{"metadata": {"name": "data"}, "spec": claim("fast")["spec"].clone()}]);
        set
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1", "env": [{"name": "A", "value": "b"}]}]}});
    let mut plain = service("plain");
    plain["spec"]["clusterIP"] = json!("");
    let mut open = service("open");
    open["spec"]["type"] = json!("NodePort");
    open["spec"]["clusterIP"] = json!("");
    open["spec"]["ports"][0]["nodePort"] = json!(31234);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"}, "subjects": [],
    });
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "immutable-table"},
        "provisioner": "example.com/disk", "parameters": {"kind": "ssd"},
    });
    let priority = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "immutable-table"}, "value": 5});
    let mut sealed = secret("sealed", json!({}));
    sealed["data"] = json!({"a": "YQ=="});
    sealed["immutable"] = json!(true);
    let mut both = with(deployment("both", 1), "/spec/selector/matchLabels/app", json!("other"));
    both["spec"]["template"]["metadata"]["labels"]["app"] = json!("other");
    both["spec"]["replicas"] = json!(-1);
    vec![
        (job("1"), job("2"), Some(&["spec.template"])),
        (
            deployment("web", 1),
            {
                let other = with(deployment("web", 1), "/spec/selector/matchLabels/app", json!("other"));
                with(other, "/spec/template/metadata/labels/app", json!("other"))
            },
            Some(&["spec.selector"]),
        ),
        (set.clone(), with(set.clone(), "/spec/serviceName", json!("other")), Some(&["spec"])),
        (
            set.clone(),
            with(set, "/spec/volumeClaimTemplates/0/spec/storageClassName", json!("slow")),
            Some(&["spec"]),
        ),
        (plain.clone(), with(plain, "/spec/clusterIP", json!("None")), Some(&["spec.clusterIPs[0]"])),
        // Its node port is taken, by itself.
        (
            open.clone(),
            with(open.clone(), "/spec/clusterIP", json!("10.0.0.14")),
            Some(&["spec.clusterIPs[0]"]),
        ),
        (claim("fast"), claim("slow"), Some(&["spec"])),
        (frozen("blue"), frozen("green"), Some(&["data"])),
        (sealed.clone(), with(sealed, "/data/a", json!("Yg==")), Some(&["data"])),
        (pod.clone(), with(pod, "/spec/containers/0/env/0/value", json!("c")), Some(&["spec"])),
        (binding.clone(), with(binding, "/roleRef/name", json!("editor")), Some(&["roleRef"])),
        (class.clone(), with(class.clone(), "/parameters/kind", json!("hdd")), Some(&["parameters"])),
        (class.clone(), with(class, "/provisioner", json!("example.com/other")), Some(&["provisioner"])),
        (priority.clone(), with(priority, "/value", json!(6)), Some(&["value"])),
        // Wrong values.
        (deployment("web", 1), with(deployment("web", 1), "/spec/replicas", json!(-1)), None),
        (deployment("both", 1), both, None),
        (open.clone(), with(open, "/spec/ports/0/nodePort", json!(99)), None),
        (config_map("loose", json!({"a": "b"})), config_map("loose", json!({"a b": "c"})), None),
    ]
}

/// What Kubernetes answers to each change: as it is, with the fields that cannot change; or for another reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_names_the_fields_that_cannot_change_and_would_create_the_object() {
    let h = Harness::without_operator("immutable-table").await;
    let cluster = Cluster::new(h.client.clone());
    let namespace = h.namespace.as_str();
    // In a dry run the API server checks the cluster IP of a Service against any one of several.
    let networks = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "immutable-table"}, "spec": {"cidrs": ["198.18.0.0/28"]}});
    let networks = Object::from_value(networks).unwrap();
    cluster.apply(&networks.api_version, &networks.id, &networks.body, Mode::Real).await.unwrap();
    for (before, after, expected) in changes() {
        let namespaced = !["StorageClass", "PriorityClass"].contains(&before["kind"].as_str().unwrap());
        let object = |value: Value| {
            let object = Object::from_value(value).unwrap();
            if namespaced { object.with_namespace(Some(namespace)) } else { object }
        };
        let (before, after) = (object(before), object(after));
        let (version, id): (&str, &ObjectId) = (&before.api_version, &before.id);
        cluster.apply(version, id, &before.body, Mode::Real).await.unwrap();
        let refusal = cluster.apply(version, id, &after.body, Mode::Real).await.unwrap_err();
        assert!(!refusal.suspects().is_empty(), "{refusal}");
        let live = cluster.get(version, id).await.unwrap().unwrap();
        let found = cluster.immutable_fields(version, id, &after.body, &live, &refusal).await;
        let found = found.as_ref().map(|fields| fields.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), expected, "{refusal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_cannot_change_fails_the_upgrade_and_another_wish_is_tried_at_once() {
    let h = Harness::new("immutable-fail").await;
    h.deploy("web", &pack("blue", job("1")), policy("Fail")).await;
    let first = h.objects.uids(&["Job/migrate"]).await;
    h.pack("web-pack", &pack("green", job("2"))).await;
    let reason = undone(&h).await;
    assert!(reason.starts_with("ImmutableField: Job immutable-fail/migrate "), "{reason}");
    for part in ["spec.template", "spec.upgrade.immutableFields", "Recreate", "Skip", "another name"] {
        assert!(reason.contains(part), "{part} in {reason}");
    }
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("spec.template"), "{held}");
    assert_eq!(h.objects.uids(&["Job/migrate"]).await, first);
    color(&h, "blue").await;

    h.edit_spec("web", json!({"upgrade": {"immutableFields": "Recreate"}})).await;
    let states = ["1 superseded", "2 failed", "3 superseded", "4 deployed"];
    h.shows_states("web", &states).await;
    h.shows("SherpackRelease/web", "/status/revision", 4).await;
    let ready = h.ready("web").await;
    assert_ne!(h.objects.uids(&["Job/migrate"]).await, first);
    assert_eq!(message(&ready, "Released"), "revision 4 is deployed: 1 updated, 1 recreated");
    color(&h, "green").await;
    wait_for("an Event tells it", async || {
        let events = h.events("web", "Recreated").await;
        let tells =
            |note: &String| note.contains("Job immutable-fail/migrate") && note.contains("spec.template");
        if events.iter().any(tells) { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;
    // What was made anew is locked.
    let label = "/metadata/labels/sherpack.io~1release-name";
    let unlabelled = json!({"metadata": {"labels": {"sherpack.io/release-name": null}}});
    h.objects.edit("Job/migrate", "kubectl-label", unlabelled).await;
    h.shows("Job/migrate", label, "web").await;

    // A rollback is bound by the same, and does the same.
    let second = h.objects.uids(&["Job/migrate"]).await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.condition("web", "Ready", "True", Some("RollbackSucceeded")).await;
    assert_ne!(h.objects.uids(&["Job/migrate"]).await, second);
    let image = "/spec/template/spec/containers/0/image";
    h.shows("Job/migrate", image, "example.com/job:1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_wish_is_not_tried_again_and_again() {
    let h = Harness::new("immutable-once").await;
    h.deploy("web", &pack("blue", claim("fast")), json!({"wait": false, "upgrade": {"retries": 0}})).await;
    h.pack("web-pack", &pack("green", claim("slow"))).await;
    undone(&h).await;
    // Another wish is worth one more attempt, which ends no better.
    h.edit_spec("web", json!({"upgrade": {"immutableFields": "Recreate"}})).await;
    let states = ["1 superseded", "2 failed", "3 superseded", "4 failed", "5 deployed"];
    h.shows_states("web", &states).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.pass("web").await;
    h.pass("web").await;
    h.shows_states("web", &states).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateful_set_that_is_made_anew_keeps_its_pods() {
    let h = Harness::new("immutable-pods").await;
    h.deploy("web", &pack("blue", stateful_set("db")), policy("Recreate")).await;
    let before = h.objects.uids(&["StatefulSet/db", "Pod/db-0"]).await;
    let mark = h.wire.mark();
    h.pack("web-pack", &pack("green", stateful_set("other"))).await;
    color(&h, "green").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    let after = h.objects.uids(&["StatefulSet/db", "Pod/db-0"]).await;
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1], before[1], "the pod runs on");
    h.shows("Pod/db-0", "/metadata/ownerReferences/0/uid", after[0].as_str()).await;
    let deletes: Vec<Value> = h
        .wire
        .writes_to("statefulsets/db", mark)
        .into_iter()
        .filter(|request| request.verb == "delete")
        .map(|request| request.body)
        .collect();
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0]["propagationPolicy"], "Orphan");
    assert_eq!(deletes[0]["preconditions"]["uid"], json!(before[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_data_what_is_kept_and_what_is_not_ours_is_never_deleted() {
    let keep = |object| with_annotation(object, "sherpack.io/resource-policy", "keep");
    let cases = [
        (
            "data",
            claim("fast"),
            claim("slow"),
            "PersistentVolumeClaim/data",
            "what it holds would go with it",
        ),
        ("kept", keep(frozen("blue")), keep(frozen("green")), "ConfigMap/frozen", "resource policy"),
        // Whoever takes the annotation off has to take it off the object as well.
        ("kept-once", keep(frozen("blue")), frozen("green"), "ConfigMap/frozen", "on the object too"),
    ];
    for (name, before, after, object, part) in cases {
        let h = Harness::new(&format!("immutable-{name}")).await;
        let mut spec = policy("Recreate");
        spec["wait"] = json!(false);
        h.deploy("web", &pack("blue", before), spec).await;
        let uids = h.objects.uids(&[object]).await;
        h.pack("web-pack", &pack("green", after)).await;
        let reason = undone(&h).await;
        assert!(reason.starts_with("ImmutableField: ") && reason.contains(part), "{name}: {reason}");
        assert_eq!(h.objects.uids(&[object]).await, uids, "{name}");
        assert!(h.wire.writes_since(0).iter().all(|request| request.verb != "delete"), "{name}");
    }
    let h = Harness::new("immutable-theirs").await;
    h.objects.create("somebody", frozen("red")).await;
    for wish in ["Recreate", "Skip"] {
        let more =
            json!({"install": {"retries": 0, "adopt": "Unowned"}, "upgrade": {"immutableFields": wish}});
        h.apply(&wish.to_lowercase(), &Pack::new("web", "1.0.0").object(frozen("blue")), more).await;
        let held = h.condition(&wish.to_lowercase(), "Ready", "False", Some("RetriesExceeded")).await;
        assert!(message(&held, "Ready").contains("this release has not made it"), "{held}");
        h.uninstall(&wish.to_lowercase()).await;
    }
    assert_eq!(h.objects.get("ConfigMap/frozen").await["data"]["color"], "red");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_value_is_no_field_that_cannot_change() {
    let h = Harness::new("immutable-wrong").await;
    h.deploy("web", &pack("blue", deployment("web", 1)), policy("Recreate")).await;
    let uids = h.objects.uids(&["Deployment/web"]).await;
    let mut wrong = deployment("web", 1);
    wrong["spec"]["replicas"] = json!(-1);
    // And a field that cannot change beside it.
    wrong["spec"]["selector"]["matchLabels"]["app"] = json!("other");
    wrong["spec"]["template"]["metadata"]["labels"]["app"] = json!("other");
    h.pack("web-pack", &pack("green", wrong)).await;
    let reason = undone(&h).await;
    assert!(reason.starts_with("ObjectInvalid: ") && reason.contains("spec.replicas"), "{reason}");
    assert_eq!(h.objects.uids(&["Deployment/web"]).await, uids);
    assert!(h.wire.writes_since(0).iter().all(|request| request.verb != "delete"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_skipped_stays_as_it_is_and_is_told_of_and_not_locked() {
    let h = Harness::new("immutable-skip").await;
    let service = |address: &str| {
        let mut service = service("web");
        service["spec"]["clusterIP"] = json!(address);
        service
    };
    h.deploy("web", &pack("blue", service("")), policy("Skip")).await;
    let before = h.objects.get("Service/web").await;
    h.pack("web-pack", &pack("green", service("None"))).await;
    color(&h, "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    let ready = h.ready("web").await;
    let named = "Service immutable-skip/web (spec.clusterIPs[0])";
    for type_ in ["Ready", "Drifted"] {
        assert!(message(&ready, type_).contains(named), "{type_}: {ready}");
    }
    assert_eq!(message(&ready, "Released"), "revision 2 is deployed: 1 updated, 1 skipped");
    let told = ready["status"]["history"][0]["message"].as_str().unwrap();
    assert!(told.starts_with("Upgrade complete; ") && told.contains(named), "{told}");
    assert!(h.run(&["history", "web"]).out.contains(named));
    assert_eq!(h.objects.get("Service/web").await["spec"], before["spec"]);

    // Nobody puts it back, and nothing tries to.
    let mark = h.wire.mark();
    h.objects.edit("Service/web", "kubectl-edit", json!({"spec": {"selector": {"app": "other"}}})).await;
    for restart in [false, true] {
        if restart {
            h.kill();
            h.start();
        }
        h.pass("web").await;
        h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
        color(&h, "green").await;
        assert!(message(&h.ready("web").await, "Ready").contains(named));
    }
    assert!(h.wire.writes_to("services/web", mark).is_empty());
    assert_eq!(h.objects.get("Service/web").await["spec"]["selector"]["app"], "other");

    // A revision that wants what is there has it, and locks it.
    h.pack("web-pack", &pack("yellow", service(""))).await;
    h.shows("Service/web", "/spec/selector/app", "web").await;
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    h.shows("SherpackRelease/web", "/status/revision", 3).await;
    assert!(!message(&h.ready("web").await, "Ready").contains("skipped"));
    h.objects.edit("Service/web", "kubectl-edit", json!({"spec": {"selector": {"app": "other"}}})).await;
    h.shows("Service/web", "/spec/selector/app", "web").await;
    h.uninstall("web").await;
    h.gone("Service/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_never_makes_anew_what_somebody_froze() {
    let h = Harness::new("immutable-drift").await;
    h.deploy("web", &pack("blue", config_map("frozen", json!({"color": "blue"}))), policy("Recreate")).await;
    let uids = h.objects.uids(&["ConfigMap/frozen"]).await;
    let frozen = json!({"immutable": true, "data": {"color": "red"}});
    h.objects.edit("ConfigMap/frozen", "kubectl-edit", frozen).await;
    let held = h.condition("web", "Ready", "False", Some("ImmutableField")).await;
    let told = message(&held, "Ready");
    assert!(told.contains("ConfigMap immutable-drift/frozen") && told.contains("delete it"), "{told}");
    assert_eq!(h.objects.uids(&["ConfigMap/frozen"]).await, uids);
    // As it says.
    h.objects.delete("ConfigMap/frozen").await;
    h.shows("ConfigMap/frozen", "/data/color", "blue").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_does_not_go_is_awaited_across_a_restart_and_holds_no_worker() {
    let h = Harness::new("immutable-held").await;
    let mut held = frozen("blue");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    h.deploy("web", &pack("blue", held), policy("Recreate")).await;
    h.pack("web-pack", &pack("green", frozen("green"))).await;
    let waits = |release: &Value| {
        let waiting = &release["status"]["operation"]["waitingFor"][0];
        waiting["object"] == "ConfigMap immutable-held/frozen" && waiting["state"] == "Terminating"
    };
    h.sees("SherpackRelease/web", waits).await;
    h.kill();
    h.start();
    // What the status says until then was written by the process before.
    h.pass("web").await;
    h.sees("SherpackRelease/web", waits).await;
    h.deploy("other", &Pack::new("other", "1.0.0").object(config_map("other", json!({"a": "b"}))), json!({}))
        .await;
    let deletes = |request: &&Request| request.verb == "delete" && request.is_about("configmaps/frozen");
    assert_eq!(h.wire.writes_since(0).iter().filter(deletes).count(), 1);
    h.objects.edit("ConfigMap/frozen", "test", json!({"metadata": {"finalizers": null}})).await;
    h.shows("ConfigMap/frozen", "/data/color", "green").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;

    // One that never goes fails the operation, by its name.
    let hold = json!({"metadata": {"finalizers": ["example.com/held"]}});
    h.objects.edit("ConfigMap/frozen", "test", hold).await;
    h.edit_spec("web", json!({"timeout": "2s", "upgrade": {"onFailure": "Retain"}})).await;
    // Packs come by another watch than specs do, and may be faster.
    h.ready("web").await;
    h.pack("web-pack", &pack("yellow", frozen("yellow"))).await;
    h.shows_states("web", &["1 superseded", "2 deployed", "3 failed"]).await;
    let State::Failed { reason, .. } = h.decoded("web", 3).await.record.state else { panic!("not failed") };
    assert!(reason.starts_with("ObjectTerminating: ConfigMap immutable-held/frozen "), "{reason}");
    // The next attempt waits on, and creates it.
    h.edit_spec("web", json!({"timeout": "1m"})).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.sees("SherpackRelease/web", waits).await;
    h.objects.edit("ConfigMap/frozen", "test", json!({"metadata": {"finalizers": null}})).await;
    h.shows("ConfigMap/frozen", "/data/color", "yellow").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_may_not_delete_is_told_of_before_anything_is_touched() {
    let h = Harness::new("immutable-rights").await;
    h.account("deployer").await;
    let objects = |verbs| vec![rule(&[""], &["configmaps"], verbs), rule(&["batch"], &["jobs"], verbs)];
    h.grant("deployer", &objects(&["get", "create", "patch"])).await;
    let mut spec = policy("Recreate");
    spec["serviceAccountName"] = json!("deployer");
    h.deploy("web", &pack("blue", job("1")), spec).await;
    h.pack("web-pack", &pack("green", job("2"))).await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&held, "Ready").contains("delete jobs.batch in immutable-rights (migrate)"), "{held}");
    color(&h, "blue").await;
    h.shows_states("web", &["1 deployed"]).await;
    h.grant("deployer", &objects(&ALL)).await;
    color(&h, "green").await;
    h.shows("Job/migrate", "/spec/template/spec/containers/0/image", "example.com/job:2").await;
    h.ready("web").await;
}

/// How often the API server made, or deleted, the Job.
fn times(h: &Harness, verb: &str, code: u16) -> usize {
    let counts = |request: &&Request| {
        request.verb == verb && request.code == code && request.is_about("jobs/migrate") && request.is_write()
    };
    h.wire.writes_since(0).iter().filter(counts).count()
}

async fn exchange(h: &Harness) {
    h.deploy("web", &pack("blue", job("1")), policy("Recreate")).await;
    h.shows_states("web", &["1 deployed"]).await;
    h.pack("web-pack", &pack("green", job("2"))).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    h.shows("Job/migrate", "/spec/template/spec/containers/0/image", "example.com/job:2").await;
    color(h, "green").await;
    assert_eq!((times(h, "apply", 201), times(h, "delete", 200)), (2, 1));
}

const KINDS: [&str; 4] = ["delete jobs", "apply jobs", "update records", "create records"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_an_object_is_deleted_once_and_created_once() {
    let name = "immutable-killed";
    let breaks = in_each_operation(Effect::KillAfter, name, (5, &[1, 3, 5]), exchange).await;
    breaks.at_least(10, name);
    breaks.none_left_out(&KINDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_after_any_write_an_object_is_deleted_once_and_created_once() {
    let name = "immutable-each";
    let breaks = at_each_write(Effect::KillAfter, name, exchange).await;
    breaks.at_least(10, name);
    breaks.none_left_out(&KINDS);
}
