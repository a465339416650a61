//! How a release is installed, upgraded, tested and uninstalled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{bounds, duration};

/// How sync waves are waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waves {
    /// Waits for the objects of a wave before the next one begins. Unset: as `spec.wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// Bounds the wait for one wave; 24h or less. Unset: 120s, and no bound but `spec.timeout` when there is only one wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64), extend("x-kubernetes-validations" = bounds::timeout_rule()))]
    pub timeout: Option<String>,
}

/// How the first revision is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    /// How often a failed install is tried again. Unset: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub retries: Option<u32>,
    /// How long after a failure one more attempt is made when all retries are spent, such as `1h`; each takes the place of
    /// the failed revision before it. Unset: never, until the spec, the pack or the values change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64))]
    pub retry_interval: Option<String>,
    /// What happens when all retries are spent: `Retain` leaves the objects as they are, `Uninstall` deletes them.
    /// Unset: Retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<InstallFailure>,
    /// Whether objects that exist already are taken over: `Never` fails with ObjectNotOwned, `Unowned` takes
    /// over those that belong to no other release. Unset: Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<Adopt>,
}

/// What a finally failed install leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstallFailure {
    #[default]
    Retain,
    Uninstall,
}

/// Which existing objects an install may take over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Adopt {
    #[default]
    Never,
    Unowned,
}

/// How later revisions are rolled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// How often a failed upgrade is tried again. Unset: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub retries: Option<u32>,
    /// How long after a failure one more attempt is made when all retries are spent, such as `1h`; each takes the place of
    /// the failed revision before it and of the way back from that. Unset: never, until the spec, the pack or the values
    /// change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64))]
    pub retry_interval: Option<String>,
    /// What happens when all retries are spent: `Retain` leaves the objects as they are, `Rollback` goes back to the
    /// last deployed revision. Unset: Rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<UpgradeFailure>,
    /// What happens when an upgrade or rollback has to change a field of an object that cannot change: `Fail` fails it,
    /// `Recreate` deletes the object and creates it anew (never a PersistentVolume, PersistentVolumeClaim, Namespace,
    /// CustomResourceDefinition or an object that is kept; pods of a StatefulSet stay), `Skip` leaves the object as it
    /// is, not locked, and says so. Unset: Fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immutable_fields: Option<ImmutableFields>,
    /// Rolls nothing new out, but keeps what is deployed as it is. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What a finally failed upgrade leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeFailure {
    #[default]
    Rollback,
    Retain,
}

/// What to do about a change that the API server refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImmutableFields {
    #[default]
    Fail,
    Recreate,
    Skip,
}

/// Whether test hooks run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// Runs the test hooks after each install and upgrade. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Lets the release be Ready although a test failed. No effect unless tests are enabled. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_failures: Option<bool>,
}

/// What happens when the resource is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uninstall {
    /// `Delete` deletes the release's objects, `Orphan` leaves them running. Unset: Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<UninstallPolicy>,
    /// Waits until the objects are gone before the resource goes. Unset: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// Keeps the stored revisions. Unset: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_history: Option<bool>,
    /// Bounds the whole uninstall, such as `5m`; 24h or less. Unset: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64), extend("x-kubernetes-validations" = bounds::timeout_rule()))]
    pub timeout: Option<String>,
}

/// What happens to the objects of a deleted release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UninstallPolicy {
    #[default]
    Delete,
    Orphan,
}

/// How the pack's CustomResourceDefinitions are treated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Crds {
    /// Installs definitions that do not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<bool>,
    /// `Safe` stops before a change that can break or lose data, `Force` makes it and says so, `Skip` leaves existing
    /// definitions alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<CrdUpgrade>,
    /// Whether the definitions go with the release: `Keep` or `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_uninstall: Option<CrdUninstall>,
    /// Waits until the definitions are served before anything else is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ready: Option<bool>,
    /// Bounds that wait, such as `60s`; 24h or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = duration::PATTERN), length(max = 64), extend("x-kubernetes-validations" = bounds::timeout_rule()))]
    pub wait_timeout: Option<String>,
    /// Changes to let through although `Safe` would stop them, each as `NAME@DIGEST` from the condition that
    /// stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_changes: Option<Vec<String>>,
    /// Names of definitions that may be deleted although objects of them exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_deletion: Option<Vec<String>>,
}

/// How an existing definition is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CrdUpgrade {
    #[default]
    Safe,
    Force,
    Skip,
}

/// What happens to definitions when the release is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CrdUninstall {
    #[default]
    Keep,
    Delete,
}
