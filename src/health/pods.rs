use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::live::{Condition, Live};
use super::{Health, Status, assess};

/// How long the scheduler may look for a node before an Unschedulable pod is Failed; counted from its creation.
const SCHEDULING_GRACE: Duration = Duration::from_secs(15);

/// How long an image may be out of reach before the pod is Failed; counted from its scheduling. Registries and
/// pull secrets that appear with the release need a few tries.
const IMAGE_GRACE: Duration = Duration::from_secs(30);

/// Why a container waits when its image is not to be had.
pub(super) const IMAGE_REASONS: [&str; 6] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
];

/// Why a pod ends in phase Failed through no fault of its own.
const EVICTION_REASONS: [&str; 6] =
    ["Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempting", "Terminated"];

pub(super) fn pod(live: &Live<'_>) -> Health {
    match live.text("/status/phase") {
        None => Health::in_progress("PodNotObserved", "has no phase yet"),
        Some("Succeeded") => Health::current("has succeeded"),
        Some("Failed") => Health::failed("PodFailed", end_of(live)),
        Some("Running") => running(live),
        Some("Pending") => pending(live),
        Some(phase) => Health::in_progress("PodPhaseUnknown", format!("is in phase {phase}")),
    }
}

fn running(live: &Live<'_>) -> Health {
    if live.condition("Ready").is_some_and(Condition::is_true) {
        return Health::current("is running and ready");
    }
    if let Some((container, _)) = waiting(live).find(|(_, waiting)| reason(waiting) == "CrashLoopBackOff") {
        let message = format!("container {} keeps crashing", name(container));
        return Health::failed("ContainerCrashLooping", message);
    }
    let not_ready = Health::in_progress("PodRunningNotReady", "is running but not ready");
    unpullable(live).unwrap_or(not_ready)
}

fn pending(live: &Live<'_>) -> Health {
    let unscheduled =
        live.condition("PodScheduled").filter(|c| c.is_false() && c.reason() == "Unschedulable");
    if let Some(unscheduled) = unscheduled {
        let message = format!("could not be scheduled: {}", unscheduled.message());
        return match left(live.age(), SCHEDULING_GRACE) {
            None => Health::failed("PodUnschedulable", message),
            left => Health { recheck_in: left, ..Health::in_progress("PodNotScheduled", message) },
        };
    }
    unpullable(live).unwrap_or_else(|| Health::in_progress("PodPending", "is pending"))
}

/// A container whose image cannot be pulled. InProgress during the grace, Failed after.
fn unpullable(live: &Live<'_>) -> Option<Health> {
    let (container, waiting) = waiting(live).find(|(_, waiting)| IMAGE_REASONS.contains(&reason(waiting)))?;
    let image = container.get("image").and_then(Value::as_str).unwrap_or("unknown");
    let detail = waiting.get("message").and_then(Value::as_str).unwrap_or_default();
    let separator = if detail.is_empty() { "" } else { ": " };
    let message = format!("container {} cannot pull image {image}{separator}{detail}", name(container));
    let scheduled =
        live.condition("PodScheduled").filter(|c| c.is_true()).and_then(Condition::last_transition);
    let since = scheduled
        .or_else(|| live.text("/status/startTime"))
        .map_or_else(|| live.age(), |time| live.since(time));
    Some(match left(since, IMAGE_GRACE) {
        None => Health::failed(reason(waiting), message),
        left => Health { recheck_in: left, ..Health::in_progress(reason(waiting), message) },
    })
}

/// What is left of a grace, `None` when it is over. A time that is not known is long ago.
fn left(since: Option<Duration>, grace: Duration) -> Option<Duration> {
    grace.checked_sub(since?).filter(|left| !left.is_zero())
}

/// Containers that wait, with their `state.waiting`; init containers first, as they start.
fn waiting<'a>(live: &Live<'a>) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    live.items("/status/initContainerStatuses")
        .chain(live.items("/status/containerStatuses"))
        .filter_map(|container| Some((container, container.pointer("/state/waiting")?)))
}

/// The most telling words about a pod that has failed.
fn end_of(live: &Live<'_>) -> String {
    if let Some(message) = live.text("/status/message").or_else(|| live.text("/status/reason")) {
        return format!("has failed: {message}");
    }
    let ended = live
        .items("/status/initContainerStatuses")
        .chain(live.items("/status/containerStatuses"))
        .filter_map(|container| Some((container, container.pointer("/state/terminated")?)))
        .find(|(_, ended)| ended.get("exitCode").and_then(Value::as_i64) != Some(0));
    let Some((container, ended)) = ended else {
        return "has failed".to_owned();
    };
    let code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or(-1);
    let text = ended.get("message").and_then(Value::as_str).unwrap_or_else(|| reason(ended)).trim();
    format!("has failed: container {} ended with exit code {code}: {text}", name(container))
}

fn name(container: &Value) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn reason(state: &Value) -> &str {
    state.get("reason").and_then(Value::as_str).unwrap_or_default()
}

/// The first of a workload's pods that is Failed, as the health of the workload.
///
/// A workload that is InProgress and has such a pod will not get on by waiting. `pods` are those of its newest
/// revision only; not for Jobs, which try again by themselves. Pods that are being deleted or were evicted do
/// not count: the workload replaces them.
#[must_use]
pub fn workload_failure(pods: &[Value], now: Timestamp) -> Option<Health> {
    pods.iter().filter(|pod| !evicted(&Live::new(pod, now))).find_map(|pod| {
        let health = assess(pod, None, now);
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        (health.status == Status::Failed)
            .then(|| Health { message: format!("pod {name} {}", health.message), ..health })
    })
}

fn evicted(pod: &Live<'_>) -> bool {
    pod.text("/status/reason").is_some_and(|reason| EVICTION_REASONS.contains(&reason))
        || pod.condition("DisruptionTarget").is_some_and(Condition::is_true)
}
