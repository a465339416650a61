//! Reads releases of a cluster and their revisions; writes nothing.

pub(super) mod get;
pub(super) mod history;
pub(super) mod list;
pub(super) mod pending_holder;
pub(super) mod status;
