//! A request as it is written on the wire.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, PROXY_AUTHORIZATION, USER_AGENT,
};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use hyper::body::Bytes;

use super::Call;
use super::connect::Forwarding;
use crate::source::http::url::Url;

/// What a request carries.
#[derive(Clone, Debug)]
pub(in crate::source) struct Sent {
    pub media_type: &'static str,
    pub bytes: Bytes,
}

impl Call<'_> {
    /// Whether it changes what the server has.
    fn writes(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD)
    }

    /// Why it follows no redirect, unless it does.
    pub(super) fn stays(&self) -> Option<&'static str> {
        if self.flux {
            // The path was checked, and that of what a redirect leads to would not be.
            Some("it redirects, and artifacts of Flux are not redirected")
        } else if self.writes() {
            Some(
                "it redirects what is written to it, and that is not followed: name the server that it leads to",
            )
        } else {
            None
        }
    }

    /// The request for a URL. `identify`: the credentials are for its host.
    pub(super) fn request(
        &self,
        url: &Url,
        forwarding: Option<Forwarding>,
        identify: bool,
    ) -> Request<Full<Bytes>> {
        let target = match &forwarding {
            Some(Forwarding { authority, .. }) => forwarded(url, authority),
            None => origin(url),
        };
        let body = self.sends.map(|sent| sent.bytes.clone()).unwrap_or_default();
        let length = body.len();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = target;
        let headers = request.headers_mut();
        set(headers, HOST, url.authority());
        set(headers, USER_AGENT, concat!("sherpack-operator/", env!("CARGO_PKG_VERSION")));
        set(headers, ACCEPT, self.accept);
        set(headers, ACCEPT_ENCODING, "identity");
        if self.writes() {
            // Also of nothing: some servers want to be told.
            set(headers, CONTENT_LENGTH, &length.to_string());
        }
        if let Some(sent) = self.sends {
            set(headers, CONTENT_TYPE, sent.media_type);
        }
        if let Some(etag) = &self.known.etag {
            set(headers, IF_NONE_MATCH, etag);
        }
        if let Some(last_modified) = &self.known.last_modified {
            set(headers, IF_MODIFIED_SINCE, last_modified);
        }
        if let Some(authorization) = self.authorization.filter(|_| identify) {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(authorization) = forwarding.and_then(|forwarding| forwarding.authorization) {
            headers.insert(PROXY_AUTHORIZATION, authorization);
        }
        request
    }
}

/// The URL for a proxy, with the host that it shall ask.
fn forwarded(url: &Url, authority: &str) -> Uri {
    format!("http://{authority}{}", url.target()).parse().unwrap_or_else(|_| url.uri().clone())
}

fn origin(url: &Url) -> Uri {
    // It is a part of a valid URL.
    url.target().parse().unwrap_or_else(|_| Uri::from_static("/"))
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
