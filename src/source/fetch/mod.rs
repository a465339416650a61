//! When sources are looked at: off the workers, one attempt at a time for each source, whatever protocol it speaks.
//!
//! [`Fetcher`] makes the attempts and wakes the releases that wait for them; [`Location`] knows how each kind of source is asked.

mod access;
mod fetcher;
mod hint;
mod location;
mod state;

pub use access::Access;
pub use fetcher::{Fetcher, OnFetch};
pub use hint::{About, Hints};
pub use location::Location;
pub use state::{Ask, Look, SourceId};
