//! The objects that a release waits for: [`wait`] looks at them, [`probes`] asks them, [`verdict`] decides what that means.

pub(super) mod probes;
pub(super) mod verdict;
pub(super) mod wait;

use super::context::Scope;
use super::state::redact::Secrets;

/// The objects that a release waits for, in the cluster.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Waits<'p> {
    pub scope: Scope<'p>,
    /// What a probe said is shown without them.
    pub secrets: &'p Secrets,
}
