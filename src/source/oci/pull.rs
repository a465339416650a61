//! One pull: from a reference to the bytes of its archive.

use std::sync::Arc;
use std::time::Instant;

use http::header::{HeaderMap, LINK};
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;

use super::artifact::{Artifact, Wanted};
use super::challenge::{Challenge, challenge, token_url};
use super::manifest::{self, Found};
use super::tokens::{self, Tokens};
use crate::api::is_digest;
use crate::pack;
use crate::source::Error;
use crate::source::blob::Blob;
use crate::source::cache::digest;
use crate::source::http::{Answer, Call, Client, Credentials, Reply, Url, Validators, withhold};
use crate::source::signature::Keys;
use crate::source::versions;

/// Where a release names the Secret.
const SECRET: &str = "spec.pack.oci.secretRef";
/// Bytes of a manifest: what registries take themselves.
pub(super) const MANIFEST: u64 = 4 << 20;
/// Bytes of a token server's answer.
const TOKEN: u64 = 64 << 10;
/// Pages of tags, their bytes together, and the tags on all of them. Some registries give a hundred on each page.
const PAGES: usize = 250;
const PAGE: u64 = 4 << 20;
const TAGS: usize = 20_000;
/// Characters of a tag, by the distribution specification.
const TAG: usize = 128;
pub(super) const DIGEST: &str = "docker-content-digest";

/// Pulls the archive of an artifact, on behalf of a release in `namespace`; `Unchanged` if its manifest is the known one, whose
/// digest is the `ETag` of the validators. With keys one of them has to have signed that manifest, as it had when it became the
/// known one. `tokens` are kept for the source that is called `id`.
///
/// # Errors
/// See the variants of [`Error`].
pub(in crate::source) async fn pull(
    client: &Client,
    namespace: &str,
    artifact: &Artifact,
    (credentials, keys): (&Credentials, Option<&Arc<Keys>>),
    known: &Validators,
    (tokens, id): (&Tokens, &str),
) -> Result<Answer, Error> {
    let known = known.etag.as_deref();
    if matches!(&artifact.wanted, Wanted::Digest(digest) if known == Some(digest)) {
        return Ok(Answer::Unchanged);
    }
    let authorization = tokens.get(id, Instant::now());
    let mut pull =
        Pull { client, namespace, artifact, credentials, keys, tokens, id, authorization, inside: false };
    let answer = client.within(artifact, pull.answer(known)).await;
    if pull.inside { withhold(artifact, answer) } else { answer }
}

/// A page of a list of tags. Without any tag some registries write null.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

pub(super) struct Pull<'a> {
    client: &'a Client,
    namespace: &'a str,
    pub(super) artifact: &'a Artifact,
    credentials: &'a Credentials,
    /// One of them has to have signed the manifest.
    keys: Option<&'a Arc<Keys>>,
    tokens: &'a Tokens,
    id: &'a str,
    /// What the registry was shown last, and wants to see again.
    authorization: Option<HeaderValue>,
    /// A private address was asked.
    inside: bool,
}

impl<'a> Pull<'a> {
    /// For a command of a user, which serves no namespace.
    pub(super) fn of_command(
        client: &'a Client,
        artifact: &'a Artifact,
        credentials: &'a Credentials,
        tokens: &'a Tokens,
    ) -> Self {
        let (namespace, id) = ("", "");
        Self {
            client,
            namespace,
            artifact,
            credentials,
            keys: None,
            tokens,
            id,
            authorization: None,
            inside: false,
        }
    }

    pub(super) fn call<'c>(&self, url: &'c Url) -> Call<'c>
    where
        'a: 'c,
    {
        self.client.call(self.namespace, url, self.credentials)
    }
}

impl Pull<'_> {
    async fn answer(&mut self, known: Option<&str>) -> Result<Answer, Error> {
        let digest = self.resolved().await?;
        if known == Some(&*digest) {
            return Ok(Answer::Unchanged);
        }
        let manifest = self.manifest(&digest).await?;
        // What the server has beside it is only looked at and told of if it is a registry with a pack.
        let found = self.found(&manifest)?;
        if let Some(keys) = self.keys {
            // Everything else is named by a digest in it, or in what it names.
            self.signed(keys, &digest, &manifest.bytes).await?;
        }
        let blob = match found {
            Found::Blob(blob) => blob,
            Found::AnyOf(some) => self.first_of(&some).await?,
        };
        let bytes = self.blob(&blob).await?;
        Ok(Answer::Fetched { bytes, validators: Validators { etag: Some(digest), ..Validators::default() } })
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
            (Ok(_), Some(said)) if is_digest(&said) => Ok(said),
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

    /// All tags that stand for a version.
    pub(super) async fn tags(&mut self) -> Result<Vec<String>, Error> {
        let too_many = |what: String| {
            let why = format!("it has more than {what} of tags: name one in spec.pack.oci.tag");
            Error::NoVersion { what: self.artifact.to_string(), why }
        };
        let (too_long, too_many) =
            (too_many(format!("{PAGE} bytes")), too_many(format!("{TAGS}, or {PAGES} pages")));
        let mut url = self.url("tags/list?n=1000")?;
        let (mut visited, mut tags, mut left) = (Vec::new(), Vec::new(), PAGE);
        while visited.len() < PAGES {
            let reply = match self.ask(Method::GET, &url, "application/json", "list of tags", left).await {
                Err(Error::Pack { error: pack::Error::TooLarge { .. }, .. }) => return Err(too_long),
                other => self.checked(other?)?,
            };
            left = left.saturating_sub(reply.bytes.len() as u64);
            let page: Page = serde_json::from_slice(&reply.bytes).map_err(|error| Error::Unreachable {
                url: url.to_string(),
                message: format!("its list of tags is damaged: {error}"),
            })?;
            let usable = |tag: &String| tag.len() <= TAG && versions::version_of_tag(tag).is_some();
            tags.extend(page.tags.unwrap_or_default().into_iter().filter(usable));
            if tags.len() > TAGS {
                return Err(too_many);
            }
            let Some(next) = next_page(&url, &reply.headers)? else { return Ok(tags) };
            visited.push(std::mem::replace(&mut url, next));
            if visited.contains(&url) {
                let why = "its list of tags goes on in a loop".to_owned();
                return Err(Error::Redirect { url: url.to_string(), why });
            }
        }
        Err(too_many)
    }

    async fn manifest(&mut self, wanted: &str) -> Result<Reply, Error> {
        let url = self.url(&format!("manifests/{wanted}"))?;
        let reply = self.ask(Method::GET, &url, manifest::ACCEPTED, "manifest", MANIFEST).await?;
        let reply = reply.checked(&url, self.credentials, SECRET)?;
        same(&url, wanted, &reply.bytes)?;
        Ok(reply)
    }

    fn found(&self, manifest: &Reply) -> Result<Found, Error> {
        manifest::read(&manifest.headers, &manifest.bytes).map_err(|why| self.unsupported(why))
    }

    /// The archive of the first manifest that has one.
    async fn first_of(&mut self, manifests: &[Blob]) -> Result<Blob, Error> {
        for manifest in manifests {
            let manifest = self.manifest(&manifest.digest).await?;
            match self.found(&manifest) {
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
            other => other?.checked(&url, self.credentials, SECRET)?,
        };
        if reply.bytes.len() as u64 != *size {
            return Err(corrupt(format!("{} bytes", reply.bytes.len())));
        }
        same(&url, wanted, &reply.bytes)?;
        Ok(reply.bytes)
    }

    /// One request, once more with a token if the registry wants one.
    pub(super) async fn ask(
        &mut self,
        method: Method,
        url: &Url,
        accept: &str,
        what: &'static str,
        limit: u64,
    ) -> Result<Reply, Error> {
        // A blob is the last that is asked for.
        let registry = self.url("")?;
        let onward = (what != "archive").then_some(&registry);
        let call = Call { method, accept, what, limit, onward, ..self.call(url) };
        self.send(&call, None).await
    }

    /// The same with any request. `scope` is what a token has to be good for, whatever the registry says.
    pub(super) async fn send(&mut self, call: &Call<'_>, scope: Option<&str>) -> Result<Reply, Error> {
        let mut asked = false;
        loop {
            let authorization = self.authorization.clone();
            let call = Call { authorization: authorization.as_ref(), ..call.clone() };
            let reply = self.client.send(&call, &mut self.inside).await?;
            // What another host asks for, to which a redirect led, is not for it to know.
            if reply.status != StatusCode::UNAUTHORIZED || !reply.own || asked {
                return Ok(reply);
            }
            asked = true;
            match challenge(&reply.headers) {
                Some(Challenge::Basic) if authorization != self.credentials.authorization => {
                    self.authorization.clone_from(&self.credentials.authorization);
                }
                Some(Challenge::Bearer { realm, service, scope: said }) if !self.has_bearer() => {
                    let scope = scope.map(str::to_owned).or(said).unwrap_or_else(|| self.artifact.scope());
                    self.authorization =
                        Some(self.token(call.url, &realm, service.as_deref(), &scope).await?);
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
            onward: Some(registry),
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

    pub(super) fn checked(&self, reply: Reply) -> Result<Reply, Error> {
        reply.checked(self.artifact, self.credentials, SECRET)
    }

    fn unsupported(&self, why: String) -> Error {
        Error::Artifact { what: self.artifact.to_string(), why }
    }

    pub(super) fn url(&self, rest: &str) -> Result<Url, Error> {
        let invalid = |why| Error::Invalid { what: "spec.pack.oci".to_owned(), why };
        self.artifact.url(rest).map_err(invalid)
    }
}

/// Whether bytes are what their digest stands for.
pub(super) fn same(url: &Url, wanted: &str, bytes: &[u8]) -> Result<(), Error> {
    let found = digest(bytes);
    if found == wanted {
        return Ok(());
    }
    Err(Error::Corrupt { url: url.to_string(), wanted: wanted.to_owned(), found })
}

/// Where a list goes on: `Link: <…>; rel="next"`, on the same host.
pub(super) fn next_page(url: &Url, headers: &HeaderMap) -> Result<Option<Url>, Error> {
    let texts = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let links = texts.flat_map(|text| text.split(',')).filter_map(|link| link.trim().split_once('>'));
    let is_next = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"').eq_ignore_ascii_case("next")
    };
    let mut next = links.filter(|(_, parameters)| parameters.split(';').any(is_next));
    let Some((target, _)) = next.next() else { return Ok(None) };
    let refused = |why: String| Error::Redirect { url: url.to_string(), why };
    let found = url
        .join(target.trim_start_matches('<'))
        .map_err(|why| refused(format!("its list goes on at a URL that is refused: {why}")))?;
    if url.trusts(&found) {
        Ok(Some(found))
    } else {
        // Credentials are not for there.
        Err(refused(format!("its list goes on at {found}: another host, port or scheme")))
    }
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
