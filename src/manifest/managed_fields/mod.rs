//! What `metadata.managedFields` tells: whether another field manager changed an object of ours, which one, and what.
//!
//! The API server keeps one entry per manager and operation. When anyone else changes, removes or takes over a field
//! that we apply, our own entry shrinks or goes; when they add something of theirs, or a controller writes
//! status, it stays the same to the byte. So a hash of that entry is enough to see drift, without a body.

pub mod ignore;

mod additions;
pub(super) mod fields;
mod fingerprint;
mod others;
mod rivals;

pub use additions::{added, nothing_lost, places_of_added, with_additions};
pub use fingerprint::fingerprint;
pub(super) use fingerprint::is_ours;
pub use others::{Holder, as_ours, held, held_alone, helm_holder, sherpack_holder, whole};
pub(super) use rivals::covers;
pub use rivals::{Taken, autoscaled, lost_paths, rivals, taken_ca_bundles};
