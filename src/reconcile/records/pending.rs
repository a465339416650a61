//! Pending revisions that end without their operation: another one took its place, or the tool that held it is gone.

use crate::api::reasons;
use crate::reconcile::Error;
use crate::reconcile::records::Records;
use crate::reconcile::records::history;
use crate::reconcile::records::history::ended;
use crate::reconcile::records::write::mark_failed;
use crate::release::decide::Operation;
use crate::storage::{Head, Records as _, Stored};

impl Records<'_> {
    /// Marks a pending record as failed, so that the next decision can go on.
    pub(in crate::reconcile) async fn end_pending(&mut self, operation: &Operation) -> Result<(), Error> {
        *self.running = None;
        let (namespace, name) =
            (self.scope.settings.target_namespace.clone(), self.scope.settings.release_name.clone());
        let revision = match self.memory.head.as_ref().map(|(head, _)| head) {
            Some(Head::Ours(stored) | Head::Foreign(stored)) => stored.record.version,
            _ => return Ok(()),
        };
        self.claim_head()?;
        let read =
            self.newest().judged(self.access().record_store().await?.get(&namespace, &name, revision).await?);
        let certain = read.stored().is_none_or(|stored| self.newest().doubtful(stored).is_none());
        let (Head::Ours(mut stored) | Head::Foreign(mut stored), true) = (read, certain) else {
            self.memory.doubt_head();
            return Err(Error::RecordChanged { revision });
        };
        if !stored.record.state.is_pending() {
            self.memory.doubt_head();
            return Ok(());
        }
        let reason = match operation {
            Operation::Recover => {
                "Recovered: the tool that held this revision pending did not end it in time".to_owned()
            }
            _ => format!("{}: other inputs are wanted now", reasons::INTERRUPTED),
        };
        mark_failed(&mut stored, reason, self.scope.now);
        let ours = stored.private.is_some();
        let written = self.save(&stored, true).await?;
        self.history.ended.push(history::ended(&stored, self.scope.now));
        if ours {
            self.wrote(&written);
        } else {
            self.memory.doubt_head();
        }
        // Nothing else may ever end: a user who edits the spec faster than an operation ends makes revisions without bound.
        self.retain_if_possible(revision).await;
        Ok(())
    }

    /// Ends the pending revisions from `newest` down whose successor is stored. After a crash between the two this is made up for.
    pub(in crate::reconcile) async fn interrupt(&mut self, newest: u32) -> Result<(), Error> {
        let mut revision = newest;
        while revision > 0 && self.interrupt_one(revision).await? {
            revision -= 1;
        }
        if revision < newest {
            self.retain_if_possible(newest + 1).await;
        }
        Ok(())
    }

    /// Whether this one was pending.
    async fn interrupt_one(&mut self, revision: u32) -> Result<bool, Error> {
        let (namespace, name) =
            (self.scope.settings.target_namespace.clone(), self.scope.settings.release_name.clone());
        let Head::Ours(stored) = self.access().record_store().await?.get(&namespace, &name, revision).await?
        else {
            return Ok(false);
        };
        if !stored.record.state.is_pending() {
            return Ok(false);
        }
        self.end_interrupted(*stored).await?;
        Ok(true)
    }

    /// Ends a pending revision that is not the newest one.
    pub(in crate::reconcile) async fn end_interrupted(&mut self, mut stored: Stored) -> Result<(), Error> {
        let reason = format!("{}: other inputs are wanted now", reasons::INTERRUPTED);
        mark_failed(&mut stored, reason, self.scope.now);
        self.save(&stored, false).await?;
        self.history.ended.push(ended(&stored, self.scope.now));
        Ok(())
    }
}
