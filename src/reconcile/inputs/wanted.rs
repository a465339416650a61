//! What the release asks for, and the digest of it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{CrdSettings, names};
use crate::cluster::Referent;
use crate::manifest;
use crate::pack::layers::Layer;
use crate::pack::{self, Pack};
use crate::plan::rights::Right;
use crate::reconcile::Error;
use crate::reconcile::inputs::Inputs;
use crate::reconcile::inputs::references::references;
use crate::reconcile::inputs::sources::Freshness;
use crate::reconcile::inputs::values::user_values;

/// What the release asks for, before rendering.
pub(in crate::reconcile) struct Wanted {
    pub pack: Arc<Pack>,
    /// What the user says of values, the weakest first.
    pub layers: Vec<Layer>,
    /// These on each other.
    pub user: Value,
    /// Digest of everything that decides the manifest.
    pub inputs: String,
}

impl Inputs<'_> {
    /// What the release asks for. The references are watched before anything is read, and all that cannot be read is told at once.
    pub(in crate::reconcile) async fn read(&mut self) -> Result<Wanted, Error> {
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
                group: reference.kind.group().to_owned(),
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

    /// Looks up the pack and computes the inputs digest. What it reads is referred to already.
    async fn wanted(&mut self) -> Result<Wanted, Error> {
        // A request to reconcile also looks at the source again.
        let asked = self.scope.request_pending(names::RECONCILE_AT);
        let fresh = Freshness {
            interval: self.scope.settings.interval,
            changed: self.scope.generation_changed(),
            request: self.scope.settings.requests.reconcile_at.clone().filter(|_| asked),
        };
        let pack =
            self.scope.ctx.pack(self.scope.settings, self.scope.cluster, self.scope.key, &fresh).await?;
        let layers = self.layers(asked).await?;
        let user = user_values(&layers)?;
        // A null may be there to remove a default of a pack inside, so it is an input too.
        let alone = pack.subpacks.is_empty() && !pack.files.contains_key(pack::lock::FILE);
        let lay = if alone { pack::values::merge } else { pack::values::overlay };
        let values = lay(pack.values.clone(), user.clone());
        let mut inputs = json!({
            "pack": pack.digest,
            "values": values,
            "releaseName": self.scope.settings.release_name,
            "targetNamespace": self.scope.settings.target_namespace,
        });
        let CrdSettings { install, upgrade, .. } = &self.scope.settings.crds;
        if install.is_some() || upgrade.is_some() {
            // Which definitions are written. Without the field the digest is that of records that know nothing of it.
            inputs["crds"] = json!({"install": install, "upgrade": upgrade});
        }
        let inputs = manifest::digest(&inputs);
        Ok(Wanted { pack, layers, user, inputs })
    }
}
