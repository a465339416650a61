//! What a pass knows before it decides.

pub(super) mod dependencies;
pub(super) mod head;
pub(super) mod pending_holder;
pub(super) mod recovery;
pub(super) mod requests;

use super::records::Records;

/// Finds out what a decision needs.
pub(in crate::reconcile) struct Observe<'a> {
    pub records: Records<'a>,
}
