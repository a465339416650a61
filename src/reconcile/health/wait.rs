//! Looks at the objects that a release waits for: when something changed, and never blocked on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Applied;
use crate::health::{self, Health, Status};
use crate::manifest::{Object, ObjectId};
use crate::plan;
use crate::reconcile::Error;
use crate::reconcile::health::Waits;
use crate::reconcile::health::probes::probing;
use crate::reconcile::state::Waiting;

/// Looks in flight for one release.
const PARALLEL: usize = 8;
/// A look at what an event was about comes when no other one followed for this long: a controller writes the status of an object
/// several times in a row.
const SETTLED_FOR: Duration = Duration::from_millis(25);
/// Or this long after the first one.
const SETTLES_WITHIN: Duration = Duration::from_millis(150);
/// What no event was about is looked at again after this long, if at all.
const LOOK_AT_ALL: Duration = Duration::from_secs(1);
/// Two looks at the same waiting objects are at least this far apart.
pub(in crate::reconcile) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The pods of a workload are looked at after this time, and so often.
pub(in crate::reconcile) const LOOK_AT_PODS: Duration = Duration::from_secs(5);
/// What is said of an object that is there no more, or of whose name another one is.
pub(in crate::reconcile) const DELETED: &str = "the object was deleted while it was waited for";

impl Waits<'_> {
    /// Those of the applied objects that are not healthy, as the answers of the applies say.
    pub(in crate::reconcile) fn unhealthy(
        &self,
        objects: &[&Object],
        applied: &HashMap<ObjectId, Applied>,
        revision: u32,
    ) -> BTreeMap<ObjectId, Waiting> {
        let mut waiting = BTreeMap::new();
        for object in objects {
            let Some(done) = applied.get(&object.id) else { continue };
            let live = done.value();
            let health = health::assess(&live, done.generation(), self.scope.now);
            let mut entry = Waiting {
                api_version: object.api_version.clone(),
                generation: done.generation(),
                failed_since: health.terminal.then_some(self.scope.now),
                health,
                since: self.scope.now,
                pods_at: self.scope.later(LOOK_AT_PODS),
                pods: None,
                probe: probing(object, revision),
                uid: done.uid().filter(|_| plan::is_job(&object.id)),
                looked_at: self.scope.now,
            };
            if !settled(entry.health.status) || !self.probed(&object.id, &mut entry, &live) {
                waiting.insert(object.id.clone(), entry);
            }
        }
        waiting
    }

    /// When what is waited for is to be looked at: soon after an event; a timer looks when it is due.
    pub(in crate::reconcile) fn look_due(
        &self,
        waiting: &BTreeMap<ObjectId, Waiting>,
        looked_at: Timestamp,
    ) -> Option<Timestamp> {
        let table = self.scope.ctx.objects.table();
        let settles = waiting.keys().filter_map(|id| {
            let news = table.news(id)?;
            let settled = SETTLED_FOR.saturating_sub(news.last.elapsed());
            Some(settled.min(SETTLES_WITHIN.saturating_sub(news.first.elapsed())))
        });
        match settles.min() {
            Some(left) => Some(self.scope.later(left)),
            None => (looked_at < self.scope.now)
                .then(|| looked_at.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX)),
        }
    }

    /// Looks at those that an event was about, and now and then at the others.
    pub(in crate::reconcile) async fn look_at_news(
        &self,
        waiting: &mut BTreeMap<ObjectId, Waiting>,
    ) -> Result<(), Error> {
        let (mut looked, rest) = {
            let table = self.scope.ctx.objects.table();
            let due = |id: &ObjectId, object: &Waiting| {
                let long_ago = object.looked_at.checked_add(LOOK_AT_ALL).is_ok_and(|at| at <= self.scope.now);
                let by_time = object.probe.is_some() || object.health.recheck_in.is_some();
                long_ago || by_time || table.news(id).is_some()
            };
            std::mem::take(waiting).into_iter().partition(|(id, object)| due(id, object))
        };
        *waiting = rest;
        let result = self.look_again(&mut looked).await;
        if result.is_err() {
            looked.values_mut().for_each(|object| object.looked_at = Timestamp::MIN);
        }
        waiting.append(&mut looked);
        result
    }

    /// Looks at all of them; those that are healthy are not waited for any more.
    pub(in crate::reconcile) async fn look_again(
        &self,
        waiting: &mut BTreeMap<ObjectId, Waiting>,
    ) -> Result<(), Error> {
        waiting.values_mut().for_each(|object| object.looked_at = self.scope.now);
        let looks = waiting.iter().map(|(id, object)| async move {
            let version = self.scope.ctx.objects.table().news(id).map_or(0, |news| news.version);
            (id.clone(), self.scope.cluster.get_since(&object.api_version, id, version).await)
        });
        let seen: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await;
        for (id, live) in seen {
            let live = live?;
            let Some(object) = waiting.get_mut(&id) else { continue };
            let Some(live) = live.filter(|live| object.uid.is_none() || object.uid == live.uid()) else {
                DELETED.clone_into(&mut object.health.message);
                object.health.status = Status::Failed;
                object.health.terminal = true;
                object.failed_since.get_or_insert(self.scope.now);
                continue;
            };
            self.scope.ctx.objects.table().looked(&id, live.version);
            let live = live.value();
            let mut health = health::assess(&live, object.generation, self.scope.now);
            if settled(health.status) {
                object.health = health;
                object.failed_since = None;
                if self.probed(&id, object, &live) {
                    waiting.remove(&id);
                }
                continue;
            }
            self.leave_probe(&id, object);
            if has_pods(&id) && self.scope.now >= object.pods_at {
                object.pods_at = self.scope.later(LOOK_AT_PODS);
                object.pods = self.failed_pod(&id, &live).await;
            }
            if health.status == Status::InProgress
                && let Some(failed) = &object.pods
            {
                health = failed.clone();
            }
            object.failed_since =
                if health.terminal { object.failed_since.or(Some(self.scope.now)) } else { None };
            object.health = health;
        }
        Ok(())
    }

    /// Why the pods of a workload fail, if they do. An account that may not list pods learns it from the deadline.
    async fn failed_pod(&self, id: &ObjectId, live: &Value) -> Option<Health> {
        match self.scope.cluster.newest_pods(id, live).await {
            Ok(pods) => health::workload_failure(&pods, self.scope.now),
            Err(error) => {
                tracing::debug!(release = %self.scope.key, %error, "pods are not looked at");
                None
            }
        }
    }

    /// Has the watches wake the release when one of these objects changes, and no others.
    pub(in crate::reconcile) fn wake_on(&self, waiting: &BTreeMap<ObjectId, Waiting>) {
        let ids: BTreeSet<ObjectId> = waiting.keys().cloned().collect();
        self.scope.ctx.objects.table().wake_on(self.scope.key, &ids);
    }
}

/// Workloads whose pods tell why they are stuck. Not Jobs, which try again by themselves.
fn has_pods(id: &ObjectId) -> bool {
    id.group == "apps"
        && matches!(id.kind.as_str(), "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
}

/// Done waiting: healthy, or suspended on purpose.
fn settled(status: Status) -> bool {
    matches!(status, Status::Current | Status::Suspended)
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
