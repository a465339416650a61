//! One pull: from a reference to the bytes of its archive.

use std::time::Instant;

use http::{HeaderValue, Method, StatusCode};
use oci_spec::distribution::TagList;

use super::artifact::{Artifact, Wanted};
use super::challenge::{Challenge, challenge, token_url};
use super::manifest::{self, Blob, Found};
use super::tokens::{self, Tokens};
use crate::pack;
use crate::source::Error;
use crate::source::cache::digest;
use crate::source::http::{Answer, Call, Client, Credentials, Reply, Url, Validators, withhold};
use crate::source::versions;

/// Where a release names the Secret.
const SECRET: &str = "spec.pack.oci.secretRef";
/// Bytes of a manifest: what registries take themselves.
const MANIFEST: u64 = 4 << 20;
/// Bytes of a token server's answer.
const TOKEN: u64 = 64 << 10;
/// Pages of tags, their bytes, and the tags on all of them.
const PAGES: usize = 100;
const PAGE: u64 = 4 << 20;
const TAGS: usize = 20_000;
const DIGEST: &str = "docker-content-digest";

/// Pulls the archive of an artifact, on behalf of a release in `namespace`; `Unchanged` if its manifest is the known one, whose
/// digest is the `ETag` of the validators. `tokens` are kept for the source that is called `id`.
///
/// # Errors
/// See the variants of [`Error`].
pub(in crate::source) async fn pull(
    client: &Client,
    namespace: &str,
    artifact: &Artifact,
    credentials: &Credentials,
    known: &Validators,
    (tokens, id): (&Tokens, &str),
) -> Result<Answer, Error> {
    let known = known.etag.as_deref();
    if matches!(&artifact.wanted, Wanted::Digest(digest) if known == Some(digest)) {
        return Ok(Answer::Unchanged);
    }
    let authorization = tokens.get(id, Instant::now());
    let mut pull =
        Pull { client, namespace, artifact, credentials, tokens, id, authorization, inside: false };
    let answer = client.within(artifact, pull.answer(known)).await;
    if pull.inside { withhold(artifact, answer) } else { answer }
}

struct Pull<'a> {
    client: &'a Client,
    namespace: &'a str,
    artifact: &'a Artifact,
    credentials: &'a Credentials,
    tokens: &'a Tokens,
    id: &'a str,
    /// What the registry was shown last, and wants to see again.
    authorization: Option<HeaderValue>,
    /// A private address was asked.
    inside: bool,
}

impl Pull<'_> {
    async fn answer(&mut self, known: Option<&str>) -> Result<Answer, Error> {
        let digest = self.resolved().await?;
        if known == Some(&*digest) {
            return Ok(Answer::Unchanged);
        }
        let blob = match self.manifest(&digest).await? {
            Found::Blob(blob) => blob,
            Found::AnyOf(some) => self.first_of(&some).await?,
        };
        let bytes = self.blob(&blob).await?;
        Ok(Answer::Fetched { bytes, validators: Validators { etag: Some(digest), last_modified: None } })
    }

    /// The digest of the manifest that the reference stands for now.
    async fn resolved(&mut self) -> Result<String, Error> {
        let tag = match &self.artifact.wanted {
            Wanted::Digest(digest) => return Ok(digest.clone()),
            Wanted::Tag(tag) => tag.clone(),
            Wanted::Range(range) => self.newest(range).await?,
        };
        let url = self.url(&format!("manifests/{tag}"))?;
        let reply = self.ask(Method::HEAD, &url, manifest::ACCEPTED, "manifest", MANIFEST).await?;
        let said = reply.headers.get(DIGEST).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match (self.checked(reply), said) {
            (Ok(_), Some(said)) if is_sha256(&said) => Ok(said),
            (Err(error), _) if !matches!(error, Error::Status { status: 405 | 501, .. }) => Err(error),
            _ => {
                // Not all registries answer so to a HEAD.
                let reply = self.ask(Method::GET, &url, manifest::ACCEPTED, "manifest", MANIFEST).await?;
                Ok(digest(&self.checked(reply)?.bytes))
            }
        }
    }

    /// The newest tag in a range.
    async fn newest(&mut self, range: &str) -> Result<String, Error> {
        let tags = self.tags().await?;
        let chosen = versions::choose(Some(range), tags.iter().map(String::as_str));
        match chosen {
            Ok(tag) => Ok(tag.to_owned()),
            Err(why) => Err(Error::NoVersion { what: self.artifact.to_string(), why: why.to_string() }),
        }
    }

    async fn tags(&mut self) -> Result<Vec<String>, Error> {
        let first = self.url("tags/list?n=1000")?;
        let (mut url, mut tags) = (first.clone(), Vec::new());
        for _ in 0..PAGES {
            let reply = self.ask(Method::GET, &url, "application/json", "list of tags", PAGE).await?;
            let reply = self.checked(reply)?;
            let page: TagList = serde_json::from_slice(&reply.bytes)
                .map_err(|error| self.unsupported(format!("its list of tags is damaged: {error}")))?;
            tags.extend_from_slice(page.tags());
            if tags.len() > TAGS {
                break;
            }
            match next_page(&url, &reply)? {
                // Its link leads elsewhere: credentials are not for there.
                Some(next) if !first.trusts(&next) => {
                    let why = format!("its list of tags goes on at {next}, another host");
                    return Err(Error::Redirect { url: first.to_string(), why });
                }
                Some(next) => url = next,
                None => return Ok(tags),
            }
        }
        Err(self.unsupported(format!("it has more than {TAGS} tags: name one in spec.pack.oci.tag")))
    }

    async fn manifest(&mut self, wanted: &str) -> Result<Found, Error> {
        let url = self.url(&format!("manifests/{wanted}"))?;
        let reply = self.ask(Method::GET, &url, manifest::ACCEPTED, "manifest", MANIFEST).await?;
        let reply = self.checked(reply)?;
        same(&url, wanted, &reply.bytes)?;
        manifest::read(&reply.headers, &reply.bytes).map_err(|why| self.unsupported(why))
    }

    /// The archive of the first manifest that has one.
    async fn first_of(&mut self, manifests: &[Blob]) -> Result<Blob, Error> {
        for manifest in manifests {
            match self.manifest(&manifest.digest).await {
                Ok(Found::Blob(blob)) => return Ok(blob),
                Ok(Found::AnyOf(_)) | Err(Error::Artifact { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.unsupported("no manifest of its index has a pack or chart".to_owned()))
    }

    async fn blob(&mut self, blob: &Blob) -> Result<Vec<u8>, Error> {
        let Blob { digest: wanted, size } = blob;
        let url = self.url(&format!("blobs/{wanted}"))?;
        let limit = self.client.archive_limit();
        if *size > limit {
            let error = pack::Error::TooLarge { what: "archive", limit };
            return Err(Error::Pack { what: self.artifact.to_string(), error });
        }
        let corrupt =
            |found: String| Error::Corrupt { url: url.to_string(), wanted: format!("{size} bytes"), found };
        let reply = match self.ask(Method::GET, &url, "*/*", "archive", *size).await {
            Err(Error::Pack { error: pack::Error::TooLarge { .. }, .. }) => {
                return Err(corrupt("more bytes".to_owned()));
            }
            other => self.checked(other?)?,
        };
        if reply.bytes.len() as u64 != *size {
            return Err(corrupt(format!("{} bytes", reply.bytes.len())));
        }
        same(&url, wanted, &reply.bytes)?;
        Ok(reply.bytes)
    }

    /// One request, once more with a token if the registry wants one.
    async fn ask(
        &mut self,
        method: Method,
        url: &Url,
        accept: &str,
        what: &'static str,
        limit: u64,
    ) -> Result<Reply, Error> {
        let mut asked = false;
        loop {
            let authorization = self.authorization.clone();
            let call = Call {
                method: method.clone(),
                accept,
                authorization: authorization.as_ref(),
                what,
                limit,
                ..self.client.call(self.namespace, url, self.credentials)
            };
            let reply = self.client.send(&call, &mut self.inside).await?;
            // What another host asks for, to which a redirect led, is not for it to know.
            if reply.status != StatusCode::UNAUTHORIZED || !reply.own || asked {
                return Ok(reply);
            }
            asked = true;
            match challenge(&reply.headers) {
                Some(Challenge::Basic) if authorization.is_none() => {
                    self.authorization.clone_from(&self.credentials.authorization);
                }
                Some(Challenge::Bearer { realm, service, scope }) if !self.has_bearer() => {
                    let scope = scope.unwrap_or_else(|| self.artifact.scope());
                    self.authorization = Some(self.token(url, &realm, service.as_deref(), &scope).await?);
                }
                Some(Challenge::Bearer { .. }) if authorization.is_none() => {
                    self.authorization.clone_from(&self.credentials.authorization);
                }
                _ => return Ok(reply),
            }
        }
    }

    /// The Secret has a token of its own.
    fn has_bearer(&self) -> bool {
        let bearer = |value: &HeaderValue| value.as_bytes().starts_with(b"Bearer ");
        self.credentials.authorization.as_ref().is_some_and(bearer)
    }

    /// Asks a token server, which learns who asks.
    async fn token(
        &mut self,
        registry: &Url,
        realm: &str,
        service: Option<&str>,
        scope: &str,
    ) -> Result<HeaderValue, Error> {
        let refused = |why: String| Error::Redirect { url: registry.to_string(), why };
        let url = token_url(realm, service, scope)
            .map_err(|why| refused(format!("it names a token server that is refused: {why}")))?;
        if registry.is_https() && !url.is_https() {
            return Err(refused(format!("it names the token server {url}, and https is not left for it")));
        }
        let call = Call {
            accept: "application/json",
            authorization: self.credentials.authorization.as_ref(),
            what: "token",
            limit: TOKEN,
            ..self.client.call(self.namespace, &url, self.credentials)
        };
        let reply = self.client.send(&call, &mut self.inside).await?;
        let reply = reply.checked(&url, self.credentials, SECRET)?;
        let now = Instant::now();
        let answer = serde_json::from_slice::<tokens::Answer>(&reply.bytes).ok();
        let token = answer.and_then(|answer| answer.token(now)).ok_or_else(|| {
            let message = "the token server answers without a token".to_owned();
            Error::Unreachable { url: url.to_string(), message }
        })?;
        self.tokens.put(self.id, token.clone());
        Ok(token.authorization)
    }

    fn checked(&self, reply: Reply) -> Result<Reply, Error> {
        reply.checked(self.artifact, self.credentials, SECRET)
    }

    fn unsupported(&self, why: String) -> Error {
        Error::Artifact { what: self.artifact.to_string(), why }
    }

    fn url(&self, rest: &str) -> Result<Url, Error> {
        let invalid = |why| Error::Invalid { what: "spec.pack.oci.repository".to_owned(), why };
        self.artifact.url(rest).map_err(invalid)
    }
}

/// Whether bytes are what their digest stands for.
fn same(url: &Url, wanted: &str, bytes: &[u8]) -> Result<(), Error> {
    let found = digest(bytes);
    if found == wanted {
        return Ok(());
    }
    Err(Error::Corrupt { url: url.to_string(), wanted: wanted.to_owned(), found })
}

fn is_sha256(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Where a list goes on: `Link: <…>; rel="next"`.
fn next_page(url: &Url, reply: &Reply) -> Result<Option<Url>, Error> {
    let link = reply.headers.get(http::header::LINK).and_then(|value| value.to_str().ok());
    let Some(link) = link.filter(|link| link.contains("rel=\"next\"") || link.contains("rel=next")) else {
        return Ok(None);
    };
    let target = link.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(target, _)| target);
    let refused = |why: String| Error::Redirect { url: url.to_string(), why };
    let target = target.ok_or_else(|| refused("its list of tags goes on at what is no link".to_owned()))?;
    url.join(target)
        .map(Some)
        .map_err(|why| refused(format!("its list of tags goes on at a URL that is refused: {why}")))
}
