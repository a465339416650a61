//! A transport that plays a list of answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::Response;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tower::BoxError;

use super::{Answer, Call, Transport};

pub(super) type Step = Box<dyn FnOnce() -> Result<Answer, BoxError> + Send>;

pub(super) fn answer(code: u16, headers: &[(&str, &str)]) -> Answer {
    let mut response = Response::builder().status(code);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Box::new(Full::from("{}").map_err(BoxError::from)) as _).unwrap()
}

pub(super) fn status(code: u16) -> Step {
    Box::new(move || Ok(answer(code, &[])))
}

pub(super) fn broken(kind: std::io::ErrorKind) -> Step {
    Box::new(move || Err(std::io::Error::from(kind).into()))
}

/// The transport, and how many steps are left.
pub(super) fn transport(steps: Vec<Step>) -> (Transport, impl Fn() -> usize) {
    let script = Arc::new(Mutex::new(VecDeque::from(steps)));
    let left = Arc::clone(&script);
    let service = tower::service_fn(move |_: Call| {
        let step = script.lock().unwrap().pop_front();
        async move { step.expect("no call beyond the script")() }
    });
    (Transport::new(service), move || left.lock().unwrap().len())
}

pub(super) fn call(method: &str, uri: &str) -> Call {
    http::Request::builder().method(method).uri(uri).body(Body::from(b"{}".to_vec())).unwrap()
}
