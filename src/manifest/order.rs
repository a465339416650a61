//! In which order kinds are created, and in reverse deleted.

/// Groups that the API server itself serves. Every other group is that of custom resources or of an aggregated API.
const BUILT_IN_GROUPS: [&str; 25] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "settings.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether the API server serves the group without a CRD or an APIService.
#[must_use]
pub fn is_built_in(group: &str) -> bool {
    BUILT_IN_GROUPS.contains(&group)
}

/// Lower is created earlier; equal ranks may be created at the same time. Deletion goes in descending rank.
///
/// The order of the published Sherpack library with three changes: priority and runtime classes come first,
/// because pods and quotas that name them are refused without; what intercepts requests comes last, because a
/// webhook whose pods do not run yet blocks everything after it; custom resources come just before that, after the
/// workloads, Services and APIServices that serve, convert or validate them.
#[must_use]
pub fn rank(group: &str, kind: &str) -> u16 {
    match (group, kind) {
        ("scheduling.k8s.io", "PriorityClass") | ("node.k8s.io", "RuntimeClass") => 10,
        ("", "Namespace") => 20,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 30,
        // Quotas and limits count only what is created after them.
        ("", "ResourceQuota" | "LimitRange") | ("policy" | "extensions", "PodSecurityPolicy") => 40,
        ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding") => 50,
        ("", "ServiceAccount") | ("rbac.authorization.k8s.io", "Role" | "RoleBinding") => 60,
        ("", "ConfigMap" | "Secret") => 70,
        ("", "PersistentVolume" | "PersistentVolumeClaim")
        | ("storage.k8s.io", "StorageClass" | "CSIDriver" | "VolumeAttributesClass")
        | ("resource.k8s.io", _) => 80,
        // Before the workloads: pods get a Service's variables only when it exists at their start, and no pod
        // runs without its network policy.
        ("", "Service" | "Endpoints")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("networking.k8s.io", _)
        | ("extensions", "Ingress" | "NetworkPolicy") => 90,
        ("apps" | "extensions", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("", "Pod" | "ReplicationController") => 100,
        ("batch", "Job" | "CronJob") => 110,
        ("autoscaling", "HorizontalPodAutoscaler")
        | ("autoscaling.k8s.io", "VerticalPodAutoscaler")
        | ("policy", "PodDisruptionBudget") => 120,
        ("admissionregistration.k8s.io", _) => 150,
        (group, _) if is_built_in(group) => 130,
        _ => 140,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RBAC: &str = "rbac.authorization.k8s.io";

    #[test]
    fn kinds_are_created_in_this_order() {
        let steps: [&[(&str, &str)]; 15] = [
            &[("scheduling.k8s.io", "PriorityClass"), ("node.k8s.io", "RuntimeClass")],
            &[("", "Namespace")],
            &[("apiextensions.k8s.io", "CustomResourceDefinition")],
            &[("", "ResourceQuota"), ("", "LimitRange")],
            &[(RBAC, "ClusterRole"), (RBAC, "ClusterRoleBinding")],
            &[("", "ServiceAccount"), (RBAC, "Role"), (RBAC, "RoleBinding")],
            &[("", "ConfigMap"), ("", "Secret")],
            &[("", "PersistentVolumeClaim"), ("", "PersistentVolume"), ("storage.k8s.io", "StorageClass")],
            &[("", "Service"), ("networking.k8s.io", "Ingress"), ("networking.k8s.io", "NetworkPolicy")],
            &[("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("", "Pod")],
            &[("batch", "Job"), ("batch", "CronJob")],
            &[("autoscaling", "HorizontalPodAutoscaler"), ("policy", "PodDisruptionBudget")],
            &[("apiregistration.k8s.io", "APIService"), ("coordination.k8s.io", "Lease")],
            &[("cert-manager.io", "Certificate"), ("serving.knative.dev", "Service")],
            &[
                ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
                ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
                ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
            ],
        ];
        for pair in steps.windows(2) {
            for (group, kind) in pair[0] {
                for (later_group, later_kind) in pair[1] {
                    assert!(
                        rank(group, kind) < rank(later_group, later_kind),
                        "{kind} is not before {later_kind}"
                    );
                }
            }
        }
        for step in steps {
            assert!(
                step.iter().all(|(group, kind)| rank(group, kind) == rank(step[0].0, step[0].1)),
                "{step:?}"
            );
        }
    }

    #[test]
    fn a_custom_resource_with_a_well_known_kind_is_still_custom() {
        assert_eq!(rank("networking.istio.io", "Service"), rank("x.io", "Y"));
        assert_eq!(rank("gateway.networking.k8s.io", "Gateway"), rank("x.io", "Y"));
    }
}
