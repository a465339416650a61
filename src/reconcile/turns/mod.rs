//! What is scarce, shared fairly between namespaces.

pub(super) mod budget;
pub(super) mod fair;
