//! `plan` against a cluster: what an operation or a deletion would meet, without writing anything.

use std::collections::BTreeMap;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::support::packs::{config_map, hook, secret, with_annotation};
use crate::support::people::Ran;
use crate::support::{Harness, Pack};

fn group(h: &Harness) -> String {
    format!("{}.example.com", h.namespace)
}

fn definition_name(h: &Harness) -> String {
    format!("widgets.{}", group(h))
}

/// A definition of widgets, with these properties of `spec`.
fn widgets(h: &Harness, properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name(h)},
        "spec": {
            "group": group(h), "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": properties}},
            }}}],
        },
    })
}

fn widget(h: &Harness, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{}/v1", group(h)), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Somebody else's object, in a namespace that is made if need be.
async fn make(h: &Harness, namespace: &str, name: &str, spec: Value) {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    h.objects.server_side_apply(&format!("Namespace/{namespace}"), "test-person", space).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group(h), "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(h.client.clone(), namespace, &resource);
    let object = serde_json::from_value(widget(h, name, spec)).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Runs `plan` for the pack, in the namespace of the test.
fn plan(h: &Harness, pack: &Pack, more: &[&str]) -> Ran {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("plan-{}", h.namespace));
    std::fs::create_dir_all(&directory).unwrap();
    let archive = directory.join("web.tgz");
    std::fs::write(&archive, pack.archive()).unwrap();
    let mut arguments = vec!["plan", archive.to_str().unwrap(), "--against-cluster"];
    arguments.extend(more);
    h.run(&arguments)
}

/// Everything of the test's that could have been written, with its version.
async fn versions(h: &Harness) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for kind in ["ConfigMap", "Secret", "SherpackRelease"] {
        for object in h.objects.list(kind, "").await {
            let meta = &object["metadata"];
            // The cluster's own, some time after the namespace.
            if meta["name"] == "kube-root-ca.crt" {
                continue;
            }
            let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
            found.insert(format!("{kind}/{}", text("name")), text("resourceVersion"));
        }
    }
    if let Some(definition) =
        h.objects.find(&format!("CustomResourceDefinition/{}", definition_name(h))).await
    {
        let version = definition["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        found.insert("definition".to_owned(), version);
    }
    found
}

/// What the JSON says would become of an object.
fn would<'r>(report: &'r Value, object: &str) -> &'r Value {
    let objects = report["objects"].as_array().unwrap();
    objects.iter().find(|line| line["object"] == object).unwrap_or_else(|| panic!("{object}: {report:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_is_looked_at_before_anything_of_it_exists() {
    let h = Harness::without_operator("plan-new").await;
    let other = "plan-new-other";
    let mut elsewhere = config_map("elsewhere", json!({}));
    elsewhere["metadata"]["namespace"] = json!(other);
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"version": "{{ capabilities.kubeVersion.major }}"})))
        .object(elsewhere)
        .file("crds/widgets.yaml", widgets(&h, &json!({"size": {"type": "integer"}})).to_string())
        .object(widget(&h, "small", json!({"size": 3})))
        .object(hook("check", "pre-install"));
    let before = versions(&h).await;
    let ran = plan(&h, &pack, &["-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["goesOn"], &report["revision"]), (&json!(true), &json!(1)));
    assert_eq!(report["definitions"][0]["would"], "create");
    assert_eq!(would(&report, "ConfigMap plan-new/settings")["would"], "create");
    assert_eq!(would(&report, "Widget plan-new/small")["would"], "create");
    assert_eq!(would(&report, "Job plan-new/check")["would"], "run");
    let unchecked = would(&report, "ConfigMap plan-new-other/elsewhere");
    assert_eq!(
        (&unchecked["would"], &unchecked["reason"]),
        (&json!("unchecked"), &json!("NamespaceNotFound"))
    );
    let text = plan(&h, &pack, &[]).out;
    assert!(text.contains("  + ConfigMap plan-new/settings would be created\n"), "{text}");
    assert!(
        text.ends_with("3 to create, 1 to run, 1 not checked. It could go on. Nothing was written.\n"),
        "{text}"
    );
    assert_eq!(versions(&h).await, before);

    // A field that the definition beside it does not know, and one of another type.
    let wrong = pack.object(widget(&h, "wrong", json!({"size": "x", "colour": "red"})));
    let ran = plan(&h, &wrong, &["-o", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    let told = would(&report, "Widget plan-new/wrong");
    assert_eq!((&told["would"], &told["reason"]), (&json!("refused"), &json!("ObjectInvalid")));
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("unknown field \"spec.colour\"") && message.contains(".spec.size"), "{message}");
    assert_eq!(told["file"], "templates/005.yaml");
    assert_eq!(would(&report, "Widget plan-new/small")["would"], "create");
    assert_eq!(versions(&h).await, before);

    let ran = h.run(&["plan", "/nowhere", "--against-cluster"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert_eq!(plan(&h, &wrong, &["--context", "none"]).code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_version_is_compared_with_what_is_deployed() {
    let h = Harness::new("plan-upgrade").await;
    let pack = |color: &str| {
        Pack::new("web", "1.0.0").objects([
            config_map("settings", json!({"color": color})),
            config_map("same", json!({"a": "b"})),
            secret("login", json!({"password": format!("hunter-{color}")})),
        ])
    };
    let kept = with_annotation(config_map("kept", json!({})), "sherpack.io/resource-policy", "keep");
    h.deploy("web", &pack("blue").objects([config_map("old", json!({})), kept]), json!({})).await;
    h.stop().await;
    let before = versions(&h).await;

    let ran = plan(&h, &pack("green"), &["-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = ran.json();
    assert_eq!(report["revision"], 2);
    assert_eq!(would(&report, "ConfigMap plan-upgrade/same")["would"], "unchanged", "{report:#}");
    let changed = would(&report, "ConfigMap plan-upgrade/settings");
    let field = json!([{"path": "data.color", "old": "blue", "new": "green"}]);
    assert_eq!((&changed["would"], &changed["changes"]), (&json!("change"), &field));
    let login = would(&report, "Secret plan-upgrade/login");
    let hidden = json!([{"path": "data.password", "old": "(redacted)", "new": "(redacted)"}]);
    assert_eq!((&login["would"], &login["changes"]), (&json!("change"), &hidden));
    let prune = json!([
        {"object": "ConfigMap plan-upgrade/kept", "kept": "its resource policy is keep"},
        {"object": "ConfigMap plan-upgrade/old"},
    ]);
    assert_eq!(report["prune"], prune);

    // What is refused hides nothing else, and a refusal shows no secret.
    let foreign = config_map("theirs", json!({"a": "b"}));
    h.objects.create("test-person", foreign.clone()).await;
    let mut bad = config_map("bad", json!({}));
    bad["data"]["not a key"] = json!("x");
    let mut unknown = secret("unknown", json!({"password": "hunter-red"}));
    unknown["colour"] = json!("red");
    let before = {
        drop(before);
        versions(&h).await
    };
    let ran = plan(&h, &pack("green").objects([bad, unknown, foreign]), &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let text = &ran.out;
    assert!(text.contains("! ConfigMap plan-upgrade/bad would be refused: ObjectInvalid: "), "{text}");
    assert!(text.contains("not a key") && text.contains("(templates/004.yaml)"), "{text}");
    assert!(text.contains("! Secret plan-upgrade/unknown would be refused: ObjectInvalid: "), "{text}");
    assert!(text.contains("! ConfigMap plan-upgrade/theirs would be refused: ObjectNotOwned: "), "{text}");
    assert!(
        text.contains(
            "~ ConfigMap plan-upgrade/settings would be changed\n      ~ data.color: \"blue\" -> \"green\"\n"
        ),
        "{text}"
    );
    assert!(text.contains("  - ConfigMap plan-upgrade/old would be deleted\n"), "{text}");
    assert!(text.contains("3 in the way. It would not go on."), "{text}");
    for secret in ["hunter", "aHVudGVy"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(versions(&h).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_definition_is_weighed_by_its_objects() {
    let h = Harness::new("plan-definitions").await;
    let pack = |properties: Value| {
        Pack::new("web", "1.0.0")
            .object(config_map("settings", json!({"a": "b"})))
            .file("crds/widgets.yaml", widgets(&h, &properties).to_string())
    };
    let size = |maximum: u32| json!({"size": {"type": "integer", "maximum": maximum}});
    h.deploy("web", &pack(size(100)), json!({})).await;
    make(&h, &h.namespace, "small", json!({"size": 3})).await;
    make(&h, &h.namespace, "big", json!({"size": 50})).await;
    let before = versions(&h).await;

    let ran = plan(&h, &pack(size(100)), &["-o", "json"]);
    assert_eq!(ran.json()["definitions"][0]["would"], "unchanged", "{ran:?}");

    let ran = plan(&h, &pack(size(9)), &["-o", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    let told = &report["definitions"][0];
    assert_eq!((&told["would"], &told["verdict"]), (&json!("stop"), &json!("Dangerous")), "{told:#}");
    assert_eq!(told["reason"], "CrdBreakingChange");
    let message = told["changes"][0]["message"].as_str().unwrap();
    assert!(message.contains("breaks 1 of 2, first plan-definitions/big at .spec.size"), "{message}");
    // The token is the one that the operator takes.
    let token = told["confirm"].as_str().unwrap().to_owned();
    h.edit_spec("web", json!({"crds": {"confirmChanges": [token]}})).await;
    h.ready("web").await;
    let confirmed = plan(&h, &pack(size(9)), &["-o", "json"]);
    assert_eq!((confirmed.code, &confirmed.json()["definitions"][0]["would"]), (0, &json!("change")));
    h.edit_spec("web", json!({"crds": null})).await;
    h.ready("web").await;

    // Of no object it is told, too.
    let ran = plan(&h, &pack(size(60)), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("(concerns none of 2)") && ran.out.contains("Verdict: Warning"), "{ran:?}");
    for (strategy, code, wanted) in [("force", 0, "change"), ("skip", 0, "leave"), ("safe", 1, "stop")] {
        let ran = plan(&h, &pack(size(9)), &["--crd-strategy", strategy, "-o", "json"]);
        assert_eq!((ran.code, &ran.json()["definitions"][0]["would"]), (code, &json!(wanted)), "{strategy}");
    }
    // A custom resource is judged by the definition that comes with it: one that it needs, and one that it breaks.
    let mut wider = json!({"size": {"type": "integer", "maximum": 100}, "color": {"type": "string"}});
    let red = widget(&h, "red", json!({"color": "red"}));
    let ran = plan(&h, &pack(wider.clone()).object(red.clone()), &["-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(would(&ran.json(), "Widget plan-definitions/red")["would"], "create");
    wider["color"]["enum"] = json!(["blue"]);
    let ran = plan(&h, &pack(wider).object(red), &["-o", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let message = would(&ran.json(), "Widget plan-definitions/red")["message"].clone();
    assert!(message.as_str().unwrap().contains(".spec.color: is not one of the values of enum"), "{message}");

    let after = versions(&h).await;
    assert_eq!(after["definition"], before["definition"]);
    assert_eq!(after["ConfigMap/settings"], before["ConfigMap/settings"]);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    h.uninstall("web").await;
    h.objects.delete(&format!("CustomResourceDefinition/{}", definition_name(&h))).await;
}

fn uninstall(h: &Harness, more: &[&str]) -> Ran {
    let mut arguments = vec!["plan", "--uninstall", "web"];
    arguments.extend(more);
    h.run(&arguments)
}

async fn definitions_stay_by_default(h: &Harness, name: &str) {
    let before = versions(h).await;
    let ran = uninstall(h, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("This will delete, in this order:\n  - ConfigMap plan-uninstall/settings\n"),
        "{ran:?}"
    );
    assert!(ran.out.contains("  - ConfigMap plan-uninstall/kept (its resource policy is keep)\n"), "{ran:?}");
    assert!(
        ran.out.contains(&format!("  - CustomResourceDefinition {name} (crds.onUninstall is not Delete)\n")),
        "{ran:?}"
    );
    assert!(!ran.out.contains("CustomResources of these types"), "{ran:?}");
    assert_eq!(versions(h).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_is_told_with_what_it_would_take_along() {
    let h = Harness::new("plan-uninstall").await;
    let kept = with_annotation(config_map("kept", json!({})), "sherpack.io/resource-policy", "keep");
    let pack = |policy: &str| {
        let definition = with_annotation(
            widgets(&h, &json!({"size": {"type": "integer"}})),
            "sherpack.io/crd-policy",
            policy,
        );
        Pack::new("web", "1.0.0")
            .objects([config_map("settings", json!({"policy": policy})), kept.clone()])
            .file("crds/widgets.yaml", definition.to_string())
    };
    h.deploy("web", &pack("managed"), json!({})).await;
    make(&h, &h.namespace, "one", json!({"size": 1})).await;
    make(&h, "plan-uninstall-b", "two", json!({"size": 1})).await;
    make(&h, "plan-uninstall-b", "three", json!({"size": 1})).await;
    let name = definition_name(&h);
    definitions_stay_by_default(&h, &name).await;

    // Asked for, and three objects in the way.
    h.edit_spec("web", json!({"crds": {"onUninstall": "Delete"}})).await;
    h.ready("web").await;
    let ran = uninstall(&h, &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let impact = format!(
        "This will delete all CustomResources of these types:\n  - {name} (2 resources in plan-uninstall-b, 1 in plan-uninstall)\n"
    );
    assert!(ran.out.contains(&impact), "{ran:?}");
    assert!(
        ran.out.contains(&format!("! {name} has 3 objects")) && ran.out.contains("would be held"),
        "{ran:?}"
    );
    let report = uninstall(&h, &["-o", "json"]).json();
    assert_eq!(report["goesThrough"], false);
    let fate = &report["definitions"][0];
    assert_eq!(fate["fate"], "Blocked");
    assert_eq!(fate["objects"], json!({"plan-uninstall": 1, "plan-uninstall-b": 2}));

    // Confirmed, it goes, after everything else.
    h.edit_spec("web", json!({"crds": {"confirmDeletion": [name]}})).await;
    h.ready("web").await;
    let ran = uninstall(&h, &["-o", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let deletes = ran.json()["deletes"].clone();
    assert_eq!(
        deletes,
        json!(["ConfigMap plan-uninstall/settings", format!("CustomResourceDefinition {name}")])
    );
    assert!(uninstall(&h, &[]).out.contains(&impact));

    // What is shared stays, whatever is asked for.
    h.deploy("web", &pack("shared"), json!({"crds": {"onUninstall": "Delete", "confirmDeletion": [name]}}))
        .await;
    let ran = uninstall(&h, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains(&format!("Blocked by policy:\n  - {name} (policy: shared)\n")), "{ran:?}");
    assert!(!ran.out.contains("CustomResources of these types"), "{ran:?}");

    // It is as was said.
    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
    assert!(h.objects.find("ConfigMap/kept").await.is_some());
    assert!(h.objects.find(&format!("CustomResourceDefinition/{name}")).await.is_some());
    let none = h.run(&["plan", "--uninstall", "nobody"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{none:?}");
    h.objects.delete(&format!("CustomResourceDefinition/{name}")).await;
}
