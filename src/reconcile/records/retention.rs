//! The revisions behind the newest one: superseded, and no more of them than the limit says.

use std::collections::BTreeMap;

use futures::TryStreamExt;

use crate::api::Settings;
use crate::reconcile::Error;
use crate::reconcile::context::budget::UNPACKED;
use crate::reconcile::records::Records;
use crate::release::{FAILED_KEPT, Retained, State, surplus};
use crate::storage::{Head, Meta, Records as _, Stored};

/// An older record that is to be superseded.
struct Old {
    meta: Meta,
    weight: usize,
    /// More than its mark is written.
    rewritten: bool,
}

impl Records<'_> {
    /// Puts the history in order behind a revision that was just deployed. `before` is the revision that was deployed until now,
    /// as far as the new one knows.
    pub(in crate::reconcile) async fn conclude(
        &mut self,
        revision: u32,
        before: Option<u32>,
    ) -> Result<(), Error> {
        if before.is_some_and(|before| before + 1 == revision) {
            self.supersede(revision - 1).await?;
        } else if revision > 1 {
            // After failures, another tool's revisions, or a crash: look at what is there.
            self.supersede_older(revision).await?;
        }
        self.retain(revision).await
    }

    /// Ends what was under way when another tool wrote a newer record.
    pub(in crate::reconcile) async fn end_left(&mut self, revision: u32) -> Result<(), Error> {
        let older = self.older(revision, |stored| self.is_left(stored)).await?;
        self.supersede_all(older).await
    }

    pub(in crate::reconcile) async fn supersede(&mut self, old: u32) -> Result<(), Error> {
        match self.read_old(old, UNPACKED).await? {
            Some(stored) => self.superseded(stored).await,
            None => Ok(()),
        }
    }

    async fn supersede_older(&mut self, revision: u32) -> Result<(), Error> {
        let meant = |stored: &Stored| stored.head || self.is_rewritten(stored);
        let older = self.older(revision, meant).await?;
        self.supersede_all(older).await
    }

    /// A pending record of ours that is not the newest one.
    fn is_left(&self, stored: &Stored) -> bool {
        let ours = stored.private.as_ref().is_some_and(|private| self.scope.owns(&private.owner));
        ours && stored.record.state.is_pending()
    }

    /// The records below a revision that are meant. Any number of them may be large, so nothing of their content is kept.
    async fn older(
        &self,
        revision: u32,
        meant: impl Fn(&Stored) -> bool,
    ) -> Result<BTreeMap<u32, Old>, Error> {
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        let records = self.access().record_store().await?;
        let mut history = std::pin::pin!(records.survey(namespace, name));
        let mut found = BTreeMap::new();
        while let Some(head) = history.try_next().await? {
            if let Head::Ours(stored) | Head::Foreign(stored) = head
                && stored.record.version < revision
                && meant(&stored)
            {
                let rewritten = self.is_rewritten(&stored);
                let old = Old { meta: stored.meta(), weight: stored.weight, rewritten };
                // A revision may come twice.
                found.insert(old.meta.revision, old);
            }
        }
        Ok(found)
    }

    /// Reads again what is to be written, one record after the other. The others lose their mark alone.
    async fn supersede_all(&mut self, older: BTreeMap<u32, Old>) -> Result<(), Error> {
        for (revision, Old { meta, weight, rewritten }) in older {
            if !rewritten {
                if meta.head {
                    self.access().record_store().await?.set_head(&meta, false).await?;
                }
            } else if let Some(stored) = self.read_old(revision, weight).await? {
                self.superseded(stored).await?;
            }
        }
        Ok(())
    }

    /// Our own or another tool's: it is not deployed any more, and not the newest one.
    async fn superseded(&mut self, mut stored: Stored) -> Result<(), Error> {
        // To write what no key proves would lose its private part for good.
        if stored.record.state == State::Deployed && self.newest().doubtful(&stored).is_none() {
            stored.record.state = State::Superseded;
            stored.record.updated_at = self.scope.now;
            self.save(&stored, false).await?;
        } else if self.is_left(&stored) {
            self.end_interrupted(stored).await?;
        } else if stored.head {
            self.access().record_store().await?.set_head(&stored.meta(), false).await?;
        }
        Ok(())
    }

    /// Whether [`superseded`](Self::superseded) writes it, and not only its mark.
    fn is_rewritten(&self, stored: &Stored) -> bool {
        let deployed = stored.record.state == State::Deployed && self.newest().doubtful(stored).is_none();
        deployed || self.is_left(stored)
    }

    /// All of an older record, which takes so much to work with. A small one needs no claim. `None`: it is gone, or cannot
    /// be read.
    async fn read_old(&mut self, revision: u32, weight: usize) -> Result<Option<Stored>, Error> {
        let records = self.access().record_store().await?;
        let Settings { target_namespace, release_name, .. } = self.scope.settings;
        let mut claims = self.claims();
        let room = || claims.claim(weight);
        match records.get_with(target_namespace, release_name, revision, room).await?? {
            Head::Ours(stored) | Head::Foreign(stored) => Ok(Some(*stored)),
            Head::None | Head::Unreadable(_) => Ok(None),
        }
    }

    /// [`Self::retain`] after something that is to be told, whatever becomes of this: what stays is too many only until
    /// the next operation has ended.
    pub(in crate::reconcile) async fn retain_if_possible(&mut self, revision: u32) {
        if let Err(error) = self.retain(revision).await {
            tracing::debug!(release = %self.scope.key, %error, "surplus revisions were not deleted");
        }
    }

    /// Deletes the revisions that are too many; `revision` is the newest.
    async fn retain(&mut self, revision: u32) -> Result<(), Error> {
        let limit = usize::try_from(self.scope.settings.history_limit).unwrap_or(usize::MAX);
        if usize::try_from(revision).is_ok_and(|most| most <= limit.min(FAILED_KEPT)) {
            return Ok(());
        }
        let (namespace, name) = (&self.scope.settings.target_namespace, &self.scope.settings.release_name);
        // Content decides: records of other tools are their history, and not every old revision may go.
        let mut all = BTreeMap::new();
        {
            let records = self.access().record_store().await?;
            let mut history = std::pin::pin!(records.survey(namespace, name));
            while let Some(head) = history.try_next().await? {
                let Some(stored) = head.stored() else { continue };
                // A revision may come twice.
                all.insert(stored.record.version, (self.retained(&head, stored), stored.meta()));
            }
        }
        let records = self.access().record_store().await?;
        let retained: Vec<Retained> = all.values().map(|(retained, _)| retained.clone()).collect();
        for revision in surplus(&retained, limit) {
            if let Some((_, meta)) = all.get(&revision) {
                records.delete(meta).await?;
                self.history.given_up.push(revision);
            }
        }
        Ok(())
    }

    /// What decides whether a record stays. Of its content no more than a digest is kept.
    fn retained(&self, head: &Head, stored: &Stored) -> Retained {
        let revision = stored.record.version;
        let own = stored.private.as_ref().filter(|private| self.scope.owns(&private.owner));
        let private = own.filter(|_| matches!(head, Head::Ours(_)));
        Retained {
            revision,
            state: stored.record.state.name(),
            is_ours: private.is_some(),
            pinned: self.scope.settings.rollback_to == Some(revision),
            manifest: private.and_then(|_| stored.effect.clone()).unwrap_or_default(),
            replaces: private.map(|private| private.replaces.clone()).unwrap_or_default(),
        }
    }
}
