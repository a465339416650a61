//! What a command asks of a registry, once, and shares with no other look.

use super::artifact::Artifact;
use super::pull::{Pull, pull};
use super::tokens::Tokens;
use crate::source::Error;
use crate::source::http::{Answer, Client, Credentials, Validators};

/// An archive that was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// As its digest in the manifest stands for them.
    pub bytes: Vec<u8>,
    /// Digest of the manifest.
    pub digest: String,
}

/// The tags of a repository that stand for a version, in no order.
///
/// # Errors
/// See the variants of [`Error`].
pub async fn tags(
    client: &Client,
    artifact: &Artifact,
    credentials: &Credentials,
) -> Result<Vec<String>, Error> {
    let tokens = Tokens::default();
    let mut pull = Pull::of_command(client, artifact, credentials, &tokens);
    client.within(artifact, pull.tags()).await
}

/// The archive of an artifact.
///
/// # Errors
/// See the variants of [`Error`].
pub async fn archive(
    client: &Client,
    artifact: &Artifact,
    credentials: &Credentials,
) -> Result<Pulled, Error> {
    let tokens = Tokens::default();
    let nothing = Validators::default();
    match pull(client, "", artifact, (credentials, None), &nothing, (&tokens, "")).await? {
        Answer::Fetched { bytes, validators } => {
            Ok(Pulled { bytes, digest: validators.etag.unwrap_or_default() })
        }
        // Nothing was known.
        Answer::Unchanged => Err(Error::NotFound { what: artifact.to_string() }),
    }
}
