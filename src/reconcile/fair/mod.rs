//! What is scarce, shared fairly between namespaces, and without any pass that waits for it.

mod queue;

#[cfg(test)]
pub(in crate::reconcile) use queue::{Answer, FairQueue, Shares};
