//! Metadata-only watches of revision records: they notice what other writers do to them.
//!
//! One for Secrets and one for ConfigMaps; no watch tells of files, so of those only what we read and wrote ourselves is
//! known. Kept for each release name that has records: the newest revision, its resourceVersion, and which revisions
//! there are. The head that a pass remembers is compared with it; a difference means that the record must be read again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures::{StreamExt, channel::mpsc::UnboundedSender};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use tokio::sync::watch;

use super::claims::{Claims, RecordsOf};
use super::objects::{OnRestart, lock};
use crate::api::{HistoryStorage, names};
use crate::cluster::version_of;
use crate::release::{Record, ReleaseKey, revision_of};

const PAGE: u32 = 500;

/// The newest record of a release as the watch knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// No record, or none of which the watch has heard.
    None,
    At {
        revision: u32,
        version: u64,
    },
    /// The newest record was deleted by another client: what is newest now is not known.
    Lost,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<RecordsOf, Known>,
    /// What the running lists have shown so far, and what was seen or written meanwhile.
    listing: HashMap<RecordsOf, Known>,
    /// Storages of which a list runs.
    lists: HashSet<HistoryStorage>,
    claims: Claims,
    /// Records whose parts are heeded too, by the names of their main objects.
    heeded: HashMap<RecordsOf, (u32, String)>,
}

/// What is known of the records of one name.
#[derive(Debug)]
struct Known {
    newest: Newest,
    /// The revisions of which the watch has heard. The name is forgotten with the last one.
    revisions: BTreeSet<u32>,
}

impl Default for Known {
    fn default() -> Self {
        Self { newest: Newest::None, revisions: BTreeSet::new() }
    }
}

impl Known {
    fn saw(&mut self, revision: u32, version: u64) -> bool {
        self.revisions.insert(revision);
        let newer = match self.newest {
            Newest::At { revision: known, version: at } => (revision, version) > (known, at),
            Newest::None | Newest::Lost => true,
        };
        if newer {
            self.newest = Newest::At { revision, version };
        }
        newer
    }
}

impl State {
    fn newest(&self, of: &RecordsOf) -> Newest {
        self.known.get(of).map_or(Newest::None, |known| known.newest)
    }

    /// Takes note of a record; `true` when it changes what is newest.
    fn saw(&mut self, of: RecordsOf, revision: u32, version: u64) -> bool {
        if self.lists.contains(&of.storage) {
            self.listing.entry(of.clone()).or_default().saw(revision, version);
        }
        self.known.entry(of).or_default().saw(revision, version)
    }

    /// A read shows the past when the watch told something else than `before` while it was under way.
    fn read(&mut self, of: &RecordsOf, before: Newest, found: Newest) {
        if self.newest(of) != before {
            return;
        }
        if found == Newest::None && self.known.get(of).is_none_or(|known| known.revisions.is_empty()) {
            self.known.remove(of);
        } else {
            self.known.entry(of.clone()).or_default().newest = found;
        }
    }

    fn lost(&mut self, of: &RecordsOf, revision: u32) -> bool {
        if let Some(listed) = self.listing.get_mut(of) {
            listed.revisions.remove(&revision);
        }
        let Some(known) = self.known.get_mut(of) else { return false };
        known.revisions.remove(&revision);
        let was_newest = matches!(known.newest, Newest::At { revision: known, .. } if known == revision);
        if was_newest {
            known.newest = Newest::Lost;
        }
        self.forget_if_gone(of);
        was_newest
    }

    /// A name without records and without a release that asks for it belongs to no release.
    fn forget_if_gone(&mut self, of: &RecordsOf) {
        // Of files only what a read or a write of ours said is known.
        let gone = self
            .known
            .get(of)
            .is_some_and(|known| known.revisions.is_empty() && !matches!(known.newest, Newest::At { .. }));
        if gone && !self.claims.has(of) {
            self.known.remove(of);
        }
    }

    fn claim(&mut self, release: &ReleaseKey, names: &[RecordsOf]) {
        for of in self.claims.set(release, names) {
            self.heeded.remove(&of);
            self.forget_if_gone(&of);
        }
    }

    fn heed(&mut self, of: &RecordsOf, revision: Option<u32>) {
        match revision {
            // Without a release nothing has to be made whole.
            Some(revision) if self.claims.has(of) => {
                self.heeded.insert(of.clone(), (revision, Record::key_of(&of.stem, revision)));
            }
            _ => drop(self.heeded.remove(of)),
        }
    }

    /// Takes note of a write by a release; gives the others that are to hear of it: those that name what has a new revision.
    fn wrote(&mut self, of: &RecordsOf, revision: u32, version: u64, by: &ReleaseKey) -> Vec<ReleaseKey> {
        let before = self.newest(of);
        let known = matches!(before, Newest::At { revision: known, .. } if known >= revision);
        let newer = self.saw(of.clone(), revision, version);
        let others = self.claims.of(of).filter(|other| newer && !known && *other != by);
        others.cloned().collect()
    }

    fn list_begins(&mut self, storage: HistoryStorage) {
        self.listing.retain(|of, _| of.storage != storage);
        self.lists.insert(storage);
    }

    fn listed(&mut self, of: RecordsOf, revision: u32, version: u64) {
        self.listing.entry(of).or_default().saw(revision, version);
    }

    /// The list is complete; gives the names of which something else is the newest, or is not known any more.
    fn list_ends(&mut self, storage: HistoryStorage) -> Vec<RecordsOf> {
        self.lists.remove(&storage);
        let mut listed: HashMap<RecordsOf, Known> =
            self.listing.extract_if(|of, _| of.storage == storage).collect();
        let mut news = Vec::new();
        for (of, known) in self.known.iter_mut().filter(|(of, _)| of.storage == storage) {
            let Known { newest, revisions } = listed.remove(of).unwrap_or_default();
            known.revisions = revisions;
            let outlived = match (known.newest, newest) {
                (Newest::At { revision: known, .. }, Newest::At { revision, .. }) => revision < known,
                (Newest::At { .. }, _) => true,
                _ => false,
            };
            if outlived {
                // Another client deleted it while no watch ran; what is newest now is to be read.
                known.newest = Newest::Lost;
                news.push(of.clone());
            } else if let Newest::At { revision, version } = newest
                && known.saw(revision, version)
            {
                news.push(of.clone());
            }
        }
        news.extend(listed.keys().cloned());
        self.known.extend(listed);
        let gone: Vec<RecordsOf> = self.known.keys().filter(|of| of.storage == storage).cloned().collect();
        gone.iter().for_each(|of| self.forget_if_gone(of));
        news
    }
}

/// The watches of all revision records.
pub struct RecordWatch {
    state: Arc<Mutex<State>>,
    watches: Vec<(watch::Receiver<bool>, tokio::task::AbortHandle)>,
    wake_tx: UnboundedSender<ReleaseKey>,
}

impl RecordWatch {
    /// Starts the watches; changes wake the releases that claim the name.
    #[must_use]
    pub fn start(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let watched = |storage, driver, kind| Watched {
            storage,
            driver,
            kind,
            state: Arc::clone(&state),
            wake_tx: wake_tx.clone(),
            on_restart: Arc::clone(&on_restart),
        };
        let secrets = watched(HistoryStorage::Secret, names::DRIVER_SECRETS, "Secret");
        let config_maps = watched(HistoryStorage::ConfigMap, names::DRIVER_CONFIGMAP, "ConfigMap");
        let watches = vec![secrets.start::<Secret>(client.clone()), config_maps.start::<ConfigMap>(client)];
        Self { state, watches, wake_tx }
    }

    /// Waits for the first lists.
    pub async fn listed(&self) {
        for (listed_rx, _) in &self.watches {
            // The sender lives in the task; when that is gone the process is stopping.
            let _ = listed_rx.clone().wait_for(|listed| *listed).await;
        }
    }

    /// Says of which names a release is to hear; of what it claimed before and not now it hears no more. Whether it may hear
    /// of them is for the caller to know.
    pub fn claim(&self, release: &ReleaseKey, names: &[RecordsOf]) {
        lock(&self.state).claim(release, names);
    }

    /// Says that another client's write of a part of this revision is news as well, until told otherwise: it may make a record
    /// whole that could not be read.
    pub fn heed_parts(&self, of: &RecordsOf, revision: Option<u32>) {
        lock(&self.state).heed(of, revision);
    }

    /// The newest record of a name.
    #[must_use]
    pub fn newest(&self, of: &RecordsOf) -> Newest {
        lock(&self.state).newest(of)
    }

    /// Takes note of a record of which no watch tells.
    pub fn found(&self, of: &RecordsOf, revision: u32, version: u64) {
        lock(&self.state).saw(of.clone(), revision, version);
    }

    /// Takes note of a write of ours for a release, so that its echo is no news to that one. Others hear of a new revision.
    pub fn wrote(&self, of: &RecordsOf, revision: u32, version: u64, by: &ReleaseKey) {
        for other in lock(&self.state).wrote(of, revision, version, by) {
            let _ = self.wake_tx.unbounded_send(other);
        }
    }

    /// Takes note that we deleted all records of a name of which no watch tells.
    pub fn removed(&self, of: &RecordsOf) {
        if of.storage == HistoryStorage::File {
            lock(&self.state).known.remove(of);
        }
    }

    /// Takes note of what a read found to be newest, unless the watch knows more than `before` the read.
    pub fn read(&self, of: &RecordsOf, before: Newest, found: Newest) {
        lock(&self.state).read(of, before, found);
    }
}

impl Drop for RecordWatch {
    fn drop(&mut self) {
        for (_, task) in &self.watches {
            task.abort();
        }
    }
}

/// One of the watches.
struct Watched {
    storage: HistoryStorage,
    /// Value of the label that names the driver.
    driver: &'static str,
    kind: &'static str,
    state: Arc<Mutex<State>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
}

impl Watched {
    fn start<K>(self, client: Client) -> (watch::Receiver<bool>, tokio::task::AbortHandle)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
    {
        let (listed_tx, listed_rx) = watch::channel(false);
        let task = tokio::spawn(self.run::<K>(client, listed_tx)).abort_handle();
        (listed_rx, task)
    }

    async fn run<K>(self, client: Client, listed_tx: watch::Sender<bool>)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
    {
        let api: Api<PartialObjectMeta<K>> = Api::all(client);
        let selector = format!("{},{}={}", names::RELEASE_NAME, names::STORAGE_DRIVER, self.driver);
        let config = watcher::Config::default().labels(&selector).page_size(PAGE);
        let mut events = watcher(api, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            for release in self.take(event, &listed_tx) {
                let _ = self.wake_tx.unbounded_send(release);
            }
        }
    }

    /// Takes note of an event; gives whom it concerns.
    fn take<K>(
        &self,
        event: Result<watcher::Event<PartialObjectMeta<K>>, watcher::Error>,
        listed_tx: &watch::Sender<bool>,
    ) -> Vec<ReleaseKey> {
        let mut woken = Vec::new();
        let mut state = lock(&self.state);
        let mut news = |state: &State, of: &RecordsOf| woken.extend(state.claims.of(of).cloned());
        match event {
            Ok(watcher::Event::Init) => state.list_begins(self.storage),
            Ok(watcher::Event::InitApply(object)) => {
                if let Some((of, revision)) = self.concerned(&state, &object.metadata) {
                    state.listed(of, revision, version_of(&object.metadata));
                }
            }
            Ok(watcher::Event::InitDone) => {
                for of in state.list_ends(self.storage) {
                    news(&state, &of);
                }
                listed_tx.send_replace(true);
            }
            Ok(watcher::Event::Apply(object)) => {
                if let Some((of, revision)) = self.concerned(&state, &object.metadata)
                    && state.saw(of.clone(), revision, version_of(&object.metadata))
                {
                    news(&state, &of);
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                if let Some((of, revision)) = self.record(&object.metadata)
                    && state.lost(&of, revision)
                {
                    news(&state, &of);
                }
            }
            Err(error) => {
                (self.on_restart)(self.kind);
                tracing::debug!(%error, kind = self.kind, "the watch of revision records starts again");
            }
        }
        woken
    }

    /// Which record an object is, or is a part of, if that matters.
    fn concerned(&self, state: &State, meta: &ObjectMeta) -> Option<(RecordsOf, u32)> {
        let part = || {
            let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
            let (of, (revision, _)) = state.heeded.iter().find(|(of, (_, main))| {
                let own = name.strip_prefix(main.as_str()).is_some_and(|rest| rest.starts_with('.'));
                own && of.namespace == namespace && of.storage == self.storage
            })?;
            Some((of.clone(), *revision))
        };
        self.record(meta).or_else(part)
    }

    /// Which record an object is, by its name, which unlike its labels never changes. Parts of a record are no records.
    fn record(&self, meta: &ObjectMeta) -> Option<(RecordsOf, u32)> {
        if meta.labels.as_ref()?.contains_key(names::CHUNK_PARENT) {
            return None;
        }
        let (stem, revision) = revision_of(meta.name.as_deref()?)?;
        let of =
            RecordsOf { storage: self.storage, namespace: meta.namespace.clone()?, stem: stem.to_owned() };
        Some((of, revision))
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
