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
        // Every new autoscaler lacks metrics until its first pods were measured, and in a cluster without a metrics
        // API for ever; the replicas stay as they are meanwhile.
        let failed = Health::failed(bad.reason(), bad.message());
        return if bad.reason().contains("Metric") { failed.not_terminal() } else { failed };
    }
    if conditions.iter().any(|c| c.is_true() && matches!(c.type_(), "AbleToScale" | "ScalingLimited")) {
        return Health::current("is able to scale");
    }
    Health::in_progress("NotObserved", "is waiting to autoscale")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use crate::health::{Status, assess};

    #[test]
    fn missing_metrics_are_told_and_hinder_nobody() {
        for (reason, terminal) in [
            ("FailedGetResourceMetric", false),
            ("FailedComputeMetricsReplicas", false),
            ("FailedGetScale", true),
            ("InvalidSelector", true),
        ] {
            let type_ = if reason == "FailedGetScale" { "AbleToScale" } else { "ScalingActive" };
            let live = json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
                "status": {"conditions": [{"type": type_, "status": "False", "reason": reason}]},
            });
            let health = assess(&live, None, Timestamp::UNIX_EPOCH);
            assert_eq!((health.status, health.terminal), (Status::Failed, terminal), "{reason}");
        }
    }
}
