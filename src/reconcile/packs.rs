//! Packs as releases refer to them: read once, decoded once, however many releases use them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Context, Error};
use crate::api::PackFrom;
use crate::cluster::Reference;
use crate::pack::{self, Limits, Pack};
use crate::release::ReleaseKey;
use crate::source;
use crate::watch::Seen;

/// Decoded packs kept; the one that was not used for the longest time goes first.
const KEPT: usize = 64;
/// What the packs kept may weigh together; the one read last is kept in any case.
const KEPT_BYTES: usize = 64 << 20;
/// What one scalar, list or map of the values takes, at most.
const NODE: usize = 200;
/// Packs that are decoded or rendered at a time. Each may take a hundred MiB while it lasts.
const TURNS: usize = 2;

/// Where a pack was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Object(Reference, Option<String>),
    Path(String),
}

/// Decoded packs by where they were read.
pub struct Packs {
    kept: Mutex<HashMap<Place, Kept>>,
    turns: Arc<Semaphore>,
}

impl Default for Packs {
    fn default() -> Self {
        Self { kept: Mutex::default(), turns: Arc::new(Semaphore::new(TURNS)) }
    }
}

struct Kept {
    /// resourceVersion of the object; 0 for a path.
    version: u64,
    read_at: Instant,
    used_at: Instant,
    bytes: usize,
    pack: Arc<Pack>,
}

impl Packs {
    fn get(&self, place: &Place, fresh: impl Fn(&Kept) -> bool) -> Option<Arc<Pack>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get_mut(place).filter(|found| fresh(found))?;
        found.used_at = Instant::now();
        Some(Arc::clone(&found.pack))
    }

    fn put(&self, place: Place, version: u64, pack: &Arc<Pack>) {
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&place);
        let bytes = weight(pack);
        let mut total = bytes + kept.values().map(|entry| entry.bytes).sum::<usize>();
        while kept.len() >= KEPT || total > KEPT_BYTES {
            let oldest = kept.iter().min_by_key(|(_, entry)| entry.used_at).map(|(place, _)| place.clone());
            let Some(gone) = oldest.and_then(|place| kept.remove(&place)) else { break };
            total -= gone.bytes;
        }
        kept.insert(place, Kept { version, read_at: now, used_at: now, bytes, pack: Arc::clone(pack) });
    }

    /// Waits until a pack may be decoded or rendered. The permit belongs to that work.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}

/// About how much memory a pack takes.
fn weight(pack: &Pack) -> usize {
    let files: usize = pack.files.iter().map(|(path, content)| path.len() + content.len()).sum();
    // The texts of the values stand in a file too.
    2 * files + NODE * (pack::values::nodes(&pack.values) + pack::values::nodes(&pack.crds))
}

impl Context {
    /// The pack of a release, whose references are watched already. An object is read again when the watch says that
    /// it is another one or `max_age` is zero, a path when `max_age` has passed.
    pub(super) async fn pack(
        &self,
        from: &PackFrom,
        key: &ReleaseKey,
        max_age: Duration,
    ) -> Result<Arc<Pack>, Error> {
        let (kind, result) = match from {
            PackFrom::Object { kind, name, key: data_key } => {
                let reference =
                    Reference { kind: *kind, namespace: key.namespace.clone(), name: name.clone() };
                (kind.as_str(), self.in_object(reference, data_key.as_deref(), max_age.is_zero()).await)
            }
            PackFrom::Path(path) => ("path", self.below_pack_dir(path, max_age).await),
        };
        match result {
            Ok((pack, fetched)) => {
                if fetched {
                    self.report.fetched(kind, true);
                }
                Ok(pack)
            }
            Err(error) => {
                self.report.fetched(kind, false);
                Err(error)
            }
        }
    }

    async fn in_object(
        &self,
        reference: Reference,
        data_key: Option<&str>,
        read_anyway: bool,
    ) -> Result<(Arc<Pack>, bool), Error> {
        let place = Place::Object(reference.clone(), data_key.map(str::to_owned));
        if !read_anyway
            && let Seen::At(version) = self.references.seen(&reference)
            && let Some(pack) = self.packs.get(&place, |kept| kept.version == version)
        {
            return Ok((pack, false));
        }
        let contents = match self.read(&reference).await {
            Ok(Some(contents)) => contents,
            Ok(None) => return Err(Error::PackObjectNotFound { reference }),
            Err(message) => return Err(Error::PackObject { reference, message }),
        };
        let version = contents.version;
        if !contents.is_record
            && let Some(pack) = self.packs.get(&place, |kept| kept.version == version)
        {
            return Ok((pack, true));
        }
        let wanted = data_key.map(str::to_owned);
        let pack = self
            .blocking(move || {
                source::object::pack_from(&reference, &contents, wanted.as_deref(), &Limits::default())
            })
            .await?;
        let pack = Arc::new(pack?);
        self.packs.put(place, version, &pack);
        Ok((pack, true))
    }

    async fn below_pack_dir(&self, path: &str, max_age: Duration) -> Result<(Arc<Pack>, bool), Error> {
        let place = Place::Path(path.to_owned());
        if let Some(pack) = self.packs.get(&place, |kept| kept.read_at.elapsed() < max_age) {
            return Ok((pack, false));
        }
        let dir = self.pack_dir.clone().unwrap_or_default();
        let relative = path.to_owned();
        let pack =
            self.blocking(move || source::path::load(Path::new(&dir), &relative, &Limits::default())).await?;
        let pack = Arc::new(pack?);
        self.packs.put(place, 0, &pack);
        Ok((pack, true))
    }

    /// Unpacking uses the CPU and files block: neither belongs on an async thread.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.packs.turn().await;
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        work.await.map_err(|error| Error::PackAborted { message: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(bytes: usize) -> Arc<Pack> {
        let text = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";
        let files =
            [("Pack.yaml".to_owned(), text.as_bytes().to_vec()), ("big".to_owned(), vec![b'x'; bytes])];
        Arc::new(pack::from_files(files.into(), &Limits::default()).unwrap())
    }

    fn place(name: &str) -> Place {
        Place::Path(name.to_owned())
    }

    fn kept(packs: &Packs) -> Vec<Place> {
        let mut places: Vec<Place> = packs.kept.lock().unwrap().keys().cloned().collect();
        places.sort_by_key(|place| format!("{place:?}"));
        places
    }

    #[test]
    fn the_packs_kept_are_bounded_in_bytes_and_the_least_recently_used_goes_first() {
        let packs = Packs::default();
        for name in ["a", "b", "c"] {
            packs.put(place(name), 0, &pack(10 << 20));
        }
        assert!(packs.get(&place("a"), |_| true).is_some());
        packs.put(place("d"), 0, &pack(10 << 20));
        assert_eq!(kept(&packs), [place("a"), place("c"), place("d")]);
        packs.put(place("d"), 0, &pack(10));
        assert_eq!(kept(&packs), [place("a"), place("c"), place("d")], "replaced, not added");
        packs.put(place("e"), 0, &pack(40 << 20));
        assert_eq!(kept(&packs), [place("e")], "too large, but read last");
    }

    #[test]
    fn the_packs_kept_are_bounded_in_number() {
        let packs = Packs::default();
        for index in 0..KEPT + 5 {
            packs.put(place(&index.to_string()), 0, &pack(1));
        }
        let kept = kept(&packs);
        assert_eq!(kept.len(), KEPT);
        assert!(!kept.contains(&place("4")) && kept.contains(&place("5")));
    }
}
