//! The objects of releases: read, applied, deleted, handed over.

mod apply;
mod cached;
mod contents;
mod definitions;
mod existence;
mod flux;
mod guarded;
mod handle;
mod holders;
mod immutable;
mod leave;
mod look;
mod outdated;

pub use apply::is_hidden;
pub use contents::{Contents, Reference, Referent, Unread};
pub use existence::{Created, Propagation};
pub use flux::{FluxArtifact, FluxCondition, FluxSource, FluxStatus, NoFluxSource};
pub use handle::{Applied, Cluster, Meta, Mode, fingerprint_of, version_of};
pub use look::{LOOK_DEADLINE, LookError};
