//! Hooks as a revision record lists them. Owns the stored shape only; running hooks is not done here.
//!
//! May import nothing of the crate. Invariant: a hook of another tool never makes a record unreadable, whatever
//! policy it names; such a policy is kept as it was read.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One hook of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    pub name: String,
    pub phases: Vec<Phase>,
    /// YAML text of the hook's document.
    pub resource: String,
    #[serde(default)]
    pub weight: i32,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Whole seconds.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
    #[serde(default)]
    pub cleanup: Cleanup,
}

fn default_timeout() -> u64 {
    300
}

/// When a hook runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    PreInstall,
    DuringInstall,
    PostInstall,
    PreUpgrade,
    DuringUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    PreDelete,
    PostDelete,
    Test,
    /// A phase this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// What a failed hook does to the operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    #[default]
    FailOperation,
    Continue,
    Rollback,
    /// `backoff` is in whole seconds.
    Retry {
        max_attempts: u32,
        backoff: u64,
    },
    /// A policy this version does not know.
    #[serde(untagged)]
    Other(Value),
}

/// When the hook's object is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleanup {
    Never,
    #[default]
    BeforeNextRun,
    OnSuccess,
    OnFailure,
    Always,
    /// Whole seconds after the hook ended.
    AfterDelay(u64),
    KeepLast(u32),
    /// A policy this version does not know.
    #[serde(untagged)]
    Other(Value),
}
