//! An archive behind a URL: what the [`Fetcher`](crate::source::http::Fetcher) knows, decoded.

mod credentials;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{LookUp, LookedUp, Source};
use crate::api::ReferenceKind;
use crate::api::sources::FromHttp;
use crate::cluster::Reference;
use crate::pack::{Limits, Pack, read_archive};
use crate::reconcile::Error;
use crate::reconcile::context::packs::{Place, decoded};
use crate::source;
use crate::source::http::{Ask, Credentials, Look, SourceId, Url};
use credentials::credentials;

impl Source for FromHttp {
    fn kind(&self) -> &'static str {
        "http"
    }

    /// The Secret with credentials.
    fn references(&self, namespace: &str) -> Vec<Reference> {
        let secret = self.secret.iter();
        secret.map(|name| Reference::new(ReferenceKind::Secret, namespace, name)).collect()
    }

    fn uses_fetcher(&self) -> bool {
        true
    }

    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        self.behind_url(using).boxed()
    }
}

impl FromHttp {
    /// The pack, if it is known by now. Nothing is waited for: the release is woken.
    async fn behind_url(&self, using: &LookUp<'_>) -> Result<LookedUp, Error> {
        let (id, credentials) = match self.identified(using).await {
            Ok(found) => found,
            Err(error) => {
                // What URL and credentials were is not to be used any more.
                using.fetcher.leave(using.key);
                return Err(error);
            }
        };
        let ask = Ask {
            release: using.key,
            digest: self.digest.as_deref(),
            interval: using.fresh.interval,
            changed: using.fresh.changed,
            request: using.fresh.request.as_deref(),
        };
        loop {
            let archive = match using.fetcher.look(&id, &credentials, &ask).await {
                Look::At(archive) => archive,
                Look::Fetching { since } => return Err(Error::Fetching { url: id.url.to_string(), since }),
                Look::Failed(error) => return Err(Error::Fetch(error)),
            };
            if let Some(pack) = fetched(&id, &archive, using).await? {
                return Ok(LookedUp { pack, fetched: false });
            }
            // It was evicted or damaged. The source does not have it any more, so this ends.
            using.fetcher.lost(&id, &archive);
        }
    }

    /// The source that the URL is with the credentials of its Secret, and these.
    async fn identified(&self, using: &LookUp<'_>) -> Result<(SourceId, Arc<Credentials>), Error> {
        let url = Url::parse(&self.url)
            .map_err(|why| source::Error::Invalid { what: "spec.pack.http.url".to_owned(), why })?;
        match &self.secret {
            None => Ok((SourceId { url, scope: String::new() }, Arc::default())),
            Some(name) => credentials(url, name, using).await,
        }
    }
}

/// The pack in an archive that the fetcher has; `None`: it has it no more.
async fn fetched(id: &SourceId, archive: &str, using: &LookUp<'_>) -> Result<Option<Arc<Pack>>, Error> {
    let place = Place::Archive(archive.to_owned());
    if let Some(pack) = using.packs.get(&place, |_| true) {
        return Ok(Some(pack));
    }
    let (cache, wanted) = (using.fetcher.cache(), archive.to_owned());
    let decode = move || Some(read_archive(&cache.get(&wanted)?, &Limits::default()));
    match decoded(using.packs.turn(using.key).await?, decode).await? {
        Some(Ok(pack)) => Ok(Some(using.packs.put(place, 0, pack))),
        Some(Err(error)) => {
            using.fetcher.rejected(id, using.key, archive);
            Err(Error::Fetch(source::Error::Pack { what: id.url.to_string(), error }))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stand::{Stand, pack_from};
    use crate::reconcile::Error;

    #[tokio::test]
    async fn a_pass_does_not_wait_for_a_fetch() {
        let from = pack_from(&json!({"http": {"url": "http://127.0.0.1:1/web.tgz"}}));
        let error = Stand::refusing(404, "NotFound").look_up(&from, None).await.err().unwrap();
        assert!(matches!(error, Error::Fetching { .. }), "{error}");
    }

    #[tokio::test]
    async fn nothing_is_fetched_without_the_credentials_that_are_named() {
        let named = json!({"http": {"url": "http://127.0.0.1:1/web.tgz", "secretRef": {"name": "login"}}});
        let error = Stand::refusing(404, "NotFound").look_up(&pack_from(&named), None).await.err().unwrap();
        assert_eq!(error.reason(), "CredentialsNotFound");
        let nothing = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "resourceVersion": "7"},
            "data": {"username": "dXNlcg=="},
        });
        let error = Stand::holding(&nothing).look_up(&pack_from(&named), None).await.err().unwrap();
        assert_eq!(error.reason(), "CredentialsInvalid");
    }
}
