//! Behaviour of the operator against a real API server: one module for each promise or capability.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod behaviour {
    mod cli;
    mod corpus;
    mod crash_story;
    mod crd_rules;
    mod deletion;
    mod deploy;
    mod forged_records;
    mod lock_fields;
    mod lock_gone;
    mod lock_handover;
    mod lock_modes;
    mod lock_restart;
    mod lock_rivals;
    mod lost_records;
    mod own_crd;
    mod ownership;
    mod pending_records;
    mod process;
    mod refusals;
    mod requests;
    mod restarts;
    mod retries;
    mod rollout;
    mod served_versions;
    mod templates;
    mod unsupported;
    mod waits;
    mod watches;
}
