//! An object that is locked, and what a look at it found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::cluster::{Applied, Kind};
use crate::manifest::managed_fields::Holder;
use crate::plan::guard::Guarded;
use crate::reconcile::Error;

/// An object that is locked, and whether its kind is known.
pub(super) struct Locked {
    pub(super) guarded: Guarded,
    pub(super) kind: Result<Kind, Error>,
    /// An autoscaler of the same manifest, locked or not, sets its replicas.
    pub(super) scaled: bool,
}

/// What a look at an object found.
pub(super) enum Look {
    /// Nothing differs.
    InOrder(Box<Applied>),
    /// It is on its way out.
    Leaving,
    Gone,
    Differs {
        live: Box<Applied>,
        body: Value,
        holder: Holder,
        /// Who holds what, its installer in our place.
        evidence: Vec<ManagedFieldsEntry>,
    },
}

/// What was found, and what it is after a write.
pub(super) type Done = (Look, Option<Applied>);
