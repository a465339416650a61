//! Where Helm keeps its revisions: read, and never written.

use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use super::{HelmRelease, helm_revision};
use crate::storage::Error;
use crate::storage::backend::{Backend, InCluster, Selector};
use crate::storage::driver::off_thread;
use crate::storage::unpacking::{SMALL, Unpacking};
use crate::storage::unreadable::{Fault, Unreadable};

/// Revisions of Helm in Secrets, seen by whom the client acts as.
#[derive(Clone)]
pub struct HelmRecords {
    backend: InCluster<Secret>,
    unpacking: Unpacking,
}

/// The newest revision of a release by its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmNewest {
    pub revision: u32,
    /// Name of the Secret.
    pub secret: String,
    /// resourceVersion of the Secret.
    pub version: String,
}

/// A revision that was looked for.
pub enum HelmFound {
    Nothing,
    Unreadable(Unreadable),
    /// With the resourceVersion of its Secret.
    Release(Box<HelmRelease>, String),
}

impl HelmRecords {
    pub(in crate::storage) fn new(client: Client, unpacking: Unpacking) -> Self {
        Self { backend: InCluster::new(client), unpacking }
    }

    /// The revision with the highest number. Lists metadata only, as the API server has them now.
    ///
    /// # Errors
    /// As every call for records.
    pub async fn newest(&self, namespace: &str, release: &str) -> Result<Option<HelmNewest>, Error> {
        let selector = Selector::helm(release);
        let all = self.backend.all(namespace, &selector).await?;
        let revisions = all.into_iter().filter_map(|meta| {
            let secret = meta.name?;
            let (_, revision) = helm_revision(&secret).filter(|(of, _)| *of == release)?;
            Some(HelmNewest { revision, secret, version: meta.resource_version.unwrap_or_default() })
        });
        Ok(revisions.max_by_key(|found| found.revision))
    }

    /// One revision.
    ///
    /// # Errors
    /// As every call for records.
    pub async fn get(&self, namespace: &str, secret: &str) -> Result<HelmFound, Error> {
        let Some(found) = self.backend.get(namespace, secret).await? else { return Ok(HelmFound::Nothing) };
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let read = match HelmRelease::decode_within(&found, SMALL) {
            Err(unreadable) if unreadable.reason == Fault::TooLarge => {
                let turn = self.unpacking.turn().await;
                let unpack = move || {
                    let read = HelmRelease::decode(&found);
                    drop(turn);
                    read
                };
                off_thread("unpack a revision of Helm", unpack).await?
            }
            read => read,
        };
        Ok(match read {
            Ok(release) => HelmFound::Release(Box::new(release), version),
            Err(unreadable) => HelmFound::Unreadable(unreadable),
        })
    }
}
