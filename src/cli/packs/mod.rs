//! What the author of a pack runs without a cluster.

pub(super) mod init;
pub(super) mod lint;
pub(super) mod package;
pub(super) mod render;
