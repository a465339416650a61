//! `spec.lock` with `drift.ignore`: what a rule leaves to others of what Helm installed.

use serde_json::{Value, json};

use crate::support::Harness;
use crate::support::harness::condition;
use crate::support::helm::{Helm, Line};
use crate::support::packs::{config_map, deployment, secret};

const IMAGE: &str = "/spec/template/spec/containers/0/image";

async fn locked(h: &Harness, line: Line, chart: &[Value], rules: Value) -> Helm {
    let helm = Helm::new(h, line, "shop");
    helm.chart("1.0.0", chart);
    helm.does("install", &[]).await;
    let lock = json!({"helmRelease": {"name": "shop"}});
    h.release("guard", json!({"lock": lock, "drift": {"ignore": rules}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    helm
}

async fn set(h: &Harness, what: &str, data: Value) {
    h.objects.edit(what, "kubectl-edit", json!({ "data": data })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_rule_names_is_left_to_others_and_the_rest_is_locked() {
    for (line, namespace) in Line::BOTH.into_iter().zip(["guard-ignore-three", "guard-ignore-four"]) {
        let h = Harness::new(namespace).await;
        let colored = |name: &str| config_map(name, json!({"color": "blue", "size": "small"}));
        let rules = json!([
            {"target": {"kind": "Deployment"}, "paths": ["/spec/replicas"]},
            {"target": {"kind": "ConfigMap", "name": "settings"}, "paths": ["/data/color"]},
            {"target": {"kind": "ConfigMap", "name": "free"}},
        ]);
        let chart = [colored("settings"), colored("free"), deployment("web", 1)];
        let _helm = locked(&h, line, &chart, rules).await;
        let release = h.objects.get("SherpackRelease/guard").await;
        let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with("revision 1: 2 objects"), "{message}");

        let mark = h.wire.mark();
        let scale = json!({"spec": {"replicas": 3}});
        h.objects.edit_subresource("Deployment/web", "scale", "kubectl", scale).await;
        set(&h, "ConfigMap/free", json!({"color": "red"})).await;
        set(&h, "ConfigMap/settings", json!({"color": "red"})).await;
        h.pass("guard").await;
        set(&h, "ConfigMap/settings", json!({"size": "large"})).await;
        let settings = h.shows("ConfigMap/settings", "/data/size", "small").await;
        assert_eq!(settings["data"]["color"], "red", "{line:?}");
        let other = json!({"containers": [{"name": "app", "image": "example.com/other:2"}]});
        let other = json!({"spec": {"template": {"spec": other}}});
        h.objects.strategic("Deployment/web", "kubectl-set", other).await;
        let web = h.shows("Deployment/web", IMAGE, "example.com/app:1.0.0").await;
        assert_eq!(web["spec"]["replicas"], 3, "{line:?}");
        assert_eq!(h.objects.get("ConfigMap/free").await["data"]["color"], "red");
        for (what, writes) in [("deployments/web", 1), ("configmaps/settings", 1), ("configmaps/free", 0)] {
            // The controller manager writes as well: what comes between is a conflict.
            let sent = h.wire.writes_to(what, mark);
            let done = sent.iter().filter(|request| request.code != 409).count();
            assert_eq!(done, writes, "{what} with {line:?}");
        }
        // What is left to others is no drift, and nobody is named for it.
        let objects = |release: &Value| release["status"]["drift"]["objects"].as_array().cloned();
        let both = |release: &Value| objects(release).is_some_and(|objects| objects.len() == 2);
        let told = h.sees("SherpackRelease/guard", both).await;
        for drifted in objects(&told).unwrap() {
            let paths = drifted["paths"].to_string();
            assert!(!paths.contains("replicas") && !paths.contains("color"), "{drifted}");
            assert_ne!(drifted["manager"], "kubectl", "{drifted}");
        }

        h.edit_spec("guard", json!({"drift": {"ignore": null}})).await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
        h.shows("ConfigMap/free", "/data/color", "blue").await;
        h.shows("Deployment/web", "/spec/replicas", 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_a_secret_is_left_to_others_and_an_upgrade_of_helm_goes_through() {
    for (line, namespace) in Line::BOTH.into_iter().zip(["guard-secret-three", "guard-secret-four"]) {
        let h = Harness::new(namespace).await;
        let rules = json!([{"target": {"kind": "Secret"}, "paths": ["/data/token"]}]);
        let chart = |plain: &str| [secret("keys", json!({"token": "ours", "plain": plain}))];
        let helm = locked(&h, line, &chart("one"), rules).await;
        let before = h.objects.get("Secret/keys").await["data"].clone();
        let mark = h.wire.mark();
        // "theirs" and "zwei".
        set(&h, "Secret/keys", json!({"token": "dGhlaXJz"})).await;
        h.pass("guard").await;
        assert!(h.wire.writes_to("secrets/keys", mark).is_empty(), "{line:?}");
        set(&h, "Secret/keys", json!({"plain": "endlaQ=="})).await;
        let keys = h.shows("Secret/keys", "/data/plain", before["plain"].clone()).await;
        assert_eq!(keys["data"]["token"], "dGhlaXJz", "{line:?}");
        assert_eq!(h.wire.writes_to("secrets/keys", mark).len(), 1, "{line:?}");

        helm.chart("1.1.0", &chart("two"));
        helm.does("upgrade", &[]).await;
        h.shows("Secret/keys", "/data/plain", "dHdv").await;
        h.sees("SherpackRelease/guard", |release| release["status"]["revision"] == 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_that_makes_no_sense_loosens_no_lock() {
    let h = Harness::new("guard-nonsense").await;
    let chart = [config_map("settings", json!({"color": "blue", "size": "small"}))];
    let _helm = locked(&h, Line::Four, &chart, json!([{"paths": ["/data/color"]}])).await;
    set(&h, "ConfigMap/settings", json!({"color": "red"})).await;
    let stays_locked = async || {
        set(&h, "ConfigMap/settings", json!({"size": "large"})).await;
        let settings = h.shows("ConfigMap/settings", "/data/size", "small").await;
        assert_eq!(settings["data"]["color"], "red");
        h.condition("guard", "Ready", "False", Some("InvalidSpec")).await;
    };
    h.edit_spec("guard", json!({"drift": {"ignore": [{"paths": ["data/color"]}]}})).await;
    let invalid = h.condition("guard", "Ready", "False", Some("InvalidSpec")).await;
    let message = condition(&invalid, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("spec.drift.ignore[0].paths[0]: "), "{message}");
    stays_locked().await;
    // What is left to others is known by no record: a new process touches nothing until it can be read again.
    h.start();
    h.operator_ready().await;
    let mark = h.wire.mark();
    set(&h, "ConfigMap/settings", json!({"size": "large"})).await;
    h.pass("guard").await;
    assert!(h.wire.writes_to("configmaps", mark).is_empty());
    let rules = json!([{"paths": ["/data/color"]}]);
    h.edit_spec("guard", json!({"drift": {"ignore": rules}, "values": {"color": "green"}})).await;
    h.shows("ConfigMap/settings", "/data/size", "small").await;
    stays_locked().await;
    h.edit_spec("guard", json!({"values": null})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
}
