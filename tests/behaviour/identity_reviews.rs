//! What an account may do is asked for before anything is touched, and what was not answered counts as missing.

use serde_json::{Value, json};

use crate::support::accounts::{ALL, rule};
use crate::support::harness::condition;
use crate::support::packs::config_map;
use crate::support::wait::eventually;
use crate::support::wire::{Effect, Fault};
use crate::support::{Harness, Pack};

/// More than one try asks for, with three verbs each.
const ROLES: usize = 180;

fn pack() -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "blue"})))
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_review_that_fails_is_no_right() {
    for (name, review) in
        [("reviews-rules", "selfsubjectrulesreviews"), ("reviews-access", "selfsubjectaccessreviews")]
    {
        let h = Harness::new(name).await;
        h.operator_ready().await;
        h.account("low").await;
        h.grant("low", &[rule(&[""], &["configmaps"], &ALL)]).await;
        eventually("the rights are known", async || h.may("low", "patch", "configmaps").await).await;
        // Rights outside of namespaces are asked for one by one.
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("{name}-role")}, "rules": [],
        });
        h.wire.fault(Fault::new(Effect::Answer(500), move |request| request.is_about(review)));
        h.apply("web", &pack().object(role), json!({"serviceAccountName": "low"})).await;
        let held = h.condition("web", "Ready", "False", Some("RightsUnknown")).await;
        assert!(message(&held).contains("cannot be found out"), "{}", message(&held));
        assert!(h.records("web").await.is_empty() && h.objects.find("ConfigMap/settings").await.is_none());
        h.wire.heal();
        let held = h.condition("web", "Ready", "False", Some("Forbidden")).await;
        assert!(message(&held).contains(&format!("clusterroles.rbac.authorization.k8s.io ({name}-role)")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_are_too_many_to_be_asked_for_are_no_rights() {
    let h = Harness::new("reviews-many").await;
    h.operator_ready().await;
    h.account("low").await;
    h.grant("low", &[rule(&[""], &["configmaps"], &ALL)]).await;
    // Each by its name, so that only a question for each of them tells.
    let names: Vec<String> = (0..ROLES).map(|number| format!("reviews-many-{number:03}")).collect();
    let cluster_wide = |rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "reviews-many"}, "rules": rules,
        })
    };
    let roles = |names: Option<&[String]>| {
        json!([{
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ALL,
            "resourceNames": names,
        }])
    };
    h.objects.create("test-person", cluster_wide(roles(Some(&names)))).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reviews-many"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reviews-many"},
        "subjects": [{"kind": "ServiceAccount", "name": "low", "namespace": h.namespace}],
    });
    h.objects.create("test-person", binding).await;
    let template = format!(
        "{{% for number in range({ROLES}) %}}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
         metadata:\n  name: reviews-many-{{{{ '%03d'|format(number) }}}}\nrules: []\n{{% endfor %}}\n"
    );
    let many = pack().template("roles.yaml", &template);
    h.apply("web", &many, json!({"serviceAccountName": "low"})).await;
    let held = h
        .sees("SherpackRelease/web", |release| {
            message(release).contains("missing: not asked for, because one try")
        })
        .await;
    let told = message(&held);
    assert_eq!(condition(&held, "Ready")["reason"], "Forbidden");
    assert!(told.contains("clusterroles.rbac.authorization.k8s.io (reviews-many-17"), "{told}");
    assert!(h.records("web").await.is_empty(), "a revision was made");
    // For all names at once it takes one question for each verb.
    h.objects.edit("ClusterRole/reviews-many", "test-person", json!({"rules": roles(None)})).await;
    h.ready("web").await;
    h.uninstall("web").await;
}
