//! What an index says, and what it says about one pack.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::manifest::hex;
use crate::pack::shown;
use crate::source::http::Url;
use crate::source::versions::{Unmatched, choose};

/// How many names a message gives in place of one that is unknown.
const NEAR: usize = 5;

/// The packs of a repository, each with its versions. Nothing else of the `index.yaml` is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    packs: BTreeMap<Box<str>, Box<[Entry]>>,
    skipped: usize,
}

/// One version of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As it is written in the index.
    pub version: Box<str>,
    /// The first of its URLs, often relative: see [`resolve`].
    pub url: Box<str>,
    /// What the index says of the archive.
    pub digest: Digest,
}

/// The digest of an archive, as an index gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// None is given.
    Absent,
    /// SHA-256.
    Sha256([u8; 32]),
    /// Something is given that is no SHA-256. Who wants to know what is fetched must refuse the entry.
    Invalid,
}

/// Why an index does not say where a pack is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInIndex {
    /// There is no such pack.
    #[error("the index has no pack `{name}`{}{}", instead(*.packs, .near), lost(*.skipped))]
    UnknownName {
        /// What was looked for, as it is shown.
        name: String,
        /// The names that are most like it.
        near: Vec<String>,
        /// How many packs there are.
        packs: usize,
        /// How many entries of the index cannot be used.
        skipped: usize,
    },
    /// The pack has no version that fits.
    #[error("pack `{name}` of the index: {error}")]
    NoVersion {
        /// The pack as it is shown.
        name: String,
        /// What there is in place of it.
        error: Unmatched,
    },
}

impl Index {
    pub(super) fn new(packs: BTreeMap<Box<str>, Box<[Entry]>>, skipped: usize) -> Self {
        Self { packs, skipped }
    }

    /// The newest version of a pack that lies in a range; unset: the newest that is no pre-release. Of entries with the same
    /// version the first counts.
    ///
    /// # Errors
    /// No such pack, no such version, or a range that cannot be read.
    pub fn find(&self, name: &str, range: Option<&str>) -> Result<&Entry, NotInIndex> {
        let Some(entries) = self.packs.get(name) else { return Err(self.unknown(name)) };
        let no_version = |error| NotInIndex::NoVersion { name: shown(name, 80), error };
        let version = choose(range, entries.iter().map(|entry| &*entry.version)).map_err(no_version)?;
        // It is one of them.
        entries.iter().find(|entry| &*entry.version == version).ok_or_else(|| self.unknown(name))
    }

    /// All versions of a pack as they are written, in the order of the index.
    ///
    /// # Errors
    /// No such pack.
    pub fn versions_of(&self, name: &str) -> Result<Vec<&str>, NotInIndex> {
        let entries = self.packs.get(name).ok_or_else(|| self.unknown(name))?;
        Ok(entries.iter().map(|entry| &*entry.version).collect())
    }

    /// The names of all packs, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.packs.keys().map(|name| &**name)
    }

    /// What the index says of a pack, in its order; nothing of one that it does not have.
    #[must_use]
    pub fn entries(&self, name: &str) -> &[Entry] {
        self.packs.get(name).map_or(&[], |entries| entries)
    }

    /// How many versions there are of all packs.
    #[must_use]
    pub fn versions(&self) -> usize {
        self.packs.values().map(|entries| entries.len()).sum()
    }

    /// How many entries were left out: without name, version or URL, or longer than is kept.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// What it takes of memory, in bytes, without what the allocator adds.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = |entry: &Entry| entry.version.len() + entry.url.len() + size_of::<Entry>();
        let pack = size_of::<(Box<str>, Box<[Entry]>)>();
        self.packs
            .iter()
            .map(|(name, entries)| pack + name.len() + entries.iter().map(texts).sum::<usize>())
            .sum::<usize>()
            + size_of::<Self>()
    }

    fn unknown(&self, name: &str) -> NotInIndex {
        let mut names: Vec<_> = self.names().map(|known| (Reverse(likeness(name, known)), known)).collect();
        names.sort_unstable();
        let near = names.iter().take(NEAR).map(|(_, known)| shown(known, 80)).collect();
        NotInIndex::UnknownName {
            name: shown(name, 80),
            near,
            packs: self.packs.len(),
            skipped: self.skipped,
        }
    }
}

impl Digest {
    /// Reads 64 hex digits, with or without `sha256:` before them. An empty text is no digest.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::Absent;
        }
        let digits = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Self::Invalid;
        }
        let value = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [Some(high), Some(low)] = [pair.first().and_then(value), pair.last().and_then(value)] else {
                return Self::Invalid;
            };
            *byte = high << 4 | low;
        }
        Self::Sha256(bytes)
    }

    /// `sha256:` and 64 lower-case hex digits; `None` when the index gives none.
    ///
    /// # Errors
    /// A digest of another sort: what is fetched could not be checked.
    pub fn text(&self) -> Result<Option<String>, &'static str> {
        match self {
            Self::Absent => Ok(None),
            Self::Sha256(bytes) => Ok(Some(format!("sha256:{}", hex(bytes)))),
            Self::Invalid => Err(
                "the index names a digest that is no SHA-256, so the archive cannot be checked: the repository must write 64 hex digits",
            ),
        }
    }
}

/// Where an entry's archive is: its URL relative to that of the repository, as Helm reads it. The query of the
/// repository's URL goes along, because it may hold the credentials; but to no other host.
///
/// # Errors
/// A URL that cannot be fetched. The message does not show it: it may hold a password.
pub fn resolve(base: &Url, entry_url: &str) -> Result<Url, String> {
    let entry_url = entry_url.trim();
    if entry_url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://")) {
        return Err(
            "the index says that the pack is in an OCI registry: name that in spec.pack.oci, in place of spec.pack.repository"
                .to_owned(),
        );
    }
    if let Ok(absolute) = Url::parse(entry_url) {
        return Ok(absolute);
    }
    let wrong = |why| format!("the URL that the index gives for the pack cannot be fetched: {why}");
    let target = base.target();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let directory = path.strip_suffix('/').unwrap_or(path);
    let directory = Url::parse(&format!("{}://{}{directory}/", base.scheme(), base.authority()))?;
    let found = directory.join(entry_url).map_err(wrong)?;
    match query {
        Some(query) if found.authority() == base.authority() => {
            let path = found.target().split('?').next().unwrap_or_default();
            Url::parse(&format!("{}://{}{path}?{query}", found.scheme(), found.authority())).map_err(wrong)
        }
        _ => Ok(found),
    }
}

/// How much a name is like the one that is looked for: whether one holds the other, and how long they begin alike.
fn likeness(wanted: &str, known: &str) -> (bool, usize) {
    let alike = wanted.bytes().zip(known.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    (known.contains(wanted) || wanted.contains(known), alike)
}

fn instead(packs: usize, near: &[String]) -> String {
    if near.is_empty() {
        return ": it has no packs at all".to_owned();
    }
    let list = near.join(", ");
    if packs == near.len() {
        format!(": it has {list}")
    } else {
        format!(": of its {packs} packs these are most like it: {list}")
    }
}

fn lost(skipped: usize) -> String {
    match skipped {
        0 => String::new(),
        skipped => {
            format!("; {skipped} of its entries cannot be used, for want of a name, a version or a URL")
        }
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
