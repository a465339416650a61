//! Service accounts in whose name the releases are worked on.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::failure::{During, Result};

fn account(index: usize) -> String {
    format!("deployer-{index}")
}

/// Makes so many accounts, each with the rights that the workload needs and no more.
pub(crate) async fn make(client: &Client, namespace: &str, accounts: usize) -> Result<()> {
    let verbs = ["get", "create", "patch", "delete"];
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps", "services", "serviceaccounts"], "verbs": verbs},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": verbs},
        {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": verbs},
    ]);
    make_with(client, namespace, accounts, &rules).await
}

/// Makes so many accounts with these rights.
pub(crate) async fn make_with(
    client: &Client,
    namespace: &str,
    accounts: usize,
    rules: &Value,
) -> Result<()> {
    for index in 0..accounts {
        let name = account(index);
        let binding = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        });
        apply(client, namespace, ("", "v1", "ServiceAccount"), &name, json!({})).await?;
        let rbac = |kind| ("rbac.authorization.k8s.io", "v1", kind);
        apply(client, namespace, rbac("Role"), &name, json!({"rules": rules})).await?;
        apply(client, namespace, rbac("RoleBinding"), &name, binding).await?;
    }
    Ok(())
}

async fn apply(
    client: &Client,
    namespace: &str,
    (group, version, kind): (&str, &str, &str),
    name: &str,
    mut body: Value,
) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    body["apiVersion"] = json!(resource.api_version);
    body["kind"] = json!(kind);
    body["metadata"] = json!({"name": name});
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let params = PatchParams::apply("sherpack-stage").force();
    api.patch(name, &params, &Patch::Apply(&body)).await.during(format!("{kind} {name}"))?;
    Ok(())
}

/// Spreads the releases over the accounts; without any they stay the operator's.
pub(crate) fn name_one(release: &mut DynamicObject, index: usize, accounts: usize) {
    if let Some(number) = index.checked_rem(accounts) {
        release.data["spec"]["serviceAccountName"] = json!(account(number));
    }
}
