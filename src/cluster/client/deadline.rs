//! Bounds every call, retries and body included, so that a silent connection cannot hold a caller.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use kube::client::DynBody;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, ServiceExt};

use super::verb::is_stream;
use super::{Call, Transport};

/// How long a call may take from its first try to the last byte of its answer.
///
/// A watch or a followed log must begin within it and may then last: kube watches over their silence.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// No complete answer within [`DEADLINE`]. Whether a write took effect is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the API server gave no complete answer within {} s; the request may have taken effect", DEADLINE.as_secs())]
pub struct DeadlineExceeded;

pub(super) fn layer(inner: Transport) -> Transport {
    Transport::new(tower::service_fn(move |call: Call| {
        let inner = inner.clone();
        let bounds_body = !is_stream(call.uri().query());
        async move {
            let until = Instant::now() + DEADLINE;
            let answer = timeout_at(until, inner.oneshot(call)).await.map_err(|_| DeadlineExceeded)??;
            if !bounds_body {
                return Ok(answer);
            }
            Ok(answer.map(|body| {
                Box::new(BoundedBody { inner: body, until: Box::pin(sleep_until(until)) }) as Box<DynBody>
            }))
        }
    }))
}

struct BoundedBody {
    inner: Box<DynBody>,
    until: Pin<Box<Sleep>>,
}

impl Body for BoundedBody {
    type Data = <DynBody as Body>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        // Data first: an answer that is already here is never thrown away.
        if let ready @ Poll::Ready(_) = Pin::new(&mut self.inner).poll_frame(context) {
            return ready;
        }
        self.until.as_mut().poll(context).map(|()| Some(Err(DeadlineExceeded.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::super::scripted::{call, status, transport};
    use super::*;

    /// Answers at once with a body that never ends and never sends.
    fn silent_body() -> Transport {
        Transport::new(tower::service_fn(|_: Call| async {
            let body = StreamBody::new(futures::stream::pending::<Result<Frame<_>, BoxError>>());
            Ok::<_, BoxError>(http::Response::new(Box::new(body) as Box<DynBody>))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_ends_in_the_deadline_for_watches_too() {
        let silent = Transport::new(tower::service_fn(|_: Call| std::future::pending()));
        for uri in ["/api/v1/pods", "/api/v1/pods?watch=true"] {
            let began = Instant::now();
            let error = layer(silent.clone()).oneshot(call("GET", uri)).await.map(drop).unwrap_err();
            assert!(error.is::<DeadlineExceeded>(), "{error}");
            assert_eq!(began.elapsed(), DEADLINE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stops_in_the_middle_ends_in_the_deadline() {
        let began = Instant::now();
        let answer = layer(silent_body()).oneshot(call("GET", "/api/v1/pods")).await.unwrap();
        let error = answer.into_body().collect().await.unwrap_err();
        assert!(error.is::<DeadlineExceeded>(), "{error}");
        assert_eq!(began.elapsed(), DEADLINE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_for_longer() {
        let answer = layer(silent_body()).oneshot(call("GET", "/api/v1/pods?watch=true")).await.unwrap();
        tokio::time::timeout(DEADLINE * 10, answer.into_body().collect()).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_complete_is_readable_after_the_deadline() {
        let (inner, _) = transport(vec![status(200)]);
        let answer = layer(inner).oneshot(call("GET", "/api/v1/pods")).await.unwrap();
        tokio::time::sleep(DEADLINE * 2).await;
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "{}");
    }
}
