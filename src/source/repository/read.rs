//! From the bytes of an `index.yaml` to an [`Index`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::index::{Digest, Entry, Index};
use super::nodes::{Node, Nodes, Unreadable};
use crate::pack::shown;

/// Bytes of an index that is read. The largest public ones have some 20 MiB.
pub const MAX_BYTES: usize = 50 << 20;
/// Versions of all packs together.
pub const MAX_ENTRIES: usize = 20_000;
const MAX_BLANKS: usize = 64 << 10;
const MAX_NAME: usize = 253;
const MAX_VERSION: usize = 128;
const MAX_URL: usize = 2048;

/// Reads an index, as YAML or JSON.
///
/// An entry without name, version or URL, or with a longer one than is kept, is left out and counted, as Helm leaves out
/// what is invalid. A key that is there twice in an entry makes it such a one.
///
/// # Errors
/// What is no index, or more than is read.
pub fn parse(bytes: &[u8]) -> Result<Index, Unreadable> {
    if bytes.len() > MAX_BYTES {
        return Err(Unreadable::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
    }
    // The parser keeps blanks in memory until it knows what they are.
    if bytes.split(|byte| !byte.is_ascii_whitespace()).any(|blanks| blanks.len() > MAX_BLANKS) {
        return Err(Unreadable::NotAnIndex { why: format!("it has more than {MAX_BLANKS} blanks in a row") });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::NotText)?;
    let mut nodes = Nodes::new(text);
    let not = |why: &str| Unreadable::NotAnIndex { why: why.to_owned() };
    match nodes.next()? {
        Node::Map => {}
        Node::End | Node::Nothing => return Err(not("it is empty")),
        Node::Text(_) => return Err(not("it is a text")),
        Node::List | Node::Elsewhere => return Err(not("it is a list")),
    }
    let mut version: Option<Cow<'_, str>> = None;
    let mut packs = None;
    while let Some(key) = nodes.key()? {
        let again = match &*key {
            "entries" => packs.is_some(),
            "apiVersion" => version.is_some(),
            _ => false,
        };
        if again {
            return Err(repeated(&nodes, &key));
        }
        let value = nodes.next()?;
        match (&*key, value) {
            ("entries", Node::Map) => packs = Some(Packs::read(&mut nodes)?),
            ("entries", Node::Nothing) => packs = Some(Packs::default()),
            ("entries", _) => return Err(not("its entries are no map")),
            ("apiVersion", Node::Text(text)) => version = Some(text),
            (_, other) => nodes.skip(&other)?,
        }
    }
    nodes.finish()?;
    match version.as_deref() {
        Some("v1") => Ok(packs.unwrap_or_default().into_index()),
        Some(other) => Err(not(&format!("its apiVersion is `{}`, and only `v1` is known", shown(other, 20)))),
        None => Err(not("it has no apiVersion")),
    }
}

fn repeated(nodes: &Nodes<'_>, key: &str) -> Unreadable {
    Unreadable::Repeated { line: nodes.line(), key: shown(key, 80) }
}

#[derive(Default)]
struct Packs {
    packs: BTreeMap<Box<str>, Box<[Entry]>>,
    /// Of all packs, also those that are left out.
    count: usize,
    skipped: usize,
}

impl Packs {
    /// After the beginning of the map of `entries`.
    fn read(nodes: &mut Nodes<'_>) -> Result<Self, Unreadable> {
        let mut found = Self::default();
        while let Some(name) = nodes.key()? {
            if found.packs.contains_key(&*name) {
                return Err(repeated(nodes, &name));
            }
            let value = nodes.next()?;
            match value {
                Node::List => {
                    let entries = found.versions(nodes)?;
                    if name.is_empty() || name.len() > MAX_NAME {
                        found.skipped += entries.len();
                    } else if !entries.is_empty() {
                        // Only those: a name without versions would cost memory that nothing bounds.
                        found.packs.insert(name.into(), entries.into());
                    }
                }
                Node::Nothing => {}
                other => {
                    found.skipped += 1;
                    nodes.skip(&other)?;
                }
            }
        }
        Ok(found)
    }

    /// After the beginning of the list of a pack.
    fn versions(&mut self, nodes: &mut Nodes<'_>) -> Result<Vec<Entry>, Unreadable> {
        let mut entries = Vec::new();
        loop {
            let value = nodes.next()?;
            if value == Node::End {
                return Ok(entries);
            }
            self.count += 1;
            if self.count > MAX_ENTRIES {
                return Err(Unreadable::TooManyEntries { max: MAX_ENTRIES });
            }
            let entry = if value == Node::Map { entry(nodes)? } else { None };
            match entry {
                Some(entry) => entries.push(entry),
                None => self.skipped += 1,
            }
            if value == Node::List {
                nodes.skip(&value)?;
            }
        }
    }

    fn into_index(self) -> Index {
        Index::new(self.packs, self.skipped)
    }
}

/// A text that is wanted once.
#[derive(Default)]
struct Once<'i> {
    text: Option<Cow<'i, str>>,
    wrong: bool,
}

impl<'i> Once<'i> {
    fn put(&mut self, nodes: &mut Nodes<'i>, node: Node<'i>) -> Result<(), Unreadable> {
        match node {
            Node::Nothing => {}
            Node::Text(text) if self.text.is_none() => self.text = Some(text),
            other => {
                self.wrong = true;
                nodes.skip(&other)?;
            }
        }
        Ok(())
    }

    fn bounded(&self, max: usize) -> Option<&str> {
        self.text.as_deref().filter(|text| !self.wrong && !text.is_empty() && text.len() <= max)
    }
}

/// After the beginning of a map: the entry, if it can be used.
fn entry(nodes: &mut Nodes<'_>) -> Result<Option<Entry>, Unreadable> {
    let [mut name, mut version, mut url, mut digest] = std::array::from_fn(|_| Once::default());
    while let Some(key) = nodes.key()? {
        let value = nodes.next()?;
        match &*key {
            "name" => name.put(nodes, value)?,
            "version" => version.put(nodes, value)?,
            "digest" => digest.put(nodes, value)?,
            "urls" if value == Node::List => {
                let first = nodes.next()?;
                if first != Node::End {
                    url.put(nodes, first)?;
                    // The list is still open.
                    nodes.skip(&value)?;
                }
            }
            _ => nodes.skip(&value)?,
        }
    }
    let given = if digest.wrong {
        Digest::Invalid
    } else {
        Digest::parse(digest.text.as_deref().unwrap_or_default())
    };
    let (Some(_), Some(version), Some(url)) =
        (name.bounded(MAX_NAME), version.bounded(MAX_VERSION), url.bounded(MAX_URL))
    else {
        return Ok(None);
    };
    Ok(Some(Entry { version: version.into(), url: url.into(), digest: given }))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
