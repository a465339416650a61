//! Looks at sources off the workers: at most one attempt at a time for each source, and what it finds wakes whom it
//! concerns.
//!
//! The retries of a source that fails are made here, with a growing wait, as long as a release uses it. A release that
//! asks is answered at once with what is known.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedSender;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::access::Access;
use super::location::{Location, Shared};
use super::state::{Ask, Ended, Look, Next, Source, SourceId};
use crate::release::ReleaseKey;
use crate::source::Error;
use crate::source::cache::{Cache, Known};
use crate::source::http::{Answer, Client, Fair, Validators};

/// Attempts at a time. One that waits for a connection takes a socket and little else.
const ATTEMPTS: u32 = 256;
const ATTEMPTS_EACH: u32 = 128;

/// Hears of which kind of source each attempt was, and how it ended: `success`, `unchanged` or `failure`.
pub type OnFetch = Arc<dyn Fn(&'static str, &'static str) + Send + Sync>;

/// All sources that releases use.
pub struct Fetcher {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    client: Client,
    shared: Shared,
    cache: Arc<Cache>,
    attempts: Fair,
    state: Mutex<State>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_fetch: OnFetch,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    sources: HashMap<SourceId, Entry>,
    by_release: HashMap<ReleaseKey, SourceId>,
    /// What the packs of releases depend on.
    pinned: HashMap<ReleaseKey, HashSet<SourceId>>,
    /// Tells an entry from another one that was made for the same source later.
    made: u64,
}

struct Entry {
    number: u64,
    source: Source,
    /// Its task, which is making an attempt or waits to make one.
    task: Option<Task>,
}

#[derive(Clone)]
struct Task {
    /// Ends the wait.
    now: Arc<Notify>,
}

impl Fetcher {
    #[must_use]
    pub fn new(
        client: Client,
        cache: Arc<Cache>,
        wake_tx: UnboundedSender<ReleaseKey>,
        on_fetch: OnFetch,
    ) -> Self {
        let attempts = Fair::new(ATTEMPTS, ATTEMPTS_EACH);
        let (state, stop) = (Mutex::default(), CancellationToken::new());
        Self {
            inner: Arc::new(Inner {
                client,
                shared: Shared::default(),
                cache,
                attempts,
                state,
                wake_tx,
                on_fetch,
                stop,
            }),
        }
    }

    pub(super) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Where the archives are that [`Look::At`] names.
    #[must_use]
    pub fn cache(&self) -> Arc<Cache> {
        Arc::clone(&self.inner.cache)
    }

    /// With what a source is looked at.
    #[must_use]
    pub fn access(&self, id: &SourceId) -> Option<Access> {
        self.inner.lock().sources.get(id).map(|entry| entry.source.access.clone())
    }

    /// What is known of a source. Starts an attempt when that is too old.
    ///
    /// From now on the release uses this source and no other, and is woken when something of it changes.
    pub async fn look(&self, id: &SourceId, access: &Access, ask: &Ask<'_>) -> Look {
        self.load(id, access).await;
        self.inner.lock().moves(ask.release, Some(id));
        self.ask(id, access, ask)
    }

    /// The same for a source that the release has pinned.
    pub async fn look_pinned(&self, id: &SourceId, access: &Access, ask: &Ask<'_>) -> Look {
        self.load(id, access).await;
        self.ask(id, access, ask)
    }

    /// What earlier processes have left of it.
    async fn load(&self, id: &SourceId, access: &Access) {
        if !self.inner.lock().sources.contains_key(id) {
            let (cache, text) = (self.cache(), id.text());
            let known = tokio::task::spawn_blocking(move || cache.source(&text)).await.unwrap_or_default();
            self.inner.lock().enter(id, access, known);
        }
    }

    fn ask(&self, id: &SourceId, access: &Access, ask: &Ask<'_>) -> Look {
        let mut state = self.inner.lock();
        // Its last user may have left meanwhile.
        state.enter(id, access, Known::default());
        let Some(entry) = state.sources.get_mut(id) else { return Look::Fetching { since: Instant::now() } };
        let (look, start) = entry.source.ask(ask, Instant::now());
        if start {
            self.inner.start(id, entry, &ask.release.namespace, None);
        }
        match look {
            Look::Failed(Error::DigestMismatch { url: _, wanted, found }) => {
                Look::Failed(Error::DigestMismatch { url: id.location.to_string(), wanted, found })
            }
            other => other,
        }
    }

    /// From now on the pack of the release needs these besides, and no others.
    pub fn pin(&self, release: &ReleaseKey, ids: HashSet<SourceId>) {
        self.inner.lock().pin(release, ids);
    }

    /// The release uses no source any more.
    pub fn leave(&self, release: &ReleaseKey) {
        let mut state = self.inner.lock();
        state.moves(release, None);
        state.pin(release, HashSet::new());
    }

    /// The pack of the release comes from no source. What it depends on may.
    pub fn leave_source(&self, release: &ReleaseKey) {
        self.inner.lock().moves(release, None);
    }

    /// The release uses no source but those of Flux: what is known of its last one is kept.
    pub fn leave_others_than_flux(&self, release: &ReleaseKey) {
        let mut state = self.inner.lock();
        let used = state.by_release.get(release);
        if used.is_some_and(|id| !matches!(id.location, Location::Flux(..))) {
            state.moves(release, None);
        }
    }

    /// The archive that the source of the release gave is not in the cache any more: it is fetched again.
    pub fn lost(&self, id: &SourceId, digest: &str) {
        if let Some(entry) = self.inner.lock().sources.get_mut(id) {
            entry.source.lost(digest);
        }
    }

    /// The archive is no pack. It may be replaced, so the source is looked at again, ever less often.
    pub fn rejected(&self, id: &SourceId, release: &ReleaseKey, digest: &str) {
        let mut state = self.inner.lock();
        let Some(entry) = state.sources.get_mut(id) else { return };
        entry.source.rejected(release, digest);
        if entry.task.is_none() && entry.source.unsatisfied() {
            let first = crate::release::backoff::retry(1);
            self.inner.start(id, entry, &release.namespace, Some(first));
        }
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.inner.stop.cancel();
    }
}

impl State {
    fn enter(&mut self, id: &SourceId, access: &Access, known: Known) {
        if !self.sources.contains_key(id) {
            self.made += 1;
            let source = Source::new(access.clone(), known);
            self.sources.insert(id.clone(), Entry { number: self.made, source, task: None });
        }
    }

    /// The release uses `id` and nothing else. A source that no release uses is forgotten, and its task ends.
    fn moves(&mut self, release: &ReleaseKey, id: Option<&SourceId>) {
        let before = match id {
            Some(id) => self.by_release.insert(release.clone(), id.clone()),
            None => self.by_release.remove(release),
        };
        let Some(before) = before.filter(|before| Some(before) != id) else { return };
        if self.pinned.get(release).is_none_or(|pinned| !pinned.contains(&before)) {
            self.leaves(release, &before);
        }
    }

    fn pin(&mut self, release: &ReleaseKey, ids: HashSet<SourceId>) {
        let of = self.by_release.get(release);
        let before = self.pinned.remove(release).unwrap_or_default();
        let gone: Vec<SourceId> =
            before.into_iter().filter(|id| !ids.contains(id) && of != Some(id)).collect();
        for id in gone {
            self.leaves(release, &id);
        }
        if !ids.is_empty() {
            self.pinned.insert(release.clone(), ids);
        }
    }

    fn leaves(&mut self, release: &ReleaseKey, before: &SourceId) {
        let Some(entry) = self.sources.get_mut(before) else { return };
        entry.source.users.remove(release);
        if entry.source.users.is_empty() {
            if let Some(task) = &entry.task {
                task.now.notify_one();
            }
            self.sources.remove(before);
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has each source looked at that is meant and that a release of the namespace uses; gives how many. See [`Source::hinted`].
    pub(super) fn hint(
        self: &Arc<Self>,
        namespace: Option<&str>,
        is_meant: impl Fn(&Location) -> bool,
        (now, is_named): (Instant, bool),
    ) -> usize {
        let mut state = self.lock();
        let mut looks = 0;
        for (id, entry) in state.sources.iter_mut().filter(|(id, _)| is_meant(&id.location)) {
            let mut users = entry.source.users.keys().map(|release| &release.namespace);
            let user = users.find(|user| namespace.is_none_or(|namespace| namespace == **user)).cloned();
            let Some(user) = user else { continue };
            entry.source.hinted(now, is_named);
            self.start(id, entry, &user, None);
            looks += 1;
        }
        looks
    }

    /// Makes an attempt, now or after `wait`. One that is due later is made now; one under way is enough.
    fn start(self: &Arc<Self>, id: &SourceId, entry: &mut Entry, namespace: &str, wait: Option<Duration>) {
        if let Some(task) = &entry.task {
            task.now.notify_one();
            return;
        }
        let task = Task { now: Arc::new(Notify::new()) };
        entry.task = Some(task.clone());
        let (inner, id, namespace, number) =
            (Arc::clone(self), id.clone(), namespace.to_owned(), entry.number);
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = inner.run(&id, number, &namespace, &task, wait) => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// Attempts, with waits between them, until one satisfies all releases or none is left.
    async fn run(&self, id: &SourceId, number: u64, namespace: &str, task: &Task, wait: Option<Duration>) {
        let mut wait = wait;
        loop {
            // A release that asks ends the wait. The source says whether an attempt may begin already.
            while let Some(left) = wait.take().or_else(|| self.lock().rests(id, number)) {
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    () = task.now.notified() => {}
                }
            }
            let slot = self.attempts.acquire(namespace, 1).await;
            let began = Instant::now();
            let Some((access, validators)) = self.lock().wanted(id, number, began) else { return };
            let shared = (&self.shared, &*id.scope);
            let asked = id.location.ask(&self.client, namespace, &access, &validators, shared);
            let answer = asked.await;
            let ended = self.keep(answer).await;
            drop(slot);
            match self.end(id, number, ended, began).await {
                Some(again) => wait = Some(again),
                None => return,
            }
        }
    }

    async fn keep(&self, answer: Result<Answer, Error>) -> Ended {
        match answer {
            Ok(Answer::Unchanged) => Ended::Unchanged,
            Ok(Answer::Fetched { bytes, validators }) => {
                let cache = Arc::clone(&self.cache);
                match tokio::task::spawn_blocking(move || cache.put(bytes)).await {
                    Ok(digest) => Ended::Fetched { digest, validators },
                    Err(error) => Ended::Failed(Error::Io {
                        what: "the fetched pack".to_owned(),
                        message: error.to_string(),
                    }),
                }
            }
            Err(error) => Ended::Failed(error),
        }
    }

    /// Takes note of how an attempt ended; gives when to make the next one.
    async fn end(&self, id: &SourceId, number: u64, ended: Ended, began: Instant) -> Option<Duration> {
        let outcome = match &ended {
            Ended::Fetched { .. } => "success",
            Ended::Unchanged => "unchanged",
            Ended::Failed(_) => "failure",
        };
        (self.on_fetch)(id.location.kind(), outcome);
        let failed = match &ended {
            Ended::Failed(error) => Some(error.in_full()),
            _ => None,
        };
        let (Next { wake, again, news }, known) = {
            let mut state = self.lock();
            let entry = state.sources.get_mut(id).filter(|entry| entry.number == number)?;
            let before = entry.source.known.clone();
            let next = entry.source.ended(ended, began, Instant::now());
            if next.again.is_none() {
                entry.task = None;
            }
            let known = entry.source.known.clone();
            let changed = known != before;
            (next, (known, changed))
        };
        if let Some(error) = failed.filter(|_| news) {
            tracing::info!(error, "a pack cannot be fetched: it is tried again");
        }
        let (cache, text) = (Arc::clone(&self.cache), id.text());
        let noted = tokio::task::spawn_blocking(move || match known {
            (known, true) => cache.put_source(&text, &known),
            (Known { current: Some(current), .. }, false) => cache.used(&current),
            _ => {}
        });
        // Only a shutdown ends it early, and then the next process fetches once more.
        let _ = noted.await;
        for release in wake {
            let _ = self.wake_tx.unbounded_send(release);
        }
        again
    }
}

impl State {
    /// How long the next attempt still has to wait; see [`Source::rests`].
    fn rests(&self, id: &SourceId, number: u64) -> Option<Duration> {
        let entry = self.sources.get(id).filter(|entry| entry.number == number)?;
        entry.source.rests(Instant::now())
    }

    /// What an attempt needs; `None`: no release wants it any more.
    fn wanted(&mut self, id: &SourceId, number: u64, now: Instant) -> Option<(Access, Validators)> {
        let entry = self.sources.get_mut(id).filter(|entry| entry.number == number)?;
        entry.source.begins(now);
        Some((entry.source.access.clone(), entry.source.known.validators.clone()))
    }
}
