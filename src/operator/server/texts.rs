//! The texts of the metrics that are being sent: they are large, and a client may read slowly.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hyper::body::Bytes;

/// Texts in memory at a time. A client that asks while so many are being sent gets the newest of them.
const TEXTS: usize = 4;

#[derive(Default)]
pub(super) struct Texts {
    sent: Mutex<Vec<Weak<String>>>,
}

struct Shared(Arc<String>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Texts {
    /// A new text, unless too many are still being sent.
    pub(super) fn give(&self, make: impl FnOnce() -> String) -> Bytes {
        // A panic in `make` leaves a list that is still right.
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|text| text.strong_count() > 0);
        let newest = sent.last().filter(|_| sent.len() >= TEXTS).and_then(Weak::upgrade);
        let text = newest.unwrap_or_else(|| {
            let made = Arc::new(make());
            sent.push(Arc::downgrade(&made));
            made
        });
        Bytes::from_owner(Shared(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_readers_share_and_quick_ones_get_news() {
        let texts = Texts::default();
        let give = |text: &str| texts.give(|| text.to_owned());
        for _ in 0..100 {
            assert_eq!(give("quick"), "quick");
        }
        let mut slow: Vec<Bytes> = ["a", "b", "c", "d"].map(give).to_vec();
        assert_eq!(give("e"), "d", "no fifth one is made");
        slow.remove(0);
        assert_eq!(give("f"), "f");
    }
}
