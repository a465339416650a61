//! What rules leave to others: left out of every apply of an object that exists, without a moment at which it is reset;
//! and what `spec.drift.strict` takes away.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::api::{DriftIgnore, DriftMode, IgnoreRule, names};
use crate::cluster::{self, Applied, Mode};
use crate::manifest::managed_fields::Taken;
use crate::manifest::managed_fields::ignore::{Wishes, settle, wishes};
use crate::manifest::{InventoryEntry, Object, ObjectId, managed_fields};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::objects::{Deployed, Objects};
use crate::reconcile::records::parsed::objects_in;
use crate::release::Private;
use crate::storage::Head;

/// How often something is tried while others change the same object.
const TRIES: usize = 5;
const PARALLEL: usize = 8;

/// How an object has to be applied.
#[derive(Default)]
pub(in crate::reconcile) struct Left {
    /// Instead of the manifest's.
    pub object: Option<Object>,
    /// The object of before, if it had to be read.
    pub live: Option<Applied>,
}

impl<'a> Objects<'a> {
    /// The rules in effect: when the spec cannot be read, those that the record was made with.
    pub(in crate::reconcile) fn rules(&self, private: &Private) -> Vec<Arc<IgnoreRule>> {
        match &self.scope.settings.ignore {
            Some(rules) => rules.clone(),
            None => {
                let parsed = private.ignore.iter().filter_map(|rule| IgnoreRule::parse(rule).ok());
                parsed.map(Arc::new).collect()
            }
        }
    }

    /// The rules that the spec and the operator ask for; none when the spec cannot be read.
    pub(in crate::reconcile) fn asked_rules(&self) -> &'a [Arc<IgnoreRule>] {
        self.scope.settings.ignore.as_deref().unwrap_or_default()
    }

    /// The rules in effect, as a record keeps them. `own`: what the newest record of the release says.
    pub(in crate::reconcile) fn written_rules(&self, own: Option<&Private>) -> Vec<DriftIgnore> {
        match &self.scope.settings.ignore {
            Some(rules) => rules.iter().map(|rule| rule.source.clone()).collect(),
            None => own.map(|private| private.ignore.clone()).unwrap_or_default(),
        }
    }

    /// Finds out what the next apply of an object leaves out, and sees to it that nothing is reset by that. `seen` are its
    /// managedFields, if they are known; without them it is read.
    pub(in crate::reconcile) async fn leave_ignored(
        &self,
        object: &Object,
        entry: &mut InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        mut seen: Option<&[ManagedFieldsEntry]>,
    ) -> Result<Left, cluster::Error> {
        let Some(wishes) = wishes(rules, object) else {
            entry.ignored.clear();
            return Ok(Left::default());
        };
        let id = &object.id;
        let mut tries = 0;
        loop {
            tries += 1;
            if let Some(settled) = seen.take().and_then(|fields| settle(object, &wishes, None, fields)) {
                entry.ignored = settled.left_out;
                return Ok(Left::default());
            }
            let Some(live) = self.scope.cluster.get(&object.api_version, id).await? else {
                entry.ignored = of_new(&wishes);
                return Ok(Left::default());
            };
            let settled = settle(object, &wishes, Some(&live.value()), live.managed_fields());
            let settled = settled.unwrap_or_default();
            if let Some(fields) = &settled.hand_over {
                match self.scope.cluster.keep(&object.api_version, id, fields).await {
                    // A field manager sets such a field at this very moment: then it owns the field.
                    Err(error) if error.is_conflict() && tries < TRIES => continue,
                    kept => kept?,
                }
            }
            entry.ignored = settled.left_out;
            let instead = settled.body.map(|body| Object { body, ..object.clone() });
            // A hand-over is a change of the object by ourselves.
            return Ok(Left {
                object: instead.map(|object| unless_written(object, settled.hand_over.is_some())),
                live: Some(live),
            });
        }
    }

    /// The same for all of `objects` that an operation is about to apply; gives what is applied instead.
    pub(in crate::reconcile) async fn leave_all_ignored(
        &self,
        objects: &[&Object],
        private: &mut Private,
    ) -> Result<HashMap<ObjectId, Object>, Error> {
        let rules = self.rules(private);
        let concerned: Vec<&Object> =
            objects.iter().copied().filter(|object| wishes(&rules, object).is_some()).collect();
        if concerned.is_empty() {
            return Ok(HashMap::new());
        }
        let work = concerned.into_iter().filter_map(|object| {
            let mut entry = private.inventory.iter().find(|entry| entry.id == object.id)?.clone();
            let rules = &rules;
            Some(async move {
                let left = self.leave_ignored(object, &mut entry, rules, None).await;
                (entry, left)
            })
        });
        let done: Vec<_> = stream::iter(work.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
        let mut instead = HashMap::new();
        for (entry, left) in done {
            instead.extend(left?.object.map(|object| (entry.id.clone(), object)));
            if let Some(stored) = private.inventory.iter_mut().find(|stored| stored.id == entry.id) {
                stored.ignored = entry.ignored;
            }
        }
        Ok(instead)
    }

    async fn lock_one_again(
        &self,
        object: &Object,
        entry: &mut InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        uid: &str,
    ) -> Result<(), Error> {
        let before = entry.ignored.clone();
        let left = self.leave_ignored(object, entry, rules, None).await?;
        // One that is left to others as a whole is not made again either.
        if entry.ignored == before || entry.ignored.iter().any(String::is_empty) {
            return Ok(());
        }
        if entry.ran.is_some() && self.job_is_gone(entry).await? {
            return Ok(());
        }
        let object = left.object.as_ref().unwrap_or(object);
        let applied = self.apply_one(object, entry, rules, uid).await.1?;
        entry.uid = applied.uid();
        entry.fingerprint = applied.fingerprint;
        Ok(())
    }

    /// Takes away what the managers of `spec.drift.strict` added to an object that was just applied.
    pub(in crate::reconcile) async fn strictly(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        rules: &[Arc<IgnoreRule>],
        body: &Value,
        mut applied: Applied,
    ) -> Result<Applied, cluster::Error> {
        let managers = &self.scope.settings.strict;
        if !self.is_strict(object, entry) {
            return Ok(applied);
        }
        let wishes = wishes(rules, object);
        let (api_version, id) = (&object.api_version, &object.id);
        let mut body = body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        for tries in 1.. {
            let places = managed_fields::places_of_added(
                &applied.value(),
                applied.managed_fields(),
                managers,
                wishes.as_ref(),
                Some(object),
            );
            if places.is_empty() {
                break;
            }
            match self.scope.cluster.take_away(names::MANAGER_OWN, api_version, id, &applied, &places).await {
                // What has come back with the same write is not to be taken away.
                Ok(done) => {
                    applied = done;
                    break;
                }
                Err(error) if error.is_conflict() && tries < TRIES => {
                    applied = self.scope.cluster.apply(api_version, id, &body, Mode::Real).await?;
                }
                Err(error) => return Err(error),
            }
        }
        let fingerprint = applied.fingerprint.take();
        applied.fingerprint = managed_fields::with_additions(fingerprint, applied.managed_fields(), managers);
        Ok(applied)
    }

    /// Who of the managers of `spec.drift.strict` added what to an object, by who holds what of it.
    pub(in crate::reconcile) fn added(
        &self,
        object: &Object,
        rules: &[Arc<IgnoreRule>],
        managed_fields: &[ManagedFieldsEntry],
    ) -> Vec<Taken> {
        let wishes = wishes(rules, object);
        managed_fields::added(managed_fields, &self.scope.settings.strict, wishes.as_ref(), Some(object))
    }

    pub(in crate::reconcile) fn is_strict(&self, object: &Object, entry: &InventoryEntry) -> bool {
        !self.scope.settings.strict.is_empty()
            && !object.id.is_definition()
            && !object.unlocked()
            && !entry.is_open()
    }

    /// Whether a field manager other than its autoscaler changed the replicas of a workload that an autoscaler of the namespace
    /// is there for: then they are the autoscaler's. Costs a read only when the replicas were changed.
    pub(in crate::reconcile) async fn has_autoscaler(
        &self,
        id: &ObjectId,
        body: &Value,
        managed_fields: &[ManagedFieldsEntry],
    ) -> Result<bool, Error> {
        if !plan::lost_replicas(body, managed_fields) {
            return Ok(false);
        }
        Ok(self.scope.cluster.is_scaled(id).await?)
    }
}

impl Deployed<'_> {
    /// Puts back what no rule leaves to others any more.
    pub(in crate::reconcile) async fn lock_again(&mut self) -> Result<(), Error> {
        let (Some(rules), DriftMode::Enabled) =
            (&self.records.scope.settings.ignore, self.records.scope.settings.drift)
        else {
            return Ok(());
        };
        let Some((Head::Ours(head), _)) = &self.records.memory.head else { return Ok(()) };
        let Some(private) = &head.private else { return Ok(()) };
        let same = rules.iter().map(|rule| &rule.source).eq(&private.ignore);
        if same || private.inventory.iter().all(|entry| entry.ignored.is_empty()) {
            return Ok(());
        }
        let rules = rules.clone();
        let mut stored = self.records.read_head_whole().await?;
        let objects: BTreeMap<ObjectId, Object> =
            objects_in(&stored).await?.into_iter().map(|object| (object.id.clone(), object)).collect();
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        let uid = private.owner.uid.clone();
        let (mut changed, mut first_error) = (false, None);
        for entry in private.inventory.iter_mut().filter(|entry| !entry.ignored.is_empty()) {
            let Some(object) = objects.get(&entry.id) else { continue };
            let mut again = entry.clone();
            match self.objects().lock_one_again(object, &mut again, &rules, &uid).await {
                Ok(()) => {
                    changed |= *entry != again;
                    *entry = again;
                }
                // The others are locked nevertheless; this one is tried again with the next pass.
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if first_error.is_some() {
            self.secrets.recall(self.known, stored.record.version, Some(&private.secrets), objects.values());
        } else {
            private.ignore = rules.iter().map(|rule| rule.source.clone()).collect();
        }
        if changed || first_error.is_none() {
            let stored = self.records.save(&stored, true).await?;
            self.records.wrote(&stored);
        }
        first_error.map_or(Ok(()), Err)
    }
}

/// What is remembered of an object that is created: as a whole, because there is no live value to keep.
pub(in crate::reconcile) fn of_new(wishes: &Wishes<'_>) -> Vec<String> {
    if wishes.whole { vec![String::new()] } else { Vec::new() }
}

/// The resourceVersion that was read does not hold any more after a write of our own.
fn unless_written(mut object: Object, written: bool) -> Object {
    if let Some(metadata) = object.body.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| written)
    {
        metadata.remove("resourceVersion");
    }
    object
}
