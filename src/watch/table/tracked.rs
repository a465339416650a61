//! What is known of one object.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::manifest::ObjectId;
use crate::release::ReleaseKey;

/// An object as one watch event showed it.
#[derive(Clone, Debug, Default)]
pub struct Sighting {
    pub fingerprint: Option<String>,
    pub version: u64,
    pub uid: Option<String>,
    pub terminating: bool,
    pub managed_fields: Vec<ManagedFieldsEntry>,
}

#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// No event yet.
    Unknown,
    Live {
        fingerprint: Option<Arc<str>>,
        version: u64,
        uid: Option<Arc<str>>,
        terminating: bool,
    },
    Gone {
        version: u64,
    },
}

#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) owner: ReleaseKey,
    /// The watch of its namespace shows it, and not the one that selects by label.
    pub(super) unlabelled: bool,
    /// The fingerprint after our last apply; `None` until there is one.
    pub(super) expected: Option<Arc<str>>,
    /// The resourceVersion of our last apply; events not above it are its echo or older.
    pub(super) applied_version: u64,
    pub(super) uid: Option<Arc<str>>,
    pub(super) seen: Seen,
    pub(super) evidence: Vec<ManagedFieldsEntry>,
    /// When the object was first seen to differ from our last apply.
    pub(super) since: Option<Instant>,
    /// An apply of ours is under way: whatever is seen now is compared once it has returned.
    pub(super) in_flight: bool,
    /// The release waits for this object: any event wakes it.
    pub(super) wake: bool,
    /// Events that no pass has looked into yet.
    pub(super) news: Option<News>,
    /// The newest version in which the object was read.
    pub(super) looked_version: u64,
    /// Applied or seen since the running list of its kind began, so that list cannot say that it is gone.
    pub(super) fresh: bool,
}

/// An object that is not as we last applied it.
#[derive(Clone, Debug)]
pub struct Suspicion {
    pub id: ObjectId,
    /// Deleted, or one of our labels was removed: one GET tells.
    pub gone: bool,
    /// Who holds which fields now; empty when the object is gone.
    pub managed_fields: Vec<ManagedFieldsEntry>,
    /// Of what we own of it; `None` when that is nothing, or the object is gone.
    pub fingerprint: Option<String>,
    /// resourceVersion of the event.
    pub version: u64,
    /// When the event arrived.
    pub since: Option<Instant>,
}

/// Events of an object since it was applied or looked at.
#[derive(Clone, Copy, Debug)]
pub struct News {
    pub first: Instant,
    pub last: Instant,
    /// The version that the last one told of.
    pub version: u64,
}

impl Tracked {
    pub(super) fn new(owner: ReleaseKey) -> Self {
        Self {
            owner,
            unlabelled: false,
            expected: None,
            applied_version: 0,
            uid: None,
            seen: Seen::Unknown,
            evidence: Vec::new(),
            since: None,
            in_flight: false,
            wake: false,
            news: None,
            looked_version: 0,
            fresh: true,
        }
    }

    /// Whether an event is news.
    pub(super) fn hears(&mut self, version: u64) -> bool {
        let newer = version == 0 || version > self.looked_version;
        if newer {
            let last = Instant::now();
            let first = self.news.map_or(last, |news| news.first);
            self.news = Some(News { first, last, version });
        }
        newer
    }

    /// The object is not as we last applied it.
    pub(super) fn is_suspicious(&self) -> bool {
        let Some(expected) = &self.expected else {
            // Never applied by this process and no record of it: nothing to compare with.
            return false;
        };
        match &self.seen {
            Seen::Unknown => false,
            Seen::Gone { .. } => true,
            // An object on its way out is awaited, never applied.
            Seen::Live { terminating: true, .. } => false,
            Seen::Live { fingerprint, uid, .. } => {
                fingerprint.as_ref() != Some(expected) || (self.uid.is_some() && *uid != self.uid)
            }
        }
    }

    /// What is to be looked into. `id` is the object's own.
    pub(super) fn suspicion(&self, id: &ObjectId) -> Suspicion {
        Suspicion {
            id: id.clone(),
            gone: matches!(self.seen, Seen::Gone { .. }),
            managed_fields: self.evidence.clone(),
            fingerprint: match &self.seen {
                Seen::Live { fingerprint, .. } => fingerprint.as_deref().map(str::to_owned),
                Seen::Unknown | Seen::Gone { .. } => None,
            },
            version: match self.seen {
                Seen::Live { version, .. } | Seen::Gone { version } => version,
                Seen::Unknown => 0,
            },
            since: self.since,
        }
    }
}

/// The text, without a copy of its own when it is the one that is known.
pub(super) fn shared(known: &Option<Arc<str>>, text: Option<String>) -> Option<Arc<str>> {
    let text = text?;
    match known {
        Some(known) if **known == *text => Some(Arc::clone(known)),
        _ => Some(Arc::from(text)),
    }
}
