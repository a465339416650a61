//! What a release is made of: its pack, its values, and what templates look up.

pub(super) mod lookup;
pub(super) mod referenced_objects;
pub(super) mod references;
pub(super) mod sources;
pub(super) mod values;
pub(super) mod wanted;

use super::access::Access;
use super::context::Scope;
use super::state::redact::Secrets;

/// What a release asks for: its pack and its values, read as its account.
pub(in crate::reconcile) struct Inputs<'a> {
    pub scope: Scope<'a>,
    /// Learns what the values hold of Secrets.
    pub secrets: &'a mut Secrets,
}

impl Inputs<'_> {
    fn access(&self) -> Access<'_> {
        Access { scope: self.scope }
    }
}
