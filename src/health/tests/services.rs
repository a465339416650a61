use super::*;

#[test]
fn a_load_balancer_waits_for_its_cluster_address_only() {
    table(
        "apiVersion: v1\nkind: Service",
        &[
            ("spec: {type: LoadBalancer}", PROGRESS, "NoIPAssigned"),
            ("spec: {type: LoadBalancer, clusterIP: ''}", PROGRESS, "NoIPAssigned"),
            (
                "spec: {type: LoadBalancer, clusterIP: 10.0.0.1}\nstatus: {loadBalancer: {}}",
                CURRENT.0,
                CURRENT.1,
            ),
            ("spec: {type: ClusterIP}", CURRENT.0, CURRENT.1),
            ("spec: {clusterIP: None}", CURRENT.0, CURRENT.1),
        ],
    );
}

#[test]
fn a_volume_claim_is_current_when_bound() {
    table(
        "apiVersion: v1\nkind: PersistentVolumeClaim",
        &[
            ("status: {phase: Bound}", CURRENT.0, CURRENT.1),
            ("status: {phase: Pending}", PROGRESS, "NotBound"),
            ("status: {phase: Lost}", PROGRESS, "NotBound"),
            ("spec: {}", PROGRESS, "NotBound"),
        ],
    );
}

#[test]
fn a_crd_is_current_when_established() {
    table(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
        &[
            ("spec: {}", PROGRESS, "Installing"),
            (
                "status: {conditions: [{type: Established, status: 'True'}, {type: NamesAccepted, status: 'True'}]}",
                CURRENT.0,
                CURRENT.1,
            ),
            (
                "status: {conditions: [{type: Established, status: 'False', reason: Installing}]}",
                PROGRESS,
                "Installing",
            ),
            (
                "status: {conditions: [{type: Established, status: 'False', reason: NotAccepted}]}",
                Status::Failed,
                "NotAccepted",
            ),
            (
                "status: {conditions: [{type: Established, status: 'False'}]}",
                Status::Failed,
                "NotEstablished",
            ),
            ("status: {conditions: [{type: Established, status: Unknown}]}", PROGRESS, "Installing"),
            ("status: {conditions: [{type: NamesAccepted, status: 'True'}]}", PROGRESS, "Installing"),
            (
                "status: {conditions: [{type: Established, status: 'True'}, {type: NamesAccepted, status: 'False', reason: PluralConflict}]}",
                Status::Failed,
                "PluralConflict",
            ),
        ],
    );
}

#[test]
fn an_api_service_is_current_when_available() {
    table(
        "apiVersion: apiregistration.k8s.io/v1\nkind: APIService",
        &[
            ("status: {conditions: [{type: Available, status: 'True'}]}", CURRENT.0, CURRENT.1),
            (
                "status: {conditions: [{type: Available, status: 'False', reason: ServiceNotFound}]}",
                PROGRESS,
                "ServiceNotFound",
            ),
            ("spec: {}", PROGRESS, "NotAvailable"),
        ],
    );
}

#[test]
fn an_autoscaler_needs_its_metrics() {
    let able = "{type: AbleToScale, status: 'True', reason: SucceededGetScale}";
    table(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler",
        &[
            ("spec: {}", PROGRESS, "NotObserved"),
            (&format!("status: {{conditions: [{able}]}}"), CURRENT.0, CURRENT.1),
            (
                "status: {conditions: [{type: ScalingLimited, status: 'True', reason: TooFewReplicas}]}",
                CURRENT.0,
                CURRENT.1,
            ),
            (
                "status: {conditions: [{type: AbleToScale, status: 'False', reason: BackoffBoth}]}",
                PROGRESS,
                "NotObserved",
            ),
            (
                &format!(
                    "status: {{conditions: [{able}, {{type: ScalingActive, status: 'False', reason: ScalingDisabled}}]}}"
                ),
                CURRENT.0,
                CURRENT.1,
            ),
            (
                &format!(
                    "status: {{conditions: [{able}, {{type: ScalingActive, status: 'False', reason: FailedGetResourceMetric}}]}}"
                ),
                Status::Failed,
                "FailedGetResourceMetric",
            ),
            (
                "status: {conditions: [{type: AbleToScale, status: 'False', reason: FailedGetScale}]}",
                Status::Failed,
                "FailedGetScale",
            ),
            (
                "status: {conditions: [{type: ScalingLimited, status: 'False', reason: FailedGetScale}]}",
                PROGRESS,
                "NotObserved",
            ),
        ],
    );
}

#[test]
fn every_degraded_reason_of_an_autoscaler_is_known() {
    for (type_, reasons) in [
        ("AbleToScale", &["FailedGetScale", "FailedUpdateScale"][..]),
        (
            "ScalingActive",
            &[
                "FailedGetResourceMetric",
                "FailedGetObjectMetric",
                "FailedGetPodsMetric",
                "FailedGetExternalMetric",
                "FailedComputeMetricsReplicas",
                "InvalidSelector",
            ],
        ),
    ] {
        for reason in reasons {
            let health = judge(&format!(
                "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nstatus: {{conditions: [{{type: {type_}, status: 'False', reason: {reason}}}]}}"
            ));
            assert_eq!((health.status, health.reason.as_str()), (Status::Failed, *reason));
        }
    }
}

#[test]
fn conditions_in_the_annotation_of_autoscaling_v1_count() {
    let annotated = |conditions: &str| {
        judge(&format!(
            "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {{annotations: \
             {{autoscaling.alpha.kubernetes.io/conditions: '{conditions}'}}}}"
        ))
        .status
    };
    assert_eq!(annotated(r#"[{"type":"AbleToScale","status":"True","reason":"X"}]"#), Status::Current);
    assert_eq!(
        annotated(r#"[{"type":"AbleToScale","status":"False","reason":"FailedGetScale"}]"#),
        Status::Failed
    );
    assert_eq!(annotated("broken"), PROGRESS);
}
