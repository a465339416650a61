#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
//! Decisions about one release, and the record of its revisions. Pure.

pub mod backoff;
pub mod claims;
pub mod decide;
pub mod dependents;
pub mod depends;
pub mod description;
pub mod guard;
pub mod name_claims;

mod hook;
mod key;
mod past;
mod private;
mod record;
mod retention;

pub use hook::{Cleanup, Hook, OnFailure, Phase};
pub use key::ReleaseKey;
pub use past::Past;
pub use private::{
    Action, Begun, FAILURES, HOOK_RESULTS, HookResult, HookRun, Operation, OperationPhase, Owner,
    PRIVATE_VERSION, Private, Shipped, Tested, Undone,
};
pub use record::{PackIdentity, Person, Record, State, ValuesProvenance, revision_of, weight_of};
pub use retention::{FAILED_KEPT, Retained, surplus};

#[cfg(test)]
mod story;
