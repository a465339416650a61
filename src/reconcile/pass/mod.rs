//! One pass over one release: what it works with, lent to each stage as far as that needs it.

mod entry;
mod lock;
mod memory;
mod operations;
mod refuse;

use std::time::Duration;

use jiff::Timestamp;

use super::access::Access;
use super::context::Scope;
use super::context::fair::Turn;
use super::crds::TakeOver;
use super::drift::Drift;
use super::health::Waits;
use super::inputs::Inputs;
use super::objects::Deployed;
use super::observe::Observe;
use super::observe::dependencies::Dependents;
use super::observe::recovery::Recovery;
use super::operation::{CatchUp, Conclude, Departing, Operate, Orphaned};
use super::prepare::Prepare;
use super::prepare::preflight::Preflight;
use super::records::{NewestRecord, Records, RevisionMemory};
use super::state::redact::Secrets;
use super::status::finish::Finish;
use crate::reconcile::context::records_of;
use crate::watch::RecordsOf;
pub use entry::{Reconciler, Reserve};
use memory::Remembered;

/// One pass over one release.
pub(super) struct Pass<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) mem: &'a mut Remembered,
    /// The decision in a word, for metrics.
    pub(super) decided: &'static str,
    /// The memory that it may use.
    pub(super) claimed: Option<Turn>,
    /// What came from Secrets.
    pub(super) secrets: Secrets,
}

impl<'a> Pass<'a> {
    pub(super) fn new(scope: Scope<'a>, mem: &'a mut Remembered, decided: &'static str) -> Self {
        Self { scope, mem, decided, claimed: None, secrets: Secrets::default() }
    }

    pub(super) fn access(&self) -> Access<'_> {
        Access { scope: self.scope }
    }

    pub(super) fn newest(&self) -> NewestRecord<'_> {
        NewestRecord { scope: self.scope, memory: &self.mem.revisions.records }
    }

    pub(super) fn records(&mut self) -> Records<'_> {
        self.mem.revisions.lend(self.scope, &mut self.claimed)
    }

    pub(super) fn inputs(&mut self) -> Inputs<'_> {
        Inputs { scope: self.scope, secrets: &mut self.secrets }
    }

    pub(super) fn observing(&mut self) -> Observe<'_> {
        Observe { records: self.records() }
    }

    pub(super) fn dependents(&mut self) -> Dependents<'_> {
        Dependents { scope: self.scope, awaited: &mut self.mem.awaited }
    }

    pub(super) fn finishing(&mut self) -> Finish<'_> {
        let Remembered { status, revisions, drift, tally, claimant, ailing, prepare, .. } = &mut *self.mem;
        let RevisionMemory { records, running, history, backoff } = revisions;
        Finish {
            scope: self.scope,
            status,
            records,
            running,
            backoff,
            history,
            drift,
            tally,
            claimant,
            ailing: ailing.as_ref(),
            prepared: prepare,
        }
    }

    pub(super) fn operating(&mut self) -> Operate<'_> {
        let Remembered { revisions, tally, expectations, ailing, deletion, secrets, .. } = &mut *self.mem;
        Operate {
            scope: self.scope,
            records: revisions.lend(self.scope, &mut self.claimed),
            tally,
            expectations,
            ailing,
            deletion,
            secrets: &mut self.secrets,
            known: secrets,
        }
    }

    pub(super) fn deployed(&mut self) -> Deployed<'_> {
        let Remembered { revisions, secrets, .. } = &mut *self.mem;
        Deployed {
            records: revisions.lend(self.scope, &mut self.claimed),
            secrets: &mut self.secrets,
            known: secrets.as_ref(),
        }
    }

    pub(super) fn concluding(&mut self) -> Conclude<'_> {
        Conclude { deployed: self.deployed() }
    }

    pub(super) fn catching_up(&mut self) -> CatchUp<'_> {
        let Remembered { revisions, secrets, counted, .. } = &mut *self.mem;
        let records = revisions.lend(self.scope, &mut self.claimed);
        let deployed = Deployed { records, secrets: &mut self.secrets, known: secrets.as_ref() };
        CatchUp { take_over: TakeOver { deployed, counted } }
    }

    pub(super) fn departing(&self) -> Departing<'_> {
        Departing { newest: self.newest(), secrets: &self.secrets }
    }

    pub(super) fn orphaned(&mut self) -> Orphaned<'_> {
        Orphaned { records: self.mem.revisions.lend(self.scope, &mut self.claimed), secrets: &self.secrets }
    }

    pub(super) fn drift(&mut self) -> Drift<'_> {
        let Remembered { revisions, secrets, drift, expectations, .. } = &mut *self.mem;
        let records = revisions.lend(self.scope, &mut self.claimed);
        let deployed = Deployed { records, secrets: &mut self.secrets, known: secrets.as_ref() };
        Drift { deployed, memory: drift, expectations }
    }

    pub(super) fn recovery(&mut self) -> Recovery<'_> {
        let Remembered { revisions, ailing, .. } = &mut *self.mem;
        let records = revisions.lend(self.scope, &mut self.claimed);
        Recovery { records, ailing, secrets: &self.secrets }
    }

    pub(super) fn preparing(&mut self) -> Prepare<'_> {
        let Remembered { revisions, secrets, counted, prepare, .. } = &mut *self.mem;
        let records = revisions.lend(self.scope, &mut self.claimed);
        Prepare { records, secrets: &mut self.secrets, known: secrets.as_ref(), counted, memory: prepare }
    }

    pub(super) fn preflight(&self) -> Preflight<'_> {
        Preflight { newest: self.newest() }
    }

    pub(super) fn health(&self) -> Waits<'_> {
        Waits { scope: self.scope, secrets: &self.secrets }
    }

    /// Tells the metrics what was decided and how long the pass took.
    pub(super) fn report(&self) {
        let took = Duration::try_from(Timestamp::now().duration_since(self.scope.now)).unwrap_or_default();
        self.scope.ctx.report.decided(self.decided, took);
    }

    pub(super) fn records_of(&self) -> RecordsOf {
        records_of(self.scope.settings)
    }
}
