//! The API: the `SherpackRelease` resource, every name and reason that it uses, and the way from what a user wrote
//! to settings that the rest of the crate can rely on.
//!
//! May import nothing of this crate. Invariant: pure; nothing after [`validate()`] reads the raw spec.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod annotations;
mod class;
pub mod conditions;
mod crd;
mod dependencies;
pub mod duration;
mod guard;
mod ignore;
mod lock;
pub mod names;
mod operations;
pub mod reasons;
mod release;
pub mod selector;
mod settings;
mod source;
mod status;
mod tenancy;
mod unsupported;
mod validate;
mod validate_sources;

pub use class::Class;
pub use crd::{Error as CrdError, crd, crd_yaml};
pub use dependencies::{DependsOn, dependencies};
pub use guard::{
    Compression, Drift, DriftIgnore, DriftMode, DriftTarget, History, HistoryStorage, LargeRevision,
    StrictDrift,
};
pub use ignore::{BadRule, FieldPath, IgnoreRule, Segment};
pub use lock::lock_of;
pub use operations::{
    Adopt, CrdUninstall, CrdUpgrade, Crds, ImmutableFields, Install, InstallFailure, Test, Uninstall,
    UninstallPolicy, Upgrade, UpgradeFailure, Waves,
};
pub use release::{Approval, SherpackRelease, SherpackReleaseSpec};
pub use settings::{
    CrdSettings, DriftPause, Installer, LockOf, PackFrom, Requests, Settings, TestSettings,
    UninstallSettings, ValuesFrom, WAVE_TIMEOUT, WaveSettings,
};
pub use source::{
    ArtifactKind, ArtifactSource, Dependency, HttpSource, Lock, ObjectKey, OciSource, PackSource,
    ReferenceKind, ReleaseReference, RepositorySource, SecretReference, Values, ValuesReference,
};
pub use status::{
    Contended, CrdStatus, DriftStatus, DriftedObject, HistoryEntry, LIST_MAX, LastHandled, NAME_MAX,
    OperationStatus, PackStatus, PlanStatus, SherpackReleaseStatus, WaitingFor, clip_all,
};
pub use tenancy::{ActsAs, Tenancy, is_account_name};
pub use validate::{Invalid, LockPolicy, Policy, uninstall_settings, validate};
