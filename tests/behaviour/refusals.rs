//! What the cluster refuses or lacks is named, and the release goes on by itself once that has changed.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, service};
use crate::support::wait::eventually;
use crate::support::{Effect, Fault, Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("first", json!({"a": "b"})))
        .object(config_map("second", json!({"a": "b"})))
        .object(config_map("third", json!({"a": "b"})))
        .object(service("web"))
        .object(deployment("web", 1))
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// A policy that refuses one ConfigMap of this namespace; returns when it does.
async fn refuse(h: &Harness, name: &str) {
    let policy = format!("refuse-in-{}", h.namespace);
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
    }]);
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": h.namespace}});
    h.objects
        .create(
            "test-person",
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": policy},
                "spec": {
                    "matchConstraints": {"resourceRules": rules, "namespaceSelector": here},
                    "validations": [{
                        "expression": format!("object.metadata.name != '{name}'"),
                        "message": "the house rules forbid this one",
                    }],
                },
            }),
        )
        .await;
    h.objects
        .create(
            "test-person",
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": policy},
                "spec": {"policyName": policy, "validationActions": ["Deny"]},
            }),
        )
        .await;
    let object = serde_json::from_value(config_map(name, json!({}))).unwrap();
    let dry_run = kube::api::PostParams { dry_run: true, ..Default::default() };
    eventually("the policy refuses", async || {
        h.objects.api("ConfigMap").create(&dry_run, &object).await.is_err()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refused_object_of_five_is_named_with_the_reason_and_comes_when_it_may() {
    let h = Harness::new("refused-object").await;
    refuse(&h, "second").await;
    h.apply("web", &pack(), json!({})).await;
    let failed = h.condition("web", "Ready", "False", Some("ObjectInvalid")).await;
    let said = message(&failed);
    assert!(said.contains("ConfigMap refused-object/second"), "{said}");
    assert!(said.contains("the house rules forbid this one"), "{said}");
    // Objects of one kind go in parallel and hide no other; what comes after them is not begun.
    h.objects.get("ConfigMap/first").await;
    h.objects.get("ConfigMap/third").await;
    for later in ["services/web", "deployments/web"] {
        assert!(h.wire.writes_to(later, 0).is_empty(), "{later} was applied");
    }
    assert_eq!(condition(&failed, "Released")["status"], "False");

    h.objects.delete("ValidatingAdmissionPolicyBinding/refuse-in-refused-object").await;
    h.objects.delete("ValidatingAdmissionPolicy/refuse-in-refused-object").await;
    h.ready("web").await;
    h.objects.get("ConfigMap/second").await;
    h.objects.get("Deployment/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_of_which_one_object_is_forbidden_leaves_the_rest_and_deletes_nothing() {
    let h = Harness::new("forbidden-object").await;
    h.deploy("web", &pack().object(config_map("dropped", json!({"a": "b"}))), json!({})).await;
    let uids =
        h.objects.uids(&["ConfigMap/first", "ConfigMap/dropped", "Service/web", "Deployment/web"]).await;
    h.wire.fault(Fault::on_writes(Effect::Answer(403), "deployments/web"));
    let next = pack().object(config_map("fourth", json!({"a": "b"})));
    h.pack("web-pack", &next).await;
    let failed = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&failed).contains("Deployment forbidden-object/web"), "{failed}");
    h.objects.get("ConfigMap/fourth").await;
    assert_eq!(
        h.objects.uids(&["ConfigMap/first", "ConfigMap/dropped", "Service/web", "Deployment/web"]).await,
        uids,
        "a prune comes only after everything is applied and healthy"
    );
    h.wire.heal();
    h.ready("web").await;
    assert!(h.objects.find("ConfigMap/dropped").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_namespace_is_named_and_the_release_is_installed_when_it_comes() {
    let h = Harness::new("no-namespace").await;
    h.apply("web", &pack(), json!({"targetNamespace": "no-namespace-yet"})).await;
    let held = h.condition("web", "Ready", "False", Some("NamespaceNotFound")).await;
    assert!(
        message(&held).contains("no-namespace-yet") && message(&held).contains("createNamespace"),
        "{held}"
    );
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "no-namespace-yet"}});
    h.objects.create("test-person", namespace).await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["revision"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_made_when_that_is_asked_for_and_never_deleted() {
    let h = Harness::new("make-namespace").await;
    let spec = json!({"targetNamespace": "make-namespace-new", "createNamespace": true});
    h.deploy("web", &pack(), spec).await;
    let uids = h.objects.uids(&["Namespace/make-namespace-new"]).await;
    h.uninstall("web").await;
    assert_eq!(h.objects.uids(&["Namespace/make-namespace-new"]).await, uids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_kind_is_named_and_the_release_is_installed_when_it_is_served() {
    let h = Harness::new("no-kind").await;
    let widget = json!({
        "apiVersion": "no-kind.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 3},
    });
    h.apply("web", &pack().object(widget), json!({})).await;
    let held = h.condition("web", "Ready", "False", Some("UnknownKind")).await;
    assert!(message(&held).contains("no-kind.example.com/v1 Widget"), "{held}");
    assert_eq!(h.records("web").await.len(), 0, "what cannot be planned makes no revision");
    assert!(h.objects.find("ConfigMap/first").await.is_none());

    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    h.objects
        .create(
            "test-person",
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.no-kind.example.com"},
                "spec": {
                    "group": "no-kind.example.com", "scope": "Namespaced",
                    "names": {"kind": "Widget", "plural": "widgets"},
                    "versions": [{
                        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                    }],
                },
            }),
        )
        .await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["revision"], 1);
    h.uninstall("web").await;
    h.objects.delete("CustomResourceDefinition/widgets.no-kind.example.com").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_somebody_else_is_named_and_untouched_until_it_may_be_adopted() {
    let h = Harness::new("not-owned").await;
    h.objects.create("kubectl-create", config_map("second", json!({"mine": "true"}))).await;
    let uids = h.objects.uids(&["ConfigMap/second"]).await;
    h.apply("web", &pack(), json!({})).await;
    let held = h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
    assert!(message(&held).contains("ConfigMap not-owned/second"), "{held}");
    assert!(h.wire.writes_to("configmaps", 0).is_empty(), "nothing is applied when one object is not ours");
    assert_eq!(h.records("web").await.len(), 0);

    h.edit_spec("web", json!({"install": {"adopt": "Unowned"}})).await;
    h.ready("web").await;
    assert_eq!(h.objects.uids(&["ConfigMap/second"]).await, uids);
    assert_eq!(h.objects.get("ConfigMap/second").await["data"]["a"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_pack_is_named_and_the_release_is_installed_when_it_comes() {
    let h = Harness::new("no-pack").await;
    h.release("web", json!({"pack": {"configMap": {"name": "web-pack"}}})).await;
    let held = h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    assert!(message(&held).contains("no-pack/web-pack"), "{held}");
    h.pack("web-pack", &pack()).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_next_revision_cannot_be_stored_changes_nothing_and_stays_locked() {
    let h = Harness::new("record-refused").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&["ConfigMap/first", "Service/web", "Deployment/web"]).await;
    h.wire.fault(Fault::new(Effect::Answer(403), |request| {
        request.verb == "create" && request.body["metadata"]["name"] == "sh.sherpack.release.v1.web.v2"
    }));
    let next = Pack::new("web", "2.0.0").object(config_map("first", json!({"a": "c"})));
    h.pack("web-pack", &next).await;
    let held = h.condition("web", "Ready", "False", Some("StorageForbidden")).await;
    assert_eq!(condition(&held, "Released")["status"], "True");
    h.objects.edit("ConfigMap/first", "kubectl-edit", json!({"data": {"a": "z"}})).await;
    h.shows("ConfigMap/first", "/data/a", "b").await;
    assert_eq!(h.objects.uids(&["ConfigMap/first", "Service/web", "Deployment/web"]).await, uids);
    h.wire.heal();
    h.ready("web").await;
    h.shows("ConfigMap/first", "/data/a", "c").await;
    h.gone("Deployment/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_does_not_render_is_told_and_what_is_deployed_stays_locked() {
    let h = Harness::new("render-fails").await;
    h.deploy("web", &pack(), json!({})).await;
    h.pack("web-pack", &pack().template("broken.yaml", "{{ values.no.such.value }}")).await;
    let held = h.condition("web", "Ready", "False", Some("RenderFailed")).await;
    assert!(message(&held).contains("broken.yaml"), "{held}");
    assert_eq!(condition(&held, "Stalled")["status"], "True");
    h.objects.edit("ConfigMap/first", "kubectl-edit", json!({"data": {"a": "z"}})).await;
    h.shows("ConfigMap/first", "/data/a", "b").await;
    h.shows_states("web", &["1 deployed"]).await;
    h.pack("web-pack", &pack()).await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_that_is_refused_in_the_middle_forgets_nothing() {
    let h = Harness::new("prune-refused").await;
    let dropped = ["a", "b", "c"].map(|name| config_map(name, json!({"x": "y"})));
    h.deploy("web", &pack().objects(dropped), json!({})).await;
    let deletes =
        |request: &crate::support::wire::Request| request.verb == "delete" && request.is_about("configmaps");
    h.wire.fault(Fault::new(Effect::Answer(403), deletes).once());
    h.deploy("web", &pack(), json!({})).await;
    for name in ["a", "b", "c"] {
        assert!(h.objects.find(&format!("ConfigMap/{name}")).await.is_none(), "{name} was forgotten");
    }
}

/// A record that does not show in a list, because it lost its labels, stands where the next revision wants to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_stands_in_the_way_is_named_and_not_run_against_for_ever() {
    let h = Harness::new("record-in-the-way").await;
    h.deploy("web", &pack(), json!({})).await;
    let name = "sh.sherpack.release.v1.web.v2";
    h.objects.create("test", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})).await;
    h.pack("web-pack", &pack().object(config_map("fourth", json!({"a": "b"})))).await;
    let told = h.sees("SherpackRelease/web", |release| message(release).contains(name)).await;
    assert_eq!(condition(&told, "Ready")["status"], "False", "{told}");
    h.objects.delete(&format!("Secret/{name}")).await;
    h.annotate("web", "sherpack.io/reconcile-at", "now").await;
    h.sees("ConfigMap/fourth", |_| true).await;
    h.ready("web").await;
}

/// The API server answers 500 for a field that a type does not have, and yet it is the pack that has to change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_a_kind_does_not_have_is_the_fault_of_the_pack_and_is_not_tried_like_an_outage() {
    let h = Harness::new("refusals-mistyped").await;
    let mut wrong = config_map("second", json!({"a": "b"}));
    wrong["datas"] = json!({"a": "c"});
    let broken = Pack::new("web", "1.0.0").object(config_map("first", json!({"a": "b"}))).object(wrong);
    h.apply("web", &broken, json!({"install": {"retries": 0}, "timeout": "10m"})).await;
    let told = h.condition("web", "Released", "False", None).await;
    let released = condition(&told, "Released")["message"].as_str().unwrap().to_owned();
    assert!(released.contains(".datas: field not declared in schema"), "{released}");
    assert!(released.contains("ConfigMap") && released.contains("second"), "{released}");
    // Mended, it goes on by itself.
    h.pack("web-pack", &pack()).await;
    h.sees("ConfigMap/second", |live| live["data"]["a"] == "b").await;
}
