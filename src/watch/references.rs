//! A metadata-only watch of ConfigMaps that releases refer to.
//!
//! One stream for all of them; nothing is kept of a ConfigMap that no release refers to. It is not started
//! before the first reference.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures::{StreamExt, channel::mpsc::UnboundedSender};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};

use super::objects::{OnRestart, lock};
use crate::cluster::version_of;
use crate::release::ReleaseKey;

const PAGE: u32 = 250;

/// Namespace and name of a ConfigMap.
pub type Reference = (String, String);

#[derive(Debug, Default)]
struct State {
    references: HashMap<Reference, Referenced>,
    by_release: HashMap<ReleaseKey, HashSet<Reference>>,
    /// How often something that a release refers to changed.
    changes: HashMap<ReleaseKey, u64>,
    task: Option<tokio::task::AbortHandle>,
}

#[derive(Debug, Default)]
struct Referenced {
    known: Known,
    users: HashSet<ReleaseKey>,
}

/// What is known of a ConfigMap, with the resourceVersion last seen or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    At(u64),
    Gone(u64),
}

impl Known {
    fn version(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::At(version) | Self::Gone(version) => version,
        }
    }

    /// A read shows the past when the watch told something newer while it was under way.
    fn read(&mut self, version: u64) {
        if version >= self.version() {
            *self = Self::At(version);
        }
    }
}

/// The watch of referenced ConfigMaps.
pub struct ReferenceWatch {
    client: Client,
    state: Arc<Mutex<State>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
}

impl ReferenceWatch {
    #[must_use]
    pub fn new(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        Self { client, state: Arc::default(), wake_tx, on_restart }
    }

    /// Sets what `release` refers to; changes of it wake the release from now on.
    pub fn refer(&self, release: &ReleaseKey, references: HashSet<Reference>) {
        let mut state = lock(&self.state);
        let before = state.by_release.remove(release).unwrap_or_default();
        for gone in before.difference(&references) {
            if let Some(referenced) = state.references.get_mut(gone) {
                referenced.users.remove(release);
                if referenced.users.is_empty() {
                    state.references.remove(gone);
                }
            }
        }
        for reference in &references {
            state.references.entry(reference.clone()).or_default().users.insert(release.clone());
        }
        if references.is_empty() {
            state.changes.remove(release);
        } else {
            state.by_release.insert(release.clone(), references);
            if state.task.is_none() {
                let run = run(
                    self.client.clone(),
                    Arc::clone(&self.state),
                    self.wake_tx.clone(),
                    Arc::clone(&self.on_restart),
                );
                state.task = Some(tokio::spawn(run).abort_handle());
            }
        }
    }

    /// The resourceVersion of a referenced ConfigMap when it is known to be current.
    #[must_use]
    pub fn version(&self, reference: &Reference) -> Option<u64> {
        match lock(&self.state).references.get(reference)?.known {
            Known::At(version) => Some(version),
            Known::Nothing | Known::Gone(_) => None,
        }
    }

    /// How often something that `release` refers to changed since it refers to anything.
    #[must_use]
    pub fn changes(&self, release: &ReleaseKey) -> u64 {
        lock(&self.state).changes.get(release).copied().unwrap_or(0)
    }

    /// Takes note of the resourceVersion that a read returned.
    pub fn read(&self, reference: &Reference, version: u64) {
        if let Some(referenced) = lock(&self.state).references.get_mut(reference) {
            referenced.known.read(version);
        }
    }
}

impl Drop for ReferenceWatch {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.state).task.take() {
            task.abort();
        }
    }
}

async fn run(
    client: Client,
    state: Arc<Mutex<State>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    on_restart: OnRestart,
) {
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::all(client);
    let mut events = watcher(api, watcher::Config::default().page_size(PAGE)).default_backoff().boxed();
    // References that the running list has shown; the others are gone at its end.
    let mut listed: HashSet<Reference> = HashSet::new();
    while let Some(event) = events.next().await {
        let shown: Vec<(Reference, Known)> = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(map)) => {
                let reference = reference(&map);
                if lock(&state).references.contains_key(&reference) {
                    listed.insert(reference.clone());
                }
                vec![(reference, Known::At(version_of(&map.metadata)))]
            }
            Ok(watcher::Event::Apply(map)) => {
                vec![(reference(&map), Known::At(version_of(&map.metadata)))]
            }
            Ok(watcher::Event::Delete(map)) => {
                vec![(reference(&map), Known::Gone(version_of(&map.metadata)))]
            }
            Ok(watcher::Event::InitDone) => {
                let state = lock(&state);
                let missing = state.references.iter().filter(|(name, _)| !listed.contains(*name));
                missing
                    .filter_map(|(name, referenced)| match referenced.known {
                        Known::At(version) => Some((name.clone(), Known::Gone(version.saturating_add(1)))),
                        Known::Nothing | Known::Gone(_) => None,
                    })
                    .collect()
            }
            Err(error) => {
                on_restart("ConfigMap");
                tracing::debug!(%error, "the watch of referenced ConfigMaps starts again");
                continue;
            }
        };
        for (reference, known) in shown {
            for release in changed(&mut lock(&state), &reference, known) {
                let _ = wake_tx.unbounded_send(release);
            }
        }
    }
}

/// Notes what an event says of a ConfigMap if somebody refers to it; gives whom to wake because it is news.
fn changed(state: &mut State, reference: &Reference, known: Known) -> Vec<ReleaseKey> {
    let Some(referenced) = state.references.get_mut(reference) else { return Vec::new() };
    if referenced.known == known {
        return Vec::new();
    }
    referenced.known = known;
    let users: Vec<ReleaseKey> = referenced.users.iter().cloned().collect();
    for user in &users {
        *state.changes.entry(user.clone()).or_default() += 1;
    }
    users
}

fn reference(map: &PartialObjectMeta<ConfigMap>) -> Reference {
    (map.metadata.namespace.clone().unwrap_or_default(), map.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_does_not_take_back_what_the_watch_told_meanwhile() {
        let mut known = Known::Nothing;
        known.read(10);
        assert_eq!(known, Known::At(10));
        known = Known::At(11);
        known.read(10);
        assert_eq!(known, Known::At(11));
        known = Known::Gone(12);
        known.read(11);
        assert_eq!(known, Known::Gone(12));
        known.read(13);
        assert_eq!(known, Known::At(13));
    }
}
