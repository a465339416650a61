//! The rows of the table for a newest record that says to be ours and that the operator may not act on unasked.

use super::{Doubtful, Hold, Observation, Operation};

/// Nothing but the request that names this very record goes on with it: `reset-at` may be an old one, put back with a
/// backup.
pub(super) fn doubtful(seen: &Observation, head: &Doubtful) -> Operation {
    if head.digest.is_some() && seen.accepted == head.digest {
        return Operation::AcceptRecord;
    }
    Operation::Hold(Hold::RecordDoubtful(head.clone()))
}

/// The same while the release is being deleted. To let it go touches nothing, so `reset-at` may ask for that.
pub(super) fn deleting(seen: &Observation, head: &Doubtful) -> Operation {
    match doubtful(seen, head) {
        Operation::Hold(_) if seen.reset_requested => Operation::Orphan,
        operation => operation,
    }
}
