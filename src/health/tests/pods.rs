use super::*;

const POD: &str = "apiVersion: v1\nkind: Pod";

fn at(time: &str) -> String {
    format!("2026-01-01T{time}Z")
}

#[test]
fn a_pod_is_judged_by_phase_and_readiness() {
    let crashing = "containerStatuses: [{name: ok, state: {running: {}}}, {name: bad, state: {waiting: {reason: CrashLoopBackOff}}}]";
    table(
        POD,
        &[
            ("status: {phase: Succeeded}", CURRENT.0, CURRENT.1),
            ("status: {phase: Failed}", Status::Failed, "PodFailed"),
            ("status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", CURRENT.0, CURRENT.1),
            (
                "status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}",
                PROGRESS,
                "PodRunningNotReady",
            ),
            ("status: {phase: Running}", PROGRESS, "PodRunningNotReady"),
            (&format!("status: {{phase: Running, {crashing}}}"), Status::Failed, "ContainerCrashLooping"),
            (
                &format!(
                    "status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}], {crashing}}}"
                ),
                CURRENT.0,
                CURRENT.1,
            ),
            ("status: {phase: Pending}", PROGRESS, "PodPending"),
            (
                "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}",
                PROGRESS,
                "PodPending",
            ),
            ("status: {}", PROGRESS, "PodNotObserved"),
            ("status: {phase: ''}", PROGRESS, "PodNotObserved"),
            ("status: {phase: Dreaming}", PROGRESS, "PodPhaseUnknown"),
        ],
    );
}

#[test]
fn an_unschedulable_pod_fails_after_15_seconds_of_life() {
    let unschedulable = |metadata: &str| {
        judge(&format!(
            "{POD}\nmetadata: {{{metadata}}}\nstatus: {{phase: Pending, conditions: [{{type: PodScheduled, status: 'False', reason: \
             Unschedulable, message: no nodes}}]}}"
        ))
    };
    let young = unschedulable(&format!("creationTimestamp: {}", at("00:59:46")));
    assert_eq!((young.status, young.reason.as_str()), (PROGRESS, "PodNotScheduled"));
    assert_eq!(young.recheck_in, Some(Duration::from_secs(1)));
    for metadata in [format!("creationTimestamp: {}", at("00:59:45")), String::new()] {
        let old = unschedulable(&metadata);
        assert_eq!((old.status, old.reason.as_str()), (Status::Failed, "PodUnschedulable"), "{metadata}");
        assert_eq!(old.recheck_in, None);
        assert!(old.message.contains("no nodes"));
    }
}

#[test]
fn an_image_that_cannot_be_pulled_fails_the_pod_after_30_seconds() {
    let pulling = |scheduled: &str, reason: &str, phase: &str| {
        judge(&format!(
            "{POD}\nmetadata: {{creationTimestamp: {}}}\nstatus: {{phase: {phase}, conditions: [{{type: PodScheduled, status: 'True', \
             lastTransitionTime: {}}}], containerStatuses: [{{name: web, image: 'x.io/web:v9', state: {{waiting: {{reason: {reason}, \
             message: denied}}}}}}]}}",
            at("00:00:00"),
            at(scheduled)
        ))
    };
    let early = pulling("00:59:31", "ErrImagePull", "Pending");
    assert_eq!((early.status, early.reason.as_str()), (PROGRESS, "ErrImagePull"));
    assert_eq!(early.recheck_in, Some(Duration::from_secs(1)));
    for phase in ["Pending", "Running"] {
        for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"] {
            let late = pulling("00:59:30", reason, phase);
            assert_eq!((late.status, late.reason.as_str()), (Status::Failed, reason));
            assert!(
                late.message.contains("x.io/web:v9") && late.message.contains("denied"),
                "{}",
                late.message
            );
        }
    }
    assert_eq!(pulling("00:00:00", "ContainerCreating", "Pending").reason, "PodPending");
}

#[test]
fn an_image_of_an_init_container_counts_and_a_lost_time_is_long_ago() {
    let health = judge(&format!(
        "{POD}\nstatus: {{phase: Pending, initContainerStatuses: [{{name: i, image: a, state: {{waiting: {{reason: ImagePullBackOff}}}}}}]}}"
    ));
    assert_eq!(health.status, Status::Failed);
    assert_eq!(health.message, "container i cannot pull image a");
    let started = |time: &str| {
        judge(&format!(
            "{POD}\nstatus: {{phase: Pending, startTime: {}, containerStatuses: [{{name: i, state: {{waiting: {{reason: ErrImagePull}}}}}}]}}",
            at(time)
        ))
        .status
    };
    assert_eq!((started("00:59:31"), started("00:59:30")), (PROGRESS, Status::Failed));
}

#[test]
fn a_failed_pod_says_what_ended_it() {
    let message = |status: &str| judge(&format!("{POD}\nstatus: {{phase: Failed, {status}}}")).message;
    assert_eq!(message("reason: Evicted, message: out of disk"), "has failed: out of disk");
    assert_eq!(message("reason: Evicted"), "has failed: Evicted");
    assert_eq!(
        message(
            "containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}, {name: b, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]"
        ),
        "has failed: container b ended with exit code 137: OOMKilled"
    );
    assert_eq!(message("containerStatuses: []"), "has failed");
}

#[test]
fn a_failed_pod_fails_its_workload_unless_it_was_evicted() {
    let pod = |metadata: &str, status: &str| {
        live(&format!("{POD}\nmetadata: {{name: web-1{metadata}}}\nstatus: {{{status}}}"))
    };
    let pulling = "phase: Pending, containerStatuses: [{name: c, image: i, state: {waiting: {reason: ImagePullBackOff}}}]";
    let rows = [
        (pod("", "phase: Failed"), true),
        (pod("", pulling), true),
        (pod("", "phase: Running, conditions: [{type: Ready, status: 'True'}]"), false),
        (pod("", "phase: Pending"), false),
        (pod("", "phase: Failed, reason: Evicted"), false),
        (pod("", "phase: Failed, conditions: [{type: DisruptionTarget, status: 'True'}]"), false),
        (pod(", deletionTimestamp: 2026-01-01T00:00:00Z", "phase: Failed"), false),
    ];
    for (pod, fails) in rows {
        assert_eq!(workload_failure(std::slice::from_ref(&pod), now()).is_some(), fails, "{pod}");
    }
    let two = [pod("", "phase: Pending"), pod("", pulling)];
    let health = workload_failure(&two, now()).unwrap();
    assert_eq!(health.message, "pod web-1 container c cannot pull image i");
    assert_eq!(workload_failure(&[], now()), None);
}
