//! Records as they were found in the cluster.

pub(super) mod slim;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use super::{
    Error,
    codec::{self, Decoded, KeyRing, Parts, Provenance, Unproved},
    unreadable::{Fault, Unreadable},
};
use crate::{
    api::names,
    release::{Private, Record, ReleaseKey, revision_of},
};

/// One revision as it was found, above all the newest one of a release.
#[derive(Clone, Debug)]
pub enum Head {
    /// There is no record.
    None,
    /// Sealed by this operator: may be resumed, locked, pruned from.
    Ours(Box<Stored>),
    /// Another tool's. Its state counts, nothing else of it is acted on.
    Foreign(Box<Stored>),
    /// There is a record and it must not be guessed at.
    Unreadable(Unreadable),
}

/// A record that is marked as the newest one of its release.
#[derive(Clone, Debug)]
pub struct Marked {
    /// Namespace of the stored object.
    pub namespace: String,
    /// How its release is called in its name; see [`stem`](codec::stem).
    pub stem: String,
    pub revision: u32,
    /// The record, slim, if it is sealed by this operator. Of any other nothing is kept: its release reads it.
    pub sealed: Option<Box<Stored>>,
}

/// A record together with what a later write of it needs.
#[derive(Clone, Debug)]
pub struct Stored {
    pub record: Record,
    /// Present exactly when `provenance` is [`Provenance::Ours`].
    pub private: Option<Private>,
    pub provenance: Provenance,
    /// Present when there is a private part with a seal that is not right.
    pub unproved: Option<Box<Unproved>>,
    /// By which a person speaks of exactly this record, if it is ours and was read.
    pub digest: Option<String>,
    /// What a later write is compared with: the resourceVersion of the Secret, or the number of a file's last write.
    pub resource_version: String,
    pub uid: String,
    /// Name of the Secret, or of what stands in its place.
    pub secret_name: String,
    /// Namespace of the Secret.
    pub namespace: String,
    /// What it takes to work with all of it; see [`Record::weight`] and [`Private::weight`].
    pub weight: usize,
    /// Digest of what going back to it would apply and run. Only [`Records::survey`](super::Records::survey) gives it.
    pub effect: Option<String>,
    /// Marked as the newest revision. A hint only: see [`Records::newest`](super::Records::newest).
    pub head: bool,
    /// Names of the objects that hold parts of it, as far as it lists them.
    pub(super) parts: Vec<String>,
    /// Parts of it stand in other objects.
    pub(super) in_parts: bool,
    pub(super) carried: Carried,
    /// Whether `carried` is all that others put on it.
    pub(super) carries_all: bool,
    /// Nothing of it was left out to save memory; see [`lighten`](Self::lighten).
    pub(super) whole: bool,
}

/// What can be known of a stored record without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub namespace: String,
    pub secret_name: String,
    /// From the Secret's name, which unlike its labels never changes.
    pub revision: u32,
    pub head: bool,
    pub uid: String,
    pub resource_version: String,
    pub(super) release: String,
    /// Parts of it stand in other objects.
    pub(super) in_parts: bool,
}

/// What others put on the Secret and a whole-object write must not lose.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Carried {
    labels: BTreeMap<String, String>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl Head {
    /// The record, whichever tool wrote it.
    pub fn stored(&self) -> Option<&Stored> {
        match self {
            Self::Ours(stored) | Self::Foreign(stored) => Some(stored),
            Self::None | Self::Unreadable(_) => None,
        }
    }

    /// It is sealed by this operator, and for this release.
    #[must_use]
    pub fn is_sealed_for(&self, owner: &ReleaseKey) -> bool {
        matches!(self, Self::Ours(stored) if stored.is_sealed_for(owner))
    }

    /// The revision number, as far as it is known.
    pub fn revision(&self) -> Option<u32> {
        match self {
            Self::Ours(stored) | Self::Foreign(stored) => Some(stored.record.version),
            Self::Unreadable(unreadable) => unreadable.revision,
            Self::None => None,
        }
    }

    /// How its release is called in its name; see [`stem`](codec::stem). `None` if its name is no record's.
    pub fn stem(&self) -> Option<&str> {
        let name = match self {
            Self::Ours(stored) | Self::Foreign(stored) => &stored.secret_name,
            Self::Unreadable(unreadable) => &unreadable.name,
            Self::None => return None,
        };
        revision_of(name).map(|(stem, _)| stem)
    }

    /// Namespace of the stored object.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Ours(stored) | Self::Foreign(stored) => Some(&stored.namespace),
            Self::Unreadable(unreadable) => Some(&unreadable.namespace),
            Self::None => None,
        }
    }

    pub(super) fn of(secret: &Secret, parts: &Parts, ring: &KeyRing, room: usize) -> Self {
        match codec::decode_whole(secret, parts, ring, room) {
            Err(unreadable) => Self::Unreadable(unreadable),
            Ok(decoded) => {
                let stored = Box::new(Stored::new(decoded, &secret.metadata, codec::names_in(secret)));
                match stored.provenance {
                    Provenance::Ours => Self::Ours(stored),
                    Provenance::Foreign(_) => Self::Foreign(stored),
                }
            }
        }
    }

    /// It is larger than there was room for, or than a record may be.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, Self::Unreadable(unreadable) if unreadable.reason == Fault::TooLarge)
    }
}

impl Marked {
    /// What a record that was read whole is.
    pub(super) fn of(head: Head) -> Option<Self> {
        let (namespace, name) = match &head {
            Head::None => return None,
            Head::Ours(stored) | Head::Foreign(stored) => (&stored.namespace, &stored.secret_name),
            Head::Unreadable(unreadable) => (&unreadable.namespace, &unreadable.name),
        };
        let marked = Self::named(namespace, name)?;
        Some(match head {
            Head::Ours(stored) => Self { sealed: Some(Box::new(stored.slim())), ..marked },
            Head::None | Head::Foreign(_) | Head::Unreadable(_) => marked,
        })
    }

    /// A record of this name, of which nothing counts. `None` if it is no record's.
    pub(super) fn named(namespace: &str, name: &str) -> Option<Self> {
        let (stem, revision) = revision_of(name)?;
        Some(Self { namespace: namespace.to_owned(), stem: stem.to_owned(), revision, sealed: None })
    }
}

impl Stored {
    pub(super) fn new(decoded: Decoded, meta: &ObjectMeta, parts: Vec<String>) -> Self {
        let Decoded { record, private, provenance, unproved, digest } = decoded;
        Self {
            weight: record.weight() + private.as_ref().map_or(0, Private::weight),
            record,
            private,
            provenance,
            unproved,
            digest,
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            secret_name: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            effect: None,
            head: codec::is_marked_head(meta),
            parts,
            in_parts: is_in_parts(meta),
            carried: Carried::of(meta),
            carries_all: true,
            whole: true,
        }
    }

    /// One that was just read, for tests of what is made of it.
    #[cfg(test)]
    pub(crate) fn sample(record: Record, private: Option<Private>) -> Self {
        let provenance = if private.is_some() {
            Provenance::Ours
        } else {
            Provenance::Foreign(codec::Because::NoPrivatePart)
        };
        let decoded = Decoded { record, private, provenance, unproved: None, digest: None };
        Self::new(decoded, &ObjectMeta::default(), Vec::new())
    }

    /// A record of this operator, slim; `None` for every other and for one that cannot be read.
    pub(super) fn sealed(secret: &Secret, parts: &Parts, ring: &KeyRing) -> Option<Box<Self>> {
        let decoded = codec::decode_sealed(secret, parts, ring).ok()??;
        Some(Box::new(Self::new(decoded, &secret.metadata, codec::names_in(secret)).slim()))
    }

    /// It is sealed by this operator, and for this release.
    #[must_use]
    pub fn is_sealed_for(&self, owner: &ReleaseKey) -> bool {
        self.private.as_ref().is_some_and(|private| {
            private.owner.namespace == owner.namespace && private.owner.name == owner.name
        })
    }

    /// # Errors
    /// [`Error::NotWhole`] if something of it was left out to save memory.
    pub(super) fn must_be_whole(&self) -> Result<(), Error> {
        match self.whole {
            true => Ok(()),
            false => Err(Error::NotWhole { record: format!("{}/{}", self.namespace, self.secret_name) }),
        }
    }

    /// What [`Records::delete`](super::Records::delete) needs.
    pub fn meta(&self) -> Meta {
        Meta {
            namespace: self.namespace.clone(),
            secret_name: self.secret_name.clone(),
            revision: self.record.version,
            head: self.head,
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            release: self.record.name.clone(),
            in_parts: self.in_parts,
        }
    }

    /// What was just written, as the server answered it.
    pub(super) fn written(
        record: &Record,
        private: Option<&Private>,
        meta: &ObjectMeta,
        parts: Vec<String>,
    ) -> Self {
        let provenance = if private.is_some() {
            Provenance::Ours
        } else {
            Provenance::Foreign(codec::Because::NoPrivatePart)
        };
        let (record, private) = (record.clone(), private.cloned());
        Self::new(Decoded { record, private, provenance, unproved: None, digest: None }, meta, parts)
    }

    /// The same record, of which a newer state is known: nothing of it counts as proved any more.
    #[must_use]
    pub fn outdated(mut self) -> Self {
        let Some(private) = self.private.take() else { return self };
        let (owner, digest) = (Some(private.owner.clone()), self.digest.take().unwrap_or_default());
        self.unproved = Some(Box::new(Unproved { owner, digest, understood: true, private: Some(private) }));
        self.provenance = Provenance::Foreign(codec::Because::Older);
        self
    }

    /// A private part as it takes the place of this one: one more write than anybody has seen.
    pub(super) fn counted(&self, private: Option<&Private>) -> Option<Private> {
        let before = self.private.as_ref().map_or(0, |private| private.writes);
        private.map(|private| Private {
            writes: private.writes.max(before).saturating_add(1),
            ..private.clone()
        })
    }

    /// Makes a freshly encoded Secret the successor of this one: same object, same carried metadata.
    pub(super) fn succeed(&self, secret: &mut Secret) {
        let Carried { labels, annotations, finalizers, owner_references } = &self.carried;
        let meta = &mut secret.metadata;
        meta.labels.get_or_insert_default().extend(labels.clone());
        meta.annotations.clone_from(annotations);
        meta.finalizers.clone_from(finalizers);
        meta.owner_references.clone_from(owner_references);
        meta.resource_version = Some(self.resource_version.clone());
        meta.uid = Some(self.uid.clone());
    }
}

impl Carried {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let Self { labels, annotations, finalizers, owner_references } = self;
        let pairs = labels.iter().chain(annotations.iter().flatten());
        let owners = owner_references
            .iter()
            .flatten()
            .map(|owner| owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len());
        pairs.map(|(key, value)| key.len() + value.len()).sum::<usize>()
            + finalizers.iter().flatten().map(String::len).sum::<usize>()
            + owners.sum::<usize>()
    }

    fn of(meta: &ObjectMeta) -> Self {
        const OURS: [&str; 10] = [
            names::MANAGED_BY,
            names::RELEASE_NAME,
            names::RELEASE_NAMESPACE,
            names::RELEASE_VERSION,
            names::STORAGE_DRIVER,
            names::COMPRESSION,
            names::HEAD,
            names::CHUNKED,
            names::CHUNK_PARENT,
            names::PARTS,
        ];
        let others = meta.labels.iter().flatten().filter(|(key, _)| !OURS.contains(&key.as_str()));
        Self {
            labels: others.map(|(key, value)| (key.clone(), value.clone())).collect(),
            annotations: meta.annotations.clone(),
            finalizers: meta.finalizers.clone(),
            owner_references: meta.owner_references.clone(),
        }
    }
}

impl Meta {
    /// `None` for whatever is not a record of this release: chunks, and Secrets that only wear its labels.
    /// `stem` is what [`stem`](codec::stem) gives.
    pub(super) fn of(meta: &ObjectMeta, stem: &str) -> Option<Self> {
        let name = meta.name.as_deref()?;
        let (_, revision) = revision_of(name).filter(|(of, _)| *of == stem)?;
        if is_chunk(meta) {
            return None;
        }
        Some(Self {
            namespace: meta.namespace.clone()?,
            secret_name: name.to_owned(),
            revision,
            head: codec::is_marked_head(meta),
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
            release: meta.labels.as_ref().and_then(|labels| labels.get(names::RELEASE_NAME))?.clone(),
            in_parts: is_in_parts(meta),
        })
    }
}

/// A part of a record, which is not a record by itself.
pub(super) fn is_chunk(meta: &ObjectMeta) -> bool {
    has_label(meta, names::CHUNK_PARENT)
}

fn is_in_parts(meta: &ObjectMeta) -> bool {
    [names::CHUNKED, names::PARTS].iter().any(|label| has_label(meta, label))
}

fn has_label(meta: &ObjectMeta, label: &str) -> bool {
    meta.labels.as_ref().is_some_and(|labels| labels.contains_key(label))
}
