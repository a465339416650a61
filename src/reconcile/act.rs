//! Carries out an install or upgrade: record, apply, wait, prune, record.
//!
//! Every step may be repeated: applies are idempotent, deletes carry the uid. A wait returns and is woken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;

use super::memory::{Ailing, Running, Stage, Waiting};
use super::prepare::Prepared;
use super::status::{self, Finished, Progress, Run};
use super::{Error, Pass};
use crate::api::{self, Adopt, Class, names, reasons};
use crate::cluster::{self, Applied, Holder, Mode};
use crate::health::{self, Status};
use crate::manifest::{InventoryEntry, Object, ObjectId};
use crate::plan;
use crate::release::{Action, Private, State};
use crate::storage::{self, Head, Records, SecretRecords, Stored};

/// Applies in flight for one release.
const PARALLEL: usize = 8;
/// A health rule that says "failed" must say so for this long: some failures pass when a dependency arrives.
const FAILED_FOR: Duration = Duration::from_secs(10);
/// Two looks at the same waiting objects are at least this far apart.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A lost watch event must not make a release wait for ever.
const LOOK_ANYWAY: Duration = Duration::from_secs(15);

impl Pass<'_> {
    /// Stores the pending revision and begins to act on it.
    pub(super) async fn begin(&mut self, prepared: Prepared) -> Result<Progress, Error> {
        let Prepared { record, mut private, objects } = prepared;
        self.check_ownership(&objects, &private).await?;
        self.respect_takers(&objects, &mut private).await?;
        let before = self.mem.head.take();
        let stored = match self.records().create(&record, &private).await {
            Ok(stored) => stored,
            Err(error) => {
                // A clear refusal stored nothing: what is known of the newest record still holds.
                self.mem.head = before.filter(|_| error.class() != Class::Retry);
                return Err(error.into());
            }
        };
        if let Some((Head::Ours(old), _)) = &before
            && old.record.state != State::Deployed
        {
            // A failed revision is not rewritten any more: this is where it stops being the head.
            self.records().set_head(old, false).await?;
        }
        self.wrote(&stored);
        let deadline = self.now.checked_add(self.settings.timeout).unwrap_or(Timestamp::MAX);
        self.mem.running =
            Some(Running { stored, objects, deadline, started: self.now, stage: Stage::start() });
        self.advance().await
    }

    /// Goes on with our own pending record from what it says.
    pub(super) async fn resume(&mut self) -> Result<Progress, Error> {
        if self.mem.running.is_none() {
            let stored = self.read_head_whole().await?;
            let objects = super::prepare::stored_objects(&stored.record)?;
            // The deadline counts from here: the time that nobody worked on the operation is not its fault.
            let deadline = self.now.checked_add(self.settings.timeout).unwrap_or(Timestamp::MAX);
            self.mem.running =
                Some(Running { stored, objects, deadline, started: self.now, stage: Stage::start() });
        }
        self.advance().await
    }

    async fn advance(&mut self) -> Result<Progress, Error> {
        // Taken out for the time of the step; put back unless the operation ended.
        let Some(mut running) = self.mem.running.take() else { return Ok(Progress::Nothing) };
        let step = self.step(&mut running).await;
        match step {
            Ok(Step::Done) => self.finish(running).await,
            Ok(Step::Wait { until }) => {
                let waiting = match &running.stage {
                    Stage::Wait { waiting, .. } => waiting.clone(),
                    Stage::Apply { .. } => BTreeMap::new(),
                };
                let progress = Progress::Running(Run {
                    started: running.started,
                    deadline: running.deadline,
                    action: private(&running.stored).map_or(Action::Install, |private| private.action),
                    revision: running.stored.record.version,
                    attempt: private(&running.stored).map_or(1, |private| private.attempt),
                    waiting,
                    until,
                });
                self.mem.running = Some(running);
                Ok(progress)
            }
            Ok(Step::Failed { reason, message }) => self.fail(running, reason, message).await,
            Err(error) if error.class() != Class::Retry => {
                let (reason, message) = (error.reason(), error.to_string());
                self.fail(running, reason, message).await
            }
            Err(error) if self.now >= running.deadline => {
                let message =
                    format!("{error}; gave up after {}", crate::api::duration::format(self.settings.timeout));
                self.fail(running, error.reason(), message).await
            }
            Err(error) => {
                self.mem.running = Some(running);
                Err(error)
            }
        }
    }

    async fn step(&mut self, running: &mut Running) -> Result<Step, Error> {
        if let Stage::Apply { applied } = &mut running.stage {
            let mut applied = std::mem::take(applied);
            let result = self.apply_all(&running.objects, &mut running.stored, &mut applied).await;
            if let Err(error) = result {
                running.stage = Stage::Apply { applied };
                return Err(error);
            }
            let waiting =
                if self.settings.wait { self.unhealthy(&running.objects, &applied) } else { BTreeMap::new() };
            self.wake_on(&waiting);
            running.stage = Stage::Wait { waiting, looked_at: self.now };
        }
        let Stage::Wait { waiting, looked_at } = &mut running.stage else { return Ok(Step::Done) };
        if bearable(waiting) {
            return Ok(Step::Done);
        }
        let due = looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        if *looked_at < self.now && self.now < due {
            return Ok(Step::Wait { until: due });
        }
        if *looked_at < self.now {
            *looked_at = self.now;
            self.look_again(waiting).await?;
        }
        if bearable(waiting) {
            self.wake_on(&BTreeMap::new());
            return Ok(Step::Done);
        }
        Ok(self.judge(waiting, running.deadline))
    }

    /// Decides from the health of the waiting objects alone.
    fn judge(&self, waiting: &BTreeMap<ObjectId, Waiting>, deadline: Timestamp) -> Step {
        let lasting = |object: &&Waiting| {
            let since = object.failed_since.and_then(|since| since.checked_add(FAILED_FOR).ok());
            since.is_some_and(|at| at <= self.now)
        };
        if let Some((id, object)) = waiting.iter().find(|(_, object)| lasting(object)) {
            return Step::Failed { reason: reasons::HEALTH_FAILED, message: describe(id, object) };
        }
        if self.now >= deadline {
            let first = waiting.iter().next().map(|(id, object)| describe(id, object)).unwrap_or_default();
            let others = waiting.len().saturating_sub(1);
            let more = if others == 0 { String::new() } else { format!(" (and {others} more)") };
            let message = format!(
                "not healthy within {}: {first}{more}",
                crate::api::duration::format(self.settings.timeout)
            );
            return Step::Failed { reason: reasons::HEALTH_TIMEOUT, message };
        }
        let stable =
            waiting.values().filter_map(|object| object.failed_since?.checked_add(FAILED_FOR).ok()).min();
        let recheck =
            waiting.values().filter_map(|object| self.now.checked_add(object.health.recheck_in?).ok()).min();
        let anyway = self.now.checked_add(LOOK_ANYWAY).unwrap_or(Timestamp::MAX);
        let until = [Some(deadline), stable, recheck].into_iter().flatten().fold(anyway, Timestamp::min);
        Step::Wait { until }
    }

    /// Applies what is not in `applied` yet: after an error only the rest is tried again.
    async fn apply_all(
        &mut self,
        objects: &[Object],
        stored: &mut Stored,
        applied: &mut HashMap<ObjectId, Applied>,
    ) -> Result<(), Error> {
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        self.watch(&private.inventory).await?;
        self.hand_over_replicas(objects, private).await?;
        let entries: HashMap<ObjectId, InventoryEntry> =
            private.inventory.iter().map(|entry| (entry.id.clone(), entry.clone())).collect();
        let uid = private.owner.uid.clone();
        for group in plan::groups(objects) {
            let calls = group.iter().filter_map(|index| {
                let object = &objects[*index];
                let entry = entries.get(&object.id).filter(|_| !applied.contains_key(&object.id))?;
                Some(self.apply_one(object, entry, &uid))
            });
            let results: Vec<_> =
                stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
            // The whole group is tried, so that one bad object hides no other; the first error by id is reported.
            let mut failures = BTreeMap::new();
            for (id, result) in results {
                match result {
                    Ok(done) => {
                        // Something works: an error after it is a first one again.
                        self.mem.errors = 0;
                        applied.insert(id, done);
                    }
                    Err(error) => drop(failures.insert(id, error)),
                }
            }
            if let Some((_, error)) = failures.pop_first() {
                return Err(error.into());
            }
        }
        for entry in &mut private.inventory {
            if let Some(done) = applied.get(&entry.id) {
                entry.uid = done.uid();
                entry.fingerprint.clone_from(&done.fingerprint);
            }
        }
        Ok(())
    }

    async fn apply_one(
        &self,
        object: &Object,
        entry: &InventoryEntry,
        uid: &str,
    ) -> (ObjectId, Result<Applied, cluster::Error>) {
        let marks = plan::Marks {
            release_name: &self.settings.release_name,
            release_namespace: &self.key.namespace,
            uid,
        };
        let body = plan::apply_body(object, entry, marks);
        let id = &object.id;
        self.ctx.objects.table().begin(id);
        let mut result = self.ctx.cluster.apply(&object.api_version, id, &body, Mode::Real).await;
        if let Ok(applied) = &result
            && self.settings.adopt == Adopt::Unowned
        {
            match self.ctx.cluster.strip_managers(&object.api_version, id, applied).await {
                Ok(stripped) => result = Ok(stripped),
                Err(error) => result = Err(error),
            }
        }
        match &mut result {
            Ok(applied) => {
                if object.unlocked() {
                    // Without an expectation nothing that is seen of it is drift.
                    applied.fingerprint = None;
                }
                let fingerprint = applied.fingerprint.clone();
                let again = self.ctx.objects.table().applied(id, fingerprint, applied.version, applied.uid());
                if again {
                    self.ctx.objects.wake(&self.key);
                }
            }
            Err(_) => self.ctx.objects.table().abandon(id),
        }
        (id.clone(), result)
    }

    /// Watches every kind of `inventory` and tracks every object of it.
    pub(super) async fn watch(&mut self, inventory: &[InventoryEntry]) -> Result<(), Error> {
        for entry in inventory {
            let owner = self.ctx.objects.table().track(&self.key, &entry.id);
            if let Err(owner) = owner {
                let holder = Holder::Release(owner.to_string());
                return Err(cluster::Error::NotOwned { id: entry.id.clone(), holder }.into());
            }
        }
        let kinds: BTreeSet<(&str, &str)> =
            inventory.iter().map(|entry| (entry.api_version.as_str(), entry.id.kind.as_str())).collect();
        for (api_version, kind) in kinds {
            let kind = self.ctx.cluster.kind(api_version, kind).await?;
            self.ctx.objects.ensure(&kind, &self.key).await?;
        }
        Ok(())
    }

    /// Refuses to touch an object that exists and is somebody else's. Only objects that no earlier revision
    /// applied cost a call, and those that this very line of revisions marked pass.
    async fn check_ownership(&self, objects: &[Object], private: &Private) -> Result<(), Error> {
        let known: BTreeSet<&ObjectId> =
            private.inventory.iter().filter(|entry| entry.uid.is_some()).map(|entry| &entry.id).collect();
        let checks = objects.iter().filter(|object| !known.contains(&object.id)).map(|object| async move {
            let meta = self.ctx.cluster.metadata(&object.api_version, &object.id).await?;
            Ok::<_, cluster::Error>(meta.map(|meta| (object, meta)))
        });
        let found: Vec<_> = stream::iter(checks.collect::<Vec<_>>()).buffered(PARALLEL).collect().await;
        for result in found {
            let Some((object, meta)) = result? else { continue };
            let id = &object.id;
            if meta.deletion_timestamp.is_some() {
                return Err(cluster::Error::Terminating { id: id.clone() }.into());
            }
            let marked_by = plan::marked_by(meta.annotations.as_ref());
            if marked_by == Some(private.owner.uid.as_str()) {
                continue;
            }
            let living = marked_by.and_then(|uid| self.ctx.living(uid));
            match living {
                Some(owner) => {
                    let holder = Holder::Release(owner.to_string());
                    return Err(cluster::Error::NotOwned { id: id.clone(), holder }.into());
                }
                None if self.settings.adopt == Adopt::Unowned => {}
                None => {
                    let helm = meta.annotations.as_ref().and_then(|all| all.get("meta.helm.sh/release-name"));
                    let holder = helm.map_or(Holder::Unknown, |name| Holder::Helm(name.clone()));
                    return Err(cluster::Error::NotOwned { id: id.clone(), holder }.into());
                }
            }
        }
        Ok(())
    }

    fn unhealthy(
        &self,
        objects: &[Object],
        applied: &HashMap<ObjectId, Applied>,
    ) -> BTreeMap<ObjectId, Waiting> {
        let mut waiting = BTreeMap::new();
        for object in objects {
            let Some(done) = applied.get(&object.id) else { continue };
            let health = health::assess(&done.value(), done.generation(), self.now);
            if !settled(health.status) {
                let failed_since = health.terminal.then_some(self.now);
                let entry = Waiting {
                    api_version: object.api_version.clone(),
                    generation: done.generation(),
                    health,
                    since: self.now,
                    failed_since,
                };
                waiting.insert(object.id.clone(), entry);
            }
        }
        waiting
    }

    pub(super) async fn look_again(&self, waiting: &mut BTreeMap<ObjectId, Waiting>) -> Result<(), Error> {
        let looks = waiting.iter().map(|(id, object)| async move {
            (id.clone(), self.ctx.cluster.get(&object.api_version, id).await)
        });
        let seen: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
        for (id, live) in seen {
            let Some(live) = live? else {
                if let Some(object) = waiting.get_mut(&id) {
                    "the object was deleted while it was waited for".clone_into(&mut object.health.message);
                    object.health.status = Status::Failed;
                    object.health.terminal = true;
                    object.failed_since.get_or_insert(self.now);
                }
                continue;
            };
            let Some(object) = waiting.get_mut(&id) else { continue };
            let health = health::assess(&live.value(), object.generation, self.now);
            if settled(health.status) {
                waiting.remove(&id);
                continue;
            }
            object.failed_since = if health.terminal { object.failed_since.or(Some(self.now)) } else { None };
            object.health = health;
        }
        Ok(())
    }

    pub(super) fn wake_on(&self, waiting: &BTreeMap<ObjectId, Waiting>) {
        let ids: BTreeSet<ObjectId> = waiting.keys().cloned().collect();
        self.ctx.objects.table().wake_on(&self.key, &ids);
    }

    async fn finish(&mut self, mut running: Running) -> Result<Progress, Error> {
        let result = self.prune(&mut running).await;
        if let Err(error) = result {
            // The objects are applied and healthy; what could not be pruned is tried again until the deadline.
            if error.class() == Class::Retry && self.now < running.deadline {
                self.mem.running = Some(running);
                return Err(error);
            }
            let (reason, message) = (error.reason(), error.to_string());
            return self.fail(running, reason, message).await;
        }
        let Running { mut stored, started, stage, .. } = running;
        let ailing = match &stage {
            Stage::Wait { waiting, .. } => waiting.iter().next().map(|(id, object)| describe(id, object)),
            Stage::Apply { .. } => None,
        };
        let last_deployed = private(&stored).and_then(|private| private.last_deployed);
        let action = private(&stored).map_or(Action::Install, |private| private.action);
        stored.record.state = State::Deployed;
        stored.record.updated_at = self.now;
        if let Some(private) = stored.private.as_mut() {
            private.last_deployed = Some(stored.record.version);
            private.operation = None;
        }
        let stored = self.save(&stored, true).await?;
        self.wrote(&stored);
        self.mem.expected_of = Some(stored.record.version);
        self.release_unused_kinds(&stored);
        self.ctx.report.operation(&self.key, action, "success", since(started));
        self.conclude(&stored, last_deployed, ailing).await
    }

    pub(super) async fn fail(
        &mut self,
        running: Running,
        reason: &'static str,
        message: String,
    ) -> Result<Progress, Error> {
        let Running { mut stored, started, stage, .. } = running;
        let waiting = match stage {
            Stage::Wait { waiting, .. } => waiting,
            Stage::Apply { .. } => BTreeMap::new(),
        };
        self.wake_on(&waiting);
        let action = private(&stored).map_or(Action::Install, |private| private.action);
        let revision = stored.record.version;
        stored.record.state =
            State::Failed { reason: format!("{reason}: {message}"), recoverable: true, failed_at: self.now };
        stored.record.updated_at = self.now;
        let stored = self.save(&stored, true).await?;
        self.wrote(&stored);
        self.mem.ailing = Some(Ailing { revision, waiting, looked_at: self.now, look_at: None });
        let (manifest_digest, values_digest) = status::digests(&stored);
        self.ctx.report.operation(&self.key, action, "failure", since(started));
        let failure = Some((reason, message));
        let ailing = None;
        Ok(Progress::Finished(Finished { action, revision, failure, ailing, manifest_digest, values_digest }))
    }

    /// Writes a changed record. When somebody else wrote it first, whatever we know of it is worthless.
    pub(super) async fn save(&mut self, stored: &Stored, head: bool) -> Result<Stored, Error> {
        let written = self.records().update(stored, &stored.record, stored.private.as_ref(), head).await;
        if written.is_err() {
            self.mem.head = None;
            self.mem.running = None;
        }
        Ok(written?)
    }

    /// The driver, writing as this release wants its records written.
    pub(super) fn records(&self) -> SecretRecords {
        let compression = match self.settings.compression {
            api::Compression::Zstd => storage::Compression::Zstd,
            api::Compression::Gzip => storage::Compression::Gzip,
            api::Compression::None => storage::Compression::None,
        };
        self.ctx.records.clone().compressing(compression)
    }

    /// Deletes what this revision no longer wants: only what an inventory of ours records, what still carries our
    /// marker, and what is not to be kept.
    async fn prune(&self, running: &mut Running) -> Result<(), Error> {
        let Some(private) = running.stored.private.as_mut() else { return Ok(()) };
        let wanted: BTreeSet<String> =
            private.inventory.iter().filter_map(|entry| entry.uid.clone()).collect();
        for entry in plan::deletion_order(std::mem::take(&mut private.leftovers)) {
            // One object under two groups (an Ingress of old) is still wanted under the new one.
            if entry.uid.as_ref().is_some_and(|uid| wanted.contains(uid)) {
                self.ctx.objects.table().forget(&self.key, &entry.id);
                continue;
            }
            if let Err(error) = self.delete_ours(&entry, &private.owner.uid).await {
                private.leftovers.push(entry);
                return Err(error);
            }
            self.ctx.objects.table().forget(&self.key, &entry.id);
        }
        Ok(())
    }

    /// Deletes one object if it is still ours and not to be kept. `true`: it was there and is now going.
    pub(super) async fn delete_ours(&self, entry: &InventoryEntry, uid: &str) -> Result<bool, Error> {
        let found = match self.ctx.cluster.metadata(&entry.api_version, &entry.id).await {
            Ok(found) => found,
            // Without its kind the object cannot exist.
            Err(cluster::Error::UnknownKind { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(meta) = found else { return Ok(false) };
        let annotation =
            |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let keep = [names::RESOURCE_POLICY, names::HELM_RESOURCE_POLICY]
            .iter()
            .any(|key| annotation(key) == Some(names::KEEP));
        if entry.keep || keep || !plan::is_marked(meta.annotations.as_ref(), uid) {
            return Ok(false);
        }
        let Some(object_uid) = &meta.uid else { return Ok(false) };
        if meta.deletion_timestamp.is_some() {
            return Ok(true);
        }
        Ok(self.ctx.cluster.delete(&entry.api_version, &entry.id, object_uid).await?)
    }

    fn release_unused_kinds(&self, stored: &Stored) {
        let inventory = stored.private.iter().flat_map(|private| &private.inventory);
        let kinds = inventory.map(|entry| (entry.id.group.clone(), entry.id.kind.clone())).collect();
        self.ctx.objects.retain_kinds(&self.key, &kinds);
    }

    /// Remembers a record that we wrote, without its bulk.
    pub(super) fn wrote(&mut self, stored: &Stored) {
        let version = stored.resource_version.parse().unwrap_or(0);
        let of = self.records_of();
        self.mem.errors = 0;
        self.ctx.record_watch.wrote(&of, stored.record.version, version);
        let newest = crate::watch::Newest::At { revision: stored.record.version, version };
        self.mem.head = Some((Head::Ours(Box::new(slim(stored.clone()))), newest));
    }
}

/// A record without manifest and values: what stays in memory.
pub(super) fn slim(mut stored: Stored) -> Stored {
    stored.record.manifest = String::new();
    stored.record.values = serde_json::Value::Null;
    stored.record.notes = None;
    stored
}

fn private(stored: &Stored) -> Option<&Private> {
    stored.private.as_ref()
}

/// Done waiting: healthy, or suspended on purpose.
/// Nothing is left that an operation waits for: what is not healthy hinders nobody and is only told.
pub(super) fn bearable(waiting: &BTreeMap<ObjectId, Waiting>) -> bool {
    waiting.values().all(|object| object.health.status == Status::Failed && !object.health.terminal)
}

fn describe(id: &ObjectId, object: &Waiting) -> String {
    format!("{id}: {}", object.health.message)
}

fn settled(status: Status) -> bool {
    matches!(status, Status::Current | Status::Suspended)
}

/// How long an operation took; the clock of the pass is too coarse for one that began in it.
fn since(started: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(started)).unwrap_or_default()
}

enum Step {
    Done,
    Wait { until: Timestamp },
    Failed { reason: &'static str, message: String },
}
