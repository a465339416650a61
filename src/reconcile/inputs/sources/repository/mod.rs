//! A pack in a repository with an `index.yaml`.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::credentials;
use super::fetched::{self, Fetched};
use super::host::{Host, Server};
use super::{LookUp, LookedUp, Source};
use crate::api::sources::FromRepository;
use crate::cluster::Reference;
use crate::reconcile::Error;
use crate::source;
use crate::source::fetch::Location;
use crate::source::http::{Credentials, Url};
use crate::source::repository::Listed;
use crate::source::versions;

const SECRET: &str = "spec.pack.repository.secretRef";

impl Source for FromRepository {
    fn kind(&self) -> &'static str {
        "repository"
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
        let from = Fetched {
            location: self.listed().map(Location::Repository),
            // That of the archive is in the index.
            digest: None,
            below: None,
            fixed: false,
            secret: self.secret.as_deref(),
            field: SECRET,
            read: &Credentials::read,
        };
        fetched::look_up(from, using).boxed()
    }
}

impl FromRepository {
    fn listed(&self) -> Result<Listed, source::Error> {
        let invalid = |field: &str, why| source::Error::Invalid { what: field.to_owned(), why };
        if let Some(range) = &self.version {
            versions::check(range).map_err(|why| invalid("spec.pack.repository.version", why.to_string()))?;
        }
        Ok(Listed {
            repository: Url::parse(&self.url).map_err(|why| invalid("spec.pack.repository.url", why))?,
            name: self.name.clone(),
            range: self.version.clone(),
            pass_credentials: self.pass_credentials,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stand::{Stand, pack_from};
    use crate::reconcile::Error;

    #[tokio::test]
    async fn a_pass_does_not_wait_for_an_index() {
        let repository = json!({"url": "http://127.0.0.1:1/charts", "name": "web", "version": "1.x"});
        let from = pack_from(&json!({"repository": repository}));
        let error = Stand::refusing(404, "NotFound").look_up(&from, None).await.err().unwrap();
        assert!(matches!(error, Error::Fetching { .. }), "{error}");
        assert!(error.to_string().contains("pack `web` of http://127.0.0.1:1/charts in `1.x`"), "{error}");
    }
}
