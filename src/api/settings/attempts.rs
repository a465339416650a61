//! What a release says of its installs and upgrades: how often one is tried, and what happens when that is spent.

use std::time::Duration;

use super::resolved::RETRIES;
use crate::api::bounds::positive;
use crate::api::{Adopt, ImmutableFields, Install, InstallFailure, Invalid, Upgrade, UpgradeFailure};

/// `spec.install`, as [`Settings`](super::Settings) holds it.
pub(super) struct Installs {
    pub(super) retries: u32,
    pub(super) retry_interval: Option<Duration>,
    pub(super) uninstall_on_failure: bool,
    pub(super) adopt: Adopt,
}

impl Installs {
    /// # Errors
    /// A retry interval that is no duration, and zero.
    pub(super) fn of(install: Option<&Install>) -> Result<Self, Invalid> {
        let Install { retries, retry_interval, on_failure, adopt } = install.cloned().unwrap_or_default();
        Ok(Self {
            retries: retries.unwrap_or(RETRIES),
            retry_interval: retry_every("spec.install.retryInterval", retry_interval.as_deref())?,
            uninstall_on_failure: on_failure.unwrap_or_default() == InstallFailure::Uninstall,
            adopt: adopt.unwrap_or_default(),
        })
    }
}

/// `spec.upgrade`, as [`Settings`](super::Settings) holds it.
pub(super) struct Upgrades {
    pub(super) retries: u32,
    pub(super) retry_interval: Option<Duration>,
    pub(super) rollback_on_failure: bool,
    pub(super) immutable_fields: ImmutableFields,
    pub(super) paused: bool,
}

impl Upgrades {
    /// # Errors
    /// A retry interval that is no duration, and zero.
    pub(super) fn of(upgrade: Option<&Upgrade>) -> Result<Self, Invalid> {
        let upgrade = upgrade.cloned().unwrap_or_default();
        let Upgrade { retries, retry_interval, on_failure, immutable_fields, paused } = upgrade;
        Ok(Self {
            retries: retries.unwrap_or(RETRIES),
            retry_interval: retry_every("spec.upgrade.retryInterval", retry_interval.as_deref())?,
            rollback_on_failure: on_failure.unwrap_or_default() == UpgradeFailure::Rollback,
            immutable_fields: immutable_fields.unwrap_or_default(),
            paused: paused.unwrap_or(false),
        })
    }
}

/// How long after a failure one more attempt is made, if ever.
fn retry_every(field: &str, text: Option<&str>) -> Result<Option<Duration>, Invalid> {
    text.map(|text| positive(field, Some(text), Duration::MAX)).transpose()
}
