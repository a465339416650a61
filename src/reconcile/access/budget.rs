//! The memory for manifests and objects that the passes of all releases may use at once.
//!
//! A pass claims what its work takes before it reads or renders, and gives it back when it ends. What waits for health holds
//! nothing. Small work, which is that of most releases, needs no claim: the number of workers bounds it.
//!
//! A quarter is for corrections alone: drift is put back while operations have all of the rest.

use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;

use crate::reconcile::access::fair::{FairTurns, InPass, Shares, Turn};
use crate::reconcile::{Error, Pass};
use crate::release::ReleaseKey;
use crate::storage::{Head, codec::MAX_JSON_BYTES};

/// Work that takes less is done without a claim.
const SMALL: usize = 2 << 20;
/// What it takes to unpack a large record of which nothing is known yet: its text, and what is made of that.
pub(in crate::reconcile) const UNPACKED: usize = 2 * MAX_JSON_BYTES;
/// So long the bytes are kept for a release that was woken for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of all releases.
pub struct Budget {
    bytes: u64,
    operations: FairTurns,
    /// What one correction has at most.
    correction: u64,
    corrections: FairTurns,
}

impl Budget {
    /// So many bytes. One namespace has half of what is for operations, and half of what is for corrections. The releases
    /// whose turn has come are sent to `wake_tx`.
    #[must_use]
    pub fn new(bytes: u64, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        let purse = |capacity: u64| Shares { capacity, each: capacity / 2, patience: PATIENCE };
        let (bytes, corrections) = (bytes - bytes / 4, purse(bytes / 4));
        Self {
            bytes,
            operations: FairTurns::new(purse(bytes), wake_tx.clone()),
            correction: corrections.each,
            corrections: FairTurns::new(corrections, wake_tx),
        }
    }

    /// To be kept until the pass of a release ends.
    pub(in crate::reconcile) fn in_pass(&self, key: &ReleaseKey) -> [InPass<'_>; 2] {
        [self.operations.in_pass(key), self.corrections.in_pass(key)]
    }

    /// The release is gone.
    pub(in crate::reconcile) fn forget(&self, key: &ReleaseKey) {
        self.operations.forget(key);
        self.corrections.forget(key);
    }
}

impl Pass<'_> {
    /// Has so many bytes until this pass ends. What needs more than there are works alone.
    ///
    /// # Errors
    /// Others have them: the pass is to end, and the release is woken when they are there for it.
    pub(in crate::reconcile) fn claim(&mut self, weight: usize) -> Result<(), Error> {
        let wanted = u64::try_from(weight).unwrap_or(u64::MAX).min(self.ctx.budget.bytes);
        if weight < SMALL || wanted <= self.has_claimed() {
            return Ok(());
        }
        // All of it at once: two that each wait for the rest of the other would wait for ever.
        self.claimed = None;
        let claimed = self.ctx.budget.operations.take(&self.key, wanted);
        self.claimed = Some(claimed.map_err(|since| Error::Queued { since })?);
        Ok(())
    }

    /// Has so many bytes to put drift back, until the turn is dropped: out of what the pass has, or of what is for corrections
    /// alone. A larger correction counts as half of that, so that no namespace ever has all of it.
    ///
    /// # Errors
    /// As for [`claim`](Self::claim).
    pub(in crate::reconcile) fn claim_to_correct(&self, weight: usize) -> Result<Option<Turn>, Error> {
        let wanted = u64::try_from(weight).unwrap_or(u64::MAX);
        if weight < SMALL || wanted.min(self.ctx.budget.bytes) <= self.has_claimed() {
            return Ok(None);
        }
        let Budget { corrections, correction, .. } = &self.ctx.budget;
        let turn = corrections.take(&self.key, wanted.min(*correction));
        turn.map(Some).map_err(|since| Error::Queued { since })
    }

    fn has_claimed(&self) -> u64 {
        self.claimed.as_ref().map_or(0, Turn::weight)
    }

    /// Keeps what it has for its next pass, because it waits for something else as well.
    pub(in crate::reconcile) fn hold_claim(&mut self) {
        if let Some(claimed) = self.claimed.take() {
            claimed.hold();
        }
    }

    /// What it takes to work with the newest record.
    pub(in crate::reconcile) fn head_weight(&self) -> usize {
        match &self.mem.head {
            Some((Head::Ours(stored) | Head::Foreign(stored), _)) => stored.weight,
            _ => 0,
        }
    }
}
