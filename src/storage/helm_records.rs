//! Where Helm keeps its revisions: read, and never written.

use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use super::Error;
use super::helm::{HelmRelease, helm_revision};
use super::shelf::{InCluster, Page, Selector, Shelf};
use super::unreadable::Unreadable;

/// How often a list that grew too old is started again before it counts as an error.
const LIST_TRIES: u32 = 3;

/// Revisions of Helm in Secrets, seen by whom the client acts as.
#[derive(Clone)]
pub struct HelmRecords {
    shelf: InCluster<Secret>,
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
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { shelf: InCluster::new(client) }
    }

    /// The revision with the highest number. Lists metadata only, as the API server has them now.
    ///
    /// # Errors
    /// As every call for records.
    pub async fn newest(&self, namespace: &str, release: &str) -> Result<Option<HelmNewest>, Error> {
        let selector = Selector::helm(release);
        let (mut newest, mut token, mut tries) = (None::<HelmNewest>, String::new(), LIST_TRIES);
        loop {
            match self.shelf.list(namespace, &selector, &token).await {
                Ok(Page { items, next }) => {
                    for meta in items {
                        let secret = meta.name.unwrap_or_default();
                        let Some((_, revision)) = helm_revision(&secret).filter(|(of, _)| *of == release)
                        else {
                            continue;
                        };
                        let version = meta.resource_version.unwrap_or_default();
                        if newest.as_ref().is_none_or(|known| known.revision < revision) {
                            newest = Some(HelmNewest { revision, secret, version });
                        }
                    }
                    match next {
                        Some(next) => token = next,
                        None => return Ok(newest),
                    }
                }
                Err(error) if error.is_expired() && tries > 1 => {
                    tries -= 1;
                    token.clear();
                    newest = None;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One revision.
    ///
    /// # Errors
    /// As every call for records.
    pub async fn get(&self, namespace: &str, secret: &str) -> Result<HelmFound, Error> {
        let Some(found) = self.shelf.get(namespace, secret).await? else { return Ok(HelmFound::Nothing) };
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        Ok(match HelmRelease::decode(&found) {
            Ok(release) => HelmFound::Release(Box::new(release), version),
            Err(unreadable) => HelmFound::Unreadable(unreadable),
        })
    }
}
