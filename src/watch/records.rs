//! A metadata-only watch of revision records: notices what somebody else does to them.
//!
//! Kept for each release name: the newest revision and its resourceVersion. The head that a pass remembers
//! is compared with it; a difference means that the record must be read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, channel::mpsc::UnboundedSender};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;

use super::objects::{OnRestart, lock};
use crate::api::names;
use crate::cluster::version_of;
use crate::release::ReleaseKey;

const PAGE: u32 = 250;

/// Namespace and release name, which is how records are named.
pub type RecordsOf = (String, String);

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

/// The watch of all revision records.
pub struct RecordWatch {
    state: Arc<Mutex<State>>,
    listed_rx: watch::Receiver<bool>,
    task: tokio::task::AbortHandle,
}

impl RecordWatch {
    /// Starts the watch; changes wake the release that claims the name.
    #[must_use]
    pub fn start(client: Client, wake_tx: UnboundedSender<ReleaseKey>, on_restart: OnRestart) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let (listed_tx, listed_rx) = watch::channel(false);
        let task =
            tokio::spawn(run(client, Arc::clone(&state), wake_tx, listed_tx, on_restart)).abort_handle();
        Self { state, listed_rx, task }
    }

    /// Waits for the first list.
    pub async fn listed(&self) {
        // The sender lives in the task; when that is gone the process is stopping.
        let _ = self.listed_rx.clone().wait_for(|listed| *listed).await;
    }

    /// Says which release the records of `of` belong to.
    pub fn claim(&self, of: &RecordsOf, release: &ReleaseKey) {
        lock(&self.state).claims.insert(of.clone(), release.clone());
    }

    /// Ends the claim of a release.
    pub fn unclaim(&self, release: &ReleaseKey) {
        lock(&self.state).claims.retain(|_, claimant| claimant != release);
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

    /// Takes note of what a read found to be newest, unless the watch knows more than `before` the read.
    pub fn read(&self, of: &RecordsOf, before: Newest, found: Newest) {
        lock(&self.state).read(of, before, found);
    }
}

impl Drop for RecordWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    client: Client,
    state: Arc<Mutex<State>>,
    wake_tx: UnboundedSender<ReleaseKey>,
    listed_tx: watch::Sender<bool>,
    on_restart: OnRestart,
) {
    let api: Api<PartialObjectMeta<Secret>> = Api::all(client);
    let selector = format!("{},{}=secrets", names::RELEASE_NAME, names::STORAGE_DRIVER);
    let config = watcher::Config::default().labels(&selector).page_size(PAGE);
    let mut events = watcher(api, config).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let mut woken = Vec::new();
        {
            let mut state = lock(&state);
            let mut news = |state: &State, of: &RecordsOf| woken.extend(state.claims.get(of).cloned());
            match event {
                Ok(watcher::Event::Init) => state.listing.clear(),
                Ok(watcher::Event::InitApply(secret)) => {
                    if let Some((of, revision)) = record(&secret.metadata) {
                        let version = version_of(&secret.metadata);
                        let listed = state.listing.entry(of).or_insert(Newest::None);
                        let newer =
                            !matches!(listed, Newest::At { revision: known, .. } if *known >= revision);
                        if newer {
                            *listed = Newest::At { revision, version };
                        }
                    }
                }
                Ok(watcher::Event::InitDone) => {
                    let listed = std::mem::take(&mut state.listing);
                    let gone: Vec<RecordsOf> =
                        state.newest.keys().filter(|of| !listed.contains_key(*of)).cloned().collect();
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
                Ok(watcher::Event::Apply(secret)) => {
                    if let Some((of, revision)) = record(&secret.metadata)
                        && state.saw(of.clone(), revision, version_of(&secret.metadata))
                    {
                        news(&state, &of);
                    }
                }
                Ok(watcher::Event::Delete(secret)) => {
                    if let Some((of, revision)) = record(&secret.metadata)
                        && state.lost(of.clone(), revision)
                    {
                        news(&state, &of);
                    }
                }
                Err(error) => {
                    on_restart("Secret");
                    tracing::debug!(%error, "the watch of revision records starts again");
                }
            }
        }
        for release in woken {
            let _ = wake_tx.unbounded_send(release);
        }
    }
}

/// Which record a Secret is, by its labels. Chunks of a record are no records.
fn record(meta: &ObjectMeta) -> Option<(RecordsOf, u32)> {
    let labels = meta.labels.as_ref()?;
    if labels.contains_key(names::CHUNK_PARENT) {
        return None;
    }
    let name = labels.get(names::RELEASE_NAME)?;
    let revision = labels.get(names::RELEASE_VERSION)?.parse().ok()?;
    Some(((meta.namespace.clone()?, name.clone()), revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_does_not_take_back_what_the_watch_told_meanwhile() {
        let (mut state, of) = (State::default(), ("apps".to_owned(), "web".to_owned()));
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
