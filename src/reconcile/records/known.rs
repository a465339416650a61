//! What is known of the newest record beside what the record itself says: an older state of it is no newest one.

use crate::api::names;
use crate::manifest::digest_of;
use crate::reconcile::records::{NewestRecord, Records};
use crate::release::decide::{Doubt, Doubtful};
use crate::release::{Owner, Private};
use crate::storage::{Because, Head, Provenance, Stored};

/// Revision and number of writes of the newest record that was ever seen.
pub(in crate::reconcile) type Known = (u32, u64);

impl<'a> NewestRecord<'a> {
    /// What the status says.
    fn told_of(&self) -> Known {
        let status = self.scope.release.status.as_ref();
        let revision =
            status.and_then(|status| status.revision).and_then(|number| u32::try_from(number).ok());
        let writes =
            status.and_then(|status| status.record_writes).and_then(|number| u64::try_from(number).ok());
        (revision.unwrap_or(0), writes.unwrap_or(0))
    }

    /// The newest state of the newest record that status or memory know.
    pub(in crate::reconcile) fn known(&self) -> Known {
        self.told_of().max(self.memory.known.unwrap_or_default())
    }

    /// Whether a newer state of this very record is known.
    pub(in crate::reconcile) fn is_outdated(&self, stored: &Stored) -> bool {
        let (revision, writes) = self.known();
        let ours = stored.private.as_ref().filter(|private| self.scope.owns(&private.owner));
        ours.is_some_and(|private| stored.record.version == revision && private.writes < writes)
    }

    /// A record as it was read, with what is known beside it.
    pub(in crate::reconcile) fn judged(&self, head: Head) -> Head {
        match head {
            Head::Ours(stored) if self.is_outdated(&stored) => Head::Foreign(Box::new(stored.outdated())),
            head => head,
        }
    }

    /// Why a record that says to be of this release must not be acted on.
    pub(in crate::reconcile) fn doubtful(&self, stored: &Stored) -> Option<Doubtful> {
        let unproved = stored.unproved.as_ref()?;
        // What is damaged may be ours, too.
        if unproved.owner.as_ref().is_some_and(|owner| !self.scope.owns(owner)) {
            return None;
        }
        let Provenance::Foreign(because) = stored.provenance else { return None };
        let (known_revision, known_writes) = self.known();
        // With what is known of the release: a request holds once, and not for the same state put back once more.
        let named = format!("{}\n{}\n{known_revision}.{known_writes}", self.scope.uid(), unproved.digest);
        Some(Doubtful {
            doubt: if because == Because::Older { Doubt::Rewound } else { Doubt::KeyLost },
            digest: unproved.understood.then(|| digest_of(named.as_bytes())),
            message: format!("record {}/{}: {}", stored.namespace, stored.secret_name, because.explain()),
        })
    }

    /// A user waits for an answer: to another spec, or to a request.
    pub(in crate::reconcile) fn spec_changed(&self) -> bool {
        self.scope.generation_changed()
            || self.scope.request_pending(names::RECONCILE_AT)
            || self.scope.request_pending(names::RESET_AT)
            || self.accept_pending()
            || self.scope.request_pending(names::TEST_AT)
    }

    /// The newest revision that status or memory speak of; 0 when they speak of none.
    pub(in crate::reconcile) fn known_revision(&self) -> u32 {
        self.known().0
    }

    /// What it takes to work with the newest record.
    pub(in crate::reconcile) fn weight(&self) -> usize {
        match &self.memory.head {
            Some((Head::Ours(stored) | Head::Foreign(stored), _)) => stored.weight,
            _ => 0,
        }
    }

    /// The number of the newest record; 0 if there is none.
    pub(in crate::reconcile) fn revision(&self) -> u32 {
        self.memory.head.as_ref().and_then(|(head, _)| head.revision()).unwrap_or(0)
    }

    /// The newest record, unless it is of another release of the same name: that one's revisions are not ours to tell.
    pub(in crate::reconcile) fn own_head(self) -> &'a Head {
        match self.memory.head.as_ref().map(|(head, _)| head) {
            Some(Head::Ours(_)) if self.head_owner().is_some_and(|owner| !self.scope.owns(owner)) => {
                &Head::None
            }
            Some(head) => head,
            None => &Head::None,
        }
    }

    /// Whom the newest record names as its owner. What no key proves counts as well: it only keeps a rival away.
    pub(in crate::reconcile) fn head_owner(self) -> Option<&'a Owner> {
        match self.memory.head.as_ref().map(|(head, _)| head) {
            Some(Head::Ours(stored)) => stored.private.as_ref().map(|private| &private.owner),
            Some(Head::Foreign(stored)) => stored.unproved.as_ref()?.owner.as_ref(),
            _ => None,
        }
    }

    /// What the newest record says beside what every tool says, if it is a record of this release.
    pub(in crate::reconcile) fn own_private(self) -> Option<&'a Private> {
        match self.own_head() {
            Head::Ours(head) => head.private.as_ref(),
            Head::None | Head::Foreign(_) | Head::Unreadable(_) => None,
        }
    }
}

impl Records<'_> {
    /// Forgets what this process knows when the SherpackRelease itself went back, as a restore of everything does.
    pub(in crate::reconcile) fn recall(&mut self) {
        let told = (self.scope.uid().to_owned(), self.newest().told_of());
        let went_back =
            self.memory.told.as_ref().is_some_and(|before| before.0 != told.0 || told.1 < before.1);
        if went_back {
            self.memory.known = None;
            *self.running = None;
            self.memory.doubt_head();
        }
        self.memory.told = Some(told);
    }

    /// Takes note of a record of ours.
    pub(in crate::reconcile) fn knows(&mut self, stored: &Stored) {
        if let Some(private) = &stored.private {
            self.memory.known = self.memory.known.max(Some((stored.record.version, private.writes)));
        }
    }
}
