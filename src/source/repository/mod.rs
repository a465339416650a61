//! A chart repository over HTTP: what its `index.yaml` says. Bytes in, a compact [`Index`] out; the caller fetches.
//!
//! Invariant: whatever the bytes are, reading them keeps no more than [`MAX_ENTRIES`] short entries, expands no alias
//! of a list or map, and builds no tree.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod index;
mod nodes;
mod read;

pub use index::{Digest, Entry, Index, NotInIndex, resolve};
pub use nodes::Unreadable;
pub use read::{MAX_BYTES, MAX_ENTRIES, parse};
