//! The operator process: wires the parts together, starts them, stops them.
//!
//! Imports everything below. Invariant: decides nothing about a release.

pub mod config;
mod controller;
mod error;
pub mod metrics;
mod report;
pub mod server;
pub mod shutdown;
mod start;
pub mod telemetry;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use config::Config;
pub use error::Error;
use metrics::Metrics;
use server::{Readiness, Server};

use crate::cluster::client::{self, ApiObserver};

/// Runs an operator until `shutdown` is cancelled.
///
/// # Errors
/// What stands in the way of a start: no cluster configuration, an address in use, an API server that
/// does not answer. After the start nothing but a broken part ends it.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new()?);
    let readiness = Readiness::default();
    let gates = start::Gates::new(&readiness);

    let listen = |source| Error::Listen { address: config.listen, source };
    let server = Server::bind(config.listen).await.map_err(listen)?;
    tracing::info!(address = %server.address(), "listening");
    let serving = tokio::spawn(server.serve(Arc::clone(&metrics), readiness.clone(), shutdown.clone()));

    let cluster =
        client::load_config(config.cluster.kubeconfig.as_deref(), config.cluster.context.as_deref())
            .await
            .map_err(|error| Error::NoCluster(Box::new(error)))?;
    let url = cluster.cluster_url.to_string();
    let unreachable = |error| Error::Unreachable { url: url.clone(), source: Box::new(error) };
    let observer = Arc::clone(&metrics) as Arc<dyn ApiObserver>;
    let client = client::build_through(cluster, observer, config.through.clone()).map_err(unreachable)?;
    let capabilities = tokio::select! {
        capabilities = start::capabilities(&client) => capabilities.map_err(unreachable)?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tracing::info!(url, version = capabilities.kube_version, holder = config.holder, "connected");

    let working = start::work(&config, client, capabilities, &metrics, gates, shutdown.clone());
    tokio::select! {
        ended = working => ended?,
        // While it starts nothing of ours is half done; once it runs, `working` ends by itself.
        () = start::abandoned(&readiness, &shutdown) => {}
    }
    // A server task that was aborted or panicked has nothing left to finish.
    if let Ok(ended) = serving.await {
        ended.map_err(|source| Error::System { what: "the listener", source })?;
    }
    Ok(())
}
