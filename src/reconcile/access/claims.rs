//! What a pass claims of the memory that all passes share.

use crate::reconcile::Error;
use crate::reconcile::context::Scope;
use crate::reconcile::context::fair::Turn;

/// What a pass claims of the memory for manifests and objects.
pub(in crate::reconcile) struct Claims<'a> {
    pub scope: Scope<'a>,
    pub claimed: &'a mut Option<Turn>,
}

impl Claims<'_> {
    /// Has so many bytes until this pass ends. What needs more than there are works alone.
    ///
    /// # Errors
    /// Others have them: the pass is to end, and the release is woken when they are there for it.
    pub(in crate::reconcile) fn claim(&mut self, weight: usize) -> Result<(), Error> {
        self.scope.ctx.budget.for_work(self.scope.key, bytes(weight), self.claimed)
    }

    /// Has so many bytes to put drift back, until the turn is dropped: out of what the pass has, or of what is for corrections
    /// alone.
    ///
    /// # Errors
    /// As for [`claim`](Self::claim).
    pub(in crate::reconcile) fn to_correct(&self, weight: usize) -> Result<Option<Turn>, Error> {
        self.scope.ctx.budget.to_correct(self.scope.key, bytes(weight), self.claimed.as_ref())
    }

    /// Keeps what it has for its next pass, because it waits for something else as well.
    pub(in crate::reconcile) fn hold(&mut self) {
        if let Some(claimed) = self.claimed.take() {
            claimed.hold();
        }
    }
}

fn bytes(weight: usize) -> u64 {
    u64::try_from(weight).unwrap_or(u64::MAX)
}
