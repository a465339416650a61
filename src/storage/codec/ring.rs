//! The keys that seal private parts: one that seals, and those of before, which only open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::mac_key::MacKey;

/// Several keys, each known by its id. New seals are made with the current one.
#[derive(Clone, Debug)]
pub struct KeyRing {
    current: MacKey,
    older: Vec<MacKey>,
}

impl KeyRing {
    /// A ring of one key.
    #[must_use]
    pub fn of(current: MacKey) -> Self {
        Self { current, older: Vec::new() }
    }

    /// The same ring, which opens with `key` too.
    #[must_use]
    pub fn and(mut self, key: MacKey) -> Self {
        if !self.holds(&key) {
            self.older.push(key);
        }
        self
    }

    /// The key that seals.
    #[must_use]
    pub fn current(&self) -> &MacKey {
        &self.current
    }

    /// All keys, the current one first.
    pub fn keys(&self) -> impl Iterator<Item = &MacKey> {
        std::iter::once(&self.current).chain(&self.older)
    }

    /// Whether this key is in it.
    #[must_use]
    pub fn holds(&self, key: &MacKey) -> bool {
        self.keys().any(|known| known.is(key))
    }

    /// Whether the two seal alike and open the same.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.current.is(&other.current)
            && self.keys().all(|key| other.holds(key))
            && other.keys().all(|key| self.holds(key))
    }
}

/// The ring of this process, shared by everything that reads or writes records. It may change while the process runs.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ring: RwLock<Arc<KeyRing>>,
    changes: AtomicU64,
}

impl Keys {
    /// Shares a ring.
    #[must_use]
    pub fn new(ring: KeyRing) -> Self {
        Self(Arc::new(Shared { ring: RwLock::new(Arc::new(ring)), changes: AtomicU64::new(0) }))
    }

    /// The ring as it is now.
    #[must_use]
    pub fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.0.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often the ring has changed: what was read under another number may be judged differently now.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// Takes another ring. `false`: it is the one that is there.
    pub fn replace(&self, ring: KeyRing) -> bool {
        let mut now = self.0.ring.write().unwrap_or_else(PoisonError::into_inner);
        if now.is(&ring) {
            return false;
        }
        *now = Arc::new(ring);
        self.0.changes.fetch_add(1, Ordering::Release);
        true
    }
}

impl From<MacKey> for Keys {
    fn from(key: MacKey) -> Self {
        Self::new(KeyRing::of(key))
    }
}

impl From<KeyRing> for Keys {
    fn from(ring: KeyRing) -> Self {
        Self::new(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> MacKey {
        MacKey::new([byte; 32])
    }

    #[test]
    fn a_ring_counts_its_changes_and_not_its_repetitions() {
        let keys = Keys::from(key(1));
        assert!(!keys.replace(KeyRing::of(key(1))));
        assert!(keys.replace(KeyRing::of(key(2)).and(key(1)).and(key(2))));
        assert_eq!((keys.changes(), keys.ring().keys().count()), (1, 2));
        assert!(keys.ring().current().is(&key(2)) && keys.ring().holds(&key(1)));
    }
}
