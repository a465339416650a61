/// Who must act before an error can go away.
///
/// Every error enum of the crate answers `class()` with one of these; it decides between a backoff
/// and waiting for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nobody: the same call may succeed later.
    Retry,
    /// The author of the release or of its pack.
    FixSpec,
    /// Whoever runs the cluster: permissions, missing namespaces, foreign objects.
    FixCluster,
}
