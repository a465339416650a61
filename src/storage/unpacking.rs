//! Large records are fetched and unpacked one after the other in the whole process.
//!
//! What a record takes is known only when it is unpacked: a megabyte in the cluster may be thirty in memory, and any user
//! who may write Secrets may make many of them. Small ones, which most are, wait for nothing.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A record that unpacks to less is small.
pub(super) const SMALL: usize = 512 << 10;

/// The turns at unpacking a large record. Clones share them.
#[derive(Clone)]
pub(super) struct Unpacking(Arc<Semaphore>);

impl Default for Unpacking {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Unpacking {
    /// A turn; it ends with what is given. `None` is never given: the semaphore is not closed.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}
