//! One push: the blobs that are not there yet, then the manifest under its tag.
//!
//! Nothing is written under a tag before everything that its manifest names is in the registry, so a push that breaks off leaves
//! no broken artifact.

use http::header::LOCATION;
use http::{Method, StatusCode};
use hyper::body::Bytes;

use super::artifact::{Artifact, Wanted};
use super::manifest::{self, Content, Written};
use super::pull::{DIGEST, MANIFEST, Pull};
use super::tokens::Tokens;
use crate::source::Error;
use crate::source::cache::digest;
use crate::source::http::{Call, Client, Credentials, Reply, Sent, Url};

/// Media type of bytes that are uploaded.
const BYTES: &str = "application/octet-stream";

/// How a push ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The tag stands for the manifest with this digest now.
    Stored { digest: String },
    /// It did so before, and nothing was sent.
    Same { digest: String },
    /// The tag stands for another manifest, and stays: this one.
    Taken { digest: String },
}

/// Pushes a pack under the tag of `artifact`. A tag that stands for something else is moved with `force` only.
///
/// # Assumptions
/// Who pushes the same tag at the same time may be overwritten: registries know no condition for a write.
///
/// # Errors
/// See the variants of [`Error`]; [`Error::Invalid`] for an artifact that names no tag.
pub async fn push(
    client: &Client,
    artifact: &Artifact,
    credentials: &Credentials,
    content: &Content,
    force: bool,
) -> Result<Pushed, Error> {
    let invalid = |why: &str| Error::Invalid { what: artifact.to_string(), why: why.to_owned() };
    let Wanted::Tag(tag) = &artifact.wanted else { return Err(invalid("a pack is pushed under a tag")) };
    let written = manifest::write(content).map_err(|why| invalid(&why))?;
    let tokens = Tokens::default();
    let pull = Pull::of_command(client, artifact, credentials, &tokens);
    let mut push = Push { pull, scope: artifact.scope_of_push() };
    client.within(artifact, push.run(tag, &written, content, force)).await
}

struct Push<'a> {
    pull: Pull<'a>,
    /// What a token has to be good for.
    scope: String,
}

impl Push<'_> {
    async fn run(
        &mut self,
        tag: &str,
        written: &Written,
        content: &Content,
        force: bool,
    ) -> Result<Pushed, Error> {
        match self.under(tag).await? {
            Some(digest) if digest == written.digest => return Ok(Pushed::Same { digest }),
            Some(digest) if !force => return Ok(Pushed::Taken { digest }),
            _ => {}
        }
        self.blob(&content.config).await?;
        self.blob(&content.archive).await?;
        self.manifest(tag, written).await?;
        Ok(Pushed::Stored { digest: written.digest.clone() })
    }

    /// The digest of the manifest that the tag stands for now, if there is one.
    async fn under(&mut self, tag: &str) -> Result<Option<String>, Error> {
        let url = self.pull.url(&format!("manifests/{tag}"))?;
        let ask = async |push: &mut Self, method: Method| {
            let call = Call {
                method,
                accept: manifest::ACCEPTED,
                what: "manifest",
                limit: MANIFEST,
                ..push.pull.call(&url)
            };
            push.send(&call).await
        };
        let reply = ask(self, Method::HEAD).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let said = reply.headers.get(DIGEST).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match (self.pull.checked(reply), said) {
            (Ok(_), Some(said)) => Ok(Some(said)),
            (Err(error), _) if !matches!(error, Error::Status { status: 405 | 501, .. }) => Err(error),
            _ => {
                // Not all registries answer so to a HEAD.
                let reply = ask(self, Method::GET).await?;
                if reply.status == StatusCode::NOT_FOUND {
                    return Ok(None);
                }
                Ok(Some(digest(&self.pull.checked(reply)?.bytes)))
            }
        }
    }

    /// Uploads bytes, unless the registry has them.
    async fn blob(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let wanted = digest(bytes);
        let url = self.pull.url(&format!("blobs/{wanted}"))?;
        let reply = self.send(&Call { method: Method::HEAD, what: "blob", ..self.pull.call(&url) }).await?;
        match reply.status {
            StatusCode::OK => return Ok(()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS if reply.own => {
                self.pull.checked(reply)?;
            }
            // What a storage behind the registry answers to a HEAD says nothing.
            _ => {}
        }
        let url = self.pull.url("blobs/uploads/")?;
        let begun = self.send(&Call { method: Method::POST, what: "upload", ..self.pull.call(&url) }).await?;
        if begun.status == StatusCode::NOT_FOUND {
            let why = "the registry does not know this repository and makes none: create it there first";
            return Err(Error::Invalid { what: self.pull.artifact.to_string(), why: why.to_owned() });
        }
        let begun = self.accepted(&url, StatusCode::ACCEPTED, begun)?;
        let url = upload_url(&url, &begun, &wanted)?;
        let sent = Sent { media_type: BYTES, bytes: Bytes::copy_from_slice(bytes) };
        let call = Call { method: Method::PUT, what: "upload", sends: Some(&sent), ..self.pull.call(&url) };
        let reply = self.send(&call).await?;
        self.accepted(&url, StatusCode::CREATED, reply).map(drop)
    }

    async fn manifest(&mut self, tag: &str, written: &Written) -> Result<(), Error> {
        let url = self.pull.url(&format!("manifests/{tag}"))?;
        let sent = Sent { media_type: manifest::WRITTEN, bytes: Bytes::copy_from_slice(&written.bytes) };
        let call = Call { method: Method::PUT, what: "manifest", sends: Some(&sent), ..self.pull.call(&url) };
        let reply = self.send(&call).await?;
        let reply = self.accepted(&url, StatusCode::CREATED, reply)?;
        match reply.headers.get(DIGEST).and_then(|value| value.to_str().ok()) {
            Some(found) if found != written.digest => Err(Error::Corrupt {
                url: url.to_string(),
                wanted: written.digest.clone(),
                found: crate::pack::shown(found, 80),
            }),
            _ => Ok(()),
        }
    }

    async fn send(&mut self, call: &Call<'_>) -> Result<Reply, Error> {
        self.pull.send(call, Some(&self.scope)).await
    }

    /// The answer, if it is what a registry answers when it has done what it was asked for.
    fn accepted(&self, url: &Url, wanted: StatusCode, reply: Reply) -> Result<Reply, Error> {
        if reply.status == wanted {
            return Ok(reply);
        }
        let status = reply.status.as_u16();
        self.pull.checked(reply)?;
        Err(Error::Status { url: url.to_string(), status, wait: None })
    }
}

/// Where the bytes with this digest are to be sent, as the registry says it: on the same host.
fn upload_url(url: &Url, begun: &Reply, digest: &str) -> Result<Url, Error> {
    let refused = |why: String| Error::Redirect { url: url.to_string(), why };
    let location = begun.headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| refused("it does not say where to upload to".to_owned()))?;
    upload_at(url, location, digest).map_err(refused)
}

fn upload_at(url: &Url, location: &str, digest: &str) -> Result<Url, String> {
    let refused = |why: String| format!("it wants the upload at a URL that is refused: {why}");
    let place = url.join(location).map_err(refused)?;
    if !url.trusts(&place) {
        // Neither the credentials nor the pack are for there.
        return Err(format!("it wants the upload at {place}: another host, port or scheme"));
    }
    let separator = if place.uri().query().is_some() { '&' } else { '?' };
    Url::parse(&format!("{}{separator}digest={digest}", place.uri())).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_goes_to_the_same_host_only() {
        let url = Url::parse("https://r/v2/a/blobs/uploads/").unwrap();
        let at = |location: &str| upload_at(&url, location, "sha256:0").map(|url| url.uri().to_string());
        for (location, found) in [
            ("/v2/a/blobs/uploads/1?_state=x", "https://r/v2/a/blobs/uploads/1?_state=x&digest=sha256:0"),
            ("https://r/v2/a/blobs/uploads/1", "https://r/v2/a/blobs/uploads/1?digest=sha256:0"),
            ("1", "https://r/v2/a/blobs/uploads/1?digest=sha256:0"),
        ] {
            assert_eq!(at(location).as_deref(), Ok(found), "{location}");
        }
        for location in ["https://other/1", "http://r/1", "https://r:8443/1", "https://u:p@r/1", "ftp://r/1"]
        {
            assert!(at(location).is_err(), "{location}");
        }
    }
}
