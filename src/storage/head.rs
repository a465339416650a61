//! Records as they were found in the cluster.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use super::{
    codec::{self, Decoded, MacKey, Provenance},
    unreadable::Unreadable,
};
use crate::{
    api::names,
    release::{Private, Record, revision_of},
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

/// A record together with what a later write of it needs.
#[derive(Clone, Debug)]
pub struct Stored {
    pub record: Record,
    /// Present exactly when `provenance` is [`Provenance::Ours`].
    pub private: Option<Private>,
    pub provenance: Provenance,
    pub resource_version: String,
    pub uid: String,
    pub secret_name: String,
    /// Namespace of the Secret.
    pub namespace: String,
    /// Marked as the newest revision. A hint only: see [`Records::newest`](super::Records::newest).
    pub head: bool,
    pub(super) carried: Carried,
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
    /// The record, whoever wrote it.
    pub fn stored(&self) -> Option<&Stored> {
        match self {
            Self::Ours(stored) | Self::Foreign(stored) => Some(stored),
            Self::None | Self::Unreadable(_) => None,
        }
    }

    /// The revision number, as far as it is known.
    pub fn revision(&self) -> Option<u32> {
        match self {
            Self::Ours(stored) | Self::Foreign(stored) => Some(stored.record.version),
            Self::Unreadable(unreadable) => unreadable.revision,
            Self::None => None,
        }
    }

    pub(super) fn of(secret: &Secret, key: &MacKey) -> Self {
        match codec::decode(secret, key) {
            Err(unreadable) => Self::Unreadable(unreadable),
            Ok(decoded) => {
                let stored = Box::new(Stored::new(decoded, &secret.metadata));
                match stored.provenance {
                    Provenance::Ours => Self::Ours(stored),
                    Provenance::Foreign(_) => Self::Foreign(stored),
                }
            }
        }
    }
}

impl Stored {
    pub(super) fn new(decoded: Decoded, meta: &ObjectMeta) -> Self {
        let Decoded { record, private, provenance } = decoded;
        Self {
            record,
            private,
            provenance,
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            secret_name: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            head: codec::is_marked_head(meta),
            carried: Carried::of(meta),
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
        }
    }

    /// What was just written, as the server answered it.
    pub(super) fn written(record: &Record, private: Option<&Private>, meta: &ObjectMeta) -> Self {
        let provenance = if private.is_some() {
            Provenance::Ours
        } else {
            Provenance::Foreign(codec::Because::NoPrivatePart)
        };
        Self::new(Decoded { record: record.clone(), private: private.cloned(), provenance }, meta)
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
    fn of(meta: &ObjectMeta) -> Self {
        const OURS: [&str; 9] = [
            names::MANAGED_BY,
            names::RELEASE_NAME,
            names::RELEASE_NAMESPACE,
            names::RELEASE_VERSION,
            names::STORAGE_DRIVER,
            names::COMPRESSION,
            names::HEAD,
            names::CHUNKED,
            names::CHUNK_PARENT,
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
    pub(super) fn of(meta: &ObjectMeta, release: &str) -> Option<Self> {
        let name = meta.name.as_deref()?;
        let (_, revision) = revision_of(name).filter(|(of, _)| *of == release)?;
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
        })
    }
}

/// A part of a record in chunks, which is not a record by itself.
pub(super) fn is_chunk(meta: &ObjectMeta) -> bool {
    meta.labels.as_ref().is_some_and(|labels| labels.contains_key(names::CHUNK_PARENT))
}

/// Selects the records of one release.
pub(super) fn release_selector(release: &str) -> String {
    format!("{}={release},{}={}", names::RELEASE_NAME, names::MANAGED_BY, names::MANAGED_BY_SHERPACK)
}

/// Selects the records that are marked as the newest of their release.
pub(super) fn heads_selector() -> String {
    format!("{},{}={}", names::HEAD, names::MANAGED_BY, names::MANAGED_BY_SHERPACK)
}
