//! Sends nothing for a process that may not act any more.
//!
//! The permission is asked for before each try and again whenever its future is polled: dialling, the queue in front of
//! the pool and a stopped process all come between the decision to send and the first byte. What a lost permission
//! leaves behind is given up: its answer would be no ground to act on. What a connection already has cannot be taken
//! back, so a request may still take effect late: a process can be stopped in the instant between handing it over and
//! the write to the socket. Who acts then must bear that.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::Method;
use tower::{BoxError, ServiceExt};

use super::{Call, Transport};

/// Whether this process may act. Asked for every request, often: it must be cheap.
pub trait Permission: Send + Sync {
    /// A request may be sent.
    fn may_begin(&self) -> bool;
    /// A request that was begun with [`Permission::may_begin`] may go on.
    fn may_go_on(&self) -> bool;
}

/// The permission to act is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPermitted {
    #[error("another process may act now, or this one is ending: the request was not sent")]
    NotSent,
    #[error("another process may act now: the answer was not awaited, and the request may have taken effect")]
    GivenUp,
}

/// Whether a call failed because this process may not act any more. Its own state is what is wrong, nothing else.
#[must_use]
pub fn is_not_permitted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<NotPermitted>() {
            return true;
        }
        cause = error.source();
    }
    false
}

pub(super) fn layer(inner: Transport, permission: Arc<dyn Permission>) -> Transport {
    Transport::new(tower::service_fn(move |call: Call| {
        let (inner, permission) = (inner.clone(), Arc::clone(&permission));
        async move {
            if !permission.may_begin() {
                refused(&call);
                return Err(BoxError::from(NotPermitted::NotSent));
            }
            let mut sending = pin!(inner.oneshot(call));
            std::future::poll_fn(|context| {
                if permission.may_go_on() {
                    return sending.as_mut().poll(context);
                }
                Poll::Ready(Err(NotPermitted::GivenUp.into()))
            })
            .await
        }
    }))
}

fn refused(call: &Call) {
    let (method, path) = (call.method(), call.uri().path());
    // Reads are many and do no harm.
    if *method == Method::GET {
        tracing::debug!(%method, path, "not sent: this process may not act");
    } else {
        tracing::info!(%method, path, "not sent: this process may not act");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::super::scripted::{call, status, transport};
    use super::*;

    /// Permits so many questions of each sort.
    struct Permits {
        begin: AtomicUsize,
        go_on: AtomicUsize,
    }

    fn permits(begin: usize, go_on: usize) -> Arc<Permits> {
        Arc::new(Permits { begin: begin.into(), go_on: go_on.into() })
    }

    fn one_less(left: &AtomicUsize) -> bool {
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    impl Permission for Permits {
        fn may_begin(&self) -> bool {
            one_less(&self.begin)
        }

        fn may_go_on(&self) -> bool {
            one_less(&self.go_on)
        }
    }

    const POD: &str = "/api/v1/namespaces/a/pods/p";

    #[tokio::test]
    async fn nothing_is_sent_without_permission_whatever_it_is() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let (inner, left) = transport(vec![status(200)]);
            let error = layer(inner, permits(0, 9)).oneshot(call(method, POD)).await.map(drop).unwrap_err();
            assert!(is_not_permitted(error.as_ref()), "{error}");
            assert_eq!(left(), 1, "{method} was sent");
        }
    }

    #[tokio::test]
    async fn each_try_asks_again() {
        let (inner, left) = transport(vec![status(503), status(200)]);
        let tries = super::super::retry::layer(layer(inner, permits(1, 9)));
        let error = tries.oneshot(call("GET", POD)).await.map(drop).unwrap_err();
        assert!(is_not_permitted(error.as_ref()), "{error}");
        assert_eq!(left(), 1, "the second try was sent");
    }

    /// As a process that is stopped while it dials, and woken late.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_late_to_the_wire_is_not_sent() {
        let (inner, left) = transport(vec![status(200)]);
        let dialling = Transport::new(tower::service_fn(move |call: Call| {
            let inner = inner.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                inner.oneshot(call).await
            }
        }));
        let error = layer(dialling, permits(1, 1)).oneshot(call("PUT", POD)).await.map(drop).unwrap_err();
        assert_eq!(*error.downcast::<NotPermitted>().unwrap(), NotPermitted::GivenUp);
        assert_eq!(left(), 1);
    }

    #[tokio::test]
    async fn it_is_found_among_the_causes_of_an_error() {
        let (inner, _) = transport(vec![]);
        let error = layer(inner, permits(0, 0)).oneshot(call("PUT", POD)).await.map(drop).unwrap_err();
        assert!(is_not_permitted(&kube::Error::Service(error)));
        assert!(!is_not_permitted(&kube::Error::Service("else".into())));
    }
}
