//! An operation, step by step: install, upgrade, rollback, uninstall, tests.

mod checkpoint;
pub(super) mod conclude;
pub(super) mod definitions;
pub(super) mod departing;
mod hook_runs;
pub(super) mod hooks;
pub(super) mod jobs;
pub(super) mod leaving;
pub(super) mod left_behind;
mod outcome;
pub(super) mod run;
pub(super) mod steps;
pub(super) mod test_hooks;
pub(super) mod uninstall;

use super::access::Access;
use super::context::Scope;
use super::crds::{Crds, TakeOver};
use super::health::Waits;
use super::objects::expected::Expected;
use super::objects::{Deployed, Objects, Rollout};
use super::records::{NewestRecord, Records};
use super::state::change_summary::Tally;
use super::state::redact::{Known, Secrets};
use super::state::{Ailing, Expectations, PendingDeletion};

/// Carries out the steps of the operation under way.
pub(in crate::reconcile) struct Operate<'a> {
    pub scope: Scope<'a>,
    pub records: Records<'a>,
    pub tally: &'a mut Tally,
    pub expectations: &'a mut Expectations,
    pub ailing: &'a mut Option<Ailing>,
    pub deletion: &'a mut PendingDeletion,
    pub secrets: &'a mut Secrets,
    /// What this process knows of the Secrets of the newest revision.
    pub known: &'a mut Option<Known>,
}

/// Ends an operation whose revision was deployed.
pub(in crate::reconcile) struct Conclude<'a> {
    pub deployed: Deployed<'a>,
}

/// Makes up for what a crash, or another release that is gone, left to do about a deployed revision.
pub(in crate::reconcile) struct CatchUp<'a> {
    pub take_over: TakeOver<'a>,
}

/// Lets a release go. Changes nothing of what is remembered of it.
#[derive(Clone, Copy)]
pub(in crate::reconcile) struct Departing<'a> {
    pub newest: NewestRecord<'a>,
    pub secrets: &'a Secrets,
}

/// Says what stays of a release that touches nothing when it goes. Its records may have to be read for that.
pub(in crate::reconcile) struct Orphaned<'a> {
    pub records: Records<'a>,
    pub secrets: &'a Secrets,
}

impl<'a> Operate<'a> {
    fn access(&self) -> Access<'a> {
        Access { scope: self.scope }
    }

    fn live(&self) -> Objects<'a> {
        Objects { scope: self.scope }
    }

    fn crds(&self) -> Crds<'a> {
        Crds { scope: self.scope }
    }

    fn health(&self) -> Waits<'_> {
        Waits { scope: self.scope, secrets: self.secrets }
    }

    fn rollout(&mut self) -> Rollout<'_> {
        Rollout { records: self.records.reborrow(), tally: self.tally }
    }

    fn expected(&mut self) -> Expected<'_> {
        Expected { newest: self.records.newest(), memory: self.expectations }
    }

    fn concluding(&mut self) -> Conclude<'_> {
        let (secrets, known) = (&mut *self.secrets, self.known.as_ref());
        Conclude { deployed: Deployed { records: self.records.reborrow(), secrets, known } }
    }

    fn departing(&self) -> Departing<'_> {
        Departing { newest: self.records.newest(), secrets: self.secrets }
    }
}

impl CatchUp<'_> {
    fn conclude(&mut self) -> Conclude<'_> {
        Conclude { deployed: self.take_over.deployed.reborrow() }
    }
}

impl<'a> Departing<'a> {
    fn scope(&self) -> Scope<'a> {
        self.newest.scope
    }

    fn access(&self) -> Access<'a> {
        Access { scope: self.scope() }
    }

    fn live(&self) -> Objects<'a> {
        Objects { scope: self.scope() }
    }
}

impl Orphaned<'_> {
    fn departing(&self) -> Departing<'_> {
        Departing { newest: self.records.newest(), secrets: self.secrets }
    }
}
