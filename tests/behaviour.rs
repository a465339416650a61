//! Behaviour of the operator against a real API server: one module for each promise or capability.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod behaviour {
    mod crash_story;
    mod crd_rules;
    mod deletion;
    mod forged_records;
    mod lock_fields;
    mod lost_records;
    mod own_crd;
    mod pending_records;
    mod refusals;
    mod restarts;
    mod retries;
    mod rollout;
    mod unsupported;
    mod waits;
}
