//! Service accounts of tests and what they may do.

use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::Harness;
use super::harness::PERSON;

/// Verbs that the operator needs on what it installs, upgrades and removes.
pub const ALL: [&str; 4] = ["get", "create", "patch", "delete"];

/// Verbs that an account needs on what holds revision records in another namespace than the release's own.
pub const RECORDS: [&str; 6] = ["get", "list", "create", "update", "patch", "delete"];

/// A rule of a role.
#[must_use]
pub fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// A rule for some objects only.
#[must_use]
pub fn rule_for(resource: &str, names: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "resourceNames": names, "verbs": verbs})
}

impl Harness {
    /// A service account in the namespace of the test.
    pub async fn account(&self, name: &str) {
        let body = json!({"metadata": {"labels": {"made-by": "test"}}});
        self.objects.server_side_apply(&format!("ServiceAccount/{name}"), PERSON, body).await;
    }

    /// Sets all that an account of the namespace may do there.
    pub async fn grant(&self, account: &str, rules: &[Value]) {
        self.grant_in(&self.namespace, account, rules).await;
    }

    /// The same in another namespace.
    pub async fn grant_in(&self, namespace: &str, account: &str, rules: &[Value]) {
        let objects = self.objects.elsewhere(namespace);
        objects.server_side_apply(&format!("Role/{account}"), PERSON, json!({"rules": rules})).await;
        let binding = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.namespace}],
        });
        objects.server_side_apply(&format!("RoleBinding/{account}"), PERSON, binding).await;
    }

    /// Whether an account of the namespace may do this there, as the API server says now.
    pub async fn may(&self, account: &str, verb: &str, resource: &str) -> bool {
        self.may_in(&self.namespace, account, verb, resource).await
    }

    /// The same in another namespace.
    pub async fn may_in(&self, namespace: &str, account: &str, verb: &str, resource: &str) -> bool {
        use k8s_openapi::api::authorization::v1::{
            ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
        };
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (resource, None),
        };
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: self.user(account),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
        answer.status.is_some_and(|status| status.allowed)
    }

    /// The user name under which the API server knows an account.
    #[must_use]
    pub fn user(&self, account: &str) -> Option<String> {
        Some(format!("system:serviceaccount:{}:{account}", self.namespace))
    }
}
