//! The revisions behind the newest one: superseded, and no more of them than the limit says.

use std::collections::BTreeMap;

use futures::TryStreamExt;

use crate::manifest;
use crate::reconcile::status::{self, Finished, Progress};
use crate::reconcile::{Error, Pass};
use crate::release::decide::Operation;
use crate::release::{Action, FAILED_KEPT, Private, Retained, State, surplus};
use crate::storage::{Head, Records, Stored};

impl Pass<'_> {
    /// Puts the history in order behind a revision that was just deployed, then says that the operation is finished.
    ///
    /// `before` is the revision that was deployed until now, as far as the new one knows; `ailing` what is not healthy
    /// and was not waited for.
    pub(in crate::reconcile) async fn conclude(
        &mut self,
        deployed: &Stored,
        before: Option<u32>,
        ailing: Option<String>,
    ) -> Result<Progress, Error> {
        let revision = deployed.record.version;
        if before.is_some_and(|before| before + 1 == revision) {
            self.supersede(revision - 1).await?;
        } else if revision > 1 {
            // After failures, another tool's revisions, or a crash: look at what is there.
            self.supersede_older(revision).await?;
        }
        self.retain(revision).await?;
        self.settle_deployed_jobs().await?;
        self.sweep_kept(deployed.private.as_ref()).await;
        let action = deployed.private.as_ref().map_or(Action::Install, |private| private.action);
        let (manifest_digest, values_digest) = status::digests(deployed);
        Ok(Progress::Finished(Finished {
            action,
            revision,
            failure: None,
            ailing,
            manifest_digest,
            values_digest,
        }))
    }

    /// What a crash left to do behind a deployed revision is done before another one begins: that one may be refused for
    /// good.
    pub(in crate::reconcile) async fn conclude_before(&mut self, next: &Operation) -> Result<(), Error> {
        let begins = matches!(
            next,
            Operation::Install { .. } | Operation::Upgrade { .. } | Operation::Rollback { .. }
        );
        let Some((Head::Ours(head), _)) = &self.mem.head else { return Ok(()) };
        let deployed = head.record.state == State::Deployed && self.own_private().is_some();
        if !(begins && deployed) || self.is_told(head.record.version) {
            return Ok(());
        }
        let deployed = self.read_head_whole().await?;
        self.conclude(&deployed, None, None).await?;
        self.mem.ended.push(status::ended(&deployed, self.now));
        Ok(())
    }

    /// The status says how this revision ended, or the next one will.
    fn is_told(&self, revision: u32) -> bool {
        let history = self.release.status.iter().flat_map(|status| &status.history);
        history.chain(&self.mem.ended).any(|entry| entry.revision == i64::from(revision))
    }

    /// What a crash or an error left to do after the newest revision was deployed.
    pub(in crate::reconcile) async fn catch_up(&mut self) -> Result<Progress, Error> {
        let revision = match &self.mem.head {
            Some((Head::Ours(stored), _)) => stored.record.version,
            _ => return Ok(Progress::Nothing),
        };
        if !self.is_told(revision) {
            let deployed = self.read_head_whole().await?;
            return self.conclude(&deployed, None, None).await;
        }
        // Told, and yet an older one called itself the newest when this process began.
        for old in self.ctx.outdated(&self.records_of()).into_iter().filter(|old| *old < revision) {
            self.supersede(old).await?;
        }
        self.take_over_definitions().await?;
        self.settle_deployed_jobs().await?;
        Ok(Progress::Nothing)
    }

    async fn supersede(&mut self, old: u32) -> Result<(), Error> {
        let (namespace, name) = (&self.settings.target_namespace, &self.settings.release_name);
        match self.records().await?.get(namespace, name, old).await? {
            Head::Ours(stored) | Head::Foreign(stored) => self.superseded(*stored).await,
            Head::None | Head::Unreadable(_) => Ok(()),
        }
    }

    async fn supersede_older(&mut self, revision: u32) -> Result<(), Error> {
        let outdated = |stored: &Stored| {
            let deployed = stored.record.state == State::Deployed && self.doubtful(stored).is_none();
            stored.head || deployed || self.is_left(stored)
        };
        for stored in self.older(revision, outdated).await? {
            self.superseded(stored).await?;
        }
        Ok(())
    }

    /// Ends what was under way when another tool wrote a newer record.
    pub(in crate::reconcile) async fn end_left(&mut self, revision: u32) -> Result<(), Error> {
        for stored in self.older(revision, |stored| self.is_left(stored)).await? {
            self.superseded(stored).await?;
        }
        Ok(())
    }

    /// A pending record of ours that is not the newest one.
    fn is_left(&self, stored: &Stored) -> bool {
        let ours = stored.private.as_ref().is_some_and(|private| self.owns(&private.owner));
        ours && stored.record.state.is_pending()
    }

    /// The records below a revision that are meant.
    async fn older(&self, revision: u32, meant: impl Fn(&Stored) -> bool) -> Result<Vec<Stored>, Error> {
        let (namespace, name) = (&self.settings.target_namespace, &self.settings.release_name);
        let records = self.records().await?;
        let mut history = std::pin::pin!(records.survey(namespace, name));
        let mut found = Vec::new();
        while let Some(head) = history.try_next().await? {
            if let Head::Ours(stored) | Head::Foreign(stored) = head
                && stored.record.version < revision
                && meant(&stored)
            {
                found.push(*stored);
            }
        }
        Ok(found)
    }

    /// Whoever wrote it: it is not deployed any more, and not the newest one.
    async fn superseded(&mut self, stored: Stored) -> Result<(), Error> {
        let mut stored = match stored.is_whole() || !self.is_rewritten(&stored) {
            true => stored,
            false => match self.read_again(stored).await? {
                Some(stored) => stored,
                None => return Ok(()),
            },
        };
        // To write what nobody has proved would lose its private part for good.
        if stored.record.state == State::Deployed && self.doubtful(&stored).is_none() {
            stored.record.state = State::Superseded;
            stored.record.updated_at = self.now;
            self.save(&stored, false).await?;
        } else if self.is_left(&stored) {
            self.end_interrupted(stored).await?;
        } else if stored.head {
            self.records().await?.set_head(&stored, false).await?;
        }
        Ok(())
    }

    /// Whether [`superseded`](Self::superseded) writes it, and not only its mark.
    fn is_rewritten(&self, stored: &Stored) -> bool {
        let deployed = stored.record.state == State::Deployed && self.doubtful(stored).is_none();
        deployed || self.is_left(stored)
    }

    /// All of a record of which a summary is known. `None`: it is gone, or cannot be read.
    async fn read_again(&mut self, slim: Stored) -> Result<Option<Stored>, Error> {
        self.claim(slim.weight)?;
        let (namespace, name) = (&self.settings.target_namespace, &self.settings.release_name);
        match self.records().await?.get(namespace, name, slim.record.version).await? {
            Head::Ours(stored) | Head::Foreign(stored) => Ok(Some(*stored)),
            Head::None | Head::Unreadable(_) => Ok(None),
        }
    }

    /// [`Pass::retain`] after something that is to be told, whatever becomes of this: what stays is too many only until
    /// the next operation has ended.
    pub(in crate::reconcile) async fn retain_if_possible(&mut self, revision: u32) {
        if let Err(error) = self.retain(revision).await {
            tracing::debug!(release = %self.key, %error, "surplus revisions were not deleted");
        }
    }

    /// Deletes the revisions that are too many; `revision` is the newest.
    async fn retain(&mut self, revision: u32) -> Result<(), Error> {
        let limit = usize::try_from(self.settings.history_limit).unwrap_or(usize::MAX);
        if usize::try_from(revision).is_ok_and(|most| most <= limit.min(FAILED_KEPT)) {
            return Ok(());
        }
        let (namespace, name) = (&self.settings.target_namespace, &self.settings.release_name);
        // Content decides: records of other tools are their history, and not every old revision may go.
        let mut all = BTreeMap::new();
        {
            let records = self.records().await?;
            let mut history = std::pin::pin!(records.survey(namespace, name));
            while let Some(head) = history.try_next().await? {
                let Some(stored) = head.stored() else { continue };
                // A revision may come twice.
                all.insert(stored.record.version, (self.retained(&head, stored), stored.meta()));
            }
        }
        let records = self.records().await?;
        let retained: Vec<Retained> = all.values().map(|(retained, _)| retained.clone()).collect();
        for revision in surplus(&retained, limit) {
            if let Some((_, meta)) = all.get(&revision) {
                records.delete(meta).await?;
                self.mem.given_up.push(revision);
            }
        }
        Ok(())
    }

    /// What decides whether a record stays. Of its content no more than a digest is kept.
    fn retained(&self, head: &Head, stored: &Stored) -> Retained {
        let revision = stored.record.version;
        let own = stored.private.as_ref().filter(|private| self.owns(&private.owner));
        let private = own.filter(|_| matches!(head, Head::Ours(_)));
        Retained {
            revision,
            state: stored.record.state.name(),
            is_ours: private.is_some(),
            pinned: self.settings.rollback_to == Some(revision),
            manifest: private.map(|private| effect(stored, private)).unwrap_or_default(),
            replaces: private.map(|private| private.replaces.clone()).unwrap_or_default(),
        }
    }
}

/// Digest of everything that going back to a revision would apply and run: definitions of resources and hooks are not in
/// its manifest.
fn effect(stored: &Stored, private: &Private) -> String {
    let hooks: Vec<&str> = stored.record.hooks.iter().map(|hook| hook.resource.as_str()).collect();
    let shipped = private.definitions.iter().filter(|shipped| shipped.written);
    let bodies: Vec<_> = shipped.filter_map(|shipped| shipped.body.as_ref()).collect();
    let effect = (&stored.record.manifest, hooks, bodies);
    // Texts and JSON always serialise.
    manifest::digest_of(&serde_json::to_vec(&effect).unwrap_or_default())
}
