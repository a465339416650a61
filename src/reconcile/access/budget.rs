//! The memory for manifests and objects that the passes of all releases may use at once.
//!
//! A pass claims what its work takes before it reads or renders, and gives it back when it ends. What waits for health holds
//! nothing. Small work, which is that of most releases, needs no claim: the number of workers bounds it.

use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;

use crate::reconcile::access::fair::FairTurns;
use crate::reconcile::access::fair::Shares;
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
    pub(in crate::reconcile) turns: FairTurns,
}

impl Budget {
    /// So many bytes, half of them for one namespace. The releases whose turn has come are sent to `wake_tx`.
    #[must_use]
    pub fn new(bytes: u64, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        let shares = Shares { capacity: bytes, each: bytes / 2, patience: PATIENCE };
        Self { bytes, turns: FairTurns::new(shares, wake_tx) }
    }
}

impl Pass<'_> {
    /// Has so many bytes until this pass ends. What needs more than there are works alone.
    ///
    /// # Errors
    /// Others have them: the pass is to end, and the release is woken when they are there for it.
    pub(in crate::reconcile) fn claim(&mut self, weight: usize) -> Result<(), Error> {
        let wanted = u64::try_from(weight).unwrap_or(u64::MAX).min(self.ctx.budget.bytes);
        let has = self.claimed.as_ref().map_or(0, |claimed| claimed.weight());
        if weight < SMALL || wanted <= has {
            return Ok(());
        }
        // All of it at once: two that each wait for the rest of the other would wait for ever.
        self.claimed = None;
        let claimed = self.ctx.budget.turns.take(&self.key, wanted);
        self.claimed = Some(claimed.map_err(|since| Error::Queued { since })?);
        Ok(())
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
