//! `spec.lock` and a revision that another Sherpack tool wrote; custom resources; and secrets that nobody is told.

use jiff::Timestamp;
use serde_json::{Value, json};
use sherpack_operator::release::State;
use sherpack_operator::storage::{Compression, MacKey, codec};

use crate::support::Harness;
use crate::support::helm::{Helm, Line};
use crate::support::packs::{config_map, secret, service};
use crate::support::wait::wait_for;

/// A revision as Sherpack's own command writes it, and its objects as it applies them: without any label.
pub(super) async fn sherpack_installs(h: &Harness, revision: u32, state: State, objects: &[Value]) {
    let at = Timestamp::now().to_string();
    let documents: Vec<String> =
        objects.iter().map(|object| serde_json::to_string(object).unwrap()).collect();
    let mut record: sherpack_operator::release::Record = serde_json::from_value(json!({
        "name": "shop", "namespace": h.namespace, "version": revision,
        "state": {"status": "deployed"},
        "pack": {"name": "shop", "version": "1.0.0"}, "values": {},
        "manifest": documents.join("\n---\n"), "createdAt": at, "updatedAt": at,
    }))
    .unwrap();
    record.state = state;
    // A key of nobody: what it seals is another tool's.
    let record = codec::encode(&record, None, Compression::Zstd, &MacKey::new([7; 32]), false).unwrap();
    let name = record.metadata.name.clone().unwrap();
    let body = serde_json::to_value(&record).unwrap();
    h.objects.server_side_apply(&format!("Secret/{name}"), "sherpack-cli", body).await;
}

pub(super) async fn apply(h: &Harness, objects: &[Value]) {
    for object in objects {
        let what =
            format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        h.objects.server_side_apply(&what, "sherpack", object.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_sherpack_tool_installed_is_locked_in_its_name() {
    let h = Harness::new("guard-sherpack").await;
    let objects = [config_map("settings", json!({"color": "blue"})), service("web")];
    apply(&h, &objects).await;
    sherpack_installs(&h, 1, State::Deployed, &objects).await;
    let named = json!({"name": "shop", "namespace": "guard-sherpack"});
    h.release("guard", json!({"lock": {"sherpackRelease": named}})).await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;
    let entries = |object: &Value| {
        let mut entries = object["metadata"]["managedFields"].clone();
        entries.as_array_mut().unwrap().iter_mut().for_each(|entry| entry["time"] = Value::Null);
        entries
    };
    let before = h.objects.get("ConfigMap/settings").await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    let after = h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert_eq!(entries(&after), entries(&before), "held as its installer holds it");
    assert_eq!(
        (&after["metadata"]["labels"], &after["metadata"]["annotations"]),
        (&Value::Null, &Value::Null)
    );
    h.objects.delete("Service/web").await;
    h.sees("Service/web", |_| true).await;
    // An unrelated object of a locked kind is nothing to it.
    h.objects.create("somebody", config_map("unrelated", json!({"color": "red"}))).await;

    let pending = State::PendingUpgrade { started_at: Timestamp::now(), timeout: 600, previous_version: 1 };
    let next = [config_map("settings", json!({"color": "green"})), service("web")];
    sherpack_installs(&h, 2, pending, &next).await;
    h.condition("guard", "Reconciling", "True", Some("StandingBack")).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pass("guard").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    sherpack_installs(&h, 2, State::Deployed, &next).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.condition("guard", "Ready", "True", Some("Locked")).await;

    let before = h.objects.get("ConfigMap/settings").await;
    h.uninstall("guard").await;
    assert_eq!(h.objects.get("ConfigMap/settings").await, before);
    assert_eq!(h.objects.get("ConfigMap/unrelated").await["data"]["color"], "red");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_and_a_release_of_one_name_do_not_meet() {
    let h = Harness::new("guard-own").await;
    let pack =
        crate::support::Pack::new("shop", "1.0.0").object(config_map("settings", json!({"color": "blue"})));
    h.deploy("shop", &pack, json!({})).await;
    h.release("guard", json!({"lock": {"sherpackRelease": {"name": "shop"}}})).await;
    h.condition("guard", "Ready", "False", Some("ReleaseNameTaken")).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.uninstall("shop").await;
    h.condition("guard", "Ready", "False", Some("ReleaseNotFound")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_resource_is_locked_and_a_secret_value_is_told_to_nobody() {
    for (line, namespace) in [(Line::Three, "guard-custom-three"), (Line::Four, "guard-custom-four")] {
        let mut h = Harness::without_operator(namespace).await;
        // A SherpackRelease gives rights.
        h.settings.lock.as_operator = true;
        h.start();
        let helm = Helm::new(&h, line, "shop");
        let inner = json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease", "metadata": {"name": "inner"},
            "spec": {"suspend": true, "interval": "7m", "pack": {"configMap": {"name": "p"}}},
        });
        let canary = "hunter2-canary";
        helm.chart("1.0.0", &[inner, secret("login", json!({"password": canary, "user": "a"}))]);
        helm.does("install", &[]).await;
        h.release("guard", json!({"lock": {"helmRelease": {"name": "shop"}}})).await;
        h.condition("guard", "Ready", "True", Some("Locked")).await;
        let edit = json!({"spec": {"interval": "9m"}, "metadata": {"labels": {"added": "mine"}}});
        h.objects.edit("SherpackRelease/inner", "kubectl-edit", edit).await;
        let inner = h.shows("SherpackRelease/inner", "/spec/interval", "7m").await;
        assert_eq!(inner["metadata"]["labels"]["added"], "mine");
        let stolen = json!({"data": {"password": "c3RvbGVu"}});
        let before = h.objects.get("Secret/login").await;
        h.objects.edit("Secret/login", "kubectl-edit", stolen).await;
        h.sees("Secret/login", |login| login["data"] == before["data"]).await;
        h.condition("guard", "Drifted", "False", Some("DriftReverted")).await;
        // What was put back first says nothing of the Secret.
        let tells = |text: &str| text.contains(&format!("Secret {namespace}/login"));
        let told = h.sees("SherpackRelease/guard", |release| tells(&release["status"]["drift"].to_string()));
        let told = told.await.to_string();
        let events = wait_for("an Event tells of the Secret", async || {
            let events = h.events("guard", "DriftReverted").await.join("\n");
            if tells(&events) { Ok(events) } else { Err(events) }
        })
        .await;
        for text in [&told, &events] {
            assert!(
                !text.contains(canary) && !text.contains("stolen") && !text.contains("c3RvbGVu"),
                "{text}"
            );
        }
        helm.does("upgrade", &[]).await;
    }
}
