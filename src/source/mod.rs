//! What packs and values are read with. Thin IO: bytes in, [`Pack`](crate::pack::Pack) or values out. The sources of
//! `spec.pack` are in `reconcile/inputs/sources/`.
//!
//! May import `cluster` and below. Invariant: a release never reads a file outside of the pack directory, reaches no
//! address that is the operator's own, and reads no more bytes than [`Limits`](crate::pack::Limits) allow.

pub mod blob;
pub mod cache;
mod error;
pub mod fetch;
pub mod http;
pub mod lru;
mod minisig;
pub mod oci;
pub mod path;
pub mod repository;
pub mod signature;
mod validators;
pub mod values;
pub mod versions;

pub use error::Error;
pub use minisig::ENDING as MINISIG;

/// Why an object that the watch of references does not show is refused.
pub(crate) const HIDDEN: &str = "it has the label sherpack.io/storage-driver, which marks revision records, so changes of it are not seen: remove the label";
