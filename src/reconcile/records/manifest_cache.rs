//! The manifest of what is deployed, kept small: what another field manager changed is put back without reading the record first.

use crate::manifest::Object;

use crate::reconcile::records::parsed::objects_in;
use crate::reconcile::records::{NewestRecord, Records};
use crate::release::State;
use crate::storage::{Head, Stored};

/// A larger manifest is read again when it is needed.
const MOST: usize = 24 << 10;
/// A longer manifest is not even compressed: to work with it takes more than a pass has for nothing.
pub(in crate::reconcile) const LONGEST: usize = 256 << 10;
/// The best of the quick levels: most of a manifest repeats itself.
const LEVEL: i32 = 3;

/// A manifest in memory.
pub(in crate::reconcile) struct Kept {
    revision: u32,
    compressed: Vec<u8>,
    length: usize,
}

impl Kept {
    fn of(stored: &Stored) -> Option<Self> {
        let elsewhere = stored.private.iter().any(|private| !private.definitions.is_empty());
        if elsewhere || stored.record.state != State::Deployed {
            return None;
        }
        let manifest = &stored.record.manifest;
        if manifest.len() > LONGEST {
            return None;
        }
        let mut compressed = zstd::bulk::compress(manifest.as_bytes(), LEVEL).ok()?;
        // It has room for what cannot be compressed.
        compressed.shrink_to_fit();
        let fits = compressed.len() <= MOST;
        fits.then_some(Self { revision: stored.record.version, compressed, length: manifest.len() })
    }

    fn manifest(&self) -> Option<String> {
        let bytes = zstd::bulk::decompress(&self.compressed, self.length).ok()?;
        String::from_utf8(bytes).ok()
    }
}

impl NewestRecord<'_> {
    /// The objects of the newest revision, if its manifest is kept; with what the record says of them, but for manifest and values.
    pub(in crate::reconcile) async fn kept_objects(&self) -> Option<(Stored, Vec<Object>)> {
        let Some((Head::Ours(head), _)) = &self.memory.head else { return None };
        let kept = self.memory.manifest.as_ref().filter(|kept| kept.revision == head.record.version)?;
        let mut stored = (**head).clone();
        stored.record.manifest = kept.manifest()?;
        let objects = objects_in(&stored).await.ok()?;
        Some((stored, objects))
    }
}

impl Records<'_> {
    /// Keeps the manifest of a revision that is deployed, and no other.
    pub(in crate::reconcile) fn keep_manifest(&mut self, stored: &Stored) {
        self.memory.manifest = Kept::of(stored);
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;

    #[test]
    fn a_kept_manifest_is_what_it_was() {
        let manifest = "kind: ConfigMap\ndata: {a: ü}\n".repeat(100);
        let compressed = zstd::bulk::compress(manifest.as_bytes(), super::LEVEL).unwrap();
        assert!(compressed.len() < manifest.len() / 10);
        let kept = Kept { revision: 1, compressed, length: manifest.len() };
        assert_eq!(kept.manifest().unwrap(), manifest);
    }
}
