//! Which release gets a pass, and of what kind.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::OwnedMutexGuard;

use super::lock;
use super::memory::{Memory, Remembered};
use crate::api::{self, Invalid, Settings, SherpackRelease};
use crate::reconcile::context::Scope;
use crate::reconcile::context::{has_finalizer, records_of};
use crate::reconcile::{Context, End, Error, Pass, status};
use crate::release::ReleaseKey;

/// Passes over releases, one at a time for each of them.
pub struct Reconciler {
    ctx: Context,
    memory: Memory,
}

/// What came of a correction beside the ordinary passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// What can be done without a worker is done.
    Done,
    /// A pass of this release is under way.
    Busy,
}

impl Reconciler {
    #[must_use]
    pub fn new(ctx: Context) -> Self {
        Self { ctx, memory: Memory::default() }
    }

    /// What its passes share.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.ctx
    }

    /// Ends everything that is kept for a release that is not there any more.
    pub fn forget(&self, key: &ReleaseKey) {
        self.ctx.forget_key(key, self.memory.lock_of(key).as_ref());
        self.memory.forget(key);
    }

    /// The same of a release that is known; wakes those that waited for its name.
    fn forget_release(&self, key: &ReleaseKey, release: &SherpackRelease) {
        self.ctx.forget(key, release, self.memory.lock_of(key).as_ref());
        self.memory.forget(key);
    }

    /// Another operator works on it.
    fn leave(&self, key: &ReleaseKey, settings: &Settings) {
        self.ctx.leave(key, &records_of(settings), self.memory.lock_of(key).as_ref());
        self.memory.forget(key);
    }

    /// What is remembered of a release, until the pass ends. What is remembered of another release of this name, whose
    /// finalizer a user removed, is forgotten.
    async fn remembered(&self, key: &ReleaseKey, release: &SherpackRelease) -> OwnedMutexGuard<Remembered> {
        let mem = self.memory.of(key).lock_owned().await;
        let told = mem.revisions.records.told.as_ref();
        if told.is_none_or(|(uid, _)| Some(uid) == release.metadata.uid.as_ref()) {
            return mem;
        }
        drop(mem);
        self.forget(key);
        self.memory.of(key).lock_owned().await
    }

    /// Reconciles one release; gives when to come back, besides when something changes.
    ///
    /// # Errors
    /// Only what could not be told in the release's own status.
    pub async fn reconcile(&self, release: Arc<SherpackRelease>) -> Result<Option<Duration>, Error> {
        let ctx = &self.ctx;
        let key = ReleaseKey::of(&release);
        let mut mem = self.remembered(&key, &release).await;
        let _in_pass = ctx.packs.turns.in_pass(&key);
        if ctx.was_let_go(&release) {
            // The watch has not seen it go yet.
            drop(mem);
            self.memory.forget(&key);
            return Ok(None);
        }
        let Some(release) = ctx.current(&release, mem.status.own_version).await? else {
            self.forget_release(&key, &release);
            return Ok(None);
        };
        let now = Timestamp::now();
        let deleting = release.metadata.deletion_timestamp.is_some();
        if deleting && !has_finalizer(&release.metadata) {
            // Only the finalizer of another controller holds it; ours is done.
            self.forget_release(&key, &release);
            return Ok(None);
        }
        let (settings, invalid) = match api::validate(&release, &ctx.policy) {
            Ok(settings) => {
                let cycle = ctx.cycle(&key, &settings);
                (settings, cycle)
            }
            Err(invalid) => (Settings::without_spec(&release, &ctx.policy), Some(invalid)),
        };
        if !ctx.policy.selects(&release) {
            // Another shard's, or that of none.
            self.leave(&key, &settings);
            return Ok(None);
        }
        let invalid = invalid.filter(|_| !deleting);
        if !deleting {
            ctx.tell_bounded(&release, &settings.bounded, &mut mem.bounded);
        }
        if settings.lock.is_some() && !deleting {
            return lock::guard(&release, ctx, settings, invalid.as_ref(), &mut mem, now).await;
        }
        match self.pass(&key, &release, &settings, invalid.as_ref(), &mut mem, now).await? {
            End::Again(again) => Ok(again),
            End::Gone => {
                self.forget_release(&key, &release);
                Ok(None)
            }
        }
    }

    /// A pass over a release that the operator installs.
    async fn pass(
        &self,
        key: &ReleaseKey,
        release: &Arc<SherpackRelease>,
        settings: &Settings,
        invalid: Option<&Invalid>,
        mem: &mut Remembered,
        now: Timestamp,
    ) -> Result<End, Error> {
        let ctx = &self.ctx;
        let ours = has_finalizer(&release.metadata);
        if let Some(invalid) = invalid.filter(|_| !ours) {
            // Nothing was ever done for it, so nothing has to be undone either: no finalizer.
            ctx.claims_nothing(release);
            let refused = status::refused(release, invalid, now);
            return mem.writes(ctx, key, release).write_status(refused).await.map(|_| End::Again(None));
        }
        let release =
            if ours { Arc::clone(release) } else { mem.writes(ctx, key, release).add_finalizer().await? };
        let cluster = ctx.cluster_of(&settings.acts_as, key);
        let _claims = ctx.budget.in_pass(key);
        let scope = Scope { ctx, key, release: &release, settings, cluster: &cluster, now };
        let mut pass = Pass::new(scope, mem, "None");
        let result = match invalid {
            Some(invalid) => pass.refuse(invalid).await.map(End::Again),
            None => pass.run().await,
        };
        pass.health().leave_probes(pass.mem.revisions.running.as_deref());
        pass.report();
        result
    }

    /// Puts back what others changed, if what is deployed is to be kept as it is: for a release that waits for a worker.
    /// Waits for no other pass. It takes the release's mutex and looks at its newest record as any pass does; what there is to
    /// do besides, and to tell, is left to the ordinary pass that the release waits for.
    pub async fn correct(&self, key: &ReleaseKey) -> Reserve {
        let ctx = &self.ctx;
        let at = ObjectRef::<SherpackRelease>::new(&key.name).within(&key.namespace);
        let Some(release) = ctx.releases.get(&at) else { return Reserve::Done };
        let Ok(mut mem) = self.memory.of(key).try_lock_owned() else { return Reserve::Busy };
        let another = mem
            .revisions
            .records
            .told
            .as_ref()
            .is_some_and(|(uid, _)| Some(uid) != release.metadata.uid.as_ref());
        if another || ctx.was_let_go(&release) || !ctx.policy.selects(&release) {
            return Reserve::Done;
        }
        if let Err(error) = correct_release(key, &release, ctx, &mut mem).await {
            // The ordinary pass meets it too, and tells it.
            tracing::debug!(release = %key, %error, "drift was not put back beside the ordinary passes");
            if error.is_conflict() {
                mem.revisions.records.doubt_head();
            }
        }
        Reserve::Done
    }
}

async fn correct_release(
    key: &ReleaseKey,
    cached: &Arc<SherpackRelease>,
    ctx: &Context,
    mem: &mut Remembered,
) -> Result<(), Error> {
    let Some(release) = ctx.current(cached, mem.status.own_version).await? else { return Ok(()) };
    let Ok(settings) = api::validate(&release, &ctx.policy) else { return Ok(()) };
    if release.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let now = Timestamp::now();
    if settings.lock.is_some() {
        // All that its passes do is to keep what others installed.
        return lock::guard(&release, ctx, settings, None, mem, now).await.map(|_| ());
    }
    if !has_finalizer(&release.metadata) {
        return Ok(());
    }
    let _claims = ctx.budget.in_pass(key);
    let cluster = ctx.cluster_of(&settings.acts_as, key);
    let scope = Scope { ctx, key, release: &release, settings: &settings, cluster: &cluster, now };
    let mut pass = Pass::new(scope, mem, "Correct");
    let result = correct_only(&mut pass).await;
    pass.report();
    result
}

async fn correct_only(pass: &mut Pass<'_>) -> Result<(), Error> {
    pass.observing().head().await?;
    let Scope { ctx, release, settings, .. } = pass.scope;
    let taken = ctx.name_taken_by(release, settings, pass.newest().head_owner());
    pass.correct_deployed(taken).await
}
