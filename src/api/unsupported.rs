//! What the API names and the operator does not do yet.
//!
//! [`asked_for`] is the one table. When a feature lands, its line goes and `validate` resolves the field instead.
//! A value that equals the documented default asks for nothing, so it is let through.

use super::names::TEST_AT;
use super::{
    Approval, Crds, Drift, ImmutableFields, Install, InstallFailure, PackSource, SherpackRelease,
    SherpackReleaseSpec, StrictDrift, Test, Uninstall, Upgrade, UpgradeFailure, Waves, duration,
};

/// Default of `spec.waves.timeout`.
const WAVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

/// Paths of everything that the release asks for and that is not built yet, in the order of the schema.
pub(super) fn asked_for(release: &SherpackRelease) -> Vec<&'static str> {
    // Everything is destructured without `..`: a new field does not compile until it is in the table or known
    // to `validate`.
    let SherpackReleaseSpec {
        pack,
        lock,
        release_name: _,
        target_namespace: _,
        create_namespace: _,
        values: _,
        values_from: _,
        depends_on: _,
        service_account_name,
        suspend: _,
        interval: _,
        timeout: _,
        wait: _,
        waves,
        install,
        upgrade,
        rollback_to,
        test,
        uninstall,
        crds,
        drift,
        history: _,
        approval,
    } = &release.spec;
    let pack = pack.clone().unwrap_or_default();
    let PackSource { config_map: _, secret: _, http: _, repository, oci, artifact, path: _ } = &pack;
    let waves = waves.clone().unwrap_or_default();
    let Waves { wait: waves_wait, timeout: waves_timeout } = &waves;
    let install = install.clone().unwrap_or_default();
    let Install { retries: _, on_failure: install_failure, adopt: _ } = &install;
    let upgrade = upgrade.clone().unwrap_or_default();
    let Upgrade { retries: _, on_failure: upgrade_failure, immutable_fields, paused: _ } = &upgrade;
    let test = test.clone().unwrap_or_default();
    let Test { enabled: test_enabled, ignore_failures: _ } = &test;
    let uninstall = uninstall.clone().unwrap_or_default();
    let Uninstall { policy: _, wait: _, keep_history, timeout: _ } = &uninstall;
    let drift = drift.clone().unwrap_or_default();
    let Drift { mode: _, strict, ignore } = &drift;

    let table: [(&'static str, bool); 18] = [
        ("spec.pack.repository", repository.is_some()),
        ("spec.pack.oci", oci.is_some()),
        ("spec.pack.artifact", artifact.is_some()),
        ("spec.lock", lock.is_some()),
        ("spec.serviceAccountName", service_account_name.is_some()),
        ("spec.waves.wait", *waves_wait == Some(false)),
        (
            "spec.waves.timeout",
            waves_timeout.as_ref().is_some_and(|t| duration::parse(t) != Ok(WAVE_TIMEOUT)),
        ),
        ("spec.install.onFailure", differs(install_failure, InstallFailure::Retain)),
        ("spec.upgrade.onFailure", differs(upgrade_failure, UpgradeFailure::Retain)),
        ("spec.upgrade.immutableFields", differs(immutable_fields, ImmutableFields::Fail)),
        ("spec.rollbackTo", rollback_to.is_some()),
        ("spec.test.enabled", *test_enabled == Some(true)),
        ("spec.uninstall.keepHistory", *keep_history == Some(true)),
        ("spec.crds", crds.as_ref().is_some_and(says_anything)),
        ("spec.drift.strict", strict.as_ref().is_some_and(|StrictDrift { managers }| has_entries(managers))),
        ("spec.drift.ignore", has_entries(ignore)),
        ("spec.approval", differs(approval, Approval::Automatic)),
        ("metadata.annotations[sherpack.io/test-at]", has_annotation(release, TEST_AT)),
    ];
    table.into_iter().filter_map(|(path, asked)| asked.then_some(path)).collect()
}

fn differs<T: PartialEq>(field: &Option<T>, default: T) -> bool {
    field.as_ref().is_some_and(|value| *value != default)
}

fn has_entries<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

fn has_annotation(release: &SherpackRelease, name: &str) -> bool {
    release.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(name))
}

/// No field of `spec.crds` has a default of its own, so whatever is set asks for something.
fn says_anything(crds: &Crds) -> bool {
    let Crds { install, upgrade, on_uninstall, wait_ready, wait_timeout, confirm_changes, confirm_deletion } =
        crds;
    install.is_some()
        || upgrade.is_some()
        || on_uninstall.is_some()
        || wait_ready.is_some()
        || wait_timeout.is_some()
        || has_entries(confirm_changes)
        || has_entries(confirm_deletion)
}
