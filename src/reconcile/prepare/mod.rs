//! From the wanted inputs to a revision that can be stored. Touches no object.

pub(super) mod approval;
pub(super) mod preflight;
pub(super) mod revision;
pub(super) mod rollback;
pub(super) mod successor;

use crate::api::PlanStatus;
use successor::Tried;

/// What is remembered of revisions that were prepared and did not begin.
#[derive(Default)]
pub(in crate::reconcile) struct PrepareMemory {
    /// The plan that waits for approval.
    pub plan: Option<PlanStatus>,
    /// What it took to work with the revision that was prepared last.
    pub weight: usize,
    /// What is wanted instead of a revision under way, as it was prepared last.
    pub(super) successor: Option<Tried>,
    /// Why that does not begin.
    pub waits_to_begin: Option<String>,
    /// Digest of the inputs that the last decision was about.
    pub wanted: Option<String>,
    /// Why what failed cannot be undone.
    pub no_way_back: Option<String>,
}
