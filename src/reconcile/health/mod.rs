//! What an operation waits for.

pub(super) mod probes;
pub(super) mod wait;
