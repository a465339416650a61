//! What the objects that exist say about a change of their definition.

use serde_json::Value;

use crate::crd::{Analysis, Definition, Evidence};
use crate::manifest::Defined;
use crate::reconcile::Error;
use crate::reconcile::crds::Crds;

impl Crds<'_> {
    /// The analysis as the objects that exist make it.
    pub(in crate::reconcile) fn weigh(
        &self,
        (old, new): (&Definition, &Definition),
        live: &Value,
        analysis: Analysis,
    ) -> Result<Analysis, Error> {
        let evidence = Evidence::new(&analysis);
        let Some(defined) = Defined::of(live).filter(|_| evidence.is_wanted()) else { return Ok(analysis) };
        match self.scope.ctx.walks.ask(self.scope.key, self.scope.cluster, (old, new), &defined, evidence) {
            Ok(evidence) => Ok(evidence.weigh(analysis)),
            Err(since) => Err(Error::Walking { name: new.name.clone(), since }),
        }
    }
}
