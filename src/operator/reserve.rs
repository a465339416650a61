//! A reserve of workers: while all others are busy, drift is put back all the same.
//!
//! Releases that a watch wakes come through here on their way to the controller. One that waits longer than a moment for a
//! worker, and whose objects have drifted, is corrected beside the workers. As long as workers are free the reserve does nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::metrics::Metrics;
use crate::reconcile::{self, Reconciler};
use crate::release::ReleaseKey;
use crate::source::http::Fair;

/// So long a release may wait for a worker.
const PATIENCE: Duration = Duration::from_millis(50);
/// Corrections at the same time, and those of one namespace among them.
const AT_ONCE: (u32, u32) = (4, 2);

/// Releases that a watch woke and that wait for a free worker.
pub(super) struct Queue {
    metrics: Arc<Metrics>,
    waiting: Mutex<HashMap<ReleaseKey, Waiting>>,
    /// There is one that waits.
    news: Notify,
}

struct Waiting {
    since: Instant,
    /// The reserve has taken care of it, and nothing woke it since.
    tended: bool,
}

impl Queue {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, waiting: Mutex::default(), news: Notify::new() }
    }

    fn enter(&self, key: &ReleaseKey) {
        let mut waiting = self.lock();
        let entry =
            waiting.entry(key.clone()).or_insert_with(|| Waiting { since: Instant::now(), tended: false });
        entry.tended = false;
        self.tell(&waiting);
        self.news.notify_one();
    }

    /// A worker has it.
    pub(super) fn leave(&self, key: &ReleaseKey) {
        let mut waiting = self.lock();
        if waiting.remove(key).is_some() {
            self.tell(&waiting);
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn contains(&self, key: &ReleaseKey) -> bool {
        self.lock().contains_key(key)
    }

    /// Those that have waited for too long, and of which the reserve does not know.
    fn overdue(&self, now: Instant) -> Vec<ReleaseKey> {
        let overdue =
            |waiting: &Waiting| !waiting.tended && now.saturating_duration_since(waiting.since) >= PATIENCE;
        let waiting = self.lock();
        waiting.iter().filter(|(_, waiting)| overdue(waiting)).map(|(key, _)| key.clone()).collect()
    }

    fn tend(&self, key: &ReleaseKey, tended: bool) {
        if let Some(waiting) = self.lock().get_mut(key) {
            waiting.tended = tended;
        }
    }

    fn tell(&self, waiting: &HashMap<ReleaseKey, Waiting>) {
        let oldest = waiting.values().map(|waiting| waiting.since.elapsed()).max().unwrap_or_default();
        self.metrics.queue(waiting.len(), oldest);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, Waiting>> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reserve, until it is dropped.
#[derive(Clone)]
pub(super) struct Reserve {
    passes: Arc<Reconciler>,
    queue: Arc<Queue>,
    fair: Arc<Fair>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Reserve {
    pub(super) fn new(passes: Arc<Reconciler>, queue: Arc<Queue>, shutdown: CancellationToken) -> Self {
        let fair = Arc::new(Fair::new(AT_ONCE.0, AT_ONCE.1));
        Self { passes, queue, fair, tasks: TaskTracker::new(), shutdown }
    }

    /// Hands the releases that are woken on to the controller, and corrects those that wait too long for it.
    ///
    /// Not in the task of the controller: that one may be busy with a pass, which is why a release waits.
    pub(super) async fn stand_by(
        self,
        mut wake_rx: UnboundedReceiver<ReleaseKey>,
        work_tx: UnboundedSender<ReleaseKey>,
    ) {
        let hand_on = async {
            while let Some(key) = wake_rx.next().await {
                self.queue.enter(&key);
                // The receiver lives as long as the controller; afterwards no release is worked on.
                let _ = work_tx.unbounded_send(key);
            }
        };
        tokio::join!(hand_on, self.look_after());
    }

    /// Waits until what was begun has ended.
    pub(super) async fn end(self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn look_after(&self) {
        loop {
            self.queue.news.notified().await;
            while !self.queue.is_empty() {
                tokio::time::sleep(PATIENCE).await;
                for key in self.queue.overdue(Instant::now()) {
                    if self.passes.context().has_drifted(&key) {
                        self.queue.tend(&key, true);
                        self.tasks.spawn(self.clone().serve(key));
                    }
                }
            }
        }
    }

    async fn serve(self, key: ReleaseKey) {
        let _permit = self.fair.acquire(&key.namespace, 1).await;
        // A worker may have come to it.
        if self.shutdown.is_cancelled() || !self.queue.contains(&key) {
            return;
        }
        // Boxed once it has its turn: a thousand that wait for theirs would each hold the 15 KiB that a correction needs.
        if Box::pin(self.passes.correct(&key)).await == reconcile::Reserve::Busy {
            self.queue.tend(&key, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ReleaseKey {
        ReleaseKey { namespace: "a".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_release_is_looked_after_when_it_has_waited_and_again_when_it_is_woken_again() {
        let queue = Queue::new(Arc::new(Metrics::new().unwrap()));
        let later = Instant::now() + 2 * PATIENCE;
        queue.enter(&key("web"));
        assert_eq!(queue.overdue(Instant::now() - PATIENCE), []);
        assert_eq!(queue.overdue(later), [key("web")]);
        queue.tend(&key("web"), true);
        assert_eq!(queue.overdue(later), [], "it is taken care of");
        queue.tend(&key("web"), false);
        assert_eq!(queue.overdue(later), [key("web")], "a pass of it was under way");
        queue.tend(&key("web"), true);
        queue.enter(&key("web"));
        assert_eq!(queue.overdue(later), [key("web")], "something else was changed");
        queue.leave(&key("web"));
        assert!(queue.overdue(later).is_empty() && queue.is_empty() && !queue.contains(&key("web")));
    }
}
