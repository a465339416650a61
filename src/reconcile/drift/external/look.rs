//! Looks at objects that another tool installed, and puts back what differs.

use std::collections::{BTreeMap, HashSet};

use futures::{StreamExt, stream};
use serde_json::Value;

use super::claim::watched;
use super::locked::{Done, Locked, Look};
use crate::api::{Class, DriftMode, Installer, LockOf, names};
use crate::cluster::{self, Applied, Holder as OwnedBy, Mode};
use crate::manifest::managed_fields::ignore::wishes;
use crate::manifest::managed_fields::{self, Holder};
use crate::manifest::{Object, ObjectId};
use crate::plan::guard::{self as plan, Guarded};
use crate::reconcile::Error;
use crate::reconcile::access::claims::Claims;
use crate::reconcile::drift::external::External;
use crate::reconcile::objects::field_handover::left_to_others;
use crate::reconcile::state::guard::Guard;
use crate::release::weight_of;
use crate::watch::{Subject, Suspicion};

const PARALLEL: usize = 8;

impl External<'_> {
    /// Keeps the objects of the newest revision. `false`: that is another one by now, and nothing was written.
    pub(super) async fn keep(&mut self, lock: &LockOf, guard: &mut Guard) -> Result<bool, Error> {
        let Some(head) = &guard.head else { return Ok(false) };
        let current = head.revision().map(|revision| (revision, head.version.clone()));
        let same_rules = self.live().asked_rules().iter().map(|rule| &rule.source).eq(&guard.rules);
        let anew = guard.tracked != current || !same_rules || guard.strict != self.scope.settings.strict;
        self.drift.revert_at = None;
        let lost = self.scope.ctx.guards.table().take_lost(self.scope.key);
        guard.due.extend(lost);
        let work = if anew { Vec::new() } else { self.work(guard) };
        if !anew && work.is_empty() {
            return Ok(true);
        }
        let Some(manifest) = self.manifest(lock, guard).await? else { return Ok(false) };
        let _room = Claims { scope: self.scope, claimed: self.claimed }.to_correct(weight_of(&manifest))?;
        let locked = match self.locked(lock, &manifest).await {
            Ok(locked) => locked,
            Err(error) => {
                self.let_be(guard, false);
                return Err(error);
            }
        };
        drop(manifest);
        // Whether an object has a namespace is guessed while its kind is not known.
        let anew = anew || guard.due.iter().any(|id| !locked.contains_key(id));
        let work = if anew {
            self.begin_to_guard(lock, guard, &locked);
            guard.tracked = current;
            guard.rules = self.live().written_rules(self.newest().own_private());
            guard.strict.clone_from(&self.scope.settings.strict);
            self.work(guard)
        } else {
            work
        };
        let work: Vec<(Suspicion, &Locked)> = work
            .into_iter()
            .filter_map(|suspicion| Some((suspicion.clone(), locked.get(&suspicion.id)?)))
            .collect();
        self.keep_these(lock, guard, work).await
    }

    /// What is to be looked at now; sets when the rest is.
    fn work(&mut self, guard: &Guard) -> Vec<Suspicion> {
        let mut suspicions = self.scope.ctx.guards.suspicions(self.scope.key);
        let suspected = |id: &ObjectId| suspicions.iter().any(|suspicion| suspicion.id == *id);
        let unseen: Vec<Suspicion> = guard.due.iter().filter(|id| !suspected(id)).map(unseen).collect();
        suspicions.extend(unseen);
        let warn = self.scope.settings.drift == DriftMode::Warn;
        self.drift.due(suspicions, warn, self.scope.now)
    }

    /// The objects of a manifest that are locked, each in its namespace.
    async fn locked(&mut self, lock: &LockOf, manifest: &str) -> Result<BTreeMap<ObjectId, Locked>, Error> {
        let mut locked = BTreeMap::new();
        let documents = plan::documents(manifest, &format!("the manifest of {lock}"))?;
        let count = documents.iter().filter(|guarded| !guarded.is_free()).count();
        let limit = self.scope.ctx.policy.lock.objects;
        if count > limit {
            return Err(Error::LockTooLarge { lock: lock.clone(), count, limit });
        }
        let scaled = plan::scaled(&documents, &lock.namespace);
        for guarded in documents {
            if guarded.is_free() {
                continue;
            }
            let Object { id, api_version, .. } = &guarded.object;
            let kind = self.scope.cluster.kind(api_version, &id.kind).await.map_err(Error::from);
            let own = id.namespace.clone().unwrap_or_else(|| lock.namespace.clone());
            let namespaced = kind.as_ref().map_or(true, |kind| kind.namespaced);
            let guarded = guarded.within(namespaced.then_some(own.as_str()));
            let guarded = match lock.installer {
                Installer::Helm => guarded.marked_by_helm(&lock.name, &lock.namespace),
                Installer::Sherpack => guarded,
            };
            if wishes(self.live().asked_rules(), &guarded.object).is_some_and(|wishes| wishes.whole) {
                continue;
            }
            self.secrets.of_object(&guarded.object);
            let scaled = scaled.contains(&guarded.object.id);
            locked.insert(guarded.object.id.clone(), Locked { guarded, kind, scaled });
        }
        Ok(locked)
    }

    /// Lets go of what the revision before had, and has each object of this one looked at.
    fn begin_to_guard(&mut self, lock: &LockOf, guard: &mut Guard, locked: &BTreeMap<ObjectId, Locked>) {
        let mut table = self.scope.ctx.guards.table();
        for gone in table.tracked(self.scope.key).iter().filter(|id| !locked.contains_key(*id)) {
            table.forget(self.scope.key, gone);
        }
        drop(table);
        let used: HashSet<Subject> = locked.keys().map(|id| watched(lock, id)).collect();
        self.scope.ctx.guards.retain(self.scope.key, |subject| used.contains(subject));
        guard.objects = locked.len();
        guard.due = locked.keys().cloned().collect();
        self.drift.forget_behaviour();
        self.drift.take_back(|reported| !locked.contains_key(reported));
    }

    async fn keep_these(
        &mut self,
        lock: &LockOf,
        guard: &mut Guard,
        work: Vec<(Suspicion, &Locked)>,
    ) -> Result<bool, Error> {
        let watched = self.begin_to_watch(lock, guard, work).await?;
        let standard = guard.holder.clone().unwrap_or_else(|| installer(lock, guard));
        let warn = self.scope.settings.drift == DriftMode::Warn;
        let looks: Vec<_> = {
            let looks = watched
                .into_iter()
                .map(|(suspicion, locked)| self.look_closely(lock, suspicion, locked, &standard));
            // Collected first: the compiler cannot follow a closure that borrows in a stream.
            stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await
        };
        let writes = |look: &Result<Look, Error>| matches!(look, Ok(Look::Gone | Look::Differs { .. }));
        if !warn && looks.iter().any(|(_, _, look)| writes(look)) {
            // An installer announces it before anything is touched: what was read before this is its own no more.
            let still = self.is_still_newest(lock, guard).await;
            if !matches!(still, Ok(true)) {
                for (suspicion, ..) in &looks {
                    self.scope.ctx.guards.table().abandon(&suspicion.id);
                }
                return still;
            }
        }
        let done: Vec<_> = {
            let writes = looks
                .into_iter()
                .map(|(suspicion, locked, look)| self.act_on(suspicion, locked, look, &standard, warn));
            stream::iter(writes.collect::<Vec<_>>()).buffer_unordered(PARALLEL).collect().await
        };
        for (suspicion, locked, done) in done {
            self.note(guard, suspicion, &locked.guarded.object, done);
        }
        Ok(true)
    }

    async fn look_closely<'l>(
        &self,
        lock: &LockOf,
        suspicion: Suspicion,
        locked: &'l Locked,
        standard: &Holder,
    ) -> (Suspicion, &'l Locked, Result<Look, Error>) {
        let look = self.look(lock, &locked.guarded, standard, locked.scaled).await;
        let beyond = self.beyond(lock, &suspicion.id);
        let look = match (look, beyond) {
            // Nothing is told of it that the author of the record might not know.
            (Ok(Look::Gone | Look::Differs { .. }), Some(beyond))
                if self.scope.settings.drift != DriftMode::Warn =>
            {
                Err(self.needs_account(lock, &suspicion.id, beyond))
            }
            (Err(error), Some(beyond)) if error.class() != Class::Retry => {
                Err(self.needs_account(lock, &suspicion.id, beyond))
            }
            (look, _) => look,
        };
        (suspicion, locked, look)
    }

    async fn act_on<'l>(
        &self,
        suspicion: Suspicion,
        locked: &'l Locked,
        look: Result<Look, Error>,
        standard: &Holder,
        warn: bool,
    ) -> (Suspicion, &'l Locked, Result<Done, Error>) {
        let done = match look {
            Ok(look) if !warn => match self.still_ours(&suspicion.id) {
                Ok(()) => self.write(&locked.guarded, look, standard).await,
                Err(error) => Err(error),
            },
            look => look.map(|look| (look, None)),
        };
        (suspicion, locked, done)
    }

    /// A field manager changed a field and changed it back: it is as it should be, and that manager owns it. An installer that applies
    /// has it again by now, but would meet a conflict with its next change of it.
    async fn hold_alone(
        &self,
        api_version: &str,
        id: &ObjectId,
        before: &Applied,
        written: Applied,
        holder: &Holder,
    ) -> Result<Applied, Error> {
        match managed_fields::held_alone(before.managed_fields(), written.managed_fields(), holder) {
            Some(entries) => {
                Ok(self.scope.cluster.set_holders(api_version, id, &written, &entries, holder).await?)
            }
            None => Ok(written),
        }
    }

    /// Reads an object and asks what a write would change.
    async fn look(
        &self,
        lock: &LockOf,
        guarded: &Guarded,
        standard: &Holder,
        scaled: bool,
    ) -> Result<Look, Error> {
        let object = &guarded.object;
        let Object { id, api_version, .. } = object;
        self.scope.ctx.guards.table().begin(id);
        let Some(live) = self.scope.cluster.get(api_version, id).await? else { return Ok(Look::Gone) };
        if live.is_leaving() {
            return Ok(Look::Leaving);
        }
        let value = live.value();
        if let Some(holder) = another_owner(lock, &value) {
            return Err(cluster::Error::NotOwned { id: id.clone(), holder }.into());
        }
        let held = match lock.installer {
            Installer::Helm => plan::helm_holder(&value),
            Installer::Sherpack => None,
        };
        let holder = held.unwrap_or_else(|| standard.clone());
        let managed = managed_fields::as_ours(live.managed_fields(), &holder);
        let left = wishes(self.live().asked_rules(), &guarded.object)
            .map(|wishes| guarded.leaving(&wishes, &value, &managed, holder.applies));
        let guarded = left.as_ref().unwrap_or(guarded);
        let taken = left_to_others(&guarded.body, &managed);
        let body = plan::revert_body(guarded, &holder, &value, &taken, scaled);
        let would = self.scope.cluster.put_back(api_version, id, &body, &holder, Mode::DryRun).await?;
        // In Warn mode a value that is as it should be is not told, whatever field manager holds it.
        let warn = self.scope.settings.drift == DriftMode::Warn;
        let differs = plan::would_change(&value, &would.value(), Some(&holder).filter(|_| !warn));
        let live = Box::new(live);
        Ok(if differs {
            Look::Differs { live, body, holder, evidence: managed }
        } else if !self.additions(object, &value, &managed).is_empty() {
            let evidence = managed_fields::nothing_lost(&managed, &guarded.object);
            Look::Differs { live, body, holder, evidence }
        } else {
            Look::InOrder(live)
        })
    }

    /// Puts an object back if it differs; gives what became of it.
    async fn write(&self, guarded: &Guarded, look: Look, standard: &Holder) -> Result<Done, Error> {
        let Object { id, api_version, .. } = &guarded.object;
        let written = match &look {
            Look::InOrder(_) | Look::Leaving => None,
            Look::Gone => {
                Some(self.scope.cluster.create_again(api_version, id, &guarded.body, standard).await?)
            }
            Look::Differs { live, body, holder, .. } => {
                let written = self.scope.cluster.put_back(api_version, id, body, holder, Mode::Real).await?;
                let written = self.hold_alone(api_version, id, live, written, holder).await?;
                Some(self.take_additions(&guarded.object, written, holder).await?)
            }
        };
        if let (Look::Differs { live, .. }, Some(written)) = (&look, &written)
            && live.version == written.version
        {
            // What was added is what the API server fills in itself.
            return Ok((Look::InOrder(live.clone()), None));
        }
        Ok((look, written))
    }
}

/// An object that is looked at without any event of it.
fn unseen(id: &ObjectId) -> Suspicion {
    Suspicion {
        id: id.clone(),
        gone: false,
        managed_fields: Vec::new(),
        fingerprint: None,
        version: 0,
        since: None,
    }
}

/// How an installer holds what it installs, when no object tells.
fn installer(lock: &LockOf, guard: &Guard) -> Holder {
    match lock.installer {
        Installer::Helm => Holder {
            manager: names::MANAGER_HELM.to_owned(),
            applies: guard.head.as_ref().is_some_and(|head| head.server_side),
        },
        Installer::Sherpack => managed_fields::sherpack_holder(),
    }
}

/// Who else says that an object is theirs.
fn another_owner(lock: &LockOf, live: &Value) -> Option<OwnedBy> {
    if live.pointer("/metadata/annotations").is_some_and(|all| all.get(names::APPLIED).is_some()) {
        return Some(OwnedBy::Unknown);
    }
    match lock.installer {
        Installer::Helm => plan::other_helm_release(live, &lock.name, &lock.namespace).map(OwnedBy::Helm),
        Installer::Sherpack => None,
    }
}
