//! How a deployed release is kept: drift and stored revisions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when another user or controller changes what the release manages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// `Enabled` puts changes back at once, `Warn` only reports them, `Disabled` does not look. Unset: Enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
    /// Takes away what some field managers add, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<StrictDrift>,
    /// Fields that are left to others: neither looked at nor put back, and not applied on upgrades. An object that does
    /// not exist is created as the manifest has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ignore: Option<Vec<DriftIgnore>>,
}

/// Whether changes made by others are put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftMode {
    #[default]
    Enabled,
    Warn,
    Disabled,
}

/// Whose additions are taken away again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StrictDrift {
    /// Field managers whose additions are taken away, such as `kubectl-edit`. What they write to status, finalizers and
    /// owner references stays, and so do their changes of CustomResourceDefinitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub managers: Option<Vec<String>>,
}

/// Fields of some objects that are left to others. Without paths and managers: the objects as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftIgnore {
    /// Objects that the rule is about. Unset: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<DriftTarget>,
    /// JSON pointers to the fields, such as `/spec/replicas`. `*` stands for any key or list item, and
    /// `/spec/template/spec/containers[name=web]/image` finds an item by its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub paths: Option<Vec<String>>,
    /// Field managers: what they own is left to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub managers: Option<Vec<String>>,
}

/// Selects objects; what is unset selects all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftTarget {
    /// API group, such as `apps`; the empty text is the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind, such as `Deployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name; `*` stands for any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels in the manifest, such as `app=web,tier in (front, back)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
}

/// How revisions are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// How many revisions are kept that were deployed; the last one is always among them. Besides those, three that failed,
    /// were interrupted or are uninstalled. Unset: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Where revisions are stored: `Secret`, `ConfigMap`, or `File`, which needs an operator with `--storage-dir`. Values
    /// and manifests in a ConfigMap can be read by many. Unset: Secret. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<HistoryStorage>,
    /// Namespace of the stored revisions. Unset: the target namespace; another one needs an operator with
    /// `--allow-storage-namespace`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,
    /// How revisions are compressed: `Zstd`, `Gzip` or `None`. Unset: Zstd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// What happens to a revision that does not fit into one Secret or ConfigMap: `Chunked` splits it,
    /// `SeparateManifests` stores its manifest apart. Unset: Chunked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large: Option<LargeRevision>,
}

/// Where revisions are stored.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum HistoryStorage {
    #[default]
    Secret,
    ConfigMap,
    File,
}

/// How revisions are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    #[default]
    Zstd,
    Gzip,
    None,
}

/// How a revision is stored that is too large for one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LargeRevision {
    #[default]
    Chunked,
    SeparateManifests,
}
