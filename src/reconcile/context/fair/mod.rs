//! What is scarce, shared fairly between namespaces, and without any pass that waits long for it: a pass that gets nothing
//! ends, and its release is woken when its turn has come.

mod queue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedSender;
use tokio::sync::oneshot;

pub(in crate::reconcile) use queue::Shares;
use queue::{Answer, FairQueue};

use crate::release::ReleaseKey;

/// So many passes at most wait for their turn where they are, and half of the workers at most: each keeps a worker from the
/// other releases meanwhile.
const SEATS: usize = 4;
/// And no longer than this. It is more than the work of an ordinary release takes, so a pass seldom has to come back.
const SEATED: Duration = Duration::from_millis(50);

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
    /// How many passes may wait where they are.
    seats: usize,
    seated: HashMap<ReleaseKey, oneshot::Sender<()>>,
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
    /// For the passes of so many workers. Sends the releases whose turn has come to `wake_tx`.
    pub(in crate::reconcile) fn new(
        shares: Shares,
        workers: usize,
        wake_tx: UnboundedSender<ReleaseKey>,
    ) -> Self {
        let (queue, seats) = (FairQueue::new(shares), SEATS.min(workers / 2));
        let state = Mutex::new(State { queue, seats, seated: HashMap::new(), timed: false });
        Self { inner: Arc::new(Inner { state, wake_tx }) }
    }

    /// So much of what is scarce, if it is this release's turn; else since when the release waits for that. It is woken then.
    pub(in crate::reconcile) fn take(&self, key: &ReleaseKey, weight: u64) -> Result<Turn, Instant> {
        let answer = self.inner.change(|state, now| state.queue.ask(key, weight, now));
        self.turn(key, answer)
    }

    /// As [`take`](Self::take), but waits a moment where it is: work that is over in a millisecond need not send the pass
    /// through the queue of all releases. Few passes may do that at a time; the others get their answer at once.
    pub(in crate::reconcile) async fn take_soon(
        &self,
        key: &ReleaseKey,
        weight: u64,
    ) -> Result<Turn, Instant> {
        let (answer, seat) = self.inner.change(|state, now| {
            // A pass that asks for one piece of work after another waits here once.
            let waited = state.queue.has_asked(key);
            let answer = state.queue.ask(key, weight, now);
            let seat = matches!(answer, Answer::Waits { .. }) && !waited;
            (answer, seat.then(|| state.seat(key)).flatten())
        });
        let Some(called) = seat else { return self.turn(key, answer) };
        // Called or not: what counts is what the queue says then.
        let _ = tokio::time::timeout(SEATED, called).await;
        let answer = self.inner.change(|state, now| {
            state.seated.remove(key);
            state.queue.ask(key, weight, now)
        });
        self.turn(key, answer)
    }

    fn turn(&self, key: &ReleaseKey, answer: Answer) -> Result<Turn, Instant> {
        match answer {
            Answer::Granted(weight) => Ok(Turn { inner: Arc::clone(&self.inner), key: key.clone(), weight }),
            Answer::Waits { since } => Err(since),
        }
    }

    /// To be kept until the pass of a release ends: what the pass did not ask for is not waited for any more.
    pub(in crate::reconcile) fn in_pass(&self, key: &ReleaseKey) -> InPass<'_> {
        InPass { turns: self, key: key.clone() }
    }

    /// How many releases wait for their turn.
    pub(in crate::reconcile) fn waiting(&self) -> usize {
        self.inner.lock().queue.waiting()
    }

    /// The release is gone.
    pub(in crate::reconcile) fn forget(&self, key: &ReleaseKey) {
        self.inner.change(|state, now| state.queue.forget(key, now));
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
        self.inner.change(|state, now| state.queue.keep(&self.key, weight, now));
    }

    /// The pass ends without having begun, because it waits for something else as well: the next pass of the release may have
    /// this, if it comes soon.
    pub(in crate::reconcile) fn hold(mut self) {
        let weight = std::mem::take(&mut self.weight);
        self.inner.change(|state, now| state.queue.hold(&self.key, weight, now));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.weight > 0 {
            self.inner.change(|state, now| state.queue.give_back(&self.key.namespace, self.weight, now));
        }
    }
}

impl Drop for InPass<'_> {
    fn drop(&mut self) {
        self.turns.inner.change(|state, now| state.queue.end(&self.key, now));
    }
}

impl State {
    /// A seat for the pass of a release that stands in the queue, where it is told that its turn has come; `None`: all are
    /// taken.
    fn seat(&mut self, key: &ReleaseKey) -> Option<oneshot::Receiver<()>> {
        // A pass that was cancelled left its seat.
        self.seated.retain(|_, seat| !seat.is_closed());
        if self.seated.len() >= self.seats {
            return None;
        }
        let (seat, called) = oneshot::channel();
        self.seated.insert(key.clone(), seat);
        Some(called)
    }
}

impl Inner {
    /// Changes the queue, calls the passes and wakes the releases whose turn has come by that, and has the reservations of others expire.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state, Instant::now());
        for key in state.queue.take_woken() {
            if state.seated.remove(&key).is_some_and(|seat| seat.send(()).is_ok()) {
                continue;
            }
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
            inner.change(|state, now| state.queue.expire(now));
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
        (FairTurns::new(Shares { capacity: 2, each: 1, patience, lent: true }, 10, wake_tx), wake_rx)
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

    #[tokio::test]
    async fn a_pass_that_waits_where_it_is_is_called_there_and_its_release_is_not_woken() {
        let (turns, mut wake_rx) = turns(Duration::from_secs(3600));
        let first = turns.take(&key("1"), 1).unwrap();
        let _pass = turns.in_pass(&key("2"));
        let two = key("2");
        let waiting = turns.take_soon(&two, 1);
        let ((), turn) = futures::join!(async { drop(first) }, waiting);
        assert_eq!(turn.map(|turn| turn.weight()), Ok(1));
        assert!(wake_rx.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_waits_no_longer_than_a_moment_and_few_wait_at_a_time() {
        let (turns, mut wake_rx) = turns(Duration::from_secs(3600));
        let first = turns.take(&key("1"), 1).unwrap();
        let began = tokio::time::Instant::now();
        let late: Vec<ReleaseKey> = (0..SEATS + 2).map(|index| key(&format!("late-{index}"))).collect();
        let passes: Vec<_> = late.iter().map(|late| turns.in_pass(late)).collect();
        let waited = futures::future::join_all(late.iter().map(async |late| {
            let got_nothing = turns.take_soon(late, 1).await.is_err();
            (got_nothing, began.elapsed() >= SEATED)
        }));
        let waited = waited.await;
        assert!(waited.iter().all(|(got_nothing, _)| *got_nothing));
        assert_eq!(waited.iter().filter(|(_, seated)| *seated).count(), SEATS);
        drop(passes);
        drop(first);
        assert_eq!(wake_rx.try_recv().unwrap(), late[0], "it still stands in the queue");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_waits_where_it_is_once_and_only_while_other_workers_are_free() {
        let (turns, _wake_rx) = turns(Duration::from_secs(3600));
        let _first = turns.take(&key("1"), 1).unwrap();
        let two = key("2");
        let _pass = turns.in_pass(&two);
        let began = tokio::time::Instant::now();
        for _ in 0..5 {
            assert!(turns.take_soon(&two, 1).await.is_err());
        }
        let waited = began.elapsed();
        assert!(SEATED <= waited && waited < 2 * SEATED, "however many pieces of work it asks for");
        let shares = Shares { capacity: 1, each: 1, patience: SEATED, lent: true };
        let alone = FairTurns::new(shares, 1, mpsc::unbounded().0);
        let _first = alone.take(&key("1"), 1).unwrap();
        let began = tokio::time::Instant::now();
        assert!(alone.take_soon(&two, 1).await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO, "there is no other worker");
    }

    #[tokio::test]
    async fn a_pass_that_was_cancelled_leaves_its_seat_and_its_release_is_woken() {
        let (turns, mut wake_rx) = turns(Duration::from_secs(3600));
        let first = turns.take(&key("1"), 1).unwrap();
        for index in 0..SEATS {
            let key = key(&format!("cancelled-{index}"));
            let pass = turns.in_pass(&key);
            assert!(futures::FutureExt::now_or_never(turns.take_soon(&key, 1)).is_none());
            drop(pass);
        }
        assert!(turns.inner.lock().seat(&key("2")).is_some(), "a seat is free");
        drop(first);
        assert_eq!(wake_rx.try_recv().unwrap(), key("cancelled-0"));
    }
}
