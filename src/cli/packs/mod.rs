//! What the author of a pack runs without a cluster, and who takes packs from registries and repositories and to them.

pub(super) mod dependency;
pub(super) mod init;
pub(super) mod lint;
pub(super) mod package;
pub(super) mod pull;
pub(super) mod push;
pub(super) mod remote;
pub(super) mod render;
pub(super) mod show;
