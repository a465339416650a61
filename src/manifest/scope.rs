//! Which kinds live in no namespace, as far as that is known without asking a cluster.

use super::order::is_built_in;

/// Whether a kind of Kubernetes itself is cluster-scoped; `None` for other kinds: only a cluster knows.
///
/// From `kubectl api-resources --namespaced=false` of Kubernetes 1.36.
#[must_use]
pub fn is_cluster_scoped(group: &str, kind: &str) -> Option<bool> {
    is_built_in(group).then(|| match group {
        "" => matches!(kind, "ComponentStatus" | "Namespace" | "Node" | "PersistentVolume"),
        "apiextensions.k8s.io"
        | "apiregistration.k8s.io"
        | "admissionregistration.k8s.io"
        | "authentication.k8s.io"
        | "certificates.k8s.io"
        | "flowcontrol.apiserver.k8s.io"
        | "node.k8s.io"
        | "scheduling.k8s.io" => true,
        "authorization.k8s.io" => kind != "LocalSubjectAccessReview",
        "networking.k8s.io" => matches!(kind, "IngressClass" | "IPAddress" | "ServiceCIDR"),
        "rbac.authorization.k8s.io" => kind.starts_with("ClusterRole"),
        "resource.k8s.io" => matches!(kind, "DeviceClass" | "ResourceSlice"),
        "storage.k8s.io" => kind != "CSIStorageCapacity",
        _ => false,
    })
}
