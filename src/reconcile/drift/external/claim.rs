//! What has to be so before an object is watched and looked at: the account of the release may read it, and no other
//! release has the better claim. A claim that is refused is given up, so that it does not keep another release from the object.

use std::collections::{BTreeSet, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::reflector::ObjectRef;

use super::locked::Locked;
use crate::api::{self, ActsAs, Installer, LockOf, SherpackRelease};
use crate::cluster::{self, Holder as OwnedBy, Kind};
use crate::manifest::ObjectId;
use crate::plan::rights::{Right, describe};
use crate::reconcile::Error;
use crate::reconcile::access::preflight::right;
use crate::reconcile::drift::external::External;
use crate::reconcile::state::guard::Guard;
use crate::release::ReleaseKey;
use crate::release::claims::{Beyond, Claim};
use crate::watch::{ObjectWatches, Subject, Suspicion};

/// What a lock does with its objects before it writes any.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Work on an object of a kind that is known.
pub(super) type Work<'l> = (Suspicion, &'l Locked, Kind);

impl External<'_> {
    /// Makes sure that changes of these objects are seen; gives those that may be looked at.
    pub(super) async fn begin_to_watch<'l>(
        &mut self,
        lock: &LockOf,
        guard: &mut Guard,
        work: Vec<(Suspicion, &'l Locked)>,
    ) -> Result<Vec<(Suspicion, &'l Locked)>, Error> {
        let mut known = Vec::with_capacity(work.len());
        for (suspicion, locked) in work {
            match self.kind_of(locked).await {
                Ok(kind) => known.push((suspicion, locked, kind)),
                Err(error) => self.fails(guard, &suspicion.id, &error),
            }
        }
        let readable = self.readable(guard, known).await?;
        let mut watched = Vec::with_capacity(readable.len());
        let patience = ObjectWatches::patience();
        for (suspicion, locked, kind) in readable {
            match self.claim_and_watch(lock, locked, &kind, patience).await {
                Ok(()) => watched.push((suspicion, locked)),
                Err(error) => self.fails(guard, &suspicion.id, &error),
            }
        }
        Ok(watched)
    }

    async fn kind_of(&self, locked: &Locked) -> Result<Kind, Error> {
        let object = &locked.guarded.object;
        let kind = match &locked.kind {
            Ok(kind) => kind.clone(),
            // Asked once more: the error is told of the object.
            Err(_) => self.scope.cluster.kind(&object.api_version, &object.id.kind).await?,
        };
        if kind.namespaced != object.id.namespace.is_some() {
            // It was not served when it was decided where the object is.
            return Err(Error::Undecided);
        }
        Ok(kind)
    }

    /// The work on objects that the account may read and watch. The operator watches them, but for whom it watches has
    /// to be allowed to.
    async fn readable<'l>(&mut self, guard: &mut Guard, work: Vec<Work<'l>>) -> Result<Vec<Work<'l>>, Error> {
        let Some(account) = self.scope.cluster.account().cloned() else { return Ok(work) };
        let needed: BTreeSet<Right> =
            work.iter().flat_map(|(_, locked, kind)| rights(locked, kind)).collect();
        let missing = self.scope.ctx.rights.missing(self.scope.cluster, needed.into_iter().collect()).await?;
        let missing: HashSet<Right> = missing.all().collect();
        let mut readable = Vec::with_capacity(work.len());
        for (suspicion, locked, kind) in work {
            let lacks: Vec<Right> =
                rights(locked, &kind).into_iter().filter(|right| missing.contains(right)).collect();
            if lacks.is_empty() {
                readable.push((suspicion, locked, kind));
            } else {
                let missing = describe(&lacks);
                let error = Error::RightsMissing { account: account.clone(), missing };
                self.fails(guard, &suspicion.id, &error);
            }
        }
        Ok(readable)
    }

    async fn claim_and_watch(
        &self,
        lock: &LockOf,
        locked: &Locked,
        kind: &Kind,
        patience: tokio::time::Instant,
    ) -> Result<(), Error> {
        let id = &locked.guarded.object.id;
        if lock.installer == Installer::Sherpack && self.beyond(lock, id) == Some(Beyond::Elsewhere) {
            // Each namespace would have watches of its own.
            return Err(self.needs_account(lock, id, Beyond::Elsewhere));
        }
        self.claim_object(lock, &locked.guarded.object.api_version, id).await?;
        match lock.installer {
            Installer::Helm => self.scope.ctx.guards.ensure(kind, self.scope.key, patience).await?,
            Installer::Sherpack => {
                self.scope.ctx.guards.table().is_unlabelled(id);
                self.scope.ctx.guards.ensure_around(id, kind, self.scope.key, patience).await?;
            }
        }
        Ok(())
    }

    /// Makes the object this release's to lock, unless another release has the better claim.
    async fn claim_object(&self, lock: &LockOf, api_version: &str, id: &ObjectId) -> Result<(), Error> {
        let installed = self.scope.ctx.objects.table().owner(id).map(ToString::to_string);
        if let Some(owner) = installed {
            return Err(taken(id, owner));
        }
        for _ in 0..super::TRIES {
            let Err(holder) = self.scope.ctx.guards.table().track(self.scope.key, id) else { return Ok(()) };
            if self.yields_to(&holder, lock, api_version, id).await? {
                // It may be about to make way, and has not heard of us yet.
                self.scope.ctx.guards.wake(&holder);
                return Err(taken(id, holder.to_string()));
            }
            if self.scope.ctx.guards.table().owner(id) != Some(&holder) {
                // It changed hands while the object was read: another holder has another claim.
                continue;
            }
            let before = self.scope.ctx.guards.table().take_over(self.scope.key, id);
            // It learns that the object is not its own any more.
            before.iter().for_each(|before| self.scope.ctx.guards.wake(before));
            return Ok(());
        }
        Err(Error::Undecided)
    }

    /// Whether the release that holds an object has the better claim. It keeps its lock while its spec is invalid.
    async fn yields_to(
        &self,
        holder: &ReleaseKey,
        lock: &LockOf,
        api_version: &str,
        id: &ObjectId,
    ) -> Result<bool, Error> {
        let held = self.scope.ctx.releases.get(&ObjectRef::new(&holder.name).within(&holder.namespace));
        let held = held.as_ref().and_then(|other| Some((other, api::lock_named(other)?)));
        let Some((other, theirs)) = held else { return Ok(false) };
        let live = self.scope.cluster.metadata(api_version, id).await?;
        let annotations = live.as_ref().and_then(|live| live.annotations.as_ref());
        let claim = |release: &SherpackRelease, lock: &LockOf| {
            let created = release.metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
            Claim::of(&ReleaseKey::of(release), created, lock, id, annotations)
        };
        Ok(claim(other, &theirs) < claim(self.scope.release, lock))
    }

    /// Another release may have taken the object over since it was claimed.
    pub(super) fn still_ours(&self, id: &ObjectId) -> Result<(), Error> {
        let owner = self.scope.ctx.guards.table().owner(id).filter(|owner| *owner != self.scope.key).cloned();
        owner.map_or(Ok(()), |owner| Err(taken(id, owner.to_string())))
    }

    /// Why the object is not this lock's to write: the operator would do for the author of a record what that author may
    /// not do.
    pub(super) fn beyond(&self, lock: &LockOf, id: &ObjectId) -> Option<Beyond> {
        let as_operator = matches!(self.scope.settings.acts_as, ActsAs::Operator);
        let trusted = !as_operator || self.scope.ctx.policy.lock.as_operator;
        (!trusted).then(|| Beyond::of(id, &lock.namespace)).flatten()
    }

    pub(super) fn needs_account(&self, lock: &LockOf, id: &ObjectId, beyond: Beyond) -> Error {
        Error::LockNeedsAccount {
            id: Box::new(id.clone()),
            what: beyond.as_str(),
            records: lock.namespace.clone(),
        }
    }

    /// Lets go of an object that this release may not have or not read.
    pub(super) fn give_up(&mut self, lock: &LockOf, id: &ObjectId) {
        self.scope.ctx.guards.table().forget(self.scope.key, id);
        let subject = watched(lock, id);
        let used = self
            .scope
            .ctx
            .guards
            .table()
            .tracked(self.scope.key)
            .iter()
            .any(|id| watched(lock, id) == subject);
        if !used {
            self.scope.ctx.guards.retain(self.scope.key, |kept| *kept != subject);
        }
    }
}

/// The object is not this release's to have, so it is not kept for a better moment.
pub(super) fn is_refused(error: &Error) -> bool {
    match error {
        Error::RightsMissing { .. } | Error::LockNeedsAccount { .. } => true,
        Error::Cluster(error) => matches!(**error, cluster::Error::NotOwned { .. }),
        _ => false,
    }
}

/// What has to be allowed before an object is watched. For all names: so is the watch.
fn rights(locked: &Locked, kind: &Kind) -> Vec<Right> {
    let namespace = locked.guarded.object.id.namespace.as_deref();
    let Kind { resource, .. } = kind;
    READ.iter().map(|verb| right(verb, &resource.group, &resource.plural, namespace, "")).collect()
}

fn taken(id: &ObjectId, owner: String) -> Error {
    cluster::Error::NotOwned { id: id.clone(), holder: OwnedBy::Release(owner) }.into()
}

/// What shows an object.
pub(super) fn watched(lock: &LockOf, id: &ObjectId) -> Subject {
    match lock.installer {
        Installer::Helm => Subject::kind(&id.group, &id.kind),
        Installer::Sherpack => Subject::around(id),
    }
}
