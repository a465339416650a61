use serde_json::json;

use super::*;

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "apps", "labels": {"app.kubernetes.io/name": "web"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{
            "name": "web", "image": "nginx:1", "args": ["a"], "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 90, "protocol": "TCP"}], "resources": {},
        }]}}}
    })
}

/// What the API server records for an apply of [`deployment`].
fn owned() -> Value {
    json!({
        "f:metadata": {"f:labels": {"f:app.kubernetes.io/name": {}}},
        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {
            ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:resources": {},
            "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
                "k:{\"containerPort\":90,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}},
        }}}}}
    })
}

fn entry(manager: &str, operation: &str, subresource: &str, minute: u8, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields,
        "fieldsType": "FieldsV1", "time": format!("2026-01-01T00:{minute:02}:00Z")})
}

fn entries(entries: &[Value]) -> Vec<ManagedFieldsEntry> {
    serde_json::from_value(json!(entries)).unwrap()
}

/// `owned()` without what the pointer names.
fn owned_without(pointer: &str) -> Value {
    let mut fields = owned();
    assert!(crate::manifest::remove_pointer(&mut fields, pointer).is_some(), "{pointer}");
    fields
}

const CONTAINER: &str = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"web\"}";

#[test]
fn an_untouched_object_has_lost_nothing() {
    let fields = entries(&[
        entry("sherpack", "Apply", "", 0, &owned()),
        entry("other", "Apply", "", 1, &owned()),
        entry("kube-controller-manager", "Update", "status", 2, &json!({"f:status": {"f:replicas": {}}})),
    ]);
    assert_eq!(lost_paths(&deployment(), &fields), Vec::<String>::new());
    assert_eq!(rivals(&deployment(), &fields), vec![]);
}

#[test]
fn a_changed_value_names_its_manager_and_path() {
    let rows = [
        ("/f:image", "/spec/template/spec/containers[name=web]/image"),
        ("/f:args", "/spec/template/spec/containers[name=web]/args"),
        ("/f:env/k:{\"name\":\"A\"}/f:value", "/spec/template/spec/containers[name=web]/env[name=A]/value"),
        (
            "/f:ports/k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
            "/spec/template/spec/containers[name=web]/ports[containerPort=80,protocol=TCP]",
        ),
    ];
    for (field, path) in rows {
        let ours = owned_without(&format!("{CONTAINER}{field}"));
        let fields = entries(&[
            entry("sherpack", "Apply", "", 0, &ours),
            entry("kubectl-edit", "Update", "", 5, &owned()),
        ]);
        let taken = rivals(&deployment(), &fields);
        assert_eq!(taken.len(), 1, "{field}");
        assert_eq!(
            (taken[0].manager.as_str(), taken[0].operation.as_str(), taken[0].subresource.as_deref()),
            ("kubectl-edit", "Update", None)
        );
        assert_eq!(taken[0].paths, [path]);
        assert_eq!(taken[0].time, Some("2026-01-01T00:05:00Z".parse().unwrap()));
    }
}

#[test]
fn an_owner_of_other_fields_is_no_rival() {
    let fields = entries(&[
        entry("sherpack", "Apply", "", 0, &owned_without("/f:spec/f:replicas")),
        entry("x", "Update", "", 1, &json!({"f:spec": {"f:paused": {}}, "f:metadata": {"f:labels": {}}})),
        entry("kubectl", "Update", "scale", 2, &json!({"f:spec": {"f:replicas": {}}})),
    ]);
    let taken = rivals(&deployment(), &fields);
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (taken[0].subresource.as_deref(), taken[0].paths.as_slice()),
        (Some("scale"), &["/spec/replicas".to_owned()][..])
    );
}

#[test]
fn the_newest_rival_comes_first() {
    let fields = entries(&[
        entry("old", "Update", "", 1, &owned()),
        entry("sherpack", "Apply", "", 0, &owned_without("/f:spec/f:replicas")),
        entry("new", "Update", "", 2, &owned()),
    ]);
    let managers: Vec<_> = rivals(&deployment(), &fields).into_iter().map(|taken| taken.manager).collect();
    assert_eq!(managers, ["new", "old"]);
}

#[test]
fn a_removed_label_is_lost_to_nobody() {
    let fields = entries(&[entry("sherpack", "Apply", "", 0, &owned_without("/f:metadata/f:labels"))]);
    assert_eq!(lost_paths(&deployment(), &fields), ["/metadata/labels"]);
    let one = owned_without("/f:metadata/f:labels/f:app.kubernetes.io~1name");
    let mut body = deployment();
    body["metadata"]["labels"]["b"] = json!("c");
    let mut ours = one;
    ours["f:metadata"]["f:labels"]["f:b"] = json!({});
    let fields = entries(&[entry("sherpack", "Apply", "", 0, &ours)]);
    assert_eq!(lost_paths(&body, &fields), ["/metadata/labels/app.kubernetes.io~1name"]);
    assert_eq!(rivals(&body, &fields), vec![]);
}

#[test]
fn without_an_entry_of_ours_everything_is_lost() {
    let fields = entries(&[entry("kubectl-create", "Update", "", 1, &owned())]);
    assert_eq!(lost_paths(&deployment(), &fields), ["/metadata/labels", "/spec"]);
    assert_eq!(rivals(&deployment(), &fields)[0].paths, ["/metadata/labels", "/spec"]);
    assert_eq!(lost_paths(&deployment(), &entries(&[json!({})])), ["/metadata/labels", "/spec"]);
}

#[test]
fn an_autoscaler_is_told_from_a_person() {
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let rows = [
        ("kube-controller-manager", "scale", &replicas, true),
        ("keda-operator", "scale", &replicas, true),
        ("Cluster-Autoscaler", "scale", &replicas, true),
        ("kubectl", "scale", &replicas, false),
        ("argocd", "scale", &replicas, false),
        ("kube-controller-manager", "status", &replicas, false),
        ("kube-controller-manager", "", &replicas, false),
        ("kube-controller-manager", "scale", &json!({"f:status": {}}), false),
    ];
    for (manager, subresource, fields, autoscaler) in rows {
        let entries = entries(&[entry(manager, "Update", subresource, 1, fields)]);
        assert_eq!(autoscaled(&entries), autoscaler, "{manager} {subresource}");
    }
}

#[test]
fn an_injected_ca_bundle_is_pointed_at() {
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "w"}, "webhooks": [
        {"name": "a.x.io", "clientConfig": {"caBundle": "QQ=="}},
        {"name": "b.x.io", "clientConfig": {"caBundle": "QQ==", "url": "https://x"}},
    ]});
    let client = |fields: Value| json!({"f:name": {}, "f:clientConfig": fields});
    let ours = json!({"f:webhooks": {
        "k:{\"name\":\"a.x.io\"}": client(json!({"f:caBundle": {}})),
        "k:{\"name\":\"b.x.io\"}": client(json!({"f:url": {}})),
    }});
    let theirs = json!({"f:webhooks": {"k:{\"name\":\"b.x.io\"}": {"f:clientConfig": {"f:caBundle": {}}}}});
    for (manager, pointers) in [
        ("cert-manager-cainjector", vec!["/webhooks[name=b.x.io]/clientConfig/caBundle"]),
        ("kubectl-edit", vec![]),
    ] {
        let fields =
            entries(&[entry("sherpack", "Apply", "", 0, &ours), entry(manager, "Update", "", 1, &theirs)]);
        assert_eq!(taken_ca_bundles(&body, &fields), pointers, "{manager}");
    }
}

#[test]
fn the_ca_bundles_of_apiservices_and_crds_are_known_but_no_others() {
    let taken = |body: Value, theirs: Value| {
        let fields = entries(&[
            entry(
                "sherpack",
                "Apply",
                "",
                0,
                &json!({"f:spec": {"f:x": {}, "f:conversion": {"f:strategy": {}}}}),
            ),
            entry("injector", "Update", "", 1, &theirs),
        ]);
        taken_ca_bundles(&body, &fields)
    };
    let service = json!({"kind": "APIService", "spec": {"caBundle": "QQ==", "x": 1}});
    assert_eq!(taken(service, json!({"f:spec": {"f:caBundle": {}}})), ["/spec/caBundle"]);
    let elsewhere = json!({"kind": "X", "spec": {"tls": {"caBundle": "QQ=="}}});
    assert_eq!(taken(elsewhere, json!({"f:spec": {"f:tls": {"f:caBundle": {}}}})), Vec::<String>::new());
}

#[test]
fn a_ca_bundle_at_another_place_is_no_injected_one() {
    let ours = json!({"f:webhooks": {
        "k:{\"name\":\"a.x.io\"}": {"f:name": {}}}, "f:other": {"f:url": {}, "f:clientConfig": {"f:url": {}}}});
    for (body, theirs) in [
        (
            json!({"webhooks": [{"name": "a.x.io", "caBundle": "QQ=="}]}),
            json!({"f:webhooks": {"k:{\"name\":\"a.x.io\"}": {"f:caBundle": {}}}}),
        ),
        (
            json!({"other": {"url": "https://x", "clientConfig": {"caBundle": "QQ==", "url": "https://x"}}}),
            json!({"f:other": {"f:clientConfig": {"f:caBundle": {}}}}),
        ),
    ] {
        let fields =
            entries(&[entry("sherpack", "Apply", "", 0, &ours), entry("injector", "Update", "", 1, &theirs)]);
        assert_eq!(taken_ca_bundles(&body, &fields), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn the_ca_bundle_of_a_conversion_is_pointed_at() {
    let ours = json!({"f:spec": {"f:conversion": {"f:strategy": {}, "f:webhook": {"f:clientConfig": {"f:url": {}}}}}});
    let theirs = json!({"f:spec": {"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}}});
    let body = json!({"spec": {"conversion": {"strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://x", "caBundle": "QQ=="}}}}});
    let fields =
        entries(&[entry("sherpack", "Apply", "", 0, &ours), entry("injector", "Update", "", 1, &theirs)]);
    assert_eq!(taken_ca_bundles(&body, &fields), ["/spec/conversion/webhook/clientConfig/caBundle"]);
}
