//! An artifact in an OCI registry.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::credentials;
use super::fetched::{self, Fetched};
use super::host::{Host, Server};
use super::{LookUp, LookedUp, Source};
use crate::api::sources::{FromOci, WhichTag};
use crate::cluster::Reference;
use crate::reconcile::Error;
use crate::source;
use crate::source::fetch::Location;
use crate::source::oci::{self, Artifact, Wanted};
use crate::source::versions;

const SECRET: &str = "spec.pack.oci.secretRef";

impl Source for FromOci {
    fn kind(&self) -> &'static str {
        "oci"
    }

    /// The Secret with credentials.
    fn references(&self, namespace: &str) -> Vec<Reference> {
        credentials::references(self.secret.as_deref(), namespace)
    }

    fn uses_fetcher(&self) -> bool {
        true
    }

    fn host(&self) -> Option<Host<'_>> {
        let registry = self.artifact().ok()?.registry().to_owned();
        let server = Server::Registry(registry, self.insecure);
        Some(Host { server, secret: self.secret.as_deref(), field: SECRET })
    }

    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        async move {
            let artifact = self.artifact();
            let read = |data: &_| match &artifact {
                Ok(artifact) => oci::credentials(data, artifact),
                Err(error) => Err(error.to_string()),
            };
            let from = Fetched {
                fixed: artifact.as_ref().is_ok_and(Artifact::is_fixed),
                location: artifact.clone().map(Location::Oci),
                // That of the manifest is part of the artifact's name.
                digest: None,
                below: None,
                secret: self.secret.as_deref(),
                field: SECRET,
                read: &read,
            };
            fetched::look_up(from, using).await
        }
        .boxed()
    }
}

impl FromOci {
    fn artifact(&self) -> Result<Artifact, source::Error> {
        let invalid = |field: &str, why| source::Error::Invalid { what: field.to_owned(), why };
        let wanted = match &self.which {
            WhichTag::Tag(tag) => Wanted::Tag(tag.clone()),
            WhichTag::Range(range) => {
                versions::check(range).map_err(|why| invalid("spec.pack.oci.semver", why.to_string()))?;
                Wanted::Range(range.clone())
            }
            WhichTag::Digest(digest) => Wanted::Digest(digest.clone()),
        };
        Artifact::parse(&self.repository, wanted, self.insecure)
            .map_err(|why| invalid("spec.pack.oci.repository", why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stand::{Stand, pack_from};
    use crate::reconcile::Error;

    #[tokio::test]
    async fn a_pass_does_not_wait_for_a_pull() {
        let from = pack_from(&json!({"oci": {"repository": "oci://127.0.0.1:1/web", "tag": "1.0.0"}}));
        let error = Stand::refusing(404, "NotFound").look_up(&from, None).await.err().unwrap();
        assert!(matches!(error, Error::Fetching { .. }), "{error}");
        assert!(error.to_string().contains("oci://127.0.0.1:1/web:1.0.0"), "{error}");
    }

    #[tokio::test]
    async fn a_secret_has_to_speak_of_the_registry() {
        let named = json!({"oci": {"repository": "oci://127.0.0.1:1/web", "secretRef": {"name": "login"}}});
        let error = Stand::refusing(404, "NotFound").look_up(&pack_from(&named), None).await.err().unwrap();
        assert_eq!(error.reason(), "CredentialsNotFound");
        // {"auths": {"other": {}}}
        let elsewhere = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "resourceVersion": "7"},
            "data": {".dockerconfigjson": "eyJhdXRocyI6IHsib3RoZXIiOiB7fX19"},
        });
        let error = Stand::holding(&elsewhere).look_up(&pack_from(&named), None).await.err().unwrap();
        assert_eq!(error.reason(), "CredentialsInvalid");
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }
}
