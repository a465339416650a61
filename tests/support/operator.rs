//! An operator in this process, on a runtime of its own, so that it can be killed at any moment.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use futures::FutureExt;
use serde_json::Value;
use sherpack_operator::api::{DriftIgnore, IgnoreRule, LockPolicy, Tenancy};
use sherpack_operator::operator::lease::Timing;
use sherpack_operator::operator::{self, Config, config};
use sherpack_operator::source::http::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::wait::{LONG, eventually};
use super::wire::Wire;

/// What an operator of a test is told besides its wire.
#[derive(Clone)]
pub struct Settings {
    pub kubeconfig: PathBuf,
    pub watch_namespace: Option<String>,
    pub watch_labels: Option<kube::core::Selector>,
    pub operator_namespace: String,
    pub pack_dir: Option<PathBuf>,
    pub sources: Options,
    pub storage_dir: Option<PathBuf>,
    pub storage_namespaces: Vec<String>,
    pub leader_election: Option<Timing>,
    pub default_service_account: Option<String>,
    pub tenancy: Tenancy,
    pub trust_pack_crds: bool,
    pub require_signatures: bool,
    /// How many releases are worked on at once.
    pub concurrency: usize,
    /// Rules of what is left to others, as in `spec.drift.ignore`.
    pub drift_ignore: Value,
    pub memory_budget: u64,
    pub lock: LockPolicy,
    pub holder: String,
}

/// A running operator.
pub struct Operator {
    runtime: Option<Runtime>,
    shutdown: CancellationToken,
    /// Ends its wire together with it.
    lives: CancellationToken,
    ended: Option<JoinHandle<Result<(), operator::Error>>>,
    pub address: SocketAddr,
}

impl Operator {
    /// Starts one and does not wait until it is ready.
    #[must_use]
    pub fn start(settings: &Settings, wire: &Wire) -> Self {
        wire.revive();
        let runtime = operator::runtime(NonZeroUsize::new(2).unwrap()).unwrap();
        let (shutdown, lives) = (CancellationToken::new(), CancellationToken::new());
        let address = free_address();
        let config = Config {
            cluster: config::Cluster {
                kubeconfig: Some(settings.kubeconfig.clone()),
                ..config::Cluster::default()
            },
            watch_namespace: settings.watch_namespace.clone(),
            watch_labels: settings.watch_labels.clone(),
            operator_namespace: settings.operator_namespace.clone(),
            pack_dir: settings.pack_dir.clone(),
            sources: settings.sources.clone(),
            storage_dir: settings.storage_dir.clone(),
            storage_namespaces: settings.storage_namespaces.clone(),
            allow_lookup: Vec::new(),
            default_service_account: settings.default_service_account.clone(),
            tenancy: settings.tenancy,
            trust_pack_crds: settings.trust_pack_crds,
            require_signatures: settings.require_signatures,
            ignore: rules(&settings.drift_ignore),
            memory_budget: settings.memory_budget,
            concurrency: NonZeroUsize::new(settings.concurrency).unwrap(),
            lock: settings.lock,
            listen: address,
            metrics_auth: config::MetricsAuth::None,
            webhook: None,
            leader_election: settings.leader_election,
            holder: settings.holder.clone(),
            through: Some(wire.wrap(lives.clone())),
        };
        let ended = runtime.spawn(operator::run(config, shutdown.clone()));
        Self { runtime: Some(runtime), shutdown, lives, ended: Some(ended), address }
    }

    /// As `kill -9`: whatever it was doing ends in the middle.
    pub fn kill(mut self) {
        self.end();
    }

    /// As SIGTERM; waits until it has ended.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        let ended = self.ended.take().unwrap();
        tokio::time::timeout(LONG, ended)
            .await
            .expect("the operator stops")
            .expect("it does not panic")
            .expect("it stops without an error");
    }

    /// Waits until it ends by itself; gives why.
    pub async fn ended(mut self) -> Result<(), operator::Error> {
        let ended = self.ended.take().unwrap();
        tokio::time::timeout(LONG, ended).await.expect("the operator ends").expect("it does not panic")
    }

    /// Why it ended by itself, if it did.
    pub fn why_it_ended(&mut self) -> Option<String> {
        Some(format!("{:?}", self.ended.as_mut()?.now_or_never()?))
    }

    fn end(&mut self) {
        self.lives.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.end();
    }
}

fn rules(rules: &Value) -> Vec<Arc<IgnoreRule>> {
    let rules: Vec<DriftIgnore> = serde_json::from_value(rules.clone()).unwrap();
    rules.iter().map(|rule| Arc::new(IgnoreRule::parse(rule).unwrap())).collect()
}

/// Asks a running operator over HTTP.
pub struct Probe(pub SocketAddr);

impl Probe {
    /// Waits until `/readyz` says so.
    pub async fn ready(&self) {
        eventually("the operator is ready", async || {
            self.http("/readyz").await.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
        })
        .await;
    }

    /// The text of `/metrics`.
    pub async fn metrics(&self) -> String {
        self.http("/metrics").await.expect("/metrics answers")
    }

    /// The sum of all series of a metric whose labels contain every text in `labels`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.metrics().await;
        text.lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    pub async fn http(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.0).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }
}

/// A port that nobody listens on. Where all of 127.0.0.0/8 is this machine, as on Linux, the address is one that nobody else uses
/// either: on 127.0.0.1 any connection of a test beside this one may get the port before it is listened on.
pub(super) fn free_address() -> SocketAddr {
    static LAST: AtomicU16 = AtomicU16::new(0);
    let [high, low] = LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = 64 + (std::process::id() % 128) as u8;
    let bind = |address| TcpListener::bind((address, 0));
    let listener = bind(Ipv4Addr::new(127, process, high, low)).or_else(|_| bind(Ipv4Addr::LOCALHOST));
    listener.unwrap().local_addr().unwrap()
}

/// The packs that the project brings along.
#[must_use]
pub fn sample_packs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packs")
}
