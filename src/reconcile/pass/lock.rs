//! A pass that only locks what others installed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::memory::Remembered;
use crate::api::{Invalid, LockOf, Settings, SherpackRelease};
use crate::reconcile::context::Scope;
use crate::reconcile::context::has_finalizer;
use crate::reconcile::context::name_claims::is_strange;
use crate::reconcile::drift::external::External;
use crate::reconcile::state::guard::{Guard, Head};
use crate::reconcile::state::progress::{Outcome, Progress};
use crate::reconcile::state::redact::Secrets;
use crate::reconcile::status::{self, Guarding};
use crate::reconcile::{Context, Error, Pass};
use crate::release::ReleaseKey;
use crate::release::decide::{Decision, Operation};
use crate::release::guard::Stance;

/// One pass for a release with `spec.lock`. `invalid`: its spec cannot be acted on; what was locked before stays locked.
pub(super) async fn guard(
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
    let result = pass.guard_objects(invalid).await;
    pass.report();
    result
}

impl Pass<'_> {
    fn external(&mut self) -> External<'_> {
        External {
            scope: self.scope,
            records: &self.mem.revisions.records,
            drift: &mut self.mem.drift,
            secrets: &mut self.secrets,
            claimed: &mut self.claimed,
        }
    }

    async fn guard_objects(&mut self, invalid: Option<&Invalid>) -> Result<Option<Duration>, Error> {
        let Some(lock) = self.scope.settings.lock.clone() else { return Ok(None) };
        // Taken out for the time of the pass.
        let mut guard = self.mem.guard.take().unwrap_or_default();
        if guard.lock.as_ref() != Some(&lock) {
            self.external().let_be(&mut guard, false);
            if let Some(before) = &guard.lock {
                self.scope.ctx.names.forget(self.scope.key);
                self.scope.ctx.wake_locks(self.scope.key, before);
            }
            *guard = Guard { lock: Some(lock.clone()), ..Guard::default() };
        }
        guard.asked.clone_from(&self.scope.settings.ignore);
        let asked_before = self.mem.revisions.backoff.take_requests(&self.scope.settings.requests);
        let again = match self.mem.revisions.backoff.retry_at.filter(|at| self.scope.now < *at) {
            // Whatever woke us, the last try failed a moment ago.
            Some(at) if !self.external().has_news(&lock, &guard) => Ok(Some(self.finishing().tell_until(at))),
            _ => {
                let outcome = self.external().take_stance(&lock, &mut guard).await;
                self.settle_guard(&lock, &guard, outcome, invalid).await
            }
        };
        if again.is_err() {
            // Nothing has been told: the request is as new as before.
            self.mem.revisions.backoff.requests = asked_before;
        }
        guard.manifest = None;
        self.mem.guard = Some(guard);
        again
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
        let objects_failing = self.mem.drift.failing();
        let first = objects_failing.values().next();
        let guarding = Guarding {
            lock,
            objects: guard.objects,
            revision: guard.head.as_ref().and_then(Head::revision),
            pack: guard.head.as_ref().and_then(|head| head.pack.as_ref()),
            failing: first.map(|first| (first.reason, first.message.clone(), objects_failing.len())),
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
