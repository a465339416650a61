//! `spec.lock`: what it names, and what means nothing beside it.

use super::resolved::{Installer, LockOf};
use crate::api::names::{RELEASE_NAME_MAX, is_dns_label};
use crate::api::{Invalid, Lock, SherpackRelease, SherpackReleaseSpec};

/// What a release locks, if it locks anything that can be.
#[must_use]
pub fn lock_of(release: &SherpackRelease) -> Option<LockOf> {
    checked(release, release.spec.lock.as_ref()?).ok()
}

/// [`lock_of`], whatever the rest of the spec says: a release keeps what it has locked while its spec is invalid.
#[must_use]
pub fn lock_named(release: &SherpackRelease) -> Option<LockOf> {
    named(release, release.spec.lock.as_ref()?).ok()
}

/// What is to be locked.
///
/// # Errors
/// A name that no release can have; not exactly one release; a field that only says how a pack is installed.
pub(super) fn checked(release: &SherpackRelease, lock: &Lock) -> Result<LockOf, Invalid> {
    let of = named(release, lock)?;
    if let Some(field) = meaningless(&release.spec) {
        let message = "means nothing beside spec.lock, which installs nothing: remove it";
        return Err(Invalid::spec(field, message));
    }
    Ok(of)
}

/// What is to be locked, whatever the rest of the spec says.
///
/// # Errors
/// A name that no release can have; not exactly one release.
pub(super) fn named(release: &SherpackRelease, lock: &Lock) -> Result<LockOf, Invalid> {
    let Lock { helm_release, sherpack_release } = lock;
    let (installer, field, of) = match (helm_release, sherpack_release) {
        (Some(of), None) => (Installer::Helm, "helmRelease", of),
        (None, Some(of)) => (Installer::Sherpack, "sherpackRelease", of),
        _ => {
            let message = "set exactly one of helmRelease and sherpackRelease";
            return Err(Invalid::spec("spec.lock", message));
        }
    };
    // Helm allows dots in the name of a release.
    let plain = |name: &str| name.len() <= RELEASE_NAME_MAX && name.split('.').all(is_dns_label);
    if !plain(&of.name) {
        let message = format!("`{}` is no name of a release", of.name);
        return Err(Invalid::spec(&format!("spec.lock.{field}.name"), message));
    }
    let namespace = of.namespace.as_deref().or(release.metadata.namespace.as_deref()).unwrap_or_default();
    if !is_dns_label(namespace) {
        let message = format!("`{namespace}` is no name of a namespace");
        return Err(Invalid::spec(&format!("spec.lock.{field}.namespace"), message));
    }
    Ok(LockOf { installer, namespace: namespace.to_owned(), name: of.name.clone() })
}

/// The first field that is set although nothing is installed. What is set and ignored would be a promise.
fn meaningless(spec: &SherpackReleaseSpec) -> Option<&'static str> {
    // Without `..`: a new field does not compile until its meaning is decided beside a lock.
    let SherpackReleaseSpec {
        pack: _,
        lock: _,
        release_name,
        target_namespace,
        create_namespace,
        values,
        values_from,
        depends_on,
        service_account_name: _,
        suspend: _,
        interval: _,
        timeout,
        wait,
        waves,
        install,
        upgrade,
        rollback_to,
        test,
        uninstall,
        crds,
        drift: _,
        history,
        approval,
    } = spec;
    let table = [
        ("spec.releaseName", release_name.is_some()),
        ("spec.targetNamespace", target_namespace.is_some()),
        ("spec.createNamespace", create_namespace.is_some()),
        ("spec.values", values.is_some()),
        ("spec.valuesFrom", values_from.is_some()),
        ("spec.dependsOn", depends_on.is_some()),
        ("spec.timeout", timeout.is_some()),
        ("spec.wait", wait.is_some()),
        ("spec.waves", waves.is_some()),
        ("spec.install", install.is_some()),
        ("spec.upgrade", upgrade.is_some()),
        ("spec.rollbackTo", rollback_to.is_some()),
        ("spec.test", test.is_some()),
        ("spec.uninstall", uninstall.is_some()),
        ("spec.crds", crds.is_some()),
        ("spec.history", history.is_some()),
        ("spec.approval", approval.is_some()),
    ];
    table.into_iter().find_map(|(path, set)| set.then_some(path))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::{Policy, reasons, validate};

    fn release(spec: Value) -> SherpackRelease {
        let object = json!({
            "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
            "metadata": {"name": "web", "namespace": "apps"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_lock_names_one_release_of_one_installer() {
        let lock = |lock: Value| validate(&release(json!({ "lock": lock })), &Policy::default());
        let found = |asked: Value| lock(asked).unwrap().lock.unwrap().to_string();
        assert_eq!(found(json!({"helmRelease": {"name": "shop"}})), "the Helm release apps/shop");
        assert_eq!(
            found(json!({"helmRelease": {"name": "a.b", "namespace": "x"}})),
            "the Helm release x/a.b"
        );
        assert_eq!(found(json!({"sherpackRelease": {"name": "shop"}})), "the Sherpack release apps/shop");
        let refused = |asked: Value| lock(asked).unwrap_err().field;
        assert_eq!(refused(json!({})), "spec.lock");
        assert_eq!(
            refused(json!({"helmRelease": {"name": "a"}, "sherpackRelease": {"name": "a"}})),
            "spec.lock"
        );
        assert_eq!(refused(json!({"helmRelease": {"name": "A"}})), "spec.lock.helmRelease.name");
        assert_eq!(refused(json!({"helmRelease": {"name": "a/b"}})), "spec.lock.helmRelease.name");
        let namespace = json!({"sherpackRelease": {"name": "a", "namespace": "a.b"}});
        assert_eq!(refused(namespace), "spec.lock.sherpackRelease.namespace");
    }

    #[test]
    fn what_says_how_a_pack_is_installed_is_refused_beside_a_lock() {
        let with = |more: Value| {
            let mut spec = json!({"lock": {"helmRelease": {"name": "h"}}});
            json_patch::merge(&mut spec, &more);
            validate(&release(spec), &Policy::default())
        };
        for (field, more) in [
            ("spec.values", json!({"values": {"a": 1}})),
            ("spec.upgrade", json!({"upgrade": {"paused": true}})),
            ("spec.uninstall", json!({"uninstall": {"policy": "Delete"}})),
            ("spec.dependsOn", json!({"dependsOn": [{"name": "db"}]})),
        ] {
            let invalid = with(more).unwrap_err();
            assert_eq!((invalid.field.as_str(), invalid.reason()), (field, reasons::INVALID_SPEC));
        }
        let drift = json!({"ignore": [{"paths": ["/spec/replicas"]}], "strict": {"managers": ["kubectl"]}});
        with(json!({ "drift": drift })).unwrap();
        with(json!({"suspend": true, "drift": {"mode": "Warn"}, "serviceAccountName": "a"})).unwrap();
    }
}
