//! What is scarce, shared fairly between namespaces, and without any pass that waits for it: a pass that gets nothing ends,
//! and its release is woken when its turn has come.

mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use futures::channel::mpsc::UnboundedSender;

pub(in crate::reconcile) use queue::Shares;
use queue::{Answer, FairQueue};

use crate::release::ReleaseKey;

/// Turns at something scarce, for the passes of all releases.
pub(in crate::reconcile) struct FairTurns {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    wake_tx: UnboundedSender<ReleaseKey>,
}

struct State {
    queue: FairQueue,
    /// A task waits for reservations to expire.
    timed: bool,
}

/// What was granted to a release. Given back when it is dropped: so it belongs to the work that needs it.
pub(in crate::reconcile) struct Turn {
    inner: Arc<Inner>,
    key: ReleaseKey,
    weight: u64,
}

/// A pass of a release, from its begin to its end.
pub(in crate::reconcile) struct InPass<'t> {
    turns: &'t FairTurns,
    key: ReleaseKey,
}

impl FairTurns {
    /// Sends the releases whose turn has come to `wake_tx`.
    pub(in crate::reconcile) fn new(shares: Shares, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        let state = Mutex::new(State { queue: FairQueue::new(shares), timed: false });
        Self { inner: Arc::new(Inner { state, wake_tx }) }
    }

    /// So much of what is scarce, if it is this release's turn; else since when the release waits for that. It is woken then.
    pub(in crate::reconcile) fn take(&self, key: &ReleaseKey, weight: u64) -> Result<Turn, Instant> {
        match self.inner.change(|queue, now| queue.ask(key, weight, now)) {
            Answer::Granted(weight) => Ok(Turn { inner: Arc::clone(&self.inner), key: key.clone(), weight }),
            Answer::Waits { since } => Err(since),
        }
    }

    /// To be kept until the pass of a release ends: what the pass did not ask for is not waited for any more.
    pub(in crate::reconcile) fn in_pass(&self, key: &ReleaseKey) -> InPass<'_> {
        InPass { turns: self, key: key.clone() }
    }

    /// The release is gone.
    pub(in crate::reconcile) fn forget(&self, key: &ReleaseKey) {
        self.inner.change(|queue, now| queue.forget(key, now));
    }
}

impl Turn {
    /// How much of it there is.
    pub(in crate::reconcile) fn weight(&self) -> u64 {
        self.weight
    }

    /// The work is done, but the pass may go on with other work: the next to ask for it is that pass, until it ends.
    pub(in crate::reconcile) fn keep(mut self) {
        let weight = std::mem::take(&mut self.weight);
        self.inner.change(|queue, now| queue.keep(&self.key, weight, now));
    }

    /// The pass ends without having begun, because it waits for something else as well: the next pass of the release may have
    /// this, if it comes soon.
    pub(in crate::reconcile) fn hold(mut self) {
        let weight = std::mem::take(&mut self.weight);
        self.inner.change(|queue, now| queue.hold(&self.key, weight, now));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.weight > 0 {
            self.inner.change(|queue, now| queue.give_back(&self.key.namespace, self.weight, now));
        }
    }
}

impl Drop for InPass<'_> {
    fn drop(&mut self) {
        self.turns.inner.change(|queue, now| queue.end(&self.key, now));
    }
}

impl Inner {
    /// Changes the queue, wakes the releases whose turn has come by that, and has the reservations of others expire.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut FairQueue, Instant) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.queue, Instant::now());
        for key in state.queue.take_woken() {
            // The receiver lives as long as the controller; afterwards no release needs waking.
            let _ = self.wake_tx.unbounded_send(key);
        }
        // Without a runtime the process is ending.
        if let (Some(_), false, Ok(runtime)) =
            (state.queue.expires_at(), state.timed, tokio::runtime::Handle::try_current())
        {
            state.timed = true;
            runtime.spawn(expire(Arc::downgrade(self)));
        }
        changed
    }

    /// When the next reservation expires; `None`: there is none, and no task waits for any.
    fn expires_at(&self) -> Option<Instant> {
        let mut state = self.lock();
        let at = state.queue.expires_at();
        state.timed = at.is_some();
        at
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives up reservations as long as there are any.
async fn expire(inner: Weak<Inner>) {
    while let Some(at) = inner.upgrade().and_then(|inner| inner.expires_at()) {
        tokio::time::sleep_until(at.into()).await;
        if let Some(inner) = inner.upgrade() {
            inner.change(FairQueue::expire);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::channel::mpsc::{self, UnboundedReceiver};

    use super::*;

    fn turns(patience: Duration) -> (FairTurns, UnboundedReceiver<ReleaseKey>) {
        let (wake_tx, wake_rx) = mpsc::unbounded();
        (FairTurns::new(Shares { capacity: 2, each: 1, patience }, wake_tx), wake_rx)
    }

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { namespace: "a".to_owned(), name: name.to_owned() }
    }

    #[tokio::test]
    async fn a_turn_belongs_to_the_work_that_it_was_given_to() {
        let (turns, mut wake_rx) = turns(Duration::from_secs(3600));
        let first = turns.take(&key("1"), 1).unwrap();
        {
            let _pass = turns.in_pass(&key("1"));
        }
        let pass = turns.in_pass(&key("2"));
        assert!(turns.take(&key("2"), 1).is_err(), "its pass has ended, its work has not");
        drop(pass);
        assert!(wake_rx.try_recv().is_err());
        drop(first);
        assert_eq!(wake_rx.try_recv().unwrap(), key("2"));
        let pass = turns.in_pass(&key("2"));
        let second = turns.take(&key("2"), 1).unwrap();
        second.keep();
        assert!(turns.take(&key("3"), 1).is_err());
        assert!(turns.take(&key("2"), 1).is_ok(), "kept for the pass");
        drop(pass);
        assert_eq!(wake_rx.try_recv().unwrap(), key("3"));
    }

    #[tokio::test]
    async fn a_turn_that_no_pass_comes_for_is_the_next_ones() {
        let (turns, mut wake_rx) = turns(Duration::from_millis(1));
        let first = turns.take(&key("1"), 1).unwrap();
        for name in ["2", "3"] {
            let _pass = turns.in_pass(&key(name));
            assert!(turns.take(&key(name), 1).is_err());
        }
        drop(first);
        for name in ["2", "3"] {
            let woken = futures::StreamExt::next(&mut wake_rx).await;
            assert_eq!(woken.unwrap(), key(name));
        }
    }
}
