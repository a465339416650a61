//! The memory for manifests and objects that the passes of all releases may use at once.
//!
//! A pass claims what its work takes before it reads or renders, and gives it back when it ends. What waits for health holds
//! nothing. Small work, which is that of most releases, needs no claim: the number of workers bounds it.
//!
//! A quarter is for corrections alone: drift is put back while operations have all of the rest.

use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;

use crate::reconcile::Error;
use crate::reconcile::context::fair::{FairTurns, InPass, Shares, Turn};
use crate::release::ReleaseKey;
use crate::storage::codec::MAX_JSON_BYTES;

/// Work that takes less is done without a claim.
const SMALL: u64 = 2 << 20;
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
        let purse = |capacity: u64| Shares { capacity, each: capacity / 2, patience: PATIENCE, lent: false };
        let (bytes, corrections) = (bytes - bytes / 4, purse(bytes / 4));
        Self {
            bytes,
            operations: FairTurns::new(purse(bytes), 0, wake_tx.clone()),
            correction: corrections.each,
            corrections: FairTurns::new(corrections, 0, wake_tx),
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

    /// So many bytes for the work of one release, all at once: two releases that each wait for the rest of the other would wait
    /// for ever. What the release `has` of them already is given back first. More than there is counts as all of it.
    pub(in crate::reconcile) fn for_work(
        &self,
        key: &ReleaseKey,
        weight: u64,
        has: &mut Option<Turn>,
    ) -> Result<(), Error> {
        if self.is_enough(weight, has.as_ref()) {
            return Ok(());
        }
        *has = None;
        let claimed = self.operations.take(key, weight.min(self.bytes));
        *has = Some(claimed.map_err(|since| Error::Queued { since })?);
        Ok(())
    }

    /// So many bytes to put drift back; `None`: what the release `has` already is enough. A larger correction counts as half
    /// of what is for corrections, so that no namespace ever has all of it.
    pub(in crate::reconcile) fn to_correct(
        &self,
        key: &ReleaseKey,
        weight: u64,
        has: Option<&Turn>,
    ) -> Result<Option<Turn>, Error> {
        if self.is_enough(weight, has) {
            return Ok(None);
        }
        let turn = self.corrections.take(key, weight.min(self.correction));
        turn.map(Some).map_err(|since| Error::Queued { since })
    }

    fn is_enough(&self, weight: u64, has: Option<&Turn>) -> bool {
        weight < SMALL || has.is_some_and(|turn| weight.min(self.bytes) <= turn.weight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget() -> Budget {
        Budget::new(128 * MIB, futures::channel::mpsc::unbounded().0)
    }

    fn key(text: &str) -> ReleaseKey {
        ReleaseKey::parse(text).unwrap()
    }

    #[test]
    fn drift_is_put_back_while_operations_have_all_of_their_part() {
        let budget = budget();
        let (mut first, mut second, mut third) = (None, None, None);
        budget.for_work(&key("evil/1"), 48 * MIB, &mut first).unwrap();
        budget.for_work(&key("other/1"), 48 * MIB, &mut second).unwrap();
        assert!(budget.for_work(&key("evil/2"), 3 * MIB, &mut third).is_err(), "they have all of it");
        let correction = budget.to_correct(&key("victim/1"), 30 * MIB, None).unwrap().unwrap();
        assert_eq!(correction.weight(), 16 * MIB, "a larger one counts as half");
        assert!(budget.to_correct(&key("victim/2"), 16 * MIB, None).is_err(), "one namespace has half");
        assert!(budget.to_correct(&key("other/2"), 16 * MIB, None).unwrap().is_some());
        assert!(budget.for_work(&key("late/1"), 3 * MIB, &mut third).is_err(), "corrections lend nothing");
    }

    #[test]
    fn small_work_and_what_a_release_has_already_need_no_claim() {
        let budget = budget();
        let mut has = None;
        budget.for_work(&key("a/1"), SMALL - 1, &mut has).unwrap();
        assert!(has.is_none());
        budget.for_work(&key("a/1"), 1000 * MIB, &mut has).unwrap();
        assert_eq!(has.as_ref().map(Turn::weight), Some(96 * MIB), "it works alone");
        assert!(budget.to_correct(&key("a/1"), 20 * MIB, has.as_ref()).unwrap().is_none());
        budget.for_work(&key("a/1"), 20 * MIB, &mut has).unwrap();
        assert_eq!(has.as_ref().map(Turn::weight), Some(96 * MIB), "it had that already");
    }

    #[test]
    fn a_release_that_needs_more_than_it_has_gives_that_back_first() {
        let budget = budget();
        let (mut first, mut second) = (None, None);
        budget.for_work(&key("a/1"), 40 * MIB, &mut first).unwrap();
        budget.for_work(&key("b/1"), 40 * MIB, &mut second).unwrap();
        assert!(budget.for_work(&key("a/1"), 70 * MIB, &mut first).is_err());
        assert!(first.is_none(), "else b/1 would wait for a/1 as well");
    }
}
