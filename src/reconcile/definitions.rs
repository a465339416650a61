//! CustomResourceDefinitions of a pack: judged before anything is stored, applied before all else, awaited until served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::memory::{Running, Stage, Waiting};
use super::steps::Step;
use super::wait::{LOOK_AGAIN, bearable, describe};
use super::{Error, Pass};
use crate::api::{Adopt, CrdUpgrade, duration, reasons};
use crate::cluster::{self, Holder, Mode};
use crate::crd::policy::{self, Count, Fate, Policy};
use crate::crd::{self, Severity};
use crate::manifest::{Defined, InventoryEntry, Object, ObjectId};
use crate::pack::DefinitionWishes;
use crate::plan;
use crate::plan::definitions::{self, Author, Writer, writer};
use crate::release::{ReleaseKey, Shipped};
use crate::storage::{Head, Stored};

/// How long what a definition defines is waited for.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// Changes that a record and a status name of one definition.
const CHANGES: usize = 20;

/// A definition that a pack ships.
pub(super) struct Candidate {
    pub object: Object,
    /// It stands in a template, and so in the manifest.
    pub in_manifest: bool,
    pub wishes: DefinitionWishes,
}

/// What is done about the definitions of a pack.
#[derive(Default)]
pub(super) struct Judged {
    /// Those that are applied.
    pub objects: Vec<Object>,
    /// All of them.
    pub shipped: Vec<Shipped>,
}

/// A change that is not made unasked.
#[derive(Clone, Debug)]
pub struct Stopped {
    pub name: String,
    pub policy: Policy,
    pub verdict: Severity,
    /// The worst first.
    pub changes: Vec<String>,
    /// `NAME@DIGEST`; unset when nothing lets it through.
    pub token: Option<String>,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.name)?;
        let shown: Vec<&str> = self.changes.iter().take(3).map(String::as_str).collect();
        f.write_str(&shown.join("; "))?;
        match self.changes.len().saturating_sub(shown.len()) {
            0 => {}
            more => write!(f, "; and {more} more")?,
        }
        match &self.token {
            Some(token) => write!(f, " (confirm with {token})"),
            None => f.write_str(" (the API server refuses this)"),
        }
    }
}

/// How one definition came out.
enum Verdict {
    Ships(Box<Shipped>, Option<Object>),
    Stopped(Stopped),
}

impl Pass<'_> {
    /// Decides for each definition whether it is written, before anything of the revision is stored or touched.
    ///
    /// `uid` is that of this line of revisions. With `lenient` a change that is not made unasked is left out instead of
    /// standing in the way: a failed upgrade has to be undone even if its definitions cannot be.
    pub(super) async fn judge_definitions(
        &self,
        candidates: Vec<Candidate>,
        uid: &str,
        lenient: bool,
    ) -> Result<Judged, Error> {
        let mut judged = Judged::default();
        let mut stopped = Vec::new();
        for candidate in candidates.into_iter().filter(|candidate| !candidate.wishes.left_out) {
            match self.judge_definition(candidate, uid, lenient).await? {
                Verdict::Ships(shipped, object) => {
                    judged.objects.extend(object);
                    judged.shipped.push(*shipped);
                }
                Verdict::Stopped(one) => stopped.push(one),
            }
        }
        if stopped.is_empty() { Ok(judged) } else { Err(Error::CrdBreakingChange { stopped }) }
    }

    async fn judge_definition(
        &self,
        candidate: Candidate,
        uid: &str,
        lenient: bool,
    ) -> Result<Verdict, Error> {
        let Candidate { object, in_manifest, wishes } = candidate;
        let new = crd::Definition::from_value(&object.body)?;
        let policy = definitions::policy(&object)?;
        let settings = &self.settings.crds;
        let waits = settings.wait_ready.or(wishes.wait_ready).unwrap_or(true);
        let wait = settings.wait_timeout.or(wishes.wait_timeout).unwrap_or(SERVED_WITHIN);
        let mut shipped = Shipped {
            name: object.id.name.clone(),
            policy,
            written: false,
            body: None,
            webhook_later: false,
            wait: waits.then_some(wait.as_secs().max(1)),
            goes: wishes.keep == Some(false) && self.ctx.policy.trust_pack_crds,
            deleted: false,
            writer: None,
            verdict: None,
            changes: Vec::new(),
            forced: false,
        };
        let left = |mut shipped: Shipped, why: String| {
            shipped.verdict = Some(why);
            Ok(Verdict::Ships(Box::new(shipped), None))
        };
        if policy == Policy::External {
            return left(shipped, "External".to_owned());
        }
        let live = self.cluster.get(&object.api_version, &object.id).await?;
        let Some(live) = live else {
            if !settings.install.or(wishes.install).unwrap_or(true) {
                return left(shipped, "NotInstalled".to_owned());
            }
            self.try_definition(&object).await?;
            shipped.webhook_later = has_webhook(&object.body);
            return Ok(written(shipped, object, in_manifest));
        };
        if live.live.metadata.deletion_timestamp.is_some() {
            return Err(cluster::Error::Terminating { id: object.id }.into());
        }
        let body = live.value();
        let adopt = self.settings.adopt == Adopt::Unowned;
        let live_policy = Policy::of(&body).unwrap_or_default();
        match writer(policy, live_policy, self.author(&live.live.metadata.annotations, uid), adopt) {
            Writer::Us => {}
            Writer::Another(by) => {
                // For when it is this one's turn.
                shipped.body = (policy == Policy::Shared).then_some(object.body);
                shipped.writer.clone_from(&by);
                return left(shipped, by.map_or_else(|| "Kept".to_owned(), |by| format!("WrittenBy {by}")));
            }
            Writer::Conflict(owner) => {
                return Err(Error::OwnershipConflict { name: object.id.name, owner });
            }
            Writer::NotOwned(helm) => {
                let holder = helm.map_or(Holder::Unknown, Holder::Helm);
                return Err(cluster::Error::NotOwned { id: object.id, holder }.into());
            }
        }
        let from_pack = wishes.upgrade.map(|wish| match wish {
            // A pack can make a release stricter, but not laxer.
            CrdUpgrade::Force if !self.ctx.policy.trust_pack_crds => CrdUpgrade::Safe,
            wish => wish,
        });
        let strategy = settings.upgrade.or(from_pack).unwrap_or_default();
        if strategy == CrdUpgrade::Skip {
            return left(shipped, "Skipped".to_owned());
        }
        let old = crd::Definition::from_value(&body)?;
        let analysis = crd::analyze(&old, &new);
        if analysis.changes.is_empty() {
            return Ok(written(shipped, object, in_manifest));
        }
        let analysis = self.weigh((&old, &new), &body, analysis)?;
        let verdict = analysis.verdict();
        for severity in [Severity::Safe, Severity::Warning, Severity::Dangerous, Severity::Blocked] {
            let count = analysis.of(severity).count();
            if count > 0 {
                self.ctx.report.definition_changes(&self.key, severity.name(), count);
            }
        }
        let mut changes: Vec<&crd::Change> = analysis.changes.iter().collect();
        changes.sort_by_key(|change| std::cmp::Reverse(change.severity));
        let changes: Vec<String> = changes
            .into_iter()
            .take(CHANGES)
            .map(|change| format!("{}: {}: {}", change.severity, change.path, change.message))
            .collect();
        shipped.verdict = Some(verdict.to_string());
        shipped.changes.clone_from(&changes);
        if crd::strategy::step(strategy, verdict, || crd::token(&old, &new), &settings.confirm_changes)
            == crd::strategy::Step::Stop
        {
            if lenient {
                return left(shipped, format!("Kept: {verdict}"));
            }
            let token = (verdict != Severity::Blocked).then(|| crd::token(&old, &new));
            let name = object.id.name;
            return Ok(Verdict::Stopped(Stopped { name, policy, verdict, changes, token }));
        }
        self.try_definition(&object).await?;
        let confirmed = settings.confirm_changes.contains(&crd::token(&old, &new));
        shipped.forced = verdict == Severity::Dangerous && !confirmed;
        Ok(written(shipped, object, in_manifest))
    }

    /// Whether the API server would take it.
    async fn try_definition(&self, object: &Object) -> Result<(), Error> {
        self.cluster.apply(&object.api_version, &object.id, &object.body, Mode::DryRun).await?;
        Ok(())
    }

    /// Who wrote a live definition.
    fn author(&self, annotations: &Option<BTreeMap<String, String>>, uid: &str) -> Author {
        definitions::author(annotations.as_ref(), |by| match self.ctx.living(by) {
            _ if by == uid => Author::Us,
            Some(owner) if owner == self.key => Author::Us,
            Some(owner) => Author::Release(owner.to_string()),
            None => Author::Departed,
        })
    }

    /// Applies definitions: without the webhook of a new one, or with `conversion` with it.
    pub(super) async fn define_step(
        &mut self,
        running: &mut Running,
        definitions: &[usize],
        conversion: bool,
    ) -> Result<Step, Error> {
        let mut held_back: Vec<ObjectId> = Vec::new();
        if let Some(private) = running.stored.private.as_mut()
            && !conversion
        {
            for entry in &mut private.inventory {
                if running.parts.webhooks_later.contains(&entry.id) {
                    entry.handed_over.push(CONVERSION.to_owned());
                    held_back.push(entry.id.clone());
                }
            }
        }
        if conversion {
            // What was applied without is applied again.
            for index in definitions {
                running.applied.remove(&running.parts.objects[*index].id);
            }
        }
        let result = self.apply_rounds(running, &[definitions.to_vec()]).await;
        if let Some(private) = running.stored.private.as_mut() {
            for entry in private.inventory.iter_mut().filter(|entry| held_back.contains(&entry.id)) {
                entry.handed_over.retain(|pointer| pointer != CONVERSION);
            }
        }
        result
    }

    /// Waits until what was applied is established, and discovery tells of it.
    pub(super) async fn served_step(
        &mut self,
        running: &mut Running,
        definitions: &[usize],
    ) -> Result<Step, Error> {
        let shipped = running.stored.private.iter().flat_map(|private| &private.definitions);
        let waits: BTreeMap<&str, u64> =
            shipped.filter_map(|shipped| Some((&*shipped.name, shipped.wait?))).collect();
        let Some(longest) = waits.values().max().copied() else { return Ok(Step::Done) };
        let objects: Vec<Object> = definitions
            .iter()
            .map(|index| &running.parts.objects[*index])
            .filter(|object| waits.contains_key(&*object.id.name))
            .cloned()
            .collect();
        if !matches!(running.stage, Stage::Wait { .. }) {
            let waiting: BTreeMap<ObjectId, Waiting> = {
                let refs: Vec<&Object> = objects.iter().collect();
                let revision = running.stored.record.version;
                let mut waiting = self.unhealthy(&refs, &running.applied, revision);
                for object in objects.iter().filter(|object| !running.applied.contains_key(&object.id)) {
                    let unseen = Waiting::unseen(&object.api_version, "has not been looked at yet", self.now);
                    waiting.insert(object.id.clone(), unseen);
                }
                waiting
            };
            self.wake_on(&waiting);
            let deadline = self.later(Duration::from_secs(longest));
            running.stage = Stage::Wait { waiting, looked_at: Timestamp::MIN, deadline };
        }
        let Stage::Wait { waiting, looked_at, deadline } = &mut running.stage else { return Ok(Step::Done) };
        let deadline = running.deadline.min(*deadline);
        let due = looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MIN);
        if !waiting.is_empty() {
            if self.now < due {
                return Ok(Step::Wait { until: due });
            }
            *looked_at = self.now;
            self.look_again(waiting).await?;
        }
        if !bearable(waiting) {
            if self.now >= deadline {
                let first = waiting.iter().next().map(|(id, one)| describe(id, one)).unwrap_or_default();
                return Ok(not_ready(&first, longest));
            }
            let until = deadline.min(self.later(super::wait::LOOK_ANYWAY));
            return Ok(Step::Wait { until });
        }
        if let Some(missing) = self.not_served(&objects).await? {
            if self.now >= deadline {
                return Ok(not_ready(&format!("discovery does not tell of {missing}"), longest));
            }
            return Ok(Step::Wait { until: self.later(LOOK_AGAIN) });
        }
        self.wake_on(&BTreeMap::new());
        Ok(Step::Done)
    }

    /// The first kind that is defined and not served yet.
    async fn not_served(&self, objects: &[Object]) -> Result<Option<String>, Error> {
        for defined in objects.iter().filter_map(|object| Defined::of(&object.body)) {
            for version in &defined.versions {
                let api_version = format!("{}/{version}", defined.group);
                // What was believed absent a moment ago may be there now.
                self.cluster.doubt_absence(&api_version, &defined.kind);
                match self.cluster.kind(&api_version, &defined.kind).await {
                    Ok(_) => {}
                    Err(cluster::Error::UnknownKind { .. }) => {
                        return Ok(Some(format!("{api_version} {}", defined.kind)));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(None)
    }

    /// Which definitions go with the release; refuses while objects would go along that nobody agreed to lose.
    pub(super) async fn judge_deletion(&self, shipped: &mut [Shipped]) -> Result<(), Error> {
        let mut blocked = Vec::new();
        for one in shipped.iter_mut() {
            let goes = one.goes_with_release(self.settings.crds.on_uninstall);
            one.deleted = false;
            let fate = self.fate_of(one, goes).await;
            match fate {
                Fate::Delete => one.deleted = true,
                Fate::Keep(_) => {}
                Fate::Blocked(why) => blocked.push(why),
            }
        }
        if blocked.is_empty() { Ok(()) } else { Err(Error::CrdDeletionBlocked { blocked }) }
    }

    /// What becomes of a definition with the release. Objects are counted only when that decides anything.
    async fn fate_of(&self, shipped: &Shipped, goes: bool) -> Fate {
        let confirmed = &self.settings.crds.confirm_deletion;
        let counts = goes && shipped.written && !confirmed.contains(&shipped.name);
        let count = if counts {
            self.cluster.count_for_deletion(&shipped.name).await
        } else {
            Count::Known(Vec::new())
        };
        policy::fate(&shipped.leaving(goes, &count, confirmed))
    }

    /// Deletes definitions, after a last look at what would go along.
    pub(super) async fn undefine_step(
        &mut self,
        running: &mut Running,
        entries: &[InventoryEntry],
    ) -> Result<Step, Error> {
        if self.mem.going.is_none() {
            let mut blocked = Vec::new();
            let shipped = running.stored.private.iter().flat_map(|private| &private.definitions);
            let leaving = |shipped: &&Shipped| entries.iter().any(|entry| entry.id.name == shipped.name);
            for one in shipped.filter(leaving) {
                if let Fate::Blocked(why) = self.fate_of(one, true).await {
                    blocked.push(why);
                }
            }
            if !blocked.is_empty() {
                return Err(Error::CrdDeletionBlocked { blocked });
            }
        }
        self.delete_step(running, entries).await
    }

    /// A kind that is served, or will be once the definitions of this revision are applied: whether it has a namespace, and
    /// its plural.
    pub(super) async fn kind_to_be(
        &self,
        api_version: &str,
        kind: &str,
        objects: &[Object],
    ) -> Result<(bool, String), Error> {
        match self.cluster.kind(api_version, kind).await {
            Ok(found) => Ok((found.namespaced, found.resource.plural)),
            Err(error @ cluster::Error::UnknownKind { .. }) => {
                let defined = crate::manifest::defining(objects, api_version, kind);
                defined.map(|(_, defined)| (defined.namespaced, defined.plural)).ok_or_else(|| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Pass<'_> {
    /// Shared definitions whose writer is gone are this release's to write; and so is what a process before had begun to.
    ///
    /// No new revision and no hook: what the release asks for is the same as before.
    pub(super) async fn take_over_definitions(&mut self) -> Result<(), Error> {
        let Some((Head::Ours(head), _)) = &self.mem.head else { return Ok(()) };
        let Some(private) = &head.private else { return Ok(()) };
        let left: Vec<(String, String)> = private
            .definitions
            .iter()
            .filter(|shipped| !shipped.written)
            .filter_map(|shipped| Some((shipped.name.clone(), shipped.writer.clone()?)))
            .collect();
        self.ctx.sharing.leaves(&self.key, left.iter().map(|(_, writer)| writer.clone()));
        let mut orphaned = Vec::new();
        for (name, writer) in left {
            let key = writer.split_once('/');
            let key =
                key.map(|(namespace, name)| ReleaseKey { namespace: namespace.into(), name: name.into() });
            if let Some(key) = key
                && self.ctx.departed(&key).await?
            {
                orphaned.push(name);
            }
        }
        let begun = private.inventory.iter().any(|entry| entry.id.is_definition() && entry.uid.is_none());
        if orphaned.is_empty() && !begun {
            return Ok(());
        }
        self.require_account().await?;
        let mut stored = self.read_head_whole().await?;
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        let uid = private.owner.uid.clone();
        let mut objects = Vec::new();
        for shipped in private.definitions.iter_mut().filter(|shipped| orphaned.contains(&shipped.name)) {
            let Some(body) = shipped.body.clone() else { continue };
            let wait = shipped.wait;
            let wishes = DefinitionWishes {
                wait_ready: Some(wait.is_some()),
                wait_timeout: wait.map(Duration::from_secs),
                keep: Some(!shipped.goes),
                ..DefinitionWishes::default()
            };
            let candidate = Candidate { object: Object::from_value(body)?, in_manifest: false, wishes };
            let judged = self.judge_definitions(vec![candidate], &uid, true).await?;
            objects.extend(judged.objects);
            if let Some(mut now) = judged.shipped.into_iter().next() {
                now.body = now.body.or_else(|| shipped.body.take());
                *shipped = now;
            }
        }
        let next = plan::next_inventory(&objects, stored.record.version, &private.inventory, &[]);
        private.inventory.retain(|entry| objects.iter().all(|object| object.id != entry.id));
        private.inventory.extend(next.wanted);
        if !objects.is_empty() {
            // Intent before effect.
            stored = self.save(&stored, true).await?;
            self.wrote(&stored);
        }
        self.apply_begun(stored).await
    }

    /// Applies the definitions of a deployed revision that nobody has seen applied yet.
    async fn apply_begun(&mut self, mut stored: Stored) -> Result<(), Error> {
        let objects = super::prepare::stored_objects(&stored)?;
        let Some(private) = stored.private.as_mut() else { return Ok(()) };
        let uid = private.owner.uid.clone();
        self.watch(&private.inventory).await?;
        for entry in private.inventory.iter_mut() {
            if !entry.id.is_definition() || entry.uid.is_some() {
                continue;
            }
            let Some(object) = objects.iter().find(|object| object.id == entry.id) else { continue };
            let applied = self.apply_one(object, entry, &[], &uid).await.1?;
            entry.uid = applied.uid();
            entry.fingerprint.clone_from(&applied.fingerprint);
        }
        let stored = self.save(&stored, true).await?;
        self.wrote(&stored);
        Ok(())
    }
}

/// Which releases leave a shared definition to which: whom to wake when one of these goes.
#[derive(Default)]
pub struct Sharing {
    left_to: Mutex<HashMap<ReleaseKey, BTreeSet<String>>>,
}

impl Sharing {
    fn leaves(&self, key: &ReleaseKey, writers: impl Iterator<Item = String>) {
        let writers: BTreeSet<String> = writers.collect();
        let mut left_to = self.lock();
        if writers.is_empty() {
            left_to.remove(key);
        } else {
            left_to.insert(key.clone(), writers);
        }
    }

    /// Those that leave one to this release.
    pub(super) fn of(&self, writer: &ReleaseKey) -> Vec<ReleaseKey> {
        let writer = writer.to_string();
        let left_to = self.lock();
        left_to.iter().filter(|(_, writers)| writers.contains(&writer)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn forget(&self, key: &ReleaseKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReleaseKey, BTreeSet<String>>> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.left_to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a definition names its webhook.
const CONVERSION: &str = "/spec/conversion";

fn has_webhook(body: &Value) -> bool {
    body.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook")
}

fn written(mut shipped: Shipped, object: Object, in_manifest: bool) -> Verdict {
    shipped.written = true;
    shipped.body = (!in_manifest).then(|| object.body.clone());
    Verdict::Ships(Box::new(shipped), Some(object))
}

fn not_ready(what: &str, seconds: u64) -> Step {
    let within = duration::format(Duration::from_secs(seconds));
    Step::Failed {
        reason: reasons::CRD_NOT_READY,
        message: format!("not served within {within}: {what}"),
        undo: false,
    }
}
