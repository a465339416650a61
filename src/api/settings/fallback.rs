//! The settings of a release whose spec cannot be acted on.

use serde_json::Value;

use super::drift::{ignore_rules, strict_managers};
use super::policy::Policy;
use super::resolved::{HISTORY_LIMIT, INTERVAL, RETRIES, Settings, TIMEOUT, TestSettings, WaveSettings};
use super::sources::{PackFrom, Signatures};
use super::validate::{crd_settings, requests, uninstall_settings};
use super::{lock, tenancy};
use crate::api::{Adopt, Compression, ImmutableFields, LargeRevision, SherpackRelease, UpgradeFailure};

impl Settings {
    /// What is left when the spec makes no sense: names, as whom to act, how to uninstall, whether to undo what failed, and
    /// whether to lock what is deployed.
    ///
    /// Deletion must not wait for an author, and bad input is no reason to leave a deployed release unguarded.
    #[must_use]
    pub fn without_spec(release: &SherpackRelease, policy: &Policy) -> Self {
        Self {
            release_name: release.release_name().to_owned(),
            target_namespace: release.target_namespace().to_owned(),
            create_namespace: false,
            pack: PackFrom::nowhere(),
            signatures: Signatures::Unasked,
            lock: release.spec.lock.as_ref().and_then(|lock| lock::named(release, lock).ok()),
            values: Value::Null,
            values_from: Vec::new(),
            depends_on: Vec::new(),
            acts_as: tenancy::acts_as(release, policy),
            suspend: release.spec.suspend.unwrap_or(false),
            interval: INTERVAL,
            timeout: TIMEOUT,
            wait: true,
            waves: WaveSettings { wait: true, timeout: None },
            install_retries: RETRIES,
            install_retry_interval: None,
            uninstall_on_failure: false,
            adopt: Adopt::Never,
            upgrade_retries: RETRIES,
            upgrade_retry_interval: None,
            rollback_on_failure: release.spec.upgrade.as_ref().and_then(|upgrade| upgrade.on_failure)
                != Some(UpgradeFailure::Retain),
            immutable_fields: ImmutableFields::Fail,
            paused: false,
            rollback_to: None,
            test: TestSettings::default(),
            uninstall: uninstall_settings(release),
            crds: crd_settings(release.spec.crds.as_ref(), None),
            history_limit: HISTORY_LIMIT,
            history_storage: release.history_storage(),
            history_namespace: release.history_namespace().to_owned(),
            compression: Compression::default(),
            large: LargeRevision::default(),
            drift: release.spec.drift.as_ref().and_then(|drift| drift.mode).unwrap_or_default(),
            strict: strict_managers(release).unwrap_or_default(),
            ignore: ignore_rules(release, policy).ok(),
            approval: release.spec.approval.unwrap_or_default(),
            requests: requests(release).unwrap_or_default(),
            bounded: Vec::new(),
        }
    }
}
