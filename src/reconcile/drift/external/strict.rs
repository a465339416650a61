//! `spec.drift.strict` beside a lock: what its managers added is taken away, in the name of the installer of the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::cluster::Applied;
use crate::manifest::Object;
use crate::manifest::managed_fields::ignore::wishes;
use crate::manifest::managed_fields::{self, Holder};
use crate::reconcile::Error;
use crate::reconcile::drift::external::External;

impl External<'_> {
    /// Where the object has what the managers of `spec.drift.strict` added. `managed` has its installer in our place.
    pub(super) fn additions(
        &self,
        object: &Object,
        live: &Value,
        managed: &[ManagedFieldsEntry],
    ) -> Vec<String> {
        if object.id.is_definition() || self.scope.settings.strict.is_empty() {
            return Vec::new();
        }
        let wishes = wishes(self.live().asked_rules(), object);
        let managers = &self.scope.settings.strict;
        managed_fields::places_of_added(live, managed, managers, wishes.as_ref(), Some(object))
    }

    /// Takes that away from an object that was just put back.
    pub(super) async fn take_additions(
        &self,
        object: &Object,
        written: Applied,
        holder: &Holder,
    ) -> Result<Applied, Error> {
        let managed = managed_fields::as_ours(written.managed_fields(), holder);
        let places = self.additions(object, &written.value(), &managed);
        if places.is_empty() {
            return Ok(written);
        }
        let Object { id, api_version, .. } = object;
        Ok(self.scope.cluster.take_away(&holder.manager, api_version, id, &written, &places).await?)
    }
}
