//! Metadata-only watches of revision records: they notice what somebody else does to them.
//!
//! One for Secrets and one for ConfigMaps; nobody tells of files, so of those only what we read and wrote ourselves is
//! known. Kept for each release name: the newest revision and its resourceVersion. The head that a pass remembers is
//! compared with it; a difference means that the record must be read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, channel::mpsc::UnboundedSender};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use tokio::sync::watch;

use super::objects::{OnRestart, lock};
use crate::api::{HistoryStorage, names};
use crate::cluster::version_of;
use crate::release::{Record, ReleaseKey, revision_of};

const PAGE: u32 = 500;

/// Which records belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordsOf {
    pub storage: HistoryStorage,
    /// Namespace of the records.
    pub namespace: String,
    /// What their names have in common: the release's name, and before it its namespace when that is another one.
    pub stem: String,
}

/// The newest record of a release as the watch knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// No record, or none of which the watch has heard.
    None,
    At {
        revision: u32,
        version: u64,
    },
    /// The newest record was deleted by somebody: what is newest now is not known.
    Lost,
}

#[derive(Debug, Default)]
struct State {
    newest: HashMap<RecordsOf, Newest>,
    listing: HashMap<RecordsOf, Newest>,
    claims: HashMap<RecordsOf, ReleaseKey>,
    /// Records whose parts are heeded too, by the names of their main objects.
    heeded: HashMap<RecordsOf, (u32, String)>,
}

impl State {
    fn newest(&self, of: &RecordsOf) -> Newest {
        self.newest.get(of).copied().unwrap_or(Newest::None)
    }

    /// Takes note of a record; `true` when it changes what is newest.
    fn saw(&mut self, of: RecordsOf, revision: u32, version: u64) -> bool {
        let newer = match self.newest(&of) {
            Newest::At { revision: known, version: at } => {
                revision > known || (revision == known && version > at)
            }
            Newest::None | Newest::Lost => true,
        };
        if newer {
            self.newest.insert(of, Newest::At { revision, version });
        }
        newer
    }

    /// A read shows the past when the watch told something else than `before` while it was under way.
    fn read(&mut self, of: &RecordsOf, before: Newest, found: Newest) {
        if self.newest(of) == before {
            self.newest.insert(of.clone(), found);
        }
    }

    fn lost(&mut self, of: RecordsOf, revision: u32) -> bool {
        let was_newest = matches!(self.newest(&of), Newest::At { revision: known, .. } if known == revision);
        if was_newest {
            self.newest.insert(of, Newest::Lost);
        }
        was_newest
    }
}

/// The watches of all revision records.
pub struct RecordWatch {
    state: Arc<Mutex<State>>,
    watches: Vec<(watch::Receiver<bool>, tokio::task::AbortHandle)>,
}

impl RecordWatch {
    /// Starts the watches; changes wake the release that claims the name.
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
        Self { state, watches }
    }

    /// Waits for the first lists.
    pub async fn listed(&self) {
        for (listed_rx, _) in &self.watches {
            // The sender lives in the task; when that is gone the process is stopping.
            let _ = listed_rx.clone().wait_for(|listed| *listed).await;
        }
    }

    /// Says which release the records of `of` belong to.
    pub fn claim(&self, of: &RecordsOf, release: &ReleaseKey) {
        lock(&self.state).claims.insert(of.clone(), release.clone());
    }

    /// Ends the claim of a release.
    pub fn unclaim(&self, release: &ReleaseKey) {
        let mut state = lock(&self.state);
        let State { claims, heeded, .. } = &mut *state;
        claims.retain(|_, claimant| claimant != release);
        heeded.retain(|of, _| claims.contains_key(of));
    }

    /// Says that somebody's write of a part of this revision is news as well, until told otherwise: it may make a record
    /// whole that could not be read.
    pub fn heed_parts(&self, of: &RecordsOf, revision: Option<u32>) {
        let mut state = lock(&self.state);
        match revision {
            Some(revision) => {
                let main = Record::key_of(&of.stem, revision);
                state.heeded.insert(of.clone(), (revision, main));
            }
            None => drop(state.heeded.remove(of)),
        }
    }

    /// The newest record of a name.
    #[must_use]
    pub fn newest(&self, of: &RecordsOf) -> Newest {
        lock(&self.state).newest(of)
    }

    /// Takes note of a write of ours, so that its echo is not news.
    pub fn wrote(&self, of: &RecordsOf, revision: u32, version: u64) {
        lock(&self.state).saw(of.clone(), revision, version);
    }

    /// Takes note that we deleted all records of a name of which no watch tells.
    pub fn removed(&self, of: &RecordsOf) {
        if of.storage == HistoryStorage::File {
            lock(&self.state).newest.remove(of);
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
        let mut news = |state: &State, of: &RecordsOf| woken.extend(state.claims.get(of).cloned());
        match event {
            Ok(watcher::Event::Init) => state.listing.retain(|of, _| of.storage != self.storage),
            Ok(watcher::Event::InitApply(object)) => {
                if let Some((of, revision)) = self.concerned(&state, &object.metadata) {
                    let version = version_of(&object.metadata);
                    let listed = state.listing.entry(of).or_insert(Newest::None);
                    let newer = !matches!(
                        listed,
                        Newest::At { revision: known, version: at } if (*known, *at) >= (revision, version)
                    );
                    if newer {
                        *listed = Newest::At { revision, version };
                    }
                }
            }
            Ok(watcher::Event::InitDone) => {
                let listed: HashMap<RecordsOf, Newest> =
                    state.listing.extract_if(|of, _| of.storage == self.storage).collect();
                let gone = |of: &&RecordsOf| of.storage == self.storage && !listed.contains_key(*of);
                let gone: Vec<RecordsOf> = state.newest.keys().filter(gone).cloned().collect();
                for of in gone {
                    state.newest.insert(of.clone(), Newest::Lost);
                    news(&state, &of);
                }
                for (of, newest) in listed {
                    if let Newest::At { revision, version } = newest
                        && state.saw(of.clone(), revision, version)
                    {
                        news(&state, &of);
                    }
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
                    && state.lost(of.clone(), revision)
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
mod tests {
    use super::*;

    fn records_of() -> RecordsOf {
        RecordsOf { storage: HistoryStorage::Secret, namespace: "apps".to_owned(), stem: "web".to_owned() }
    }

    #[test]
    fn a_read_does_not_take_back_what_the_watch_told_meanwhile() {
        let (mut state, of) = (State::default(), records_of());
        let at = |revision, version| Newest::At { revision, version };
        assert!(state.saw(of.clone(), 1, 10));
        let before = state.newest(&of);
        state.read(&of, before, at(1, 11));
        assert_eq!(state.newest(&of), at(1, 11));

        let before = state.newest(&of);
        assert!(state.saw(of.clone(), 2, 12));
        state.read(&of, before, at(1, 11));
        assert_eq!(state.newest(&of), at(2, 12));

        let before = state.newest(&of);
        assert!(state.lost(of.clone(), 2));
        state.read(&of, before, at(2, 12));
        assert_eq!(state.newest(&of), Newest::Lost);
        state.read(&of, Newest::Lost, at(1, 11));
        assert_eq!(state.newest(&of), at(1, 11));
    }
}
