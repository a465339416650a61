//! What a pass knows before it decides.

pub(super) mod dependencies;
pub(super) mod head;
pub(super) mod pending_holder;
pub(super) mod recovery;
pub(super) mod requests;
