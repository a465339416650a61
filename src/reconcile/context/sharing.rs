//! Which releases leave a shared definition to which.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::release::ReleaseKey;

/// Which releases leave a shared definition to which: whom to wake when one of these goes.
#[derive(Default)]
pub struct Sharing {
    left_to: Mutex<HashMap<ReleaseKey, BTreeSet<String>>>,
}

impl Sharing {
    /// Sets to whom a release leaves its definitions.
    pub(in crate::reconcile) fn leaves(&self, key: &ReleaseKey, writers: impl Iterator<Item = String>) {
        let writers: BTreeSet<String> = writers.collect();
        let mut left_to = self.lock();
        if writers.is_empty() {
            left_to.remove(key);
        } else {
            left_to.insert(key.clone(), writers);
        }
    }

    /// Those that leave one to this release.
    pub(in crate::reconcile) fn of(&self, writer: &ReleaseKey) -> Vec<ReleaseKey> {
        let writer = writer.to_string();
        let left_to = self.lock();
        left_to.iter().filter(|(_, writers)| writers.contains(&writer)).map(|(key, _)| key.clone()).collect()
    }

    pub(in crate::reconcile) fn forget(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, BTreeSet<String>>> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.left_to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
