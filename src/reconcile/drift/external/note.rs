//! What is remembered of a look at an object, and told.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::claim::is_refused;
use super::locked::{Done, Look};
use crate::cluster::Applied;
use crate::manifest::{Object, ObjectId, managed_fields};
use crate::plan::guard as plan;
use crate::reconcile::Error;
use crate::reconcile::drift::external::External;
use crate::reconcile::drift::revert::LOOK_AGAIN;
use crate::reconcile::state::drift::DriftAction;
use crate::reconcile::state::guard::Guard;
use crate::watch::{Sighting, Suspicion};

impl External<'_> {
    /// Remembers what was found and done.
    pub(super) fn note(
        &mut self,
        guard: &mut Guard,
        suspicion: Suspicion,
        object: &Object,
        done: Result<Done, Error>,
    ) {
        let id = &object.id;
        let (look, written) = match done {
            Ok(done) => done,
            Err(error) if is_conflict(&error) => {
                self.scope.ctx.guards.table().abandon(id);
                guard.due.insert(id.clone());
                return self.drift.conflicted(id, self.scope.now);
            }
            Err(error) => return self.fails(guard, id, &error),
        };
        self.drift.succeeded(id);
        guard.due.remove(id);
        if let Look::InOrder(live) | Look::Differs { live, .. } = &look
            && let Some(holder) = plan::helm_holder(&live.value())
        {
            guard.holder = Some(holder);
        }
        let changed = Suspicion {
            gone: matches!(look, Look::Gone),
            managed_fields: match &look {
                Look::Differs { evidence, .. } => evidence.clone(),
                Look::InOrder(_) | Look::Leaving | Look::Gone => Vec::new(),
            },
            ..suspicion.clone()
        };
        match (look, written) {
            (Look::Leaving, _) => {
                self.scope.ctx.guards.table().abandon(id);
                guard.due.insert(id.clone());
                self.drift.come_back_at(self.scope.later(LOOK_AGAIN));
            }
            (Look::InOrder(live), _) => {
                if suspicion.version != 0 {
                    self.drift.false_alarm(id, self.scope.now);
                }
                self.is_as_it_should_be(id, &live);
            }
            (look, Some(written)) => {
                let gone = matches!(look, Look::Gone);
                let action = if gone { DriftAction::Recreated } else { DriftAction::Reverted };
                self.is_as_it_should_be(id, &written);
                self.notes().took_note(&changed, object, action);
            }
            (look, None) => {
                let seen = match &look {
                    Look::Differs { live, .. } => Some(live.live.metadata.clone()),
                    _ => None,
                };
                self.stays_changed(id, seen);
                self.notes().took_note(&changed, object, DriftAction::Reported);
            }
        }
    }

    fn is_as_it_should_be(&mut self, id: &ObjectId, object: &Applied) {
        let fingerprint = Some(managed_fields::whole(&object.live.metadata));
        let again = self.scope.ctx.guards.table().applied(id, fingerprint, object.version, object.uid());
        if again {
            self.scope.ctx.guards.wake(self.scope.key);
        }
        self.drift.take_back(|reported| reported == id);
    }

    /// Warn mode: it goes on to be suspicious, as what it is now.
    fn stays_changed(&mut self, id: &ObjectId, seen: Option<ObjectMeta>) {
        let suspicion = {
            let mut table = self.scope.ctx.guards.table();
            // Nothing is like this.
            table.expect(id, Some(String::new()), None);
            match seen {
                Some(meta) => drop(table.saw(id, Sighting::of_others(meta))),
                None => drop(table.lost(id, 0)),
            }
            table.abandon(id);
            table.suspicions(self.scope.key).into_iter().find(|suspicion| suspicion.id == *id)
        };
        if let Some(suspicion) = suspicion {
            self.drift.looked(&suspicion, self.scope.now);
        }
    }

    pub(super) fn fails(&mut self, guard: &mut Guard, id: &ObjectId, error: &Error) {
        self.scope.ctx.guards.table().abandon(id);
        if let Some(lock) = guard.lock.as_ref().filter(|_| is_refused(error)) {
            self.give_up(lock, id);
        }
        self.scope.ctx.report.failed(error.reason());
        self.access().doubt_rights(error.reason());
        let message = self.secrets.shown_of_one(error);
        self.drift.failed(id, error.reason(), error.class(), &message, self.scope.now);
        guard.due.insert(id.clone());
    }
}

/// Another writer changed the object, or the record, since it was read.
fn is_conflict(error: &Error) -> bool {
    error.is_conflict() || matches!(error, Error::Cluster(error) if error.is_conflict())
}
