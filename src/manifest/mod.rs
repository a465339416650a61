//! One Kubernetes object as data: YAML, identity, normal form, order, digest, fingerprint, inventory, adoption.
//!
//! May import `api` only. Invariant: an [`Object`] is normalised, so two bodies with equal [`digest()`] are the same
//! desired state, and applying one twice changes nothing.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod adoption;
pub mod differences;
pub mod managed_fields;
pub mod order;
pub mod yaml;

mod definition;
mod digest;
mod error;
mod id;
mod inventory;
mod normalise;
mod object;
mod pointer;
mod scope;

pub use definition::{Defined, defining, is_definition};
pub use digest::{digest, digest_of, hex, sha256_hex};
pub use error::Error;
pub use id::{ObjectId, group_of};
pub use inventory::{InventoryEntry, Ran};
pub use normalise::normalise;
pub use object::{Object, duplicates};
pub use pointer::{leave_out, remove_pointer};
pub use scope::is_cluster_scoped;
