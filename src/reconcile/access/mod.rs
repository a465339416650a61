//! As whom a release is worked on, what that account may do, and its share of what is scarce.

pub(super) mod claims;
pub(super) mod preflight;
pub(super) mod records_elsewhere;

use super::context::Scope;

/// As whom a release is worked on, and what that account may do. Changes nothing of the release.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Access<'a> {
    pub scope: Scope<'a>,
}
