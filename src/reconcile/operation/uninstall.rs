//! Takes a release away: objects in reverse order, then records, then the finalizer.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::api::{Class, HistoryStorage, UninstallPolicy, names, reasons};
use crate::manifest::{InventoryEntry, ObjectId};
use crate::plan;
use crate::reconcile::objects::apply::Away;
use crate::reconcile::operation::outcome::Step;
use crate::reconcile::operation::without_account::Left;
use crate::reconcile::state::Going;
use crate::reconcile::state::Leaves;
use crate::reconcile::state::Running;
use crate::reconcile::state::progress::{PHASE_RECORDS, Run};
use crate::reconcile::{Error, Pass, Progress};
use crate::release::decide::Deletion;
use crate::release::{HookRun, State, backoff};
use crate::storage::{Head, Records, Stored};

/// Looks in flight for one release.
const PARALLEL: usize = 8;

impl Pass<'_> {
    /// What decides how a deletion goes. One read of our CRD, one of the target namespace, and one of the account.
    pub(in crate::reconcile) async fn observe_deletion(&self) -> Result<Deletion, Error> {
        let orphan = self.scope.settings.uninstall.policy == UninstallPolicy::Orphan;
        if orphan {
            return Ok(Deletion { orphan, ..Deletion::default() });
        }
        let crd = ObjectId {
            group: "apiextensions.k8s.io".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: None,
            name: names::CRD_NAME.to_owned(),
        };
        let crd = self.scope.ctx.as_operator.metadata("apiextensions.k8s.io/v1", &crd).await?;
        let own_crd_terminating = crd.is_none_or(|meta| meta.deletion_timestamp.is_some());
        let namespace = self.scope.cluster.namespace(&self.scope.settings.target_namespace).await?;
        let namespace_terminating = namespace.is_none_or(|meta| meta.deletion_timestamp.is_some());
        let account_gone = self.access().account_gone().await?;
        Ok(Deletion { orphan, own_crd_terminating, namespace_terminating, account_gone })
    }

    /// The newest revision is being taken away already: what speaks against that was looked at when it began.
    pub(in crate::reconcile) fn removal_goes_on(&self) -> bool {
        self.mem.going_of(Leaves { revision: self.newest().revision(), step: None }).is_some()
    }

    /// Runs the hooks of a deletion round the deletion of the objects, then deletes the records; returns while something
    /// is still going.
    pub(in crate::reconcile) async fn uninstall(&mut self) -> Result<Progress, Error> {
        let Some((Head::Ours(head), _)) = &self.mem.records.head else { return Ok(Progress::Gone) };
        if self.past_objects() {
            self.remove_records().await?;
            return Ok(Progress::Gone);
        }
        if head.record.state == State::Uninstalled {
            // Nothing is left of it but its records.
            return self.records_go().await;
        }
        if !matches!(head.record.state, State::PendingUninstall { .. }) {
            if let Some(waits) = self.dependents().await_them() {
                return Ok(waits);
            }
            self.mem.running = None;
            let mut whole = self.records().read_head_whole().await?;
            let timeout = self.scope.settings.uninstall.timeout.as_secs().max(1);
            whole.record.state = State::PendingUninstall { started_at: self.scope.now, timeout };
            whole.record.updated_at = self.scope.now;
            if let Some(private) = whole.private.as_mut() {
                private.operation = None;
                self.crds().judge_deletion(&mut private.definitions).await?;
            }
            let stored = self.records().save(&whole, true).await?;
            self.records().wrote(&stored);
            self.mem.going = None;
        }
        self.load_running().await?;
        let Some(mut running) = self.mem.running.take() else { return Ok(Progress::Nothing) };
        match self.steps(&mut running).await {
            Ok(Step::Done) => self.uninstalled(running).await,
            Ok(Step::Wait { until }) => {
                let progress = self.uninstalling(&running, until);
                self.keep_running(running);
                Ok(progress)
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

    async fn uninstalled(&mut self, mut running: Box<Running>) -> Result<Progress, Error> {
        let mut stays: Vec<ObjectId> = self.mem.stays.iter().cloned().collect();
        if let Some(private) = &running.stored.private {
            stays.extend(self.delete_hook_objects(private).await?);
            stays.extend(self.kept_definitions(&private.definitions).await);
        }
        let what = format!("release {} is uninstalled", self.scope.settings.release_name);
        self.tell_remaining(false, reasons::UNINSTALL_SUCCEEDED, &what, stays, "");
        if self.scope.settings.uninstall.keep_history {
            running.stored.record.state = State::Uninstalled;
            running.stored.record.updated_at = self.scope.now;
            empty(&mut running.stored);
            let stored = self.records().save(&running.stored, true).await?;
            self.records().wrote(&stored);
            self.newest().sweep_kept(stored.private.as_ref()).await;
        }
        self.records_go().await
    }

    /// The records go, unless they are to be kept.
    async fn records_go(&mut self) -> Result<Progress, Error> {
        if !self.scope.settings.uninstall.keep_history {
            let now = self.scope.now;
            self.finishing().writes().checkpoint_records(now).await?;
            self.remove_records().await?;
        }
        Ok(Progress::Gone)
    }

    fn uninstalling(&self, running: &Running, until: Timestamp) -> Progress {
        let Some(going) = self.mem.going_of(leaves(running)) else {
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
        let going = match self.mem.take_going(of) {
            Some(going) => self.look_for(going, &uid).await?,
            None => self.delete_all(of, entries, &uid).await?,
        };
        self.mem.stays.extend(going.kept.iter().cloned());
        if self.scope.settings.uninstall.wait && !going.remaining.is_empty() {
            return Ok(self.await_gone(going));
        }
        Ok(Step::Done)
    }

    /// A first install failed for good: its objects go, and the failed revision says what it was.
    pub(in crate::reconcile) async fn remove_failed(&mut self) -> Result<Option<Progress>, Error> {
        let undone = self.undone();
        let Some((Head::Ours(head), _)) = &self.mem.records.head else { return Ok(None) };
        let Some(private) = head.private.clone() else { return Ok(None) };
        let uid = private.owner.uid;
        let of = Leaves { revision: head.record.version, step: None };
        let entries: Vec<InventoryEntry> = private.inventory.into_iter().chain(private.leftovers).collect();
        let going = match self.mem.take_going(of) {
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
        let mut whole = self.records().read_head_whole().await?;
        if let Some(private) = &whole.private {
            self.delete_hook_objects(private).await?;
        }
        whole.record.state = State::Uninstalled;
        whole.record.updated_at = self.scope.now;
        empty(&mut whole);
        if let Some(private) = whole.private.as_mut() {
            private.undone = undone;
        }
        let stored = self.records().save(&whole, true).await?;
        self.records().wrote(&stored);
        self.newest().sweep_kept(stored.private.as_ref()).await;
        self.scope.ctx.objects.table().forget_all(self.scope.key);
        self.live().release_unused_kinds(&stored);
        Ok(None)
    }

    /// A process may have died between the last record and what is left of it.
    ///
    /// Nobody else takes the name while the release is there. Once it is gone, what is kept under the name is somebody
    /// else's, and the watch may not have told us yet: so the API server is asked.
    pub(in crate::reconcile) async fn clear_up_records(&self) -> Result<(), Error> {
        let gone = matches!(self.mem.records.head, None | Some((Head::None, _)));
        if !(gone && self.past_objects() && self.scope.ctx.still_ours(self.scope.release).await?) {
            return Ok(());
        }
        if let Some(why) = self.remove_records_if_allowed().await? {
            let what = "the objects of the release are gone";
            self.tell_remaining(true, reasons::ORPHANED, what, Vec::new(), &why);
        }
        Ok(())
    }

    /// Deletes the records that are sealed for this release, and tells of the others. Oldest first: as long as the newest is
    /// there, a later process knows what this is about.
    pub(in crate::reconcile) async fn remove_records(&self) -> Result<(), Error> {
        let records = self.access().record_store().await?;
        self.newest().sweep_all_kept().await?;
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        let stays = records.remove_all(namespace, name, self.scope.key).await?;
        self.scope.ctx.record_watch.removed(&self.records_of());
        self.tell_which_records_stay(stays);
        Ok(())
    }

    /// [`Pass::remove_records`] of a release that goes in any case: records that its account may not delete stay. Gives why.
    pub(in crate::reconcile) async fn remove_records_if_allowed(&self) -> Result<Option<String>, Error> {
        match self.remove_records().await {
            Ok(()) => Ok(None),
            Err(error) if error.class() == Class::Retry => Err(error),
            Err(error) => {
                let namespace = &self.scope.settings.history_namespace;
                Ok(Some(format!("; its revision records in {namespace} stay: {error}")))
            }
        }
    }

    /// Everything but the records is gone.
    pub(in crate::reconcile) fn past_objects(&self) -> bool {
        let operation = self.scope.release.status.as_ref().and_then(|status| status.operation.as_ref());
        operation.is_some_and(|operation| operation.phase.as_deref() == Some(PHASE_RECORDS))
    }

    fn await_gone(&mut self, going: Going) -> Step {
        let remaining = going.remaining.iter().map(|entry| entry.id.clone()).collect();
        self.scope.ctx.objects.table().wake_on(self.scope.key, &remaining);
        let until = going.look_at;
        self.mem.going = Some(going);
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

    /// The namespace is going away: everything in it goes with it, and nothing may be written there. Objects
    /// elsewhere are deleted as far as that is still possible.
    pub(in crate::reconcile) async fn let_go(&mut self) -> Result<(), Error> {
        let target = &self.scope.settings.target_namespace;
        let what = format!("the namespace {target} is going away: what the release has in it goes with it");
        let (stays, records) = self.delete_elsewhere().await?;
        let records = records.unwrap_or_default();
        self.tell_remaining(true, reasons::NAMESPACE_TERMINATING, &what, stays, &records);
        Ok(())
    }

    /// Deletes what the release has outside its namespace; gives what stays of it, and why its records do.
    async fn delete_elsewhere(&self) -> Result<(Vec<ObjectId>, Option<String>), Error> {
        let target = Some(self.scope.settings.target_namespace.clone());
        let head = match &self.mem.records.head {
            Some((Head::Ours(head), _)) => Some(head),
            _ => self.mem.records.departed.as_ref(),
        };
        let private = head.and_then(|head| head.private.clone());
        let Some(private) = private.filter(|private| self.scope.owns(&private.owner)) else {
            // Of what no record tells nothing is deleted.
            let mut tracked = self.scope.ctx.objects.table().tracked(self.scope.key);
            tracked.retain(|id| id.namespace != target);
            return Ok((tracked.into_iter().collect(), None));
        };
        let entries: Vec<InventoryEntry> = private
            .inventory
            .iter()
            .chain(&private.leftovers)
            .filter(|entry| entry.id.namespace != target)
            .cloned()
            .collect();
        let Left { refused, kept } = self.delete_allowed(entries, &private.owner.uid).await?;
        let settings = &self.scope.settings;
        // Others go with the namespace.
        let outlive = settings.history_storage == HistoryStorage::File
            || settings.history_namespace != settings.target_namespace;
        let records = if outlive { self.remove_records_if_allowed().await? } else { None };
        Ok((refused.into_iter().chain(kept).collect(), records))
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
