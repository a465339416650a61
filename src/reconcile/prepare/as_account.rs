//! What a release asks for, read as its account.

use crate::cluster::Referent;
use crate::plan::rights::Right;
use crate::reconcile::inputs::references::references;
use crate::reconcile::prepare::revision::Wanted;
use crate::reconcile::{Error, Pass};

impl Pass<'_> {
    /// [`Pass::wanted`], read as the release's account.
    pub(in crate::reconcile) async fn wanted_as_account(&mut self) -> Result<Wanted, Error> {
        // Before anything is read, so that no change falls between the two.
        self.scope.ctx.references.refer(self.scope.key, references(self.scope.settings, self.scope.key));
        if let Err(error) = self.access().require_account().await {
            self.scope.ctx.fetcher.leave(self.scope.key);
            return Err(error);
        }
        match self.wanted().await {
            Err(error @ Error::ReadForbidden { .. }) => Err(self.everything_unreadable(error).await),
            wanted => wanted,
        }
    }

    /// Says at once everything that the account may not read, where only the first of it was met.
    async fn everything_unreadable(&self, met: Error) -> Error {
        let Some(account) = self.scope.cluster.account() else { return met };
        let mut needed: Vec<Right> = references(self.scope.settings, self.scope.key)
            .into_iter()
            .filter(|reference| reference.kind != Referent::ServiceAccount)
            .map(|reference| Right {
                verb: "get",
                group: String::new(),
                resource: reference.kind.resource().to_owned(),
                namespace: Some(reference.namespace),
                name: reference.name,
            })
            .collect();
        needed.sort();
        match self.scope.ctx.rights.missing(self.scope.cluster, needed).await {
            Ok(missing) if !missing.is_empty() => {
                Error::RightsMissing { account: account.clone(), missing: missing.to_string() }
            }
            // What was met says it better than that nothing is known.
            Ok(_) | Err(_) => met,
        }
    }
}
