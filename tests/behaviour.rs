//! Behaviour of the operator against a real API server: one module for each promise or capability.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod behaviour {
    mod crash_story;
    mod deletion;
    mod forged_records;
    mod lock_fields;
    mod lost_records;
    mod pending_records;
    mod refusals;
    mod retries;
    mod rollout;
}
