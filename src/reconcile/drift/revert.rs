//! Puts back what others changed in a deployed release. No new revision, no hooks.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::api::{DriftMode, IgnoreRule};
use crate::cluster::{Mode, is_hidden};
use crate::manifest::managed_fields::ignore::{as_live, wishes};
use crate::manifest::{InventoryEntry, Object, ObjectId, managed_fields};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::reconcile::access::claims::Claims;
use crate::reconcile::drift::Drift;
use crate::reconcile::objects::expected::Expected;
use crate::reconcile::objects::field_handover::left_to_others;
use crate::reconcile::objects::ignore::Left;
use crate::reconcile::objects::ignore::of_new;
use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::state::drift::DriftAction;
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
        let (warn, now) = (self.only_warns(), self.scope().now);
        let due = self.memory.due(suspicions, warn, now);
        if due.is_empty() {
            return Ok(());
        }
        let kept = self.deployed.records.newest().kept_objects().await;
        let whole = kept.is_none();
        let _room = match &kept {
            Some(_) => None,
            None => {
                let weight = self.deployed.records.newest().weight();
                Claims { scope: self.scope(), claimed: self.deployed.records.claimed }.to_correct(weight)?
            }
        };
        let (stored, objects) = match kept {
            Some(kept) => kept,
            None => {
                let stored = self.deployed.records.read_head_within().await?;
                self.deployed.records.keep_manifest(&stored);
                let objects = objects_in(&stored).await?;
                (stored, objects)
            }
        };
        let objects: BTreeMap<ObjectId, Object> =
            objects.into_iter().map(|object| (object.id.clone(), object)).collect();
        let Some(mut private) = stored.private.clone() else { return Ok(()) };
        let entries: BTreeMap<ObjectId, InventoryEntry> =
            private.inventory.iter().map(|entry| (entry.id.clone(), entry.clone())).collect();
        let rules = self.live().rules(&private);
        let work = due.into_iter().filter_map(|suspicion| {
            let (object, entry) = (objects.get(&suspicion.id)?, entries.get(&suspicion.id)?.clone());
            Some(self.correct_one(suspicion, object, entry, &rules, &private.owner.uid))
        });
        let results: Vec<_> =
            stream::iter(work.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
        let mut first_error = None;
        let mut changed = false;
        for Attempt { suspicion, object, entry, result } in results {
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
                        changed = true;
                    }
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if first_error.is_some() {
            self.deployed.secrets.recall(
                self.deployed.known,
                stored.record.version,
                Some(&private.secrets),
                objects.values(),
            );
        }
        if changed {
            // What is expected of an object is another now: a restart must know.
            let mut stored = if whole { stored } else { self.deployed.records.read_head_whole().await? };
            stored.private = Some(private);
            let stored = self.deployed.records.save(&stored, true).await?;
            self.deployed.records.wrote(&stored);
        }
        self.memory.error = first_error.as_ref().map(|error| self.deployed.secrets.shown(error));
        first_error.map_or(Ok(()), Err)
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
        let id = &suspicion.id;
        let marks = self.live().marks(uid);
        let mut action = DriftAction::Reverted;
        let mut hidden = None;
        if entry.ran.is_some() && self.live().job_is_gone(entry).await? {
            return Ok(Done::InOrder);
        }
        if suspicion.gone {
            // Deleted, or only out of sight for its labels; an object on its way out is awaited.
            match self.scope().cluster.metadata(&entry.api_version, id).await? {
                Some(meta) if meta.deletion_timestamp.is_some() => return Ok(Done::Awaited),
                Some(meta) => hidden = Some((is_hidden(&meta), meta.managed_fields.unwrap_or_default())),
                None => {
                    // A create applies the whole object, because there is no live value to keep, and what it
                    // applies is ours until another field manager takes it again.
                    entry.handed_over.clear();
                    entry.ignored = wishes(rules, object).as_ref().map(of_new).unwrap_or_default();
                    action = DriftAction::Recreated;
                }
            }
        } else {
            let mut taken = left_to_others(&object.body, &suspicion.managed_fields);
            let replicas = |path: &String| path == plan::REPLICAS;
            if !taken.iter().chain(&entry.handed_over).any(replicas)
                && self.live().has_autoscaler(id, &object.body, &suspicion.managed_fields).await?
            {
                taken.push(plan::REPLICAS.to_owned());
            }
            let new: Vec<String> =
                taken.into_iter().filter(|path| !entry.handed_over.contains(path)).collect();
            if !new.is_empty() {
                entry.handed_over.extend(new);
                action = DriftAction::HandedOver;
            }
        }
        if self.only_warns() && hidden.as_ref().is_some_and(|(hidden, _)| *hidden) {
            // Nothing differs that an apply would change, but what else is done to it is not seen.
            return Ok(Done::Acted { action: DriftAction::Reported, taught: false });
        }
        if self.only_warns() {
            let evidence = hidden.as_ref().map_or(&suspicion.managed_fields, |(_, fields)| fields);
            return self.confirm(object, entry, marks, action, rules, evidence).await;
        }
        let ignored_before = entry.ignored.clone();
        let evidence = match &hidden {
            Some((_, fields)) => Some(&fields[..]),
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
        let body = plan::apply_body(object, entry, marks);
        self.scope().ctx.objects.table().begin(id);
        let applied = match self.scope().cluster.apply(&entry.api_version, id, &body, Mode::Real).await {
            Ok(applied) => self.live().strictly(object, entry, rules, &body, applied).await,
            Err(error) => Err(error),
        };
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                self.scope().ctx.objects.table().abandon(id);
                if entry.ran.is_some() && error.is_conflict() {
                    // It went a moment ago.
                    return Ok(Done::Awaited);
                }
                return Err(self.live().unchangeable(object, &body, error).await.into());
            }
        };
        let fingerprint = applied.fingerprint.clone();
        let again = self.scope().ctx.objects.table().applied(id, fingerprint, applied.version, applied.uid());
        if again {
            self.scope().ctx.objects.wake(self.scope().key);
        }
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
