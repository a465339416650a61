//! One run of a hook: its object is looked at, made, waited for and cleaned up.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::api::{Adopt, duration, names, reasons};
use crate::cluster::{self, Applied, Created, Holder};
use crate::health::{self, Status};
use crate::manifest::ObjectId;
use crate::plan::{self, DeletePolicy, Hook, Phase};
use crate::reconcile::Error;
use crate::reconcile::health::verdict::FAILED_FOR;
use crate::reconcile::health::verdict::LOOK_ANYWAY;
use crate::reconcile::health::verdict::describe;
use crate::reconcile::health::wait::LOOK_AT_PODS;
use crate::reconcile::operation::Operate;
use crate::reconcile::operation::checkpoint::operation_phase;
use crate::reconcile::state::HookWatch;
use crate::reconcile::state::Running;
use crate::reconcile::state::Stage;
use crate::reconcile::state::Waiting;
use crate::release::HookRun;
use crate::watch::ObjectWatches;

/// Looks in one pass: one that deletes the run before, one that creates, one that finds what another created.
const LOOKS: usize = 4;

/// What a look at a run showed.
pub(super) enum Seen {
    Running {
        until: Timestamp,
    },
    /// With reason and message of its failure.
    Ended(Option<(&'static str, String)>),
    /// Nothing of it was ever made.
    NotBegun,
}

/// What one look came to.
enum Looked {
    Seen(Seen),
    /// Something was done that the next look shows.
    Again,
    /// The object that stands in its way is not gone yet.
    Later,
}

/// Which run of a hook.
pub(super) struct Run<'a> {
    pub(super) hook: &'a Hook,
    pub(super) phase: Phase,
    pub(super) attempt: u32,
    /// The first attempt of this operation.
    pub(super) first: u32,
    /// Of its object, if the checkpoint knows it.
    pub(super) uid: Option<String>,
    /// Value of the annotation.
    pub(super) id: String,
    /// Of this line of revisions.
    pub(super) owner_uid: String,
    /// Its object was there before the release.
    pub(super) adopted: bool,
}

impl Operate<'_> {
    /// Looks at the object of a run, and creates it when it is not there yet and `create` says so.
    pub(super) async fn look_at(
        &mut self,
        running: &mut Running,
        run: &Run<'_>,
        create: bool,
    ) -> Result<Seen, Error> {
        let mut watch = self.watch_of(running, run).await?;
        let mut looked = Looked::Again;
        for _ in 0..LOOKS {
            looked = self.look_once(running, run, &mut watch, create).await?;
            if !matches!(looked, Looked::Again) {
                break;
            }
        }
        let until = match looked {
            Looked::Seen(Seen::Running { until }) => until,
            Looked::Seen(over) => return Ok(over),
            Looked::Again | Looked::Later => Timestamp::MAX,
        };
        if self.scope.now >= watch.deadline {
            let message = format!(
                "{} did not end within {}: {}",
                run.hook.object.id,
                duration::format(run.hook.timeout),
                watch.waiting.health.message
            );
            return Ok(Seen::Ended(Some((reasons::HOOK_TIMEOUT, message))));
        }
        let until = until.min(self.scope.later(LOOK_ANYWAY)).min(watch.deadline);
        running.stage = Stage::Hook(Box::new(watch));
        Ok(Seen::Running { until })
    }

    /// The watch of this run that goes on, or a new one.
    async fn watch_of(&mut self, running: &mut Running, run: &Run<'_>) -> Result<HookWatch, Error> {
        match std::mem::replace(&mut running.stage, Stage::Begin) {
            Stage::Hook(watch) if watch.attempt == run.attempt => Ok(*watch),
            _ => {
                self.watch_hook(run.hook).await?;
                let own = self.scope.later(run.hook.timeout);
                let message = format!("the {} hook runs", run.phase);
                let api_version = &run.hook.object.api_version;
                Ok(HookWatch {
                    attempt: run.attempt,
                    uid: run.uid.clone(),
                    deadline: own.min(running.deadline),
                    waiting: Waiting::unseen(api_version, &message, self.scope.now),
                })
            }
        }
    }

    async fn look_once(
        &mut self,
        running: &mut Running,
        run: &Run<'_>,
        watch: &mut HookWatch,
        create: bool,
    ) -> Result<Looked, Error> {
        let (id, api_version) = (&run.hook.object.id, &run.hook.object.api_version);
        let live = self.scope.cluster.get(api_version, id).await?;
        Ok(match (live, &watch.uid) {
            (Some(live), None) if is_run(&live, run) => {
                watch.uid = live.uid();
                self.note_run(running, run, watch).await?;
                Looked::Again
            }
            (Some(live), Some(uid)) if live.uid().as_ref() == Some(uid) => {
                Looked::Seen(self.judge_hook(watch, run, &live).await)
            }
            (_, Some(_)) => {
                let message = format!("{id} was deleted while it ran: how it ended is not known");
                Looked::Seen(Seen::Ended(Some((reasons::HOOK_VANISHED, message))))
            }
            (_, None) if !create => Looked::Seen(Seen::NotBegun),
            (Some(live), None) => match self.make_way(run, &live).await? {
                Some(ended) => Looked::Seen(ended),
                None if live.live.metadata.deletion_timestamp.is_none() => Looked::Again,
                None => {
                    "waiting until the run before is gone".clone_into(&mut watch.waiting.health.message);
                    Looked::Later
                }
            },
            (None, None) => {
                let marks = self.live().marks(&run.owner_uid);
                let body = plan::hook_body(run.hook, running.stored.record.version, marks, &run.id);
                if let Created::New(uid) = self.scope.cluster.create(api_version, id, &body).await? {
                    self.records.backoff.errors = 0;
                    watch.uid = uid;
                    self.note_run(running, run, watch).await?;
                }
                Looked::Again
            }
        })
    }

    /// Writes down which object a run is: when that is gone it is not made again. What has no end of its own may be.
    async fn note_run(
        &mut self,
        running: &mut Running,
        run: &Run<'_>,
        watch: &HookWatch,
    ) -> Result<(), Error> {
        let id = &run.hook.object.id;
        if watch.uid.is_none() || !(plan::is_job(id) || is_pod(id)) {
            return Ok(());
        }
        let begun = HookRun { attempt: run.attempt, first: run.first, failed: None, uid: watch.uid.clone() };
        self.checkpoint(running, operation_phase(run.phase), 0, Some(begun)).await
    }

    /// Deletes an object that stands where the hook has to be. `None`: it is gone or going.
    async fn make_way(&self, run: &Run<'_>, live: &Applied) -> Result<Option<Seen>, Error> {
        let id = &run.hook.object.id;
        let annotations = live.live.metadata.annotations.as_ref();
        let before = annotations.and_then(|all| all.get(names::HOOK_RUN));
        let owner =
            before.and_then(|before| before.split('.').next()).or_else(|| plan::marked_by(annotations));
        let ours = owner == Some(run.owner_uid.as_str());
        let living = owner.filter(|_| !ours).and_then(|uid| self.scope.ctx.living(uid));
        // Only what a hook of a release has made makes way; everything else was there before.
        let made_by_a_hook =
            before.is_some() && living.is_none() && self.scope.settings.adopt == Adopt::Unowned;
        if run.adopted || !(ours || made_by_a_hook) {
            let holder = living.map_or(Holder::Unknown, |owner| Holder::Release(owner.to_string()));
            return Err(cluster::Error::NotOwned { id: id.clone(), holder }.into());
        }
        if live.live.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let of_this_operation = run
            .id
            .rsplit_once('.')
            .is_some_and(|(this, _)| before.is_some_and(|before| before.starts_with(this)));
        let may = of_this_operation || run.hook.delete.contains(&DeletePolicy::BeforeHookCreation);
        if !may {
            let message = format!(
                "{id} is still there from an earlier run: delete it, or add before-hook-creation to its delete policy"
            );
            return Ok(Some(Seen::Ended(Some((reasons::HOOK_EXISTS, message)))));
        }
        if let Some(uid) = live.uid() {
            self.scope.cluster.delete(&run.hook.object.api_version, id, &uid).await?;
        }
        Ok(None)
    }

    async fn judge_hook(&self, watch: &mut HookWatch, run: &Run<'_>, live: &Applied) -> Seen {
        let id = &run.hook.object.id;
        let live = live.value();
        let mut health = health::assess_run(&live, self.scope.now);
        match (health.status, health.terminal) {
            (Status::Current, _) => return Seen::Ended(None),
            (Status::Failed, true) if health::is_run_to_completion(&live) => {
                let told = self.end_of_job(id, &health.message).await;
                return Seen::Ended(Some((reasons::HOOK_FAILED, format!("{id}: {told}"))));
            }
            _ => {}
        }
        let mut until = self.scope.later(LOOK_ANYWAY);
        if plan::is_job(id) {
            if self.scope.now >= watch.waiting.pods_at {
                watch.waiting.pods_at = self.scope.later(LOOK_AT_PODS);
                watch.waiting.pods = self.stuck_pod(id).await;
            }
            until = until.min(watch.waiting.pods_at);
            if let Some(stuck) = &watch.waiting.pods {
                health = stuck.clone();
            }
        }
        let failing = health.status == Status::Failed && health.terminal;
        watch.waiting.failed_since =
            if failing { watch.waiting.failed_since.or(Some(self.scope.now)) } else { None };
        watch.waiting.health = health;
        if let Some(since) = watch.waiting.failed_since {
            let stable = since.checked_add(FAILED_FOR).unwrap_or(Timestamp::MAX);
            if stable <= self.scope.now {
                return Seen::Ended(Some((reasons::HOOK_FAILED, describe(id, &watch.waiting))));
            }
            until = until.min(stable);
        }
        if let Some(recheck) = watch.waiting.health.recheck_in {
            until = until.min(self.scope.later(recheck));
        }
        Seen::Running { until }
    }

    /// What the Job's condition says, and what its last pod said.
    async fn end_of_job(&self, id: &ObjectId, condition: &str) -> String {
        if !plan::is_job(id) {
            return condition.to_owned();
        }
        match self.scope.cluster.last_words(id, self.scope.now).await {
            Ok(Some(words)) => format!("{words} ({condition})"),
            Ok(None) => condition.to_owned(),
            Err(error) => {
                tracing::debug!(release = %self.scope.key, %error, "the pods of a failed hook are not looked at");
                condition.to_owned()
            }
        }
    }

    /// A pod that cannot start, so that the Job will not end by waiting. One that fails is the Job's to replace.
    async fn stuck_pod(&self, id: &ObjectId) -> Option<health::Health> {
        let pods = self.scope.cluster.job_pods(id).await.ok()?;
        let pending: Vec<_> = pods
            .into_iter()
            .filter(|pod| pod.pointer("/status/phase").and_then(serde_json::Value::as_str) == Some("Pending"))
            .collect();
        health::workload_failure(&pending, self.scope.now)
    }

    /// Lets the watch of the hook's kind wake this release.
    async fn watch_hook(&mut self, hook: &Hook) -> Result<(), Error> {
        let id = &hook.object.id;
        if let Err(owner) = self.scope.ctx.objects.table().track(self.scope.key, id) {
            let holder = Holder::Release(owner.to_string());
            return Err(cluster::Error::NotOwned { id: id.clone(), holder }.into());
        }
        let kind = self.scope.cluster.kind(&hook.object.api_version, &id.kind).await?;
        self.scope.ctx.objects.ensure(&kind, self.scope.key, ObjectWatches::patience()).await?;
        self.scope.ctx.objects.table().wake_on(self.scope.key, &BTreeSet::from([id.clone()]));
        Ok(())
    }

    /// Deletes the object of a run that ended, if its policy says so. Done again after a crash.
    pub(super) async fn clean_up(&mut self, run: &Run<'_>, failed: bool) -> Result<(), Error> {
        let id = &run.hook.object.id;
        let policy = if failed { DeletePolicy::HookFailed } else { DeletePolicy::HookSucceeded };
        if run.hook.delete.contains(&policy) {
            let api_version = &run.hook.object.api_version;
            if let Some(live) = self.scope.cluster.get(api_version, id).await?
                && is_run(&live, run)
                && let Some(uid) = live.uid()
            {
                self.scope.cluster.delete(api_version, id, &uid).await?;
            }
        }
        self.scope.ctx.objects.table().forget(self.scope.key, id);
        Ok(())
    }
}

fn is_pod(id: &ObjectId) -> bool {
    id.group.is_empty() && id.kind == "Pod"
}

fn is_run(live: &Applied, run: &Run<'_>) -> bool {
    let annotations = live.live.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(names::HOOK_RUN)) == Some(&run.id)
}
