use super::*;

const CUSTOM: &str = "apiVersion: x.io/v1\nkind: X";

#[test]
fn the_generic_part_comes_first_and_in_order() {
    let not_observed = "LatestGenerationNotObserved";
    table(
        CUSTOM,
        &[
            (
                "metadata: {deletionTimestamp: 2026-01-01T00:00:00Z, generation: 2}\nstatus: {observedGeneration: 1}",
                Status::Terminating,
                "Terminating",
            ),
            (
                "metadata: {generation: 2}\nstatus: {observedGeneration: 1, conditions: [{type: Stalled, status: 'True', reason: S}]}",
                PROGRESS,
                not_observed,
            ),
            ("metadata: {generation: 2}\nstatus: {observedGeneration: 3}", PROGRESS, not_observed),
            ("metadata: {generation: 2}\nstatus: {observedGeneration: 2}", CURRENT.0, CURRENT.1),
            ("metadata: {generation: 2}\nstatus: {observedGeneration: -1}", PROGRESS, not_observed),
            (
                "status: {conditions: [{type: Stalled, status: 'True', reason: S}, {type: Reconciling, status: 'True', reason: R}]}",
                PROGRESS,
                "R",
            ),
            (
                "status: {conditions: [{type: Reconciling, status: 'False', reason: R}, {type: Stalled, status: 'True', reason: S}]}",
                Status::Failed,
                "S",
            ),
            (
                "status: {conditions: [{type: Stalled, status: 'True'}, {type: Ready, status: 'True'}]}",
                Status::Failed,
                "Stalled",
            ),
            (
                "status: {conditions: [{type: Stalled, status: 'False'}, {type: Ready, status: 'True'}]}",
                CURRENT.0,
                CURRENT.1,
            ),
        ],
    );
}

#[test]
fn an_unknown_kind_is_judged_by_its_ready_condition() {
    table(
        CUSTOM,
        &[
            ("status: {conditions: [{type: Ready, status: 'True', reason: Fine}]}", CURRENT.0, CURRENT.1),
            ("status: {conditions: [{type: Ready, status: 'False', reason: Bad}]}", PROGRESS, "Bad"),
            ("status: {conditions: [{type: Ready, status: Unknown}]}", PROGRESS, "NotReady"),
            ("status: {conditions: [{type: Other, status: 'False'}]}", CURRENT.0, CURRENT.1),
            ("status: {conditions: []}", CURRENT.0, CURRENT.1),
            ("spec: {}", CURRENT.0, CURRENT.1),
            (
                "metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}",
                PROGRESS,
                "LatestGenerationNotObserved",
            ),
            (
                "metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}",
                CURRENT.0,
                CURRENT.1,
            ),
        ],
    );
}

#[test]
fn an_observed_generation_that_is_a_string_is_read_or_ignored() {
    table(
        &format!("{CUSTOM}\nmetadata: {{generation: 2}}"),
        &[
            ("status: {observedGeneration: '1'}", PROGRESS, "LatestGenerationNotObserved"),
            ("status: {observedGeneration: '2'}", CURRENT.0, CURRENT.1),
            ("status: {observedGeneration: 2-abc}", CURRENT.0, CURRENT.1),
            ("status: {observedGeneration: true}", CURRENT.0, CURRENT.1),
        ],
    );
}

#[test]
fn an_answer_older_than_our_apply_is_not_believed() {
    let at = |yaml: &str, applied| assess(&live(&format!("{CUSTOM}\n{yaml}")), applied, now()).status;
    let seen = "metadata: {generation: 2}\nstatus: {observedGeneration: 2}";
    assert_eq!(at(seen, Some(2)), Status::Current);
    assert_eq!(at(seen, Some(1)), Status::Current);
    assert_eq!(at(seen, Some(3)), PROGRESS, "the cache has not caught up");
    assert_eq!(at("status: {observedGeneration: 2}", Some(3)), PROGRESS);
    assert_eq!(at("status: {observedGeneration: 3}", Some(3)), Status::Current);
    assert_eq!(at("spec: {}", Some(3)), Status::Current, "a kind without generation");
}

#[test]
fn a_custom_resource_without_status_settles_first() {
    let at = |created: &str, rest: &str| {
        judge(&format!("{CUSTOM}\nmetadata: {{creationTimestamp: 2026-01-01T{created}Z}}\n{rest}"))
    };
    let young = at("00:59:59", "");
    assert_eq!((young.status, young.reason.as_str()), (PROGRESS, "NotObserved"));
    assert_eq!(young.recheck_in, Some(Duration::from_secs(1)));
    let old = at("00:59:58", "");
    assert_eq!((old.status, old.recheck_in), (Status::Current, None));
    assert_eq!(at("00:59:59", "status: {phase: x}").status, Status::Current);
    assert_eq!(at("01:00:05", "").recheck_in, Some(Duration::from_secs(2)), "clocks differ");
    let built_in =
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {creationTimestamp: 2026-01-01T01:00:00Z}";
    assert_eq!(judge(built_in).status, Status::Current);
}

#[test]
fn kinds_that_only_exist_are_current_once_observed() {
    for head in [
        "apiVersion: v1\nkind: ConfigMap",
        "apiVersion: v1\nkind: Secret",
        "apiVersion: batch/v1\nkind: CronJob",
        "apiVersion: policy/v1\nkind: PodDisruptionBudget",
        "apiVersion: v1\nkind: Namespace",
        "apiVersion: networking.k8s.io/v1\nkind: Ingress",
    ] {
        table(
            head,
            &[
                ("spec: {}", CURRENT.0, CURRENT.1),
                ("metadata: {deletionTimestamp: 2026-01-01T00:00:00Z}", Status::Terminating, "Terminating"),
                (
                    "metadata: {generation: 2}\nstatus: {observedGeneration: 1}",
                    PROGRESS,
                    "LatestGenerationNotObserved",
                ),
            ],
        );
    }
}

#[test]
fn a_wrong_shape_is_judged_and_not_a_crash() {
    for value in [
        serde_json::json!(null),
        serde_json::json!([]),
        serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": "x", "status": {"conditions": "y", "replicas": "1"}}),
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "containerStatuses": [5, {"state": {"waiting": 1}}]}}),
        serde_json::json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"creationTimestamp": "yesterday"}}),
    ] {
        let _ = assess(&value, Some(1), now());
    }
}

#[test]
fn done_is_current_or_suspended() {
    let done: Vec<_> =
        [Status::InProgress, Status::Current, Status::Failed, Status::Terminating, Status::Suspended]
            .into_iter()
            .filter(|status| status.is_done())
            .collect();
    assert_eq!(done, [Status::Current, Status::Suspended]);
}
