//! The artifact of a Flux source: what its status names, fetched once for all releases of it.

mod standing;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use self::standing::{NoArtifact, artifact, is_verified};
use super::fetched::{self, Fetched};
use super::{LookUp, LookedUp, Source, unread};
use crate::api::is_digest;
use crate::api::sources::{FromArtifact, Signatures};
use crate::cluster::{FluxArtifact, FluxSource, NoFluxSource, Reference, Referent};
use crate::pack::Pack;
use crate::reconcile::Error;
use crate::reconcile::context::packs::Place;
use crate::source;
use crate::source::fetch::Location;
use crate::source::http::{Credentials, Url};
use crate::watch::Seen;

impl Source for FromArtifact {
    fn kind(&self) -> &'static str {
        "artifact"
    }

    /// The Flux source. It may stand in another namespace: who reads it is asked for the right.
    fn references(&self, namespace: &str) -> Vec<Reference> {
        vec![self.reference(namespace)]
    }

    fn uses_fetcher(&self) -> bool {
        true
    }

    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        self.in_artifact(using).boxed()
    }
}

impl FromArtifact {
    fn reference(&self, namespace: &str) -> Reference {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        Reference::new(Referent::Flux(self.kind), namespace, &self.name)
    }

    /// The source is read again when the watch says that it is another one, or when that is asked for.
    async fn in_artifact(&self, using: &LookUp<'_>) -> Result<LookedUp, Error> {
        let reference = self.reference(&using.key.namespace);
        let account = using.reader.account().cloned();
        // Whether Flux has to have verified it is the same for the whole process.
        let place = Place::Object(account, reference.clone(), self.path.clone(), String::new());
        let before = using.references.seen(&reference);
        if let (Seen::At(version), None) = (before, &using.fresh.request)
            && let Some(pack) = using.packs.get(&place, |found| found.version == version)
        {
            using.fetcher.leave_others_than_flux(using.key);
            return Ok(LookedUp { pack, fetched: false });
        }
        let source = using.reader.flux_source(&reference).await;
        let version = match &source {
            Ok(source) => Some(source.version),
            Err(_) => None,
        };
        if !matches!(source, Err(NoFluxSource::Unread(_))) {
            using.references.read(&reference, before, version);
        }
        match self.chosen(source, &reference, &place, using) {
            Ok(Chosen::Known(pack)) => {
                using.fetcher.leave(using.key);
                Ok(LookedUp { pack, fetched: false })
            }
            Ok(Chosen::Artifact(artifact)) => {
                let found = self.fetched(&artifact, &reference, using).await?;
                using.packs.also_at(place, version.unwrap_or_default(), &found.pack);
                Ok(found)
            }
            Err(error) => {
                using.fetcher.leave(using.key);
                Err(error)
            }
        }
    }

    /// What to take of a source.
    fn chosen(
        &self,
        source: Result<FluxSource, NoFluxSource>,
        reference: &Reference,
        place: &Place,
        using: &LookUp<'_>,
    ) -> Result<Chosen, Error> {
        let reference = || reference.clone();
        let flux = source.map_err(|why| match why {
            NoFluxSource::Missing => Error::PackObjectNotFound { reference: reference() },
            NoFluxSource::NotServed => Error::FluxNotInstalled { reference: reference() },
            NoFluxSource::Unread(why) => unread(reference(), "spec.pack.artifact", why),
        })?;
        match artifact(&flux, self.kind) {
            Ok(_) if *using.signatures == Signatures::Missing && !is_verified(&flux, self.kind) => {
                let what = format!("the {}", reference());
                let why = "Flux has not verified its artifact, and this operator takes only signed packs (--require-signatures): set its spec.verify".to_owned();
                Err(source::Error::Unverified { what, why }.into())
            }
            Ok(artifact) => Ok(Chosen::Artifact(artifact.clone())),
            Err(NoArtifact::NotYet(why)) => match using.packs.get(place, |_| true) {
                // It gave one before: that is good until it gives the next.
                Some(pack) => Ok(Chosen::Known(pack)),
                None => Err(Error::ArtifactNotReady { reference: reference(), why }),
            },
            Err(NoArtifact::Failed(why)) => Err(Error::ArtifactNotReady { reference: reference(), why }),
        }
    }

    async fn fetched(
        &self,
        artifact: &FluxArtifact,
        reference: &Reference,
        using: &LookUp<'_>,
    ) -> Result<LookedUp, Error> {
        let what = || format!("status.artifact of the {reference}");
        let location = if is_digest(&artifact.digest) {
            let Reference { namespace, name, .. } = reference;
            let of = format!("/{}/{namespace}/{name}/", self.kind.as_str().to_lowercase());
            Url::parse(&artifact.url)
                .map(|url| Location::Flux(url, of))
                .map_err(|why| source::Error::Invalid { what: what(), why })
        } else {
            let why = format!("its digest is {}, and only SHA-256 is supported", artifact.digest);
            Err(source::Error::Invalid { what: what(), why })
        };
        let from = Fetched {
            location,
            digest: Some(&artifact.digest),
            below: self.path.as_deref(),
            fixed: true,
            secret: None,
            field: "spec.pack.artifact",
            read: &Credentials::read,
        };
        let found = fetched::look_up(from, using).await;
        found.map_err(|error| match error {
            // Not what was found: it may be what the author of the release may not have.
            Error::Fetch(source::Error::DigestMismatch { url, wanted, found: _ }) => {
                Error::Fetch(source::Error::Replaced { url, wanted })
            }
            other => other,
        })
    }
}

enum Chosen {
    Artifact(FluxArtifact),
    /// What it gave before.
    Known(Arc<Pack>),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::stand::{Stand, pack_from};
    use super::Signatures;
    use crate::reconcile::Error;

    fn source(status: &Value) -> Stand {
        Stand::holding(&json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "app", "namespace": "flux-system", "resourceVersion": "7", "generation": 2},
            "spec": {}, "status": status,
        }))
    }

    #[tokio::test]
    async fn the_artifact_is_fetched_by_its_digest_and_a_source_without_one_is_waited_for() {
        let from = pack_from(
            &json!({"artifact": {"kind": "GitRepository", "name": "app", "namespace": "flux-system"}}),
        );
        let digest = format!("sha256:{}", "0a".repeat(32));
        let artifact =
            |digest: &str| json!({"url": "http://127.0.0.1:1/a.tgz", "digest": digest, "revision": "main"});
        for (status, reason, said) in [
            (
                json!({"observedGeneration": 2, "artifact": artifact(&digest)}),
                "Fetching",
                "127.0.0.1:1/a.tgz",
            ),
            (
                json!({"observedGeneration": 2, "artifact": artifact("sha512:00")}),
                "SourceInvalid",
                "only SHA-256",
            ),
            (
                json!({"observedGeneration": 2, "artifact": artifact("sha256:0A")}),
                "SourceInvalid",
                "only SHA-256",
            ),
            (
                json!({"observedGeneration": 1, "artifact": artifact(&digest)}),
                "ArtifactNotReady",
                "GitRepository flux-system/app",
            ),
            (json!(null), "ArtifactNotReady", "GitRepository flux-system/app"),
            (json!({"artifact": "nonsense"}), "ArtifactNotReady", "GitRepository flux-system/app"),
        ] {
            let error = source(&status).look_up(&from, None).await.err().unwrap();
            assert_eq!(error.reason(), reason, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[tokio::test]
    async fn a_source_that_is_missing_is_told_from_a_kind_that_is() {
        let from = pack_from(&json!({"artifact": {"kind": "Bucket", "name": "app"}}));
        for (stand, reason) in [
            (Stand::refusing(404, "NotFound"), "FluxNotInstalled"),
            (Stand::refusing(403, "Forbidden"), "Forbidden"),
            (Stand::refusing(500, "InternalError"), "SourceUnreachable"),
        ] {
            let error: Error = stand.look_up(&from, None).await.err().unwrap();
            assert_eq!(error.reason(), reason, "{error}");
            assert!(error.to_string().contains("Bucket"), "{error}");
        }
    }

    #[tokio::test]
    async fn where_signatures_are_required_flux_has_to_have_verified_the_artifact() {
        let from = pack_from(
            &json!({"artifact": {"kind": "GitRepository", "name": "app", "namespace": "flux-system"}}),
        );
        let artifact =
            json!({"url": "http://127.0.0.1:1/a.tgz", "digest": format!("sha256:{}", "0a".repeat(32))});
        for (verified, reason) in [("True", "Fetching"), ("Unknown", "SignatureInvalid")] {
            let conditions = json!([{"type": "SourceVerified", "status": verified, "message": ""}]);
            let mut stand =
                source(&json!({"observedGeneration": 2, "artifact": artifact, "conditions": conditions}));
            stand.signatures = Signatures::Missing;
            let error = stand.look_up(&from, None).await.err().unwrap();
            assert_eq!(error.reason(), reason, "{error}");
        }
    }
}
