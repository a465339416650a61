//! Hooks as a revision record lists them. Owns the stored shape only; running hooks is not done here.
//!
//! May import `plan` and below. Invariant: a hook of another tool never makes a record unreadable, whatever
//! policy it names; such a policy is kept as it was read.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::yaml;
use crate::plan::{self, DeletePolicy, FailurePolicy};

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

impl From<&plan::Hook> for Hook {
    /// What the published format has no word for stands in the annotations of `resource`, and is read from there.
    fn from(hook: &plan::Hook) -> Self {
        let deletes = |policy| hook.delete.contains(&policy);
        let on_failure = match hook.on_failure {
            FailurePolicy::Fail if hook.retries > 0 => {
                OnFailure::Retry { max_attempts: hook.retries.saturating_add(1), backoff: 0 }
            }
            FailurePolicy::Fail => OnFailure::FailOperation,
            FailurePolicy::Continue => OnFailure::Continue,
            FailurePolicy::Rollback => OnFailure::Rollback,
        };
        let cleanup = match (deletes(DeletePolicy::HookSucceeded), deletes(DeletePolicy::HookFailed)) {
            (true, true) => Cleanup::Always,
            (true, false) => Cleanup::OnSuccess,
            (false, true) => Cleanup::OnFailure,
            (false, false) => Cleanup::BeforeNextRun,
        };
        Self {
            name: hook.object.id.name.clone(),
            phases: hook.phases.iter().copied().map(Phase::from).collect(),
            resource: yaml::join(std::slice::from_ref(&hook.object.body)),
            weight: hook.weight,
            on_failure,
            timeout: hook.timeout.as_secs().max(1),
            cleanup,
        }
    }
}

impl From<plan::Phase> for Phase {
    fn from(phase: plan::Phase) -> Self {
        match phase {
            plan::Phase::PreInstall => Self::PreInstall,
            plan::Phase::PostInstall => Self::PostInstall,
            plan::Phase::PreUpgrade => Self::PreUpgrade,
            plan::Phase::PostUpgrade => Self::PostUpgrade,
            plan::Phase::PreRollback => Self::PreRollback,
            plan::Phase::PostRollback => Self::PostRollback,
            plan::Phase::PreDelete => Self::PreDelete,
            plan::Phase::PostDelete => Self::PostDelete,
            plan::Phase::Test => Self::Test,
        }
    }
}
