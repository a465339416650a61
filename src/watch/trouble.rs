//! Whether a watch fails for a moment, which is usual, or for good.

use std::time::{Duration, Instant};

/// A watch may fail for this long before anybody is told.
const PATIENCE: Duration = Duration::from_secs(30);
/// Fewer errors than these are an interruption. A retried watch fails more often than that within [`PATIENCE`].
const ERRORS: u32 = 3;
/// Longer than the longest pause between two tries: the errors before it are over.
const QUIET: Duration = Duration::from_secs(120);

/// The errors of one watch since it last showed something.
///
/// A watch that works again tells so only with its next event, which may be hours away. So after a time the kind
/// is listed again, and only when that fails too the watch is broken.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    since: Option<Instant>,
    last: Option<Instant>,
    errors: u32,
    listing: bool,
}

impl Trouble {
    /// Takes note of an error. `true`: the watch is broken.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        let over = self.last.is_some_and(|last| now.saturating_duration_since(last) > QUIET);
        if over && !self.listing {
            *self = Self::default();
        }
        self.since.get_or_insert(now);
        self.last = Some(now);
        self.errors = self.errors.saturating_add(1);
        self.listing
    }

    /// When to list the kind anew, to see whether the watch works.
    pub(super) fn doubtful_at(&self) -> Option<Instant> {
        let doubtful = self.errors >= ERRORS && !self.listing;
        self.since.filter(|_| doubtful).map(|since| since + PATIENCE)
    }

    /// The kind is being listed anew.
    pub(super) fn lists(&mut self) {
        self.listing = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_is_no_trouble() {
        let (mut trouble, start) = (Trouble::default(), Instant::now());
        assert!(!trouble.failed(start));
        assert!(!trouble.failed(start + Duration::from_secs(1)));
        assert_eq!(trouble.doubtful_at(), None);
        // Two more, but much later.
        for late in [600, 601] {
            assert!(!trouble.failed(start + Duration::from_secs(late)));
        }
        assert_eq!(trouble.doubtful_at(), None);
    }

    #[test]
    fn errors_that_go_on_are_checked_by_a_list_and_are_trouble_when_that_fails() {
        let (mut trouble, start) = (Trouble::default(), Instant::now());
        for seconds in [0, 1, 3, 7] {
            assert!(!trouble.failed(start + Duration::from_secs(seconds)));
        }
        assert_eq!(trouble.doubtful_at(), Some(start + PATIENCE));
        trouble.lists();
        assert_eq!(trouble.doubtful_at(), None);
        assert!(trouble.failed(start + Duration::from_secs(31)));
    }
}
