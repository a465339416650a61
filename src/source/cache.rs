//! Packs that were read before, by the digest of their bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::pack::{self, Limits, Pack};

/// Packs that are kept. Many releases share few packs; each may take tens of MiB in the worst case.
const KEPT: usize = 32;
/// Bytes of files that all kept packs may have together; the one read last is always kept.
const BYTES: usize = 64 << 20;

type Key = [u8; 32];

/// Keeps the packs that were used last, so that many releases of one archive decode it once.
#[derive(Debug, Default)]
pub struct Cache {
    /// Most recently used first.
    packs: Mutex<VecDeque<(Key, Arc<Pack>)>>,
}

impl Cache {
    /// The pack of these archive bytes, decoded when it is not known yet. Failures are not kept.
    ///
    /// # Errors
    /// Those of [`pack::read_archive`].
    pub fn archive(&self, bytes: &[u8], limits: &Limits) -> Result<Arc<Pack>, pack::Error> {
        let key: Key = Sha256::digest(bytes).into();
        if let Some(pack) = self.find(&key) {
            return Ok(pack);
        }
        // Two callers may decode the same bytes at the same time: the price of not holding the lock.
        let pack = Arc::new(pack::read_archive(bytes, limits)?);
        self.put(key, Arc::clone(&pack));
        Ok(pack)
    }

    fn find(&self, key: &Key) -> Option<Arc<Pack>> {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = packs.iter().position(|(found, _)| found == key)?;
        let hit = packs.remove(at)?;
        let pack = Arc::clone(&hit.1);
        packs.push_front(hit);
        Some(pack)
    }

    fn put(&self, key: Key, pack: Arc<Pack>) {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        packs.retain(|(found, _)| *found != key);
        packs.push_front((key, pack));
        packs.truncate(KEPT);
        let mut total = 0;
        let fits = packs.iter().take_while(|(_, pack)| {
            total += pack.files.values().map(Vec::len).sum::<usize>();
            total <= BYTES
        });
        let fits = fits.count().max(1);
        packs.truncate(fits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Files;

    fn archive(version: usize) -> Vec<u8> {
        let text = format!("apiVersion: sherpack/v1\nmetadata: {{name: web, version: 1.0.{version}}}\n");
        pack::write_archive(&Files::from([("Pack.yaml".to_owned(), text.into())])).unwrap()
    }

    #[test]
    fn the_same_bytes_give_the_same_pack_without_decoding() {
        let cache = Cache::default();
        let limits = Limits::default();
        let first = cache.archive(&archive(1), &limits).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.archive(&archive(1), &limits).unwrap()));
        assert!(!Arc::ptr_eq(&first, &cache.archive(&archive(2), &limits).unwrap()));
    }

    #[test]
    fn the_least_recently_used_pack_goes_first() {
        let cache = Cache::default();
        let limits = Limits::default();
        let first = cache.archive(&archive(0), &limits).unwrap();
        let second = cache.archive(&archive(1), &limits).unwrap();
        for version in 2..KEPT {
            cache.archive(&archive(version), &limits).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &cache.archive(&archive(0), &limits).unwrap()));
        cache.archive(&archive(KEPT), &limits).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.archive(&archive(0), &limits).unwrap()));
        assert!(!Arc::ptr_eq(&second, &cache.archive(&archive(1), &limits).unwrap()));
    }

    #[test]
    fn garbage_is_not_kept() {
        let cache = Cache::default();
        assert!(cache.archive(b"garbage", &Limits::default()).is_err());
        assert!(cache.packs.lock().unwrap().is_empty());
    }
}
