//! An archive behind a URL.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::credentials;
use super::fetched::{self, Fetched};
use super::host::{Host, Server};
use super::{LookUp, LookedUp, Source};
use crate::api::sources::FromHttp;
use crate::cluster::Reference;
use crate::reconcile::Error;
use crate::source;
use crate::source::fetch::Location;
use crate::source::http::{Credentials, Url};

const SECRET: &str = "spec.pack.http.secretRef";

impl Source for FromHttp {
    fn kind(&self) -> &'static str {
        "http"
    }

    /// The Secret with credentials.
    fn references(&self, namespace: &str) -> Vec<Reference> {
        credentials::references(self.secret.as_deref(), namespace)
    }

    fn uses_fetcher(&self) -> bool {
        true
    }

    fn host(&self) -> Option<Host<'_>> {
        let server = Server::Web(Url::parse(&self.url).ok()?);
        Some(Host { server, secret: self.secret.as_deref(), field: SECRET })
    }

    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        let invalid = |why| source::Error::Invalid { what: "spec.pack.http.url".to_owned(), why };
        let from = Fetched {
            location: Url::parse(&self.url).map(Location::Archive).map_err(invalid),
            digest: self.digest.as_deref(),
            below: None,
            fixed: false,
            secret: self.secret.as_deref(),
            field: SECRET,
            read: &Credentials::read,
        };
        fetched::look_up(from, using).boxed()
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
