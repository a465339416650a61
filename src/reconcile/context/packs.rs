//! Packs as releases refer to them: read once, decoded once, however many releases use them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedSender;

use crate::cluster::{Account, Reference, Turns};
use crate::pack::{self, Pack};
use crate::reconcile::Error;
use crate::reconcile::context::fair::{FairTurns, Shares, Turn};
use crate::reconcile::context::values::NODE;
use crate::release::ReleaseKey;
use crate::source::lru::WeightedLru;

/// Decoded packs kept; the one that was not used for the longest time goes first.
const KEPT: usize = 64;
/// What the packs kept may weigh together; the one read last is kept in any case.
const KEPT_BYTES: usize = 64 << 20;
/// Places that are remembered: the same content may be read at many.
const PLACES: usize = 4096;
/// Packs that are decoded or rendered at a time: each may take a hundred MiB while it lasts. One namespace never has all of
/// them, for what runs cannot be stopped when another one comes.
const TURNS: Shares = Shares { capacity: 2, each: 1, patience: Duration::from_secs(10), lent: true };

/// Where a pack was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::reconcile) enum Place {
    /// Read as an account, `None` as the operator: what one may read is not another one's to use. The last text, there and below,
    /// is for the keys of which one has signed it; empty: signatures were not looked at.
    Object(Option<Account>, Reference, Option<String>, String),
    Path(String, String),
    /// An archive, by the digest of its bytes, and the directory in it.
    Archive(String, Option<String>),
}

/// Says since when directories and files of the pack directory have to be read anew.
#[derive(Clone, Default)]
pub struct PathLooks(Arc<Mutex<Option<Instant>>>);

impl PathLooks {
    /// What was read before `now` may have changed.
    pub fn look_again(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether what was read then is new enough.
    pub(in crate::reconcile) fn holds(&self, read_at: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|since| read_at >= since)
    }
}

/// Decoded packs: one for each content, wherever and however often it was read.
pub struct Packs {
    kept: Mutex<Kept>,
    /// Reads a place once for all who ask for it at the same moment.
    pub(in crate::reconcile) reading: Turns<Place>,
    pub(in crate::reconcile) turns: FairTurns,
    pub(in crate::reconcile) paths: PathLooks,
    /// The keys in Secrets, by the version that was read: a change of something else in a Secret is no change of its keys.
    signers: Mutex<WeightedLru<String, String>>,
}

struct Kept {
    /// In the order in which they were read.
    places: WeightedLru<Place, Found>,
    /// By the digest of their content.
    packs: WeightedLru<String, Arc<Pack>>,
}

/// What was found at a place.
pub(in crate::reconcile) struct Found {
    /// resourceVersion of the object; 0 for anything else.
    pub(in crate::reconcile) version: u64,
    pub(in crate::reconcile) read_at: Instant,
    digest: String,
}

impl Default for Kept {
    fn default() -> Self {
        Self { places: WeightedLru::new(PLACES, PLACES), packs: WeightedLru::new(KEPT, KEPT_BYTES) }
    }
}

impl Packs {
    /// None yet, for the passes of so many workers. The releases whose turn has come to have theirs decoded or rendered are sent to `wake_tx`.
    #[must_use]
    pub fn new(workers: usize, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        let turns = FairTurns::new(TURNS, workers, wake_tx);
        let signers = Mutex::new(WeightedLru::new(PLACES, PLACES));
        Self {
            kept: Mutex::default(),
            reading: Turns::default(),
            turns,
            paths: PathLooks::default(),
            signers,
        }
    }

    /// Has the pack directory looked at.
    #[must_use]
    pub fn paths(&self) -> PathLooks {
        self.paths.clone()
    }

    pub(in crate::reconcile) fn get(
        &self,
        place: &Place,
        fresh: impl Fn(&Found) -> bool,
    ) -> Option<Arc<Pack>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { places, packs } = &mut *kept;
        let found = places.peek(place).filter(|found| fresh(found))?;
        packs.get(&found.digest).map(|pack| Arc::clone(pack))
    }

    /// Keeps what was read at a place. The same content that was read elsewhere is given instead, so that all its
    /// users share one pack.
    pub(in crate::reconcile) fn put(&self, place: Place, version: u64, pack: Pack) -> Arc<Pack> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = pack.digest.clone();
        kept.leaves(&place, &digest);
        let known = kept.packs.get(&digest).map(|pack| Arc::clone(pack));
        let shared = known.unwrap_or_else(|| kept.add(pack));
        kept.stands_at(place, version, digest);
        shared
    }

    /// The pack that was found elsewhere is also at this place.
    pub(in crate::reconcile) fn also_at(&self, place: Place, version: u64, pack: &Arc<Pack>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.packs.get(&pack.digest).is_some() {
            kept.leaves(&place, &pack.digest);
            kept.stands_at(place, version, pack.digest.clone());
        }
    }

    /// What [`Packs::signers_are`] was told of this version of a Secret.
    pub(in crate::reconcile) fn signers(&self, version: &str) -> Option<String> {
        let mut signers = self.signers.lock().unwrap_or_else(PoisonError::into_inner);
        signers.get(&version.to_owned()).map(|keys| keys.clone())
    }

    /// This version of a Secret holds these keys.
    pub(in crate::reconcile) fn signers_are(&self, version: String, keys: String) {
        self.signers.lock().unwrap_or_else(PoisonError::into_inner).put(version, keys, 1);
    }

    /// A turn at decoding or rendering, if one is free for this release or soon will be. It belongs to that work.
    pub(in crate::reconcile) async fn turn(&self, key: &ReleaseKey) -> Result<Turn, Error> {
        self.turns.take_soon(key, 1).await.map_err(|since| Error::Queued { since })
    }
}

impl Kept {
    fn add(&mut self, pack: Pack) -> Arc<Pack> {
        let (digest, weight, pack) = (pack.digest.clone(), weight(&pack), Arc::new(pack));
        for (gone, _) in self.packs.put(digest, Arc::clone(&pack), weight) {
            self.places.retain(|_, found| found.digest != gone);
        }
        pack
    }

    /// What stood at the place is not there any more, unless it is this.
    fn leaves(&mut self, place: &Place, digest: &str) {
        if let Some(before) = self.places.remove(place).filter(|before| before.digest != digest) {
            self.drop_if_unused(&before.digest);
        }
    }

    fn stands_at(&mut self, place: Place, version: u64, digest: String) {
        let found = Found { version, read_at: Instant::now(), digest };
        for (_, gone) in self.places.put(place, found, 1) {
            self.drop_if_unused(&gone.digest);
        }
    }

    /// What stands at no place any more is not found any more.
    fn drop_if_unused(&mut self, digest: &str) {
        if !self.places.iter().any(|(_, found)| found.digest == digest) {
            self.packs.remove(digest);
        }
    }
}

/// About how much memory a pack takes, with those inside of it.
fn weight(pack: &Pack) -> usize {
    let files: usize = pack.files.iter().map(|(path, content)| path.len() + content.len()).sum();
    let inside: usize =
        pack.subpacks.iter().filter_map(|subpack| subpack.content.as_ref().ok()).map(weight).sum();
    // A schema is kept as it stands and compiled.
    let schema = 3 * pack.schema.as_ref().map_or(0, pack::Schema::nodes);
    // Compiled templates take several times their text.
    let templates = pack.files.iter().filter(|(path, _)| path.starts_with("templates/"));
    let compiled = 8 * templates.map(|(_, content)| content.len()).sum::<usize>();
    // The texts of the values stand in a file too.
    2 * files + NODE * (pack::values::nodes(&pack.values) + schema) + compiled + inside
}

/// Unpacking uses the CPU and files block: neither belongs on an async thread. The turn is kept for the pass, which may have to
/// render next.
pub(in crate::reconcile) async fn decoded<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let work = tokio::task::spawn_blocking(move || (work(), turn));
    let (done, turn) = work.await.map_err(|error| Error::PackAborted { message: error.to_string() })?;
    turn.keep();
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Limits;

    fn pack(content: &str, bytes: usize) -> Pack {
        let text = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";
        let files = [
            ("Pack.yaml".to_owned(), text.as_bytes().to_vec()),
            ("big".to_owned(), vec![b'x'; bytes]),
            ("content".to_owned(), content.as_bytes().to_vec()),
        ];
        pack::from_files(files.into(), &Limits::default()).unwrap()
    }

    fn place(name: &str) -> Place {
        Place::Path(name.to_owned(), String::new())
    }

    fn packs() -> Packs {
        Packs::new(10, futures::channel::mpsc::unbounded().0)
    }

    fn kept(packs: &Packs) -> Vec<Place> {
        let mut places: Vec<Place> =
            packs.kept.lock().unwrap().places.iter().map(|(place, _)| place.clone()).collect();
        places.sort_by_key(|place| format!("{place:?}"));
        places
    }

    #[test]
    fn the_packs_kept_are_bounded_in_bytes_and_the_least_recently_used_goes_first() {
        let packs = packs();
        for name in ["a", "b", "c"] {
            packs.put(place(name), 0, pack(name, 10 << 20));
        }
        assert!(packs.get(&place("a"), |_| true).is_some());
        packs.put(place("d"), 0, pack("d", 10 << 20));
        assert_eq!(kept(&packs), [place("a"), place("c"), place("d")]);
        packs.put(place("d"), 0, pack("d", 10));
        assert_eq!(kept(&packs), [place("a"), place("c"), place("d")], "replaced, not added");
        assert_eq!(packs.kept.lock().unwrap().packs.len(), 3, "nobody finds what was replaced");
        packs.put(place("e"), 0, pack("e", 40 << 20));
        assert_eq!(kept(&packs), [place("e")], "too large, but read last");
    }

    #[test]
    fn the_packs_kept_are_bounded_in_number() {
        let packs = packs();
        for index in 0..KEPT + 5 {
            packs.put(place(&index.to_string()), 0, pack(&index.to_string(), 1));
        }
        let kept = kept(&packs);
        assert_eq!(kept.len(), KEPT);
        assert!(!kept.contains(&place("4")) && kept.contains(&place("5")));
    }

    #[test]
    fn one_content_is_one_pack_wherever_it_was_read() {
        let packs = packs();
        let same = pack("same", 10);
        let first = packs.put(place("a"), 0, same.clone());
        for index in 0..PLACES + 5 {
            let again = packs.put(Place::Archive(index.to_string(), None), 0, same.clone());
            assert!(Arc::ptr_eq(&first, &again));
        }
        let last = packs.get(&Place::Archive((PLACES + 4).to_string(), None), |_| true).unwrap();
        assert!(Arc::ptr_eq(&first, &last));
        assert_eq!(kept(&packs).len(), PLACES);
        assert_eq!(packs.kept.lock().unwrap().packs.len(), 1);
        let other = packs.put(place("a"), 0, pack("other", 10));
        assert!(!Arc::ptr_eq(&first, &other));
    }
}
