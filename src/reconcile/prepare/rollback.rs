//! Goes back to a stored revision: its manifest becomes the next revision. Nothing is rendered.

use std::time::Duration;

use crate::manifest::{Object, ObjectId};
use crate::pack::DefinitionWishes;
use crate::plan::{self, Parts};
use crate::reconcile::Error;
use crate::reconcile::crds::definitions::Candidate;
use crate::reconcile::prepare::Prepare;
use crate::reconcile::prepare::beginning::{Beginning, inventory};
use crate::reconcile::prepare::revision::Prepared;
use crate::reconcile::records::parsed::parts_in;
use crate::reconcile::records::planned::occasion;
use crate::release::decide::{self, Observation, RollbackTo};
use crate::release::{Action, Private, Record, Shipped, State};
use crate::storage::{Head, Provenance, Records, Stored};

impl Prepare<'_> {
    /// Whether the revision to which the release is pinned can be gone back to. Costs a read unless it is there or on
    /// its way.
    pub(in crate::reconcile) async fn observe_rollback(
        &mut self,
        seen: &mut Observation,
    ) -> Result<(), Error> {
        let Some(RollbackTo { revision, problem }) = &mut seen.rollback_to else { return Ok(()) };
        let back = match &self.records.memory.head {
            Some((Head::Ours(head), _)) => {
                let target = head.private.as_ref().and_then(|private| private.target);
                head.record.version == *revision || target == Some(*revision)
            }
            _ => false,
        };
        if !back {
            *problem = match self.target(*revision).await {
                Ok(_) => None,
                Err(error @ Error::RollbackTarget { .. }) => Some(error.to_string()),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// Whether what failed can be undone. When the revision to go back to is gone, no user is asked to go back: the release
    /// rests as it is.
    pub(in crate::reconcile) async fn has_way_back(
        &mut self,
        seen: &mut Observation,
        target: u32,
    ) -> Result<bool, Error> {
        let problem = match self.target(target).await {
            Ok(_) => return Ok(true),
            Err(error @ Error::RollbackTarget { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        self.memory.no_way_back = Some(problem);
        seen.on_failure.rollback = false;
        if let decide::Head::Ours(head) = &mut seen.head {
            (head.target, head.undo_at_once) = (None, false);
        }
        Ok(false)
    }

    /// A revision of ours that was deployed once.
    async fn target(&mut self, revision: u32) -> Result<(Stored, Private), Error> {
        // It is about as large as the newest one; what it really takes is known when it was read.
        self.records.claim_head()?;
        let invalid = |problem: String| Error::RollbackTarget { revision, problem };
        let (namespace, name) =
            (&self.records.scope.settings.target_namespace, &self.records.scope.settings.release_name);
        let stored = match self.access().record_store().await?.get(namespace, name, revision).await? {
            Head::Ours(stored) => *stored,
            Head::None => return Err(invalid("there is no such revision".to_owned())),
            Head::Foreign(stored) => {
                let problem = match stored.provenance {
                    Provenance::Foreign(because) if stored.unproved.is_some() => because.explain(),
                    _ => "another tool wrote it",
                };
                return Err(invalid(problem.to_owned()));
            }
            Head::Unreadable(unreadable) => return Err(invalid(unreadable.to_string())),
        };
        let private = stored.private.clone().filter(|private| self.records.scope.owns(&private.owner));
        let private = private.ok_or_else(|| invalid("it belongs to another release".to_owned()))?;
        self.records.claims().claim(stored.weight)?;
        match stored.record.state {
            State::Deployed | State::Superseded => Ok((stored, private)),
            ref state => Err(invalid(format!("it is {}: only what was deployed can be", state.name()))),
        }
    }

    /// Makes the manifest of `target` a revision that can be stored.
    pub(in crate::reconcile) async fn rollback(
        &mut self,
        revision: u32,
        target: u32,
        attempt: u32,
    ) -> Result<Prepared, Error> {
        let (stored, of_target) = self.target(target).await?;
        let mut parts = parts_in(&stored).await?;
        self.secrets.recall(self.known, target, Some(&of_target.secrets), parts.objects.iter());
        let before = self.records.newest().own_private().cloned();
        let owner_uid = before.as_ref().map_or(&of_target.owner.uid, |private| &private.owner.uid).clone();
        let pinned = self.records.scope.settings.rollback_to == Some(target);
        let definitions =
            self.definitions_of(&mut parts, &of_target.definitions, &owner_uid, !pinned).await?;
        let plan = plan::roll_out(&parts, occasion(Action::Rollback))?;
        let past = self.records.past(revision, false).await?;
        let hooks_before = before.as_ref().map_or(&[][..], |private| &private.hook_objects[..]);
        let inventory = inventory(&past, false, &parts, revision, hooks_before);
        let (settings, now) = (self.records.scope.settings, self.records.scope.now);
        let timeout = settings.timeout.as_secs().max(1);
        let known = past.objects();
        let record = Record {
            version: revision,
            state: State::PendingRollback { started_at: now, timeout, target_version: target },
            labels: self.record_labels(Action::Rollback, Some(target)),
            created_at: now,
            updated_at: now,
            ..stored.record
        };
        let beginning = Beginning {
            action: Action::Rollback,
            attempt,
            revision,
            inputs: of_target.inputs,
            pack_digest: of_target.pack_digest,
            owner_uid,
            inventory,
            hooks: &parts.hooks,
            definitions,
            unreachable: past.unreachable,
            adopts: past.private.as_ref().is_some_and(Private::has_adopted),
            // Secrets that are generated once belong to the release and not to a revision.
            secrets: past.private.map_or(of_target.secrets, |private| private.secrets),
        };
        let last_deployed = before.as_ref().and_then(|private| private.last_deployed);
        let private = Private {
            last_deployed: last_deployed.or(of_target.last_deployed),
            target: Some(target),
            undone: if pinned { None } else { self.records.newest().undone() },
            failures: before.as_ref().map(|private| private.failures.clone()).unwrap_or_default(),
            // What is undone was tried with what it says.
            immutable_fields: match &before {
                Some(before) if !pinned => before.immutable_fields,
                _ => settings.immutable_fields,
            },
            ..self.private(beginning)
        };
        Ok(Prepared { record, private, parts, plan, before: Some(known) })
    }

    /// Judges the definitions of a stored revision against those of the cluster: the way back is a change like others. One
    /// that may not go back leaves the parts; `undoes` says that this must not hold the rest up.
    async fn definitions_of(
        &mut self,
        parts: &mut Parts,
        known: &[Shipped],
        uid: &str,
        undoes: bool,
    ) -> Result<Vec<Shipped>, Error> {
        let (definitions, rest): (Vec<Object>, Vec<Object>) =
            std::mem::take(&mut parts.objects).into_iter().partition(|object| object.id.is_definition());
        let of = |object: &Object| known.iter().find(|known| known.name == object.id.name);
        let candidates = definitions.into_iter().map(|object| {
            let known = of(&object);
            let wait = known.and_then(|known| known.wait);
            let wishes = DefinitionWishes {
                wait_ready: Some(wait.is_some()),
                wait_timeout: wait.map(Duration::from_secs),
                keep: known.map(|known| !known.goes),
                ..DefinitionWishes::default()
            };
            Candidate { in_manifest: known.is_none_or(|known| known.body.is_none()), object, wishes }
        });
        let judged = self.judging().judge_definitions(candidates.collect(), uid, undoes).await?;
        let later = judged.shipped.iter().filter(|shipped| shipped.webhook_later);
        parts.webhooks_later = later.map(|shipped| ObjectId::definition(&shipped.name)).collect();
        parts.objects = judged.objects.into_iter().chain(rest).collect();
        let unwritten = known.iter().filter(|known| !known.written).cloned();
        Ok(judged.shipped.into_iter().chain(unwritten).collect())
    }
}
