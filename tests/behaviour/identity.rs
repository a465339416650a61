//! A release with a service account: everything of it is read and written as that account, and what the account may
//! not do is told before anything is touched.

use serde_json::{Value, json};

use crate::support::accounts::{ALL, RECORDS, rule, rule_for};
use crate::support::harness::{PERSON, condition};
use crate::support::packs::{config_map, deployment, secret, service};
use crate::support::wait::eventually;
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
        .object(service("web"))
        .values("color: blue\n")
}

/// What `pack()` needs, the pack itself included.
fn enough() -> Vec<Value> {
    vec![rule(&[""], &["configmaps", "services"], &ALL)]
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

/// Nothing of a release was written but its own status and finalizer and what is told of it.
fn assert_untouched(h: &Harness, mark: usize) {
    let writes = h.wire.writes_since(mark).into_iter().filter(|request| {
        !["sherpackreleases", "events", "selfsubjectrulesreviews", "selfsubjectaccessreviews"]
            .iter()
            .any(|harmless| request.path.contains(harmless))
    });
    let writes: Vec<String> = writes.map(|request| request.line()).collect();
    assert!(writes.is_empty(), "{writes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_pack_and_values_are_the_account_s_and_everything_else_is_the_operator_s() {
    let h = Harness::new("identity-who").await;
    h.account("deployer").await;
    h.grant(
        "deployer",
        &[
            rule(&[""], &["configmaps", "services"], &ALL),
            rule(&["apps"], &["deployments"], &ALL),
            rule_for("secrets", &["values"], &["get"]),
        ],
    )
    .await;
    // Otherwise the first answer to what it may do is one of before.
    eventually("the rights are known", async || h.may("deployer", "patch", "configmaps").await).await;
    h.objects.create(PERSON, secret("values", json!({"values.yaml": "color: green"}))).await;
    let more = json!({
        "serviceAccountName": "deployer", "valuesFrom": [{"kind": "Secret", "name": "values"}],
    });
    let mut hook = config_map("hooked", json!({"a": "b"}));
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-install"});
    h.deploy("web", &pack().object(deployment("web", 0)).object(hook), more.clone()).await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "green");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    let mut next = more;
    next["values"] = json!({"color": "white"});
    h.deploy("web", &pack(), next).await;
    h.gone("Deployment/web").await;
    h.uninstall("web").await;
    assert!(h.objects.find("Service/web").await.is_none());

    let is_own = |request: &Request| {
        let by_account = [
            "configmaps/settings",
            "configmaps/hooked",
            "configmaps/web-pack",
            "services/web",
            "deployments/web",
            "secrets/values",
        ];
        let reviews = ["selfsubjectrulesreviews", "selfsubjectaccessreviews"];
        // A create names its object in the body only; here it is the hook.
        let makes_hook = request.verb == "create" && request.path.ends_with("/configmaps");
        makes_hook || by_account.iter().chain(&reviews).any(|what| request.is_about(what))
    };
    let all = h.wire.since(0);
    let (theirs, ours): (Vec<Request>, Vec<Request>) = all.into_iter().partition(is_own);
    for request in &theirs {
        assert_eq!(request.user, h.user("deployer"), "{}", request.line());
        assert!(request.code < 400 || request.code == 404, "{}", request.line());
    }
    for request in &ours {
        assert_eq!(request.user, None, "{}", request.line());
    }
    for verb in ["get", "create", "apply", "delete"] {
        assert!(theirs.iter().any(|request| request.verb == verb), "the account did no {verb}");
    }
    assert!(
        ours.iter().any(|request| request.is_write() && request.is_about("secrets")),
        "no record was written"
    );
    let reviews = theirs.iter().filter(|request| request.is_about("selfsubjectrulesreviews")).count();
    assert!((1..3).contains(&reviews), "{reviews} reviews for an install, an upgrade and an uninstall");
}

/// The account may write any ClusterRole, also one with rights that it has not itself.
async fn may_write_cluster_roles(h: &Harness) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "identity-missing"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "identity-missing"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": h.namespace}],
    });
    let cluster_wide = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "identity-missing"},
        "rules": [
            rule(&["rbac.authorization.k8s.io"], &["clusterroles"], &ALL),
            // To give away what one does not have oneself.
            rule(&["rbac.authorization.k8s.io"], &["clusterroles"], &["escalate"]),
        ],
    });
    h.objects.create(PERSON, cluster_wide).await;
    h.objects.create(PERSON, binding).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_missing_rights_are_told_at_once_and_nothing_is_touched_until_they_are_granted() {
    let h = Harness::new("identity-missing").await;
    h.operator_ready().await;
    let mark = h.wire.mark();
    h.account("deployer").await;
    let read_pack = rule_for("configmaps", &["web-pack"], &["get"]);
    let half = rule(&["apps"], &["deployments"], &["get", "patch"]);
    h.grant("deployer", &[read_pack.clone(), half]).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "identity-missing-role"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    let mut hook = secret("hooked", json!({"a": "b"}));
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "post-install"});
    let more = pack().object(deployment("web", 0)).object(role).object(hook);
    h.apply("web", &more, json!({"serviceAccountName": "deployer", "install": {"retries": 0}})).await;
    let missing = [
        "get, create, patch clusterroles.rbac.authorization.k8s.io (identity-missing-role)",
        "get, create, patch configmaps in identity-missing (settings)",
        "create deployments.apps in identity-missing (web)",
        "get, create, delete secrets in identity-missing (hooked)",
        "get, create, patch services in identity-missing (web)",
    ];
    // What was granted may not be known at first.
    let held = h
        .sees("SherpackRelease/web", |release| {
            let told = message(release);
            missing.iter().all(|missing| told.contains(missing))
        })
        .await;
    let told = message(&held);
    assert!(told.starts_with("the service account identity-missing/deployer lacks rights"), "{told}");
    let ready = condition(&held, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("Forbidden")));
    assert_eq!(condition(&held, "Reconciling")["status"], "True", "it is tried again");
    assert!(h.records("web").await.is_empty(), "a revision was made");
    assert_untouched(&h, mark);

    // Half of it: the rest is told, and still nothing is touched.
    let apps = rule(&["apps"], &["deployments"], &ALL);
    h.grant("deployer", &[rule(&[""], &["configmaps"], &ALL), apps.clone()]).await;
    h.sees("SherpackRelease/web", |release| {
        let message = message(release);
        message.contains("services") && !message.contains("configmaps") && !message.contains("deployments")
    })
    .await;
    assert_untouched(&h, mark);

    may_write_cluster_roles(&h).await;
    h.grant("deployer", &[rule(&[""], &["configmaps", "services", "secrets"], &ALL), apps]).await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    h.objects.get("ClusterRole/identity-missing-role").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_missing_right_stops_an_upgrade_and_the_deployed_revision_stays_locked() {
    let h = Harness::new("identity-prune").await;
    h.account("deployer").await;
    let no_delete = rule(&[""], &["services"], &["get", "create", "patch"]);
    h.grant("deployer", &[rule(&[""], &["configmaps"], &ALL), no_delete]).await;
    h.deploy("web", &pack(), json!({"serviceAccountName": "deployer"})).await;

    let mark = h.wire.mark();
    let without_service = Pack::new("web", "2.0.0").object(config_map("settings", json!({"color": "white"})));
    h.pack("web-pack", &without_service).await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    assert!(
        message(&held).ends_with("missing: delete services in identity-prune (web)"),
        "{}",
        message(&held)
    );
    assert_untouched(&h, mark);
    assert_eq!(condition(&held, "Released")["status"], "True");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows_states("web", &["1 deployed"]).await;

    h.grant("deployer", &enough()).await;
    h.gone("Service/web").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uninstall_begins_when_the_account_may_delete_everything() {
    let h = Harness::new("identity-uninstall").await;
    h.account("deployer").await;
    let no_delete = rule(&[""], &["services"], &["get", "create", "patch"]);
    h.grant("deployer", &[rule(&[""], &["configmaps"], &ALL), no_delete]).await;
    h.deploy("web", &pack(), json!({"serviceAccountName": "deployer"})).await;
    let mark = h.wire.mark();
    h.objects.delete("SherpackRelease/web").await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&held).contains("delete services in identity-uninstall (web)"), "{}", message(&held));
    assert_untouched(&h, mark);
    h.grant("deployer", &enough()).await;
    h.gone("SherpackRelease/web").await;
    for what in ["ConfigMap/settings", "Service/web"] {
        assert!(h.objects.find(what).await.is_none(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_account_may_not_read_stays_unread_although_another_release_has_read_it() {
    let h = Harness::new("identity-sources").await;
    let own = [rule_for("configmaps", &["web-settings"], &ALL)];
    let everything = [rule(&[""], &["configmaps"], &ALL), rule(&[""], &["secrets"], &["get"])];
    for (account, rules) in [("reader", &everything[..]), ("stranger", &own[..])] {
        h.account(account).await;
        h.grant(account, rules).await;
    }
    h.objects.create(PERSON, secret("values", json!({"values.yaml": "color: hunter2"}))).await;
    let named = Pack::new("web", "1.0.0")
        .object(config_map("{{ release.name }}-settings", json!({"color": "{{ values.color }}"})));
    let values = json!([
        {"kind": "Secret", "name": "values"}, {"kind": "Secret", "name": "none", "optional": true},
    ]);
    // Read by an account that may and by the operator, and both keep it.
    let as_reader = json!({"valuesFrom": values, "serviceAccountName": "reader"});
    h.deploy("first", &named, as_reader).await;
    let source = json!({"configMap": {"name": "first-pack"}});
    h.release("second", json!({"pack": source, "valuesFrom": values})).await;
    h.ready("second").await;

    let mark = h.wire.mark();
    h.release("web", json!({"pack": source, "valuesFrom": values, "serviceAccountName": "stranger"})).await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    let missing = "missing: get configmaps in identity-sources (first-pack); \
                   get secrets in identity-sources (none, values)";
    assert!(message(&held).ends_with(missing), "{}", message(&held));
    assert!(!held.to_string().contains("hunter2"));
    assert_untouched(&h, mark);

    // One after the other: what is still missing is told, also of an object that is not there.
    let read_pack = rule_for("configmaps", &["first-pack"], &["get"]);
    h.grant("stranger", &[&own[..], std::slice::from_ref(&read_pack)].concat()).await;
    h.sees("SherpackRelease/web", |release| {
        message(release).ends_with("missing: get secrets in identity-sources (none, values)")
    })
    .await;
    let read_values = rule_for("secrets", &["values", "none"], &["get"]);
    h.grant("stranger", &[&own[..], &[read_pack, read_values]].concat()).await;
    h.ready("web").await;
    h.shows("ConfigMap/web-settings", "/data/color", "hunter2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_not_there_is_named_and_the_release_goes_on_when_it_comes() {
    let h = Harness::new("identity-absent").await;
    h.operator_ready().await;
    // Bindings are by name: what the account may do is no reason to act in its name while it is not there.
    h.grant("deployer", &enough()).await;
    let mark = h.wire.mark();
    h.apply("web", &pack(), json!({"serviceAccountName": "deployer"})).await;
    let held = h.condition("web", "Ready", "False", Some("ServiceAccountNotFound")).await;
    assert!(message(&held).contains("identity-absent/deployer"), "{}", message(&held));
    assert_untouched(&h, mark);
    assert!(h.wire.since(mark).iter().all(|request| request.user.is_none()), "somebody acted as it");
    h.account("deployer").await;
    h.ready("web").await;

    // Gone again: nothing is put back in its name, and what is deployed stays.
    h.objects.delete("ServiceAccount/deployer").await;
    h.condition("web", "Ready", "False", Some("ServiceAccountNotFound")).await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pass("web").await;
    assert!(h.wire.since(mark).iter().all(|request| request.user.is_none()), "somebody acted as it");
    h.account("deployer").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_account_takes_over_at_once_and_makes_no_revision() {
    let h = Harness::new("identity-changed").await;
    for account in ["first", "second"] {
        h.account(account).await;
        h.grant(account, &enough()).await;
    }
    h.deploy("web", &pack(), json!({"serviceAccountName": "first"})).await;
    h.edit_spec("web", json!({"serviceAccountName": "second"})).await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    // The first one is not needed any more.
    h.objects.delete("ServiceAccount/first").await;
    h.objects.delete("RoleBinding/first").await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.edit_spec("web", json!({"values": {"color": "white"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "white").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.edit_spec("web", json!({"serviceAccountName": null})).await;
    h.ready("web").await;
    let acted: Vec<Request> =
        h.wire.writes_since(mark).into_iter().filter(|request| request.is_about("configmaps")).collect();
    assert!(!acted.is_empty() && acted.iter().all(|request| request.user == h.user("second")));
    // As the operator again.
    let mark = h.wire.mark();
    h.uninstall("web").await;
    assert!(h.wire.writes_to("configmaps/settings", mark).iter().all(|request| request.user.is_none()));
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_look_up_what_the_account_may_read() {
    let h = Harness::new("identity-lookup").await;
    h.account("deployer").await;
    h.grant("deployer", &enough()).await;
    h.objects.create(PERSON, secret("token", json!({"token": "hunter2"}))).await;
    let seen = "{{ lookup('v1', 'Secret', '', 'token').data.token }}";
    let pack = Pack::new("web", "1.0.0").object(config_map("settings", json!({"seen": seen})));
    h.apply("web", &pack, json!({"serviceAccountName": "deployer"})).await;
    let held = h.condition("web", "Ready", "False", Some("LookupForbidden")).await;
    let told = message(&held);
    assert!(told.contains("system:serviceaccount:identity-lookup:deployer"), "{told}");
    assert!(told.contains("\"secrets\""), "{told}");
    let token = rule_for("secrets", &["token"], &["get"]);
    h.grant("deployer", &[enough(), vec![token]].concat()).await;
    h.ready("web").await;
    h.shows("ConfigMap/settings", "/data/seen", "aHVudGVyMg==").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_taken_away_later_ends_in_the_same_word_and_its_return_is_noticed() {
    let h = Harness::new("identity-revoked").await;
    h.account("deployer").await;
    h.grant("deployer", &enough()).await;
    h.deploy("web", &pack(), json!({"serviceAccountName": "deployer"})).await;
    // What is known of the account's rights says that this will do.
    let read_only = [rule(&[""], &["configmaps"], &["get"]), rule(&[""], &["services"], &ALL)];
    h.grant("deployer", &read_only).await;
    eventually("the right is gone", async || !h.may("deployer", "patch", "configmaps").await).await;
    h.edit_spec("web", json!({"values": {"color": "white"}})).await;
    let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
    assert!(message(&held).contains("configmaps"), "{}", message(&held));
    h.grant("deployer", &enough()).await;
    h.shows("ConfigMap/settings", "/data/color", "white").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_namespace_of_a_release_is_made_by_its_account() {
    let h = Harness::new("identity-namespace").await;
    h.account("deployer").await;
    h.grant("deployer", &enough()).await;
    let target = "identity-namespace-made";
    let more = json!({
        "serviceAccountName": "deployer", "targetNamespace": target, "createNamespace": true,
    });
    h.apply("web", &pack(), more).await;
    // What was granted may not be known at first.
    let held = h
        .sees("SherpackRelease/web", |release| {
            let told = message(release);
            told.contains(&format!("create namespaces ({target})"))
                && told.contains(&format!("get, create, patch services in {target}"))
                && told.contains(&format!("get, list, create, update, patch, delete secrets in {target}"))
        })
        .await;
    let ready = condition(&held, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("Forbidden")));
    assert!(h.objects.find(&format!("Namespace/{target}")).await.is_none());

    let everywhere = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": h.namespace},
        "rules": [
            rule(&[""], &["configmaps", "services", "namespaces"], &ALL),
            // The revisions stand there too.
            rule(&[""], &["secrets"], &RECORDS),
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": h.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": h.namespace},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": h.namespace}],
    });
    h.objects.create(PERSON, everywhere).await;
    h.objects.create(PERSON, binding).await;
    h.ready("web").await;
    let made =
        h.wire.writes_to("namespaces", 0).into_iter().find(|request| request.path == "/api/v1/namespaces");
    assert_eq!(made.expect("the namespace was made").user, h.user("deployer"));

    // One that is not there and that nobody makes has its own word, whatever rights the account lacks in it.
    h.release("other", json!({
        "pack": {"configMap": {"name": "web-pack"}}, "serviceAccountName": "lost", "targetNamespace": "identity-nowhere",
    }))
    .await;
    h.account("lost").await;
    h.grant("lost", &[rule(&[""], &["configmaps"], &["get"])]).await;
    h.condition("other", "Ready", "False", Some("NamespaceNotFound")).await;
    eventually("nothing is made of it", async || h.records("other").await.is_empty()).await;
}
