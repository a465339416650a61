//! What was read from files that may be replaced. They are read again when they are used, and not more often than every ten
//! seconds: nothing is polled.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Files that were replaced count after this time, and with the next use then.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(in crate::operator) struct Reread<T>(Mutex<Current<T>>);

#[derive(Debug)]
struct Current<T> {
    value: T,
    looked: Instant,
}

impl<T: Clone> Reread<T> {
    /// It was read just now.
    pub(in crate::operator) fn new(value: T) -> Self {
        Self(Mutex::new(Current { value, looked: Instant::now() }))
    }

    /// What was read, unless it is time for another look, which is then the caller's to make.
    pub(in crate::operator) fn recent(&self, now: Instant) -> Option<T> {
        let mut current = self.lock();
        if now.saturating_duration_since(current.looked) < LOOK_AGAIN {
            return Some(current.value.clone());
        }
        current.looked = now;
        None
    }

    /// What was read last, however long ago.
    pub(in crate::operator) fn last(&self) -> T {
        self.lock().value.clone()
    }

    pub(in crate::operator) fn put(&self, value: T) {
        self.lock().value = value;
    }

    fn lock(&self) -> MutexGuard<'_, Current<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_is_due_after_a_while_and_others_are_served_meanwhile() {
        let read = Reread::new(1);
        let begun = read.lock().looked;
        assert_eq!(read.recent(begun), Some(1), "it was looked at a moment ago");
        assert_eq!(read.recent(begun + LOOK_AGAIN), None, "it is time for a look");
        assert_eq!(read.recent(begun + LOOK_AGAIN), Some(1), "one look is enough");
        read.put(2);
        assert_eq!((read.recent(begun + LOOK_AGAIN), read.last()), (Some(2), 2));
    }
}
