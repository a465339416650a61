//! What the commands that ask a cluster share.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::Value;

use super::output::answer::Failure;
use crate::api::{SherpackRelease, names};
use crate::cluster::client::{self, ApiObserver, Proxies};
use crate::cluster::{describe, status_code};
use crate::storage::Keeping;

/// Releases in one page of a list.
const PAGE: u32 = 100;

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
        let (kubeconfig, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        let proxies = Proxies::of_environment();
        let config = client::load_config(kubeconfig, context, &proxies).await.map_err(failed)?;
        let namespace = config.default_namespace.clone();
        Ok((client::build(config, Arc::new(Uncounted)).map_err(failed)?, namespace))
    }
}

/// Which release.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Name of the SherpackRelease
    pub(super) release: String,
    /// Its namespace [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Where the release is, with a client to ask.
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Target {
    pub(super) async fn open(&self) -> Result<Place, String> {
        let (client, default_namespace) = self.connection.open().await?;
        let namespace = self.namespace.clone().unwrap_or(default_namespace);
        Ok(Place { client, namespace, name: self.release.clone() })
    }
}

impl Place {
    pub(super) fn api(&self) -> Api<SherpackRelease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// `namespace/name`.
    pub(super) fn what(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(super) async fn release(&self) -> Result<SherpackRelease, Failure> {
        let found = self.api().get_opt(&self.name).await;
        let found =
            found.map_err(|error| format!("SherpackRelease {}: {}", self.what(), describe(&error)))?;
        found.ok_or_else(|| Failure::finding(format!("there is no SherpackRelease {}", self.what())))
    }

    /// Changes the release by a merge patch of the field manager that owns what people ask for.
    pub(super) async fn change(&self, patch: Value) -> Result<SherpackRelease, Failure> {
        let params =
            PatchParams { field_manager: Some(names::MANAGER_CLI.to_owned()), ..PatchParams::default() };
        let patched = self.api().patch(&self.name, &params, &Patch::Merge(patch)).await;
        patched.map_err(|error| format!("SherpackRelease {}: {}", self.what(), describe(&error)).into())
    }
}

/// Every release of a namespace, or of all, in pages.
pub(super) async fn releases(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<SherpackRelease>, Failure> {
    let api: Api<SherpackRelease> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let first = ListParams::default().limit(PAGE);
    let mut params = first.clone();
    let mut all = Vec::new();
    loop {
        match api.list(&params).await {
            Ok(page) => {
                all.extend(page.items);
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => return Ok(all),
                }
            }
            // The list grew too old between two pages: begin anew, in pages again.
            Err(error) if status_code(&error) == Some(410) && params.continue_token.is_some() => {
                params = first.clone();
                all.clear();
            }
            Err(error) => return Err(format!("SherpackReleases: {}", describe(&error)).into()),
        }
    }
}

/// The requests of a command are not counted.
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

/// A release as far as the API server tells it: one of another tool, or one that may not be read, has the names that were given.
pub(super) struct Named {
    pub(super) release: Option<SherpackRelease>,
    /// Of the release itself.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) keeping: Keeping,
}

impl Named {
    /// Looks a SherpackRelease up.
    ///
    /// # Errors
    /// What the API server answered, unless that is that there is none or that it may not be read.
    pub(super) async fn find(client: &Client, namespace: &str, name: &str) -> Result<Self, String> {
        let api: Api<SherpackRelease> = Api::namespaced(client.clone(), namespace);
        let release = match api.get_opt(name).await {
            Ok(release) => release,
            // A user who may read its record can look at it all the same; so can one whose definition is not installed.
            Err(error) if matches!(status_code(&error), Some(403 | 404)) => None,
            Err(error) => return Err(describe(&error)),
        };
        let named =
            |of: fn(&SherpackRelease) -> &str, given: &str| release.as_ref().map_or(given, of).to_owned();
        Ok(Self {
            namespace: named(SherpackRelease::target_namespace, namespace),
            name: named(SherpackRelease::release_name, name),
            keeping: release.as_ref().map(keeping).unwrap_or_default(),
            release,
        })
    }
}

pub(super) fn on_runtime<T, E: From<String>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no threads for the async runtime: {error}"))?;
    runtime.block_on(work)
}
