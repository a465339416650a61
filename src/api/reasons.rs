//! Condition types and reasons. Reasons are also the reasons of Events and a metric label, so none of them
//! carries data. Released names are never changed: people match on them.

/// Condition types of a `SherpackRelease`.
pub mod condition {
    /// True: the wanted revision is deployed and, when it waits, healthy. kstatus and `kubectl wait` read it.
    pub const READY: &str = "Ready";
    /// Present while work is being done or a retry will come by itself (kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// Present when nothing moves until a user changes something (kstatus).
    pub const STALLED: &str = "Stalled";
    /// Outcome of the last install, upgrade or rollback.
    pub const RELEASED: &str = "Released";
    /// Health of the release's objects as they are now.
    pub const HEALTHY: &str = "Healthy";
    /// Whether another user or controller changed what the release manages.
    pub const DRIFTED: &str = "Drifted";
    /// Outcome of the last run of the tests.
    pub const TESTED: &str = "Tested";

    /// All of them, in the order in which status lists them.
    pub const ALL: [&str; 7] = [READY, RECONCILING, STALLED, RELEASED, HEALTHY, DRIFTED, TESTED];
}

// ---- work -------------------------------------------------------------------------------------------------

/// An operation is running.
pub const PROGRESSING: &str = "Progressing";
/// The wanted revision is deployed; nothing to do.
pub const DEPLOYED: &str = "Deployed";
/// The first revision is deployed.
pub const INSTALL_SUCCEEDED: &str = "InstallSucceeded";
/// An install ended without success.
pub const INSTALL_FAILED: &str = "InstallFailed";
/// A later revision is deployed.
pub const UPGRADE_SUCCEEDED: &str = "UpgradeSucceeded";
/// An upgrade ended without success.
pub const UPGRADE_FAILED: &str = "UpgradeFailed";
/// An earlier revision is deployed again.
pub const ROLLBACK_SUCCEEDED: &str = "RollbackSucceeded";
/// A rollback ended without success.
pub const ROLLBACK_FAILED: &str = "RollbackFailed";
/// The release is being deleted.
pub const UNINSTALLING: &str = "Uninstalling";
/// Every object of the release is gone.
pub const UNINSTALL_SUCCEEDED: &str = "UninstallSucceeded";
/// Objects of the release could not be deleted.
pub const UNINSTALL_FAILED: &str = "UninstallFailed";
/// An object that was there before the release is not part of it any more, and is as it was.
pub const HANDED_BACK: &str = "HandedBack";
/// The release is gone, its objects stay.
pub const ORPHANED: &str = "Orphaned";
/// A pending revision was given up because the wanted inputs changed.
pub const INTERRUPTED: &str = "Interrupted";
/// A pending revision was taken up again after a restart.
pub const RESUMED: &str = "Resumed";
/// All retries of the wanted revision are spent.
pub const RETRIES_EXCEEDED: &str = "RetriesExceeded";

/// What a definition defines is not served in time.
pub const CRD_NOT_READY: &str = "CrdNotReady";
/// A definition would change in a way that can break or lose what exists.
pub const CRD_BREAKING_CHANGE: &str = "CrdBreakingChange";
/// A definition belongs to another release.
pub const OWNERSHIP_CONFLICT: &str = "OwnershipConflict";
/// Deleting a CRD would delete objects, and no user has agreed to that.
pub const CRD_DELETION_BLOCKED: &str = "CrdDeletionBlocked";

// ---- locks ------------------------------------------------------------------------------------------------

/// What `spec.lock` names is deployed, and its objects are kept as it says.
pub const LOCKED: &str = "Locked";
/// What `spec.lock` names is not deployed at the moment, so nothing of it is touched.
pub const STANDING_BACK: &str = "StandingBack";
/// What `spec.lock` names does not exist.
pub const RELEASE_NOT_FOUND: &str = "ReleaseNotFound";
/// What `spec.lock` names has more objects than one lock may have.
pub const LOCK_TOO_LARGE: &str = "LockTooLarge";
/// An object of a lock is not the operator's to write in its own name.
pub const LOCK_NEEDS_ACCOUNT: &str = "LockNeedsAccount";

// ---- holds ------------------------------------------------------------------------------------------------

/// `spec.suspend` is set.
pub const SUSPENDED: &str = "Suspended";
/// `spec.upgrade.paused` is set and a newer revision is wanted.
pub const PAUSED: &str = "Paused";
/// `spec.approval` is Manual and the plan is not approved.
pub const AWAITING_APPROVAL: &str = "AwaitingApproval";
/// A release in `spec.dependsOn` is not Ready.
pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
/// Releases that depend on this one are being deleted too and go first.
pub const WAITING_FOR_DEPENDENTS: &str = "WaitingForDependents";
/// Another living release owns this target namespace and name.
pub const RELEASE_NAME_TAKEN: &str = "ReleaseNameTaken";
/// Another tool's revision is pending.
pub const FOREIGN_PENDING: &str = "ForeignPending";

// ---- input ------------------------------------------------------------------------------------------------

/// A field is known, but what it asks for is not built yet.
pub const NOT_SUPPORTED: &str = "NotSupported";
/// A field has a value that makes no sense.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// A duration of the spec is shorter or longer than it may be, and another one counts.
pub const DURATION_OUT_OF_RANGE: &str = "DurationOutOfRange";
/// Releases in `spec.dependsOn` wait for each other in a circle.
pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
/// The pack's source does not exist or cannot be reached.
pub const SOURCE_NOT_FOUND: &str = "SourceNotFound";
/// The source exists, but holds no readable pack.
pub const SOURCE_INVALID: &str = "SourceInvalid";
/// The pack breaks a rule for packs.
pub const PACK_INVALID: &str = "PackInvalid";
/// An object of `spec.valuesFrom`, or the key in it, does not exist.
pub const VALUES_NOT_FOUND: &str = "ValuesNotFound";
/// An object of `spec.valuesFrom` cannot be read.
pub const VALUES_UNREACHABLE: &str = "ValuesUnreachable";
/// Values are no YAML, repeat a key, or exceed a limit.
pub const VALUES_INVALID: &str = "ValuesInvalid";
/// Values are a list or a scalar where an object is needed.
pub const VALUES_NOT_AN_OBJECT: &str = "ValuesNotAnObject";
/// A text of values is longer than 1 MiB.
pub const VALUES_TOO_LARGE: &str = "ValuesTooLarge";
/// A template failed.
pub const RENDER_FAILED: &str = "RenderFailed";
/// The templates gave no object at all, although the deployed revision has some.
pub const EMPTY_RENDER: &str = "EmptyRender";
/// A rendered document is no Kubernetes object that can be applied.
pub const OBJECT_INVALID: &str = "ObjectInvalid";
/// An annotation of the manifest has a value that means nothing.
pub const ANNOTATION_INVALID: &str = "AnnotationInvalid";
/// An object waits for one that is not in the manifest, comes later, or waits for it in turn.
pub const WAIT_FOR_INVALID: &str = "WaitForInvalid";

// ---- hooks ------------------------------------------------------------------------------------------------

/// A hook failed.
pub const HOOK_FAILED: &str = "HookFailed";
/// A hook did not end in time.
pub const HOOK_TIMEOUT: &str = "HookTimeout";
/// The object of a hook went while it ran.
pub const HOOK_VANISHED: &str = "HookVanished";
/// The object of an earlier run is still there, and the hook's delete policy lets it stay.
pub const HOOK_EXISTS: &str = "HookExists";
/// Every test of the release succeeded.
pub const TESTS_SUCCEEDED: &str = "TestsSucceeded";
/// A test of the release failed.
pub const TEST_FAILED: &str = "TestFailed";

// ---- rollback ---------------------------------------------------------------------------------------------

/// `spec.rollbackTo` names a revision that cannot be gone back to.
pub const ROLLBACK_TARGET_INVALID: &str = "RollbackTargetInvalid";

// ---- identity ---------------------------------------------------------------------------------------------

/// The service account of the release does not exist.
pub const SERVICE_ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";
/// The operator requires a service account and the release names none.
pub const SERVICE_ACCOUNT_REQUIRED: &str = "ServiceAccountRequired";
/// The release refers to another namespace where the operator does not allow it.
pub const CROSS_NAMESPACE_REFUSED: &str = "CrossNamespaceRefused";
/// The account that acts for the release lacks a right that is needed.
pub const FORBIDDEN: &str = "Forbidden";

// ---- cluster ----------------------------------------------------------------------------------------------

/// An object exists that is not this release's.
pub const OBJECT_NOT_OWNED: &str = "ObjectNotOwned";
/// The API server refused an object.
pub const APPLY_FAILED: &str = "ApplyFailed";
/// An object has to change in a field that cannot change.
pub const IMMUTABLE_FIELD: &str = "ImmutableField";
/// An object was deleted to be created anew, because a field of it cannot change.
pub const RECREATED: &str = "Recreated";
/// The target namespace does not exist.
pub const NAMESPACE_NOT_FOUND: &str = "NamespaceNotFound";
/// The target namespace is being deleted.
pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

// ---- health -----------------------------------------------------------------------------------------------

/// Every object is healthy.
pub const HEALTHY: &str = "Healthy";
/// Objects are still on their way.
pub const HEALTH_PROGRESSING: &str = "HealthProgressing";
/// Objects were not healthy in time.
pub const HEALTH_TIMEOUT: &str = "HealthTimeout";
/// An object says that it has failed.
pub const HEALTH_FAILED: &str = "HealthFailed";
/// An object of the deployed revision is gone.
pub const OBJECT_MISSING: &str = "ObjectMissing";
/// What was judged before may not be so any more, and nothing was judged since.
pub const HEALTH_UNKNOWN: &str = "HealthUnknown";
/// Every object was healthy, but a probe did not succeed in time.
pub const PROBE_FAILED: &str = "ProbeFailed";
/// A probe would go to an address that only the operator itself can reach, so it is not made.
pub const PROBE_REFUSED: &str = "ProbeRefused";

// ---- records ----------------------------------------------------------------------------------------------

/// A revision that must exist is gone.
pub const RECORD_LOST: &str = "RecordLost";
/// A revision exists and cannot be read or belongs to another release.
pub const RECORD_UNREADABLE: &str = "RecordUnreadable";
/// A revision says to be of this release, and its seal is not right or its key is not there.
pub const RECORD_KEY_LOST: &str = "RecordKeyLost";
/// An older state of the newest revision was put back.
pub const RECORD_REWOUND: &str = "RecordRewound";
/// A person vouched for a revision that could not be proved.
pub const RECORD_ACCEPTED: &str = "RecordAccepted";
/// A Secret with keys of the revisions was missing and is written again.
pub const RECORD_KEY_RESTORED: &str = "RecordKeyRestored";
/// A revision does not fit into what the API server stores.
pub const RECORD_TOO_LARGE: &str = "RecordTooLarge";

// ---- status -----------------------------------------------------------------------------------------------

/// The API server refused a status for its size or for what is in it: only what decisions need of it is shown.
pub const STATUS_REFUSED: &str = "StatusRefused";

// ---- leader election ---------------------------------------------------------------------------------------

/// This process does not hold the leader lease, or is ending, so it sends nothing.
pub const NOT_LEADER: &str = "NotLeader";

// ---- watches ----------------------------------------------------------------------------------------------

/// A kind of the release cannot be watched, so changes of its objects are not seen.
pub const WATCH_FAILED: &str = "WatchFailed";

// ---- drift ------------------------------------------------------------------------------------------------

/// Everything is as the release says.
pub const NO_DRIFT: &str = "NoDrift";
/// Another user or controller changed objects, and the operator put nothing back.
pub const DRIFT_DETECTED: &str = "DriftDetected";
/// Another user or controller changed objects, and the operator put them back.
pub const DRIFT_REVERTED: &str = "DriftReverted";
/// `drift.mode` is Disabled: the operator does not look for drift.
pub const DRIFT_DISABLED: &str = "DriftDisabled";
/// The lock is paused by annotation: the operator does not look for drift.
pub const DRIFT_PAUSED: &str = "DriftPaused";
/// Another field manager changes the same object again and again.
pub const CONTENDED: &str = "Contended";
