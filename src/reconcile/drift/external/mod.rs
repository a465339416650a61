//! Locks what another tool installed: a release of Helm, or one of another Sherpack tool.
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

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{self, Class, Installer, LockOf, SherpackRelease};
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::reconcile::context::Scope;
use crate::reconcile::context::fair::Turn;
use crate::reconcile::context::name_claims::is_strange;
use crate::reconcile::drift::Notes;
use crate::reconcile::objects::Objects;
use crate::reconcile::records::{NewestRecord, RecordMemory};
use crate::reconcile::state::drift::DriftMemory;
use crate::reconcile::state::guard::Guard;
use crate::reconcile::state::redact::Secrets;
use crate::release::ReleaseKey;
use crate::release::guard::{Found, Sight, Stance, stance};

/// The newest revision may change while it is acted on; then it is looked at again, so many times.
const TRIES: usize = 4;

/// Keeps the objects of a release that others installed.
pub(in crate::reconcile) struct External<'a> {
    pub scope: Scope<'a>,
    pub records: &'a RecordMemory,
    pub drift: &'a mut DriftMemory,
    pub secrets: &'a mut Secrets,
    /// What the pass has of the memory for manifests and objects.
    pub claimed: &'a mut Option<Turn>,
}

impl<'a> External<'a> {
    fn access(&self) -> Access<'a> {
        Access { scope: self.scope }
    }

    fn newest(&self) -> NewestRecord<'a> {
        NewestRecord { scope: self.scope, memory: self.records }
    }

    fn live(&self) -> Objects<'a> {
        Objects { scope: self.scope }
    }

    fn notes(&mut self) -> Notes<'_> {
        Notes { scope: self.scope, memory: self.drift }
    }

    /// Looks at the newest revision, and keeps its objects if that is what it asks for.
    pub(in crate::reconcile) async fn take_stance(
        &mut self,
        lock: &LockOf,
        guard: &mut Guard,
    ) -> Result<Stance, Error> {
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

    /// [`External::look_up`], and what it says of the claim to the lock. A suspended lock claims nothing.
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
    pub(in crate::reconcile) fn let_be(&mut self, guard: &mut Guard, soon: bool) {
        self.scope.ctx.guards.table().forget_all(self.scope.key);
        if !soon {
            self.scope.ctx.guards.retain(self.scope.key, |_| false);
        }
        guard.tracked = None;
        guard.due.clear();
        self.drift.forget_objects();
    }

    /// A release that locks the same and lives beside it or is older, or one that lives beside the records and installs them.
    ///
    /// A release of another namespace may name any target. It counts once it has stored a record here, which is sealed and
    /// names it; see [`Head::installed_by`](crate::reconcile::state::guard::Head::installed_by).
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
}
