//! An operation, step by step: install, upgrade, rollback, uninstall, tests.

pub(super) mod conclude;
pub(super) mod hooks;
pub(super) mod immutable_fields;
pub(super) mod jobs;
pub(super) mod left_behind;
pub(super) mod run;
pub(super) mod steps;
pub(super) mod test_hooks;
pub(super) mod uninstall;
pub(super) mod without_account;
