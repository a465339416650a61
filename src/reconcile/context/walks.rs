//! Walks over the objects of definitions that are to change: each in a task of its own, which wakes the release.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedSender;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::crd::{self, Definition, Evidence};
use crate::manifest::Defined;
use crate::release::ReleaseKey;
use crate::source::http::Fair;

/// Walks at the same time, of all releases, and of those of one namespace.
const WALKS: (u32, u32) = (2, 1);
/// So long the answer of a walk is believed: objects may come meanwhile that would say otherwise.
const BELIEVED: Duration = Duration::from_secs(60);

/// The walks of all releases.
pub struct Walks {
    turns: Arc<Fair>,
    state: Arc<Mutex<HashMap<ReleaseKey, HashMap<String, Walk>>>>,
    wake_tx: UnboundedSender<ReleaseKey>,
}

struct Walk {
    since: Instant,
    found: Option<(Instant, Evidence)>,
    /// Ends the task with the entry.
    _task: Option<AbortOnDropHandle<()>>,
}

type State = HashMap<ReleaseKey, HashMap<String, Walk>>;

impl Walks {
    #[must_use]
    pub fn new(wake_tx: UnboundedSender<ReleaseKey>) -> Self {
        Self { turns: Arc::new(Fair::new(WALKS.0, WALKS.1)), state: Arc::default(), wake_tx }
    }

    /// What the walk for this change found, or since when it is under way. From the first call on it is.
    pub(in crate::reconcile) fn ask(
        &self,
        key: &ReleaseKey,
        cluster: &Arc<Cluster>,
        (old, new): (&Definition, &Definition),
        defined: &Defined,
        evidence: Evidence,
    ) -> Result<Evidence, Instant> {
        let token = crd::token(old, new);
        let mut state = lock(&self.state);
        let walks = state.entry(key.clone()).or_default();
        if let Some(walk) = walks.get(&token) {
            match &walk.found {
                Some((at, found)) if at.elapsed() < BELIEVED => return Ok(found.clone()),
                Some(_) => {}
                None => return Err(walk.since),
            }
        }
        // One that no release asks about any more makes room.
        walks.retain(|_, walk| walk.found.as_ref().is_none_or(|(at, _)| at.elapsed() < BELIEVED));
        let since = Instant::now();
        walks.insert(token.clone(), Walk { since, found: None, _task: None });
        let (turns, shared, wake) = (Arc::clone(&self.turns), Arc::clone(&self.state), self.wake_tx.clone());
        let (key, cluster) = (key.clone(), Arc::clone(cluster));
        let (old, new, defined) = (old.clone(), new.clone(), defined.clone());
        let task = tokio::spawn({
            let (key, token) = (key.clone(), token.clone());
            async move {
                // Waited for in this task: no pass does.
                let turn = turns.acquire(&key.namespace, 1).await;
                let found = walk(&cluster, &defined, (&old, &new), evidence).await;
                drop(turn);
                if let Some(walk) = lock(&shared).get_mut(&key).and_then(|walks| walks.get_mut(&token)) {
                    walk.found = Some((Instant::now(), found));
                }
                // The receiver is gone only when the process is ending.
                let _ = wake.unbounded_send(key);
            }
        });
        if let Some(walk) = state.get_mut(&key).and_then(|walks| walks.get_mut(&token)) {
            walk._task = Some(AbortOnDropHandle::new(task));
        }
        Err(since)
    }

    /// The release is gone.
    pub(in crate::reconcile) fn forget(&self, key: &ReleaseKey) {
        lock(&self.state).remove(key);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Valid at every step, so a panic elsewhere while it was held does no harm.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at the objects, as far as that can be done.
async fn walk(
    cluster: &Cluster,
    defined: &Defined,
    (old, new): (&Definition, &Definition),
    evidence: Evidence,
) -> Evidence {
    let (evidence, error) = cluster.hear(defined, (old, new), evidence).await;
    if let Some(error) = error {
        tracing::warn!(definition = %new.name, %error, "its objects cannot all be looked at");
    }
    evidence
}
