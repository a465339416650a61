//! The operator process: wires the parts together, starts them, stops them.
//!
//! Imports everything below. Invariant: decides nothing about a release.

pub mod config;
mod controller;
mod error;
mod keys;
pub mod lease;
pub mod metrics;
mod report;
mod reserve;
pub mod server;
pub mod shutdown;
mod start;
pub mod telemetry;
mod threads;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

pub use config::Config;
use config::MetricsAuth;
pub use error::Error;
use lease::{Lease, Timing};
use metrics::Metrics;
use server::{Certificate, Gate, Metered, Readiness, Scrapers, Server};
pub use threads::runtime;
use webhook::{Tokens, Webhook};

use crate::cluster::client::{self, ApiObserver, Permission};

/// Runs an operator until `shutdown` is cancelled.
///
/// With leader election it first stands by until it holds the lease, and gives the lease away at the end.
///
/// # Errors
/// What stands in the way of a start: no cluster configuration, an address in use, an API server that
/// does not answer. After the start nothing but a broken part or the loss of the lease ends it.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new()?);
    let readiness = Readiness::default();
    // Until there is a better reason not to be ready.
    let begun = readiness.gate("the API server");

    let server = bind(config.listen, "--listen").await?;
    tracing::info!(address = %server.address(), "listening");
    let guarded = guarded(&config.metrics_auth).await?;
    let metered = match &guarded {
        Some((guarded, _)) => Metered::ByToken(guarded.address()),
        None => Metered::Here(Arc::clone(&metrics)),
    };
    let serving = tokio::spawn(server.serve(metered, readiness.clone(), shutdown.clone()));
    let webhook = receiver(config.webhook.as_ref(), &metrics, &shutdown).await?;

    let config::Cluster { kubeconfig, context, proxies } = &config.cluster;
    let cluster = client::load_config(kubeconfig.as_deref(), context.as_deref(), proxies)
        .await
        .map_err(|error| Error::NoCluster(Box::new(error)))?;
    let process = Process { config: &config, cluster, metrics, readiness, shutdown, webhook };
    if let Some((server, certificate)) = guarded {
        // A client of its own: the metrics of a process that stands by, or has lost its lease, are read as well.
        let scrapers = Scrapers::new(process.client(None)?);
        let (metrics, shutdown) = (Arc::clone(&process.metrics), process.shutdown.clone());
        tokio::spawn(server.serve_metrics(metrics, certificate, scrapers, shutdown));
    }
    match config.leader_election {
        Some(timing) => process.run_elected(timing, begun).await?,
        None => process.work(process.client(None)?, begun).await?,
    }
    // A server task that was aborted or panicked has nothing left to finish.
    let _ = serving.await;
    Ok(())
}

async fn bind(address: SocketAddr, flag: &'static str) -> Result<Server, Error> {
    Server::bind(address).await.map_err(|source| Error::Listen { address, flag, source })
}

/// What serves the metrics to those with a token; none when they are for anyone.
async fn guarded(auth: &MetricsAuth) -> Result<Option<(Server, Certificate)>, Error> {
    let MetricsAuth::Token { listen, certificates } = auth else { return Ok(None) };
    let certificate = Certificate::of(certificates.as_deref()).map_err(Error::Certificate)?;
    let server = bind(*listen, "--metrics-listen").await?;
    tracing::info!(metrics = %server.address(), "metrics are served over https");
    Ok(Some((server, certificate)))
}

/// What receives webhooks; none when they are not wanted.
async fn receiver(
    config: Option<&config::Webhook>,
    metrics: &Arc<Metrics>,
    shutdown: &CancellationToken,
) -> Result<Option<Arc<Webhook>>, Error> {
    let Some(config::Webhook { listen, tokens }) = config else { return Ok(None) };
    let tokens = Tokens::of(tokens).map_err(Error::WebhookTokens)?;
    let webhook = Webhook::new(tokens, Arc::clone(metrics));
    let server = bind(*listen, "--webhook-listen").await?;
    tracing::info!(webhooks = %server.address(), "webhooks are received");
    tokio::spawn(server.serve_webhooks(Arc::clone(&webhook).routes(), shutdown.clone()));
    Ok(Some(webhook))
}

/// What does not change while the process runs.
struct Process<'a> {
    config: &'a Config,
    cluster: kube::Config,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    shutdown: CancellationToken,
    webhook: Option<Arc<Webhook>>,
}

impl Process<'_> {
    /// A client with connections of its own.
    fn client(&self, permission: Option<Arc<dyn Permission>>) -> Result<Client, Error> {
        let observer = Arc::clone(&self.metrics) as Arc<dyn ApiObserver>;
        let through = self.config.through.clone();
        client::build_through(self.cluster.clone(), observer, through, permission)
            .map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, error: kube::Error) -> Error {
        Error::Unreachable { url: self.cluster.cluster_url.to_string(), source: Box::new(error) }
    }

    /// Stands by, leads, hands over. While it stands by it is ready and holds nothing in memory.
    async fn run_elected(&self, timing: Timing, begun: Gate) -> Result<(), Error> {
        let Config { operator_namespace, watch_namespace, watch_labels, holder, .. } = self.config;
        let client = self.client(None)?;
        let answers = async { client.apiserver_version().await.map_err(|error| self.unreachable(error)) };
        tokio::select! {
            version = answers => drop(version?),
            () = self.shutdown.cancelled() => return Ok(()),
        }
        let name = lease::name(watch_namespace.as_deref(), watch_labels.as_ref());
        let mut lease = Lease::new(client, operator_namespace, name, holder.clone(), timing);
        let mut begun = Some(begun);
        if !lease.acquire(&self.shutdown, || drop(begun.take())).await {
            return Ok(());
        }
        let elected = begun.unwrap_or_else(|| self.readiness.gate("the start of the elected process"));
        let client = self.client(Some(lease.permission()))?;
        let ended = tokio::select! {
            ended = self.work(client, elected) => ended,
            () = lease.keep(&self.shutdown) => Err(Error::LeaseLost),
        };
        self.metrics.leader(false);
        match ended {
            Err(Error::LeaseLost) => {}
            _ => lease.release().await,
        }
        ended
    }

    /// Works until the end is asked for, and until what was begun has ended.
    async fn work(&self, client: Client, begun: Gate) -> Result<(), Error> {
        let Self { config, metrics, readiness, shutdown, cluster, webhook } = self;
        metrics.leader(true);
        let gates = start::Gates::new(readiness);
        drop(begun);
        let capabilities = tokio::select! {
            capabilities = crate::cluster::capabilities(&client) => {
                capabilities.map_err(|error| self.unreachable(error))?
            }
            () = shutdown.cancelled() => return Ok(()),
        };
        let (url, version) = (cluster.cluster_url.to_string(), &capabilities.kube_version);
        tracing::info!(url, version, holder = config.holder, "connected");
        let of = (metrics, webhook.as_ref());
        let working = start::work(config, client, capabilities, of, gates, shutdown.clone());
        tokio::select! {
            ended = working => ended,
            // While it starts nothing of ours is half done; once it runs, `working` ends by itself.
            () = start::abandoned(readiness, shutdown) => Ok(()),
        }
    }
}
