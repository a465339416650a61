//! How many webhooks one token may send. Time is a parameter.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Webhooks that may come at once.
const BURST: u32 = 30;
/// One more may come after this time.
const EACH: Duration = Duration::from_secs(1);
/// Names that are remembered; beyond that those that have rested are forgotten.
const NAMES: usize = 4096;

/// Counts for each name.
pub(super) struct Rate<N>(Mutex<HashMap<N, Instant>>);

impl<N> Default for Rate<N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<N: Clone + Eq + Hash> Rate<N> {
    /// Whether one more may come now. It counts if so.
    pub(super) fn admits(&self, name: &N, now: Instant) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES {
            names.retain(|_, rested| *rested > now);
        }
        // The moment at which all that came is worked off.
        let rested = names.get(name).copied().unwrap_or(now).max(now) + EACH;
        let admitted = rested.saturating_duration_since(now) <= EACH * BURST;
        if admitted {
            names.insert(name.clone(), rested);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_one_in_a_second_for_each_name() {
        let (rate, now) = (Rate::default(), Instant::now());
        let admitted =
            |name: &str, after: u64| rate.admits(&name.to_owned(), now + Duration::from_secs(after));
        assert!((0..BURST).all(|_| admitted("a", 0)));
        assert!(!admitted("a", 0));
        assert!(admitted("b", 0), "another name is not concerned");
        assert!(admitted("a", 1) && !admitted("a", 1));
        assert!((0..BURST).all(|_| admitted("a", 100)), "it has rested");
    }
}
