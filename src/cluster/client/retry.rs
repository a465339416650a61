//! Repeats a request a few times, when repeating it cannot do harm.
//!
//! Invariant: a request whose effect depends on how often it arrives (create; update or patch with a
//! resourceVersion; JSON patch) is sent again only when the server surely did not act on it. Otherwise
//! the second try would answer `AlreadyExists` or `Conflict` for our own write, and those answers mean
//! "somebody else acts" everywhere in this crate.

use std::io::ErrorKind;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use tower::{BoxError, ServiceExt};

use super::pause::{LONGEST_WAIT, retry_after};
use super::{Answer, Call, Transport};

/// Tries in all, the first one included. Longer trouble is the caller's backoff.
const TRIES: usize = 3;
/// The wait before try n+1 is the n-th of these, or what the server asks for if that is longer.
const WAITS: [Duration; TRIES - 1] = [Duration::from_millis(100), Duration::from_millis(500)];

pub(super) fn layer(inner: Transport) -> Transport {
    Transport::new(tower::service_fn(move |call: Call| send(inner.clone(), call)))
}

async fn send(inner: Transport, mut call: Call) -> Result<Answer, BoxError> {
    let repeatable = is_repeatable(&call);
    for wait in WAITS {
        let Some(again) = copy(&call) else { break };
        let result = inner.clone().oneshot(call).await;
        let Some(wait) = wait_before_next(repeatable, &result, wait) else {
            return result;
        };
        drop(result);
        tokio::time::sleep(wait).await;
        call = again;
    }
    inner.oneshot(call).await
}

/// `None`: the result stands. Otherwise the pause before the next try.
fn wait_before_next(repeatable: bool, result: &Result<Answer, BoxError>, wait: Duration) -> Option<Duration> {
    match result {
        Ok(answer) => {
            let asked = retry_after(answer);
            let not_acted_on = match answer.status() {
                // With the header it is the API server's overload protection, which answers before
                // it acts.
                StatusCode::TOO_MANY_REQUESTS => repeatable || asked.is_some(),
                // Also the words of proxies and timeouts: the request may have taken effect.
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => repeatable,
                _ => false,
            };
            // What takes longer is for the caller to come back to.
            let asked = asked.unwrap_or_default();
            (not_acted_on && asked <= LONGEST_WAIT).then(|| asked.max(wait))
        }
        Err(error) => match breakage(error) {
            Breakage::NotSent => Some(wait),
            Breakage::MaybeSent => repeatable.then_some(wait),
            Breakage::Other => None,
        },
    }
}

/// Whether a second arrival changes nothing.
///
/// A delete carries a uid, so that its second arrival finds nothing or is refused.
fn is_repeatable(call: &Call) -> bool {
    match *call.method() {
        Method::GET | Method::HEAD | Method::DELETE => true,
        Method::PATCH => call
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch")),
        _ => false,
    }
}

enum Breakage {
    NotSent,
    MaybeSent,
    /// Not the connection: credentials, a layer's own error.
    Other,
}

fn breakage(error: &BoxError) -> Breakage {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if let Some(client) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return if client.is_connect() { Breakage::NotSent } else { Breakage::MaybeSent };
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return match io.kind() {
                ErrorKind::ConnectionRefused => Breakage::NotSent,
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
                | ErrorKind::TimedOut => Breakage::MaybeSent,
                _ => Breakage::Other,
            };
        }
        cause = error.source();
    }
    Breakage::Other
}

fn copy(call: &Call) -> Option<Call> {
    let mut copy = http::Request::new(call.body().try_clone()?);
    *copy.method_mut() = call.method().clone();
    *copy.uri_mut() = call.uri().clone();
    *copy.version_mut() = call.version();
    *copy.headers_mut() = call.headers().clone();
    *copy.extensions_mut() = call.extensions().clone();
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::super::scripted::{Step, answer, broken, call, status, transport};
    use super::*;

    const POD: &str = "/api/v1/namespaces/a/pods/p";

    fn overloaded(seconds: &'static str) -> Step {
        Box::new(move || Ok(answer(429, &[("retry-after", seconds)])))
    }

    fn patch(content_type: &str) -> Call {
        let mut patch = call("PATCH", POD);
        patch.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        patch
    }

    /// The code of the last answer (0: none), and how many tries were made.
    async fn outcome(call: Call, steps: Vec<Step>) -> (u16, usize) {
        let planned = steps.len();
        let (inner, left) = transport(steps);
        let code = layer(inner).oneshot(call).await.map_or(0, |answer| answer.status().as_u16());
        (code, planned - left())
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_is_tried_three_times() {
        for code in [429, 503, 504] {
            let steps = vec![status(code), status(code), status(200)];
            assert_eq!(outcome(call("GET", POD), steps).await, (200, 3));
            let steps = vec![status(code), status(code), status(code), status(200)];
            assert_eq!(outcome(call("GET", POD), steps).await, (code, 3));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_safe_to_repeat_survives_a_broken_connection() {
        let safe = [call("GET", POD), call("DELETE", POD), patch("application/apply-patch+yaml")];
        for call in safe {
            let steps = vec![broken(ErrorKind::ConnectionReset), status(200)];
            assert_eq!(outcome(call, steps).await, (200, 2));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_may_have_arrived_is_not_sent_again() {
        let unsafe_calls = || {
            [
                call("POST", "/api/v1/namespaces/a/pods"),
                call("PUT", POD),
                patch("application/json-patch+json"),
                patch("application/merge-patch+json"),
            ]
        };
        for call in unsafe_calls() {
            let steps = vec![broken(ErrorKind::ConnectionReset), status(200)];
            assert_eq!(outcome(call, steps).await, (0, 1));
        }
        for call in unsafe_calls() {
            assert_eq!(outcome(call, vec![status(503), status(200)]).await, (503, 1));
        }
        for call in unsafe_calls() {
            assert_eq!(outcome(call, vec![status(429), status(200)]).await, (429, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_is_sent_again_when_it_surely_did_not_arrive() {
        let steps = vec![broken(ErrorKind::ConnectionRefused), overloaded("1"), status(201)];
        assert_eq!(outcome(call("POST", "/api/v1/namespaces/a/pods"), steps).await, (201, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn other_refusals_stand() {
        for code in [400, 403, 404, 409, 422, 500] {
            assert_eq!(outcome(call("GET", POD), vec![status(code), status(200)]).await, (code, 1));
        }
        let steps = vec![broken(ErrorKind::PermissionDenied), status(200)];
        assert_eq!(outcome(call("GET", POD), steps).await, (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_the_server_asks_for_is_kept_and_a_long_one_is_left_to_the_caller() {
        for (asked, waited) in [("2", 2_000), ("5", 5_000), ("0", 100), ("soon", 100)] {
            let began = Instant::now();
            let steps = vec![overloaded(asked), status(200)];
            assert_eq!(outcome(call("GET", POD), steps).await, (200, 2));
            assert_eq!(began.elapsed().as_millis(), waited, "Retry-After: {asked}");
        }
        let steps = vec![overloaded("6"), status(200)];
        assert_eq!(outcome(call("GET", POD), steps).await, (429, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_try_carries_the_same_request() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let inner = Transport::new(tower::service_fn(move |call: Call| {
            let log = Arc::clone(&log);
            async move {
                let (parts, body) = call.into_parts();
                let body = body.collect().await.map_err(BoxError::from)?.to_bytes();
                let mut log = log.lock().unwrap();
                log.push((parts.method, parts.uri, parts.headers, body));
                Ok::<_, BoxError>(answer(if log.len() == 1 { 503 } else { 200 }, &[]))
            }
        }));
        layer(inner).oneshot(patch("application/apply-patch+yaml")).await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[1].3, "{}");
    }
}
