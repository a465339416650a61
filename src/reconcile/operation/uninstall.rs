//! Takes a release away: objects in reverse order, then records, then the finalizer.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::api::reasons;
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::apply::Away;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::state::Going;
use crate::reconcile::state::Leaves;
use crate::reconcile::state::Running;
use crate::reconcile::state::progress::Progress;
use crate::reconcile::state::progress::Run;
use crate::release::{HookRun, State, Undone, backoff};
use crate::storage::{Head, Stored};

/// Looks in flight for one release.
const PARALLEL: usize = 8;

impl Operate<'_> {
    /// The newest revision is being taken away already: what speaks against that was looked at when it began.
    pub(in crate::reconcile) fn removal_goes_on(&self) -> bool {
        self.deletion.going_of(Leaves { revision: self.records.newest().revision(), step: None }).is_some()
    }

    /// Whether the uninstall of a release has still to begin: only then it waits for those that depend on the release.
    pub(in crate::reconcile) fn uninstall_begins(&self) -> bool {
        let Some((Head::Ours(head), _)) = &self.records.memory.head else { return false };
        !self.departing().past_objects()
            && !matches!(head.record.state, State::Uninstalled | State::PendingUninstall { .. })
    }

    /// Runs the hooks of a deletion round the deletion of the objects; returns while something
    /// is still going. `None`: nothing is left of the release but its records.
    pub(in crate::reconcile) async fn uninstall(&mut self) -> Result<Option<Progress>, Error> {
        let Some((Head::Ours(head), _)) = &self.records.memory.head else {
            return Ok(Some(Progress::Gone));
        };
        if self.departing().past_objects() {
            self.departing().remove_records().await?;
            return Ok(Some(Progress::Gone));
        }
        if head.record.state == State::Uninstalled {
            // Nothing is left of it but its records.
            return Ok(None);
        }
        if !matches!(head.record.state, State::PendingUninstall { .. }) {
            *self.records.running = None;
            let mut whole = self.records.read_head_whole().await?;
            let timeout = self.scope.settings.uninstall.timeout.as_secs().max(1);
            whole.record.state = State::PendingUninstall { started_at: self.scope.now, timeout };
            whole.record.updated_at = self.scope.now;
            if let Some(private) = whole.private.as_mut() {
                private.operation = None;
                self.crds().judge_deletion(&mut private.definitions).await?;
            }
            let stored = self.records.save(&whole, true).await?;
            self.records.wrote(&stored);
            self.deletion.going = None;
        }
        self.load_running().await?;
        let Some(mut running) = self.records.running.take() else {
            return Ok(Some(Progress::Nothing));
        };
        match self.steps(&mut running).await {
            Ok(Step::Done) => self.uninstalled(running).await,
            Ok(Step::Wait { until }) => {
                let progress = self.uninstalling(&running, until);
                self.keep_running(running);
                Ok(Some(progress))
            }
            Ok(Step::Failed { reason, message, .. }) => {
                // It runs once more when the wait after an error is over.
                let checkpoint =
                    running.stored.private.as_ref().and_then(|private| private.operation.clone());
                if let Some((operation, run)) =
                    checkpoint.and_then(|operation| operation.hook.clone().map(|run| (operation, run)))
                {
                    let attempt = run.attempt.saturating_add(1);
                    let again = HookRun { attempt, first: attempt, failed: None, uid: None };
                    self.checkpoint(&mut running, operation.phase, operation.wave, Some(again)).await?;
                }
                self.keep_running(running);
                Err(Error::Hook { reason, message })
            }
            Err(error) => {
                if !error.is_conflict() {
                    self.keep_running(running);
                }
                Err(error)
            }
        }
    }

    async fn uninstalled(&mut self, mut running: Box<Running>) -> Result<Option<Progress>, Error> {
        let mut stays: Vec<ObjectId> = self.deletion.stays.iter().cloned().collect();
        if let Some(private) = &running.stored.private {
            stays.extend(self.departing().delete_hook_objects(private).await?);
            stays.extend(self.departing().kept_definitions(&private.definitions).await);
        }
        let what = format!("release {} is uninstalled", self.scope.settings.release_name);
        self.departing().tell_remaining(false, reasons::UNINSTALL_SUCCEEDED, &what, stays, "");
        if self.scope.settings.uninstall.keep_history {
            running.stored.record.state = State::Uninstalled;
            running.stored.record.updated_at = self.scope.now;
            empty(&mut running.stored);
            let stored = self.records.save(&running.stored, true).await?;
            self.records.wrote(&stored);
            self.records.newest().sweep_kept(stored.private.as_ref()).await;
        }
        Ok(None)
    }

    fn uninstalling(&self, running: &Running, until: Timestamp) -> Progress {
        let Some(going) = self.deletion.going_of(leaves(running)) else {
            return Progress::Running(Run::of(running, until));
        };
        let remaining: Vec<ObjectId> = going.remaining.iter().map(|entry| entry.id.clone()).collect();
        let started = running.started;
        let deadline = started.checked_add(self.scope.settings.uninstall.timeout).unwrap_or(Timestamp::MAX);
        Progress::Uninstalling { started, deadline, late: self.scope.now >= deadline, remaining, until }
    }

    /// Deletes the objects of a wave and waits until they are gone.
    pub(in crate::reconcile) async fn delete_step(
        &mut self,
        running: &mut Running,
        entries: &[InventoryEntry],
    ) -> Result<Step, Error> {
        let Some(uid) = running.stored.private.as_ref().map(|private| private.owner.uid.clone()) else {
            return Ok(Step::Done);
        };
        let of = leaves(running);
        let going = match self.deletion.take_going(of) {
            Some(going) => self.look_for(going, &uid).await?,
            None => self.delete_all(of, entries, &uid).await?,
        };
        self.deletion.stays.extend(going.kept.iter().cloned());
        if self.scope.settings.uninstall.wait && !going.remaining.is_empty() {
            return Ok(self.await_gone(going));
        }
        Ok(Step::Done)
    }

    /// A first install failed for good: its objects go, and the failed revision says what it was.
    pub(in crate::reconcile) async fn remove_failed(
        &mut self,
        undone: Option<Undone>,
    ) -> Result<Option<Progress>, Error> {
        let Some((Head::Ours(head), _)) = &self.records.memory.head else { return Ok(None) };
        let Some(private) = head.private.clone() else { return Ok(None) };
        let uid = private.owner.uid;
        let of = Leaves { revision: head.record.version, step: None };
        let entries: Vec<InventoryEntry> = private.inventory.into_iter().chain(private.leftovers).collect();
        let going = match self.deletion.take_going(of) {
            Some(going) => self.look_for(going, &uid).await?,
            None => self.delete_all(of, &entries, &uid).await?,
        };
        if !going.remaining.is_empty() {
            let remaining = going.remaining.iter().map(|entry| entry.id.clone()).collect();
            let deadline = self.scope.later(self.scope.settings.uninstall.timeout);
            let until = going.look_at;
            self.await_gone(going);
            let started = self.scope.now;
            return Ok(Some(Progress::Uninstalling { started, deadline, late: false, remaining, until }));
        }
        let mut whole = self.records.read_head_whole().await?;
        if let Some(private) = &whole.private {
            self.departing().delete_hook_objects(private).await?;
        }
        whole.record.state = State::Uninstalled;
        whole.record.updated_at = self.scope.now;
        empty(&mut whole);
        if let Some(private) = whole.private.as_mut() {
            private.undone = undone;
        }
        let stored = self.records.save(&whole, true).await?;
        self.records.wrote(&stored);
        self.records.newest().sweep_kept(stored.private.as_ref()).await;
        self.scope.ctx.objects.table().forget_all(self.scope.key);
        self.live().release_unused_kinds(&stored);
        Ok(None)
    }

    fn await_gone(&mut self, going: Going) -> Step {
        let remaining = going.remaining.iter().map(|entry| entry.id.clone()).collect();
        self.scope.ctx.objects.table().wake_on(self.scope.key, &remaining);
        let until = going.look_at;
        self.deletion.going = Some(going);
        Step::Wait { until }
    }

    /// Asks for the deletion of everything that is ours; gives what still exists.
    async fn delete_all(&self, of: Leaves, entries: &[InventoryEntry], uid: &str) -> Result<Going, Error> {
        // Nothing of this may be put back while it goes.
        self.scope.ctx.objects.table().wake_on(self.scope.key, &BTreeSet::new());
        let (mut remaining, mut kept) = (Vec::new(), BTreeSet::new());
        for entry in plan::deletion_order(entries.to_vec()) {
            match self.live().take_away(&entry, uid).await? {
                Away::Going => remaining.push(entry),
                Away::Stays => drop(kept.insert(entry.id)),
                Away::NotOurs => {}
            }
        }
        if self.scope.settings.uninstall.wait {
            // Most objects are gone with the answer.
            remaining = self.still_there(remaining, uid).await?;
        }
        Ok(self.going(of, remaining, kept, 1))
    }

    /// Looks for what was still there: for all of it from time to time, and between that for what the watch saw go.
    /// Nothing else of the release costs a call any more.
    async fn look_for(&self, going: Going, uid: &str) -> Result<Going, Error> {
        let Going { of, remaining, kept, looks, look_at } = going;
        if look_at <= self.scope.now {
            let remaining = self.still_there(remaining, uid).await?;
            return Ok(self.going(of, remaining, kept, looks.saturating_add(1)));
        }
        let (gone, mut remaining): (Vec<_>, Vec<_>) = {
            let table = self.scope.ctx.objects.table();
            remaining.into_iter().partition(|entry| table.is_gone(&entry.id))
        };
        // It may only be out of the watch's sight.
        remaining.extend(self.still_there(gone, uid).await?);
        Ok(Going { of, remaining, kept, looks, look_at })
    }

    fn going(
        &self,
        of: Leaves,
        remaining: Vec<InventoryEntry>,
        kept: BTreeSet<ObjectId>,
        looks: u32,
    ) -> Going {
        let look_at = self.scope.later(backoff::going(looks));
        Going { of, remaining, kept, looks, look_at }
    }

    /// Which of these objects exist and are ours. One that was not told to go yet is.
    async fn still_there(
        &self,
        entries: Vec<InventoryEntry>,
        uid: &str,
    ) -> Result<Vec<InventoryEntry>, Error> {
        let looks = entries.into_iter().map(|entry| async move {
            let there = self.live().delete_ours(&entry, uid).await?;
            Ok::<_, Error>(there.then_some(entry))
        });
        let seen: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        let seen: Result<Vec<_>, Error> = seen.into_iter().collect();
        Ok(seen?.into_iter().flatten().collect())
    }
}

/// The step under way, as what tells objects to go.
pub(in crate::reconcile) fn leaves(running: &Running) -> Leaves {
    Leaves { revision: running.stored.record.version, step: Some(running.at) }
}

/// Nothing of the revision is in the cluster any more.
fn empty(stored: &mut Stored) {
    if let Some(private) = stored.private.as_mut() {
        private.inventory.clear();
        private.leftovers.clear();
        private.hook_objects.clear();
        private.operation = None;
    }
}
