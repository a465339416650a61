//! Asks what was installed whether it serves, as its annotations `sherpack.io/health-check…` want it.
//!
//! Probes are made in tasks of their own, one for each object that is waited for, so that one which hangs holds no
//! worker; what changes wakes the release. They are a part of waits (install, upgrade, rollback) and of nothing else:
//! once a revision is deployed, nothing is asked any more.
//!
//! Invariant: a task lives only as long as its release waits for its object. See [`Prober::retain`].

mod round;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::UnboundedSender;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::{Account, Cluster, Workload};
use crate::manifest::ObjectId;
use crate::plan::probes::Probe;
use crate::release::ReleaseKey;
use crate::source::http::{Fair, StatusClient};

/// Objects that are asked at the same time.
const ROUNDS: u32 = 128;
const ROUNDS_EACH: u32 = 64;

/// One object that is to be asked until it answers.
#[derive(Clone, Debug)]
pub struct Ask {
    pub release: ReleaseKey,
    pub id: ObjectId,
    /// Answers to another revision do not count.
    pub revision: u32,
    pub probe: Arc<Probe>,
    /// How its pods are found; `None` for a Pod, a Service, and a workload that wants none.
    pub pods: Option<Workload>,
}

/// What an object answered last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// As the probe wants it. It is not asked again.
    Passed,
    /// Why it did not, for people. It is asked again.
    Failed(String),
    /// Asking again does not help: reason and message. It is not asked again.
    Hopeless(&'static str, String),
}

/// All probes that are being made.
pub struct Prober {
    inner: Arc<Inner>,
}

struct Inner {
    http: StatusClient,
    rounds: Fair,
    state: Mutex<State>,
    wake_tx: UnboundedSender<ReleaseKey>,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    releases: HashMap<ReleaseKey, HashMap<ObjectId, Entry>>,
    /// Tells a task from another one that was made for the same object later.
    made: u64,
}

struct Entry {
    number: u64,
    revision: u32,
    account: Option<Account>,
    seen: Option<Seen>,
    /// Ends its task.
    _ends: DropGuard,
}

impl Prober {
    #[must_use]
    pub fn new(http: StatusClient, wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        let rounds = Fair::new(ROUNDS, ROUNDS_EACH);
        let (state, stop) = (Mutex::default(), CancellationToken::new());
        Self { inner: Arc::new(Inner { http, rounds, state, wake_tx, stop }) }
    }

    /// What the object answered last, `None` before its first answer. From the first call on it is asked, as whom
    /// `cluster` is for, and the release is woken when the answer changes.
    pub fn look(&self, ask: Ask, cluster: &Arc<Cluster>) -> Option<Seen> {
        let mut state = self.inner.lock();
        let known = state.releases.get(&ask.release).and_then(|objects| objects.get(&ask.id));
        if let Some(entry) = known
            && entry.revision == ask.revision
            && entry.account.as_ref() == cluster.account()
        {
            return entry.seen.clone();
        }
        state.made += 1;
        let (number, task) = (state.made, self.inner.stop.child_token());
        let entry = Entry {
            number,
            revision: ask.revision,
            account: cluster.account().cloned(),
            seen: None,
            _ends: task.clone().drop_guard(),
        };
        state.releases.entry(ask.release.clone()).or_default().insert(ask.id.clone(), entry);
        drop(state);
        let (inner, cluster) = (Arc::clone(&self.inner), Arc::clone(cluster));
        tokio::spawn(async move {
            tokio::select! {
                () = inner.run(&ask, &cluster, number) => {}
                () = task.cancelled() => {}
            }
        });
        None
    }

    /// The release waits for no other objects than those that `waited` says: no other object of it is asked any more.
    pub fn retain(&self, release: &ReleaseKey, waited: impl Fn(&ObjectId) -> bool) {
        let mut state = self.inner.lock();
        if let Some(objects) = state.releases.get_mut(release) {
            objects.retain(|id, _| waited(id));
            if objects.is_empty() {
                state.releases.remove(release);
            }
        }
    }

    /// One object of the release is not asked any more, and what it answered is forgotten.
    pub fn leave(&self, release: &ReleaseKey, id: &ObjectId) {
        self.retain(release, |other| other != id);
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.inner.stop.cancel();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Valid at every step, so a panic elsewhere while it was held does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, with pauses, until the answer is final.
    async fn run(&self, ask: &Ask, cluster: &Cluster, number: u64) {
        loop {
            let slot = self.rounds.acquire(&ask.release.namespace, 1).await;
            let seen = round::round(cluster, &self.http, ask).await;
            drop(slot);
            let again = matches!(seen, Seen::Failed(_));
            self.note(ask, number, seen);
            if !again {
                return;
            }
            tokio::time::sleep(ask.probe.interval).await;
        }
    }

    fn note(&self, ask: &Ask, number: u64, seen: Seen) {
        let mut state = self.lock();
        let objects = state.releases.get_mut(&ask.release);
        let entry = objects.and_then(|objects| objects.get_mut(&ask.id));
        let Some(entry) = entry.filter(|entry| entry.number == number) else { return };
        if entry.seen.as_ref() != Some(&seen) {
            entry.seen = Some(seen);
            // The receiver is gone only when the process is ending.
            let _ = self.wake_tx.unbounded_send(ask.release.clone());
        }
    }
}

#[cfg(test)]
mod tests;
