//! Locks what somebody else installed: a release of Helm, or one of another Sherpack tool.
//!
//! The newest revision is followed; while it is deployed, each of its objects that differs from the manifest is put
//! back, and in every other state nothing is touched. What is put back is written under the name and in the way in
//! which the installer itself holds the object (see [`crate::manifest::managed_fields::Holder`]): so nothing of
//! ours ever stands on it, and the installer's next upgrade meets no conflict. There is no finalizer, no record, and
//! nothing to undo when the release goes.
//!
//! Objects are watched by metadata: those of Helm by the label that Helm puts on all that it installs, one watch for
//! each kind; those of other tools, which carry no label, by one watch for each kind and namespace, of which the rest is
//! ignored. An account has to be allowed to read and watch what is watched for it. What changes anywhere but in a status is
//! suspicious. A read and a dry-run of what would be sent tell whether anything differs, so that what the API server or
//! a webhook fills in is no drift.
//!
//! An installer may begin at any moment. It announces that with a pending revision before it touches anything. So the
//! order is: the object is read, then it is made sure that the revision is still the newest, then the object is
//! written on condition that it is what was read.

mod claim;
mod head;
mod locked;
mod look;
mod note;
mod strict;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{
    self, Class, DriftIgnore, IgnoreRule, Installer, Invalid, LockOf, Settings, SherpackRelease, conditions,
};
use crate::manifest::ObjectId;
use crate::manifest::managed_fields::Holder;
use crate::reconcile::context::Scope;
use crate::reconcile::context::name_claims::is_strange;
use crate::reconcile::state::Remembered;
use crate::reconcile::state::progress::{Outcome, Progress};
use crate::reconcile::state::redact::Secrets;
use crate::reconcile::status::{self, Guarding};
use crate::reconcile::{Context, Error, Pass, has_finalizer};
use crate::release::ReleaseKey;
use crate::release::decide::{Decision, Operation};
use crate::release::guard::{Found, Noise, Sight, Stance, stance};
use head::Head;

/// The newest revision may change while it is acted on; then it is looked at again, so many times.
const TRIES: usize = 4;

/// What is remembered of a release that somebody else installs.
#[derive(Default)]
pub struct Guard {
    /// Of what all this is known.
    pub(in crate::reconcile) lock: Option<LockOf>,
    head: Option<Head>,
    /// The manifest of `head`, from when it was read until its objects are known.
    manifest: Option<String>,
    /// Whose objects are watched: revision, and resourceVersion of its record.
    tracked: Option<(u32, String)>,
    /// What was left to others then.
    rules: Vec<DriftIgnore>,
    /// What the last spec that could be read leaves to others.
    asked: Option<Vec<Arc<IgnoreRule>>>,
    /// Whose additions were taken away then.
    strict: Vec<String>,
    objects: usize,
    /// Objects that were not looked at since they are watched, or could not be kept.
    due: BTreeSet<ObjectId>,
    /// How the objects are held: for one of which nothing is left to see.
    holder: Option<Holder>,
    noise: HashMap<ObjectId, Noise>,
    failing: BTreeMap<ObjectId, Failing>,
}

/// An object that cannot be kept.
struct Failing {
    reason: &'static str,
    message: String,
    times: u32,
    /// No new try before this time.
    at: Timestamp,
}

/// One pass for a release with `spec.lock`. `invalid`: its spec cannot be acted on; what was locked before stays locked.
pub(in crate::reconcile) async fn reconcile(
    release: &Arc<SherpackRelease>,
    ctx: &Context,
    mut settings: Settings,
    invalid: Option<&Invalid>,
    mem: &mut Remembered,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let key = ReleaseKey::of(release);
    if let Some(invalid) = invalid {
        let before = mem.guard.as_ref().filter(|guard| guard.lock == settings.lock);
        settings.ignore = settings.ignore.or_else(|| before?.asked.clone());
        let locked = release.status.as_ref().is_some_and(|status| status.revision.is_some());
        if !locked || settings.ignore.is_none() {
            if let Some(lock) = &settings.lock
                && is_strange(&settings.acts_as, Some(&key.namespace), lock)
            {
                // What it was granted before keeps no other release from the lock.
                ctx.settle_lock(&key, lock, false);
            }
            // Nothing was locked yet, or what is left to others is not known.
            let refused = status::refused(release, invalid, now);
            return mem.writes(ctx, &key, release).write_status(refused).await.map(|_| None);
        }
    }
    if has_finalizer(&release.metadata) {
        // Nothing of a lock has to be undone.
        mem.writes(ctx, &key, release).drop_finalizer().await?;
        return Ok(Some(Duration::ZERO));
    }
    let cluster = ctx.cluster_of(&settings.acts_as, &key);
    let _claims = ctx.budget.in_pass(&key);
    let scope = Scope { ctx, key: &key, release, settings: &settings, cluster: &cluster, now };
    let secrets = Secrets::unknown();
    let mut pass = Pass { secrets, ..Pass::new(scope, mem, "Guard") };
    let result = pass.guard(invalid).await;
    pass.report();
    result
}

impl Pass<'_> {
    async fn guard(&mut self, invalid: Option<&Invalid>) -> Result<Option<Duration>, Error> {
        let Some(lock) = self.scope.settings.lock.clone() else { return Ok(None) };
        // Taken out for the time of the pass.
        let mut guard = self.mem.guard.take().unwrap_or_default();
        if guard.lock.as_ref() != Some(&lock) {
            self.let_be(&mut guard, false);
            if let Some(before) = &guard.lock {
                self.scope.ctx.names.forget(self.scope.key);
                self.scope.ctx.wake_locks(self.scope.key, before);
            }
            *guard = Guard { lock: Some(lock.clone()), ..Guard::default() };
        }
        guard.asked.clone_from(&self.scope.settings.ignore);
        let asked_before = self.mem.backoff.take_requests(&self.scope.settings.requests);
        let again = match self.mem.backoff.retry_at.filter(|at| self.scope.now < *at) {
            // Whatever woke us, the last try failed a moment ago.
            Some(at) if !self.has_news(&lock, &guard) => Ok(Some(self.finishing().tell_until(at))),
            _ => {
                let outcome = self.take_stance(&lock, &mut guard).await;
                self.settle_guard(&lock, &guard, outcome, invalid).await
            }
        };
        if again.is_err() {
            // Nobody has been told: the request is as new as before.
            self.mem.backoff.requests = asked_before;
        }
        guard.manifest = None;
        self.mem.guard = Some(guard);
        again
    }

    /// Looks at the newest revision, and keeps its objects if that is what it asks for.
    async fn take_stance(&mut self, lock: &LockOf, guard: &mut Guard) -> Result<Stance, Error> {
        for _ in 0..TRIES {
            let strange = is_strange(&self.scope.settings.acts_as, Some(&self.scope.key.namespace), lock);
            if strange {
                // Which other release has it is told only to an account that may read it.
                self.look_up_as_stranger(lock, guard).await?;
            } else {
                // As another account it may have been asked.
                self.scope.ctx.names.forget(self.scope.key);
            }
            let taken_by = if self.scope.settings.suspend { None } else { self.lock_taken_by(lock) };
            if !self.scope.settings.suspend && !strange && taken_by.is_none() {
                self.look_up(lock, guard).await?;
            }
            let nothing = Found::Nothing;
            let stance = stance(&Sight {
                suspended: self.scope.settings.suspend,
                taken_by: taken_by.or_else(|| guard.head.as_ref()?.installed_by.clone()),
                found: guard.head.as_ref().map_or(&nothing, |head| &head.found),
                known: self.scope.release.status.as_ref().is_some_and(|status| status.revision.is_some()),
                watched: self.scope.drift_watched(),
            });
            tracing::debug!(release = %self.scope.key, ?stance, "took a stance");
            if !matches!(stance, Stance::Guard { .. }) {
                self.let_be(guard, matches!(stance, Stance::StandBack { .. }));
                return Ok(stance);
            }
            if self.keep(lock, guard).await? {
                return Ok(stance);
            }
            // It is another one by now.
            guard.head = None;
        }
        Err(Error::Undecided)
    }

    /// [`Pass::look_up`], and what it says of the claim to the lock. A suspended lock claims nothing.
    async fn look_up_as_stranger(&mut self, lock: &LockOf, guard: &mut Guard) -> Result<(), Error> {
        let looked = match self.scope.settings.suspend {
            true => Ok(()),
            false => self.look_up(lock, guard).await,
        };
        let granted = match &looked {
            Ok(()) => !self.scope.settings.suspend,
            // There was no answer.
            Err(error) if error.class() == Class::Retry => return looked,
            Err(_) => false,
        };
        if !granted {
            // Before others are woken, who may have the objects.
            self.let_be(guard, false);
        }
        self.scope.ctx.settle_lock(self.scope.key, lock, granted);
        looked
    }

    /// Forgets the objects: when they are locked again, each is looked at. `soon`: that may be any moment.
    fn let_be(&mut self, guard: &mut Guard, soon: bool) {
        self.scope.ctx.guards.table().forget_all(self.scope.key);
        if !soon {
            self.scope.ctx.guards.retain(self.scope.key, |_| false);
        }
        guard.tracked = None;
        guard.due.clear();
        guard.failing.clear();
        guard.noise.clear();
        self.mem.drift.take_back(|_| true);
        self.mem.drift.keep_looked(&[]);
        self.mem.drift.revert_at = None;
    }

    /// A release that locks the same and lives beside it or is older, or one that lives beside the records and installs them.
    ///
    /// A release of another namespace may name any target. It counts once it has stored a record here, which is sealed and
    /// names it; see [`Head::installed_by`].
    fn lock_taken_by(&self, lock: &LockOf) -> Option<String> {
        let age = |release: &SherpackRelease| {
            // One from elsewhere may name what it may not even read.
            let from_elsewhere = release.metadata.namespace.as_deref() != Some(&*lock.namespace);
            let created = release.metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
            (from_elsewhere, created, ReleaseKey::of(release))
        };
        let rivals = |other: &&Arc<SherpackRelease>| {
            if ReleaseKey::of(other) == *self.scope.key || other.metadata.deletion_timestamp.is_some() {
                return false;
            }
            match &other.spec.lock {
                Some(_) => {
                    api::lock_of(other).as_ref() == Some(lock)
                        && age(other) < age(self.scope.release)
                        && self.scope.ctx.lock_counts(other, lock)
                }
                None => {
                    lock.installer == Installer::Sherpack
                        && other.metadata.namespace.as_deref() == Some(&*lock.namespace)
                        && other.release_name() == lock.name
                        && other.target_namespace() == lock.namespace
                }
            }
        };
        let state = self.scope.ctx.releases.state();
        let rival = state.iter().find(rivals)?;
        let key = ReleaseKey::of(rival);
        if is_strange(&api::acts_as(rival, &self.scope.ctx.policy), Some(&key.namespace), lock) {
            self.scope.ctx.contest(&key);
        }
        Some(self.scope.ctx.told_of(&key, self.scope.settings, self.scope.key))
    }

    async fn settle_guard(
        &mut self,
        lock: &LockOf,
        guard: &Guard,
        outcome: Result<Stance, Error>,
        invalid: Option<&Invalid>,
    ) -> Result<Option<Duration>, Error> {
        let (stance, outcome) = match outcome {
            Ok(stance) => {
                let correct = matches!(stance, Stance::Guard { .. });
                let decision = Decision { operation: Operation::Nothing, correct, until: None };
                (Some(stance), Ok(Outcome { decision, progress: Progress::Nothing }))
            }
            Err(error) => {
                self.access().doubt_rights(error.reason());
                (None, Err(self.secrets.hidden_error(error)))
            }
        };
        if self.finishing().lost_a_race(&outcome) {
            return Ok(Some(Duration::from_millis(100)));
        }
        let again = self.finishing().come_back(&outcome);
        let waits = outcome.as_ref().is_err_and(|error| error.fetching_since().is_some());
        if self.finishing().shown_lately(&outcome) || (waits && !self.newest().spec_changed()) {
            return Ok(again);
        }
        self.mem.status.shown_at = Some(self.scope.now);
        let first = guard.failing.values().next();
        let guarding = Guarding {
            lock,
            objects: guard.objects,
            revision: guard.head.as_ref().and_then(Head::revision),
            pack: guard.head.as_ref().and_then(|head| head.pack.as_ref()),
            failing: first.map(|first| (first.reason, first.message.clone(), guard.failing.len())),
        };
        let guards = matches!(stance, Some(Stance::Guard { .. } | Stance::Open { .. }));
        let mut finish = self.finishing();
        let facts = status::Facts { guards, ..finish.facts(invalid) };
        let told = match (&stance, &outcome) {
            (Some(stance), _) => Ok(stance),
            (None, Err(error)) => Err(error),
            // One of the two is always there.
            (None, Ok(_)) => return Ok(again),
        };
        let (status, verdict) = status::guarded(&facts, &guarding, told);
        finish.tell(&outcome, &verdict);
        finish.writes().write_status(status).await?;
        Ok(again)
    }
}

impl Failing {
    fn of(error: &Error, message: String, before: Option<&Self>, now: Timestamp) -> Self {
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let wait = match error.class() {
            // Nobody mends a manifest in seconds; a new revision is looked at at once.
            Class::FixSpec => Duration::from_mins(1),
            Class::Retry | Class::FixCluster => crate::release::backoff::error(times),
        };
        let at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let message = conditions::clip(&message);
        Self { reason: error.reason(), message, times, at }
    }
}
