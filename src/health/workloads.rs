use super::live::Live;
use super::{Health, Status};

/// What the API server sets for "no deadline".
const NO_DEADLINE: i64 = i32::MAX as i64;

/// One comparison of counters: the reason when it fails, and what is counted.
type Shortfall = (bool, &'static str, String);

pub(super) fn deployment(live: &Live<'_>) -> Health {
    let desired = live.int("/spec/replicas").unwrap_or(1);
    let total = live.count("/status/replicas");
    let updated = live.count("/status/updatedReplicas");
    let ready = live.count("/status/readyReplicas");
    let available = live.count("/status/availableReplicas");

    if live.value("/spec/paused").and_then(serde_json::Value::as_bool) == Some(true) {
        let message = "is paused: changes of its template are not rolled out";
        return Health::new(Status::Suspended, "Paused", message).with_progress(ready, desired);
    }
    let progressing = live.condition("Progressing");
    if let Some(stuck) = progressing.filter(|c| c.reason() == "ProgressDeadlineExceeded") {
        let message = if stuck.message().is_empty() { "progress deadline exceeded" } else { stuck.message() };
        return Health::failed("ProgressDeadlineExceeded", message).with_progress(ready, desired);
    }
    // Without a deadline the controller never writes the condition.
    let rolled_out = live.int("/spec/progressDeadlineSeconds").unwrap_or(NO_DEADLINE) == NO_DEADLINE
        || progressing.is_some_and(|c| c.is_true() && c.reason() == "NewReplicaSetAvailable");
    let is_available = live.condition("Available").is_some_and(super::live::Condition::is_true);
    first_shortfall([
        (total < desired, "LessReplicas", format!("{total} of {desired} replicas exist")),
        (updated < desired, "LessUpdated", format!("{updated} of {desired} replicas are updated")),
        (total > desired, "ExtraPods", format!("{} old replicas are still to go", total - desired)),
        (
            updated > available,
            "LessAvailable",
            format!("{available} of {updated} updated replicas are available"),
        ),
        (ready < desired, "LessReady", format!("{ready} of {desired} replicas are ready")),
        (!rolled_out, "ReplicaSetNotAvailable", "the new ReplicaSet is not available".to_owned()),
        (!is_available, "DeploymentNotAvailable", "is not available".to_owned()),
    ])
    .unwrap_or_else(|| Health::current(format!("{ready} of {desired} replicas are ready")))
    .with_progress(ready, desired)
}

pub(super) fn replica_set(live: &Live<'_>) -> Health {
    let desired = live.int("/spec/replicas").unwrap_or(1);
    let total = live.count("/status/replicas");
    let labelled = live.count("/status/fullyLabeledReplicas");
    let available = live.count("/status/availableReplicas");
    let ready = live.count("/status/readyReplicas");

    let failure = live.condition("ReplicaFailure").filter(|c| c.is_true());
    first_shortfall([
        (failure.is_some(), "ReplicaFailure", failure.map_or("", super::live::Condition::message).to_owned()),
        (labelled < desired, "LessLabelled", format!("{labelled} of {desired} replicas are labelled")),
        (available < desired, "LessAvailable", format!("{available} of {desired} replicas are available")),
        (ready < desired, "LessReady", format!("{ready} of {desired} replicas are ready")),
        (total > desired, "ExtraPods", format!("{} replicas are still to go", total - desired)),
    ])
    .unwrap_or_else(|| Health::current(format!("{available} of {desired} replicas are available")))
    .with_progress(ready, desired)
}

pub(super) fn stateful_set(live: &Live<'_>) -> Health {
    let desired = live.int("/spec/replicas").unwrap_or(1);
    let total = live.count("/status/replicas");
    let ready = live.count("/status/readyReplicas");
    let current = live.count("/status/currentReplicas");
    let updated = live.count("/status/updatedReplicas");

    let done = || Health::current(format!("{ready} of {desired} replicas are ready"));
    // Such pods are replaced when a person deletes them; there is nothing to wait for.
    if live.text("/spec/updateStrategy/type") == Some("OnDelete") {
        return done().with_progress(ready, desired);
    }
    let behind = first_shortfall([
        (total < desired, "LessReplicas", format!("{total} of {desired} replicas exist")),
        (ready < desired, "LessReady", format!("{ready} of {desired} replicas are ready")),
        (total > desired, "ExtraPods", format!("{} replicas are still to go", total - desired)),
    ])
    .or_else(|| {
        if let Some(partition) = live.int("/spec/updateStrategy/rollingUpdate/partition") {
            let wanted = desired - partition;
            let message = format!("{updated} of {wanted} replicas above the partition are updated");
            return first_shortfall([(updated < wanted, "PartitionRollout", message)]);
        }
        let revision = |which| live.text(which).unwrap_or_default();
        let mismatch = revision("/status/currentRevision") != revision("/status/updateRevision");
        first_shortfall([
            (current < desired, "LessCurrent", format!("{current} of {desired} replicas are current")),
            (mismatch, "RevisionMismatch", "is being updated to another revision".to_owned()),
        ])
    });
    behind.unwrap_or_else(done).with_progress(ready, desired)
}

pub(super) fn daemon_set(live: &Live<'_>) -> Health {
    if live.int("/metadata/generation").is_none() {
        return Health::in_progress("NoGeneration", "has no generation");
    }
    if live.value("/status/observedGeneration").is_none() {
        return Health::in_progress("NoObservedGeneration", "was not observed by its controller");
    }
    let Some(desired) = live.int("/status/desiredNumberScheduled") else {
        return Health::in_progress("NoDesiredNumber", "how many nodes need a pod is not known yet");
    };
    let current = live.count("/status/currentNumberScheduled");
    let updated = live.count("/status/updatedNumberScheduled");
    let available = live.count("/status/numberAvailable");
    let ready = live.count("/status/numberReady");
    // Pods of this strategy are only replaced when a user deletes them: no wait ends so.
    let on_delete = live.text("/spec/updateStrategy/type") == Some("OnDelete");
    first_shortfall([
        (desired > current, "LessCurrent", format!("{current} of {desired} pods exist")),
        (!on_delete && desired > updated, "LessUpdated", format!("{updated} of {desired} pods are updated")),
        (desired > available, "LessAvailable", format!("{available} of {desired} pods are available")),
        (desired > ready, "LessReady", format!("{ready} of {desired} pods are ready")),
    ])
    .unwrap_or_else(|| Health::current(format!("{ready} of {desired} pods are ready")))
    .with_progress(ready, desired)
}

fn first_shortfall<const N: usize>(checks: [Shortfall; N]) -> Option<Health> {
    let (_, reason, message) = checks.into_iter().find(|(short, ..)| *short)?;
    Some(Health::in_progress(reason, message))
}
