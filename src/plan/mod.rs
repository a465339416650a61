#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
//! What an operation does, in order. Pure and stable: the same objects give the same plan.
//!
//! Owns what annotations say of hooks, waves, waits and probes, the steps of an operation, the inventory of a new revision
//! and the set of objects to prune.

mod annotations;
pub mod definitions;
mod error;
pub mod guard;
mod hooks;
mod inventory;
pub mod probes;
pub mod rights;
mod show;
mod steps;
mod summary;

pub use error::Error;
pub use hooks::{DeletePolicy, FailurePolicy, Hook, Parts, Phase, name_hooks, split};
pub use inventory::{
    Marks, NextInventory, REPLICAS, apply_body, autoscaled, deletion_order, explains, has_ttl, holds_data,
    hook_body, hook_objects, is_adopted, is_autoscaler, is_job, is_kept, is_marked, lost_replicas, make_own,
    marked_by, marker, may_delete, next_inventory, scale_target, scales,
};
pub use show::{Line, ProbeLine, lines};
pub use steps::{Occasion, Plan, Step, Wait, deletion, roll_out, tests};
pub use summary::{Changes, changes};
