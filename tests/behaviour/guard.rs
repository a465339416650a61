//! `spec.lock` and real Helm: drift of what Helm installed is put back in Helm's own name, and Helm upgrades it unforced.

use serde_json::{Value, json};

use crate::support::Harness;
use crate::support::harness::condition;
use crate::support::helm::{Helm, Line};
use crate::support::packs::{config_map, deployment, service};
use crate::support::wait::{eventually, wait_for};

const OBJECTS: [&str; 3] = ["ConfigMap/settings", "Deployment/web", "Service/web"];

fn shop() -> Vec<Value> {
    let mut web = deployment("web", 0);
    web["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!("example.com/app:{{ .Values.version }}");
    let mut front = service("web");
    front["spec"]["ports"][0]["port"] = json!(8080);
    vec![config_map("settings", json!({"color": "{{ .Values.color }}", "size": "small"})), web, front]
}

async fn installed(h: &Harness, line: Line) -> Helm {
    let helm = Helm::new(h, line, "shop");
    helm.chart("1.2.3", &shop());
    helm.does("install", &["--set", "color=blue,version=1.0.0"]).await;
    h.release("guard", json!({"lock": {"helmRelease": {"name": "shop"}}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    helm
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// Nothing on the object says that we were there.
fn assert_untouched_by_us(object: &Value) {
    let text = object.to_string();
    assert!(!text.contains("sherpack"), "{text}");
    for entry in object["metadata"]["managedFields"].as_array().unwrap() {
        let manager = entry["manager"].as_str().unwrap();
        assert!(
            ["helm", "kube-controller-manager", "kubectl-edit", "kubectl-set"].contains(&manager),
            "{manager}: {text}"
        );
    }
}

/// Puts back a value, a field, a field of a list element, and a whole object.
async fn changes_are_put_back(h: &Harness, namespace: &str) {
    let before = h.objects.uids(&["ConfigMap/settings", "Deployment/web"]).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.objects
        .edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"size": null, "added": "mine"}}))
        .await;
    let settings = h.shows("ConfigMap/settings", "/data/size", "small").await;
    assert_eq!(settings["data"]["added"], "mine", "what others add stays");
    let containers = json!([{"name": "app", "image": "evil:1", "env": [{"name": "EXTRA", "value": "1"}]}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    h.objects.strategic("Deployment/web", "kubectl-set", patch).await;
    let web = h.shows("Deployment/web", IMAGE, "example.com/app:1.0.0").await;
    let env = web.pointer("/spec/template/spec/containers/0/env").unwrap().as_array().unwrap();
    assert!(env.iter().any(|variable| variable["name"] == "EXTRA"), "{env:?}");
    assert_eq!(h.objects.uids(&["ConfigMap/settings", "Deployment/web"]).await, before);
    h.objects.delete("Service/web").await;
    let front = h.shows("Service/web", "/spec/ports/0/port", 8080).await;
    assert_eq!(front["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(front["metadata"]["annotations"]["meta.helm.sh/release-name"], "shop");
    assert_eq!(front["metadata"]["annotations"]["meta.helm.sh/release-namespace"], namespace);
}

/// In the status, in a condition, in a metric and in an Event.
async fn told_what_was_put_back(h: &Harness) {
    h.sees("SherpackRelease/guard", |release| {
        let told = release["status"]["drift"]["objects"].to_string();
        told.contains("kubectl-set") && told.contains("Recreated")
    })
    .await;
    h.condition("guard", "Drifted", "False", Some("DriftReverted")).await;
    assert!(h.metric("sherpack_drift_reverted_total", &["guard"]).await >= 4.0);
    eventually("an Event tells it", async || !h.events("guard", "DriftReverted").await.is_empty()).await;
}

/// Nothing says that the operator was there; what Helm applied is still applied by Helm.
async fn fields_are_helms(h: &Harness, line: Line) {
    let operation = if line == Line::Four { "Apply" } else { "Update" };
    for what in OBJECTS {
        let object = h.objects.get(what).await;
        assert_untouched_by_us(&object);
        let managed = object["metadata"]["managedFields"].as_array().unwrap();
        assert!(
            managed.iter().any(|entry| entry["manager"] == "helm" && entry["operation"] == operation),
            "{what}: {managed:?}"
        );
    }
}

/// An upgrade that changes what was put back meets no conflict, and is locked in turn.
async fn upgrades_are_locked(h: &Harness, helm: &Helm) {
    helm.does("upgrade", &["--set", "color=green,version=2.0.0"]).await;
    h.shows("SherpackRelease/guard", "/status/revision", 2).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "green");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.objects
        .edit(
            "Service/web",
            "kubectl-edit",
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
        )
        .await;
    h.shows("Service/web", "/metadata/labels/app.kubernetes.io~1managed-by", "Helm").await;
    helm.does("upgrade", &["--set", "color=white,version=3.0.0"]).await;
    h.shows("SherpackRelease/guard", "/status/revision", 3).await;
    assert_eq!(h.objects.get("Deployment/web").await.pointer(IMAGE).unwrap(), "example.com/app:3.0.0");
}

async fn locked_and_upgraded(line: Line, namespace: &str) {
    let h = Harness::new(namespace).await;
    let helm = installed(&h, line).await;
    let release = h.objects.get("SherpackRelease/guard").await;
    assert_eq!(
        condition(&release, "Ready")["message"],
        format!("guards the Helm release {namespace}/shop, revision 1: 3 objects")
    );
    assert_eq!(
        (&release["status"]["revision"], &release["status"]["pack"]["version"]),
        (&json!(1), &json!("1.2.3"))
    );
    assert!(release["metadata"]["finalizers"].is_null());
    assert!(h.wire.writes_to("configmaps", 0).is_empty(), "what is in order is not written");

    changes_are_put_back(&h, namespace).await;
    told_what_was_put_back(&h).await;
    fields_are_helms(&h, line).await;
    upgrades_are_locked(&h, &helm).await;
    // Without the lock everything is as it was, to the byte, and Helm's as before.
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    // What its controller writes about the new image is not ours.
    h.sees("Deployment/web", |web| web["status"]["observedGeneration"] == web["metadata"]["generation"])
        .await;
    let mut before = Vec::new();
    for what in OBJECTS {
        before.push(h.objects.get(what).await);
    }
    h.uninstall("guard").await;
    for (what, before) in OBJECTS.iter().zip(before) {
        let after = h.objects.get(what).await;
        assert_untouched_by_us(&after);
        assert_eq!(without_status(after), without_status(before));
    }
    helm.does("uninstall", &[]).await;
    for what in OBJECTS {
        h.gone(what).await;
    }
}

/// What the controllers of the cluster write goes on meanwhile.
fn without_status(mut object: Value) -> Value {
    object["status"] = Value::Null;
    object["metadata"]["resourceVersion"] = Value::Null;
    let managed = object["metadata"]["managedFields"].as_array_mut().unwrap();
    managed.retain(|entry| entry["subresource"].is_null());
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_helm_3_installed_is_locked_and_helm_upgrades_it_unforced() {
    locked_and_upgraded(Line::Three, "guard-helm-three").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_helm_4_installed_is_locked_and_helm_upgrades_it_unforced() {
    locked_and_upgraded(Line::Four, "guard-helm-four").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_changed_and_changed_back_hinders_no_upgrade() {
    let h = Harness::new("guard-and-back").await;
    let helm = installed(&h, Line::Four).await;
    h.kill();
    for color in ["red", "blue"] {
        let patch = json!({"data": {"color": color, "added": "mine"}});
        h.objects.edit("ConfigMap/settings", "kubectl-edit", patch).await;
    }
    h.start();
    let shared = |settings: &Value| {
        let managed = settings["metadata"]["managedFields"].as_array().unwrap();
        managed.iter().filter(|entry| entry["fieldsV1"]["f:data"]["f:color"].is_object()).count()
    };
    let settings = h.sees("ConfigMap/settings", |settings| {
        let managed = settings["metadata"]["managedFields"].as_array().unwrap();
        let helms = managed.iter().find(|entry| entry["manager"] == "helm").unwrap();
        helms["fieldsV1"]["f:data"]["f:color"].is_object() && shared(settings) == 1
    });
    let settings = settings.await;
    assert_untouched_by_us(&settings);
    let managed = settings["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managed.iter().all(|entry| entry["manager"] != "helm" || entry["operation"] == "Apply"),
        "{managed:?}"
    );
    helm.does("upgrade", &["--set", "color=green,version=1.0.0"]).await;
    let settings = h.objects.get("ConfigMap/settings").await;
    assert_eq!((&settings["data"]["color"], &settings["data"]["added"]), (&json!("green"), &json!("mine")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_lock_sends_nothing_and_a_restart_looks_once_at_each_object() {
    for (line, namespace) in Line::BOTH.into_iter().zip(["guard-idle-three", "guard-idle-four"]) {
        let h = Harness::new(namespace).await;
        let _helm = installed(&h, line).await;
        // One change that is put back: every earlier one was seen before it.
        h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
        h.condition("guard", "Drifted", "False", Some("DriftReverted")).await;
        let mark = h.wire.mark();
        for _ in 0..3 {
            // What only changes a status is no business of the lock.
            let scaled = json!({"status": {"observedGeneration": 7}});
            h.objects.edit_subresource("Deployment/web", "status", "a-controller", scaled).await;
        }
        let other = config_map("unrelated", json!({"a": "b"}));
        h.objects.create("somebody", other).await;
        h.pass("guard").await;
        let sent: Vec<String> = h
            .wire
            .since(mark)
            .iter()
            .filter(|request| {
                ["configmaps", "services", "deployments"].iter().any(|kind| request.is_about(kind))
            })
            .map(|request| request.line())
            .collect();
        assert!(sent.is_empty(), "{sent:#?}");

        h.stop().await;
        h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"size": "big"}})).await;
        h.objects.delete("Service/web").await;
        let mark = h.wire.mark();
        h.start();
        h.shows("ConfigMap/settings", "/data/size", "small").await;
        h.shows("Service/web", "/spec/ports/0/port", 8080).await;
        h.pass("guard").await;
        let of = |what: &str, read: bool| {
            let sent = h.wire.since(mark);
            let about = sent.iter().filter(|request| request.is_about(what) && request.is_read() == read);
            about.count()
        };
        assert_eq!(
            (of("deployments/web", true), of("deployments/web", false)),
            (1, 1),
            "one look, one question"
        );
        assert!(h.wire.writes_to("deployments/web", mark).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_left_to_an_autoscaler_of_the_chart_and_of_the_cluster() {
    for (line, namespace) in Line::BOTH.into_iter().zip(["guard-scaled-three", "guard-scaled-four"]) {
        let h = Harness::new(namespace).await;
        let helm = Helm::new(&h, line, "shop");
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaled"},
            "spec": {
                "minReplicas": 1, "maxReplicas": 9,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
                "metrics": [{"type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
            },
        });
        helm.chart(
            "1.0.0",
            &[deployment("scaled", 1), deployment("beside", 1), deployment("plain", 1), autoscaler],
        );
        helm.does("install", &[]).await;
        h.release("guard", json!({"lock": {"helmRelease": {"name": "shop"}}})).await;
        h.condition("guard", "Ready", "True", Some("Locked")).await;
        let scale = json!({"spec": {"replicas": 4}});
        h.objects
            .edit_subresource("Deployment/scaled", "scale", "kube-controller-manager", scale.clone())
            .await;
        h.objects.edit_subresource("Deployment/beside", "scale", "keda-operator", scale.clone()).await;
        // A person who scales is drift.
        h.objects.edit_subresource("Deployment/plain", "scale", "kubectl", scale).await;
        h.shows("Deployment/plain", "/spec/replicas", 1).await;
        for name in ["scaled", "beside"] {
            let what = format!("Deployment/{name}");
            let patch =
                json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil:1"}]}}}});
            h.objects.strategic(&what, "kubectl-set", patch).await;
            let web = h.shows(&what, "/spec/template/spec/containers/0/image", "example.com/app:1.0.0").await;
            assert_eq!(web["spec"]["replicas"], 4, "{name} with {line:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_fights_is_named_and_everything_else_stays_locked() {
    let h = Harness::new("guard-fight").await;
    let _helm = installed(&h, Line::Four).await;
    for round in 0..4 {
        h.objects
            .edit("ConfigMap/settings", "rival", json!({"data": {"color": format!("red-{round}")}}))
            .await;
        h.shows("ConfigMap/settings", "/data/color", "blue").await;
    }
    h.objects.edit("ConfigMap/settings", "rival", json!({"data": {"color": "red"}})).await;
    let told = h.condition("guard", "Drifted", "True", Some("Contended")).await;
    assert_eq!(told["status"]["drift"]["contended"][0]["manager"], "rival");
    assert_eq!(told["status"]["drift"]["contended"][0]["paths"], json!(["/data/color"]));
    h.objects.delete("Service/web").await;
    wait_for("the Service is back", async || {
        h.objects.find("Service/web").await.map(drop).ok_or_else(|| "it is gone".to_owned())
    })
    .await;
}
