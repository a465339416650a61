//! Keeps to `Retry-After`: a request that the API server asked not to be sent again for a while is not, whichever room asks.
//!
//! The wait is remembered by method and path, not by the call: a pass that gave up and began anew knows nothing of what
//! was asked of the one before. A short wait is waited out, a long one is answered here, so that it holds no caller.
//!
//! Invariant: what is remembered is of our own requests, and goes when its time is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::time::Instant;
use tower::{BoxError, ServiceExt};

use super::{Answer, Call, Transport};

/// No caller is held longer than this for a `Retry-After` header.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Nothing waits longer than this. The API server itself asks for at most 32 s; a webhook may say anything.
const LONGEST_PAUSE: u64 = 60;

type Paused = Arc<Mutex<HashMap<(Method, String), Instant>>>;

pub(super) fn layer(inner: Transport) -> Transport {
    let paused = Paused::default();
    Transport::new(tower::service_fn(move |call: Call| {
        let (inner, paused) = (inner.clone(), Arc::clone(&paused));
        async move {
            let key = (call.method().clone(), call.uri().path().to_owned());
            if let Some(until) = left(&paused, &key) {
                let wait = until.saturating_duration_since(Instant::now());
                if wait > LONGEST_WAIT {
                    return Ok(not_yet(wait));
                }
                tokio::time::sleep_until(until).await;
            }
            let answer = inner.oneshot(call).await?;
            if let Some(asked) = retry_after(&answer).filter(|asked| !asked.is_zero()) {
                let now = Instant::now();
                let mut paused = lock(&paused);
                paused.retain(|_, until| *until > now);
                paused.insert(key, now + asked);
            }
            Ok::<_, BoxError>(answer)
        }
    }))
}

/// What the API server asks for. Only whole seconds are read: it sends no dates.
pub(super) fn retry_after(answer: &Answer) -> Option<Duration> {
    let refused = answer.status().is_client_error() || answer.status().is_server_error();
    let header = answer.headers().get(RETRY_AFTER).filter(|_| refused)?;
    let seconds: u64 = header.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds.min(LONGEST_PAUSE)))
}

fn left(paused: &Paused, key: &(Method, String)) -> Option<Instant> {
    let now = Instant::now();
    lock(paused).get(key).copied().filter(|until| *until > now)
}

fn lock(paused: &Paused) -> std::sync::MutexGuard<'_, HashMap<(Method, String), Instant>> {
    // Every critical section leaves the map valid.
    paused.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As the API server says it, without asking it.
fn not_yet(wait: Duration) -> Answer {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests",
        "code": StatusCode::TOO_MANY_REQUESTS.as_u16(),
        "message": format!("the API server asked not to be sent this for {seconds} more seconds"),
        "details": {"retryAfterSeconds": seconds},
    });
    let body = Full::from(status.to_string()).map_err(BoxError::from);
    let mut answer: Answer = http::Response::new(Box::new(body));
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    answer
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Step, answer, call, status, transport};
    use super::*;

    const POD: &str = "/api/v1/namespaces/a/pods/p";

    fn asks(code: u16, seconds: &'static str) -> Step {
        Box::new(move || Ok(answer(code, &[("retry-after", seconds)])))
    }

    async fn sent(layer: &Transport, method: &str, path: &str) -> (u16, Duration) {
        let began = Instant::now();
        let answer = layer.clone().oneshot(call(method, path)).await.unwrap();
        (answer.status().as_u16(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_wait_is_waited_out_by_whoever_comes_next() {
        for code in [429, 500, 503] {
            let layer = layer(transport(vec![asks(code, "3"), status(200), status(200)]).0);
            assert_eq!(sent(&layer, "POST", POD).await, (code, Duration::ZERO));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(sent(&layer, "POST", POD).await, (200, Duration::from_secs(2)));
            assert_eq!(sent(&layer, "POST", POD).await, (200, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_is_answered_without_sending_until_it_is_over() {
        let (inner, left) = transport(vec![asks(429, "60"), status(200)]);
        let layer = layer(inner);
        sent(&layer, "GET", POD).await;
        for _ in 0..3 {
            assert_eq!(sent(&layer, "GET", POD).await, (429, Duration::ZERO));
        }
        assert_eq!(left(), 1, "nothing was sent");
        let refused = layer.clone().oneshot(call("GET", POD)).await.unwrap();
        assert_eq!(refused.headers()[RETRY_AFTER], "60");
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["message"], "the API server asked not to be sent this for 60 more seconds");
        tokio::time::sleep(Duration::from_secs(58)).await;
        assert_eq!(sent(&layer, "GET", POD).await, (200, Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn other_requests_do_not_wait() {
        let layer = layer(transport(vec![asks(429, "60"), status(200), status(200)]).0);
        sent(&layer, "GET", POD).await;
        assert_eq!(sent(&layer, "DELETE", POD).await.0, 200);
        assert_eq!(sent(&layer, "GET", "/api/v1/namespaces/a/pods/q").await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn what_asks_for_nothing_is_not_waited_for() {
        let layer = layer(transport(vec![asks(429, "0"), asks(429, "soon"), asks(200, "60"), status(200)]).0);
        for code in [429, 429, 200, 200] {
            assert_eq!(sent(&layer, "GET", POD).await, (code, Duration::ZERO));
        }
    }
}
