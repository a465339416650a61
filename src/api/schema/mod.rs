//! The schema types of `SherpackRelease`, and its CustomResourceDefinition.

mod crd;
mod guard;
mod operations;
mod release;
pub(super) mod source;
mod status;

pub use crd::{Error as CrdError, crd, crd_yaml};
pub use guard::{
    Compression, Drift, DriftIgnore, DriftMode, DriftTarget, History, HistoryStorage, LargeRevision,
    StrictDrift,
};
pub use operations::{
    Adopt, CrdUninstall, CrdUpgrade, Crds, ImmutableFields, Install, InstallFailure, Test, Uninstall,
    UninstallPolicy, Upgrade, UpgradeFailure, Waves,
};
pub use release::{Approval, SherpackRelease, SherpackReleaseSpec};
pub use source::{
    ArtifactKind, Dependency, Lock, PackSource, ReferenceKind, ReleaseReference, SignatureProvider, Values,
    ValuesReference,
};
pub use status::{
    Contended, CrdStatus, DriftStatus, DriftedObject, HistoryEntry, LIST_MAX, LastHandled, NAME_MAX,
    OperationStatus, PackStatus, PlanStatus, SherpackReleaseStatus, WaitingFor, clip_all,
};
