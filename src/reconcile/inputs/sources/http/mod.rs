//! An archive behind a URL: what the [`Fetcher`](crate::source::http::Fetcher) knows, decoded.

mod credentials;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{LookedUp, Scope, Source};
use crate::api::ReferenceKind;
use crate::api::sources::FromHttp;
use crate::cluster::Reference;
use crate::pack::{Limits, Pack, read_archive};
use crate::reconcile::Error;
use crate::reconcile::inputs::packs::{Place, decoded};
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

    fn look_up<'a>(&'a self, scope: &'a Scope<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        self.behind_url(scope).boxed()
    }
}

impl FromHttp {
    /// The pack, if it is known by now. Nothing is waited for: the release is woken.
    async fn behind_url(&self, scope: &Scope<'_>) -> Result<LookedUp, Error> {
        let (id, credentials) = match self.identified(scope).await {
            Ok(found) => found,
            Err(error) => {
                // What URL and credentials were is not to be used any more.
                scope.fetcher.leave(scope.key);
                return Err(error);
            }
        };
        let ask = Ask {
            release: scope.key,
            digest: self.digest.as_deref(),
            interval: scope.fresh.interval,
            changed: scope.fresh.changed,
            request: scope.fresh.request.as_deref(),
        };
        loop {
            let archive = match scope.fetcher.look(&id, &credentials, &ask).await {
                Look::At(archive) => archive,
                Look::Fetching { since } => return Err(Error::Fetching { url: id.url.to_string(), since }),
                Look::Failed(error) => return Err(Error::Fetch(error)),
            };
            if let Some(pack) = fetched(&id, &archive, scope).await? {
                return Ok(LookedUp { pack, fetched: false });
            }
            // It was evicted or damaged. The source does not have it any more, so this ends.
            scope.fetcher.lost(&id, &archive);
        }
    }

    /// The source that the URL is with the credentials of its Secret, and these.
    async fn identified(&self, scope: &Scope<'_>) -> Result<(SourceId, Arc<Credentials>), Error> {
        let url = Url::parse(&self.url)
            .map_err(|why| source::Error::Invalid { what: "spec.pack.http.url".to_owned(), why })?;
        match &self.secret {
            None => Ok((SourceId { url, scope: String::new() }, Arc::default())),
            Some(name) => credentials(url, name, scope).await,
        }
    }
}

/// The pack in an archive that the fetcher has; `None`: it has it no more.
async fn fetched(id: &SourceId, archive: &str, scope: &Scope<'_>) -> Result<Option<Arc<Pack>>, Error> {
    let place = Place::Archive(archive.to_owned());
    if let Some(pack) = scope.packs.get(&place, |_| true) {
        return Ok(Some(pack));
    }
    let (cache, wanted) = (scope.fetcher.cache(), archive.to_owned());
    let decode = move || Some(read_archive(&cache.get(&wanted)?, &Limits::default()));
    match decoded(scope.packs.turn(scope.key).await?, decode).await? {
        Some(Ok(pack)) => Ok(Some(scope.packs.put(place, 0, pack))),
        Some(Err(error)) => {
            scope.fetcher.rejected(id, scope.key, archive);
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
