//! CustomResourceDefinitions of a pack: judged, and shared between releases.

pub(super) mod definitions;
pub(super) mod evidence;
pub(super) mod shared;

use std::collections::BTreeMap;

use super::context::Scope;
use super::objects::Deployed;
use super::records::NewestRecord;

/// CustomResourceDefinitions in the cluster. Changes nothing of what is remembered of the release.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Crds<'a> {
    pub scope: Scope<'a>,
}

/// Decides what becomes of the definitions of a pack.
pub(in crate::reconcile) struct Judging<'a> {
    pub newest: NewestRecord<'a>,
    /// The changes that were counted last, by name: a release that is stopped asks for the same ones in each pass.
    pub counted: &'a mut BTreeMap<String, String>,
}

/// Takes over definitions whose writer is gone.
pub(in crate::reconcile) struct TakeOver<'a> {
    pub deployed: Deployed<'a>,
    pub counted: &'a mut BTreeMap<String, String>,
}

impl<'a> Judging<'a> {
    fn crds(&self) -> Crds<'a> {
        Crds { scope: self.newest.scope }
    }
}

impl TakeOver<'_> {
    fn judging(&mut self) -> Judging<'_> {
        Judging { newest: self.deployed.records.newest(), counted: self.counted }
    }
}
