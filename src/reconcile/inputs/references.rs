//! What a release refers to besides its own objects, and how that is read.

use std::collections::HashSet;

use crate::api::{ActsAs, PackFrom, ReferenceKind, Settings};
use crate::cluster::{Cluster, Contents, Reference, Referent, Unread};
use crate::reconcile::Context;
use crate::release::ReleaseKey;

/// Everything in the release's own namespace whose change the release has to hear of.
pub(in crate::reconcile) fn references(settings: &Settings, key: &ReleaseKey) -> HashSet<Reference> {
    let Settings { pack, values_from, acts_as, .. } = settings;
    let pack = match pack {
        PackFrom::Object { kind, name, .. } => Some((*kind, name)),
        PackFrom::Http { secret, .. } => secret.as_ref().map(|name| (ReferenceKind::Secret, name)),
        PackFrom::Path(_) => None,
    };
    let all = pack.into_iter().chain(values_from.iter().map(|from| (from.kind, &from.name)));
    let all = all.map(|(kind, name)| Reference::new(kind, &key.namespace, name));
    let account = match acts_as {
        ActsAs::ServiceAccount(name) => Some(Reference::new(Referent::ServiceAccount, &key.namespace, name)),
        ActsAs::Operator | ActsAs::Nobody => None,
    };
    all.chain(account).collect()
}

impl Context {
    /// Reads an object that the release refers to, as `reader`; `None` when it does not exist.
    ///
    /// # Errors
    /// Why it cannot be read, without anything of its content.
    pub(in crate::reconcile) async fn read(
        &self,
        reader: &Cluster,
        reference: &Reference,
    ) -> Result<Option<Contents>, Unread> {
        let before = self.references.seen(reference);
        let found = reader.contents(reference).await?;
        // The watch does not show revision records: nothing that is known of them would stay right.
        if !found.as_ref().is_some_and(|contents| contents.is_record) {
            self.references.read(reference, before, found.as_ref().map(|contents| contents.version));
        }
        Ok(found)
    }
}
