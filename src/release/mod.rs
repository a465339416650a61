#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod hook;
mod private;
mod record;
mod retention;

pub use hook::{Cleanup, Hook, OnFailure, Phase};
pub use private::{Action, Operation, OperationPhase, Owner, PRIVATE_VERSION, Private};
pub use record::{PackIdentity, Person, Record, State, ValuesProvenance, revision_of};
pub use retention::{Retained, surplus};
