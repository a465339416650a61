//! Packs as releases refer to them: read once, decoded once, however many releases use them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Context, Error};
use crate::api::PackFrom;
use crate::cluster::version_of;
use crate::pack::{self, Limits, Pack};
use crate::release::ReleaseKey;
use crate::source;
use crate::watch::Reference;

/// Decoded packs kept; the one that was not used for the longest time goes first.
const KEPT: usize = 64;
/// What the packs kept may weigh together; the one read last is kept in any case.
const KEPT_BYTES: usize = 64 << 20;
/// What one scalar, list or map of the values takes, at most.
const NODE: usize = 200;
/// Packs that are decoded or rendered at a time. Each may take a hundred MiB while it lasts.
const TURNS: usize = 2;
const DEADLINE: Duration = Duration::from_secs(30);

/// Where a pack was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    ConfigMap(Reference, Option<String>),
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
    /// resourceVersion of the ConfigMap; 0 for a path.
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

/// About how much memory a pack takes, with those inside of it.
fn weight(pack: &Pack) -> usize {
    let files: usize = pack.files.iter().map(|(path, content)| path.len() + content.len()).sum();
    let inside: usize =
        pack.subpacks.iter().filter_map(|subpack| subpack.content.as_ref().ok()).map(weight).sum();
    // A schema is kept as it stands and compiled.
    let schema = 3 * pack.schema.as_ref().map_or(0, pack::Schema::nodes);
    // The texts of the values stand in a file too.
    2 * files + NODE * (pack::values::nodes(&pack.values) + pack::values::nodes(&pack.crds) + schema) + inside
}

impl Context {
    /// The pack of a release. A ConfigMap is read again when the watch says that it is another one or `max_age` is
    /// zero, a path when `max_age` has passed.
    pub(super) async fn pack(
        &self,
        from: &PackFrom,
        key: &ReleaseKey,
        max_age: Duration,
    ) -> Result<Arc<Pack>, Error> {
        let (kind, result) = match from {
            PackFrom::ConfigMap { name, key: data_key } => {
                ("ConfigMap", self.in_config_map(name, data_key.as_deref(), key, max_age.is_zero()).await)
            }
            PackFrom::Path(path) => {
                self.references.refer(key, HashSet::new());
                ("path", self.below_pack_dir(path, max_age).await)
            }
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

    async fn in_config_map(
        &self,
        name: &str,
        data_key: Option<&str>,
        key: &ReleaseKey,
        read_anyway: bool,
    ) -> Result<(Arc<Pack>, bool), Error> {
        let reference: Reference = (key.namespace.clone(), name.to_owned());
        // Before the read, so that no change falls between the two.
        self.references.refer(key, HashSet::from([reference.clone()]));
        let place = Place::ConfigMap(reference.clone(), data_key.map(str::to_owned));
        if !read_anyway
            && let Some(version) = self.references.version(&reference)
            && let Some(pack) = self.packs.get(&place, |kept| kept.version == version)
        {
            return Ok((pack, false));
        }
        let map = read_config_map(self.cluster.client().clone(), &reference).await?;
        let version = version_of(&map.metadata);
        self.references.read(&reference, version);
        if let Some(pack) = self.packs.get(&place, |kept| kept.version == version) {
            return Ok((pack, true));
        }
        let wanted = data_key.map(str::to_owned);
        let pack = self
            .blocking(move || source::configmap::pack_from(&map, wanted.as_deref(), &Limits::default()))
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
    async fn blocking<T: Send + 'static>(
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

async fn read_config_map(client: Client, reference: &Reference) -> Result<ConfigMap, Error> {
    let (namespace, name) = reference;
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let failed =
        |message: String| Error::ConfigMap { namespace: namespace.clone(), name: name.clone(), message };
    match tokio::time::timeout(DEADLINE, api.get_opt(name)).await {
        Ok(Ok(Some(map))) => Ok(map),
        Ok(Ok(None)) => Err(Error::ConfigMapNotFound { namespace: namespace.clone(), name: name.clone() }),
        Ok(Err(error)) => Err(failed(crate::cluster::describe(&error))),
        Err(_) => Err(failed(format!("no answer within {}s", DEADLINE.as_secs()))),
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
