//! An operation, step by step: install, upgrade, rollback, uninstall, tests.

mod checkpoint;
pub(super) mod conclude;
pub(super) mod definitions;
pub(super) mod hooks;
pub(super) mod jobs;
pub(super) mod leaving;
pub(super) mod left_behind;
mod outcome;
pub(super) mod run;
pub(super) mod steps;
pub(super) mod test_hooks;
pub(super) mod uninstall;
pub(super) mod without_account;
