//! One request for an archive, or for what leads to one: bounded in size, time and redirects.

mod connect;
mod reply;
mod request;

use std::fmt::Display;
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

pub(super) use self::connect::Wire;
use self::connect::{Connected, Place};
pub(in crate::source) use self::reply::{Reply, Room, withhold};
pub(in crate::source) use self::request::Sent;
use super::Options;
use super::address::Allowed;
use super::credentials::Credentials;
use super::fair::Fair;
use super::proxy::Rules;
use super::resolve::Resolver;
use super::tls::{self, Trust};
use super::url::Url;
use super::walls::{Reach, Walls};
use crate::pack::Limits;
use crate::source::Error;
use crate::source::validators::Validators;

/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// Bytes of an answer's head.
const HEAD: usize = 64 << 10;

/// What is held in memory of archives and indexes under way, in pieces: 96 MiB. One namespace may have 52 MiB of it, room for the
/// largest index. Each attempt that is made at the same time has room for one piece, whatever the others do.
const PIECE: usize = 128 << 10;
const PIECES: u32 = 768;
const PIECES_EACH: u32 = 416;

/// Where a release names the Secret for an archive behind a URL.
pub(in crate::source) const HTTP_SECRET: &str = "spec.pack.http.secretRef";

/// How long each part of a fetch may take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// One TCP connection.
    pub connect: Duration,
    /// TLS, or a tunnel through a proxy.
    pub handshake: Duration,
    /// From the request to the head of the answer.
    pub head: Duration,
    /// From one piece of the body to the next.
    pub idle: Duration,
    /// Everything together, redirects too.
    pub total: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let [five, ten, fifteen] = [5, 10, 15].map(Duration::from_secs);
        Self { connect: five, handshake: ten, head: fifteen, idle: fifteen, total: Duration::from_secs(90) }
    }
}

/// How a fetch ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server still has what the validators stand for.
    Unchanged,
    /// These bytes, as they were served.
    Fetched { bytes: Vec<u8>, validators: Validators },
}

/// One request.
#[derive(Clone)]
pub(in crate::source) struct Call<'a> {
    /// That of the release for which it is made.
    pub namespace: &'a str,
    pub url: &'a Url,
    pub method: Method,
    /// Media types, as the header has them.
    pub accept: &'a str,
    /// Whose certificates are trusted and shown.
    pub credentials: &'a Credentials,
    /// Value of `Authorization`: for the host of `url` only.
    pub authorization: Option<&'a HeaderValue>,
    pub known: &'a Validators,
    /// The server on whose word further requests are made after this one. An address of the inside that is not its own is not asked
    /// then: by what it does next, the operator would tell that server what is there.
    pub onward: Option<&'a Url>,
    /// Flux's source-controller may be asked.
    pub flux: bool,
    /// What it carries.
    pub sends: Option<&'a Sent>,
    /// What the body is called, and how many bytes it may have.
    pub what: &'static str,
    pub limit: u64,
}

impl Call<'_> {
    fn walls<'a>(&self, client: &'a Client) -> &'a Walls {
        if self.flux { &client.flux } else { &client.walls }
    }
}

const NOTHING: Validators = Validators { etag: None, last_modified: None, of: None };

/// Fetches archives. Holds no connection between two fetches.
pub struct Client {
    pub(super) walls: Walls,
    /// The walls with a door to Flux's source-controller.
    flux: Walls,
    source_controller: Option<Allowed>,
    pub(super) proxies: Rules,
    pub(super) resolver: Resolver,
    pub(super) trust: Trust,
    pub(super) timing: Timing,
    pieces: Fair,
    /// Bytes of an archive.
    limit: u64,
}

impl Client {
    #[must_use]
    pub fn new(options: &Options, timing: Timing, limits: &Limits) -> Self {
        let mut with_flux = options.allow.clone();
        with_flux.extend(options.source_controller.clone());
        Self {
            walls: Walls::new(&options.allow, options.deny_private, &options.services),
            flux: Walls::new(&with_flux, options.deny_private, &options.services),
            source_controller: options.source_controller.clone(),
            proxies: Rules::new(&options.proxies),
            resolver: Resolver::new(),
            trust: Trust::default(),
            timing,
            pieces: Fair::new(PIECES, PIECES_EACH),
            limit: limits.compressed,
        }
    }

    /// Fetches what is at `url`, on behalf of a release in `namespace`.
    ///
    /// Credentials go to the host of `url` only, and never from HTTPS to HTTP. A content encoding is not undone: the
    /// digest of an archive is that of the bytes as they are served.
    ///
    /// # Errors
    /// See the variants of [`Error`].
    pub async fn get(
        &self,
        namespace: &str,
        url: &Url,
        credentials: &Credentials,
        known: &Validators,
    ) -> Result<Answer, Error> {
        let authorization = credentials.authorization.as_ref();
        let call = Call { authorization, known, ..self.call(namespace, url, credentials) };
        self.get_by(&call).await
    }

    /// Fetches an artifact of a Flux source. Where private addresses are denied, it has to come from Flux's source-controller: who
    /// may write the status of a source may write any URL there. And what comes from there has to be below the path `of` the source:
    /// source-controller gives everything to the operator, also what the author of the release may not have.
    /// It is asked for when its digest is not known, and replaced in place: nothing that is known of it would help.
    ///
    /// # Errors
    /// See the variants of [`Error`].
    pub(in crate::source) async fn get_artifact(
        &self,
        namespace: &str,
        url: &Url,
        of: &str,
    ) -> Result<Answer, Error> {
        let named = self.source_controller.as_ref();
        let named = named.is_some_and(|named| named.covers(url.host(), url.port()));
        if (named || self.flux.deny_private()) && !is_below(url, of) {
            let why = "the source-controller or like it, and the URL is not that of this source's own artifact there";
            return Err(Error::Forbidden { url: url.to_string(), host: url.host().to_owned(), why });
        }
        if self.flux.deny_private() && !self.flux.allow(url.host(), url.port()) {
            let why = "not the source-controller that the operator's flag --source-controller names";
            return Err(Error::Forbidden { url: url.to_string(), host: url.host().to_owned(), why });
        }
        let nobody = Credentials::default();
        let call = Call { flux: true, ..self.call(namespace, url, &nobody) };
        self.get_by(&call).await
    }

    async fn get_by(&self, call: &Call<'_>) -> Result<Answer, Error> {
        let mut inside = false;
        let answer = self.answer(call, &mut inside).await.map(|(answer, _)| answer);
        if inside { withhold(call.url, answer) } else { answer }
    }

    /// One request for an archive, and the share of memory that it takes.
    pub(in crate::source) async fn answer(
        &self,
        call: &Call<'_>,
        inside: &mut bool,
    ) -> Result<(Answer, Room), Error> {
        let Call { url, known, credentials, .. } = *call;
        let asked = async {
            let reply = self.send(call, inside).await?;
            if reply.status == StatusCode::NOT_MODIFIED && *known != Validators::default() {
                return Ok((Answer::Unchanged, reply.room));
            }
            let field = if call.flux { "spec.pack.artifact" } else { HTTP_SECRET };
            let reply = reply.checked(url, credentials, field)?;
            let validators = reply.validators();
            Ok((Answer::Fetched { bytes: reply.bytes, validators }, reply.room))
        };
        self.within(url, asked).await
    }

    /// Bytes that an archive may have.
    pub(in crate::source) fn archive_limit(&self) -> u64 {
        self.limit
    }

    /// A GET of at most an archive's bytes, without credentials but for certificates.
    pub(in crate::source) fn call<'a>(
        &self,
        namespace: &'a str,
        url: &'a Url,
        credentials: &'a Credentials,
    ) -> Call<'a> {
        let (what, limit) = ("archive", self.limit);
        let (accept, authorization, known) = ("*/*", None, &NOTHING);
        let (method, onward, flux, sends) = (Method::GET, None, false, None);
        Call {
            namespace,
            url,
            method,
            accept,
            credentials,
            authorization,
            known,
            onward,
            flux,
            sends,
            what,
            limit,
        }
    }

    /// The same, unless it takes too long altogether.
    pub(in crate::source) async fn within<T>(
        &self,
        what: &(dyn Display + Sync),
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(self.timing.total, work).await {
            Ok(result) => result,
            Err(_) => Err(unreachable(what, format!("it took longer than {:?}", self.timing.total))),
        }
    }

    /// Makes a request and follows its redirects. `inside` is set when a private address is asked.
    pub(in crate::source) async fn send(&self, call: &Call<'_>, inside: &mut bool) -> Result<Reply, Error> {
        let url = call.url;
        let refused = |why: String| Error::Redirect { url: url.to_string(), why };
        let identifies = call.authorization.is_some() || call.credentials.client.is_some();
        let mut visited = vec![url.clone()];
        let mut at = url.clone();
        // Once a redirect has led to another host, what that one says is not a reason to show credentials again.
        let mut identify = true;
        loop {
            let on_the_way = |error: Error| error.on_the_way_from(url, &at);
            let place = self.place(call.walls(self), call.namespace, &at).await.map_err(on_the_way)?;
            *inside |= place.reach == Reach::Private;
            if place.reach == Reach::Private && call.onward.is_some_and(|server| !server.trusts(&at)) {
                let why = "a private address, and another server leads there";
                return Err(Error::Forbidden { url: url.to_string(), host: at.host().to_owned(), why });
            }
            let exchange = self.exchange(call, &at, place, identify).await;
            let (response, _driver) = exchange.map_err(on_the_way)?;
            let location = match response.status() {
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => response.headers().get(LOCATION),
                _ => None,
            };
            let Some(location) = location else {
                return self.reply(call, identify, response).await;
            };
            if let Some(why) = call.stays() {
                return Err(refused(why.to_owned()));
            }
            let location =
                location.to_str().map_err(|_| refused("it redirects to what is no URL".to_owned()))?;
            let next = at
                .join(location)
                .map_err(|why| refused(format!("it redirects to a URL that is refused: {why}")))?;
            if visited.contains(&next) {
                return Err(refused(format!("it redirects in a loop, back to {next}")));
            }
            if visited.len() > REDIRECTS {
                return Err(refused(format!("it redirects more than {REDIRECTS} times")));
            }
            if at.is_https() && !next.is_https() && identifies {
                return Err(refused(format!(
                    "it redirects from https to {next}, and that is not followed with credentials"
                )));
            }
            identify = identify && at.trusts(&next);
            visited.push(next.clone());
            at = next;
        }
    }

    async fn exchange(
        &self,
        call: &Call<'_>,
        url: &Url,
        place: Place,
        identify: bool,
    ) -> Result<(Response<Incoming>, Driver), Error> {
        let credentials = call.credentials;
        let connected = self.connect(call.namespace, url, place, credentials, identify).await?;
        let Connected { wire, forwarding } = connected;
        let failed = |error: hyper::Error| match tls::cause(&error) {
            Some(cause) => Error::Tls { url: url.to_string(), message: tls::explain(cause, credentials) },
            None => unreachable(url, describe(&error)),
        };
        let mut connection = http1::Builder::new();
        connection.max_buf_size(HEAD);
        let (mut sender, driver) = connection.handshake(TokioIo::new(wire)).await.map_err(failed)?;
        let driver = Driver(tokio::spawn(driver));
        let request = call.request(url, forwarding, identify);
        match tokio::time::timeout(self.timing.head, sender.send_request(request)).await {
            Ok(response) => Ok((response.map_err(failed)?, driver)),
            Err(_) => Err(unreachable(url, format!("no answer within {:?}", self.timing.head))),
        }
    }
}

impl Error {
    /// Says which redirect an error happened at.
    fn on_the_way_from(self, start: &Url, at: &Url) -> Self {
        if start == at {
            return self;
        }
        let redirected = |url: String| format!("{start} (redirected to {url})");
        match self {
            Self::Unreachable { url, message } => Self::Unreachable { url: redirected(url), message },
            Self::Tls { url, message } => Self::Tls { url: redirected(url), message },
            Self::Forbidden { url, host, why } => Self::Forbidden { url: redirected(url), host, why },
            other => other,
        }
    }
}

/// Moves the bytes of one connection as long as it is wanted.
struct Driver(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn unreachable(url: &dyn Display, message: String) -> Error {
    Error::Unreachable { url: url.to_string(), message }
}

/// Whether a URL is below a path, however the server reads it.
fn is_below(url: &Url, path: &str) -> bool {
    let target = url.target();
    target.starts_with(path)
        && !target.contains(['%', '\\'])
        && !target.split(['/', '?']).any(|part| part == "..")
}

/// An error with its causes.
fn describe(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
