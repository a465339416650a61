//! `crd-diff` of a file against what a cluster has: its objects, its stored versions and its API server have a say.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, json};

use crate::support::harness::PERSON;
use crate::support::people::Ran;
use crate::support::{Harness, wait};

/// A group that no other test has.
fn group(h: &Harness) -> String {
    format!("{}.example.com", h.namespace)
}

fn name(h: &Harness) -> String {
    format!("widgets.{}", group(h))
}

/// A definition of widgets: versions with name, storage flag and schema of `spec`.
fn definition(h: &Harness, versions: &[(&str, bool, Value)]) -> Value {
    let version = |(name, storage, spec): &(&str, bool, Value)| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name(h)},
        "spec": {
            "group": group(h), "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

/// What the cluster has at first.
fn spec() -> Value {
    json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}, "old": {"type": "string"},
    }})
}

fn widgets(h: &Harness) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group(h), "v1", "Widget"));
    Api::namespaced_with(h.client.clone(), &h.namespace, &resource)
}

/// Installs a definition as anybody would, and waits until it is served.
async fn installed(h: &Harness, definition: Value) {
    h.objects.create(PERSON, definition).await;
    let listed = async || widgets(h).list(&ListParams::default()).await.is_ok();
    wait::eventually("widgets are served", listed).await;
}

async fn make(h: &Harness, name: &str, spec: Value) {
    let body = json!({
        "apiVersion": format!("{}/v1", group(h)), "kind": "Widget", "metadata": {"name": name}, "spec": spec,
    });
    widgets(h).create(&PostParams::default(), &serde_json::from_value(body).unwrap()).await.unwrap();
}

/// The definition as a file of this test.
fn file(h: &Harness, definition: &Value) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&h.namespace);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("crd.json");
    std::fs::write(&file, definition.to_string()).unwrap();
    file
}

fn diff_as(kubeconfig: &Path, file: &Path, more: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .arg("crd-diff")
        .arg(file)
        .args(more)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output();
    Ran::of(output.unwrap())
}

/// Runs the command for a definition, with JSON as the result.
fn diff(h: &Harness, definition: &Value, more: &[&str]) -> (i32, Value) {
    let ran = diff_as(&h.settings.kubeconfig, &file(h, definition), &[&["-o", "json"], more].concat());
    assert_eq!(ran.err, "", "nothing is left to be told");
    (ran.code, ran.json())
}

/// Kind, severity and message of the one change.
fn only(answer: &Value) -> (String, String, String) {
    let changes = answer["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{answer}");
    let text = |key: &str| changes[0][key].as_str().unwrap().to_owned();
    (text("kind"), text("severity"), text("message"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_say_what_a_change_breaks() {
    let h = Harness::without_operator("crd-diff-objects").await;
    installed(&h, definition(&h, &[("v1", true, spec())])).await;
    make(&h, "a", json!({"size": 3, "color": "red"})).await;
    make(&h, "b", json!({"size": 9})).await;
    make(&h, "c", json!({"size": 7})).await;

    // The same: nothing, and no object is asked.
    let (code, answer) = diff(&h, &definition(&h, &[("v1", true, spec())]), &[]);
    assert_eq!((code, answer), (0, json!({"verdict": "Safe", "changes": []})));

    // A field that an object has is gone.
    let mut used = spec();
    used["properties"].as_object_mut().unwrap().remove("color");
    let used = definition(&h, &[("v1", true, used)]);
    let (code, answer) = diff(&h, &used, &[]);
    let (kind, severity, message) = only(&answer);
    assert_eq!((code, &*kind, &*severity), (1, "RemoveField", "Dangerous"));
    let said = "(loses data of 1 of 3, first crd-diff-objects/a at .spec.color)";
    assert!(message.ends_with(said), "{message}");

    // One that none has.
    let mut unused = spec();
    unused["properties"].as_object_mut().unwrap().remove("old");
    let unused = definition(&h, &[("v1", true, unused)]);
    let (code, answer) = diff(&h, &unused, &[]);
    let (_, severity, message) = only(&answer);
    assert_eq!((code, &*severity), (0, "Warning"));
    assert!(message.ends_with("(concerns none of 3)"), "{message}");
    // Nobody asked them.
    let (code, answer) = diff(&h, &unused, &["--no-evidence"]);
    let (_, severity, message) = only(&answer);
    assert_eq!((code, &*severity), (1, "Dangerous"));
    assert!(!message.contains('('), "{message}");

    // A field is required that one of them has, and a bound is tighter.
    let mut required = spec();
    required["required"] = json!(["color"]);
    let (code, answer) = diff(&h, &definition(&h, &[("v1", true, required.clone())]), &[]);
    let (kind, severity, message) = only(&answer);
    assert_eq!((code, &*kind, &*severity), (1, "MakeRequired", "Dangerous"));
    assert!(message.contains("(breaks 2 of 3, first crd-diff-objects/b at .spec"), "{message}");
    required["properties"]["tier"] = json!({"type": "string"});
    required["required"] = json!(["tier"]);
    let (_, answer) = diff(&h, &definition(&h, &[("v1", true, required)]), &[]);
    let (kind, _, message) = only(&answer);
    assert_eq!(kind, "AddRequiredField");
    assert!(message.contains("(breaks 3 of 3, first crd-diff-objects/a at .spec"), "{message}");
    let mut bound = spec();
    bound["properties"]["size"]["maximum"] = 8.into();
    let bound = definition(&h, &[("v1", true, bound)]);
    let (code, answer) = diff(&h, &bound, &[]);
    assert_eq!(code, 1);
    assert!(only(&answer).2.contains("(breaks 1 of 3, first crd-diff-objects/b at .spec.size"), "{answer}");
    assert_eq!(diff(&h, &bound, &["--strategy", "force"]).0, 0);

    // For people.
    let ran = diff_as(&h.settings.kubeconfig, &file(&h, &bound), &[]);
    let head = format!("CRD Changes for {}:\n\n  + spec.versions[0].", name(&h));
    assert!(ran.out.starts_with(&head), "{}", ran.out);
    assert!(ran.out.contains("\n  ⚠ Dangerous TightenValidation: v1 .spec.size: "), "{}", ran.out);
    assert!(ran.out.ends_with("Verdict: Dangerous (1 Dangerous)\n"), "{}", ran.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_of_objects_is_looked_at() {
    let h = Harness::without_operator("crd-diff-pages").await;
    installed(&h, definition(&h, &[("v1", true, spec())])).await;
    // More than two pages; the first that breaks is on the last one.
    let all = (0..130).map(|index| {
        let h = &h;
        async move { make(h, &format!("w{index:03}"), json!({"size": index})).await }
    });
    futures::future::join_all(all).await;
    let mut bound = spec();
    bound["properties"]["size"]["maximum"] = 119.into();
    let (code, answer) = diff(&h, &definition(&h, &[("v1", true, bound)]), &[]);
    let message = only(&answer).2;
    assert_eq!(code, 1);
    assert!(message.contains("(breaks 10 of 130, first crd-diff-pages/w120 at .spec.size"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_server_refuses_is_blocked() {
    let h = Harness::without_operator("crd-diff-blocked").await;
    let both = [("v1beta1", false, spec()), ("v1", true, spec())];
    // Objects may be stored in the version that is storage at first.
    let first = [("v1beta1", true, spec()), ("v1", false, spec())];
    installed(&h, definition(&h, &first)).await;
    let what = format!("CustomResourceDefinition/{}", name(&h));
    let moved = definition(&h, &both);
    h.objects.replace(&what, PERSON, |live| live["spec"] = moved["spec"].clone()).await;
    let stored = h.objects.get(&what).await;
    assert_eq!(stored["status"]["storedVersions"], json!(["v1beta1", "v1"]), "both are stored now");

    // Only the status tells: neither file has it as the storage version.
    let (code, answer) = diff(&h, &definition(&h, &[("v1", true, spec())]), &[]);
    let (kind, severity, _) = only(&answer);
    assert_eq!((code, &*kind, &*severity), (1, "RemoveVersion", "Blocked"));
    assert_eq!(diff(&h, &definition(&h, &[("v1", true, spec())]), &["--strategy", "force"]).0, 1);

    // What only the server can tell: that a rule does not compile.
    let mut rule = spec();
    rule["x-kubernetes-validations"] = json!([{"rule": "self.size >"}]);
    let with_rule = [("v1beta1", false, spec()), ("v1", true, rule)];
    let (code, answer) = diff(&h, &definition(&h, &with_rule), &[]);
    let refused = answer["changes"].as_array().unwrap().iter().find(|one| one["kind"] == "RefusedByServer");
    let refused = refused.unwrap_or_else(|| panic!("{answer}"));
    assert_eq!((code, &answer["verdict"]), (1, &json!("Blocked")));
    assert!(refused["path"].as_str().unwrap().contains("x-kubernetes-validations"), "{refused}");
    // Nothing was stored by asking.
    let now = h.objects.get(&what).await;
    assert_eq!(now["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_is_not_there_is_new() {
    let h = Harness::without_operator("crd-diff-new").await;
    let new = definition(&h, &[("v1", true, spec())]);
    let (code, answer) = diff(&h, &new, &[]);
    assert_eq!((code, answer), (0, json!({"verdict": "Safe", "changes": []})));
    let ran = diff_as(&h.settings.kubeconfig, &file(&h, &new), &[]);
    assert!(ran.out.contains("\n  + it is new\n"), "{}", ran.out);
    let mut rule = spec();
    rule["x-kubernetes-validations"] = json!([{"rule": "self.size >"}]);
    let (code, answer) = diff(&h, &definition(&h, &[("v1", true, rule)]), &[]);
    assert_eq!((code, only(&answer).0), (1, "RefusedByServer".to_owned()));
    assert!(h.objects.find(&format!("CustomResourceDefinition/{}", name(&h))).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_disagree_are_told_when_they_come_and_when_they_come_apart() {
    let h = Harness::without_operator("crd-diff-versions").await;
    let on = |of: &str| json!({"type": "object", "properties": {"on": {"type": of}}});
    let with = |second: &str| definition(&h, &[("v1", true, on("boolean")), ("v2", false, on(second))]);
    // Nothing has been written in either of them yet.
    let (code, answer) = diff(&h, &with("string"), &[]);
    let (kind, severity, message) = only(&answer);
    assert_eq!((code, &*kind, &*severity), (0, "LossyVersion", "Warning"), "{message}");
    installed(&h, definition(&h, &[("v1", true, on("boolean"))])).await;
    let (code, answer) = diff(&h, &with("string"), &[]);
    assert_eq!((code, &answer["verdict"]), (1, &json!("Dangerous")), "{answer}");
    assert_eq!(diff(&h, &with("boolean"), &[]).0, 0);
    // What disagrees already is no change.
    h.objects
        .server_side_apply(&format!("CustomResourceDefinition/{}", name(&h)), PERSON, with("string"))
        .await;
    assert_eq!(diff(&h, &with("string"), &[]).1, json!({"verdict": "Safe", "changes": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_counted_is_said_and_makes_nothing_harmless() {
    let h = Harness::without_operator("crd-diff-forbidden").await;
    installed(&h, definition(&h, &[("v1", true, spec())])).await;
    let mut unused = spec();
    unused["properties"].as_object_mut().unwrap().remove("old");
    let unused = definition(&h, &[("v1", true, unused)]);
    assert_eq!(diff(&h, &unused, &[]).0, 0, "whoever may look sees that there is none");

    // Somebody who may read definitions, and nothing else.
    h.account("reader").await;
    let role = json!({"rules": [
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]},
    ]});
    h.objects.server_side_apply("ClusterRole/crd-diff-reader", PERSON, role).await;
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "crd-diff-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": h.namespace}],
    });
    h.objects.server_side_apply("ClusterRoleBinding/crd-diff-reader", PERSON, binding).await;
    let mut kubeconfig: Value = sherpack_operator::manifest::yaml::parse_value(
        &std::fs::read_to_string(&h.settings.kubeconfig).unwrap(),
        "kubeconfig",
    )
    .unwrap();
    kubeconfig["users"][0]["user"]["as"] = h.user("reader").into();
    let new = file(&h, &unused);
    let reader = new.with_file_name("reader.kubeconfig");
    std::fs::write(&reader, kubeconfig.to_string()).unwrap();
    // The right may take a moment to be known.
    let ran = wait::wait_for("the reader may read definitions", async || {
        let ran = diff_as(&reader, &new, &["-o", "json"]);
        if ran.code == 2 { Err(ran.err) } else { Ok(ran) }
    })
    .await;
    let (_, severity, message) = only(&ran.json());
    assert_eq!((ran.code, &*severity), (1, "Dangerous"), "{}", ran.err);
    assert!(message.contains("not all objects could be read"), "{message}");
    assert!(ran.err.contains(&format!("the objects of {} cannot all be looked at", name(&h))), "{}", ran.err);
    assert!(ran.err.contains(&format!("a dry run of {} was not possible", name(&h))), "{}", ran.err);

    // No cluster at all is no finding.
    let nowhere = diff_as(Path::new("/nowhere/kubeconfig"), &new, &[]);
    assert_eq!((nowhere.code, nowhere.out.as_str()), (2, ""), "{}", nowhere.err);
}
