//! From the wanted inputs to a revision that can be stored. Touches no object.

pub(super) mod approval;
mod beginning;
pub(super) mod preflight;
pub(super) mod revision;
pub(super) mod rollback;
pub(super) mod successor;

use std::collections::BTreeMap;

use super::access::Access;
use super::crds::{Crds, Judging};
use super::objects::Objects;
use super::records::Records;
use super::state::redact::{Known, Secrets};
use crate::api::PlanStatus;
use preflight::Preflight;
use successor::Tried;

/// What is remembered of revisions that were prepared and did not begin.
#[derive(Default)]
pub(in crate::reconcile) struct PrepareMemory {
    /// The plan that waits for approval.
    pub plan: Option<PlanStatus>,
    /// What it took to work with the revision that was prepared last.
    pub weight: usize,
    /// What is wanted instead of a revision under way, as it was prepared last.
    pub(super) successor: Option<Tried>,
    /// Why that does not begin.
    pub waits_to_begin: Option<String>,
    /// Digest of the inputs that the last decision was about.
    pub wanted: Option<String>,
    /// Why what failed cannot be undone.
    pub no_way_back: Option<String>,
}

/// Makes revisions that can be stored, and knows what waits to begin. Touches no object.
pub(in crate::reconcile) struct Prepare<'a> {
    pub records: Records<'a>,
    /// Learns what comes from Secrets into a revision.
    pub secrets: &'a mut Secrets,
    /// What this process knows of the newest revision's Secrets.
    pub known: Option<&'a Known>,
    /// The changes of definitions that were counted last.
    pub counted: &'a mut BTreeMap<String, String>,
    pub memory: &'a mut PrepareMemory,
}

impl Prepare<'_> {
    fn access(&self) -> Access<'_> {
        self.records.access()
    }

    fn crds(&self) -> Crds<'_> {
        Crds { scope: self.records.scope }
    }

    fn live(&self) -> Objects<'_> {
        Objects { scope: self.records.scope }
    }

    fn judging(&mut self) -> Judging<'_> {
        Judging { newest: self.records.newest(), counted: self.counted }
    }

    fn preflight(&self) -> Preflight<'_> {
        Preflight { newest: self.records.newest() }
    }
}
