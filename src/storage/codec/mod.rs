//! A revision record as a Kubernetes Secret, and back. No IO, no clock, no client.
//!
//! Owns the bytes: labels, compression, size, the sealed private part. May import `release` and below. Invariants:
//! what a Secret says is believed only if it agrees with the Secret's own name and namespace; a private part is
//! believed only with a right MAC over it, over the record beside it, and over the Secret that holds both; nothing
//! that is read takes more memory than the limits of `blob` allow.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod blob;
mod mac;
mod mac_key;
mod parts;
mod ring;
mod write;

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};

pub(super) use self::blob::unpack;
use self::mac::Opened;
use self::parts::Streams;
pub(super) use self::parts::{Parts, names_in, part_of};
pub(super) use self::write::{Encoded, Shape};
pub use self::{
    blob::{Compression, MAX_JSON_BYTES, MAX_JSON_NODES, nodes},
    mac_key::{KEY_BYTES, MacKey},
    parts::{Large, MAX_PARTS, Needs, needs},
    ring::{KeyRing, Keys},
    write::encode,
};
pub use super::MAX_RECORD_BYTES;
use super::{
    Error,
    unreadable::{Fault, Unreadable},
};
use crate::{
    api::names,
    release::{Owner, Private, Record},
};

/// Most bytes of a sealed private part.
pub const MAX_PRIVATE_BYTES: usize = 8 * 1024 * 1024;

/// Value of the label that marks the newest record.
pub(super) const HEAD_VALUE: &str = "true";

/// Who wrote a record, as far as can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// An operator that holds our key.
    Ours,
    /// Anybody else; the reason why we think so.
    Foreign(Because),
}

/// Why a record counts as another tool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It never had a private part, or another tool's whole-object write wiped it.
    NoPrivatePart,
    /// The private part does not belong to this record, or was not sealed with a key of ours.
    BrokenSeal,
    /// The private part names a key that this operator does not have.
    UnknownKey,
    /// It is sealed, and a newer state of it is known. Reading alone cannot tell: the caller that knows the newer one says so.
    Older,
}

impl Because {
    /// The reason as the end of a sentence about the record.
    pub fn explain(self) -> &'static str {
        match self {
            Self::NoPrivatePart => "it has no private part, so another tool wrote it",
            Self::BrokenSeal => {
                "its private part is not sealed with this operator's key, or not for this record"
            }
            Self::Older => "it is an older state of a record that was written since",
            Self::UnknownKey => "its private part is sealed with a key that this operator does not have",
        }
    }
}

/// What a private part says of itself when its seal is not right. Nothing of it is proved.
#[derive(Clone, Debug, PartialEq)]
pub struct Unproved {
    /// Whose it says to be; `None`: that cannot be read.
    pub owner: Option<Owner>,
    /// By which a person speaks of exactly this record.
    pub digest: String,
    /// Whether all of it is understood.
    pub understood: bool,
    /// All of it, if it is understood and was not left out to save memory.
    pub private: Option<Private>,
}

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub record: Record,
    /// Present exactly when `provenance` is [`Provenance::Ours`].
    pub private: Option<Private>,
    pub provenance: Provenance,
    /// Present when there is a private part with a seal that is not right.
    pub unproved: Option<Box<Unproved>>,
    /// By which a person speaks of exactly this record, if it is ours.
    pub digest: Option<String>,
}

/// How a release is called in the names of its records: by its name alone in its own namespace, else with its namespace,
/// because two namespaces may each have a release of one name. Neither name contains a dot.
pub fn stem(stored_in: &str, namespace: &str, release: &str) -> String {
    if stored_in == namespace { release.to_owned() } else { format!("{namespace}.{release}") }
}

/// Reads the Secret of one revision.
///
/// A missing or wrong MAC is not an error: then the record has no private part that counts.
///
/// # Errors
/// [`Unreadable`] for everything that must not be guessed at: another type, a name, namespace or revision inside
/// that is not the Secret's own, a cut-off or oversized blob, a record in several objects, a private part of a newer
/// operator.
pub fn decode(secret: &Secret, key: &MacKey) -> Result<Decoded, Unreadable> {
    match needs(secret)? {
        Needs::Nothing => decode_whole(secret, &Parts::default(), &KeyRing::of(key.clone()), MAX_JSON_BYTES),
        Needs::Named(_) | Needs::Labelled { .. } => {
            let text = "it is stored in several objects, and this is only one of them".to_owned();
            Err(Unreadable::of(&secret.metadata, Fault::Chunked, text))
        }
    }
}

/// As [`decode`], of a record whose parts were fetched and that unpacks to `room` bytes of JSON at most.
pub(super) fn decode_whole(
    secret: &Secret,
    parts: &Parts,
    ring: &KeyRing,
    room: usize,
) -> Result<Decoded, Unreadable> {
    let streams = streams(secret, parts)?;
    let record = unpacked(secret, &streams, room)?;
    let (private, provenance, unproved, digest) = match opened(secret, &streams, ring)? {
        None => (None, Provenance::Foreign(Because::NoPrivatePart), None, None),
        Some(Opened::Ours(private, digest)) => (Some(*private), Provenance::Ours, None, Some(digest)),
        Some(Opened::Unproved(because, unproved)) => {
            (None, Provenance::Foreign(because), Some(unproved), None)
        }
    };
    Ok(Decoded { record, private, provenance, unproved, digest })
}

/// As [`decode_whole`], but a record without a right seal is not even unpacked: `None`.
pub(super) fn decode_sealed(
    secret: &Secret,
    parts: &Parts,
    ring: &KeyRing,
) -> Result<Option<Decoded>, Unreadable> {
    let streams = streams(secret, parts)?;
    let Some(Opened::Ours(private, digest)) = opened(secret, &streams, ring)? else { return Ok(None) };
    let record = unpacked(secret, &streams, MAX_JSON_BYTES)?;
    let (private, digest) = (Some(*private), Some(digest));
    Ok(Some(Decoded { record, private, provenance: Provenance::Ours, unproved: None, digest }))
}

/// Whether a record says to have a private part, so that it may be sealed.
pub(super) fn may_be_sealed(main: &Secret) -> bool {
    let inline = main.data.as_ref().is_some_and(|data| data.contains_key(names::DATA_PRIVATE));
    inline || parts::lists_private(main)
}

fn streams(secret: &Secret, parts: &Parts) -> Result<Streams, Unreadable> {
    if secret.type_.as_deref() != Some(names::RECORD_TYPE) {
        let found = secret.type_.as_deref().unwrap_or("none");
        let message = format!("its type is {found:?}, not {:?}", names::RECORD_TYPE);
        return Err(Unreadable::of(&secret.metadata, Fault::WrongType, message));
    }
    parts::assemble(secret, parts)
}

/// The record in these streams, if it is the Secret's own.
fn unpacked(secret: &Secret, streams: &Streams, room: usize) -> Result<Record, Unreadable> {
    let fail = |fault, message: String| Unreadable::of(&secret.metadata, fault, message);
    let Streams { release, manifest, .. } = streams;
    let compression = Compression::of_label(label(secret, names::COMPRESSION));
    let unpack = |text: &[u8], limit| {
        blob::unpack(text, compression, limit).map_err(|(fault, message)| fail(fault, message))
    };
    let json = unpack(release, room)?;
    if blob::nodes(&json) > MAX_JSON_NODES {
        return Err(fail(Fault::TooLarge, format!("it holds more than {MAX_JSON_NODES} JSON values")));
    }
    let mut record: Record = serde_json::from_slice(&json)
        .map_err(|e| fail(Fault::Damaged, format!("its JSON is not a revision record: {e}")))?;
    if let Some(manifest) = manifest {
        let manifest = unpack(manifest, room - json.len())?;
        record.manifest = String::from_utf8(manifest)
            .map_err(|_| fail(Fault::Damaged, "its manifest is not UTF-8".to_owned()))?;
    }
    drop(json);
    is_its_own(secret, &record)?;
    Ok(record)
}

/// A user who may create a Secret in one namespace must not speak for another, or for another release.
fn is_its_own(secret: &Secret, record: &Record) -> Result<(), Unreadable> {
    let fail = |message: String| Unreadable::of(&secret.metadata, Fault::ForeignName, message);
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    let found = Record::key_of(&stem(namespace, &record.namespace, &record.name), record.version);
    if found != name {
        let text =
            format!("the record inside is {}/{}, not the Secret's own", record.namespace, record.key());
        return Err(fail(text));
    }
    for (key, inside) in [
        (names::RELEASE_NAME, record.name.as_str()),
        (names::RELEASE_NAMESPACE, record.namespace.as_str()),
        (names::RELEASE_VERSION, record.version.to_string().as_str()),
    ] {
        // A lost label is a user's slip and harmless; a different one is a lie.
        if let Some(outside) = label(secret, key).filter(|outside| *outside != inside) {
            return Err(fail(format!("its label {key} says {outside:?}, the record inside says {inside:?}")));
        }
    }
    Ok(())
}

/// What the private part turns out to be; `None`: there is none.
fn opened(secret: &Secret, streams: &Streams, ring: &KeyRing) -> Result<Option<Opened>, Unreadable> {
    let Streams { release, private: Some(sealed), manifest } = streams else { return Ok(None) };
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    // More than any code reads names no release.
    let fits = sealed.len() <= MAX_PRIVATE_BYTES && blob::nodes(sealed) <= MAX_JSON_NODES;
    let read = if fits { &sealed[..] } else { b"" };
    mac::open(namespace, name, release, manifest.as_deref(), read, ring)
        .map(Some)
        .map_err(|message| Unreadable::of(&secret.metadata, Fault::NewerFormat, message))
}

fn label<'s>(secret: &'s Secret, label: &str) -> Option<&'s str> {
    secret.metadata.labels.as_ref().and_then(|labels| labels.get(label)).map(String::as_str)
}

/// True when the Secret carries the mark of the newest record. The mark is a hint: anybody can change a label.
pub fn is_marked_head(meta: &ObjectMeta) -> bool {
    meta.labels.as_ref().is_some_and(|labels| labels.get(names::HEAD).is_some_and(|v| v == HEAD_VALUE))
}

/// Bytes of all data of these objects.
pub(super) fn bytes_of<'a>(objects: impl IntoIterator<Item = &'a Secret>) -> usize {
    let data = objects.into_iter().flat_map(|object| &object.data).flat_map(BTreeMap::values);
    data.map(|bytes| bytes.0.len()).sum()
}

#[cfg(test)]
pub(super) mod tests;
