use super::*;

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment";
const GOOD: &str = "conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]";

/// `spec` and the five counters of a Deployment, with healthy conditions.
fn deployment(spec: &str, replicas: i64, updated: i64, ready: i64, available: i64) -> Health {
    judge(&format!(
        "{DEPLOYMENT}\nspec: {{progressDeadlineSeconds: 45{spec}}}\nstatus: {{replicas: {replicas}, updatedReplicas: {updated}, \
         readyReplicas: {ready}, availableReplicas: {available}, {GOOD}}}"
    ))
}

#[test]
fn a_deployment_is_current_when_every_counter_is_there() {
    let rows = [
        (", replicas: 3", (3, 3, 3, 3), "Current"),
        (", replicas: 3", (2, 2, 2, 2), "LessReplicas"),
        (", replicas: 3", (3, 2, 3, 3), "LessUpdated"),
        (", replicas: 3", (4, 3, 3, 3), "ExtraPods"),
        (", replicas: 3", (3, 3, 3, 2), "LessAvailable"),
        (", replicas: 3", (3, 3, 2, 3), "LessReady"),
        (", replicas: 0", (0, 0, 0, 0), "Current"),
        (", replicas: 0", (1, 0, 1, 1), "ExtraPods"),
        ("", (1, 1, 1, 1), "Current"),
        ("", (0, 0, 0, 0), "LessReplicas"),
    ];
    for (spec, (replicas, updated, ready, available), reason) in rows {
        let health = deployment(spec, replicas, updated, ready, available);
        assert_eq!(health.reason, reason, "{spec} {replicas} {updated} {ready} {available}");
        assert_eq!(health.status == Status::Current, reason == "Current");
    }
    assert_eq!(deployment(", replicas: 3", 3, 3, 2, 3).progress, Some((2, 3)));
}

#[test]
fn a_deployment_needs_its_conditions_too() {
    let counters =
        "status: {replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: ";
    let available = "{type: Available, status: 'True'}";
    let rolled_out = "{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}";
    let row = |spec: &str, conditions: String, status: Status, reason: &str| {
        let health = judge(&format!("{DEPLOYMENT}\nspec: {{{spec}}}\n{counters}[{conditions}]}}"));
        assert_eq!((health.status, health.reason.as_str()), (status, reason), "{spec} {conditions}");
    };
    let deadline = "progressDeadlineSeconds: 600";
    row(deadline, format!("{available}, {rolled_out}"), CURRENT.0, CURRENT.1);
    row(deadline, available.into(), PROGRESS, "ReplicaSetNotAvailable");
    row(
        deadline,
        format!("{available}, {{type: Progressing, status: 'True', reason: ReplicaSetUpdated}}"),
        PROGRESS,
        "ReplicaSetNotAvailable",
    );
    row(
        deadline,
        format!("{available}, {{type: Progressing, status: 'False', reason: NewReplicaSetAvailable}}"),
        PROGRESS,
        "ReplicaSetNotAvailable",
    );
    row(deadline, rolled_out.into(), PROGRESS, "DeploymentNotAvailable");
    row(
        deadline,
        format!("{{type: Available, status: 'False'}}, {rolled_out}"),
        PROGRESS,
        "DeploymentNotAvailable",
    );
    row("", available.into(), CURRENT.0, CURRENT.1);
    row("progressDeadlineSeconds: 2147483647", available.into(), CURRENT.0, CURRENT.1);
    row("progressDeadlineSeconds: 2147483646", available.into(), PROGRESS, "ReplicaSetNotAvailable");
    row(
        deadline,
        format!("{available}, {{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}}"),
        Status::Failed,
        "ProgressDeadlineExceeded",
    );
    row("paused: true", String::new(), Status::Suspended, "Paused");
    row(
        "paused: true",
        "{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}".into(),
        Status::Suspended,
        "Paused",
    );
    row("paused: false", available.into(), CURRENT.0, CURRENT.1);
}

#[test]
fn the_old_group_of_deployments_is_known() {
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        assert_eq!(
            judge(&format!("apiVersion: extensions/v1beta1\nkind: {kind}")).status,
            PROGRESS,
            "{kind}"
        );
        assert_eq!(
            judge(&format!("apiVersion: x.io/v1\nkind: {kind}")).status,
            Status::Current,
            "{kind} of another group"
        );
    }
}

#[test]
fn a_replica_set_counts() {
    let counters = |labelled, available, ready, total| {
        format!(
            "spec: {{replicas: 2}}\nstatus: {{fullyLabeledReplicas: {labelled}, availableReplicas: {available}, readyReplicas: {ready}, replicas: {total}}}"
        )
    };
    table(
        "apiVersion: apps/v1\nkind: ReplicaSet",
        &[
            (&counters(2, 2, 2, 2), CURRENT.0, CURRENT.1),
            (&counters(1, 2, 2, 2), PROGRESS, "LessLabelled"),
            (&counters(2, 1, 2, 2), PROGRESS, "LessAvailable"),
            (&counters(2, 2, 1, 2), PROGRESS, "LessReady"),
            (&counters(2, 2, 2, 3), PROGRESS, "ExtraPods"),
            ("spec: {replicas: 0}\nstatus: {replicas: 0}", CURRENT.0, CURRENT.1),
            ("spec: {}\nstatus: {}", PROGRESS, "LessLabelled"),
            (
                "spec: {replicas: 0}\nstatus: {conditions: [{type: ReplicaFailure, status: 'True'}]}",
                PROGRESS,
                "ReplicaFailure",
            ),
            (
                "spec: {replicas: 0}\nstatus: {conditions: [{type: ReplicaFailure, status: 'False'}]}",
                CURRENT.0,
                CURRENT.1,
            ),
        ],
    );
}

#[test]
fn a_stateful_set_counts_and_compares_revisions() {
    let status = |strategy: &str, replicas, ready, current, updated, revisions: &str| {
        format!(
            "spec: {{replicas: 3, updateStrategy: {{{strategy}}}}}\nstatus: {{replicas: {replicas}, readyReplicas: {ready}, \
             currentReplicas: {current}, updatedReplicas: {updated}{revisions}}}"
        )
    };
    let same = ", currentRevision: a, updateRevision: a";
    let partition = "type: RollingUpdate, rollingUpdate: {partition: 2}";
    table(
        "apiVersion: apps/v1\nkind: StatefulSet",
        &[
            (&status("", 3, 3, 3, 3, same), CURRENT.0, CURRENT.1),
            (&status("", 2, 2, 3, 3, same), PROGRESS, "LessReplicas"),
            (&status("", 3, 2, 3, 3, same), PROGRESS, "LessReady"),
            (&status("", 4, 3, 3, 3, same), PROGRESS, "ExtraPods"),
            (&status("", 3, 3, 2, 3, same), PROGRESS, "LessCurrent"),
            (
                &status("", 3, 3, 3, 3, ", currentRevision: a, updateRevision: b"),
                PROGRESS,
                "RevisionMismatch",
            ),
            (&status(partition, 3, 3, 2, 0, same), PROGRESS, "PartitionRollout"),
            (&status(partition, 3, 3, 2, 1, ", currentRevision: a, updateRevision: b"), CURRENT.0, CURRENT.1),
            (&status("rollingUpdate: {partition: 0}", 3, 3, 3, 2, same), PROGRESS, "PartitionRollout"),
            (&status("rollingUpdate: {partition: 0}", 3, 3, 3, 3, same), CURRENT.0, CURRENT.1),
            (&status(partition, 3, 2, 2, 1, same), PROGRESS, "LessReady"),
            (&status("type: OnDelete", 0, 0, 0, 0, ""), CURRENT.0, CURRENT.1),
            ("spec: {replicas: 0}", CURRENT.0, CURRENT.1),
            ("spec: {}", PROGRESS, "LessReplicas"),
        ],
    );
}

#[test]
fn a_daemon_set_waits_until_it_was_counted() {
    let status = |current, updated, available, ready| {
        format!(
            "metadata: {{generation: 1}}\nstatus: {{observedGeneration: 1, desiredNumberScheduled: 4, currentNumberScheduled: {current}, \
             updatedNumberScheduled: {updated}, numberAvailable: {available}, numberReady: {ready}}}"
        )
    };
    table(
        "apiVersion: apps/v1\nkind: DaemonSet",
        &[
            ("status: {observedGeneration: 1, desiredNumberScheduled: 0}", PROGRESS, "NoGeneration"),
            (
                "metadata: {generation: 1}\nstatus: {desiredNumberScheduled: 0}",
                PROGRESS,
                "NoObservedGeneration",
            ),
            ("metadata: {generation: 1}\nstatus: {observedGeneration: 1}", PROGRESS, "NoDesiredNumber"),
            (
                "metadata: {generation: 1}\nstatus: {observedGeneration: 1, desiredNumberScheduled: 0}",
                CURRENT.0,
                CURRENT.1,
            ),
            (&status(4, 4, 4, 4), CURRENT.0, CURRENT.1),
            (&status(3, 4, 4, 4), PROGRESS, "LessCurrent"),
            (&status(4, 3, 4, 4), PROGRESS, "LessUpdated"),
            (&status(4, 4, 3, 4), PROGRESS, "LessAvailable"),
            (&status(4, 4, 4, 3), PROGRESS, "LessReady"),
            (
                &format!("{}\nspec: {{updateStrategy: {{type: OnDelete}}}}", status(4, 0, 4, 4)),
                CURRENT.0,
                CURRENT.1,
            ),
        ],
    );
}

#[test]
fn a_job_is_done_only_when_complete() {
    table(
        "apiVersion: batch/v1\nkind: Job",
        &[
            ("spec: {}", PROGRESS, "JobNotStarted"),
            ("status: {startTime: 2026-01-01T00:00:00Z, active: 1}", PROGRESS, "JobInProgress"),
            ("status: {startTime: 2026-01-01T00:00:00Z, succeeded: 1}", PROGRESS, "JobInProgress"),
            ("status: {conditions: [{type: Complete, status: 'True'}]}", CURRENT.0, CURRENT.1),
            (
                "status: {startTime: 2026-01-01T00:00:00Z, conditions: [{type: Complete, status: 'False'}]}",
                PROGRESS,
                "JobInProgress",
            ),
            (
                "status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: m}]}",
                Status::Failed,
                "JobFailed",
            ),
            ("status: {conditions: [{type: Failed, status: 'False'}]}", PROGRESS, "JobNotStarted"),
            (
                "spec: {suspend: true}\nstatus: {conditions: [{type: Suspended, status: 'True'}]}",
                CURRENT.0,
                CURRENT.1,
            ),
            (
                "spec: {suspend: false}\nstatus: {conditions: [{type: Suspended, status: 'True'}]}",
                PROGRESS,
                "JobNotStarted",
            ),
            (
                "spec: {suspend: true}\nstatus: {conditions: [{type: Suspended, status: 'False'}]}",
                PROGRESS,
                "JobNotStarted",
            ),
        ],
    );
    let failed = judge(
        "apiVersion: batch/v1\nkind: Job\nstatus: {conditions: [{type: Failed, status: 'True', reason: R, message: m}]}",
    );
    assert_eq!(failed.message, "R: m");
    let running = judge(
        "apiVersion: batch/v1\nkind: Job\nspec: {completions: 3}\nstatus: {startTime: x, succeeded: 2}",
    );
    assert_eq!(running.progress, Some((2, 3)));
}
