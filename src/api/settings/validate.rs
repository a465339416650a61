//! From what a user wrote to what the operator acts on: parsed once; no other code reads the raw spec.
//!
//! The API server refuses most of this already (schema and CEL); it is checked again because objects can be older
//! than the rules, and because a few things cannot be said there.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::attempts::{Installs, Upgrades};
use super::drift::Guarded;
use super::history::Kept;
use super::policy::Policy;
use super::resolved::{
    CrdSettings, INTERVAL, Requests, Settings, TIMEOUT, TestSettings, UninstallSettings, WAVE_TIMEOUT,
    WaveSettings,
};
use super::sources::{self, PackFrom, Signatures};
use super::values::values_sources;
use super::{dependencies, lock, tenancy};
use crate::api::bounds::Bounds;
use crate::api::names::{
    ACCEPT_RECORD, APPROVE, DRIFT_PAUSE_UNTIL, RECONCILE_AT, RELEASE_NAME_MAX, RESET_AT, TEST_AT,
    is_dns_label,
};
use crate::api::{Crds, Invalid, SherpackRelease, SherpackReleaseSpec, Test, Uninstall, Waves};

/// Resolves a release into settings.
///
/// # Errors
/// `InvalidSpec` for a value that makes no sense, or what the tenancy refuses; it names the field.
#[expect(clippy::too_many_lines, reason = "a table: each field of the spec, and what it becomes")]
pub fn validate(release: &SherpackRelease, policy: &Policy) -> Result<Settings, Invalid> {
    // Without `..`: a new field does not compile until its meaning here is decided.
    let SherpackReleaseSpec {
        pack,
        lock,
        release_name: _,
        target_namespace: _,
        create_namespace,
        values,
        values_from,
        // Read by `dependencies`.
        depends_on: _,
        // `tenancy::checked` reads it.
        service_account_name: _,
        suspend,
        interval,
        timeout,
        wait,
        waves,
        install,
        upgrade,
        rollback_to,
        test,
        uninstall,
        crds,
        // `Guarded` reads it.
        drift: _,
        // `Kept` reads it.
        history: _,
        approval,
    } = &release.spec;
    let install = Installs::of(install.as_ref())?;
    let upgrade = Upgrades::of(upgrade.as_ref())?;
    if pack.is_some() == lock.is_some() {
        return Err(Invalid::spec("spec.pack", "set exactly one of spec.pack and spec.lock"));
    }
    let (pack, signatures) = match pack {
        Some(pack) => sources::checked(pack, policy)?,
        // Beside a lock there is no pack.
        None => (PackFrom::nowhere(), Signatures::Unasked),
    };
    let lock = lock.as_ref().map(|lock| lock::checked(release, lock)).transpose()?;
    let values_from = values_sources(values_from.as_deref().unwrap_or_default())?;
    let release_name = checked_release_name(release)?;
    let target_namespace = checked_target_namespace(release)?;
    let mut bounds = Bounds::default();
    let interval = bounds.interval("spec.interval", interval.as_deref(), INTERVAL)?;
    let timeout = bounds.timeout("spec.timeout", timeout.as_deref(), TIMEOUT)?;
    let uninstall = uninstall_from(uninstall.as_ref(), &mut bounds)?;
    let requests = requests(release)?;
    let depends_on = dependencies(release, policy)?;
    let history = Kept::of(release, policy)?;
    let waves = wave_settings(waves.as_ref(), *wait, &mut bounds)?;
    if *rollback_to == Some(0) {
        return Err(Invalid::spec("spec.rollbackTo", "is no revision: write a number from 1"));
    }
    let crds = checked_crds(crds.as_ref(), &mut bounds)?;
    let acts_as = tenancy::checked(release, policy)?;
    let drift = Guarded::of(release, policy)?;
    Ok(Settings {
        release_name,
        target_namespace,
        create_namespace: create_namespace.unwrap_or(false),
        pack,
        signatures,
        lock,
        values: Value::Object(values.clone().unwrap_or_default()),
        values_from,
        depends_on,
        acts_as,
        suspend: suspend.unwrap_or(false),
        interval,
        timeout,
        wait: wait.unwrap_or(true),
        waves,
        install_retries: install.retries,
        install_retry_interval: install.retry_interval,
        uninstall_on_failure: install.uninstall_on_failure,
        adopt: install.adopt,
        upgrade_retries: upgrade.retries,
        upgrade_retry_interval: upgrade.retry_interval,
        rollback_on_failure: upgrade.rollback_on_failure,
        immutable_fields: upgrade.immutable_fields,
        paused: upgrade.paused,
        rollback_to: *rollback_to,
        test: test_settings(test.as_ref()),
        uninstall,
        crds,
        history_limit: history.limit,
        history_storage: history.storage,
        history_namespace: history.namespace,
        compression: history.compression,
        large: history.large,
        drift: drift.mode,
        strict: drift.strict,
        ignore: Some(drift.ignore),
        approval: approval.unwrap_or_default(),
        requests,
        bounded: bounds.bounded,
    })
}

fn wave_settings(
    waves: Option<&Waves>,
    wait: Option<bool>,
    bounds: &mut Bounds,
) -> Result<WaveSettings, Invalid> {
    let Waves { wait: between, timeout } = waves.cloned().unwrap_or_default();
    let timeout = timeout.map(|timeout| bounds.timeout("spec.waves.timeout", Some(&timeout), WAVE_TIMEOUT));
    Ok(WaveSettings { wait: between.or(wait).unwrap_or(true), timeout: timeout.transpose()? })
}

fn test_settings(test: Option<&Test>) -> TestSettings {
    let Test { enabled, ignore_failures } = test.cloned().unwrap_or_default();
    TestSettings { enabled: enabled.unwrap_or(false), ignore_failures: ignore_failures.unwrap_or(false) }
}

/// What happens on deletion, for any release: deletion must not wait for an author who repairs the spec, so an
/// unreadable timeout counts as unset.
#[must_use]
pub fn uninstall_settings(release: &SherpackRelease) -> UninstallSettings {
    let uninstall = release.spec.uninstall.as_ref();
    uninstall_from(uninstall, &mut Bounds::default()).unwrap_or_else(|_| {
        let without_timeout = uninstall.cloned().map(|uninstall| Uninstall { timeout: None, ..uninstall });
        resolve_uninstall(without_timeout.as_ref(), TIMEOUT)
    })
}

fn checked_crds(crds: Option<&Crds>, bounds: &mut Bounds) -> Result<CrdSettings, Invalid> {
    let timeout = crds.and_then(|crds| crds.wait_timeout.as_deref());
    let timeout = timeout.map(|timeout| bounds.timeout("spec.crds.waitTimeout", Some(timeout), TIMEOUT));
    Ok(crd_settings(crds, timeout.transpose()?))
}

pub(super) fn crd_settings(crds: Option<&Crds>, wait_timeout: Option<Duration>) -> CrdSettings {
    let crds = crds.cloned().unwrap_or_default();
    let Crds {
        install,
        upgrade,
        on_uninstall,
        wait_ready,
        wait_timeout: _,
        confirm_changes,
        confirm_deletion,
    } = crds;
    CrdSettings {
        install,
        upgrade,
        on_uninstall,
        wait_ready,
        wait_timeout,
        confirm_changes: confirm_changes.unwrap_or_default(),
        confirm_deletion: confirm_deletion.unwrap_or_default(),
    }
}

fn uninstall_from(uninstall: Option<&Uninstall>, bounds: &mut Bounds) -> Result<UninstallSettings, Invalid> {
    let timeout = uninstall.and_then(|uninstall| uninstall.timeout.as_deref());
    Ok(resolve_uninstall(uninstall, bounds.timeout("spec.uninstall.timeout", timeout, TIMEOUT)?))
}

fn resolve_uninstall(uninstall: Option<&Uninstall>, timeout: Duration) -> UninstallSettings {
    let uninstall = uninstall.cloned().unwrap_or_default();
    let Uninstall { policy, wait, keep_history, timeout: _ } = uninstall;
    UninstallSettings {
        policy: policy.unwrap_or_default(),
        wait: wait.unwrap_or(true),
        keep_history: keep_history.unwrap_or(false),
        timeout,
    }
}

fn checked_release_name(release: &SherpackRelease) -> Result<String, Invalid> {
    let name = release.release_name();
    let unset = release.spec.release_name.is_none();
    let field = if unset { "metadata.name" } else { "spec.releaseName" };
    let cure = if unset { "; set spec.releaseName to give the release another name" } else { "" };
    if name.len() > RELEASE_NAME_MAX {
        let length = name.len();
        let message =
            format!("`{name}` has {length} characters, a release's name at most {RELEASE_NAME_MAX}{cure}");
        return Err(Invalid::spec(field, message));
    }
    if !is_dns_label(name) {
        let message = format!(
            "`{name}` is no name for a release: use a-z, 0-9 and `-`, with a letter or digit at both ends{cure}"
        );
        return Err(Invalid::spec(field, message));
    }
    Ok(name.to_owned())
}

fn checked_target_namespace(release: &SherpackRelease) -> Result<String, Invalid> {
    let namespace = release.target_namespace();
    if is_dns_label(namespace) {
        return Ok(namespace.to_owned());
    }
    let unset = release.spec.target_namespace.is_none();
    let field = if unset { "metadata.namespace" } else { "spec.targetNamespace" };
    let message = format!(
        "`{namespace}` is no name for a namespace: use at most 63 of a-z, 0-9 and `-`, with a letter or digit at both ends"
    );
    Err(Invalid::spec(field, message))
}

pub(super) fn requests(release: &SherpackRelease) -> Result<Requests, Invalid> {
    let annotation = |name: &str| release.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let drift_pause_until = annotation(DRIFT_PAUSE_UNTIL)
        .map(|text| {
            text.parse::<Timestamp>().map_err(|error| {
                let field = format!("metadata.annotations[{DRIFT_PAUSE_UNTIL}]");
                let message = format!("`{text}` is no RFC 3339 time such as 2030-01-31T12:00:00Z: {error}");
                Invalid::spec(&field, message)
            })
        })
        .transpose()?;
    Ok(Requests {
        approve: annotation(APPROVE).cloned(),
        accept_record: annotation(ACCEPT_RECORD).cloned(),
        reconcile_at: annotation(RECONCILE_AT).cloned(),
        reset_at: annotation(RESET_AT).cloned(),
        test_at: annotation(TEST_AT).cloned(),
        drift_pause_until,
    })
}

#[cfg(test)]
#[path = "validate_tests.rs"]
pub(super) mod tests;
