//! The lock: spellings of one and the same thing are no drift, and what is no statement of a manifest is not locked.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, secret, service};
use crate::support::{Harness, Pack};

const CONTAINER: &str = "/spec/template/spec/containers/0";

/// A watch gives the events of its kind in order: when this is back, all that happened before was seen.
async fn seen(h: &Harness, last: &str, pointer: &str, patch: Value, back: Value) {
    h.objects.edit(last, "kubectl-edit", patch).await;
    h.shows(last, pointer, back).await;
    h.pass("web").await;
}

/// Nulls, status, empty maps and what only the API server writes: they come with generated manifests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_says_nothing_is_neither_owned_nor_a_difference() {
    let h = Harness::new("pitfall-nulls").await;
    let mut workload = deployment("web", 0);
    workload["metadata"]["creationTimestamp"] = Value::Null;
    workload["metadata"]["annotations"] = Value::Null;
    workload["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    workload["spec"]["template"]["spec"]["nodeSelector"] = Value::Null;
    let container = workload.pointer_mut(CONTAINER).unwrap();
    container["env"] = Value::Null;
    container["resources"] = json!({});
    workload["status"] = json!({"replicas": 7});
    h.deploy("web", &Pack::new("web", "1.0.0").object(workload).object(deployment("last", 0)), json!({}))
        .await;
    let live = h.objects.get("Deployment/web").await;
    assert_ne!(live["status"]["replicas"], 7);
    let annotations = live["metadata"]["annotations"].as_object().unwrap();
    assert!(!annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    let mark = h.wire.mark();
    let env = json!({"containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}],
        "nodeSelector": {"example.com/zone": "a"}});
    h.objects.strategic("Deployment/web", "kubectl-set", json!({"spec": {"template": {"spec": env}}})).await;
    h.objects
        .edit(
            "Deployment/web",
            "kubectl-annotate",
            json!({"metadata": {"annotations": {"example.com/a": "b"}}}),
        )
        .await;
    seen(&h, "Deployment/last", "/spec/replicas", json!({"spec": {"replicas": 1}}), json!(0)).await;
    assert!(h.wire.writes_to("deployments/web", mark).is_empty());
    assert_eq!(
        h.objects.get("Deployment/web").await.pointer(&format!("{CONTAINER}/env/0/name")),
        Some(&json!("A"))
    );
}

/// Ports without a protocol, numbers that may be texts, percentages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_may_be_a_text_is_what_the_manifest_says() {
    let h = Harness::new("pitfall-int-or-string").await;
    let mut numbered = service("numbered");
    numbered["spec"]["ports"] = json!([{"port": 80, "targetPort": 8080}]);
    let mut named = service("named");
    named["spec"]["ports"] = json!([{"port": 80, "targetPort": "http"}]);
    let mut half = deployment("half", 0);
    half["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    let pack = Pack::new("web", "1.0.0").objects([numbered, named, half, service("last")]);
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();
    // Another applier who says the same takes nothing from us.
    let same = json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}});
    h.objects.server_side_apply("Service/numbered", "other", same).await;
    let unavailable =
        |value: Value| json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": value}}}});
    h.objects.server_side_apply("Deployment/half", "other", unavailable(json!("50%"))).await;
    let ports = json!({"metadata": {"labels": {"sherpack.io/release-name": null}}});
    let back = json!("web");
    seen(&h, "Service/last", "/metadata/labels/sherpack.io~1release-name", ports, back).await;
    for name in ["services/numbered", "services/named", "deployments/half"] {
        assert!(h.wire.writes_to(name, mark).is_empty(), "{name}");
    }
    let port = |value: Value| json!([{"op": "replace", "path": "/spec/ports/0/targetPort", "value": value}]);
    h.objects.json_patch("Service/numbered", "kubectl-edit", port(json!("http"))).await;
    h.objects.json_patch("Service/named", "kubectl-edit", port(json!(8080))).await;
    h.objects.edit("Deployment/half", "kubectl-edit", unavailable(json!(1))).await;
    h.shows("Service/numbered", "/spec/ports/0/targetPort", 8080).await;
    h.shows("Service/named", "/spec/ports/0/targetPort", "http").await;
    h.shows("Deployment/half", "/spec/strategy/rollingUpdate/maxUnavailable", "50%").await;
}

/// `stringData` is write-only: a key that is dropped from it would stay in the data for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_string_data_has_no_more_goes() {
    let h = Harness::new("pitfall-string-data").await;
    let both = json!({"user": "me", "password": "s3cret"});
    h.deploy("web", &Pack::new("web", "1.0.0").object(secret("login", both)), json!({})).await;
    let mark = h.wire.mark();
    h.pass("web").await;
    assert!(h.wire.writes_to("secrets/login", mark).is_empty());
    h.deploy("web", &Pack::new("web", "2.0.0").object(secret("login", json!({"user": "me"}))), json!({}))
        .await;
    assert_eq!(h.objects.get("Secret/login").await["data"], json!({"user": "bWU="}));
}

/// The API server cannot tell two elements with one key apart, and refuses to apply them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_list_items_with_one_key_are_refused_with_their_place_and_what_is_deployed_stays_locked() {
    let h = Harness::new("pitfall-duplicates").await;
    let settings = || config_map("settings", json!({"color": "blue"}));
    let pack = |version: &str, workload: Value| Pack::new("web", version).object(settings()).object(workload);
    h.deploy("web", &pack("1.0.0", deployment("web", 0)), json!({})).await;
    let mut twice = deployment("web", 0);
    twice.pointer_mut(CONTAINER).unwrap()["env"] =
        json!([{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}]);
    h.apply("web", &pack("2.0.0", twice), json!({"upgrade": {"retries": 0}})).await;
    let release = h
        .sees("SherpackRelease/web", |release| {
            let message = release["status"]["conditions"].to_string();
            message.contains("TWICE") && message.contains("Deployment")
        })
        .await;
    assert_eq!(condition(&release, "Ready")["status"], "False");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
