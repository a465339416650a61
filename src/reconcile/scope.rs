//! What every stage of a pass may read.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Context;
use crate::api::{Settings, SherpackRelease};
use crate::cluster::Cluster;
use crate::release::ReleaseKey;

/// The release that a pass is about, its settings, and the cluster as the account that acts for it. No stage changes any of it:
/// what a stage changes besides, it names as a field of its own.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Scope<'a> {
    pub ctx: &'a Context,
    pub key: &'a ReleaseKey,
    pub release: &'a SherpackRelease,
    pub settings: &'a Settings,
    pub cluster: &'a Arc<Cluster>,
    /// When the pass began.
    pub now: Timestamp,
}

impl<'a> Scope<'a> {
    /// The uid of the release; empty if the API server gave it none.
    pub(in crate::reconcile) fn uid(&self) -> &'a str {
        self.release.metadata.uid.as_deref().unwrap_or_default()
    }

    /// This long after the pass began.
    pub(in crate::reconcile) fn later(&self, by: Duration) -> Timestamp {
        self.now.checked_add(by).unwrap_or(Timestamp::MAX)
    }
}
