//! Every label, annotation, finalizer, field manager, Secret type and data key that the project reads or
//! writes. All of them are an API: a name that has been released is never changed.
//!
//! `HELM_*` is the name under which Helm charts know the annotation above it; ours wins when both are set.

/// API group of [`SherpackRelease`](super::SherpackRelease).
pub const GROUP: &str = "sherpack.io";
/// API version within [`GROUP`].
pub const VERSION: &str = "v1alpha1";
/// `group/version` as manifests write it.
pub const API_VERSION: &str = "sherpack.io/v1alpha1";
/// Kind of the resource.
pub const KIND: &str = "SherpackRelease";
/// Name of the operator's own CustomResourceDefinition.
pub const CRD_NAME: &str = "sherpackreleases.sherpack.io";

/// Keeps a release until its objects are gone.
pub const FINALIZER: &str = "sherpack.io/finalizer";

// ---- field managers ---------------------------------------------------------------------------------------

/// Only for full server-side applies of a release's objects.
pub const MANAGER_APPLY: &str = "sherpack";
/// Everything else that the operator writes: finalizer, status, records, marks.
pub const MANAGER_OWN: &str = "sherpack-operator";
/// What people ask for on the command line.
pub const MANAGER_CLI: &str = "sherpack-cli";
/// Holds a live value for a moment while [`MANAGER_APPLY`] lets a field go.
pub const MANAGER_HANDOVER: &str = "sherpack-handover";

// ---- labels -----------------------------------------------------------------------------------------------

/// Name of the release that an object or record belongs to. Watches select by it.
pub const RELEASE_NAME: &str = "sherpack.io/release-name";
/// Namespace of the release (its target namespace) that an object or record belongs to.
pub const RELEASE_NAMESPACE: &str = "sherpack.io/release-namespace";
/// On a record: its revision, in decimal.
pub const RELEASE_VERSION: &str = "sherpack.io/release-version";
/// On a record: [`DRIVER_SECRETS`] or [`DRIVER_CONFIGMAP`]. Objects of a release never carry it.
pub const STORAGE_DRIVER: &str = "sherpack.io/storage-driver";
/// On a record: `zstd`, `gzip` or `none`.
pub const COMPRESSION: &str = "sherpack.io/compression";
/// On the newest record of a release only.
pub const HEAD: &str = "sherpack.io/head";
/// `"true"` on the index and on the chunks of a record that did not fit into one Secret.
pub const CHUNKED: &str = "sherpack.io/chunked";
/// On a chunk: its place, from 0.
pub const CHUNK_INDEX: &str = "sherpack.io/chunk-index";
/// On a chunk: the key of its record, or a hash of it when that is longer than a label value may be.
pub const CHUNK_PARENT: &str = "sherpack.io/chunk-parent";
/// `"true"` on a record of ours of which something stands in other objects; see [`DATA_PARTS`].
pub const PARTS: &str = "sherpack.io/parts";
/// Kubernetes' recommended label; ours says [`MANAGED_BY_SHERPACK`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on records.
pub const MANAGED_BY_SHERPACK: &str = "sherpack";

/// Value of [`STORAGE_DRIVER`] on Secrets.
pub const DRIVER_SECRETS: &str = "secrets";
/// Value of [`STORAGE_DRIVER`] on ConfigMaps.
pub const DRIVER_CONFIGMAP: &str = "configmap";

// ---- records ----------------------------------------------------------------------------------------------

/// Type of a Secret that holds one revision.
pub const RECORD_TYPE: &str = "sherpack.io/release.v1";
/// Type of a Secret that holds a part of one revision.
pub const CHUNK_TYPE: &str = "sherpack.io/release-chunk.v1";
/// Record names are `{RECORD_PREFIX}.{release}.v{revision}`.
pub const RECORD_PREFIX: &str = "sh.sherpack.release.v1";
/// Data key of the published record.
pub const DATA_RELEASE: &str = "release";
/// Data key of the part that is this operator's alone.
pub const DATA_PRIVATE: &str = "private";
/// Data key of a chunked record's index, and of a chunk's place.
pub const DATA_INDEX: &str = "index";
/// Data key of the names of the objects that hold the rest of a record of ours.
pub const DATA_PARTS: &str = "parts";
/// Data key of a chunk's bytes.
pub const DATA_CHUNK: &str = "chunk";

/// Type of a Secret that holds what an object was before a release adopted it.
pub const KEPT_TYPE: &str = "sherpack.io/kept.v1";
/// Names of such Secrets are `{KEPT_PREFIX}.{release}.{start of the digest}`.
pub const KEPT_PREFIX: &str = "sh.sherpack.kept.v1";
/// On such a Secret: the name of the release.
pub const KEPT: &str = "sherpack.io/kept";
/// Its data key.
pub const DATA_BEFORE: &str = "before";

// ---- what Helm writes ------------------------------------------------------------------------------------

/// Type of a Secret that holds one revision of Helm.
pub const HELM_RECORD_TYPE: &str = "helm.sh/release.v1";
/// Names of such Secrets are `{HELM_RECORD_PREFIX}.{release}.v{revision}`.
pub const HELM_RECORD_PREFIX: &str = "sh.helm.release.v1";
/// Value of [`MANAGED_BY`] on every object that Helm installs.
pub const MANAGED_BY_HELM: &str = "Helm";
/// On every object that Helm installs: the name of its release.
pub const HELM_RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// On every object that Helm installs: the namespace of its release.
pub const HELM_RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// Field manager of Helm's own command.
pub const MANAGER_HELM: &str = "helm";

// ---- annotations on a SherpackRelease ---------------------------------------------------------------------

/// Any new value asks for a pass now.
pub const RECONCILE_AT: &str = "sherpack.io/reconcile-at";
/// Any new value forgets failures, so that a stopped release tries again.
pub const RESET_AT: &str = "sherpack.io/reset-at";
/// Any new value runs the tests of the release.
pub const TEST_AT: &str = "sherpack.io/test-at";
/// RFC 3339: nothing is put back before that moment, which is at most 24 hours ahead.
pub const DRIFT_PAUSE_UNTIL: &str = "sherpack.io/drift-pause-until";
/// With `approval: Manual`: the digest of the plan that may go on.
pub const APPROVE: &str = "sherpack.io/approve";

/// Vouches for the revision record that a release is held for, by the digest that its condition shows.
pub const ACCEPT_RECORD: &str = "sherpack.io/accept-record";

/// What the next revisions say of themselves in the history, in their author's words; so it is called in the labels of
/// a record, too.
pub const DESCRIPTION: &str = "sherpack.io/description";

// ---- annotations that the operator writes -----------------------------------------------------------------

/// `<release uid>.<revision in which this object last changed>`, on everything that is applied.
pub const APPLIED: &str = "sherpack.io/applied";
/// `namespace/name` of the release that writes a CustomResourceDefinition, on that. Of manager [`MANAGER_OWN`], so that it outlives
/// what the release applies: it still tells whose a definition was when that is kept.
pub const OWNER: &str = "sherpack.io/owner";
/// [`ADOPTED_TRUE`] on a CustomResourceDefinition that was there before a release wrote it: no release ever deletes it. Of manager
/// [`MANAGER_OWN`], like [`OWNER`], so that no record has to know it.
pub const ADOPTED: &str = "sherpack.io/adopted";
/// Value of [`ADOPTED`].
pub const ADOPTED_TRUE: &str = "true";
/// `uid.revision.phase.attempt`, on a hook's object: which run it is.
pub const HOOK_RUN: &str = "sherpack.io/hook-run";

// ---- annotations on manifests -----------------------------------------------------------------------------

/// Makes an object a hook: comma list of phases.
pub const HOOK: &str = "sherpack.io/hook";
/// Helm's [`HOOK`].
pub const HELM_HOOK: &str = "helm.sh/hook";
/// Integer; lower runs first.
pub const HOOK_WEIGHT: &str = "sherpack.io/hook-weight";
/// Helm's [`HOOK_WEIGHT`].
pub const HELM_HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// Comma list of `before-hook-creation`, `hook-succeeded`, `hook-failed`.
pub const HOOK_DELETE_POLICY: &str = "sherpack.io/hook-delete-policy";
/// Helm's [`HOOK_DELETE_POLICY`].
pub const HELM_HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// `fail`, `continue` or `rollback`.
pub const HOOK_FAILURE_POLICY: &str = "sherpack.io/hook-failure-policy";
/// Duration of one run of a hook.
pub const HOOK_TIMEOUT: &str = "sherpack.io/hook-timeout";
/// How often a failed hook runs again.
pub const HOOK_RETRIES: &str = "sherpack.io/hook-retries";
/// Integer, may be negative.
pub const SYNC_WAVE: &str = "sherpack.io/sync-wave";
/// Comma list of `Kind/name` of the same release.
pub const WAIT_FOR: &str = "sherpack.io/wait-for";
/// `"true"`: the release does not wait for this object.
pub const SKIP_WAIT: &str = "sherpack.io/skip-wait";
/// `"true"`: a probe of our own belongs to the wait for this Pod, workload or Service. Its settings are annotations that
/// start with this name and a hyphen.
pub const HEALTH_CHECK: &str = "sherpack.io/health-check";
/// `http` (the default, unless there is a command) or `command`.
pub const HEALTH_CHECK_TYPE: &str = "sherpack.io/health-check-type";
/// Path of an HTTP probe; required.
pub const HEALTH_CHECK_PATH: &str = "sherpack.io/health-check-path";
/// Port of an HTTP probe, by number or name; required.
pub const HEALTH_CHECK_PORT: &str = "sherpack.io/health-check-port";
/// `http` (the default) or `https`; certificates are not verified, as the kubelet does not.
pub const HEALTH_CHECK_SCHEME: &str = "sherpack.io/health-check-scheme";
/// HTTP statuses that count as healthy: comma list of codes and ranges. Unset: 200-399.
pub const HEALTH_CHECK_STATUS: &str = "sherpack.io/health-check-status";
/// Command of a command probe: a text for `sh -c`, or a JSON list of program and arguments, which needs no shell.
pub const HEALTH_CHECK_COMMAND: &str = "sherpack.io/health-check-command";
/// Container in which a command probe runs. Unset: the one that kubectl would take.
pub const HEALTH_CHECK_CONTAINER: &str = "sherpack.io/health-check-container";
/// Time between two probes, 1s to 1h. Unset: 10s.
pub const HEALTH_CHECK_INTERVAL: &str = "sherpack.io/health-check-interval";
/// Time after which one probe counts as failed, 1s to 5m. Unset: 5s. The API server is asked for no longer than 30s.
pub const HEALTH_CHECK_TIMEOUT: &str = "sherpack.io/health-check-timeout";
/// [`KEEP`]: the object is neither pruned nor uninstalled.
pub const RESOURCE_POLICY: &str = "sherpack.io/resource-policy";
/// Helm's [`RESOURCE_POLICY`].
pub const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// `managed`, `shared` or `external`, on a CustomResourceDefinition.
pub const CRD_POLICY: &str = "sherpack.io/crd-policy";
/// [`IGNORE`]: the object is not locked.
pub const DRIFT: &str = "sherpack.io/drift";

/// Value of [`RESOURCE_POLICY`].
pub const KEEP: &str = "keep";
/// Value of [`DRIFT`].
pub const IGNORE: &str = "ignore";

// ---- limits -----------------------------------------------------------------------------------------------

/// Longest name of a release, as in Helm: names derived from it stay below 63.
pub const RELEASE_NAME_MAX: usize = 53;

/// Whether `name` is a DNS-1123 label: what Kubernetes asks of namespaces, and we of releases.
#[must_use]
pub fn is_dns_label(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_version_and_the_crd_name_are_made_of_their_parts() {
        assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
        assert_eq!(CRD_NAME, format!("sherpackreleases.{GROUP}"));
    }

    #[test]
    fn dns_labels_are_told_from_other_names() {
        for good in ["a", "podinfo", "a-1", "0", &"x".repeat(63)] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "é", &"x".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
