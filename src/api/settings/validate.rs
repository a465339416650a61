//! From what a user wrote to what the operator acts on: parsed once; no other code reads the raw spec.
//!
//! The API server refuses most of this already (schema and CEL); it is checked again because objects can be older
//! than the rules, and because a few things cannot be said there.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::policy::Policy;
use super::resolved::{
    CrdSettings, HISTORY_LIMIT, INTERVAL, RETRIES, Requests, Settings, TIMEOUT, TestSettings,
    UninstallSettings, WAVE_TIMEOUT, WaveSettings,
};
use super::sources::{self, Asked, PackFrom};
use super::values::values_sources;
use super::{dependencies, lock, tenancy, unsupported};
use crate::api::bounds::{Bounds, positive};
use crate::api::names::{
    ACCEPT_RECORD, APPROVE, DRIFT_PAUSE_UNTIL, RECONCILE_AT, RELEASE_NAME_MAX, RESET_AT, TEST_AT,
    is_dns_label,
};
use crate::api::{
    Crds, Drift, History, HistoryStorage, IgnoreRule, Install, InstallFailure, Invalid, SherpackRelease,
    SherpackReleaseSpec, Test, Uninstall, Upgrade, UpgradeFailure, Waves, reasons,
};

/// Resolves a release into settings.
///
/// # Errors
/// `InvalidSpec` for a value that makes no sense, then `NotSupported` for one that asks for something that is not
/// built yet; both name the field, and the latter all such fields.
pub fn validate(release: &SherpackRelease, policy: &Policy) -> Result<Settings, Invalid> {
    // Without `..`: a new field does not compile until its meaning here is decided. `_` marks what
    // `unsupported::asked_for` answers for.
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
        drift,
        history,
        approval,
    } = &release.spec;
    let install = install.clone().unwrap_or_default();
    let Install { retries: install_retries, retry_interval, on_failure: install_failure, adopt } = install;
    let install_retry_interval = retry_every("spec.install.retryInterval", retry_interval.as_deref())?;
    let upgrade = upgrade.clone().unwrap_or_default();
    let Upgrade {
        retries: upgrade_retries,
        retry_interval,
        on_failure: upgrade_failure,
        immutable_fields,
        paused,
    } = upgrade;
    let upgrade_retry_interval = retry_every("spec.upgrade.retryInterval", retry_interval.as_deref())?;
    let Test { enabled: test_enabled, ignore_failures } = test.clone().unwrap_or_default();
    let waves = waves.clone().unwrap_or_default();
    let Waves { wait: waves_wait, timeout: waves_timeout } = waves;
    let drift = drift.clone().unwrap_or_default();
    let Drift { mode, strict: _, ignore: _ } = &drift;
    let history = history.clone().unwrap_or_default();
    let History { limit, storage, namespace: _, compression, large } = history;

    if pack.is_some() == lock.is_some() {
        return Err(Invalid::spec("spec.pack", "set exactly one of spec.pack and spec.lock"));
    }
    let pack = pack.as_ref().map(|pack| sources::checked(pack, policy)).transpose()?;
    let lock = lock.as_ref().map(|lock| lock::checked(release, lock)).transpose()?;
    let values_from = values_from.as_deref().unwrap_or_default();
    let values_from = values_sources(values_from)?;
    let release_name = checked_release_name(release)?;
    let target_namespace = checked_target_namespace(release)?;
    let mut bounds = Bounds::default();
    let interval = bounds.interval("spec.interval", interval.as_deref(), INTERVAL)?;
    let timeout = bounds.timeout("spec.timeout", timeout.as_deref(), TIMEOUT)?;
    let uninstall = uninstall_from(uninstall.as_ref(), &mut bounds)?;
    let requests = requests(release)?;
    let depends_on = dependencies(release, policy)?;
    let history_limit = limit.unwrap_or(HISTORY_LIMIT);
    if history_limit == 0 {
        return Err(Invalid::spec("spec.history.limit", "is 0: at least 1 revision must be kept"));
    }
    let history_storage = storage.unwrap_or_default();
    let history_namespace = checked_history_namespace(release, policy)?;
    let waves_timeout = waves_timeout
        .map(|timeout| bounds.timeout("spec.waves.timeout", Some(&timeout), WAVE_TIMEOUT))
        .transpose()?;
    if *rollback_to == Some(0) {
        return Err(Invalid::spec("spec.rollbackTo", "is no revision: write a number from 1"));
    }
    let crd_timeout = crds.as_ref().and_then(|crds| crds.wait_timeout.as_deref());
    let crd_timeout = crd_timeout
        .map(|timeout| bounds.timeout("spec.crds.waitTimeout", Some(timeout), TIMEOUT))
        .transpose()?;
    let crds = crd_settings(crds.as_ref(), crd_timeout);

    let acts_as = tenancy::checked(release, policy)?;
    refuse_unsupported(release, policy)?;
    let pack = match pack {
        Some(Asked::Pack(from)) => from,
        // Beside a lock there is no pack, and a source that is not supported was refused.
        Some(Asked::NotSupported(_)) | None => PackFrom::nowhere(),
    };
    Ok(Settings {
        release_name,
        target_namespace,
        create_namespace: create_namespace.unwrap_or(false),
        pack,
        lock,
        values: Value::Object(values.clone().unwrap_or_default()),
        values_from,
        depends_on,
        acts_as,
        suspend: suspend.unwrap_or(false),
        interval,
        timeout,
        wait: wait.unwrap_or(true),
        waves: WaveSettings { wait: waves_wait.or(*wait).unwrap_or(true), timeout: waves_timeout },
        install_retries: install_retries.unwrap_or(RETRIES),
        install_retry_interval,
        uninstall_on_failure: install_failure.unwrap_or_default() == InstallFailure::Uninstall,
        adopt: adopt.unwrap_or_default(),
        upgrade_retries: upgrade_retries.unwrap_or(RETRIES),
        upgrade_retry_interval,
        rollback_on_failure: upgrade_failure.unwrap_or_default() == UpgradeFailure::Rollback,
        immutable_fields: immutable_fields.unwrap_or_default(),
        paused: paused.unwrap_or(false),
        rollback_to: *rollback_to,
        test: TestSettings {
            enabled: test_enabled.unwrap_or(false),
            ignore_failures: ignore_failures.unwrap_or(false),
        },
        uninstall,
        crds,
        history_limit,
        history_storage,
        history_namespace,
        compression: compression.unwrap_or_default(),
        large: large.unwrap_or_default(),
        drift: mode.unwrap_or_default(),
        strict: strict_managers(release)?,
        ignore: Some(ignore_rules(release, policy)?),
        approval: approval.unwrap_or_default(),
        requests,
        bounded: bounds.bounded,
    })
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

/// The field managers whose additions are taken away.
pub(super) fn strict_managers(release: &SherpackRelease) -> Result<Vec<String>, Invalid> {
    let managers = release.strict_managers().unwrap_or_default();
    match managers.iter().position(|manager| manager.trim().is_empty()) {
        Some(at) => {
            let field = format!("spec.drift.strict.managers[{at}]");
            Err(Invalid::spec(&field, "is empty: name a field manager, such as kubectl-edit"))
        }
        None => Ok(managers.to_vec()),
    }
}

/// What is left to others: what the operator was started with, then what the release says.
pub(super) fn ignore_rules(
    release: &SherpackRelease,
    policy: &Policy,
) -> Result<Vec<Arc<IgnoreRule>>, Invalid> {
    let mut rules = policy.ignore.clone();
    let written = release.spec.drift.as_ref().and_then(|drift| drift.ignore.as_deref());
    for (at, rule) in written.unwrap_or_default().iter().enumerate() {
        let rule = IgnoreRule::parse(rule).map_err(|bad| {
            let below = if bad.field.is_empty() { String::new() } else { format!(".{}", bad.field) };
            Invalid::spec(&format!("spec.drift.ignore[{at}]{below}"), bad.message)
        })?;
        rules.push(Arc::new(rule));
    }
    Ok(rules)
}

fn refuse_unsupported(release: &SherpackRelease, policy: &Policy) -> Result<(), Invalid> {
    let asked = unsupported::asked_for(release, policy);
    let Some((first, others)) = asked.split_first() else {
        return Ok(());
    };
    let mut message = "this value is not supported yet: remove it or set its default".to_owned();
    if !others.is_empty() {
        message.push_str(&format!("; the same goes for {}", others.join(", ")));
    }
    Err(Invalid { reason: reasons::NOT_SUPPORTED, field: (*first).to_owned(), message })
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

/// Where revisions go. A user who may write a release must not fill other namespaces with them.
fn checked_history_namespace(release: &SherpackRelease, policy: &Policy) -> Result<String, Invalid> {
    let asked = release.spec.history.as_ref().and_then(|history| history.namespace.as_deref());
    let target = release.target_namespace();
    let asked = asked.filter(|asked| *asked != target);
    if release.history_storage() == HistoryStorage::File {
        if !policy.storage_dir_enabled {
            return Err(Invalid::spec(
                "spec.history.storage",
                "the operator was started without a directory for revisions: start it with --storage-dir, or use Secret",
            ));
        }
        if asked.is_some() {
            return Err(Invalid::spec(
                "spec.history.namespace",
                "revisions in files are kept by the target namespace: remove this field",
            ));
        }
    }
    let Some(asked) = asked else { return Ok(target.to_owned()) };
    if !is_dns_label(asked) {
        let message = format!(
            "`{asked}` is no name for a namespace: use at most 63 of a-z, 0-9 and `-`, with a letter or digit at both ends"
        );
        return Err(Invalid::spec("spec.history.namespace", message));
    }
    if !policy.storage_namespaces.iter().any(|allowed| allowed == asked || allowed == "*") {
        let message = format!(
            "revisions may not be stored in `{asked}`: start the operator with --allow-storage-namespace={asked}, or \
             remove this field"
        );
        return Err(Invalid::spec("spec.history.namespace", message));
    }
    Ok(asked.to_owned())
}

/// How long after a failure one more attempt is made, if ever.
fn retry_every(field: &str, text: Option<&str>) -> Result<Option<Duration>, Invalid> {
    text.map(|text| positive(field, Some(text), Duration::MAX)).transpose()
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
mod tests;
