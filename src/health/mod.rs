//! A live object to its health.
//!
//! May import `manifest` and `api`. Pure: `now` is a value, and an answer that time alone will change says when.
//! The rules are those of kstatus (which Flux and Helm 4 follow), with these differences, each on purpose:
//!
//! | Case | Rule here | Why |
//! |---|---|---|
//! | Job | done only when Complete, not when started | what comes next may need its result |
//! | Pod in phase Failed | Failed | it ended, but without success |
//! | paused Deployment | Suspended, counts as done | it will not progress, and says so |
//! | Pod that cannot pull an image for 30 s | Failed, naming the image | minutes before a deadline would tell |
//! | custom resource without status | Current after 2 s of life | its controller may not have seen it yet |
//! | `observedGeneration` not an integer | digits are parsed, else ignored | some controllers write strings |
//! | APIService | Current when Available | a dead one breaks discovery for everybody |
//! | HorizontalPodAutoscaler | by its conditions, as Argo CD | without metrics it does nothing |
//! | generation | compared with the one that our apply returned, too | a cache may be older than our write |

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod autoscaling;
mod jobs;
mod live;
mod pods;
mod services;
mod workloads;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use pods::workload_failure;

use crate::manifest::order::is_built_in;
use live::{Condition, Live};

/// How long a custom resource without any status may still be unseen by its controller.
const SETTLE: Duration = Duration::from_secs(2);

/// State of an object, in the words of kstatus, and Suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// On its way; waiting helps.
    InProgress,
    /// As the spec wants it.
    Current,
    /// Stuck. Not always for good: a crashing container may recover when what it needs arrives.
    Failed,
    /// Being deleted.
    Terminating,
    /// Stopped by its own spec.
    Suspended,
}

impl Status {
    /// Whether a wait for this object is over and went well.
    #[must_use]
    pub fn is_done(self) -> bool {
        matches!(self, Self::Current | Self::Suspended)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` and not `write_str`, so that a width given by the caller works.
        f.pad(match self {
            Self::InProgress => "InProgress",
            Self::Current => "Current",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::Suspended => "Suspended",
        })
    }
}

/// What [`assess`] says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub status: Status,
    /// Why, in PascalCase; that of the rule, or that of the object's own condition.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// `(ready, desired)` of what counts its parts.
    pub progress: Option<(i64, i64)>,
    /// The verdict changes after this time although the object does not: ask again then.
    pub recheck_in: Option<Duration>,
    /// What is deployed does not do its work. `false` for what is Failed and hinders no rollout, such as an autoscaler
    /// without metrics: an operation does not wait for it, and does not fail for it.
    pub terminal: bool,
}

impl Health {
    fn new(status: Status, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
            progress: None,
            recheck_in: None,
            terminal: status == Status::Failed,
        }
    }

    /// Its own controller gave up, or something only a person can mend is missing: a failure that needs no time to be
    /// believed.
    #[must_use]
    pub fn will_not_pass(&self) -> bool {
        self.terminal
            && (self.reason == "ProgressDeadlineExceeded"
                || pods::IMAGE_REASONS.contains(&self.reason.as_str()))
    }

    fn in_progress(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Status::InProgress, reason, message)
    }

    fn current(message: impl Into<String>) -> Self {
        Self::new(Status::Current, "Current", message)
    }

    fn failed(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Status::Failed, reason, message)
    }

    fn not_terminal(mut self) -> Self {
        self.terminal = false;
        self
    }

    fn with_progress(mut self, ready: i64, desired: i64) -> Self {
        self.progress = Some((ready, desired));
        self
    }
}

/// Judges one live object.
///
/// `applied_generation` is `metadata.generation` in the answer to our last apply; an object or a status older than
/// that is InProgress. `None` when there was no apply, or for kinds without a generation.
#[must_use]
pub fn assess(live: &Value, applied_generation: Option<i64>, now: Timestamp) -> Health {
    let live = Live::new(live, now);
    if live.text("/metadata/deletionTimestamp").is_some() {
        return Health::new(Status::Terminating, "Terminating", "is being deleted");
    }
    unobserved(&live, applied_generation)
        .or_else(|| {
            let reconciling = live.condition("Reconciling").filter(|c| c.is_true())?;
            Some(Health::in_progress(reconciling.reason_or("Reconciling"), reconciling.message()))
        })
        .or_else(|| {
            let stalled = live.condition("Stalled").filter(|c| c.is_true())?;
            Some(Health::failed(stalled.reason_or("Stalled"), stalled.message()))
        })
        .or_else(|| by_kind(&live))
        .unwrap_or_else(|| by_ready_condition(&live))
}

fn unobserved(live: &Live<'_>, applied_generation: Option<i64>) -> Option<Health> {
    let generation = live.int("/metadata/generation");
    let behind = |what, seen: i64, wanted: i64| {
        let message = format!("{what} is generation {seen}, generation {wanted} is wanted");
        Some(Health::in_progress("LatestGenerationNotObserved", message))
    };
    if let (Some(generation), Some(applied)) = (generation, applied_generation)
        && generation < applied
    {
        return behind("what was read", generation, applied);
    }
    let observed = live.lenient_int("/status/observedGeneration")?;
    match (generation, applied_generation) {
        (Some(generation), _) if observed != generation => behind("what was observed", observed, generation),
        (_, Some(applied)) if observed < applied => behind("what was observed", observed, applied),
        _ => None,
    }
}

/// [`assess`] for what has to run to its end, such as a hook: a pod that runs is not done, and neither is a Job that is
/// suspended. What does not end by its nature is done when it is healthy.
#[must_use]
pub fn assess_run(object: &Value, now: Timestamp) -> Health {
    let health = assess(object, None, now);
    let live = Live::new(object, now);
    let done = match (live.group(), live.kind()) {
        ("", "Pod") => live.text("/status/phase") == Some("Succeeded"),
        ("batch", "Job") => live.condition("Complete").is_some_and(Condition::is_true),
        _ => return health,
    };
    if health.status.is_done() && !done { Health { status: Status::InProgress, ..health } } else { health }
}

/// The reason of a Job that has failed.
pub const JOB_FAILED: &str = "JobFailed";

/// Whether an object ends by its nature.
#[must_use]
pub fn is_run_to_completion(object: &Value) -> bool {
    let live = Live::new(object, Timestamp::UNIX_EPOCH);
    let failed = live.text("/status/phase") == Some("Failed");
    matches!((live.group(), live.kind()), ("batch", "Job"))
        || (live.group().is_empty() && live.kind() == "Pod" && failed)
}

fn by_kind(live: &Live<'_>) -> Option<Health> {
    let health = match (live.group(), live.kind()) {
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => {
            Health::current("exists")
        }
        ("", "Service") => services::service(live),
        ("", "PersistentVolumeClaim") => services::volume_claim(live),
        ("", "Pod") => pods::pod(live),
        ("apps" | "extensions", "Deployment") => workloads::deployment(live),
        ("apps" | "extensions", "ReplicaSet") => workloads::replica_set(live),
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set(live),
        ("apps", "StatefulSet") => workloads::stateful_set(live),
        ("batch", "Job") => jobs::job(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => services::definition(live),
        ("apiregistration.k8s.io", "APIService") => services::api_service(live),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(live),
        _ => return None,
    };
    Some(health)
}

/// The rule for every kind that has none of its own.
fn by_ready_condition(live: &Live<'_>) -> Health {
    if let Some(ready) = live.condition("Ready") {
        return if !ready.is_true() {
            Health::in_progress(ready.reason_or("NotReady"), ready.message())
        } else if ready
            .observed_generation()
            .is_some_and(|seen| live.int("/metadata/generation") > Some(seen))
        {
            Health::in_progress("LatestGenerationNotObserved", "Ready speaks of an earlier generation")
        } else {
            Health::current(ready.message())
        };
    }
    // Without a status there is nothing that could show whether a controller has seen a custom resource.
    if !is_built_in(live.group())
        && live.value("/status").is_none()
        && let Some(left) = live.age().and_then(|age| SETTLE.checked_sub(age)).filter(|left| !left.is_zero())
    {
        let health = Health::in_progress("NotObserved", "no controller has written a status yet");
        return Health { recheck_in: Some(left), ..health };
    }
    Health::current("exists")
}

#[cfg(test)]
mod tests;
