//! A revision record as a Kubernetes Secret, and back. No IO, no clock, no client.
//!
//! Owns the bytes: labels, compression, size, the sealed private part. May import `release` and below. Invariants:
//! what a Secret says is believed only if it agrees with the Secret's own name and namespace; a private part is
//! believed only with a right MAC over it, over the record beside it, and over the Secret that holds both; nothing
//! that is read takes more memory than the limits of [`blob`](self::blob) allow.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod blob;
mod seal;

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};

pub use self::{
    blob::{Compression, MAX_JSON_BYTES, MAX_JSON_NODES},
    seal::{KEY_BYTES, MacKey},
};
use super::{
    Error,
    unreadable::{Fault, Unreadable},
};
use crate::{
    api::names,
    release::{Private, Record},
};

/// Most bytes of all data keys of one record together.
///
/// The API server's own limit is 1,048,576 in all; the published format draws the line here.
pub const MAX_RECORD_BYTES: usize = 1_000_000;

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
    /// The private part does not belong to this record, or was not sealed with our key.
    BrokenSeal,
}

impl Because {
    /// The reason as the end of a sentence about the record.
    pub fn explain(self) -> &'static str {
        match self {
            Self::NoPrivatePart => "it has no private part, so another tool wrote it",
            Self::BrokenSeal => {
                "its private part is not sealed with this operator's key, or not for this record"
            }
        }
    }
}

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub record: Record,
    /// Present exactly when `provenance` is [`Provenance::Ours`].
    pub private: Option<Private>,
    pub provenance: Provenance,
}

/// Makes the Secret of one revision, to be created or to replace the one that is there.
///
/// It stands in the namespace that the record names. With `private` it carries the sealed private part; without,
/// it is a record as any tool would write it. `head` marks the newest record.
///
/// # Errors
/// [`Error::RecordTooLarge`] above [`MAX_RECORD_BYTES`]; [`Error::Encode`] if the record cannot be serialised.
pub fn encode(
    record: &Record,
    private: Option<&Private>,
    compression: Compression,
    key: &MacKey,
    head: bool,
) -> Result<Secret, Error> {
    let name = record.key();
    let unserialisable = |source| Error::Encode { secret: format!("{}/{name}", record.namespace), source };
    let json = serde_json::to_vec(record).map_err(|e| unserialisable(e.into()))?;
    let release = blob::pack(&json, compression).map_err(unserialisable)?;
    let mut data = BTreeMap::new();
    if let Some(private) = private {
        let sealed = seal::seal(&record.namespace, &name, &release, private, key)
            .map_err(|e| unserialisable(e.into()))?;
        data.insert(names::DATA_PRIVATE.to_owned(), ByteString(sealed));
    }
    data.insert(names::DATA_RELEASE.to_owned(), ByteString(release));

    let size: usize = data.values().map(|bytes| bytes.0.len()).sum();
    if size > MAX_RECORD_BYTES {
        return Err(Error::RecordTooLarge { secret: format!("{}/{name}", record.namespace), size });
    }
    Ok(Secret {
        metadata: ObjectMeta {
            namespace: Some(record.namespace.clone()),
            labels: Some(labels(record, compression, head)),
            name: Some(name),
            ..ObjectMeta::default()
        },
        type_: Some(names::RECORD_TYPE.to_owned()),
        data: Some(data),
        ..Secret::default()
    })
}

/// Reads the Secret of one revision.
///
/// A missing or wrong MAC is not an error: then the record is another tool's and has no private part.
///
/// # Errors
/// [`Unreadable`] for everything that must not be guessed at: another type, a name, namespace or revision inside
/// that is not the Secret's own, a cut-off or oversized blob, a record in chunks, a private part of a newer operator.
pub fn decode(secret: &Secret, key: &MacKey) -> Result<Decoded, Unreadable> {
    let fail = |fault, message: String| Unreadable::of(&secret.metadata, fault, message);
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    let label = |label: &str| secret.metadata.labels.as_ref().and_then(|l| l.get(label)).map(String::as_str);
    let data = |key: &str| secret.data.as_ref().and_then(|d| d.get(key)).map(|bytes| bytes.0.as_slice());

    if secret.type_.as_deref() != Some(names::RECORD_TYPE) {
        let found = secret.type_.as_deref().unwrap_or("none");
        return Err(fail(Fault::WrongType, format!("its type is {found:?}, not {:?}", names::RECORD_TYPE)));
    }
    if label(names::CHUNKED) == Some("true") {
        let text = "it is stored in chunks, which this version cannot read; \
                    shrink the release below 1,000,000 bytes with the tool that wrote it";
        return Err(fail(Fault::Chunked, text.to_owned()));
    }
    let Some(release) = data(names::DATA_RELEASE) else {
        return Err(fail(Fault::Damaged, format!("it has no data key {:?}", names::DATA_RELEASE)));
    };
    let compression = Compression::of_label(label(names::COMPRESSION));
    let json = blob::unpack(release, compression).map_err(|(fault, message)| fail(fault, message))?;
    let record: Record = serde_json::from_slice(&json)
        .map_err(|e| fail(Fault::Damaged, format!("its JSON is not a revision record: {e}")))?;
    drop(json);

    // Whoever may create a Secret in one namespace must not speak for another, or for another release.
    let found = (record.key(), record.namespace.as_str());
    if (found.0.as_str(), found.1) != (name, namespace) {
        let text = format!("the record inside is {}/{}, not the Secret's own", found.1, found.0);
        return Err(fail(Fault::ForeignName, text));
    }
    for (key, inside) in [
        (names::RELEASE_NAME, record.name.as_str()),
        (names::RELEASE_NAMESPACE, record.namespace.as_str()),
        (names::RELEASE_VERSION, record.version.to_string().as_str()),
    ] {
        // A lost label is somebody's slip and harmless; a different one is a lie.
        if let Some(outside) = label(key).filter(|outside| *outside != inside) {
            let text = format!("its label {key} says {outside:?}, the record inside says {inside:?}");
            return Err(fail(Fault::ForeignName, text));
        }
    }

    let sealed = data(names::DATA_PRIVATE);
    let opened = sealed.map(|sealed| seal::open(namespace, name, release, sealed, key));
    let (private, provenance) = match opened {
        None => (None, Provenance::Foreign(Because::NoPrivatePart)),
        Some(Ok(Some(private))) => (Some(private), Provenance::Ours),
        Some(Ok(None)) => (None, Provenance::Foreign(Because::BrokenSeal)),
        Some(Err(message)) => return Err(fail(Fault::NewerFormat, message)),
    };
    Ok(Decoded { record, private, provenance })
}

/// True when the Secret carries the mark of the newest record. The mark is a hint: anybody can change a label.
pub fn is_marked_head(meta: &ObjectMeta) -> bool {
    meta.labels.as_ref().is_some_and(|labels| labels.get(names::HEAD).is_some_and(|v| v == HEAD_VALUE))
}

fn labels(record: &Record, compression: Compression, head: bool) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        (names::MANAGED_BY, names::MANAGED_BY_SHERPACK),
        (names::RELEASE_NAME, &record.name),
        (names::RELEASE_VERSION, &record.version.to_string()),
        (names::RELEASE_NAMESPACE, &record.namespace),
        (names::STORAGE_DRIVER, names::DRIVER_SECRETS),
        (names::COMPRESSION, compression.label()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    if head {
        labels.insert(names::HEAD.to_owned(), HEAD_VALUE.to_owned());
    }
    labels
}

#[cfg(test)]
pub(super) mod tests;
