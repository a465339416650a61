//! As whom a release is worked on, and which other namespaces it may speak of.
//!
//! Kubernetes' RBAC decides what a service account may do, also in other namespaces. What is refused here is what no
//! account is asked about: references that the operator follows as itself.

use super::policy::{ActsAs, Policy, Tenancy, is_account_name};
use crate::api::{Invalid, Lock, PackSource, SherpackRelease, reasons};

/// As whom the release is worked on, for any release: deletion does not wait for an author who repairs the spec.
#[must_use]
pub fn acts_as(release: &SherpackRelease, policy: &Policy) -> ActsAs {
    let named = release.spec.service_account_name.as_deref();
    match named.or(policy.default_service_account.as_deref()) {
        Some(name) if is_account_name(name) => ActsAs::ServiceAccount(name.to_owned()),
        Some(_) => ActsAs::Nobody,
        None if policy.tenancy == Tenancy::Multi => ActsAs::Nobody,
        None => ActsAs::Operator,
    }
}

/// [`acts_as`] for a release that is to be acted on.
///
/// # Errors
/// An account that cannot exist, that is missing although the tenancy requires one, and references to other namespaces
/// where the tenancy forbids them.
pub(super) fn checked(release: &SherpackRelease, policy: &Policy) -> Result<ActsAs, Invalid> {
    if let Some(name) = release.spec.service_account_name.as_deref().filter(|name| !is_account_name(name)) {
        let message = format!("`{name}` is no name for a service account: use a-z, 0-9, `-` and dots");
        return Err(refused(reasons::INVALID_SPEC, "spec.serviceAccountName", message));
    }
    let acts_as = acts_as(release, policy);
    if acts_as == ActsAs::Nobody {
        let message = "is required, because the operator runs with --tenancy=multi and without --default-service-account: name a service account of this namespace";
        let field = "spec.serviceAccountName";
        return Err(refused(reasons::SERVICE_ACCOUNT_REQUIRED, field, message.to_owned()));
    }
    if policy.tenancy == Tenancy::Multi {
        stay_in_namespace(release)?;
    }
    Ok(acts_as)
}

/// Refuses references to other namespaces; those of `spec.dependsOn` are refused where they are read. `spec.targetNamespace` is none: whatever is done there, the account does.
fn stay_in_namespace(release: &SherpackRelease) -> Result<(), Invalid> {
    let own = release.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &release.spec;
    let mut named: Vec<(String, Option<&str>)> = Vec::new();
    if let Some(Lock { helm_release, sherpack_release }) = &spec.lock {
        for (field, of) in [("helmRelease", helm_release), ("sherpackRelease", sherpack_release)] {
            let namespace = of.as_ref().and_then(|of| of.namespace.as_deref());
            named.push((format!("spec.lock.{field}.namespace"), namespace));
        }
    }
    if let Some(PackSource { artifact: Some(artifact), .. }) = &spec.pack {
        named.push(("spec.pack.artifact.namespace".to_owned(), artifact.namespace.as_deref()));
    }
    let history = spec.history.as_ref().and_then(|history| history.namespace.as_deref());
    named.push((
        "spec.history.namespace".to_owned(),
        history.filter(|history| *history != release.target_namespace()),
    ));
    match named.into_iter().find(|(_, namespace)| namespace.is_some_and(|namespace| namespace != own)) {
        None => Ok(()),
        Some((field, namespace)) => Err(elsewhere(&field, namespace.unwrap_or_default(), own)),
    }
}

/// The refusal of a reference to another namespace than the release's own.
pub(super) fn elsewhere(field: &str, namespace: &str, own: &str) -> Invalid {
    let message = format!(
        "`{namespace}` is another namespace than {own}, and the operator runs with --tenancy=multi: remove the field"
    );
    refused(reasons::CROSS_NAMESPACE_REFUSED, field, message)
}

fn refused(reason: &'static str, field: &str, message: String) -> Invalid {
    Invalid { reason, field: field.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn release(spec: Value) -> SherpackRelease {
        let mut object = json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps"}, "spec": {"pack": {"configMap": {"name": "p"}}},
        });
        json_patch::merge(&mut object["spec"], &spec);
        serde_json::from_value(object).unwrap()
    }

    fn policy(tenancy: Tenancy, default: Option<&str>) -> Policy {
        Policy { tenancy, default_service_account: default.map(str::to_owned), ..Policy::default() }
    }

    fn account(name: &str) -> ActsAs {
        ActsAs::ServiceAccount(name.to_owned())
    }

    #[test]
    fn the_account_is_the_release_s_own_then_the_default_then_as_the_tenancy_says() {
        use Tenancy::{Multi, Single};
        let (named, unnamed) = (json!({"serviceAccountName": "deployer"}), json!({}));
        let table = [
            (&named, Single, None, account("deployer")),
            (&named, Single, Some("default-deployer"), account("deployer")),
            (&named, Multi, None, account("deployer")),
            (&unnamed, Single, Some("default-deployer"), account("default-deployer")),
            (&unnamed, Multi, Some("default-deployer"), account("default-deployer")),
            (&unnamed, Single, None, ActsAs::Operator),
            (&unnamed, Multi, None, ActsAs::Nobody),
        ];
        for (spec, tenancy, default, expected) in table {
            let (release, policy) = (release(spec.clone()), policy(tenancy, default));
            assert_eq!(acts_as(&release, &policy), expected, "{spec} {policy:?}");
            match checked(&release, &policy) {
                Ok(found) => assert_eq!(found, expected),
                Err(invalid) => {
                    assert_eq!(expected, ActsAs::Nobody);
                    assert_eq!(invalid.reason(), reasons::SERVICE_ACCOUNT_REQUIRED);
                    assert_eq!(invalid.field, "spec.serviceAccountName");
                }
            }
        }
    }

    #[test]
    fn a_name_that_no_account_can_have_is_refused_and_acts_as_nobody() {
        for name in ["", "A", "a b", "a\nb", "a:b", "a..b", "-a", &"a".repeat(254)] {
            let release = release(json!({"serviceAccountName": name}));
            let policy = policy(Tenancy::Single, Some("default-deployer"));
            assert_eq!(checked(&release, &policy).unwrap_err().reason(), reasons::INVALID_SPEC, "{name:?}");
            assert_eq!(acts_as(&release, &policy), ActsAs::Nobody, "{name:?}");
        }
        assert!(is_account_name("deployer") && is_account_name("a.b-c.0"));
    }

    #[test]
    fn references_to_other_namespaces_are_refused_in_multi_tenancy_only() {
        let references = [
            (
                "spec.lock.helmRelease.namespace",
                json!({"pack": null, "lock": {"helmRelease": {"name": "a", "namespace": "other"}}}),
            ),
            (
                "spec.lock.sherpackRelease.namespace",
                json!({"pack": null, "lock": {"sherpackRelease": {"name": "a", "namespace": "other"}}}),
            ),
            (
                "spec.pack.artifact.namespace",
                json!({"pack": {"configMap": null, "artifact": {"kind": "Bucket", "name": "a", "namespace": "other"}}}),
            ),
            ("spec.history.namespace", json!({"history": {"namespace": "other"}})),
            (
                "spec.history.namespace",
                json!({"targetNamespace": "third", "history": {"namespace": "other"}}),
            ),
        ];
        for (field, spec) in references {
            let elsewhere = release(spec.clone());
            checked(&elsewhere, &policy(Tenancy::Single, Some("deployer"))).unwrap();
            let refused = checked(&elsewhere, &policy(Tenancy::Multi, Some("deployer"))).unwrap_err();
            assert_eq!((refused.reason(), refused.field.as_str()), (reasons::CROSS_NAMESPACE_REFUSED, field));
            assert!(refused.message.contains("`other`"), "{refused}");
        }
        let inside = [
            json!({"dependsOn": [{"name": "a", "namespace": "apps"}]}),
            json!({"targetNamespace": "other"}),
            json!({"targetNamespace": "other", "history": {"namespace": "other"}}),
            json!({"targetNamespace": "other", "history": {"namespace": "apps"}}),
        ];
        for spec in inside {
            checked(&release(spec), &policy(Tenancy::Multi, Some("deployer"))).unwrap();
        }
    }
}
