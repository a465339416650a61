//! The client of another account: the same connections, another name in each request.
//!
//! Authentication stays the operator's own; the API server checks that the operator may impersonate and then judges
//! the request as that user's. A derived client is a header and a queue on top of the one client, so it opens nothing
//! and costs nothing while it is idle, and deadline, retries and counts are those of the one client.

use std::fmt::Write as _;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use kube::client::Body;
use kube::{Client, Config};
use tower::{BoxError, ServiceExt, service_fn};

use super::{Call, Transport};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

const IMPERSONATE_UID: HeaderName = HeaderName::from_static("impersonate-uid");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

type Headers = Arc<[(HeaderName, HeaderValue)]>;

/// Whom the configuration itself impersonates (`as` of a kubeconfig), taken out of it: kube would add that to requests
/// in the name of another account, which would then have those groups too.
pub(super) fn take_configured(config: &mut Config) -> kube::Result<Headers> {
    let info = &mut config.auth_info;
    let (user, uid) = (info.impersonate.take(), info.impersonate_uid.take());
    let mut headers: Vec<(HeaderName, String)> = Vec::new();
    headers.extend(user.map(|user| (IMPERSONATE_USER, user)));
    headers.extend(uid.map(|uid| (IMPERSONATE_UID, uid)));
    let groups = info.impersonate_groups.take().unwrap_or_default();
    headers.extend(groups.into_iter().map(|group| (IMPERSONATE_GROUP, group)));
    for (key, values) in info.impersonate_user_extra.take().unwrap_or_default() {
        let name = format!("impersonate-extra-{}", escaped(&key));
        let name = HeaderName::try_from(name).map_err(http::Error::from).map_err(kube::Error::HttpError)?;
        headers.extend(values.into_iter().map(|value| (name.clone(), value)));
    }
    let valued = headers.into_iter().map(|(name, value)| {
        let value =
            HeaderValue::try_from(value).map_err(http::Error::from).map_err(kube::Error::HttpError)?;
        Ok((name, value))
    });
    valued.collect()
}

/// What cannot stand in the name of a header as `%` and two digits, as the API server expects it.
fn escaped(key: &str) -> String {
    key.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(byte.into()),
            // Writing into a String does not fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
        text
    })
}

/// Adds what [`take_configured`] took to each request that is made in no account's name yet.
pub(super) fn layer(inner: Transport, headers: Headers) -> Transport {
    if headers.is_empty() {
        return inner;
    }
    Transport::new(service_fn(move |mut call: Call| {
        let inner = inner.clone();
        if !call.headers().contains_key(IMPERSONATE_USER) {
            call.headers_mut().extend(headers.iter().cloned());
        }
        inner.oneshot(call)
    }))
}

/// A client whose requests are made in the name of `user`.
///
/// Of a service account the API server knows the groups, so only its name is sent, and the operator needs the verb
/// `impersonate` on service accounts alone.
#[must_use]
pub fn acting_as(client: &Client, user: &HeaderValue) -> Client {
    let (inner, user) = (client.clone(), user.clone());
    let service = service_fn(move |mut call: http::Request<Body>| {
        let inner = inner.clone();
        call.headers_mut().insert(IMPERSONATE_USER, user.clone());
        async move { inner.send(call).await }
    });
    Client::new(service, client.default_namespace())
}

/// A client that sends nothing: every call ends in an error that says why.
#[must_use]
pub fn acting_as_nobody(client: &Client) -> Client {
    let service = service_fn(|_: http::Request<Body>| async {
        let message = "no service account acts for this release, so nothing is sent";
        let refused = std::io::Error::new(std::io::ErrorKind::PermissionDenied, message);
        Err::<http::Response<Body>, BoxError>(refused.into())
    });
    Client::new(service, client.default_namespace())
}
