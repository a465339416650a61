//! What the commands that ask a cluster share.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;

use crate::api::SherpackRelease;
use crate::cluster::client::{self, ApiObserver};
use crate::cluster::describe;
use crate::storage::Keeping;

/// Which cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Connection {
    /// Use this kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
    #[arg(long, env = "SHERPACK_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Use this context of the kubeconfig [default: its current context]
    #[arg(long, env = "SHERPACK_CONTEXT", value_name = "NAME")]
    context: Option<String>,
}

impl Connection {
    /// A client, and the namespace that the kubeconfig's context names.
    pub(super) async fn open(&self) -> Result<(Client, String), String> {
        let failed = |error: kube::Error| format!("no connection to a cluster: {}", describe(&error));
        let config =
            client::load_config(self.kubeconfig.as_deref(), self.context.as_deref()).await.map_err(failed)?;
        let namespace = config.default_namespace.clone();
        Ok((client::build(config, Arc::new(Uncounted)).map_err(failed)?, namespace))
    }
}

/// Nobody counts the requests of a command.
struct Uncounted;

impl ApiObserver for Uncounted {
    fn record(&self, _verb: &'static str, _code: u16, _seconds: f64) {}
}

/// Where the records of a release are, and how new ones would be written.
pub(super) fn keeping(release: &SherpackRelease) -> Keeping {
    let history = release.spec.history.clone().unwrap_or_default();
    Keeping {
        storage: release.history_storage(),
        namespace: Some(release.history_namespace().to_owned()),
        compression: history.compression.unwrap_or_default().into(),
        large: history.large.unwrap_or_default().into(),
    }
}

pub(super) fn on_runtime<T, E: From<String>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no threads for the async runtime: {error}"))?;
    runtime.block_on(work)
}
