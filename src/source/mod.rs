//! Where packs come from. Thin IO: bytes in, [`Pack`](crate::pack::Pack) out.
//!
//! May import `render`, `pack`, `manifest` and `api`. Invariant: a release never reads a file outside of
//! the pack directory, and no more bytes than [`Limits`](crate::pack::Limits) allow.

pub mod configmap;
mod error;
pub mod path;

pub use error::Error;
