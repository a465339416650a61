//! What wakes a release: metadata watches, which also spot drift, and the probes of what a release waits for. No object body stays in memory.
//!
//! Holds a client for watching only; other rooms write.

mod claims;
mod objects;
pub mod probe;
mod records;
mod references;
mod releases;
mod stream;
mod table;
mod trouble;

pub use claims::RecordsOf;
pub use objects::{ObjectWatches, OnRestart};
pub use records::{Newest, RecordWatch};
pub use references::{ReferenceWatch, Seen};
pub use releases::Dependencies;
pub use table::{Place, Sighting, Subject, Suspicion, Table};
