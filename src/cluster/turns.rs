//! One after the other: of those who want to know the same at the same moment, one asks, and the others find what it
//! found.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

/// Where nothing is lost by asking twice.
const PATIENCE: Duration = Duration::from_secs(1);

/// A queue for each question that is asked.
pub struct Turns<K: Clone + Eq + Hash> {
    queues: Mutex<HashMap<K, Queue>>,
    /// A pass whose question hangs keeps others no longer.
    patience: Duration,
}

#[derive(Default)]
struct Queue {
    turn: Arc<tokio::sync::Mutex<()>>,
    length: usize,
}

impl<K: Clone + Eq + Hash> Default for Turns<K> {
    fn default() -> Self {
        Self::new(PATIENCE)
    }
}

impl<K: Clone + Eq + Hash> Turns<K> {
    /// A pass that has waited for `patience` asks on its own.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self { queues: Mutex::default(), patience }
    }

    /// The answer to a question, if it is `known`; else what `ask` gives, once for all who want to know it at the same moment: who
    /// waits for another one's answer finds it `known` then.
    ///
    /// # Errors
    /// Those of `ask`.
    pub async fn once<T, E>(
        &self,
        question: &K,
        known: impl Fn() -> Option<T>,
        ask: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if let Some(answer) = known() {
            return Ok(answer);
        }
        let _turn = self.of(question).await;
        match known() {
            Some(answer) => Ok(answer),
            None => ask.await,
        }
    }

    /// Waits until no other pass asks this, and keeps others from it until what it gives is dropped. `None`: the answer is
    /// long in coming, and each may ask on his own.
    async fn of(&self, question: &K) -> Option<Turn<'_, K>> {
        let turn = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            let queue = queues.entry(question.clone()).or_default();
            queue.length += 1;
            Arc::clone(&queue.turn)
        };
        // Made before the wait, which may be given up.
        let leaves = Leaves { turns: self, question: question.clone() };
        let turn = tokio::time::timeout(self.patience, turn.lock_owned()).await.ok()?;
        Some(Turn { _turn: turn, _leaves: leaves })
    }
}

/// No other pass asks as long as this lives.
struct Turn<'t, K: Clone + Eq + Hash> {
    _turn: OwnedMutexGuard<()>,
    _leaves: Leaves<'t, K>,
}

/// Leaves the queue when dropped; the last one takes the queue away.
struct Leaves<'t, K: Clone + Eq + Hash> {
    turns: &'t Turns<K>,
    question: K,
}

impl<K: Clone + Eq + Hash> Drop for Leaves<'_, K> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = queues.get_mut(&self.question) else { return };
        queue.length -= 1;
        if queue.length == 0 {
            queues.remove(&self.question);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_long_asks_on_his_own() {
        let turns = Turns::default();
        let first = turns.of(&"a").await;
        assert!(first.is_some());
        assert!(turns.of(&"a").await.is_none());
        drop(first);
        assert!(turns.of(&"a").await.is_some());
        assert!(turns.queues.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn those_who_ask_the_same_do_so_one_after_the_other_and_leave_nothing_behind() {
        let turns = Turns::default();
        let first = turns.of(&"a").await;
        let other = turns.of(&"b").await;
        let mut gives_up = Box::pin(turns.of(&"a"));
        assert!(futures::poll!(&mut gives_up).is_pending());
        drop(gives_up);
        let (mut second, mut third) = (Box::pin(turns.of(&"a")), Box::pin(turns.of(&"a")));
        assert!(futures::poll!(&mut second).is_pending() && futures::poll!(&mut third).is_pending());
        drop(first);
        let second = second.await;
        assert!(futures::poll!(&mut third).is_pending());
        drop((second, other));
        assert_eq!(turns.queues.lock().unwrap().len(), 1);
        drop(third.await);
        assert!(turns.queues.lock().unwrap().is_empty());
    }
}
