//! What a manifest says that a lock follows need not be true: what is watched, whose an object is, and what the operator
//! does not write for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use sherpack_operator::api::Tenancy;
use sherpack_operator::storage::{Compression, MacKey, codec};

use crate::support::Harness;
use crate::support::accounts::{ALL, rule};
use crate::support::harness::{PERSON, condition};
use crate::support::helm::{Helm, Line};
use crate::support::objects::Objects;
use crate::support::packs::config_map;
use crate::support::wait::eventually;

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

fn manifest(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

fn within(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn settings(name: &str, color: &str) -> Value {
    config_map(name, json!({"color": color}))
}

async fn namespace(h: &Harness, name: &str) -> Objects {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    h.objects.create(PERSON, body).await;
    h.objects.elsewhere(name)
}

/// A record of another Sherpack tool, deployed, by a person who only has to be allowed to write Secrets.
async fn sherpack_record(objects: &Objects, name: &str, revision: u32, content: &[Value]) {
    let at = Timestamp::now().to_string();
    let record: sherpack_operator::release::Record = serde_json::from_value(json!({
        "name": name, "namespace": objects.namespace, "version": revision, "state": {"status": "deployed"},
        "pack": {"name": "p", "version": "1.0.0"}, "values": {}, "manifest": manifest(content),
        "createdAt": at, "updatedAt": at,
    }))
    .unwrap();
    let record = codec::encode(&record, None, Compression::Zstd, &MacKey::new([7; 32]), false).unwrap();
    let what = format!("Secret/{}", record.metadata.name.clone().unwrap());
    objects.server_side_apply(&what, PERSON, serde_json::to_value(&record).unwrap()).await;
}

/// The same of Helm.
async fn helm_record(objects: &Objects, name: &str, revision: u32, content: &[Value]) {
    let release = json!({
        "name": name, "namespace": objects.namespace, "version": revision, "info": {"status": "deployed"},
        "chart": {"metadata": {"name": name, "version": "1.0.0"}}, "config": {}, "manifest": manifest(content),
    });
    let labels =
        json!({"owner": "helm", "name": name, "status": "deployed", "version": revision.to_string()});
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": format!("sh.helm.release.v1.{name}.v{revision}"), "labels": labels},
        "stringData": {"release": STANDARD.encode(release.to_string())},
    });
    objects.create(PERSON, body).await;
}

/// An operator of all namespaces that works on the releases with the label of this test.
async fn wide(name: &str, tenancy: Tenancy) -> Harness {
    // Its key is made where no release of another test stands in the way.
    let mut h = Harness::new(name).await;
    h.operator_ready().await;
    h.stop().await;
    h.settings.watch_namespace = None;
    h.settings.watch_labels =
        Some(sherpack_operator::api::selector::parse(&format!("suite={name}")).unwrap());
    h.settings.tenancy = tenancy;
    h.start();
    h
}

/// A release in any namespace that such an operator works on.
async fn release_of(h: &Harness, objects: &Objects, name: &str, spec: Value) {
    let body = json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
        "metadata": {"name": name, "labels": {"suite": h.namespace}}, "spec": spec,
    });
    objects.create(PERSON, body).await;
}

async fn is(objects: &Objects, name: &str, status: &str, reason: &str) -> Value {
    let what = format!("SherpackRelease/{name}");
    let fits = async || {
        let found = objects.find(&what).await?;
        let ready = condition(&found, "Ready");
        (ready["status"] == status && ready["reason"] == reason).then_some(found)
    };
    eventually(&format!("{name} is {reason}"), async || fits().await.is_some()).await;
    fits().await.unwrap_or_default()
}

/// Paths of the watches of ConfigMaps that look at all of a namespace or of the cluster, one for each.
fn watched(h: &Harness, mark: usize) -> Vec<String> {
    let sent = h.wire.since(mark);
    let watches = sent.iter().filter(|request| request.verb == "watch" && request.is_about("configmaps"));
    // Those of records and of what releases refer to are not about what is locked.
    let unselected = watches.filter(|request| !request.query.contains("labelSelector"));
    let mut paths: Vec<String> = unselected
        .inspect(|request| assert!(!request.query.contains("fieldSelector"), "{}", request.query))
        .map(|request| request.path.clone())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_watches_what_its_account_may_read_and_a_namespace_only_once() {
    let mut h = Harness::without_operator("claims-watches").await;
    let other = namespace(&h, "claims-watches-other").await;
    h.settings.tenancy = Tenancy::Multi;
    h.account("low").await;
    let own = [ALL.to_vec(), vec!["list", "watch"]].concat();
    h.grant("low", &[rule(&[""], &["configmaps", "secrets"], &own)]).await;
    let mut content = vec![settings("mine", "blue")];
    content.extend((0..40).map(|number| within(&other.namespace, settings(&format!("x{number}"), "blue"))));
    sherpack_record(&h.objects, "w", 1, &content).await;
    for number in 0..150 {
        // What is none of the lock's, more than a page of it.
        other.create(PERSON, settings(&format!("strange{number}"), "red")).await;
    }
    h.start();
    h.release("w", json!({"serviceAccountName": "low", "lock": {"sherpackRelease": {"name": "w"}}})).await;
    let told = h.condition("w", "Ready", "False", Some("Forbidden")).await;
    assert!(
        message(&told).contains("get, list, watch configmaps in claims-watches-other"),
        "{}",
        message(&told)
    );
    assert!(message(&told).contains("(and 39 more objects are not locked)"), "{}", message(&told));
    h.objects.edit("ConfigMap/mine", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/mine", "/data/color", "blue").await;
    assert_eq!(watched(&h, 0), ["/api/v1/namespaces/claims-watches/configmaps"]);
    let path = "/api/v1/namespaces/claims-watches-other/configmaps";
    assert!(h.wire.since(0).iter().all(|request| !request.path.starts_with(path)), "nothing was asked there");

    // One name is not enough to watch: a watch is for all of them.
    let some = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": own, "resourceNames": ["x1"]});
    h.grant_in(&other.namespace, "low", &[some]).await;
    h.pass("w").await;
    assert!(h.wire.since(0).iter().all(|request| !request.path.starts_with(path)));

    h.grant_in(&other.namespace, "low", &[rule(&[""], &["configmaps"], &own)]).await;
    h.condition("w", "Ready", "True", Some("Locked")).await;
    assert_eq!(watched(&h, 0), [path, "/api/v1/namespaces/claims-watches/configmaps"]);
    let lists = h.wire.since(0);
    let lists = lists.iter().filter(|request| request.verb == "list" && request.path == path);
    assert!(lists.clone().count() >= 2 && lists.clone().all(|list| list.query.contains("limit=100")));
    other.edit("ConfigMap/x7", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    eventually("what is in the other namespace is put back", async || {
        other.get("ConfigMap/x7").await["data"]["color"] == "blue"
    })
    .await;
    // What is no object of the lock is nothing to it.
    let mark = h.wire.mark();
    other.edit("ConfigMap/strange3", "kubectl-edit", json!({"data": {"color": "green"}})).await;
    other.delete("ConfigMap/x8").await;
    eventually("what was deleted is made again", async || other.find("ConfigMap/x8").await.is_some()).await;
    let strange = |request: &crate::support::wire::Request| request.path.contains("/strange");
    assert!(!h.wire.since(mark).iter().any(strange));
    assert_eq!(other.get("ConfigMap/strange3").await["data"]["color"], "green");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_too_many_objects_locks_none_of_them() {
    let mut h = Harness::without_operator("claims-many").await;
    h.settings.lock.objects = 3;
    h.start();
    let of = |count: usize| -> Vec<Value> {
        (0..count).map(|number| settings(&format!("c{number}"), "blue")).collect()
    };
    for object in of(4) {
        h.objects.create("sherpack", object).await;
    }
    sherpack_record(&h.objects, "w", 1, &of(4)).await;
    h.release("w", json!({"lock": {"sherpackRelease": {"name": "w"}}})).await;
    let told = h.condition("w", "Stalled", "True", Some("LockTooLarge")).await;
    assert!(
        message(&told).contains("has 4 objects, and a lock watches 3 at most")
            && message(&told).contains("--lock-objects"),
        "{}",
        message(&told)
    );
    assert!(watched(&h, 0).is_empty());
    h.objects.edit("ConfigMap/c0", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pass("w").await;
    assert_eq!(h.objects.get("ConfigMap/c0").await["data"]["color"], "red");
    // What is not locked does not count.
    let mut open = of(4);
    open[3]["metadata"]["annotations"] = json!({"sherpack.io/drift": "ignore"});
    sherpack_record(&h.objects, "w", 2, &open).await;
    h.shows("ConfigMap/c0", "/data/color", "blue").await;
    h.condition("w", "Ready", "True", Some("Locked")).await;
    // A later revision with more of them is let go of as a whole.
    sherpack_record(&h.objects, "w", 3, &of(4)).await;
    h.condition("w", "Stalled", "True", Some("LockTooLarge")).await;
    h.objects.edit("ConfigMap/c1", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pass("w").await;
    assert_eq!(h.objects.get("ConfigMap/c1").await["data"]["color"], "red");
}

/// The lock of the one who installed it holds, however often the operator starts.
async fn stays_with_db(h: &Harness) {
    for restart in 0..3 {
        if restart > 0 {
            h.start();
        }
        let color = format!("red-{restart}");
        h.objects.edit("ConfigMap/dbcm", "kubectl-edit", json!({"data": {"color": color}})).await;
        h.shows("ConfigMap/dbcm", "/data/color", "blue").await;
        h.condition("db-lock", "Ready", "True", Some("Locked")).await;
        h.condition("thief", "Ready", "False", Some("ObjectNotOwned")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_belongs_to_the_lock_of_the_helm_release_that_it_names() {
    for first in ["thief", "db-lock"] {
        let mut h = Harness::without_operator(&format!("claims-helm-{first}")).await;
        let evil = namespace(&h, &format!("claims-evil-{first}")).await;
        // Otherwise nothing outside of its own namespace is touched for such a record.
        h.settings.lock.as_operator = true;
        let db = Helm::new(&h, Line::Four, "db");
        db.chart("1.0.0", &[settings("dbcm", "blue")]);
        db.does("install", &[]).await;
        helm_record(&evil, "evil", 1, &[within(&h.namespace, settings("dbcm", "black"))]).await;
        h.start();
        let thief = json!({"lock": {"helmRelease": {"name": "evil", "namespace": evil.namespace}}});
        let owner = json!({"lock": {"helmRelease": {"name": "db"}}});
        if first == "thief" {
            h.release("thief", thief).await;
            h.condition("thief", "Ready", "False", Some("ObjectNotOwned")).await;
            h.release("db-lock", owner).await;
        } else {
            h.release("db-lock", owner).await;
            h.condition("db-lock", "Ready", "True", Some("Locked")).await;
            h.release("thief", thief).await;
        }
        stays_with_db(&h).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_names_an_object_of_another_claims_nothing() {
    let h = wide("claims-tenants", Tenancy::Multi).await;
    let evil = namespace(&h, "claims-tenants-evil").await;
    let db = Helm::new(&h, Line::Three, "db");
    db.chart("1.0.0", &[settings("dbcm", "blue")]);
    db.does("install", &[]).await;
    let all = [ALL.to_vec(), vec!["list", "watch"]].concat();
    h.account("keeper").await;
    h.grant("keeper", &[rule(&[""], &["configmaps", "secrets"], &all)]).await;
    evil.server_side_apply("ServiceAccount/low", PERSON, json!({"metadata": {"labels": {"a": "b"}}})).await;
    evil.server_side_apply(
        "Role/low",
        PERSON,
        json!({"rules": [rule(&[""], &["configmaps", "secrets"], &all)]}),
    )
    .await;
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "low"},
        "subjects": [{"kind": "ServiceAccount", "name": "low", "namespace": evil.namespace}],
    });
    evil.server_side_apply("RoleBinding/low", PERSON, binding).await;
    helm_record(&evil, "evil", 1, &[within(&h.namespace, settings("dbcm", "black"))]).await;

    let thief = json!({"serviceAccountName": "low", "lock": {"helmRelease": {"name": "evil"}}});
    release_of(&h, &evil, "thief", thief).await;
    let told = is(&evil, "thief", "False", "Forbidden").await;
    assert!(message(&told).contains("configmaps in claims-tenants"), "{}", message(&told));
    let owner = json!({"serviceAccountName": "keeper", "lock": {"helmRelease": {"name": "db"}}});
    release_of(&h, &h.objects, "db-lock", owner).await;
    for restart in 0..3 {
        if restart > 0 {
            h.start();
        }
        let color = format!("red-{restart}");
        h.objects.edit("ConfigMap/dbcm", "kubectl-edit", json!({"data": {"color": color}})).await;
        h.shows("ConfigMap/dbcm", "/data/color", "blue").await;
        is(&h.objects, "db-lock", "True", "Locked").await;
    }
    is(&evil, "thief", "False", "Forbidden").await;
    let low = Some(format!("system:serviceaccount:{}:low", evil.namespace));
    let asked = h.wire.since(0);
    assert!(!asked.iter().any(|request| request.user == low && request.is_about("configmaps/dbcm")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_locks_of_an_object_that_names_none_the_older_release_has_it_at_every_start() {
    let h = Harness::new("claims-age").await;
    for name in ["one", "two"] {
        sherpack_record(&h.objects, name, 1, &[settings("shared", "blue"), settings(name, "blue")]).await;
    }
    let lock =
        |name: &str, suspend: bool| json!({"suspend": suspend, "lock": {"sherpackRelease": {"name": name}}});
    h.release("a-older", lock("one", true)).await;
    h.condition("a-older", "Ready", "False", Some("Suspended")).await;
    h.release("b-younger", lock("two", false)).await;
    h.condition("b-younger", "Ready", "True", Some("Locked")).await;
    // It asks later, and is older.
    h.release("a-older", lock("one", false)).await;
    for restart in 0..3 {
        if restart > 0 {
            h.start();
        }
        h.condition("a-older", "Ready", "True", Some("Locked")).await;
        let told = h.condition("b-younger", "Ready", "False", Some("ObjectNotOwned")).await;
        assert!(message(&told).contains("the SherpackRelease claims-age/a-older"), "{}", message(&told));
        for name in ["shared", "one", "two"] {
            let what = format!("ConfigMap/{name}");
            h.objects.edit(&what, "kubectl-edit", json!({"data": {"color": format!("red-{restart}")}})).await;
            h.shows(&what, "/data/color", "blue").await;
        }
    }
    // What it gives up the other one gets.
    h.uninstall("a-older").await;
    h.condition("b-younger", "Ready", "True", Some("Locked")).await;
    h.objects.edit("ConfigMap/shared", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/shared", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_keeps_its_objects_while_its_spec_is_invalid() {
    let h = Harness::new("claims-invalid").await;
    for name in ["one", "two"] {
        sherpack_record(&h.objects, name, 1, &[settings("shared", "blue"), settings(name, "blue")]).await;
    }
    let lock = |name: &str| json!({"lock": {"sherpackRelease": {"name": name}}});
    h.release("a-older", lock("one")).await;
    h.condition("a-older", "Ready", "True", Some("Locked")).await;
    h.edit_spec("a-older", json!({"values": {"a": 1}})).await;
    h.condition("a-older", "Stalled", "True", Some("InvalidSpec")).await;
    h.release("b-younger", lock("two")).await;
    let told = h.condition("b-younger", "Ready", "False", Some("ObjectNotOwned")).await;
    assert!(message(&told).contains("the SherpackRelease claims-invalid/a-older"), "{}", message(&told));
    for name in ["shared", "one", "two"] {
        let what = format!("ConfigMap/{name}");
        h.objects.edit(&what, "kubectl-edit", json!({"data": {"color": "red"}})).await;
        h.shows(&what, "/data/color", "blue").await;
    }
    h.pass("b-younger").await;
    h.condition("b-younger", "Ready", "False", Some("ObjectNotOwned")).await;
}

fn cluster_role(name: &str, verbs: &[&str]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    })
}

fn binding(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}],
    })
}

/// The operator gave no rights, and wrote nothing beyond the namespace.
async fn wrote_nothing(h: &Harness, other: &Objects) {
    h.pass("web-lock").await;
    for what in ["ClusterRoleBinding/claims-operator-mallory", "RoleBinding/mallory", "SherpackRelease/inner"]
    {
        assert!(h.objects.find(what).await.is_none(), "{what}");
    }
    assert!(other.find("ConfigMap/planted").await.is_none());
    let role = h.objects.get("ClusterRole/claims-operator-web").await;
    assert_eq!(role["rules"][0]["verbs"], json!(["get"]));
    let rbac = |request: &crate::support::wire::Request| request.path.contains("rbac.authorization.k8s.io");
    let written = h.wire.writes_since(0);
    assert!(!written.iter().any(rbac), "{:?}", written.iter().find(|request| rbac(request)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_record_makes_the_operator_write_nothing_beyond_its_namespace_and_give_no_rights() {
    let mut h = Harness::new("claims-operator").await;
    let other = namespace(&h, "claims-operator-other").await;
    let web = Helm::new(&h, Line::Four, "web");
    web.chart("1.0.0", &[settings("web", "blue"), cluster_role("claims-operator-web", &["get"])]);
    web.does("install", &[]).await;
    h.release("web-lock", json!({"lock": {"helmRelease": {"name": "web"}}})).await;
    // What needs no write needs no account.
    h.condition("web-lock", "Ready", "True", Some("Locked")).await;

    // A person with `edit` in the namespace may write Secrets there.
    let inner = json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease", "metadata": {"name": "inner"},
        "spec": {"suspend": true, "pack": {"configMap": {"name": "p"}}},
    });
    let forged = [
        settings("web", "green"),
        cluster_role("claims-operator-web", &["*"]),
        binding("ClusterRoleBinding", "claims-operator-mallory"),
        binding("RoleBinding", "mallory"),
        within(&other.namespace, settings("planted", "black")),
        inner,
    ];
    helm_record(&h.objects, "web", 2, &forged).await;
    // What is the namespace's own is the record's to say.
    h.shows("ConfigMap/web", "/data/color", "green").await;
    let told = h.condition("web-lock", "Ready", "False", Some("LockNeedsAccount")).await;
    assert!(
        message(&told).contains("spec.serviceAccountName")
            && message(&told).contains("--allow-lock-as-operator")
            && message(&told).contains("(and 4 more objects are not locked)"),
        "{}",
        message(&told)
    );
    wrote_nothing(&h, &other).await;
    h.start();
    h.condition("web-lock", "Ready", "False", Some("LockNeedsAccount")).await;
    wrote_nothing(&h, &other).await;

    // An account decides by its own rights.
    let all = [ALL.to_vec(), vec!["list", "watch"]].concat();
    h.account("keeper").await;
    h.grant("keeper", &[rule(&[""], &["configmaps", "secrets"], &all)]).await;
    h.edit_spec("web-lock", json!({"serviceAccountName": "keeper"})).await;
    h.condition("web-lock", "Ready", "False", Some("Forbidden")).await;
    wrote_nothing(&h, &other).await;

    // Whoever runs the operator may trust those who write such records.
    h.edit_spec("web-lock", json!({"serviceAccountName": null})).await;
    h.stop().await;
    h.settings.lock.as_operator = true;
    h.start();
    h.condition("web-lock", "Ready", "True", Some("Locked")).await;
    h.objects.get("RoleBinding/mallory").await;
    other.get("ConfigMap/planted").await;
    for what in ["ClusterRoleBinding/claims-operator-mallory", "ClusterRole/claims-operator-web"] {
        h.objects.delete(what).await;
        h.sees(what, |_| true).await;
    }
    h.uninstall("web-lock").await;
    h.objects.delete("ClusterRoleBinding/claims-operator-mallory").await;
}
