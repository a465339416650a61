/// Who must act before an error can go away.
///
/// Every error enum of the crate answers `class()` with one of these; it decides between a backoff
/// and waiting for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No one has to act: the same call may succeed later.
    Retry,
    /// The author of the release or of its pack.
    FixSpec,
    /// The cluster administrator: permissions, missing namespaces, foreign objects.
    FixCluster,
}
