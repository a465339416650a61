//! One metadata-only watch for each kind in use, or for each kind and namespace, counted by the releases that use it.
//!
//! A watch is started before the apply that needs it and stopped with the last release of its kind.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::watch;

use super::stream::{self, Event, Events};
use super::table::{Place, Sighting, Subject, Suspicion, Table};
use super::trouble::Trouble;
use crate::api::{SherpackRelease, names};
use crate::cluster::{Error, Kind, fingerprint_of, version_of};
use crate::manifest::{ObjectId, managed_fields};
use crate::release::ReleaseKey;

/// How long a pass waits for the first list of a watch. Mostly it comes in a moment; a pass that waited for a slow one
/// would keep others from their turn.
const FIRST_LIST: Duration = Duration::from_secs(2);

/// Told about each time that a watch had to start again, with the kind.
pub type OnRestart = Arc<dyn Fn(&str) + Send + Sync>;

/// Group and kind: versions of one kind show the same objects, so any version that is served will do.
type GroupKind = (String, String);

/// The watches of all kinds in use, and the table they feed.
pub struct ObjectWatches {
    client: Client,
    table: Arc<Mutex<Table>>,
    kinds: Mutex<HashMap<Subject, KindWatch>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
    view: View,
}

/// Whose objects the watches are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// What releases apply: it carries our label, and our part of it is what counts.
    Ours,
    /// What others installed: it carries Helm's label or is shown by a watch of its namespace, and everybody's part of it
    /// counts.
    Others,
}

struct KindWatch {
    version: String,
    users: Users,
    sight_rx: watch::Receiver<Sight>,
    awaited: Awaited,
    task: tokio::task::AbortHandle,
}

type Users = Arc<Mutex<HashSet<ReleaseKey>>>;
/// A release went on without the first list and is to be woken by it.
type Awaited = Arc<AtomicBool>;

/// Whether a watch shows what happens.
#[derive(Clone, Debug, Default)]
struct Sight {
    /// It has listed, and has not failed for long since.
    clear: bool,
    /// What last went wrong, until something goes right.
    error: Option<String>,
}

impl ObjectWatches {
    /// Watches that send the releases to reconcile to `wake_tx`.
    #[must_use]
    pub fn new(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        Self { client, table: Arc::default(), kinds: Mutex::default(), wake_tx, on_restart, view: View::Ours }
    }

    /// The same for objects that others installed.
    #[must_use]
    pub fn of_others(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        let mut watches = Self::new(client, wake_tx, on_restart);
        watches.view = View::Others;
        watches
    }

    /// The table, for short synchronous use.
    pub fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Takes note of whose additions count for which release. To be told of every event of the watch of the releases,
    /// from before the first list of a kind.
    pub fn follow(&self) -> impl Fn(&watcher::Event<SherpackRelease>) + Send + Sync + use<> {
        let table = Arc::clone(&self.table);
        move |event| match event {
            watcher::Event::InitApply(release) | watcher::Event::Apply(release) => {
                let managers = release.strict_managers().unwrap_or_default();
                lock(&table).be_strict(&ReleaseKey::of(release), managers);
            }
            watcher::Event::Delete(release) => lock(&table).be_strict(&ReleaseKey::of(release), &[]),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    /// Wakes a release as an event would.
    pub fn wake(&self, release: &ReleaseKey) {
        // The receiver lives as long as the controller; afterwards no release needs waking.
        let _ = self.wake_tx.unbounded_send(release.clone());
    }

    /// Objects of `release` that are not as they were last applied.
    #[must_use]
    pub fn suspicions(&self, release: &ReleaseKey) -> Vec<Suspicion> {
        self.table().suspicions(release)
    }

    /// Until when a pass that asks now may wait for first lists, of however many kinds.
    #[must_use]
    pub fn patience() -> tokio::time::Instant {
        tokio::time::Instant::now() + FIRST_LIST
    }

    /// Makes sure that `kind` is watched for `user`. Waits for the first list, but not beyond `patience`.
    ///
    /// # Errors
    /// `Watch` as soon as the list has failed, or when it has not come in time. The watch keeps trying, and wakes its
    /// users when it has listed.
    pub async fn ensure(
        &self,
        kind: &Kind,
        user: &ReleaseKey,
        patience: tokio::time::Instant,
    ) -> Result<(), Error> {
        let subject = Subject::kind(&kind.resource.group, &kind.resource.kind);
        self.ensure_subject(subject, kind, user, patience).await
    }

    /// The same for an object that carries no label: all of its kind and namespace are watched.
    ///
    /// # Errors
    /// As [`ensure`](Self::ensure).
    pub async fn ensure_around(
        &self,
        id: &ObjectId,
        kind: &Kind,
        user: &ReleaseKey,
        patience: tokio::time::Instant,
    ) -> Result<(), Error> {
        self.ensure_subject(Subject::around(id), kind, user, patience).await
    }

    async fn ensure_subject(
        &self,
        subject: Subject,
        kind: &Kind,
        user: &ReleaseKey,
        patience: tokio::time::Instant,
    ) -> Result<(), Error> {
        let (mut sight_rx, awaited) = self.start(subject, kind, user);
        let settled = sight_rx.wait_for(|sight| sight.clear || sight.error.is_some());
        let message = match tokio::time::timeout_at(patience, settled).await {
            Ok(Ok(sight)) if sight.clear => return Ok(()),
            Ok(Ok(sight)) => sight.error.clone().unwrap_or_default(),
            // Another version of the kind took its place, or the process stops.
            Ok(Err(_)) => "the watch has ended".to_owned(),
            Err(_) => "its first list has not come yet".to_owned(),
        };
        awaited.store(true, Ordering::SeqCst);
        if sight_rx.borrow().clear {
            // It came between the two: no release may be woken any more.
            return Ok(());
        }
        Err(Error::Watch { kind: kind.resource.kind.clone(), message })
    }

    fn start(&self, subject: Subject, kind: &Kind, user: &ReleaseKey) -> (watch::Receiver<Sight>, Awaited) {
        let mut kinds = lock(&self.kinds);
        let entry = match kinds.entry(subject.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.spawn(subject.clone(), kind, Users::default())),
        };
        if entry.version != kind.resource.version && entry.replaceable(user) {
            entry.task.abort();
            *entry = self.spawn(subject, kind, Arc::clone(&entry.users));
        }
        lock(&entry.users).insert(user.clone());
        (entry.sight_rx.clone(), Arc::clone(&entry.awaited))
    }

    fn spawn(&self, subject: Subject, kind: &Kind, users: Users) -> KindWatch {
        let (sight_tx, sight_rx) = watch::channel(Sight::default());
        let awaited = Awaited::default();
        let task = tokio::spawn(
            Run {
                client: self.client.clone(),
                kind: kind.clone(),
                subject,
                view: self.view,
                table: Arc::clone(&self.table),
                users: Arc::clone(&users),
                wake_tx: self.wake_tx.clone(),
                sight_tx,
                awaited: Arc::clone(&awaited),
                on_restart: Arc::clone(&self.on_restart),
            }
            .run(),
        );
        let version = kind.resource.version.clone();
        KindWatch { version, users, sight_rx, awaited, task: task.abort_handle() }
    }

    /// Whether a kind that `user` uses is not watched at the moment.
    #[must_use]
    pub fn blind(&self, user: &ReleaseKey) -> bool {
        lock(&self.kinds)
            .values()
            .any(|kind| !kind.sight_rx.borrow().clear && lock(&kind.users).contains(user))
    }

    /// Ends the use of every kind by `user` except those in `keep`; a watch without users stops.
    pub fn retain_kinds(&self, user: &ReleaseKey, keep: &BTreeSet<GroupKind>) {
        self.retain(user, |subject| keep.contains(&(subject.group.clone(), subject.kind.clone())));
    }

    /// The same, told by what a watch shows.
    pub fn retain(&self, user: &ReleaseKey, keep: impl Fn(&Subject) -> bool) {
        lock(&self.kinds).retain(|subject, watch| {
            let mut users = lock(&watch.users);
            if !keep(subject) {
                users.remove(user);
            }
            let used = !users.is_empty();
            if !used {
                watch.task.abort();
            }
            used
        });
    }
}

impl KindWatch {
    /// No release loses anything when a watch of another version takes the place of this one: it does not work, or
    /// no release but `user` has it. (Two releases with two versions would else replace it in turns.)
    fn replaceable(&self, user: &ReleaseKey) -> bool {
        self.sight_rx.borrow().error.is_some() || lock(&self.users).iter().all(|other| other == user)
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

/// The task of one watch.
struct Run {
    client: Client,
    kind: Kind,
    subject: Subject,
    view: View,
    table: Arc<Mutex<Table>>,
    users: Users,
    wake_tx: UnboundedSender<ReleaseKey>,
    sight_tx: watch::Sender<Sight>,
    awaited: Awaited,
    on_restart: OnRestart,
}

impl Run {
    async fn run(self) {
        let mut events = self.events();
        let mut trouble = Trouble::default();
        while let Some(event) = stream::next(&mut events, &mut trouble, || self.events()).await {
            for release in self.take(event, &mut trouble) {
                // The receiver lives as long as the controller; afterwards no release needs waking.
                let _ = self.wake_tx.unbounded_send(release);
            }
        }
    }

    fn events(&self) -> Events {
        let Self { client, kind, subject, view, .. } = self;
        match (&subject.place, view) {
            (Place::Within(namespace), _) => stream::events_within(client, kind, namespace.as_deref()),
            (Place::Labelled, View::Ours) => {
                let selector = format!("{},!{}", names::RELEASE_NAME, names::STORAGE_DRIVER);
                stream::events(client, &kind.resource, &selector)
            }
            (Place::Labelled, View::Others) => {
                let selector = format!("{}={}", names::MANAGED_BY, names::MANAGED_BY_HELM);
                stream::events(client, &kind.resource, &selector)
            }
        }
    }

    /// Notes an event; gives the releases to wake.
    fn take(&self, event: watcher::Result<Event>, trouble: &mut Trouble) -> Vec<ReleaseKey> {
        let name = self.kind.resource.kind.as_str();
        match event {
            Ok(watcher::Event::Init) => {
                lock(&self.table).list_begins(&self.subject);
                Vec::new()
            }
            Ok(watcher::Event::InitApply(object)) => self.saw(object.metadata),
            Ok(watcher::Event::Apply(object)) => {
                self.works(trouble);
                self.saw(object.metadata)
            }
            Ok(watcher::Event::Delete(object)) => {
                self.works(trouble);
                let version = version_of(&object.metadata);
                lock(&self.table).lost(&self.id(&object.metadata), version).into_iter().collect()
            }
            Ok(watcher::Event::InitDone) => {
                let mut woken = lock(&self.table).list_ends(&self.subject);
                if self.works(trouble) {
                    woken.extend(lock(&self.users).iter().cloned());
                }
                woken
            }
            Err(error) => {
                (self.on_restart)(name);
                tracing::debug!(kind = name, %error, "the watch of a kind starts again");
                let broken = trouble.failed(Instant::now());
                let mut lost_sight = false;
                self.sight_tx.send_modify(|sight| {
                    lost_sight = broken && sight.clear;
                    sight.clear &= !broken;
                    sight.error = Some(error.to_string());
                });
                if lost_sight { lock(&self.users).iter().cloned().collect() } else { Vec::new() }
            }
        }
    }

    /// Something was seen. `true`: after it had been given up, or a release went on without it.
    fn works(&self, trouble: &mut Trouble) -> bool {
        *trouble = Trouble::default();
        let (was_clear, failed) = {
            let sight = self.sight_tx.borrow();
            (sight.clear, sight.error.is_some())
        };
        if !was_clear || failed {
            self.sight_tx.send_replace(Sight { clear: true, error: None });
        }
        let awaited = self.awaited.swap(false, Ordering::SeqCst);
        !was_clear && (failed || awaited)
    }

    fn saw(&self, meta: ObjectMeta) -> Vec<ReleaseKey> {
        let id = self.id(&meta);
        if lock(&self.table).owner(&id).is_none() {
            // Most of what the watch of a namespace shows belongs to no release.
            return Vec::new();
        }
        let sighting = match self.view {
            View::Ours => Sighting::of(meta),
            View::Others => Sighting::of_others(meta),
        };
        lock(&self.table).saw(&id, sighting).into_iter().collect()
    }

    fn id(&self, meta: &ObjectMeta) -> ObjectId {
        ObjectId {
            group: self.kind.resource.group.clone(),
            kind: self.kind.resource.kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl Sighting {
    /// An object as its metadata shows it.
    #[must_use]
    pub fn of(meta: ObjectMeta) -> Self {
        Self::with(fingerprint_of(&meta), meta)
    }

    /// The same of an object that we do not apply: everybody's part of it counts.
    #[must_use]
    pub fn of_others(meta: ObjectMeta) -> Self {
        Self::with(Some(managed_fields::whole(&meta)), meta)
    }

    fn with(fingerprint: Option<String>, meta: ObjectMeta) -> Self {
        Self {
            fingerprint,
            version: version_of(&meta),
            uid: meta.uid,
            terminating: meta.deletion_timestamp.is_some(),
            managed_fields: meta.managed_fields.unwrap_or_default(),
        }
    }
}
