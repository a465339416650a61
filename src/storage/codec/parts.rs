//! A record that does not fit into one object: what stands in which object, and back.
//!
//! A record has up to three *streams*: the published text (`release`), our private part (`private`), and with
//! [`Large::SeparateManifests`] the manifest. Each stands in the main object, or is cut into parts of
//! [`PART_BYTES`], each an object of its own. Invariants:
//!
//! * The name of a part carries a hash of its content, so a part never changes; what a record consists of is what
//!   its main object lists under the data key `parts`, and one write of that object switches from old to new.
//! * A reader that goes by that list sees the old record or the new one, and nothing between.
//! * The seal is over the whole streams, as for a record in one object.
//!
//! # What other tools see
//!
//! A chunked `release` stream is exactly what Sherpack's own library writes and reads: an index under the data key
//! `index`, and parts with the labels `chunk-parent` and `chunk-index`. That library finds the parts by label and wants
//! exactly as many as the index says, so it cannot read a record while new parts stand beside old ones: from the first
//! part of a new state until the old parts are deleted. It has no format for a separate manifest: there it reads a
//! record with an empty `manifest`.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::{
    api::names,
    manifest::{digest_of, sha256_hex},
    release::revision_of,
    storage::unreadable::{Fault, Unreadable},
};

/// Bytes of one part. Published: readers may rely on it.
pub(super) const PART_BYTES: usize = 700_000;

/// Most parts of one record.
pub const MAX_PARTS: usize = 64;

/// Most bytes of all parts of one record together.
const MAX_PARTS_BYTES: usize = MAX_PARTS * PART_BYTES;

/// Longest value of a label.
const LABEL_MAX: usize = 63;

/// What happens to a record that does not fit into one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Large {
    /// It is cut into pieces.
    #[default]
    Chunked,
    /// Its manifest is taken out; what is still too large is cut.
    SeparateManifests,
}

/// Something of a record that may stand in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stream {
    Release,
    Private,
    Manifest,
}

impl Stream {
    const ALL: [Self; 3] = [Self::Release, Self::Private, Self::Manifest];

    /// Stands in the names of the parts; `chunk` is published.
    fn word(self) -> &'static str {
        match self {
            Self::Release => "chunk",
            Self::Private => "private",
            Self::Manifest => "manifest",
        }
    }

    /// Value of the label by which the parts of one stream belong together. Published for `Release`, as long as it is
    /// short enough to be a label at all.
    fn parent(self, key: &str) -> String {
        let whole = match self {
            Self::Release => key.to_owned(),
            Self::Private | Self::Manifest => format!("{key}.{}", self.word()),
        };
        if whole.len() <= LABEL_MAX {
            whole
        } else {
            format!("sha256-{}", &sha256_hex(whole.as_bytes())[..40])
        }
    }
}

/// The published index of a chunked record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Index {
    format: String,
    total_size: usize,
    chunk_count: usize,
    chunk_size: usize,
    checksum: String,
    compression: String,
}

/// The parts of one stream, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listing {
    names: Vec<String>,
    size: usize,
    checksum: String,
}

/// The data key `parts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Listings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manifest: Option<Listing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    private: Option<Listing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<Listing>,
}

impl Listings {
    fn of(&self, stream: Stream) -> Option<&Listing> {
        match stream {
            Stream::Release => self.release.as_ref(),
            Stream::Private => self.private.as_ref(),
            Stream::Manifest => self.manifest.as_ref(),
        }
    }

    fn slot(&mut self, stream: Stream) -> &mut Option<Listing> {
        match stream {
            Stream::Release => &mut self.release,
            Stream::Private => &mut self.private,
            Stream::Manifest => &mut self.manifest,
        }
    }
}

/// What must be fetched before a record can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it stands in one object.
    Nothing,
    /// These objects; all of them, in this order.
    Named(Vec<String>),
    /// All objects whose label `chunk-parent` has this value: another tool wrote them.
    Labelled { parent: String, count: usize },
}

/// The streams of a record, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Streams {
    pub(super) release: Vec<u8>,
    pub(super) private: Option<Vec<u8>>,
    pub(super) manifest: Option<Vec<u8>>,
}

/// Takes one stream out of `main` and cuts it into parts. Gives them; their names are listed in `main`.
pub(super) fn cut(main: &mut Secret, stream: Stream, text: &[u8], compression: &str) -> Vec<Secret> {
    let key = main.metadata.name.clone().unwrap_or_default();
    let word = stream.word();
    let mut labels = main.metadata.labels.clone().unwrap_or_default();
    for ours in [names::COMPRESSION, names::HEAD, names::PARTS] {
        labels.remove(ours);
    }
    labels.insert(names::CHUNKED.to_owned(), "true".to_owned());
    labels.insert(names::CHUNK_PARENT.to_owned(), stream.parent(&key));
    let parts: Vec<Secret> = (text.chunks(PART_BYTES).enumerate())
        .map(|(at, bytes)| {
            let mut labels = labels.clone();
            labels.insert(names::CHUNK_INDEX.to_owned(), at.to_string());
            let data = [
                (names::DATA_CHUNK.to_owned(), ByteString(bytes.to_vec())),
                (names::DATA_INDEX.to_owned(), ByteString(at.to_string().into_bytes())),
            ];
            Secret {
                metadata: ObjectMeta {
                    namespace: main.metadata.namespace.clone(),
                    name: Some(format!("{key}.{word}.{}.{at}", &sha256_hex(bytes)[..16])),
                    labels: Some(labels),
                    ..ObjectMeta::default()
                },
                type_: Some(names::CHUNK_TYPE.to_owned()),
                data: Some(data.into()),
                ..Secret::default()
            }
        })
        .collect();
    let names = parts.iter().filter_map(|part| part.metadata.name.clone()).collect();
    let listing = Listing { names, size: text.len(), checksum: digest_of(text) };
    let data = main.data.get_or_insert_default();
    if stream == Stream::Release {
        let index = Index {
            format: "chunked".to_owned(),
            total_size: text.len(),
            chunk_count: parts.len(),
            chunk_size: PART_BYTES,
            checksum: listing.checksum.clone(),
            compression: compression.to_owned(),
        };
        data.insert(names::DATA_INDEX.to_owned(), json(&index));
        let labels = main.metadata.labels.get_or_insert_default();
        labels.insert(names::CHUNKED.to_owned(), "true".to_owned());
    }
    let mut listings: Listings =
        data.get(names::DATA_PARTS).and_then(|text| serde_json::from_slice(&text.0).ok()).unwrap_or_default();
    *listings.slot(stream) = Some(listing);
    data.insert(names::DATA_PARTS.to_owned(), json(&listings));
    main.metadata.labels.get_or_insert_default().insert(names::PARTS.to_owned(), "true".to_owned());
    parts
}

/// What must be fetched before `main` can be read.
///
/// # Errors
/// The index, or the list of parts, makes no sense or asks for too much.
pub fn needs(main: &Secret) -> Result<Needs, Unreadable> {
    let (listings, index) = listed(main)?;
    let names: Vec<String> = Stream::ALL
        .into_iter()
        .filter_map(|stream| listings.of(stream))
        .flat_map(|listing| listing.names.iter().cloned())
        .collect();
    Ok(match index {
        Some(index) if listings.release.is_none() => {
            let key = main.metadata.name.as_deref().unwrap_or_default();
            Needs::Labelled { parent: Stream::Release.parent(key), count: index.chunk_count }
        }
        _ if names.is_empty() => Needs::Nothing,
        _ => Needs::Named(names),
    })
}

/// The parts that a record lists by name.
pub(in crate::storage) fn names_in(main: &Secret) -> Vec<String> {
    match needs(main) {
        Ok(Needs::Named(names)) => names,
        _ => Vec::new(),
    }
}

/// Whether its private part stands in other objects.
pub(super) fn lists_private(main: &Secret) -> bool {
    listed(main).is_ok_and(|(listings, _)| listings.private.is_some())
}

/// Puts a record together from its main object and the parts that [`needs`] asked for, by name.
///
/// # Errors
/// A part is missing, or the whole is not what the main object says of it.
pub(super) fn assemble(main: &Secret, parts: &Parts) -> Result<Streams, Unreadable> {
    let (listings, index) = listed(main)?;
    let data = |key: &str| main.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
    let named = |stream: Stream| -> Result<Option<Vec<u8>>, Unreadable> {
        let Some(listing) = listings.of(stream) else { return Ok(None) };
        let part =
            |name: &String| parts.found.get(name).ok_or_else(|| damaged(main, format!("{name} is missing")));
        joined(main, listing.names.iter().map(part), listing.size, &listing.checksum).map(Some)
    };
    let release = match (named(Stream::Release)?, &index) {
        (Some(text), _) => text,
        (None, Some(index)) => {
            let chunk = |at: usize| {
                let found = parts.found.get(&at.to_string());
                found.ok_or_else(|| damaged(main, format!("chunk {at} is missing")))
            };
            joined(main, (0..index.chunk_count).map(chunk), index.total_size, &index.checksum)?
        }
        (None, None) => data(names::DATA_RELEASE)
            .ok_or_else(|| damaged(main, format!("it has no data key {:?}", names::DATA_RELEASE)))?,
    };
    let private = named(Stream::Private)?.or_else(|| data(names::DATA_PRIVATE));
    Ok(Streams { release, private, manifest: named(Stream::Manifest)? })
}

/// Fetched parts: by name, or by decimal index where another tool wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::storage) struct Parts {
    found: BTreeMap<String, Vec<u8>>,
    bytes: usize,
}

impl Parts {
    /// Takes a part that was fetched by name.
    ///
    /// # Errors
    /// All of them together are more than a record may be.
    pub(in crate::storage) fn add(&mut self, part: Secret) -> Result<(), String> {
        let name = part.metadata.name.clone().unwrap_or_default();
        match chunk(part) {
            Some(bytes) => self.keep(name, bytes).map(drop),
            None => Ok(()),
        }
    }

    /// Takes a part that was found by its label.
    ///
    /// # Errors
    /// There are two of one index, or it has none, or all of them together are too much.
    pub(in crate::storage) fn add_indexed(&mut self, part: Secret) -> Result<(), String> {
        let name = part.metadata.name.clone().unwrap_or_default();
        let index = part.metadata.labels.as_ref().and_then(|labels| labels.get(names::CHUNK_INDEX)).cloned();
        let index = index.and_then(|index| index.parse::<usize>().ok());
        let (Some(index), Some(bytes)) = (index, chunk(part)) else {
            return Err(format!("{name} is no chunk of it, although its labels say so"));
        };
        match self.keep(index.to_string(), bytes)? {
            Some(_) => Err(format!("there are two chunks {index}")),
            None => Ok(()),
        }
    }

    fn keep(&mut self, name: String, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        self.bytes += bytes.len();
        if self.bytes > MAX_PARTS_BYTES {
            return Err(format!("its parts are more than {MAX_PARTS_BYTES} bytes"));
        }
        Ok(self.found.insert(name, bytes))
    }
}

/// Of which record (its stem and revision) an object with this name is a part.
pub(in crate::storage) fn part_of(name: &str) -> Option<(&str, u32)> {
    let cut = |stream: Stream| name.rfind(&format!(".{}.", stream.word()));
    let at = Stream::ALL.into_iter().filter_map(cut).max()?;
    revision_of(&name[..at])
}

fn chunk(part: Secret) -> Option<Vec<u8>> {
    part.data?.remove(names::DATA_CHUNK).map(|bytes| bytes.0)
}

/// What the main object says of its parts, checked before anything is fetched.
fn listed(main: &Secret) -> Result<(Listings, Option<Index>), Unreadable> {
    let data = |key: &str| main.data.as_ref().and_then(|data| data.get(key));
    let listings: Listings = match data(names::DATA_PARTS) {
        None => Listings::default(),
        Some(text) => serde_json::from_slice(&text.0)
            .map_err(|e| damaged(main, format!("its list of parts is not understood: {e}")))?,
    };
    let chunked = main
        .metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.get(names::CHUNKED).is_some_and(|value| value == "true"));
    let index: Option<Index> = match data(names::DATA_INDEX) {
        Some(text) => Some(
            serde_json::from_slice(&text.0)
                .map_err(|e| damaged(main, format!("its index of chunks is not understood: {e}")))?,
        ),
        None if chunked && listings.release.is_none() => {
            return Err(damaged(main, "it is marked as chunked and has no index".to_owned()));
        }
        None => None,
    };
    let key = main.metadata.name.as_deref().unwrap_or_default();
    let all = || Stream::ALL.into_iter().filter_map(|stream| listings.of(stream));
    // A record must not make us fetch what is not its own.
    let strange = all().flat_map(|listing| &listing.names).find(|name| {
        let own = name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        !own || name.len() > 253
            || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    });
    if let Some(strange) = strange {
        let strange: String = strange.chars().take(80).collect();
        return Err(damaged(main, format!("it lists {strange:?} as a part, which is none of its own")));
    }
    let count: usize = all().map(|listing| listing.names.len()).sum();
    let size = all().map(|listing| listing.size).fold(0_usize, usize::saturating_add);
    let (count, size) = match &index {
        Some(index) if listings.release.is_none() => {
            (count.saturating_add(index.chunk_count), size.saturating_add(index.total_size))
        }
        _ => (count, size),
    };
    if count > MAX_PARTS || size > MAX_PARTS_BYTES {
        let text = format!("its parts are more than {MAX_PARTS}, or more than {MAX_PARTS_BYTES} bytes");
        return Err(Unreadable::of(&main.metadata, Fault::TooLarge, text));
    }
    if let Some(index) = index.as_ref().filter(|index| index.format != "chunked") {
        let format: String = index.format.chars().take(40).collect();
        return Err(damaged(main, format!("the format of its index is {format:?}, not \"chunked\"")));
    }
    Ok((listings, index))
}

/// One stream from its parts, if it has this size and checksum.
fn joined<'p>(
    main: &Secret,
    parts: impl Iterator<Item = Result<&'p Vec<u8>, Unreadable>>,
    size: usize,
    sum: &str,
) -> Result<Vec<u8>, Unreadable> {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(part?);
        // One part may be listed many times.
        if text.len() > size {
            break;
        }
    }
    if text.len() != size || digest_of(&text) != sum {
        let text = "its parts are not those that it was written with: their size or checksum differs";
        return Err(damaged(main, text.to_owned()));
    }
    Ok(text)
}

fn damaged(main: &Secret, message: String) -> Unreadable {
    Unreadable::of(&main.metadata, Fault::Damaged, message)
}

/// Structs of strings and numbers always serialise.
fn json(value: &impl Serialize) -> ByteString {
    ByteString(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
