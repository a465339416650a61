//! The annotations of a manifest that mean something here, with the values that they may have: the one table of them.
//!
//! `plan` and `manifest` read them, `lint` holds packs to them.

use super::names::{
    CRD_POLICY, DRIFT, HEALTH_CHECK, HEALTH_CHECK_COMMAND, HEALTH_CHECK_CONTAINER, HEALTH_CHECK_INTERVAL,
    HEALTH_CHECK_PATH, HEALTH_CHECK_PORT, HEALTH_CHECK_SCHEME, HEALTH_CHECK_STATUS, HEALTH_CHECK_TIMEOUT,
    HEALTH_CHECK_TYPE, HELM_HOOK, HELM_HOOK_DELETE_POLICY, HELM_HOOK_WEIGHT, HELM_RESOURCE_POLICY, HOOK,
    HOOK_DELETE_POLICY, HOOK_FAILURE_POLICY, HOOK_RETRIES, HOOK_TIMEOUT, HOOK_WEIGHT, IGNORE, KEEP,
    RESOURCE_POLICY, SKIP_WAIT, SYNC_WAVE, WAIT_FOR,
};

/// Phases of hooks; `test-success` is Helm's older word for `test`.
pub const HOOKS: [&str; 10] = [
    "pre-install",
    "post-install",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "pre-delete",
    "post-delete",
    "test",
    "test-success",
];
/// When the object of a hook is deleted.
pub const DELETE_POLICIES: [&str; 3] = ["before-hook-creation", "hook-succeeded", "hook-failed"];

/// What may stand as the value of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// One of these.
    Word(&'static [&'static str]),
    /// A comma list of these.
    Words(&'static [&'static str]),
    /// `true` or `false`.
    Truth,
    Integer,
    /// A whole number from 0.
    Count,
    Duration,
    /// `Kind/name` of objects of the same pack.
    Objects,
    /// By number or name.
    Port,
    /// Status codes of HTTP.
    Codes,
    Path,
    Text,
}

/// All of them. Each has a test of what it does: see `src/coverage.rs`.
pub const KNOWN: [(&str, Wants); 26] = [
    (HOOK, Wants::Words(&HOOKS)),
    (HELM_HOOK, Wants::Words(&HOOKS)),
    (HOOK_WEIGHT, Wants::Integer),
    (HELM_HOOK_WEIGHT, Wants::Integer),
    (HOOK_DELETE_POLICY, Wants::Words(&DELETE_POLICIES)),
    (HELM_HOOK_DELETE_POLICY, Wants::Words(&DELETE_POLICIES)),
    (HOOK_FAILURE_POLICY, Wants::Word(&["fail", "continue", "rollback"])),
    (HOOK_TIMEOUT, Wants::Duration),
    (HOOK_RETRIES, Wants::Count),
    (SYNC_WAVE, Wants::Integer),
    (WAIT_FOR, Wants::Objects),
    (SKIP_WAIT, Wants::Truth),
    (RESOURCE_POLICY, Wants::Word(&[KEEP])),
    (HELM_RESOURCE_POLICY, Wants::Word(&[KEEP])),
    (CRD_POLICY, Wants::Word(&["managed", "shared", "external"])),
    (DRIFT, Wants::Word(&[IGNORE])),
    (HEALTH_CHECK, Wants::Truth),
    (HEALTH_CHECK_TYPE, Wants::Word(&["http", "command"])),
    (HEALTH_CHECK_PATH, Wants::Path),
    (HEALTH_CHECK_PORT, Wants::Port),
    (HEALTH_CHECK_SCHEME, Wants::Word(&["http", "https"])),
    (HEALTH_CHECK_STATUS, Wants::Codes),
    (HEALTH_CHECK_COMMAND, Wants::Text),
    (HEALTH_CHECK_CONTAINER, Wants::Text),
    (HEALTH_CHECK_INTERVAL, Wants::Duration),
    (HEALTH_CHECK_TIMEOUT, Wants::Duration),
];
