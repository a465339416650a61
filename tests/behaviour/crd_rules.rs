//! What the API server itself says of a SherpackRelease: rules, defaults, names and columns.

use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sherpack_operator::api::SherpackRelease;

use crate::support::harness::PERSON;
use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

fn releases(h: &Harness) -> Api<SherpackRelease> {
    Api::namespaced(h.client.clone(), &h.namespace)
}

fn pack() -> Value {
    json!({"configMap": {"name": "web-pack"}})
}

/// Tries to create a release; the API server's refusal as text.
async fn create(h: &Harness, name: &str, spec: Value) -> Result<(), String> {
    let body = json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease", "metadata": {"name": name}, "spec": spec,
    });
    let object = serde_json::from_value(body).unwrap();
    let created = h.objects.api("SherpackRelease").create(&PostParams::default(), &object).await;
    created.map(drop).map_err(|error| error.to_string())
}

/// Tries a merge patch.
async fn edit(h: &Harness, name: &str, spec: Value) -> Result<(), String> {
    let patch = Patch::Merge(json!({"spec": spec}));
    let patched = releases(h).patch(name, &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(|error| error.to_string())
}

async fn refused(h: &Harness, name: &str, spec: Value, because: &str) {
    let error = create(h, name, spec.clone()).await.expect_err(&format!("{spec} must be refused"));
    assert!(error.contains(because), "{spec}: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_source_is_accepted() {
    let h = Harness::without_operator("rules-source").await;
    let one = "exactly one source must be set";
    refused(&h, "a", json!({}), "exactly one of spec.pack and spec.lock").await;
    let lock = json!({"helmRelease": {"name": "web"}});
    refused(&h, "a", json!({"pack": pack(), "lock": lock}), "exactly one of spec.pack and spec.lock").await;
    refused(&h, "a", json!({"pack": {}}), one).await;
    refused(&h, "a", json!({"pack": {"configMap": {"name": "p"}, "path": "p"}}), one).await;
    refused(&h, "a", json!({"pack": {"secret": {"name": "p"}, "oci": {"repository": "oci://x/p"}}}), one)
        .await;
    let signed = |provider: &str, source: Value| {
        let mut pack = source;
        pack["verify"] = json!({"provider": provider, "secretRef": {"name": "keys"}});
        json!({"pack": pack})
    };
    let (oci, artifact) = (json!({"repository": "oci://x/p"}), json!({"kind": "Bucket", "name": "b"}));
    for (provider, source) in [
        ("cosign", pack()),
        ("minisign", json!({"oci": oci})),
        ("minisign", json!({"artifact": artifact})),
        ("cosign", json!({"artifact": artifact})),
    ] {
        refused(&h, "a", signed(provider, source), "cosign verifies packs of oci, minisign").await;
    }
    refused(&h, "a", signed("pgp", pack()), "Unsupported value").await;
    create(&h, "by-oci", signed("cosign", json!({"oci": oci}))).await.unwrap();
    create(&h, "by-config-map", json!({"pack": pack()})).await.unwrap();
    create(&h, "by-path", json!({"pack": {"path": "podinfo"}})).await.unwrap();
    create(&h, "by-lock", json!({"lock": lock})).await.unwrap();
    let error = edit(&h, "by-path", json!({"pack": {"configMap": {"name": "p"}}})).await.unwrap_err();
    assert!(error.contains(one), "{error}");
    edit(&h, "by-path", json!({"pack": {"configMap": {"name": "p"}, "path": null}})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_is_immutable_also_from_unset_to_the_default_and_back() {
    let h = Harness::without_operator("rules-immutable").await;
    create(&h, "unset", json!({"pack": pack()})).await.unwrap();
    // The effective value stays the same, or is refused.
    edit(&h, "unset", json!({"releaseName": "unset"})).await.unwrap();
    edit(&h, "unset", json!({"releaseName": null})).await.unwrap();
    edit(&h, "unset", json!({"history": {"storage": "Secret"}})).await.unwrap();
    edit(&h, "unset", json!({"history": null})).await.unwrap();
    edit(&h, "unset", json!({"history": {"limit": 3}})).await.unwrap();
    for (field, spec) in [
        ("spec.releaseName", json!({"releaseName": "other"})),
        ("spec.targetNamespace", json!({"targetNamespace": "other"})),
        ("spec.targetNamespace", json!({"targetNamespace": "rules-immutable"})),
        ("spec.history.storage", json!({"history": {"storage": "ConfigMap"}})),
        ("spec.history.namespace", json!({"history": {"namespace": "other"}})),
    ] {
        let error = edit(&h, "unset", spec.clone()).await.expect_err(&format!("{spec} must be refused"));
        assert!(error.contains(field) && error.contains("immutable"), "{spec}: {error}");
    }

    let spec = json!({
        "pack": pack(), "releaseName": "web", "targetNamespace": "apps",
        "history": {"storage": "File", "namespace": "apps"},
    });
    create(&h, "set", spec).await.unwrap();
    // Unset means the target namespace, which is what it says.
    edit(&h, "set", json!({"history": {"namespace": null}})).await.unwrap();
    edit(&h, "set", json!({"history": {"namespace": "apps"}})).await.unwrap();
    for (field, spec) in [
        ("spec.releaseName", json!({"releaseName": null})),
        ("spec.releaseName", json!({"releaseName": "other"})),
        ("spec.targetNamespace", json!({"targetNamespace": null})),
        ("spec.targetNamespace", json!({"targetNamespace": "other"})),
        ("spec.history.storage", json!({"history": {"storage": null}})),
        ("spec.history.storage", json!({"history": null})),
        ("spec.history.namespace", json!({"history": {"namespace": "other"}})),
    ] {
        let error = edit(&h, "set", spec.clone()).await.expect_err(&format!("{spec} must be refused"));
        assert!(error.contains(field) && error.contains("immutable"), "{spec}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_no_release_can_have_is_refused_unless_another_is_given() {
    let h = Harness::without_operator("rules-names").await;
    let (fits, long) = ("a".repeat(53), "a".repeat(54));
    create(&h, &fits, json!({"pack": pack()})).await.unwrap();
    refused(&h, &long, json!({"pack": pack()}), "at most 53 characters").await;
    refused(&h, "with.dot", json!({"pack": pack()}), "at most 53 characters").await;
    create(&h, &long, json!({"pack": pack(), "releaseName": "short"})).await.unwrap();
    create(&h, "with.dot", json!({"pack": pack(), "releaseName": "without-dot"})).await.unwrap();
    for bad in [long.as_str(), "", "Upper", "with.dot", "-edge", "edge-", "under_score"] {
        refused(&h, "x", json!({"pack": pack(), "releaseName": bad}), "spec.releaseName").await;
    }
    for bad in ["", "Upper", "with.dot", &"n".repeat(64)] {
        refused(&h, "x", json!({"pack": pack(), "targetNamespace": bad}), "spec.targetNamespace").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_depends_on_itself_is_refused() {
    let h = Harness::without_operator("rules-depends").await;
    let on = |others: Value| json!({"pack": pack(), "dependsOn": others});
    refused(&h, "web", on(json!([{"name": "db"}, {"name": "web"}])), "cannot depend on itself").await;
    refused(&h, "web", on(json!(vec![json!({"name": "db"}); 65])), "spec.dependsOn").await;
    create(&h, "web", on(json!([{"name": "db"}, {"name": "web", "namespace": "other"}]))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_make_no_sense_are_refused_by_the_schema() {
    let h = Harness::without_operator("rules-values").await;
    for (field, more) in [
        ("spec.timeout", json!({"timeout": "soon"})),
        ("spec.interval", json!({"interval": "-5m"})),
        ("spec.uninstall.timeout", json!({"uninstall": {"timeout": "5 minutes"}})),
        ("spec.uninstall.policy", json!({"uninstall": {"policy": "Keep"}})),
        ("spec.drift.mode", json!({"drift": {"mode": "enabled"}})),
        ("spec.history.limit", json!({"history": {"limit": 0}})),
        ("spec.install.retries", json!({"install": {"retries": -1}})),
        ("spec.install.adopt", json!({"install": {"adopt": "Always"}})),
        ("spec.rollbackTo", json!({"rollbackTo": 0})),
        ("spec.values", json!({"values": ["a"]})),
        ("spec.suspend", json!({"suspend": "yes"})),
        ("spec.approval", json!({"approval": "manual"})),
    ] {
        let mut spec = json!({"pack": pack()});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        refused(&h, "x", spec, field).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_release_says_that_work_is_due_before_any_operator_saw_it() {
    let h = Harness::without_operator("rules-status").await;
    create(&h, "web", json!({"pack": pack()})).await.unwrap();
    assert_eq!(h.status("web").await, json!({"observedGeneration": -1}));
    let spec = h.objects.get("SherpackRelease/web").await["spec"].clone();
    assert_eq!(spec, json!({"pack": pack()}), "nothing is written into what a user did not say");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_manifest_applied_again_differs_in_nothing() {
    let h = Harness::new("rules-diff").await;
    let app = Pack::new("web", "1.0.0").object(config_map("settings", json!({"a": "{{ values.a }}"})));
    h.pack("web-pack", &app).await;
    let spec = json!({
        "pack": pack(), "releaseName": "web", "targetNamespace": "rules-diff", "createNamespace": false,
        "values": {"a": "1", "gone": null, "list": [{"b": 1.50}, {}], "empty": {}},
        "suspend": false, "interval": "10m", "timeout": "5m", "wait": true,
        "waves": {"wait": true, "timeout": "120s"},
        "install": {"retries": 3, "onFailure": "Retain", "adopt": "Never"},
        "upgrade": {"retries": 3, "onFailure": "Retain", "immutableFields": "Fail", "paused": false},
        "test": {"enabled": false, "ignoreFailures": false},
        "uninstall": {"policy": "Delete", "wait": true, "keepHistory": false, "timeout": "5m"},
        "drift": {"mode": "Enabled"},
        "history": {"limit": 10, "storage": "Secret", "compression": "Zstd", "large": "Chunked"},
        "approval": "Automatic",
    });
    h.release("web", spec.clone()).await;
    h.ready("web").await;
    h.pass("web").await;
    let before = h.objects.get("SherpackRelease/web").await;
    let again = h.release("web", spec.clone()).await;
    // What `kubectl diff` compares, and no write at all.
    assert_eq!(again["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(again["spec"], spec);
    let settled = h.objects.get("SherpackRelease/web").await;
    let manifest = json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease", "metadata": {"name": "web"}, "spec": spec,
    });
    let params = PatchParams::apply(PERSON).force().dry_run();
    let would =
        h.objects.api("SherpackRelease").patch("web", &params, &Patch::Apply(manifest)).await.unwrap();
    assert_eq!(serde_json::to_value(would).unwrap(), settled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_find_it_under_short_names_and_see_what_matters_in_a_list() {
    let h = Harness::new("rules-columns").await;
    let resources = h.client.list_api_group_resources("sherpack.io/v1alpha1").await.unwrap().resources;
    let resource = resources.into_iter().find(|resource| resource.name == "sherpackreleases").unwrap();
    assert_eq!(resource.short_names.unwrap(), ["sr", "srel"]);
    assert_eq!(resource.categories.unwrap(), ["sherpack"]);

    h.deploy("web", &Pack::new("shop", "1.2.3").object(config_map("settings", json!({"a": "b"}))), json!({}))
        .await;
    let request = http::Request::get("/apis/sherpack.io/v1alpha1/namespaces/rules-columns/sherpackreleases")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = h.client.request(request).await.unwrap();
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Ready", "Status", "Pack", "Version", "Revision", "Drift", "Age"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(
        cells[..6],
        [json!("web"), json!("True"), json!("InstallSucceeded"), json!("shop"), json!("1.2.3"), json!(1)]
    );
    assert_eq!(releases(&h).list(&ListParams::default()).await.unwrap().items.len(), 1);
}
