//! Behaviour of the operator against a real API server: one module for each promise or capability.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod behaviour {
    mod cli;
    mod deploy;
    mod lock_fields;
    mod lock_gone;
    mod lock_handover;
    mod lock_modes;
    mod lock_restart;
    mod lock_rivals;
    mod ownership;
    mod process;
    mod requests;
}
