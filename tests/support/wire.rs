//! Between the operator and the API server: remembers every request and breaks some of them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::Frame;
use http_body_util::{BodyExt, Full};
use kube::client::{Body, DynBody};
use serde_json::{Value, json};
use sherpack_operator::cluster::client::{Answer, Call, Transport, Wrap, verb};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::{BoxError, ServiceExt};

/// One request as the API server got it, or would have got it.
#[derive(Clone, Debug)]
pub struct Request {
    /// get, list, watch, create, update, patch, apply, delete, other.
    pub verb: &'static str,
    pub path: String,
    pub query: String,
    /// In whose name it is made; `None`: the operator's own.
    pub user: Option<String>,
    /// Null when there is none.
    pub body: Value,
    pub digest: u64,
    /// HTTP status; 0 while there is no answer.
    pub code: u16,
    /// When it was sent.
    pub at: Instant,
}

impl Request {
    /// Changes something in the cluster; a dry run does not.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "apply" | "delete")
            && !self.query.contains("dryRun=")
    }

    /// Asks for objects; a watch does not count.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.verb, "get" | "list")
    }

    /// About this object: `deployments/web`, or of this kind: `deployments`.
    #[must_use]
    pub fn is_about(&self, what: &str) -> bool {
        let inside = format!("{}/", self.path.trim_end_matches('/'));
        inside.contains(&format!("/{what}/"))
    }

    /// `apply /apis/apps/v1/namespaces/a/deployments/web 200`, for messages.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {} {}", self.verb, self.path, self.code)
    }
}

/// What happens to a request instead of the usual.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The API server gets it, the operator never hears the answer.
    DropAfterSend,
    /// It never arrives.
    DropBeforeSend,
    /// This status comes back and the request never arrives: 403, 409, 429, 500.
    Answer(u16),
    /// 429 comes back, with the wish not to be asked again for so many seconds, and the request never arrives.
    Overloaded(u32),
    /// A watch is told that the resourceVersion it asks for is too old; it never arrives.
    Expired,
    /// It is sent this much later.
    Slow(Duration),
    /// It is sent when [`Wire::release`] is called.
    Hold,
    /// It is sent at once, and its answer comes when [`Wire::release`] is called.
    HoldAnswer,
    /// The operator dies the moment the API server has answered: nothing it sends later arrives.
    KillAfter,
    /// The operator dies the moment it wants to send this.
    KillBefore,
}

type Matches = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// Breaks some requests.
#[derive(Clone)]
pub struct Fault {
    matches: Matches,
    /// Matching requests that pass before the fault begins.
    skip: usize,
    /// Requests that are still to be broken.
    times: usize,
    effect: Effect,
}

impl Fault {
    /// Every request that `matches`.
    pub fn new(effect: Effect, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Self { matches: Arc::new(matches), skip: 0, times: usize::MAX, effect }
    }

    /// Every write to the object, such as `services/web`.
    pub fn on_writes(effect: Effect, object: &str) -> Self {
        let object = object.to_owned();
        Self::new(effect, move |request| request.is_write() && request.is_about(&object))
    }

    /// The `n`th write from now, counted from 1, whatever it is about. The lease does not count.
    pub fn on_write_number(n: usize, effect: Effect) -> Self {
        Self::new(effect, |request| request.is_write() && !request.is_about("leases")).after(n - 1).once()
    }

    /// Lets `n` matching requests pass first.
    #[must_use]
    pub fn after(mut self, n: usize) -> Self {
        self.skip = n;
        self
    }

    /// Breaks one request only.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Breaks `n` requests only.
    #[must_use]
    pub fn times(mut self, n: usize) -> Self {
        self.times = n;
        self
    }
}

/// All requests of one operator and of those that follow it in the same test.
#[derive(Clone, Default)]
pub struct Wire {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    requests: Mutex<Vec<Request>>,
    faults: Mutex<Vec<Fault>>,
    /// The operator is dead: nothing of it arrives any more.
    dead: AtomicBool,
    killed: Mutex<CancellationToken>,
    cut: Mutex<CancellationToken>,
    held: Mutex<CancellationToken>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Wire {
    /// A point in the log.
    #[must_use]
    pub fn mark(&self) -> usize {
        lock(&self.inner.requests).len()
    }

    /// Everything that was sent since `mark`.
    #[must_use]
    pub fn since(&self, mark: usize) -> Vec<Request> {
        lock(&self.inner.requests)[mark..].to_vec()
    }

    /// The writes since `mark`, to everything.
    #[must_use]
    pub fn writes_since(&self, mark: usize) -> Vec<Request> {
        self.since(mark).into_iter().filter(Request::is_write).collect()
    }

    /// The writes since `mark` to the object, such as `deployments/web`.
    #[must_use]
    pub fn writes_to(&self, what: &str, mark: usize) -> Vec<Request> {
        self.writes_since(mark).into_iter().filter(|request| request.is_about(what)).collect()
    }

    /// Adds a fault. Of several that match a request the oldest counts.
    pub fn fault(&self, fault: Fault) {
        lock(&self.inner.faults).push(fault);
    }

    /// Everything passes again.
    pub fn heal(&self) {
        lock(&self.inner.faults).clear();
    }

    /// Ends every watch that is open now, as a load balancer would.
    pub fn cut_watches(&self) {
        std::mem::take(&mut *lock(&self.inner.cut)).cancel();
    }

    /// Sends what [`Effect::Hold`] holds back.
    pub fn release(&self) {
        std::mem::take(&mut *lock(&self.inner.held)).cancel();
    }

    /// Waits until a fault has killed the operator.
    pub async fn killed(&self) {
        let killed = lock(&self.inner.killed).clone();
        tokio::time::timeout(super::wait::LONG, killed.cancelled())
            .await
            .expect("the fault that kills the operator was reached");
    }

    /// Whether a fault has killed the operator.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.inner.dead.load(Ordering::SeqCst)
    }

    /// From now on nothing of the operator arrives. What the API server already has cannot be taken back.
    pub(super) fn die(&self) {
        self.inner.dead.store(true, Ordering::SeqCst);
        lock(&self.inner.killed).cancel();
    }

    /// A new operator: it is alive and unbroken faults stay.
    pub(super) fn revive(&self) {
        *lock(&self.inner.killed) = CancellationToken::new();
        self.inner.dead.store(false, Ordering::SeqCst);
    }

    /// What the operator's client is wrapped in. `lives` ends with the operator that it was made for, so
    /// that a late task of a killed one sends nothing through its successor's wire.
    #[must_use]
    pub(super) fn wrap(&self, lives: CancellationToken) -> Wrap {
        let wire = self.clone();
        Arc::new(move |inner: Transport| {
            let (wire, lives) = (wire.clone(), lives.clone());
            Transport::new(tower::service_fn(move |call: Call| {
                let (wire, inner, lives) = (wire.clone(), inner.clone(), lives.clone());
                async move { wire.carry(call, inner, lives).await }
            }))
        })
    }

    pub(super) async fn carry(
        &self,
        call: Call,
        inner: Transport,
        lives: CancellationToken,
    ) -> Result<Answer, BoxError> {
        let (call, mut request) = read(call).await?;
        if self.is_dead() || lives.is_cancelled() {
            return std::future::pending().await;
        }
        let effect = self.effect(&request);
        let number = {
            let mut requests = lock(&self.inner.requests);
            requests.push(request.clone());
            requests.len() - 1
        };
        let held = lock(&self.inner.held).clone();
        match effect {
            Some(Effect::KillBefore) => {
                self.die();
                return std::future::pending().await;
            }
            Some(Effect::DropBeforeSend) => return Err(reset()),
            Some(Effect::Answer(code)) => {
                self.answered(number, code);
                return Ok(refusal(code));
            }
            Some(Effect::Overloaded(seconds)) => {
                self.answered(number, 429);
                let mut answer = refusal(429);
                answer.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                return Ok(answer);
            }
            Some(Effect::Expired) => {
                self.answered(number, 200);
                return Ok(expired());
            }
            Some(Effect::Slow(by)) => tokio::time::sleep(by).await,
            Some(Effect::Hold) => held.cancelled().await,
            Some(Effect::DropAfterSend | Effect::KillAfter | Effect::HoldAnswer) | None => {}
        }
        let cut = lock(&self.inner.cut).clone();
        let answer = inner.oneshot(call).await;
        request.code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
        self.answered(number, request.code);
        if let Some(Effect::HoldAnswer) = effect {
            held.cancelled().await;
        }
        match effect {
            Some(Effect::KillAfter) => {
                self.die();
                std::future::pending().await
            }
            Some(Effect::DropAfterSend) => Err(reset()),
            _ if self.is_dead() || lives.is_cancelled() => std::future::pending().await,
            _ if request.verb == "watch" => {
                Ok(answer?.map(|body| Box::new(Cuttable::new(body, cut)) as Box<DynBody>))
            }
            _ => answer,
        }
    }

    fn answered(&self, number: usize, code: u16) {
        lock(&self.inner.requests)[number].code = code;
    }

    fn effect(&self, request: &Request) -> Option<Effect> {
        let mut faults = lock(&self.inner.faults);
        let fault = faults.iter_mut().find(|fault| fault.times > 0 && (fault.matches)(request))?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        fault.times -= 1;
        Some(fault.effect.clone())
    }
}

async fn read(call: Call) -> Result<(Call, Request), BoxError> {
    let (head, body) = call.into_parts();
    let bytes = body.collect_bytes().await?;
    let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let request = Request {
        verb: verb(&head.method, head.uri.path(), head.uri.query(), content_type),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        user: head.headers.get("impersonate-user").map(|user| user.to_str().unwrap().to_owned()),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        digest: hasher.finish(),
        code: 0,
        at: Instant::now(),
    };
    Ok((Call::from_parts(head, Body::from(bytes)), request))
}

fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

fn refusal(code: u16) -> Answer {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("refused by the test with {code}"),
    });
    json_answer(code, status.to_string())
}

/// The one event with which the API server ends a watch whose resourceVersion it has forgotten.
fn expired() -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version",
    });
    json_answer(200, format!("{}\n", json!({"type": "ERROR", "object": status})))
}

fn json_answer(code: u16, body: String) -> Answer {
    let body = Full::from(body).map_err(BoxError::from);
    http::Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Box::new(body) as Box<DynBody>)
        .unwrap()
}

/// The body of a watch that can be broken off.
struct Cuttable {
    inner: Box<DynBody>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Cuttable {
    fn new(inner: Box<DynBody>, cut: CancellationToken) -> Self {
        Self { inner, cut: Box::pin(cut.cancelled_owned()) }
    }
}

impl http_body::Body for Cuttable {
    type Data = <DynBody as http_body::Body>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(reset())));
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }
}
