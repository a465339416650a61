//! Puts back what others changed in a deployed release. No new revision, no hooks.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::api::{DriftMode, IgnoreRule};
use crate::cluster::{Applied, Mode, is_hidden};
use crate::manifest::managed_fields::ignore::{as_live, wishes};
use crate::manifest::{InventoryEntry, Object, ObjectId, managed_fields};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::reconcile::access::claims::Claims;
use crate::reconcile::context::fair::Turn;
use crate::reconcile::drift::Drift;
use crate::reconcile::objects::expected::Expected;
use crate::reconcile::objects::field_handover::left_to_others;
use crate::reconcile::objects::ignore::Left;
use crate::reconcile::objects::ignore::of_new;
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::drift::DriftAction;
use crate::release::Private;
use crate::storage::Stored;
use crate::watch::Suspicion;

const PARALLEL: usize = 8;
/// Nothing tells that an object has gone which left our watch with its label while it was on its way out.
pub(in crate::reconcile) const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(2);

impl Drift<'_> {
    /// Acts on every suspicion of this release. A kind that cannot be watched leaves the others locked.
    pub(in crate::reconcile) async fn correct(&mut self) -> Result<(), Error> {
        Access { scope: self.scope() }.require_account().await?;
        let watched = Expected { newest: self.deployed.records.newest(), memory: self.expectations }
            .expect_deployed()
            .await;
        if watched.as_ref().is_err_and(|error| !error.is_blind()) {
            return watched;
        }
        let again = self.deployed.lock_again().await;
        self.correct_suspicions().await?;
        again?;
        watched
    }

    /// Drift is told and not put back: the spec asks for that, or a user vouched for what the record says and no key has
    /// proved it.
    fn only_warns(&self) -> bool {
        let accepted = self.deployed.records.newest().own_private().is_some_and(|private| private.accepted);
        self.scope().settings.drift == DriftMode::Warn || accepted
    }

    async fn correct_suspicions(&mut self) -> Result<(), Error> {
        let suspicions = self.scope().ctx.objects.suspicions(self.scope().key);
        let due = self.memory.due(suspicions, self.only_warns(), self.scope().now);
        if due.is_empty() {
            return Ok(());
        }
        let Reading { stored, objects, whole, _room } = self.read_deployed().await?;
        let Some(mut private) = stored.private.clone() else { return Ok(()) };
        let entries: BTreeMap<&ObjectId, &InventoryEntry> =
            private.inventory.iter().map(|entry| (&entry.id, entry)).collect();
        let rules = self.live().rules(&private);
        let work = due.into_iter().filter_map(|suspicion| {
            let (object, entry) = (objects.get(&suspicion.id)?, (*entries.get(&suspicion.id)?).clone());
            Some(self.correct_one(suspicion, object, entry, &rules, &private.owner.uid))
        });
        let attempts: Vec<_> =
            stream::iter(work.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
        let Tried { taught, error } = self.remember(attempts, &mut private);
        if error.is_some() {
            self.deployed.secrets.recall(
                self.deployed.known,
                stored.record.version,
                Some(&private.secrets),
                objects.values(),
            );
        }
        if taught {
            // What is expected of an object is another now: a restart must know.
            let mut stored = if whole { stored } else { self.deployed.records.read_head_whole().await? };
            stored.private = Some(private);
            let stored = self.deployed.records.save(&stored, true).await?;
            self.deployed.records.wrote(&stored);
        }
        self.memory.error = error.as_ref().map(|error| self.deployed.secrets.shown(error));
        error.map_or(Ok(()), Err)
    }

    /// The newest record and its objects: as they were kept, or read within the budget.
    async fn read_deployed(&mut self) -> Result<Reading, Error> {
        let by_id = |objects: Vec<Object>| objects.into_iter().map(|object| (object.id.clone(), object));
        if let Some((stored, objects)) = self.deployed.records.newest().kept_objects().await {
            return Ok(Reading { stored, objects: by_id(objects).collect(), whole: false, _room: None });
        }
        let weight = self.deployed.records.newest().weight();
        let room =
            Claims { scope: self.scope(), claimed: self.deployed.records.claimed }.to_correct(weight)?;
        let stored = self.deployed.records.read_head_within().await?;
        self.deployed.records.keep_manifest(&stored);
        let objects = by_id(objects_in(&stored).await?).collect();
        Ok(Reading { stored, objects, whole: true, _room: room })
    }

    fn remember(&mut self, attempts: Vec<Attempt<'_>>, private: &mut Private) -> Tried {
        let (warn, now) = (self.only_warns(), self.scope().now);
        let mut tried = Tried { taught: false, error: None };
        for Attempt { suspicion, object, entry, result } in attempts {
            if warn && result.is_ok() {
                self.memory.looked(&suspicion, now);
            }
            match result {
                Ok(Done::InOrder) => self.memory.take_back(|reported| *reported == suspicion.id),
                Ok(Done::Awaited) => self.memory.come_back_at(self.scope().later(LOOK_AGAIN)),
                Ok(Done::Acted { action, taught }) => {
                    self.notes().took_note(&suspicion, object, action);
                    let stored = private.inventory.iter_mut().find(|stored| stored.id == entry.id);
                    if let Some(stored) = stored.filter(|_| taught) {
                        *stored = entry;
                        tried.taught = true;
                    }
                }
                Err(error) => tried.error = tried.error.or(Some(error)),
            }
        }
        tried
    }

    async fn correct_one<'o>(
        &self,
        suspicion: Suspicion,
        object: &'o Object,
        mut entry: InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        uid: &str,
    ) -> Attempt<'o> {
        let result = self.put_back(&suspicion, object, &mut entry, rules, uid).await;
        Attempt { suspicion, object, entry, result }
    }

    async fn put_back(
        &self,
        suspicion: &Suspicion,
        object: &Object,
        entry: &mut InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        uid: &str,
    ) -> Result<Done, Error> {
        let marks = self.live().marks(uid);
        if entry.ran.is_some() && self.live().job_is_gone(entry).await? {
            return Ok(Done::InOrder);
        }
        let found = if suspicion.gone {
            self.look_at_gone(suspicion, object, entry, rules).await?
        } else {
            Some(Found { action: self.leave_taken(suspicion, object, entry).await?, hidden: None })
        };
        let Some(Found { mut action, hidden }) = found else { return Ok(Done::Awaited) };
        if self.only_warns() {
            if hidden.as_ref().is_some_and(|hidden| hidden.from_watch) {
                // Nothing differs that an apply would change, but what else is done to it is not seen.
                return Ok(Done::Acted { action: DriftAction::Reported, taught: false });
            }
            let evidence = hidden.as_ref().map_or(&suspicion.managed_fields, |hidden| &hidden.managed_fields);
            return self.confirm(object, entry, marks, action, rules, evidence).await;
        }
        let ignored_before = entry.ignored.clone();
        let evidence = match &hidden {
            Some(hidden) => Some(&hidden.managed_fields[..]),
            None => (!suspicion.gone).then_some(&suspicion.managed_fields[..]),
        };
        let left = match evidence {
            Some(fields) => self.live().leave_ignored(object, entry, rules, Some(fields)).await?,
            // It is created.
            None => Left::default(),
        };
        let strict = self.live().is_strict(object, entry);
        if !suspicion.gone && action == DriftAction::Reverted && (strict || entry.ignored != ignored_before) {
            let body = plan::apply_body(object, entry, marks);
            let lost = managed_fields::lost_paths(&body, &suspicion.managed_fields);
            let added = strict && !self.live().added(object, rules, &suspicion.managed_fields).is_empty();
            if lost.is_empty() && !added {
                action = DriftAction::HandedOver;
            }
        }
        let object = left.object.as_ref().unwrap_or(object);
        let Some(applied) = self.apply_again(object, entry, marks, rules).await? else {
            return Ok(Done::Awaited);
        };
        let taught = entry.fingerprint != applied.fingerprint
            || entry.uid != applied.uid()
            || entry.ignored != ignored_before;
        entry.fingerprint = applied.fingerprint.clone();
        entry.uid = applied.uid();
        if let (Some(before), true) = (&left.live, left.object.is_some())
            && before.live.data == applied.live.data
        {
            // Another field manager set what is left to it, and what is one value with it is ours again.
            action = DriftAction::HandedOver;
        }
        // The apply changed nothing: a false alarm, unless it taught us what to expect.
        let changed = suspicion.gone || suspicion.version != applied.version;
        Ok(if changed || taught { Done::Acted { action, taught } } else { Done::InOrder })
    }

    /// An object that was deleted, or is only out of sight for its labels. `None`: it is on its way out.
    async fn look_at_gone(
        &self,
        suspicion: &Suspicion,
        object: &Object,
        entry: &mut InventoryEntry,
        rules: &[Arc<IgnoreRule>],
    ) -> Result<Option<Found>, Error> {
        let Some(meta) = self.scope().cluster.metadata(&entry.api_version, &suspicion.id).await? else {
            // A create applies the whole object, because there is no live value to keep, and what it
            // applies is ours until another field manager takes it again.
            entry.handed_over.clear();
            entry.ignored = wishes(rules, object).as_ref().map(of_new).unwrap_or_default();
            return Ok(Some(Found { action: DriftAction::Recreated, hidden: None }));
        };
        if meta.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let hidden =
            Hidden { from_watch: is_hidden(&meta), managed_fields: meta.managed_fields.unwrap_or_default() };
        Ok(Some(Found { action: DriftAction::Reverted, hidden: Some(hidden) }))
    }

    /// Leaves to other field managers what they may take, such as replicas to an autoscaler.
    async fn leave_taken(
        &self,
        suspicion: &Suspicion,
        object: &Object,
        entry: &mut InventoryEntry,
    ) -> Result<DriftAction, Error> {
        let mut taken = left_to_others(&object.body, &suspicion.managed_fields);
        let replicas = |path: &String| path == plan::REPLICAS;
        if !taken.iter().chain(&entry.handed_over).any(replicas)
            && self.live().has_autoscaler(&suspicion.id, &object.body, &suspicion.managed_fields).await?
        {
            taken.push(plan::REPLICAS.to_owned());
        }
        let new: Vec<String> = taken.into_iter().filter(|path| !entry.handed_over.contains(path)).collect();
        let action = if new.is_empty() { DriftAction::Reverted } else { DriftAction::HandedOver };
        entry.handed_over.extend(new);
        Ok(action)
    }

    /// Applies the object and tells the watches what to expect. `None`: a Job went a moment ago.
    async fn apply_again(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        marks: plan::Marks<'_>,
        rules: &[Arc<IgnoreRule>],
    ) -> Result<Option<Applied>, Error> {
        let (id, objects) = (&object.id, &self.scope().ctx.objects);
        let body = plan::apply_body(object, entry, marks);
        objects.table().begin(id);
        let applied = match self.scope().cluster.apply(&entry.api_version, id, &body, Mode::Real).await {
            Ok(applied) => self.live().strictly(object, entry, rules, &body, applied).await,
            Err(error) => Err(error),
        };
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                objects.table().abandon(id);
                if entry.ran.is_some() && error.is_conflict() {
                    return Ok(None);
                }
                return Err(self.live().unchangeable(object, &body, error).await.into());
            }
        };
        self.live().expect_applied(id, &applied);
        Ok(Some(applied))
    }

    /// Warn mode: the API server says what an apply would change; nothing is written.
    async fn confirm(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        marks: plan::Marks<'_>,
        action: DriftAction,
        rules: &[Arc<IgnoreRule>],
        evidence: &[ManagedFieldsEntry],
    ) -> Result<Done, Error> {
        let reported = Done::Acted { action: DriftAction::Reported, taught: false };
        match action {
            DriftAction::Recreated => return Ok(reported),
            DriftAction::HandedOver => return Ok(Done::InOrder),
            DriftAction::Reverted | DriftAction::Reported => {}
        }
        let wishes = wishes(rules, object);
        if self.live().is_strict(object, entry) && !self.live().added(object, rules, evidence).is_empty() {
            return Ok(reported);
        }
        let live = self.scope().cluster.get(&entry.api_version, &entry.id).await?;
        let body = match (&wishes, &live) {
            (Some(wishes), Some(live)) => {
                // What is left to other field managers does not count as a difference.
                let body = as_live(object, wishes, &live.value(), live.managed_fields());
                let entry = InventoryEntry { ignored: Vec::new(), ..entry.clone() };
                plan::apply_body(&Object { body, ..object.clone() }, &entry, marks)
            }
            _ => plan::apply_body(object, entry, marks),
        };
        let would = match self.scope().cluster.apply(&entry.api_version, &entry.id, &body, Mode::DryRun).await
        {
            Err(error) if error.is_crowded() || !error.suspects().is_empty() => return Ok(reported),
            would => would?,
        };
        let differs = live.is_none_or(|live| {
            live.live.data != would.live.data
                || live.live.metadata.labels != would.live.metadata.labels
                || live.live.metadata.annotations != would.live.metadata.annotations
        });
        Ok(if differs { reported } else { Done::InOrder })
    }
}

/// The newest record and its objects.
struct Reading {
    stored: Stored,
    objects: BTreeMap<ObjectId, Object>,
    /// The record has its manifest and values.
    whole: bool,
    /// As long as they are in memory.
    _room: Option<Turn>,
}

/// What another field manager did to an object.
struct Found {
    action: DriftAction,
    /// The object is there, and the watch does not show it.
    hidden: Option<Hidden>,
}

struct Hidden {
    /// For its labels.
    from_watch: bool,
    managed_fields: Vec<ManagedFieldsEntry>,
}

/// What came of all attempts together.
struct Tried {
    /// The record has to be written.
    taught: bool,
    /// The first.
    error: Option<Error>,
}

/// One suspicion that was looked into.
struct Attempt<'o> {
    suspicion: Suspicion,
    object: &'o Object,
    /// What is expected of the object from now on.
    entry: InventoryEntry,
    result: Result<Done, Error>,
}

/// What came of it.
enum Done {
    /// A false alarm: nothing differs.
    InOrder,
    /// The object is on its way out.
    Awaited,
    /// `taught`: what is expected of the object is another than the record says.
    Acted { action: DriftAction, taught: bool },
}
