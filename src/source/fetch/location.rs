//! Where a source is, and how it is asked there.

use std::fmt;

use crate::source::Error;
use crate::source::http::{Answer, Client, Credentials, Url, Validators};
use crate::source::oci::{Artifact, Tokens, pull};

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// An archive behind a URL.
    Archive(Url),
    /// An artifact in an OCI registry.
    Oci(Artifact),
}

impl Location {
    /// The label `kind` of the metric of fetches.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Archive(_) => "http",
            Self::Oci(_) => "oci",
        }
    }

    /// One text for it, with all that tells it from another one.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Archive(url) => url.uri().to_string(),
            Self::Oci(artifact) => artifact.text(),
        }
    }

    /// One look, for a release in `namespace`. `tokens` are kept for `id`.
    pub(super) async fn ask(
        &self,
        client: &Client,
        namespace: &str,
        credentials: &Credentials,
        known: &Validators,
        (tokens, id): (&Tokens, &str),
    ) -> Result<Answer, Error> {
        match self {
            Self::Archive(url) => client.get(namespace, url, credentials, known).await,
            Self::Oci(artifact) => pull(client, namespace, artifact, credentials, known, (tokens, id)).await,
        }
    }
}

/// As messages show it.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive(url) => url.fmt(f),
            Self::Oci(artifact) => artifact.fmt(f),
        }
    }
}
