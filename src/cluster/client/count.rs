//! Tells the observer of every request, also of one whose caller lost patience.

use std::sync::Arc;
use std::time::Instant;

use http::header::CONTENT_TYPE;
use tower::ServiceExt;

use super::{ApiObserver, Call, Transport, verb};

pub(super) fn layer(inner: Transport, observer: Arc<dyn ApiObserver>) -> Transport {
    Transport::new(tower::service_fn(move |call: Call| {
        let inner = inner.clone();
        let content_type = call.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut sent = Sent {
            observer: Arc::clone(&observer),
            verb: verb(call.method(), call.uri().path(), call.uri().query(), content_type),
            since: Instant::now(),
            code: 0,
        };
        async move {
            let result = inner.oneshot(call).await;
            if let Ok(answer) = &result {
                sent.answered(answer.status());
            }
            result
        }
    }))
}

/// Reports when dropped: the future of a call may end without ever being polled to its end.
struct Sent {
    observer: Arc<dyn ApiObserver>,
    verb: &'static str,
    since: Instant,
    code: u16,
}

impl Sent {
    // A method, so that the future owns all of `Sent`: assigning the field would capture a copy of it.
    fn answered(&mut self, status: http::StatusCode) {
        self.code = status.as_u16();
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.observer.record(self.verb, self.code, self.since.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Mutex;

    use super::super::scripted::{broken, call, status, transport};
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(&'static str, u16)>>);

    impl ApiObserver for Heard {
        fn record(&self, verb: &'static str, code: u16, seconds: f64) {
            assert!(seconds >= 0.0);
            self.0.lock().unwrap().push((verb, code));
        }
    }

    #[tokio::test]
    async fn an_answer_is_counted_with_its_code_and_a_broken_connection_with_zero() {
        let heard = Arc::new(Heard::default());
        let (inner, left) = transport(vec![status(404), broken(ErrorKind::ConnectionReset)]);
        let counted = layer(inner, Arc::clone(&heard) as _);
        let answer = counted.clone().oneshot(call("GET", "/api/v1/namespaces/a/pods/p")).await.unwrap();
        assert_eq!(answer.status(), 404);
        counted.oneshot(call("DELETE", "/api/v1/namespaces/a/pods/p")).await.map(drop).unwrap_err();
        assert_eq!(*heard.0.lock().unwrap(), [("get", 404), ("delete", 0)]);
        assert_eq!(left(), 0);
    }

    #[tokio::test]
    async fn a_call_that_its_caller_gives_up_is_counted_with_zero() {
        let heard = Arc::new(Heard::default());
        let silent = Transport::new(tower::service_fn(|_: Call| std::future::pending()));
        let counted = layer(silent, Arc::clone(&heard) as _);
        let gave_up = tokio::time::timeout(
            std::time::Duration::from_millis(5),
            counted.oneshot(call("PUT", "/api/v1/namespaces/a/pods/p")),
        );
        gave_up.await.map(drop).unwrap_err();
        assert_eq!(*heard.0.lock().unwrap(), [("update", 0)]);
    }
}
