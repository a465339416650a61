//! The rows of the table for a newest record that says to be ours and that the operator may not act on unasked.

use super::{Hold, Observation, Operation};

/// A record that a person has to vouch for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    pub doubt: Doubt,
    /// Names exactly this record, at this moment of the release; `None`: no user can vouch for it, because it cannot be
    /// understood.
    pub digest: Option<String>,
    /// Which record it is and what is wrong with it.
    pub message: String,
}

/// What is wrong with a [`Doubtful`] record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It names this release as its owner, and its seal is not right or its key is not there.
    KeyLost,
    /// It is an older state of a record that was written since.
    Rewound,
}

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
