//! How an object that a release refers to is read.

use crate::cluster::{Cluster, Contents, Reference, Unread};
use crate::reconcile::Context;
use crate::watch::ReferenceWatch;

/// Reads an object as `reader`, and tells the watch which version it has; `None` when it does not exist.
///
/// # Errors
/// Why it cannot be read, without anything of its content.
pub(in crate::reconcile) async fn read(
    watch: &ReferenceWatch,
    reader: &Cluster,
    reference: &Reference,
) -> Result<Option<Contents>, Unread> {
    let before = watch.seen(reference);
    let found = reader.contents(reference).await?;
    // The watch does not show revision records: nothing that is known of them would stay right.
    if !found.as_ref().is_some_and(|contents| contents.is_record) {
        watch.read(reference, before, found.as_ref().map(|contents| contents.version));
    }
    Ok(found)
}

impl Context {
    /// [`read`], for the watch that all releases share.
    ///
    /// # Errors
    /// Those of [`read`].
    pub(in crate::reconcile) async fn read(
        &self,
        reader: &Cluster,
        reference: &Reference,
    ) -> Result<Option<Contents>, Unread> {
        read(&self.references, reader, reference).await
    }
}
