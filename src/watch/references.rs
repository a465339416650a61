//! Metadata-only watches of the ConfigMaps, Secrets and service accounts that releases refer to.
//!
//! One stream for each of these kinds, from the first reference to the last. Nothing is kept of an object that no
//! release refers to, and nothing of the content of any. Revision records do not even stream in.

mod state;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::channel::mpsc::UnboundedSender;
use kube::Client;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher;

pub use state::Seen;

use super::objects::{OnRestart, lock};
use super::stream::{self, Event, Events};
use super::trouble::Trouble;
use crate::api::names;
use crate::cluster::{Reference, Referent, version_of};
use crate::release::ReleaseKey;
use state::{Known, State};

/// The watches of referenced objects.
pub struct ReferenceWatch {
    client: Client,
    state: Arc<Mutex<State>>,
    kinds: Mutex<HashMap<Referent, KindWatch>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
}

struct KindWatch {
    /// Fails for good: what is known may be old.
    broken: Arc<AtomicBool>,
    task: tokio::task::AbortHandle,
}

impl ReferenceWatch {
    #[must_use]
    pub fn new(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        Self { client, state: Arc::default(), kinds: Mutex::default(), wake_tx, on_restart }
    }

    /// Sets everything that `release` refers to; changes of it wake the release from now on.
    pub fn refer(&self, release: &ReleaseKey, references: HashSet<Reference>) {
        // Held to the end, so that of two calls the later one decides which watches run.
        let mut kinds = lock(&self.kinds);
        let mut state = lock(&self.state);
        if !state.refer(release, references) {
            return;
        }
        for kind in Referent::ALL {
            if state.uses(kind) {
                kinds.entry(kind).or_insert_with(|| self.spawn(kind));
            } else if let Some(watch) = kinds.remove(&kind) {
                watch.task.abort();
            }
        }
    }

    fn spawn(&self, kind: Referent) -> KindWatch {
        let broken: Arc<AtomicBool> = Arc::default();
        let run = Run {
            client: self.client.clone(),
            kind,
            state: Arc::clone(&self.state),
            broken: Arc::clone(&broken),
            wake_tx: self.wake_tx.clone(),
            on_restart: Arc::clone(&self.on_restart),
        };
        KindWatch { broken, task: tokio::spawn(run.run()).abort_handle() }
    }

    /// What is known of a referenced object.
    #[must_use]
    pub fn seen(&self, reference: &Reference) -> Seen {
        let broken =
            lock(&self.kinds).get(&reference.kind).is_none_or(|watch| watch.broken.load(Ordering::Relaxed));
        if broken { Seen::Unknown } else { lock(&self.state).seen(reference) }
    }

    /// Whether any release refers to it.
    #[must_use]
    pub fn is_used(&self, reference: &Reference) -> bool {
        lock(&self.state).contains(reference)
    }

    /// How often something that `release` refers to changed since it refers to anything.
    #[must_use]
    pub fn changes(&self, release: &ReleaseKey) -> u64 {
        lock(&self.state).changes(release)
    }

    /// Takes note of the resourceVersion that a read returned, `None` if there is no such object. `before` is what
    /// [`seen`](Self::seen) said before the read.
    pub fn read(&self, reference: &Reference, before: Seen, version: Option<u64>) {
        lock(&self.state).read(reference, before, version);
    }
}

impl Drop for ReferenceWatch {
    fn drop(&mut self) {
        for watch in lock(&self.kinds).values() {
            watch.task.abort();
        }
    }
}

/// The task of one watch.
struct Run {
    client: Client,
    kind: Referent,
    state: Arc<Mutex<State>>,
    broken: Arc<AtomicBool>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
}

impl Run {
    async fn run(self) {
        let mut events = self.events();
        let mut trouble = Trouble::default();
        // References that the running list has shown; the others are gone at its end.
        let mut listed: HashSet<Reference> = HashSet::new();
        while let Some(event) = stream::next(&mut events, &mut trouble, || self.events()).await {
            match event {
                Ok(event) => {
                    if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                        trouble = Trouble::default();
                        self.broken.store(false, Ordering::Relaxed);
                    }
                    for (reference, known) in self.shown(event, &mut listed) {
                        for release in lock(&self.state).changed(&reference, known) {
                            // The receiver lives as long as the controller; afterwards no release needs waking.
                            let _ = self.wake_tx.unbounded_send(release);
                        }
                    }
                }
                Err(error) => {
                    let kind = self.kind.as_str();
                    (self.on_restart)(kind);
                    tracing::debug!(kind, %error, "the watch of referenced objects starts again");
                    if trouble.failed(Instant::now()) {
                        self.broken.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    fn events(&self) -> Events {
        // No release refers to revision records, and there are more of them than of anything else.
        let selector = format!("!{}", names::STORAGE_DRIVER);
        stream::events(&self.client, &self.kind.api_resource(), &selector)
    }

    /// What an event says of objects.
    fn shown(&self, event: Event, listed: &mut HashSet<Reference>) -> Vec<(Reference, Known)> {
        match event {
            watcher::Event::Init => {
                listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                let (reference, version) = self.reference(object);
                if lock(&self.state).contains(&reference) {
                    listed.insert(reference.clone());
                }
                vec![(reference, Known::At(version))]
            }
            watcher::Event::Apply(object) => {
                let (reference, version) = self.reference(object);
                vec![(reference, Known::At(version))]
            }
            watcher::Event::Delete(object) => {
                let (reference, version) = self.reference(object);
                vec![(reference, Known::Gone(version))]
            }
            watcher::Event::InitDone => {
                let unlisted = lock(&self.state).unlisted(self.kind, listed);
                unlisted.into_iter().map(|reference| (reference, Known::Nothing)).collect()
            }
        }
    }

    fn reference(&self, object: PartialObjectMeta<DynamicObject>) -> (Reference, u64) {
        let version = version_of(&object.metadata);
        let namespace = object.metadata.namespace.unwrap_or_default();
        let name = object.metadata.name.unwrap_or_default();
        (Reference { kind: self.kind, namespace, name }, version)
    }
}
