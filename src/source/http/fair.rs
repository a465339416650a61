//! A bound on something scarce that one namespace cannot use up alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for all, and how many of them one namespace may hold.
pub struct Fair {
    total: Arc<Semaphore>,
    each: u32,
    by_namespace: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Gives back what it holds when it is dropped.
pub struct Permit {
    _of_namespace: OwnedSemaphorePermit,
    _of_total: OwnedSemaphorePermit,
}

impl Fair {
    #[must_use]
    pub fn new(total: u32, each: u32) -> Self {
        Self { total: Arc::new(Semaphore::new(total as usize)), each, by_namespace: Mutex::default() }
    }

    /// Waits for `count` permits, at most as many as one namespace may hold.
    pub async fn acquire(&self, namespace: &str, count: u32) -> Option<Permit> {
        let count = count.min(self.each);
        let own = self.of(namespace);
        // First its own: who waits for them must not keep others from the common ones. No code closes a semaphore.
        let of_namespace = own.acquire_many_owned(count).await.ok()?;
        let of_total = Arc::clone(&self.total).acquire_many_owned(count).await.ok()?;
        Some(Permit { _of_namespace: of_namespace, _of_total: of_total })
    }

    fn of(&self, namespace: &str) -> Arc<Semaphore> {
        let mut all = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        // No fetch holds or awaits a permit of these.
        all.retain(|_, own| Arc::strong_count(own) > 1);
        let own = all.entry(namespace.to_owned());
        Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(self.each as usize))))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_namespace_takes_its_share_and_leaves_the_rest_to_others() {
        let fair = Fair::new(3, 2);
        let first = fair.acquire("a", 1).now_or_never().flatten();
        let second = fair.acquire("a", 1).now_or_never().flatten();
        assert!(first.is_some() && second.is_some());
        assert!(fair.acquire("a", 1).now_or_never().is_none());
        let other = fair.acquire("b", 1).now_or_never().flatten();
        assert!(other.is_some());
        assert!(fair.acquire("c", 1).now_or_never().is_none(), "all are taken");
        drop(first);
        assert!(fair.acquire("a", 1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn more_than_a_share_is_a_whole_share_and_idle_namespaces_are_forgotten() {
        let fair = Fair::new(4, 2);
        for index in 0..20 {
            assert!(fair.acquire(&index.to_string(), 9).now_or_never().flatten().is_some());
        }
        assert!(fair.by_namespace.lock().unwrap().len() == 1);
    }
}
