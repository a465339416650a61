//! The lock: what the managers of `spec.drift.strict` add is taken away, and what others add stays.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, secret};
use crate::support::{Harness, Pack};

const CONTAINERS: &str = "/spec/template/spec/containers";

fn strict(managers: &[&str]) -> Value {
    json!({"drift": {"mode": "Enabled", "strict": {"managers": managers}}})
}

fn settings() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(deployment("web", 0))
}

fn sidecar(name: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": name, "image": "example.com/proxy:1"}]}}}})
}

async fn add_key(h: &Harness, manager: &str, key: &str) {
    h.objects.edit("ConfigMap/settings", manager, json!({"data": {key: "added"}})).await;
}

fn names(object: &Value) -> Vec<&str> {
    let containers = object.pointer(CONTAINERS).unwrap().as_array().unwrap();
    let mut names: Vec<&str> = containers.iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_named_manager_adds_is_taken_away_and_what_others_add_stays() {
    let h = Harness::new("strict").await;
    let pack = settings().object(secret("password", json!({"color": "blue"})));
    h.deploy("web", &pack, strict(&["kubectl-edit", "injector"])).await;
    add_key(&h, "friend", "theirs").await;
    h.objects.strategic("Deployment/web", "friend", sidecar("friendly")).await;
    let status = json!({"status": {"conditions": [{"type": "Seen", "status": "True"}]}});
    h.objects.edit_subresource("Deployment/web", "status", "injector", status).await;
    h.objects.strategic("Deployment/web", "injector", sidecar("proxy")).await;
    add_key(&h, "kubectl-edit", "mine").await;
    // By an apply as well, and beside a change of what is ours.
    h.objects.server_side_apply("Secret/password", "injector", json!({"data": {"more": "cmVk"}})).await;
    h.objects
        .edit("Secret/password", "kubectl-edit", json!({"data": {"color": "cmVk", "size": "cmVk"}}))
        .await;
    h.sees("ConfigMap/settings", |map| map["data"] == json!({"color": "blue", "theirs": "added"})).await;
    h.sees("Secret/password", |map| map["data"] == json!({"color": "Ymx1ZQ=="})).await;
    let live = h.sees("Deployment/web", |object| !names(object).contains(&"proxy")).await;
    assert_eq!(names(&live), ["app", "friendly"]);
    assert!(live["status"]["conditions"].as_array().unwrap().iter().any(|one| one["type"] == "Seen"));

    // Who, and where.
    let told_of = |release: &Value| {
        let objects = release["status"]["drift"]["objects"].as_array().cloned().unwrap_or_default();
        objects.into_iter().find(|one| one["object"] == "Deployment strict/web")
    };
    let release = h.sees("SherpackRelease/web", |release| told_of(release).is_some()).await;
    let drifted = condition(&release, "Drifted");
    assert_eq!((&drifted["status"], &drifted["reason"]), (&json!("False"), &json!("DriftReverted")));
    let told = told_of(&release).unwrap();
    assert_eq!(told["manager"], "injector");
    assert_eq!(told["paths"], json!([format!("{CONTAINERS}[name=proxy]")]));
    // Once done, nothing goes on.
    h.pass("web").await;
    let mark = h.wire.mark();
    add_key(&h, "friend", "again").await;
    add_key(&h, "kubectl-edit", "again-mine").await;
    h.sees("ConfigMap/settings", |map| map["data"]["again-mine"].is_null()).await;
    h.pass("web").await;
    assert!(h.wire.writes_to("deployments/web", mark).is_empty());
    let writes = h.wire.writes_to("configmaps/settings", mark);
    assert!(writes.len() <= 2, "an apply, and what takes it away: {writes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_added_before_is_taken_away_when_its_manager_is_named() {
    let h = Harness::new("strict-later").await;
    h.deploy("web", &settings(), json!({})).await;
    add_key(&h, "kubectl-edit", "before").await;
    add_key(&h, "friend", "friendly").await;
    h.pass("web").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["before"], "added");
    h.edit_spec("web", strict(&["kubectl-edit"])).await;
    h.sees("ConfigMap/settings", |map| map["data"]["before"].is_null()).await;
    // Made while no operator ran: the first list shows it.
    h.kill();
    add_key(&h, "kubectl-edit", "meanwhile").await;
    h.start();
    h.sees("ConfigMap/settings", |map| map["data"]["meanwhile"].is_null()).await;
    // And an upgrade takes away what came while nobody looked.
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    add_key(&h, "kubectl-edit", "suspended").await;
    let next = Pack::new("web", "2.0.0")
        .object(config_map("settings", json!({"color": "green"})))
        .object(deployment("web", 0));
    let mut spec = strict(&["kubectl-edit"]);
    spec["suspend"] = json!(false);
    h.deploy("web", &next, spec).await;
    h.sees("ConfigMap/settings", |map| map["data"] == json!({"color": "green", "friendly": "added"})).await;
    // Without the name it stays again.
    h.edit_spec("web", json!({"drift": {"strict": null}})).await;
    h.ready("web").await;
    add_key(&h, "kubectl-edit", "after").await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    let live = h.shows("ConfigMap/settings", "/data/color", "green").await;
    assert_eq!(live["data"]["after"], "added");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finalizers_and_what_is_ignored_stay_whoever_added_them() {
    let h = Harness::new("strict-stays").await;
    let mut spec = strict(&["kubectl-edit", "updater"]);
    spec["drift"]["ignore"] = json!([
        {"target": {"kind": "ConfigMap"}, "paths": ["/data/mine"]},
        {"target": {"kind": "Deployment"}, "managers": ["updater"]},
    ]);
    h.deploy("web", &settings(), spec).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    h.objects.edit("ConfigMap/settings", "kubectl-edit", hold).await;
    add_key(&h, "kubectl-edit", "mine").await;
    h.objects.strategic("Deployment/web", "updater", sidecar("proxy")).await;
    add_key(&h, "kubectl-edit", "other").await;
    let live = h.sees("ConfigMap/settings", |map| map["data"]["other"].is_null()).await;
    assert_eq!(live["data"], json!({"color": "blue", "mine": "added"}));
    assert_eq!(live["metadata"]["finalizers"], json!(["example.com/hold"]));
    h.pass("web").await;
    assert_eq!(names(&h.objects.get("Deployment/web").await), ["app", "proxy"]);
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warn_tells_of_additions_and_touches_nothing() {
    let h = Harness::new("strict-warn").await;
    let mut spec = strict(&["kubectl-edit"]);
    spec["drift"]["mode"] = json!("Warn");
    h.deploy("web", &settings(), spec).await;
    let mark = h.wire.mark();
    add_key(&h, "kubectl-edit", "mine").await;
    let release = h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    let told = &release["status"]["drift"]["objects"][0];
    assert_eq!((&told["manager"], &told["paths"]), (&json!("kubectl-edit"), &json!(["/data/mine"])));
    h.pass("web").await;
    assert!(
        h.wire.writes_to("configmaps/settings", mark).iter().all(|write| write.line().contains("dryRun"))
    );
    h.edit_spec("web", json!({"drift": {"mode": "Enabled"}})).await;
    h.sees("ConfigMap/settings", |map| map["data"]["mine"].is_null()).await;
}

/// A field that the API server wants to have cannot be taken away. Everything else of the object is still locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_away_is_told_and_the_rest_stays_locked() {
    let h = Harness::new("strict-refused").await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "strict-refused"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": h.namespace}},
            },
            "validations": [{
                "expression": "!(has(oldObject.data) && 'needed' in oldObject.data) || 'needed' in object.data",
                "message": "needed is needed",
            }],
        },
    });
    h.objects.create("test", policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "strict-refused"},
        "spec": {"policyName": "strict-refused", "validationActions": ["Deny"]},
    });
    h.objects.create("test", binding).await;
    h.objects.create("test", config_map("probe", json!({"needed": "x"}))).await;
    crate::support::wait::wait_for("the policy is in force", async || {
        use kube::api::{Patch, PatchParams};
        let patch = Patch::Merge(json!({"data": {"needed": null, "other": "x"}}));
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let refused = h.objects.api("ConfigMap").patch("probe", &params, &patch).await.is_err();
        if refused { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    h.deploy("web", &settings(), strict(&["kubectl-edit"])).await;
    add_key(&h, "kubectl-edit", "needed").await;
    let release = h.condition("web", "Ready", "False", None).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("needed is needed"), "{message}");
    // Between two tries it is theirs, as it was.
    h.sees("ConfigMap/settings", |map| {
        let mut entries = map["metadata"]["managedFields"].as_array().unwrap().iter();
        entries.any(|entry| entry["manager"] == "kubectl-edit")
    })
    .await;
    h.objects.edit("ConfigMap/settings", "friend", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["needed"], "added");
    h.edit_spec("web", json!({"drift": {"strict": null}})).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fight_over_an_addition_is_named_and_cooled_down() {
    let h = Harness::new("strict-contended").await;
    h.deploy("web", &settings(), strict(&["rival-controller"])).await;
    let objects = h.objects.clone();
    let rival = tokio::spawn(async move {
        loop {
            if objects.get("ConfigMap/settings").await["data"]["mine"].is_null() {
                objects.edit("ConfigMap/settings", "rival-controller", json!({"data": {"mine": "x"}})).await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    let release = h.condition("web", "Drifted", "True", Some("Contended")).await;
    rival.abort();
    let contended = &release["status"]["drift"]["contended"];
    assert_eq!(
        *contended,
        json!([{"object": "ConfigMap strict-contended/settings", "manager": "rival-controller", "paths": ["/data/mine"]}])
    );
    h.sees("ConfigMap/settings", |map| map["data"]["mine"].is_null()).await;
}
