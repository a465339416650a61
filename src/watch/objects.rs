//! One metadata-only watch for each kind in use, counted by the releases that use it.
//!
//! A watch is started before the apply that needs it and stopped with the last release of its kind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, channel::mpsc::UnboundedSender};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;

use super::table::{Sighting, Suspicion, Table};
use crate::api::names;
use crate::cluster::{Error, Kind, fingerprint_of, version_of};
use crate::manifest::ObjectId;
use crate::release::ReleaseKey;

/// How long a watch may take to list its kind for the first time.
const FIRST_LIST: Duration = Duration::from_secs(30);
const PAGE: u32 = 250;

/// Told about each time that a watch had to start again, with the kind.
pub type OnRestart = Arc<dyn Fn(&str) + Send + Sync>;

/// Group and kind: versions of one kind show the same objects.
type GroupKind = (String, String);

/// The watches of all kinds in use, and the table they feed.
pub struct ObjectWatches {
    client: Client,
    table: Arc<Mutex<Table>>,
    kinds: Mutex<HashMap<GroupKind, KindWatch>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
}

struct KindWatch {
    users: HashSet<ReleaseKey>,
    listed_rx: watch::Receiver<Listed>,
    task: tokio::task::AbortHandle,
}

#[derive(Clone, Debug, Default)]
struct Listed {
    done: bool,
    error: Option<String>,
}

impl ObjectWatches {
    /// Watches that send the releases to reconcile to `wake_tx`.
    #[must_use]
    pub fn new(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        Self { client, table: Arc::default(), kinds: Mutex::default(), wake_tx, on_restart }
    }

    /// The table, for short synchronous use.
    pub fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Wakes a release as an event would.
    pub fn wake(&self, release: &ReleaseKey) {
        // The receiver lives as long as the controller; afterwards nobody needs waking.
        let _ = self.wake_tx.unbounded_send(release.clone());
    }

    /// Objects of `release` that are not as they were last applied.
    #[must_use]
    pub fn suspicions(&self, release: &ReleaseKey) -> Vec<Suspicion> {
        self.table().suspicions(release)
    }

    /// Makes sure that `kind` is watched for `user`, and waits for the first list.
    ///
    /// # Errors
    /// `Watch` when the list does not come within 30 s; the watch keeps trying.
    pub async fn ensure(&self, kind: &Kind, user: &ReleaseKey) -> Result<(), Error> {
        let mut listed_rx = self.start(kind, user);
        let listed = async { listed_rx.wait_for(|listed| listed.done).await.is_ok() };
        if tokio::time::timeout(FIRST_LIST, listed).await == Ok(true) {
            return Ok(());
        }
        let message = listed_rx.borrow().error.clone().unwrap_or_else(|| "no answer".to_owned());
        Err(Error::Watch { kind: kind.resource.kind.clone(), message, after: FIRST_LIST })
    }

    fn start(&self, kind: &Kind, user: &ReleaseKey) -> watch::Receiver<Listed> {
        let name = (kind.resource.group.clone(), kind.resource.kind.clone());
        let mut kinds = lock(&self.kinds);
        let entry = kinds.entry(name).or_insert_with(|| {
            let (listed_tx, listed_rx) = watch::channel(Listed::default());
            let task = tokio::spawn(run(
                self.client.clone(),
                kind.clone(),
                Arc::clone(&self.table),
                self.wake_tx.clone(),
                listed_tx,
                Arc::clone(&self.on_restart),
            ));
            KindWatch { users: HashSet::new(), listed_rx, task: task.abort_handle() }
        });
        entry.users.insert(user.clone());
        entry.listed_rx.clone()
    }

    /// Ends the use of every kind by `user` except those in `keep`; a watch without users stops.
    pub fn retain_kinds(&self, user: &ReleaseKey, keep: &BTreeSet<GroupKind>) {
        lock(&self.kinds).retain(|name, watch| {
            if !keep.contains(name) {
                watch.users.remove(user);
            }
            let used = !watch.users.is_empty();
            if !used {
                watch.task.abort();
            }
            used
        });
    }

    /// Whether a watch of this kind runs and has listed.
    #[must_use]
    pub fn watches(&self, group: &str, kind: &str) -> bool {
        let name = (group.to_owned(), kind.to_owned());
        lock(&self.kinds).get(&name).is_some_and(|watch| watch.listed_rx.borrow().done)
    }
}

impl Drop for ObjectWatches {
    fn drop(&mut self) {
        for watch in lock(&self.kinds).values() {
            watch.task.abort();
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section leaves the value valid, so a panic elsewhere does no harm.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(
    client: Client,
    kind: Kind,
    table: Arc<Mutex<Table>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    listed_tx: watch::Sender<Listed>,
    on_restart: OnRestart,
) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &kind.resource);
    let selector = format!("{},!{}", names::RELEASE_NAME, names::STORAGE_DRIVER);
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let mut events = watcher(api, config).default_backoff().boxed();
    let (group, name) = (kind.resource.group.as_str(), kind.resource.kind.as_str());
    let id = |meta: &ObjectMeta| ObjectId {
        group: group.to_owned(),
        kind: name.to_owned(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    };
    while let Some(event) = events.next().await {
        let woken = match event {
            Ok(watcher::Event::Init) => {
                lock(&table).list_begins(group, name);
                Vec::new()
            }
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                let id = id(&object.metadata);
                lock(&table).saw(&id, Sighting::of(object.metadata)).into_iter().collect()
            }
            Ok(watcher::Event::Delete(object)) => {
                let version = version_of(&object.metadata);
                lock(&table).lost(&id(&object.metadata), version).into_iter().collect()
            }
            Ok(watcher::Event::InitDone) => {
                let woken = lock(&table).list_ends(group, name);
                listed_tx.send_replace(Listed { done: true, error: None });
                woken
            }
            Err(error) => {
                on_restart(name);
                tracing::debug!(kind = name, %error, "the watch of a kind starts again");
                listed_tx.send_if_modified(|listed| {
                    listed.error = Some(error.to_string());
                    !listed.done
                });
                Vec::new()
            }
        };
        for release in woken {
            let _ = wake_tx.unbounded_send(release);
        }
    }
}

impl Sighting {
    /// An object as its metadata shows it.
    #[must_use]
    pub fn of(meta: ObjectMeta) -> Self {
        Self {
            fingerprint: fingerprint_of(&meta),
            version: version_of(&meta),
            uid: meta.uid,
            terminating: meta.deletion_timestamp.is_some(),
            managed_fields: meta.managed_fields.unwrap_or_default(),
        }
    }
}
