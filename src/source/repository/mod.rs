//! A chart repository over HTTP: its `index.yaml`, read into a compact [`Index`], and the archives that it names.
//!
//! Invariant: whatever the bytes are, reading them keeps no more than [`MAX_ENTRIES`] short entries, expands no alias
//! of a list or map, and builds no tree.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

#[allow(clippy::disallowed_methods, reason = "it is the part that does IO")]
mod fetch;
mod index;
mod nodes;
mod read;

pub(in crate::source) use fetch::{Indexes, fetch};
pub use fetch::{Listed, archive, versions};
pub use index::{Digest, Entry, Index, NotInIndex, resolve};
pub use nodes::Unreadable;
pub use read::{MAX_BYTES, MAX_ENTRIES, parse};
