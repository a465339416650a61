use serde_json::Value;

use super::Health;
use super::live::{Condition, Live};

/// Where `autoscaling/v1` keeps what later versions have in `status.conditions`.
const V1_CONDITIONS: &str = "/metadata/annotations/autoscaling.alpha.kubernetes.io~1conditions";

/// Type and reason of a condition that Argo CD calls degraded.
const DEGRADED: [(&str, &str); 9] = [
    ("AbleToScale", "FailedGetScale"),
    ("AbleToScale", "FailedUpdateScale"),
    ("ScalingActive", "FailedComputeMetricsReplicas"),
    ("ScalingActive", "FailedGetContainerResourceMetric"),
    ("ScalingActive", "FailedGetExternalMetric"),
    ("ScalingActive", "FailedGetObjectMetric"),
    ("ScalingActive", "FailedGetPodsMetric"),
    ("ScalingActive", "FailedGetResourceMetric"),
    ("ScalingActive", "InvalidSelector"),
];

pub(super) fn autoscaler(live: &Live<'_>) -> Health {
    let annotated: Vec<Value> =
        live.text(V1_CONDITIONS).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let conditions: Vec<Condition<'_>> =
        live.conditions().chain(annotated.iter().map(Condition::new)).collect();

    if let Some(bad) = conditions.iter().find(|c| !c.is_true() && DEGRADED.contains(&(c.type_(), c.reason())))
    {
        return Health::failed(bad.reason(), bad.message());
    }
    if conditions.iter().any(|c| c.is_true() && matches!(c.type_(), "AbleToScale" | "ScalingLimited")) {
        return Health::current("is able to scale");
    }
    Health::in_progress("NotObserved", "is waiting to autoscale")
}
