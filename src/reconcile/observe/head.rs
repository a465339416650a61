//! What a pass knows before it decides. Reads only what memory and watches do not tell.

use crate::api::{Class, Settings, reasons};
use crate::reconcile::Error;
use crate::reconcile::access::records_elsewhere::HeadAccess;
use crate::reconcile::context::budget::UNPACKED;
use crate::reconcile::context::records_of;
use crate::reconcile::observe::Observe;
use crate::reconcile::records::RecordMemory;
use crate::release::decide;
use crate::release::decide::{
    Deletion, HeadState, Observation, OnFailure, OurHead, Retries, RetryInterval, RollbackTo,
};
use crate::storage::{Head, Records, Stored};
use crate::watch::{Newest, RecordsOf};

impl Observe<'_> {
    /// The newest record: from memory while the record watch agrees, else read. Before it is read, the account is asked
    /// whether it may have it. An account that loses its rights later is heeded at the next read: until the record changes,
    /// what was read before stays in memory and in the status. For a release that is being deleted this gives what the account lacks, and
    /// then only a record that is sealed for the release is known.
    pub(in crate::reconcile) async fn head(&mut self) -> Result<Option<Error>, Error> {
        self.records.recall();
        let of = records_of(self.records.scope.settings);
        let keys = self.records.scope.ctx.records.keys().changes();
        let known = |memory: &RecordMemory, newest: Newest| {
            // Whether one that could not be read has become whole is not told by its version: a part of it may have come back,
            // and another release may have read it since.
            let current = |(head, at): &(Head, Newest)| *at == newest && !matches!(head, Head::Unreadable(_));
            memory.keys == keys && memory.head.as_ref().is_some_and(current)
        };
        let contested = self.records.scope.ctx.names.is_contested(self.records.scope.key);
        let asked =
            !contested && self.records.memory.head_for.as_ref() == Some(&self.records.scope.settings.acts_as);
        if asked && known(self.records.memory, self.records.scope.ctx.record_watch.newest(&of)) {
            return Ok(None);
        }
        if contested {
            // An answer of a moment ago may be why it still has the name.
            self.records.access().doubt_rights(reasons::FORBIDDEN);
        }
        let access = self.records.access().may_know_head().await;
        if access.as_ref().is_err_and(|error| error.class() != Class::Retry) {
            self.records.memory.head = None;
        }
        self.settle_access(&of, &access, contested);
        let (there, refused) = match access? {
            HeadAccess::Granted => (true, None),
            HeadAccess::Refused(error) => (true, Some(error)),
            HeadAccess::NoNamespace => (false, None),
        };
        // Only from here on does news wake this release.
        let newest = self.records.scope.ctx.record_watch.newest(&of);
        let known = known(self.records.memory, newest);
        let newest = if there { newest } else { Newest::None };
        if !known || !there {
            self.read_head(&of, newest).await?;
            self.records.memory.keys = keys;
        }
        // Without its namespace nothing was granted: the account is asked again, also about what this release then stores.
        self.records.memory.head_for =
            (there && refused.is_none()).then(|| self.records.scope.settings.acts_as.clone());
        if refused.is_some() {
            self.keep_own_head_only();
        }
        Ok(refused)
    }

    /// A name counts as claimed, and its records are told of, only with the right to them.
    fn settle_access(&self, of: &RecordsOf, access: &Result<HeadAccess, Error>, contested: bool) {
        let (granted, told) = match access {
            Ok(HeadAccess::Granted) => (true, true),
            // The account is asked again in each pass until the namespace is there.
            Ok(HeadAccess::NoNamespace) => (false, true),
            Ok(HeadAccess::Refused(_)) => (false, false),
            // There was no answer.
            Err(error) if error.class() == Class::Retry => return,
            Err(_) => (false, false),
        };
        self.records
            .scope
            .ctx
            .record_watch
            .claim(self.records.scope.key, if told { std::slice::from_ref(of) } else { &[] });
        self.records.scope.ctx.settle_claim(self.records.scope.release, granted, contested);
    }

    async fn read_head(&mut self, of: &RecordsOf, newest: Newest) -> Result<(), Error> {
        if self.records.running.as_ref().is_some_and(|running| !same_record(&running.stored, newest)) {
            // Another writer wrote the record of our running operation.
            *self.records.running = None;
        }
        // A part that is put back while the record is read is news already.
        if let Newest::At { revision, .. } = newest {
            self.records.scope.ctx.record_watch.heed_parts(of, Some(revision));
        }
        let heard = newest != Newest::None || !self.records.memory.unanswered;
        let head = match (self.records.scope.ctx.preloaded(of), newest) {
            (_, Newest::None) if heard => Head::None,
            // What is in doubt is asked for again: the list may be older than what else is known.
            (Some(stored), newest)
                if same_record(&stored, newest) && !self.records.newest().is_outdated(&stored) =>
            {
                Head::Ours(stored)
            }
            _ => {
                let Settings { target_namespace, release_name, .. } = self.records.scope.settings;
                let (records, claimed) =
                    (self.records.access().record_store_unasked(), self.records.claimed.is_some());
                let mut claims = self.records.claims();
                let room = || claims.claim(UNPACKED);
                let read = records.newest_slim(target_namespace, release_name, room).await;
                if !claimed {
                    // What stays of it is small.
                    *self.records.claimed = None;
                }
                let head = self.records.newest().judged(read??);
                self.records.memory.unanswered = false;
                head
            }
        };
        let at = match &head {
            Head::None => Newest::None,
            Head::Ours(stored) | Head::Foreign(stored) => Newest::At {
                revision: stored.record.version,
                version: stored.resource_version.parse().unwrap_or(0),
            },
            Head::Unreadable(_) => newest,
        };
        self.records.scope.ctx.record_watch.read(of, newest, at);
        let broken = matches!(head, Head::Unreadable(_)).then(|| head.revision()).flatten();
        self.records.scope.ctx.record_watch.heed_parts(of, broken);
        // The newest record went and an older one is the newest now: it knows nothing of what came after it.
        let outlived =
            head.revision().is_some_and(|revision| revision < self.records.newest().known_revision());
        let head = if outlived { Head::None } else { head };
        self.records.memory.doubt_head();
        if !matches!(head, Head::None) {
            self.records.memory.departed = None;
        }
        if let Head::Ours(stored) = &head
            && stored.private.as_ref().is_some_and(|private| self.records.scope.owns(&private.owner))
        {
            self.records.knows(stored);
        }
        self.records.memory.head = Some((head.slim(), at));
        Ok(())
    }

    /// Forgets a newest record that is not sealed for this release.
    fn keep_own_head_only(&mut self) {
        let own = |(head, _): &(Head, _)| head.is_sealed_for(self.records.scope.key);
        if !self.records.memory.head.as_ref().is_some_and(own) {
            self.records.memory.head = None;
        }
    }

    pub(in crate::reconcile) fn observation(
        &self,
        inputs: Option<String>,
        deletion: Option<Deletion>,
        name_taken_by: Option<String>,
    ) -> Observation {
        let settings = &self.records.scope.settings;
        Observation {
            deletion,
            suspended: settings.suspend,
            name_taken_by,
            head: self.observed_head(),
            dependency: inputs.as_ref().and_then(|_| self.blocked()),
            unapproved: inputs.as_deref().and_then(|inputs| self.unapproved(inputs)),
            inputs,
            accepted: self.records.scope.settings.requests.accept_record.clone(),
            spec: self.records.newest().spec_of_failures(),
            reset_requested: self.records.scope.request_pending(crate::api::names::RESET_AT),
            paused: settings.paused,
            successor: decide::Successor::Unknown,
            unreadable: false,
            healed: false,
            retries: Retries { install: settings.install_retries, upgrade: settings.upgrade_retries },
            retry_interval: RetryInterval {
                install: settings.install_retry_interval,
                upgrade: settings.upgrade_retry_interval,
            },
            on_failure: OnFailure {
                uninstall: settings.uninstall_on_failure,
                rollback: settings.rollback_on_failure,
            },
            rollback_to: settings.rollback_to.map(|revision| RollbackTo { revision, problem: None }),
            test: self.test_wanted(),
            drift: if self.records.scope.drift_watched() {
                decide::Drift::Watched
            } else {
                decide::Drift::Ignored
            },
            now: self.records.scope.now,
        }
    }

    fn observed_head(&self) -> decide::Head {
        match self.records.memory.head.as_ref().map(|(head, _)| head) {
            None | Some(Head::None) => decide::Head::None { expected: self.record_expected() },
            Some(Head::Unreadable(unreadable)) => {
                decide::Head::Unreadable { message: unreadable.to_string() }
            }
            Some(Head::Foreign(stored)) => match self.records.newest().doubtful(stored) {
                Some(doubtful) => decide::Head::Doubtful(doubtful),
                None => foreign(stored),
            },
            Some(Head::Ours(stored)) => match &stored.private {
                Some(private) if self.records.scope.owns(&private.owner) => {
                    decide::Head::Ours(OurHead::of(stored.record.version, &stored.record.state, private))
                }
                // Made for another release of another name: as good as another tool's.
                _ => foreign(stored),
            },
        }
    }

    /// Something says that there was a record: our own status, or objects that carry our labels.
    fn record_expected(&self) -> bool {
        let released = self.records.newest().known_revision() > 0;
        let status = self.records.scope.release.status.as_ref();
        let removed_by_us = status.and_then(|status| status.operation.as_ref()).is_some_and(|operation| {
            operation.phase.as_deref() == Some(crate::reconcile::state::progress::PHASE_RECORDS)
        });
        let table = self.records.scope.ctx.objects.table();
        let tracked = !table.tracked(self.records.scope.key).is_empty();
        // A release that is being deleted needs its record for its objects only, and the watch saw them all go.
        let deleting = self.records.scope.release.metadata.deletion_timestamp.is_some();
        let nothing_left = deleting && tracked && table.all_gone(self.records.scope.key);
        (released || tracked) && !removed_by_us && !nothing_left
    }
}

fn foreign(stored: &Stored) -> decide::Head {
    decide::Head::Foreign { revision: stored.record.version, state: HeadState::of(&stored.record.state) }
}

fn same_record(stored: &Stored, newest: Newest) -> bool {
    let version = stored.resource_version.parse().unwrap_or(0);
    newest == Newest::At { revision: stored.record.version, version }
}
