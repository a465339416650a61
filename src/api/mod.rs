//! The API: the `SherpackRelease` resource, every name and reason that it uses, and the way from what a user wrote
//! to settings that the rest of the crate can rely on.
//!
//! May import nothing of this crate. Invariant: pure; nothing after [`validate()`] reads the raw spec.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod annotations;
mod bounds;
mod class;
pub mod conditions;
mod digest;
pub mod duration;
mod ignore;
mod invalid;
pub mod names;
pub mod reasons;
mod schema;
pub mod selector;
mod settings;
mod text;

pub use bounds::{Bounded, INTERVAL_MIN, TIMEOUT_MAX};
pub use class::Class;
pub use digest::is_digest;
pub use ignore::{BadRule, FieldPath, IgnoreRule, Segment};
pub use invalid::Invalid;
pub use schema::{
    Adopt, Approval, ArtifactKind, Compression, Contended, CrdError, CrdStatus, CrdUninstall, CrdUpgrade,
    Crds, Dependency, Drift, DriftIgnore, DriftMode, DriftStatus, DriftTarget, DriftedObject, History,
    HistoryEntry, HistoryStorage, ImmutableFields, Install, InstallFailure, LIST_MAX, LargeRevision,
    LastHandled, Lock, NAME_MAX, OperationStatus, PackSource, PackStatus, PlanStatus, ReferenceKind,
    ReleaseReference, SherpackRelease, SherpackReleaseSpec, SherpackReleaseStatus, SignatureProvider,
    StrictDrift, Test, Uninstall, UninstallPolicy, Upgrade, UpgradeFailure, Values, ValuesReference,
    WaitingFor, Waves, clip_all, crd, crd_yaml,
};
pub use settings::sources;
pub use settings::{
    ActsAs, CrdSettings, DependsOn, DriftPause, Installer, LockOf, LockPolicy, PackFrom, Policy, Requests,
    Settings, Tenancy, TestSettings, UninstallSettings, ValuesFrom, WAVE_TIMEOUT, WaveSettings, acts_as,
    dependencies, is_account_name, lock_named, lock_of, uninstall_settings, validate,
};
