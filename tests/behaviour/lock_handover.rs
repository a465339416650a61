//! The lock: fields that somebody in the cluster sets by trade are left to them, and keep their value meanwhile.

use serde_json::{Value, json};

use crate::support::packs::{autoscaler, deployment, with_annotation};
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

const IMAGE: &str = "/spec/template/spec/containers/0/image";
/// What the controller manager calls itself; the autoscaler runs in it.
const AUTOSCALER: &str = "kube-controller-manager";

/// No metrics are served here, so an autoscaler that is part of the release never becomes healthy.
fn unhealthy_is_fine() -> Value {
    json!({"wait": false})
}

fn pack(version: &str, objects: impl IntoIterator<Item = Value>) -> Pack {
    Pack::new("web", version).objects(objects)
}

async fn scale(h: &Harness, manager: &str, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    h.objects.edit_subresource("Deployment/web", "scale", manager, patch).await;
}

/// Changes of spec or annotations in between. One is our apply with another marker; a second would be an autoscaler
/// that mends what our apply has reset.
fn writes(before: &Value, after: &Value) -> i64 {
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();
    generation(after) - generation(before)
}

/// Another change of the same object is put back; gives the object.
async fn image_is_put_back(h: &Harness) -> Value {
    let other = json!({"containers": [{"name": "app", "image": "example.com/other:2"}]});
    let other = json!({"spec": {"template": {"spec": other}}});
    h.objects.strategic("Deployment/web", "kubectl-set", other).await;
    h.shows("Deployment/web", IMAGE, "example.com/app:1.0.0").await
}

/// Waits until the status says that the replicas were left to somebody else.
async fn handed_over(h: &Harness) {
    wait_for("the replicas are handed over", async || {
        let drift = h.status("web").await["drift"].clone();
        if drift["objects"][0]["action"] == "HandedOver" { Ok(()) } else { Err(drift.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_an_autoscaler_changes_are_left_to_it() {
    let h = Harness::new("scaled-by-machine").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    let mark = h.wire.mark();
    scale(&h, AUTOSCALER, 3).await;
    handed_over(&h).await;
    assert!(h.wire.writes_to("deployments/web", mark).len() <= 1);
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 3);
    // An autoscaler may change its mind without anybody else doing anything.
    let mark = h.wire.mark();
    scale(&h, AUTOSCALER, 2).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 2);
    assert_eq!(h.wire.writes_to("deployments/web", mark).len(), 1);
    // It is remembered by the record, not by the process.
    h.start();
    h.operator_ready().await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 2);
    let mut next = deployment("web", 1);
    next["metadata"]["annotations"] = json!({"example.com/release": "next"});
    h.deploy("web", &pack("2.0.0", [next]), json!({})).await;
    assert_eq!(h.objects.get("Deployment/web").await["spec"]["replicas"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_a_person_changes_are_put_back() {
    let h = Harness::new("scaled-by-person").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    scale(&h, "kubectl", 3).await;
    h.shows("Deployment/web", "/spec/replicas", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_that_comes_with_an_upgrade_takes_over_the_live_value() {
    let h = Harness::new("autoscaler-upgrade").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 3)]), json!({})).await;
    let before = h.objects.get("Deployment/web").await;
    // As most charts have it: with an autoscaler the Deployment says nothing of replicas.
    let mut workload = deployment("web", 0);
    workload["spec"].as_object_mut().unwrap().remove("replicas");
    let next = pack("2.0.0", [workload, autoscaler("web", 1, 5)]);
    h.deploy("web", &next, unhealthy_is_fine()).await;
    let after = h.objects.get("Deployment/web").await;
    assert_eq!(after["spec"]["replicas"], 3);
    assert_eq!(writes(&before, &after), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_in_the_namespace_keeps_its_replicas_through_reverts_and_upgrades() {
    let h = Harness::new("autoscaler-beside").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    h.objects.create("kubectl-create", autoscaler("web", 2, 5)).await;
    // The real autoscaler: below its minimum it needs no metrics.
    h.shows("Deployment/web", "/spec/replicas", 2).await;
    handed_over(&h).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 2);
    let before = h.objects.get("Deployment/web").await;
    let mut next = deployment("web", 1);
    next["metadata"]["annotations"] = json!({"example.com/release": "next"});
    h.deploy("web", &pack("2.0.0", [next]), json!({})).await;
    let after = h.objects.get("Deployment/web").await;
    assert_eq!(after["spec"]["replicas"], 2);
    assert_eq!(writes(&before, &after), 1);
}

/// A create applies the whole object, so afterwards the replicas are ours again until somebody else takes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_that_was_made_again_keeps_its_replicas_when_it_is_put_back() {
    let h = Harness::new("autoscaled-again").await;
    let objects = || [deployment("web", 3), autoscaler("web", 1, 5)];
    h.deploy("web", &pack("1.0.0", objects()), unhealthy_is_fine()).await;
    scale(&h, AUTOSCALER, 4).await;
    handed_over(&h).await;
    h.objects.delete("Deployment/web").await;
    h.shows("Deployment/web", "/spec/replicas", 3).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 3, "not reset to 1");

    h.objects.delete("Deployment/web").await;
    let before = h.shows("Deployment/web", "/spec/replicas", 3).await;
    let mut annotated = objects();
    annotated[0]["metadata"]["annotations"] = json!({"example.com/release": "next"});
    h.deploy("web", &pack("2.0.0", annotated), unhealthy_is_fine()).await;
    let after = h.objects.get("Deployment/web").await;
    assert_eq!(after["spec"]["replicas"], 3, "not reset to 1");
    assert_eq!(writes(&before, &after), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_leaves_replicas_to_an_autoscaler_that_nobody_looked_at_before() {
    let h = Harness::new("autoscaled-unseen").await;
    let spec = json!({"drift": {"mode": "Disabled"}});
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), spec.clone()).await;
    scale(&h, AUTOSCALER, 3).await;
    let before = h.objects.get("Deployment/web").await;
    let mut next = deployment("web", 1);
    next["metadata"]["annotations"] = json!({"example.com/release": "next"});
    h.deploy("web", &pack("2.0.0", [next]), spec).await;
    let after = h.objects.get("Deployment/web").await;
    assert_eq!(after["spec"]["replicas"], 3);
    assert_eq!(writes(&before, &after), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_were_autoscaled_while_no_operator_ran_are_left_alone() {
    let h = Harness::new("autoscaled-away").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    h.kill();
    scale(&h, "keda-operator", 3).await;
    h.start();
    handed_over(&h).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 3);
}

/// What most charts do with `autoscaling.enabled`: on and off again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_the_manifests_again_when_its_autoscaler_goes() {
    let h = Harness::new("autoscaling-toggled").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    let mut workload = deployment("web", 0);
    workload["spec"].as_object_mut().unwrap().remove("replicas");
    h.deploy("web", &pack("2.0.0", [workload, autoscaler("web", 2, 5)]), unhealthy_is_fine()).await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
    // The autoscaler acts once more between the apply and its own end.
    let ends =
        |request: &Request| request.verb == "delete" && request.is_about("horizontalpodautoscalers/web");
    h.wire.fault(Fault::new(Effect::Hold, ends).once());
    let next = pack("3.0.0", [deployment("web", 3)]);
    h.apply("web", &next, json!({})).await;
    h.shows("Deployment/web", "/spec/replicas", 3).await;
    scale(&h, AUTOSCALER, 4).await;
    h.wire.release();
    h.deploy("web", &next, json!({})).await;
    h.gone("HorizontalPodAutoscaler/web").await;
    h.shows("Deployment/web", "/spec/replicas", 3).await;
    scale(&h, "kubectl", 5).await;
    h.shows("Deployment/web", "/spec/replicas", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_a_person_took_from_an_autoscaler_are_the_manifests_again() {
    let h = Harness::new("autoscaling-ended").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    scale(&h, AUTOSCALER, 3).await;
    handed_over(&h).await;
    scale(&h, "kubectl", 4).await;
    h.deploy("web", &pack("2.0.0", [deployment("web", 2)]), json!({})).await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_workload_keeps_what_its_autoscaler_set() {
    let with = vec![deployment("web", 2), autoscaler("web", 1, 20)];
    let beside = vec![deployment("web", 2)];
    for (namespace, objects) in [("adopted-autoscaled", with), ("adopted-autoscaled-beside", beside)] {
        let h = Harness::new(namespace).await;
        h.objects.create("helm", deployment("web", 2)).await;
        scale(&h, AUTOSCALER, 4).await;
        let before = h.objects.get("Deployment/web").await;
        let spec = json!({"wait": false, "install": {"adopt": "Unowned"}});
        h.deploy("web", &pack("1.0.0", objects), spec).await;
        let after = h.objects.get("Deployment/web").await;
        assert_eq!(after["spec"]["replicas"], 4, "{namespace}");
        assert_eq!(writes(&before, &after), 1, "{namespace}");
        assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 4, "{namespace}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_says_another_number_leaves_replicas_to_an_autoscaler_that_has_changed_nothing_yet() {
    let h = Harness::new("scaled-content").await;
    let said = |replicas: Option<u32>, release: &str| {
        let mut web = with_annotation(deployment("web", 1), "example.com/release", release);
        match replicas {
            Some(replicas) => web["spec"]["replicas"] = json!(replicas),
            None => drop(web["spec"].as_object_mut().unwrap().remove("replicas")),
        }
        web
    };
    h.deploy("web", &pack("1.0.0", [said(Some(5), "one")]), json!({})).await;
    h.objects.create("kubectl-create", autoscaler("web", 2, 9)).await;
    for (version, replicas) in [("2.0.0", Some(3)), ("3.0.0", None), ("4.0.0", Some(2))] {
        let before = h.objects.get("Deployment/web").await;
        h.deploy("web", &pack(version, [said(replicas, version)]), json!({})).await;
        let after = h.objects.get("Deployment/web").await;
        assert_eq!(after["metadata"]["annotations"]["example.com/release"], version);
        assert_eq!((&after["spec"]["replicas"], writes(&before, &after)), (&json!(5), 1), "{version}");
    }
    h.objects.delete("HorizontalPodAutoscaler/web").await;
    h.deploy("web", &pack("5.0.0", [said(Some(3), "five")]), json!({})).await;
    h.shows("Deployment/web", "/spec/replicas", 3).await;
    // Who says the same number as before asks for none.
    let mark = h.wire.mark();
    h.deploy("web", &pack("6.0.0", [said(Some(3), "six")]), json!({})).await;
    assert!(!h.wire.since(mark).iter().any(|sent| sent.is_about("horizontalpodautoscalers")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_comes_first_after_a_restart_leaves_replicas_to_their_autoscaler() {
    for mode in ["Disabled", "Enabled"] {
        let h = Harness::new(&format!("autoscaled-away-{}", mode.to_lowercase())).await;
        let spec = json!({"drift": {"mode": mode}});
        h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), spec.clone()).await;
        h.kill();
        scale(&h, "keda-operator", 3).await;
        let before = h.objects.get("Deployment/web").await;
        let mut next = deployment("web", 1);
        next["metadata"]["annotations"] = json!({"example.com/release": "next"});
        let next = pack("2.0.0", [next]);
        h.apply("web", &next, spec.clone()).await;
        h.start();
        h.deploy("web", &next, spec).await;
        let after = h.objects.get("Deployment/web").await;
        assert_eq!(after["spec"]["replicas"], 3, "{mode}");
        assert_eq!(writes(&before, &after), 1, "{mode}");
    }
}

/// Matches nothing, whatever happens to it.
fn webhooks(name: &str, ca: Option<&str>) -> Value {
    let mut client = json!({"service": {"name": "nobody", "namespace": "default", "path": "/"}});
    if let Some(ca) = ca {
        client["caBundle"] = json!(ca);
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "check.example.com", "clientConfig": client,
            "failurePolicy": "Ignore", "timeoutSeconds": 5, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"example.com/nobody": "has-this"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    })
}

const CA_BUNDLE: &str = "/webhooks/0/clientConfig/caBundle";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ca_bundles_of_an_injector_are_left_alone_and_everything_else_of_the_webhook_is_locked() {
    let h = Harness::new("ca-injected").await;
    // Base64 of `ours`, `theirs`, `later`: the API server does not look inside.
    let (ours, theirs, later) = ("b3Vycw==", "dGhlaXJz", "bGF0ZXI=");
    let objects = [
        webhooks("ca-injected-empty", None),
        webhooks("ca-injected-filled", Some(ours)),
        webhooks("ca-injected-person", Some(ours)),
    ];
    h.deploy("web", &pack("1.0.0", objects.clone()), json!({})).await;
    let mark = h.wire.mark();
    let path = "ValidatingWebhookConfiguration";
    let set = |value: &str| json!([{"op": "add", "path": CA_BUNDLE, "value": value}]);
    for name in ["ca-injected-empty", "ca-injected-filled"] {
        h.objects.json_patch(&format!("{path}/{name}"), "cert-manager-cainjector", set(theirs)).await;
    }
    h.objects.json_patch(&format!("{path}/ca-injected-person"), "kubectl-edit", set(theirs)).await;
    h.shows(&format!("{path}/ca-injected-person"), CA_BUNDLE, ours).await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("validatingwebhookconfigurations/ca-injected-empty", mark).len(), 0);

    for name in ["ca-injected-empty", "ca-injected-filled"] {
        let what = format!("{path}/{name}");
        let slower = json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 9}]);
        h.objects.json_patch(&what, "kubectl-edit", slower).await;
        let back = h.shows(&what, "/webhooks/0/timeoutSeconds", 5).await;
        assert_eq!(back.pointer(CA_BUNDLE), Some(&json!(theirs)), "{name}");
        // A rotation, and an upgrade after it.
        h.objects.json_patch(&what, "cert-manager-cainjector", set(later)).await;
    }
    // The injected one is not the first any more, and the first has a bundle of its own.
    let next = objects.map(|mut object| {
        let mut first = webhooks("", Some(ours))["webhooks"][0].clone();
        first["name"] = json!("another.example.com");
        object["webhooks"].as_array_mut().unwrap().insert(0, first);
        object
    });
    let mark = h.wire.mark();
    h.deploy("web", &pack("2.0.0", next), json!({})).await;
    for name in ["ca-injected-empty", "ca-injected-filled"] {
        let live = h.objects.get(&format!("{path}/{name}")).await;
        let bundle = |webhook: &str| {
            let all = live["webhooks"].as_array().unwrap();
            let found = all.iter().find(|entry| entry["name"] == webhook);
            found.unwrap()["clientConfig"]["caBundle"].clone()
        };
        assert_eq!(bundle("check.example.com"), later, "{name}");
        assert_eq!(bundle("another.example.com"), ours, "{name}");
        let writes = h.wire.writes_to(&format!("validatingwebhookconfigurations/{name}"), mark);
        assert_eq!(writes.len(), 1, "{name}");
    }
    h.uninstall("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_an_aggregated_role_are_left_to_the_cluster() {
    let h = Harness::new("aggregated-role").await;
    let role = |name: &str, labels: Value, verb: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels},
            "rules": [{"apiGroups": ["example.com"], "resources": ["things"], "verbs": [verb]}],
        })
    };
    let mut whole = role("aggregated-role-whole", json!({}), "create");
    whole["aggregationRule"] =
        json!({"clusterRoleSelectors": [{"matchLabels": {"example.com/part": "of-whole"}}]});
    let part = role("aggregated-role-part", json!({"example.com/part": "of-whole"}), "get");
    h.deploy("web", &pack("1.0.0", [whole, part]), json!({})).await;
    h.shows("ClusterRole/aggregated-role-whole", "/rules/0/verbs/0", "get").await;
    let mark = h.wire.mark();
    let part = "ClusterRole/aggregated-role-part";
    let list = json!([{"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["list"]}]);
    h.objects.edit(part, "kubectl-edit", json!({"rules": list})).await;
    h.shows(part, "/rules/0/verbs/0", "get").await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("clusterroles/aggregated-role-whole", mark).len(), 0);
    h.uninstall("web").await;
}
