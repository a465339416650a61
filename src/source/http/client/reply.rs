//! What a server answered that is no redirect: its status, its head and its body.

use std::fmt::Display;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::{Answer, Call, Client, PIECE, describe, unreachable};
use crate::pack;
use crate::source::Error;
use crate::source::http::{Credentials, Permit, Validators};

/// Validators longer than this are not kept.
const VALIDATOR: usize = 1024;
/// A server may not ask for a longer pause than this.
const PAUSE_MAX: Duration = Duration::from_mins(60);

/// The share of memory that a body takes, as long as this is held.
pub(in crate::source) type Room = Vec<Option<Permit>>;

/// The bytes of a body, and their share of memory.
type Body = (Vec<u8>, Room);

/// An answer.
pub(in crate::source) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body of a GET that succeeded; empty for everything else.
    pub bytes: Vec<u8>,
    /// It comes from where the request was sent, and not from where a redirect led.
    pub own: bool,
    /// The share of memory that the body takes.
    pub room: Room,
}

impl Reply {
    /// What tells this content from the next.
    pub(in crate::source) fn validators(&self) -> Validators {
        Validators {
            etag: validator(&self.headers, ETAG),
            last_modified: validator(&self.headers, LAST_MODIFIED),
            of: None,
        }
    }

    /// The answer, if it is a success; else what that means. `field` is where a release names the Secret.
    pub(in crate::source) fn checked(
        self,
        what: &dyn Display,
        credentials: &Credentials,
        field: &str,
    ) -> Result<Self, Error> {
        let url = what.to_string();
        let status = self.status.as_u16();
        let wait = pause(&self.headers, Timestamp::now());
        let cure = || {
            if credentials.identify() {
                format!("check the credentials in the Secret of {field}")
            } else {
                format!("put credentials into a Secret and name it in {field}")
            }
        };
        match self.status {
            StatusCode::OK => Ok(self),
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(Error::NotFound { what: url }),
            StatusCode::UNAUTHORIZED => Err(Error::Unauthorized { url, status, cure: cure() }),
            StatusCode::FORBIDDEN => Err(Error::Denied { url, cure: cure() }),
            StatusCode::TOO_MANY_REQUESTS => Err(Error::Throttled { url, wait }),
            _ => Err(Error::Status { url, status, wait }),
        }
    }
}

fn validator(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    (value.len() <= VALIDATOR).then(|| value.to_owned())
}

/// How long a server wants to be left alone: `Retry-After` in seconds or as a date.
fn pause(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = DateTimeParser::new().parse_timestamp(text).ok()?;
            Duration::try_from(until.duration_since(now)).ok()?
        }
    };
    Some(pause.min(PAUSE_MAX)).filter(|pause| !pause.is_zero())
}

impl Client {
    /// `own`: no redirect led to another host.
    pub(super) async fn reply(
        &self,
        call: &Call<'_>,
        own: bool,
        response: Response<Incoming>,
    ) -> Result<Reply, Error> {
        let (status, headers) = (response.status(), response.headers().clone());
        let wanted = status == StatusCode::OK && call.method == Method::GET;
        let (bytes, room) = if wanted { self.body(call, response).await? } else { Default::default() };
        Ok(Reply { status, headers, bytes, own, room })
    }

    async fn body(&self, call: &Call<'_>, response: Response<Incoming>) -> Result<Body, Error> {
        let Call { namespace, url, what, limit, .. } = call;
        let too_large =
            || Error::Pack { what: url.to_string(), error: pack::Error::TooLarge { what, limit: *limit } };
        let length =
            response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > *limit) {
            return Err(too_large());
        }
        let mut room = Vec::new();
        let mut bytes = Vec::new();
        let mut body = response.into_body();
        loop {
            let frame = match tokio::time::timeout(self.timing.idle, body.frame()).await {
                Ok(None) => return Ok((bytes, room)),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(unreachable(url, format!("the answer broke off: {}", describe(&error))));
                }
                Err(_) => {
                    let message = format!("the answer came to a halt for {:?}", self.timing.idle);
                    return Err(unreachable(url, message));
                }
            };
            let Some(data) = frame.data_ref() else { continue };
            if (bytes.len() + data.len()) as u64 > *limit {
                return Err(too_large());
            }
            while bytes.len() + data.len() > room.len() * PIECE {
                // A fetch that waits here holds room that other fetches wait for, so it does not wait for long.
                match tokio::time::timeout(self.timing.idle, self.pieces.acquire(namespace, 1)).await {
                    Ok(piece) => room.push(piece),
                    Err(_) => {
                        let message = "too many other packs are being fetched".to_owned();
                        return Err(unreachable(url, message));
                    }
                }
            }
            bytes.extend_from_slice(data);
        }
    }
}

/// How an archive begins: with the mark of gzip.
const ARCHIVE: [u8; 2] = [0x1f, 0x8b];

/// What is told of an answer from inside of the network: an archive, or that there is none. Everything else would make the
/// operator a scanner of what its releases' authors cannot reach.
pub(in crate::source) fn withhold(url: &dyn Display, answer: Result<Answer, Error>) -> Result<Answer, Error> {
    match answer {
        Ok(Answer::Fetched { bytes, .. }) if !bytes.starts_with(&ARCHIVE) => {
            let cause = format!("{url} cannot be fetched: the server answers with what is no archive");
            Err(Error::Withheld { url: url.to_string(), cause, wait: None })
        }
        // It tells of what was an archive or the manifest of one.
        Ok(_) | Err(Error::Signature { .. }) => answer,
        Err(error) => Err(error.withheld(url)),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_server_says_in_seconds_or_by_a_date_how_long_it_wants_to_be_left_alone() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("86400", Some(3600)),
            ("0", None),
            ("Sun, 01 Mar 2026 12:00:30 GMT", Some(30)),
            ("Sun, 01 Mar 2026 11:59:30 GMT", None),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(pause(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(pause(&HeaderMap::new(), now), None);
    }
}
