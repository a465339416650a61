//! The keys of the revision records: read before anything begins, and kept while the process runs.
//!
//! Invariant: a key is made only where no release has records yet. Where one has, a new key would leave all of them
//! unproved, so that is for a person to do.

use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::Client;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::reflector::Store;
use kube::runtime::{WatchStreamExt, watcher};

use super::Config;
use super::server::Gate;
use crate::api::SherpackRelease;
use crate::release::ReleaseKey;
use crate::storage::{self, KeyRing, Keys, RECORD_KEY_SECRET, RECORD_KEYS_SECRET};

/// Between two looks for keys that cannot be had.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Tells of a Secret that was written again.
pub(super) type OnRestore = Box<dyn Fn(&ObjectReference, &str) + Send + Sync>;

/// Waits until there are keys. Without them no record can be told from a forged one, so nothing begins before.
pub(super) async fn load(client: &Client, config: &Config, gate: &Gate) -> KeyRing {
    let namespace = &config.operator_namespace;
    let mut said = None;
    loop {
        let problem = match look(client, config).await {
            Ok(Ok(ring)) => return ring,
            Ok(Err(lost)) => lost,
            Err(error) => format!("the key of the revision records cannot be read or made: {error}"),
        };
        if said.as_ref() != Some(&problem) {
            tracing::warn!(namespace, "{problem}; trying again");
            // Every user may read this, so it names no release.
            gate.says(format!(
                "the key of the revision records in Secret {namespace}/{RECORD_KEY_SECRET}: see the log"
            ));
            said = Some(problem);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The keys, or why none is made.
async fn look(client: &Client, config: &Config) -> Result<Result<KeyRing, String>, storage::Error> {
    let namespace = &config.operator_namespace;
    if let Some(ring) = storage::read_keys(client, namespace).await? {
        return Ok(Ok(ring));
    }
    match storage::finalized(client, config.watch_namespace.as_deref()).await? {
        Some(release) => Ok(Err(format!(
            "Secret {namespace}/{RECORD_KEY_SECRET} is missing, and it seals the records of releases such as \
             {release}: restore it from a backup, or see `sherpack-operator key new`"
        ))),
        None => storage::make_key(client, namespace, None).await.map(Ok),
    }
}

/// What [`Keeper::keep`] works with.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) keys: Keys,
    pub(super) releases: Store<SherpackRelease>,
    pub(super) wake_tx: UnboundedSender<ReleaseKey>,
    pub(super) on_restore: OnRestore,
}

impl Keeper {
    /// Writes a Secret again that is missing, and takes up the keys that others add, for as long as the process runs.
    pub(super) async fn keep(self) {
        let mut changes =
            futures::stream::select(self.changes(RECORD_KEY_SECRET), self.changes(RECORD_KEYS_SECRET));
        let mut troubled = false;
        while changes.next().await.is_some() {
            // A failure is tried again at once when something changes, else when a moment is over.
            while let Err(error) = self.look().await {
                if !troubled {
                    tracing::warn!(%error, namespace = self.namespace, "the keys of the revision records cannot be kept: trying again");
                }
                troubled = true;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            troubled = false;
        }
    }

    async fn look(&self) -> Result<(), storage::Error> {
        let kept = storage::keep_keys(&self.client, &self.namespace, &self.keys.ring()).await?;
        for secret in &kept.restored {
            let name = secret.name.as_deref().unwrap_or_default();
            let note = format!("Secret {}/{name} was missing and is written again", self.namespace);
            (self.on_restore)(secret, &note);
        }
        if self.keys.replace(kept.ring) {
            tracing::info!(namespace = self.namespace, "the keys of the revision records have changed");
            for release in self.releases.state() {
                let _ = self.wake_tx.unbounded_send(ReleaseKey::of(&release));
            }
        }
        Ok(())
    }

    /// Something for every change of a Secret, and when it may be missing.
    fn changes(&self, name: &'static str) -> futures::stream::BoxStream<'static, ()> {
        let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let keys = self.keys.clone();
        let news = watcher(api, config).default_backoff().filter_map(move |event| {
            let news = match event {
                Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => Some(()),
                // The second Secret is mostly not there at all.
                Ok(watcher::Event::InitDone) if name == RECORD_KEY_SECRET => Some(()),
                Ok(watcher::Event::InitDone) if keys.ring().keys().count() > 1 => Some(()),
                Ok(watcher::Event::InitApply(_)) if name == RECORD_KEYS_SECRET => Some(()),
                Ok(watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::InitDone) => None,
                Err(error) => {
                    tracing::debug!(%error, "the watch of a key of the revision records starts again");
                    None
                }
            };
            futures::future::ready(news)
        });
        news.boxed()
    }
}
