//! `spec.lock` with `drift.strict`: what its managers add to what Helm installed is taken away.

use serde_json::{Value, json};

use crate::support::Harness;
use crate::support::helm::{Helm, Line};
use crate::support::packs::{config_map, deployment, service};

const MANAGERS: [&str; 2] = ["kubectl-edit", "injector"];

fn chart(color: &str) -> [Value; 3] {
    [config_map("settings", json!({ "color": color })), deployment("web", 0), service("web")]
}

async fn locked(h: &Harness, line: Line, drift: Value) -> Helm {
    let helm = Helm::new(h, line, "shop");
    helm.chart("1.0.0", &chart("blue"));
    helm.does("install", &[]).await;
    let lock = json!({"helmRelease": {"name": "shop"}});
    h.release("guard", json!({"lock": lock, "drift": drift})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    helm
}

fn sidecar(name: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": name, "image": "example.com/proxy:1"}]}}}})
}

async fn set(h: &Harness, manager: &str, data: Value) {
    h.objects.edit("ConfigMap/settings", manager, json!({ "data": data })).await;
}

/// Writes since then that were no dry runs.
fn written(h: &Harness, what: &str, mark: usize) -> usize {
    h.wire.writes_to(what, mark).iter().filter(|write| !write.line().contains("dryRun")).count()
}

fn containers(object: &Value) -> Vec<&str> {
    let containers = object.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
    let mut names: Vec<&str> = containers.iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_named_manager_adds_is_taken_away_and_what_others_add_stays() {
    for (line, namespace) in Line::BOTH.into_iter().zip(["guard-strict-three", "guard-strict-four"]) {
        let h = Harness::new(namespace).await;
        let helm = locked(&h, line, json!({"strict": {"managers": MANAGERS}})).await;
        set(&h, "friend", json!({"theirs": "added"})).await;
        h.objects.strategic("Deployment/web", "friend", sidecar("friendly")).await;
        // Where an addition was, there is a default again; it is nobody's.
        let recreate = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
        h.objects.edit("Deployment/web", "kubectl-edit", recreate).await;
        h.shows("Deployment/web", "/spec/strategy/type", "RollingUpdate").await;
        h.objects.strategic("Deployment/web", "injector", sidecar("proxy")).await;
        let live = h.sees("Deployment/web", |object| !containers(object).contains(&"proxy")).await;
        assert_eq!(containers(&live), ["app", "friendly"], "{line:?}");
        set(&h, "kubectl-edit", json!({"mine": "added"})).await;
        h.sees("ConfigMap/settings", |map| map["data"]["mine"].is_null()).await;
        // Beside a change of what Helm said, and by an apply.
        set(&h, "kubectl-edit", json!({"color": "red", "mine": "added"})).await;
        h.objects.server_side_apply("ConfigMap/settings", "injector", json!({"data": {"more": "x"}})).await;
        let data = json!({"color": "blue", "theirs": "added"});
        h.sees("ConfigMap/settings", |map| map["data"] == data).await;

        // Once done, nothing goes on.
        h.pass("guard").await;
        let mark = h.wire.mark();
        set(&h, "friend", json!({"theirs": "again"})).await;
        set(&h, "kubectl-edit", json!({"again": "added"})).await;
        h.sees("ConfigMap/settings", |map| map["data"]["again"].is_null()).await;
        h.pass("guard").await;
        let writes = written(&h, "configmaps/settings", mark);
        assert!(writes <= 2, "{line:?}: what is sent, and what goes: {writes}");

        let release = h.objects.get("SherpackRelease/guard").await;
        let told = release["status"]["drift"]["objects"].as_array().unwrap().clone();
        let told = told.iter().find(|one| one["object"] == format!("Deployment {namespace}/web"));
        let told = told.unwrap_or_else(|| panic!("the Deployment is told of: {release}"));
        assert_eq!(told["manager"], "injector");
        assert_eq!(told["paths"], json!(["/spec/template/spec/containers[name=proxy]"]));
        for what in ["ConfigMap/settings", "Deployment/web", "Service/web"] {
            let live = h.objects.get(what).await;
            let fields = live["metadata"]["managedFields"].as_array().unwrap().clone();
            let ours = fields.iter().find(|one| one["manager"].as_str().unwrap().starts_with("sherpack"));
            assert_eq!(ours, None, "{line:?}: {what}");
        }
        let mut next = chart("green");
        next[1]["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}});
        helm.chart("1.1.0", &next);
        helm.does("upgrade", &[]).await;
        h.shows("ConfigMap/settings", "/data/color", "green").await;
        set(&h, "kubectl-edit", json!({"mine": "again"})).await;
        let data = json!({"color": "green", "theirs": "again"});
        h.sees("ConfigMap/settings", |map| map["data"] == data).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_added_before_goes_when_its_manager_is_named_and_warn_only_tells() {
    for (line, namespace) in Line::BOTH.into_iter().zip(["guard-added-three", "guard-added-four"]) {
        let h = Harness::new(namespace).await;
        let _helm = locked(&h, line, json!({"mode": "Warn"})).await;
        // Changed and changed back: it is theirs by now, and none that was added.
        set(&h, "kubectl-edit", json!({"color": "red"})).await;
        set(&h, "kubectl-edit", json!({"color": "blue", "mine": "added", "kept": "added"})).await;
        let name = |name: &str| json!({"spec": {"ports": [{"port": 80, "name": name}]}});
        for port in ["other", "http"] {
            h.objects.strategic("Service/web", "kubectl-edit", name(port)).await;
        }
        h.pass("guard").await;
        let mark = h.wire.mark();
        let ignore = json!([{"target": {"kind": "ConfigMap"}, "paths": ["/data/kept"]}]);
        h.edit_spec("guard", json!({"drift": {"strict": {"managers": MANAGERS}, "ignore": ignore}})).await;
        // A pass may know of these edits what a watch has told it so far: it is the last word that counts.
        let told = |object: &Value| {
            (object["paths"] == json!(["/data/mine"]))
                && object["manager"] == "kubectl-edit"
                && object["action"] == "Reported"
        };
        h.sees("SherpackRelease/guard", |release| {
            let objects = release["status"]["drift"]["objects"].as_array();
            let current = release["status"]["observedGeneration"] == release["metadata"]["generation"];
            current && objects.is_some_and(|objects| objects.len() == 1 && told(&objects[0]))
        })
        .await;
        h.condition("guard", "Drifted", "True", Some("DriftDetected")).await;
        assert_eq!(written(&h, "configmaps/settings", mark), 0, "{line:?}");
        let mark = h.wire.mark();
        h.edit_spec("guard", json!({"drift": {"mode": "Enabled"}})).await;
        let data = json!({"color": "blue", "kept": "added"});
        h.sees("ConfigMap/settings", |map| map["data"] == data).await;
        h.pass("guard").await;
        for what in ["configmaps/settings", "services/web"] {
            let writes = written(&h, what, mark);
            assert!(writes <= 3, "{line:?}: {what} is sent, taken and rid of it, each once: {writes}");
        }
        assert_eq!(h.objects.get("Service/web").await["spec"]["ports"][0]["name"], "http", "{line:?}");
    }
}
