//! Puts drift back beside the ordinary passes: for a release that waits for a worker.
//!
//! It is a pass that does nothing else: it takes the release's mutex and looks at its newest record as any pass does, and
//! what there is to do besides, and to tell, is left to the ordinary pass that the release waits for.

use std::sync::Arc;

use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;

use crate::api::{self, SherpackRelease};
use crate::reconcile::context::Scope;
use crate::reconcile::drift::external;
use crate::reconcile::{Context, Error, Pass, has_finalizer};
use crate::release::ReleaseKey;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// What can be done without a worker is done.
    Done,
    /// A pass of this release is under way.
    Busy,
}

impl Context {
    /// Whether objects of a release are not as they were last applied, as far as the watches tell.
    #[must_use]
    pub fn has_drifted(&self, key: &ReleaseKey) -> bool {
        !self.objects.suspicions(key).is_empty() || !self.guards.suspicions(key).is_empty()
    }
}

/// Puts back what others changed, if what is deployed is to be kept as it is. Waits for no other pass.
pub async fn correct(key: &ReleaseKey, ctx: &Context) -> Reserve {
    let at = ObjectRef::<SherpackRelease>::new(&key.name).within(&key.namespace);
    let Some(release) = ctx.releases.get(&at) else { return Reserve::Done };
    let Ok(mut mem) = ctx.memory.of(key).try_lock_owned() else { return Reserve::Busy };
    let another =
        mem.records.told.as_ref().is_some_and(|(uid, _)| Some(uid) != release.metadata.uid.as_ref());
    if another || ctx.was_let_go(&release) || !ctx.policy.selects(&release) {
        return Reserve::Done;
    }
    if let Err(error) = correct_release(key, &release, ctx, &mut mem).await {
        // The ordinary pass meets it too, and tells it.
        tracing::debug!(release = %key, %error, "drift was not put back beside the ordinary passes");
        if error.is_conflict() {
            mem.records.doubt_head();
        }
    }
    Reserve::Done
}

async fn correct_release(
    key: &ReleaseKey,
    cached: &Arc<SherpackRelease>,
    ctx: &Context,
    mem: &mut crate::reconcile::state::Remembered,
) -> Result<(), Error> {
    let Some(release) = ctx.current(cached, mem.status.own_version).await? else { return Ok(()) };
    let Ok(settings) = api::validate(&release, &ctx.policy) else { return Ok(()) };
    if release.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let now = Timestamp::now();
    if settings.lock.is_some() {
        // All that its passes do is to keep what others installed.
        return external::reconcile(&release, ctx, settings, None, mem, now).await.map(|_| ());
    }
    if !has_finalizer(&release.metadata) {
        return Ok(());
    }
    let _claims = ctx.budget.in_pass(key);
    let cluster = ctx.cluster_of(&settings.acts_as, key);
    let scope = Scope { ctx, key, release: &release, settings: &settings, cluster: &cluster, now };
    let mut pass = Pass::new(scope, mem, "Correct");
    let result = pass.correct_only().await;
    pass.report();
    result
}

impl Pass<'_> {
    async fn correct_only(&mut self) -> Result<(), Error> {
        self.observe().head().await?;
        let taken =
            self.scope.ctx.name_taken_by(self.scope.release, self.scope.settings, self.newest().head_owner());
        self.correct_deployed(taken).await
    }
}
