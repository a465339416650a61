//! CustomResourceDefinitions: what a change of one means for objects and clients that exist.
//!
//! May import `pack`, `manifest` and `api`. Pure. Invariants: [`analyze()`] of a definition with itself finds nothing; nothing that differs in
//! meaning is silent; whatever comes in, the work is linear in its size and bounded.
//!
//! * [`Definition`]: a document, read leniently, with the server's defaults.
//! * [`analyze()`]: two definitions to an ordered list of [`Change`]s, each with a [`Kind`], a path, a [`Severity`] and a message.
//! * [`admissible`]: whether the server would take a definition at all.
//! * [`policy::placement`]: where the definitions of a pack stand.
//! * [`policy`]: who writes a definition, and whether it is deleted.
//! * [`policy::strategy`]: what Safe, Force and Skip do with it.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod policy;
pub mod text;

mod analyze;
mod change;
mod check;
mod definition;
mod error;
mod evidence;
mod examples;
mod keywords;
mod path;
mod refusal;
mod same;
mod schema;

pub use analyze::{admissible, analyze, introduce};
pub use change::kind::{Kind, Severity};
pub use change::{Analysis, Change, digest, token};
pub use check::{Fit, check};
pub use definition::Definition;
pub use error::Error;
pub use evidence::Evidence;
pub use examples::document::document;
pub use examples::{Example, examples};
pub use path::Field;

#[cfg(test)]
mod tests;
