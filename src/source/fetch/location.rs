//! Where a source is, and how it is asked there.

use std::fmt;

use super::access::Access;
use crate::source::Error;
use crate::source::http::{Answer, Client, Url, Validators};
use crate::source::minisig::Beside;
use crate::source::oci::{Artifact, Tokens, pull};
use crate::source::repository::{Indexes, Listed, fetch};

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// An archive behind a URL.
    Archive(Url),
    /// An artifact in an OCI registry.
    Oci(Artifact),
    /// An archive that the index of a repository names.
    Repository(Listed),
    /// An archive that Flux's source-controller serves, and the path there of the object whose it is.
    Flux(Url, String),
}

/// What looks at different sources share. Losing any of it costs a request.
#[derive(Default)]
pub(super) struct Shared {
    tokens: Tokens,
    indexes: Indexes,
}

impl Location {
    /// The label `kind` of the metric of fetches.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Archive(_) => "http",
            Self::Oci(_) => "oci",
            Self::Repository(_) => "repository",
            Self::Flux(..) => "artifact",
        }
    }

    /// One text for it, with all that tells it from another one.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Archive(url) => url.uri().to_string(),
            Self::Oci(artifact) => artifact.text(),
            Self::Repository(listed) => listed.text(),
            Self::Flux(url, of) => format!("{} of Flux {of}", url.uri()),
        }
    }

    /// One look, for a release in `namespace`. `scope` tells apart what different credentials give.
    pub(super) async fn ask(
        &self,
        client: &Client,
        namespace: &str,
        access: &Access,
        known: &Validators,
        (shared, scope): (&Shared, &str),
    ) -> Result<Answer, Error> {
        let Shared { tokens, indexes } = shared;
        let Access { credentials, keys } = access;
        match self {
            Self::Archive(url) => {
                let Some(keys) = keys else { return client.get(namespace, url, credentials, known).await };
                let beside = Beside { client, namespace, url, credentials };
                beside.fetch(keys, known).await
            }
            Self::Flux(url, of) => client.get_artifact(namespace, url, of).await,
            Self::Oci(artifact) => {
                let id = format!("{scope}\n{}", artifact.text());
                pull(client, namespace, artifact, (credentials, keys.as_ref()), known, (tokens, &id)).await
            }
            Self::Repository(listed) => {
                fetch(client, namespace, listed, (credentials, keys.as_ref()), known, (indexes, scope)).await
            }
        }
    }
}

/// As messages show it.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive(url) => url.fmt(f),
            Self::Oci(artifact) => artifact.fmt(f),
            Self::Repository(listed) => listed.fmt(f),
            Self::Flux(url, _) => url.fmt(f),
        }
    }
}
