//! Packs behind URLs, as releases use them: what the fetcher knows, decoded.

use std::sync::Arc;
use std::time::Instant;

use crate::api::ReferenceKind;
use crate::cluster::{Cluster, Reference, Unread};
use crate::pack::{Limits, Pack, read_archive};
use crate::reconcile::inputs::packs::Freshness;
use crate::reconcile::inputs::packs::Place;
use crate::reconcile::inputs::packs::decoded;
use crate::reconcile::{Context, Error};
use crate::release::ReleaseKey;
use crate::source;
use crate::source::http::{Ask, Credentials, Look, SourceId, Url};
use crate::watch::Seen;

impl Context {
    /// The pack behind a URL, if it is known by now. Nothing is waited for: the release is woken.
    pub(in crate::reconcile) async fn behind_url(
        &self,
        url: &str,
        digest: Option<&str>,
        secret: Option<&str>,
        reader: &Cluster,
        key: &ReleaseKey,
        fresh: &Freshness,
    ) -> Result<Arc<Pack>, Error> {
        let url = Url::parse(url).map_err(|why| {
            self.fetcher.leave(key);
            source::Error::Invalid { what: "spec.pack.http.url".to_owned(), why }
        })?;
        let (id, credentials) = match secret {
            None => (SourceId { url, scope: String::new() }, Arc::default()),
            Some(name) => match self.credentials(url, name, reader, key).await {
                Ok(found) => found,
                Err(error) => {
                    // What they were is not to be used any more.
                    self.fetcher.leave(key);
                    return Err(error);
                }
            },
        };
        let ask = Ask {
            release: key,
            digest,
            interval: fresh.interval,
            changed: fresh.changed,
            request: fresh.request.as_deref(),
        };
        loop {
            let archive = match self.fetcher.look(&id, &credentials, &ask).await {
                Look::At(archive) => archive,
                Look::Fetching { since } => return Err(Error::Fetching { url: id.url.to_string(), since }),
                Look::Failed(error) => return Err(Error::Fetch(error)),
            };
            let place = Place::Archive(archive.clone());
            if let Some(pack) = self.packs.get(&place, |_| true) {
                return Ok(pack);
            }
            let (cache, wanted) = (self.fetcher.cache(), archive.clone());
            let decode = move || Some(read_archive(&cache.get(&wanted)?, &Limits::default()));
            match decoded(self.packs.turn(key).await?, decode).await? {
                Some(Ok(pack)) => return Ok(self.packs.put(place, 0, pack)),
                Some(Err(error)) => {
                    self.fetcher.rejected(&id, key, &archive);
                    return Err(Error::Fetch(source::Error::Pack { what: id.url.to_string(), error }));
                }
                // It was evicted or damaged. The source does not have it any more, so this ends.
                None => self.fetcher.lost(&id, &archive),
            }
        }
    }

    /// The source that a URL is with the credentials of a Secret, and these.
    async fn credentials(
        &self,
        url: Url,
        name: &str,
        reader: &Cluster,
        key: &ReleaseKey,
    ) -> Result<(SourceId, Arc<Credentials>), Error> {
        let reference = Reference::new(ReferenceKind::Secret, &key.namespace, name);
        // What one account read is not another one's to use.
        let account = reader.account().map(|account| format!(" as {account}")).unwrap_or_default();
        let scope = |version: u64| format!("{}/{name}@{version}{account}", key.namespace);
        if let Seen::At(version) = self.references.seen(&reference) {
            let id = SourceId { url: url.clone(), scope: scope(version) };
            if let Some(credentials) = self.fetcher.credentials(&id) {
                return Ok((id, credentials));
            }
        }
        match self.read(reader, &reference).await {
            Ok(Some(contents)) if contents.is_record => {
                let message = source::HIDDEN.to_owned();
                Err(Error::CredentialsInvalid { reference, message })
            }
            Ok(Some(contents)) => match Credentials::read(&contents.bytes) {
                Ok(credentials) => {
                    let id = SourceId { url, scope: scope(contents.version) };
                    Ok((id, Arc::new(credentials)))
                }
                Err(message) => Err(Error::CredentialsInvalid { reference, message }),
            },
            Ok(None) => Err(Error::CredentialsNotFound { reference }),
            Err(Unread { forbidden: true, message }) => {
                let what = format!("the {reference} of spec.pack.http.secretRef");
                Err(Error::ReadForbidden { what, message })
            }
            Err(Unread { message, .. }) => Err(Error::CredentialsUnreadable { reference, message }),
        }
    }
}

impl Error {
    /// Since when is waited for something that is under way, or that has its turn, if that is all.
    #[must_use]
    pub(in crate::reconcile) fn fetching_since(&self) -> Option<Instant> {
        match self {
            Self::Fetching { since, .. } | Self::Walking { since, .. } | Self::Queued { since } => {
                Some(*since)
            }
            _ => None,
        }
    }

    /// What is waited for wakes the release: there is no need to come back.
    #[must_use]
    pub(in crate::reconcile) fn wakes(&self) -> bool {
        matches!(self, Self::Fetching { .. } | Self::Walking { .. } | Self::Queued { .. } | Self::Fetch(_))
    }
}
