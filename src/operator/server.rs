//! What the process answers over HTTP: `/livez`, `/readyz`, `/metrics`. Readable by anyone who reaches it, except for metrics
//! with an address of their own ([`Metered::ByToken`]), which are for [`Scrapers`].
//!
//! Imports metrics and the client's reviews only. Invariants: `/livez` and `/readyz` never wait for the API server, and whatever
//! clients do, both are answered: see `connections`.

mod certificate;
mod connections;
pub(in crate::operator) mod reread;
mod scrapers;
mod texts;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use certificate::Certificate;
pub use scrapers::Scrapers;
use texts::Texts;

use super::metrics::Metrics;

/// How long answers under way may take after the end was asked for. Without a bound, a client that never
/// sends its request to the end would hold the process.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What must be there before the process counts as ready; empty means ready.
///
/// Each part takes a [`Gate`] before the server starts and drops it when it is ready. A gate taken later
/// makes the process unready again.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// By order of taking, so that two gates may bear one name.
    names: BTreeMap<u64, String>,
}

/// Dropped when what it names is ready.
#[derive(Debug)]
#[must_use = "a gate that is dropped at once holds nothing back"]
pub struct Gate {
    readiness: Readiness,
    number: u64,
}

impl Readiness {
    /// Holds readiness back until the gate is dropped. `name` is shown to a client that asks what is missing.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.names.insert(number, name.into());
        drop(waiting);
        Gate { readiness: self.clone(), number }
    }

    /// What is not ready yet, in the order of taking.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<String> {
        self.lock().names.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics between lock and unlock, and a name too many is no reason to stop.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// Says what is missing in other words.
    pub fn says(&self, what: impl Into<String>) {
        self.readiness.lock().names.insert(self.number, what.into());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.readiness.lock().names.remove(&self.number);
    }
}

/// A bound but not yet answering server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address; port 0 takes any free one.
    ///
    /// # Errors
    /// The address is in use or not of this host.
    pub async fn bind(listen: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers `/livez`, `/readyz` and the metrics, or where those are, until `shutdown`; then finishes the answers under
    /// way, within a second.
    pub async fn serve(self, metrics: Metered, readiness: Readiness, shutdown: CancellationToken) {
        let routes = Router::new()
            // Answering is the proof: it is the same runtime that reconciles.
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz).with_state(readiness))
            .route(scrapers::METRICS, measured(metrics));
        connections::answer(self.listener, None, routes, shutdown, LAST_ANSWERS).await;
    }

    /// Answers `/metrics` to whom `scrapers` lets in, and nothing else, over TLS.
    pub async fn serve_metrics(
        self,
        metrics: Arc<Metrics>,
        certificate: Certificate,
        scrapers: Scrapers,
        shutdown: CancellationToken,
    ) {
        let shown = Arc::new((Shown::new(metrics), scrapers));
        let routes = Router::new().route(scrapers::METRICS, get(show_to_scrapers).with_state(shown));
        connections::answer(self.listener, Some(certificate), routes, shutdown, LAST_ANSWERS).await;
    }
}

impl Server {
    /// Answers these routes, and nothing else.
    pub async fn serve_webhooks(self, routes: Router, shutdown: CancellationToken) {
        connections::answer(self.listener, None, routes, shutdown, LAST_ANSWERS).await;
    }
}

/// Where the metrics are.
#[derive(Clone, Debug)]
pub enum Metered {
    /// Beside `/livez`, for anyone.
    Here(Arc<Metrics>),
    /// At another address, over TLS, for who shows a token.
    ByToken(SocketAddr),
}

fn measured(metrics: Metered) -> axum::routing::MethodRouter {
    match metrics {
        Metered::Here(metrics) => get(show_metrics).with_state(Arc::new(Shown::new(metrics))),
        Metered::ByToken(address) => {
            let text = format!("the metrics are at {address}, over https and for bearer tokens\n");
            get(move || std::future::ready((StatusCode::NOT_FOUND, text)))
        }
    }
}

struct Shown {
    metrics: Arc<Metrics>,
    texts: Texts,
}

impl Shown {
    fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, texts: Texts::default() }
    }

    fn answer(&self) -> Response {
        let text = self.texts.give(|| self.metrics.encode());
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
    }
}

async fn show_metrics(State(shown): State<Arc<Shown>>) -> Response {
    shown.answer()
}

async fn show_to_scrapers(State(shown): State<Arc<(Shown, Scrapers)>>, headers: HeaderMap) -> Response {
    let (shown, scrapers) = shown.as_ref();
    match scrapers.admit(&headers).await {
        Ok(()) => shown.answer(),
        Err((StatusCode::UNAUTHORIZED, text)) => {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let waiting = readiness.waiting_for();
    if waiting.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", waiting.join(", ")))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_names_what_is_missing_and_port_zero_is_told() {
        let readiness = Readiness::default();
        let (api, watch) = (readiness.gate("API server"), readiness.gate("watch of SherpackRelease"));
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address();
        assert_ne!(address.port(), 0);
        let stop = CancellationToken::new();
        let metrics = Arc::new(Metrics::new().unwrap());
        let serving = tokio::spawn(server.serve(Metered::Here(metrics), readiness.clone(), stop.clone()));

        let answer = ask(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.ends_with("not ready: API server, watch of SherpackRelease\n"), "{answer}");
        assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
        drop(api);
        assert!(ask(address, "/readyz").await.ends_with("not ready: watch of SherpackRelease\n"));
        drop(watch);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let metrics = ask(address, "/metrics").await;
        assert!(metrics.contains("text/plain; version=0.0.4"), "{metrics}");
        assert!(metrics.contains("\nsherpack_leader 0\n"), "{metrics}");
        assert!(ask(address, "/else").await.starts_with("HTTP/1.1 404"));

        stop.cancel();
        serving.await.unwrap();
        TcpStream::connect(address).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_client_that_never_finishes_its_request_does_not_hold_the_end() {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"GET /livez HTT").await.unwrap();
        let stop = CancellationToken::new();
        let metrics = Arc::new(Metrics::new().unwrap());
        let serving = tokio::spawn(server.serve(Metered::Here(metrics), Readiness::default(), stop.clone()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
        tokio::time::timeout(LAST_ANSWERS * 2, serving).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn one_connection_is_for_one_request_and_its_head_is_bounded() {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let metered = Metered::ByToken("10.0.0.1:8443".parse().unwrap());
        let serving = tokio::spawn(server.serve(metered, Readiness::default(), stop.clone()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("10.0.0.1:8443"), "{answer}");

        let mut stream = TcpStream::connect(address).await.unwrap();
        let endless = format!("GET /livez HTTP/1.1\r\nx: {}", "x".repeat(64 << 10));
        let _ = stream.write_all(endless.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "it is closed or refused, and not waited for");
        stop.cancel();
        serving.await.unwrap();
    }

    #[test]
    fn two_gates_of_one_name_are_two_gates() {
        let readiness = Readiness::default();
        let (first, second) = (readiness.gate("watch"), readiness.gate("watch"));
        drop(first);
        assert_eq!(readiness.waiting_for(), ["watch"]);
        drop(second);
        assert!(readiness.waiting_for().is_empty());
    }
}
