//! What behaviour tests stand on: a real control plane, an operator that can be killed at any request, packs
//! from a few lines, and waits with a deadline.
//!
//! One control plane serves the whole test binary; each test has a namespace and an operator of its own, so tests
//! run side by side. Nothing here plays the API server: [`wire`] only stands between it and the operator.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    unused_imports
)]

pub mod accounts;
pub mod changes;
pub mod control_plane;
pub mod flux;
pub mod git_server;
pub mod harness;
pub mod helm;
pub mod http_proxy;
pub mod http_server;
pub mod kills;
pub mod objects;
pub mod operator;
pub mod packs;
pub mod people;
pub mod probed;
pub mod process;
pub mod records;
pub mod registry;
pub mod replica;
pub mod signing;
pub mod sourced;
pub mod wait;
pub mod wire;

pub use harness::Harness;
pub use packs::Pack;
pub use replica::Replica;
pub use wire::{Effect, Fault};

/// Writes a line past the capture of the test harness: whoever runs the tests wants to know.
pub fn tell(line: &str) {
    use std::io::Write as _;
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}
