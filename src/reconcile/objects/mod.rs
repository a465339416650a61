//! The objects of an operation: whose they are, how they are applied, what is left to others.

pub(super) mod adoption;
pub(super) mod apply;
pub(super) mod expected;
pub(super) mod field_handover;
pub(super) mod ignore;
pub(super) mod immutable_fields;
pub(super) mod jobs;
pub(super) mod ownership;
pub(super) mod rollout;

use super::context::Scope;
use super::records::Records;
use super::state::change_summary::Tally;
use super::state::redact::{Known, Secrets};

/// The objects of a release in the cluster, and what the watches know of them. Changes nothing of what is remembered of the release.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Objects<'a> {
    pub scope: Scope<'a>,
}

/// Applies and prunes the objects of an operation. What has to be known before an object is written stands in the record first.
pub(in crate::reconcile) struct Rollout<'a> {
    pub records: Records<'a>,
    pub tally: &'a mut Tally,
}

/// Changes what the record of a deployed revision says of its objects.
pub(in crate::reconcile) struct Deployed<'a> {
    pub records: Records<'a>,
    pub secrets: &'a mut Secrets,
    /// What this process knows of the revision's Secrets.
    pub known: Option<&'a Known>,
}

impl<'a> Rollout<'a> {
    pub(in crate::reconcile) fn objects(&self) -> Objects<'a> {
        Objects { scope: self.records.scope }
    }
}

impl<'a> Deployed<'a> {
    /// The same, for a stage that lives shorter.
    pub(in crate::reconcile) fn reborrow(&mut self) -> Deployed<'_> {
        Deployed { records: self.records.reborrow(), secrets: self.secrets, known: self.known }
    }

    fn objects(&self) -> Objects<'a> {
        Objects { scope: self.records.scope }
    }
}
