//! What an operator process is told at its start, checked and with defaults filled in.
//!
//! Imports api, cluster and source only. Invariant: nothing here was read from the environment; the command line did that.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use super::lease::Timing;
use crate::api::{IgnoreRule, LockPolicy, Tenancy};
use crate::cluster::client::{Proxies, Wrap};
use crate::source::http::Options;

/// The settings of one operator.
#[derive(Clone)]
pub struct Config {
    /// Where the API server and the credentials are found.
    pub cluster: Cluster,
    /// Only releases of this namespace are looked at; `None`: of all. Their objects may be elsewhere.
    pub watch_namespace: Option<String>,
    /// Only releases with such labels are worked on; `None`: all. The others are known, so that dependencies and ownership count.
    pub watch_labels: Option<kube::core::Selector>,
    /// Where the operator keeps what is its own: the key of the records' MAC, the lease.
    pub operator_namespace: String,
    /// The directory below which `spec.pack.path` is looked up; `None`: such releases are refused.
    pub pack_dir: Option<PathBuf>,
    /// How packs are fetched from URLs, and where they are kept.
    pub sources: Options,
    /// The directory of records that are kept in files; `None`: releases that want that are refused.
    pub storage_dir: Option<PathBuf>,
    /// Namespaces in which records of releases of other namespaces may be kept; `*` stands for all.
    pub storage_namespaces: Vec<String>,
    /// Namespaces that `lookup` of any release may read, beside its own; `*`: everything.
    pub allow_lookup: Vec<String>,
    /// The service account of releases that name none, in the namespace of each; `None`: they act as the operator.
    pub default_service_account: Option<String>,
    /// Whether every release needs a service account.
    pub tenancy: Tenancy,
    /// Whether a pack alone may have definitions changed at any cost, or deleted.
    pub trust_pack_crds: bool,
    /// Whether every pack has to be signed.
    pub require_signatures: bool,
    /// What of all releases is left to others, before what each says itself.
    pub ignore: Vec<Arc<IgnoreRule>>,
    /// Bytes that running operations may use together for manifests and objects.
    pub memory_budget: u64,
    /// What `spec.lock` may do.
    pub lock: LockPolicy,
    /// How many releases are worked on at once.
    pub concurrency: NonZeroUsize,
    /// Where `/livez`, `/readyz` and `/metrics` are served. Port 0: any free one; the log tells.
    pub listen: SocketAddr,
    /// Who may read `/metrics`.
    pub metrics_auth: MetricsAuth,
    /// Where webhooks are received; `None`: nowhere.
    pub webhook: Option<Webhook>,
    /// Several processes run and only the holder of the lease acts; `None`: this is the only one.
    pub leader_election: Option<Timing>,
    /// This process, told apart from every other one, also from its own predecessor in the same pod.
    pub holder: String,
    /// Put between the client and the API server. Only tests do.
    pub through: Option<Wrap>,
}

/// Where webhooks are received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Port 0: any free one; the log tells.
    pub listen: SocketAddr,
    /// Its files are the tokens, each for the namespace that it is called after, or `_all`.
    pub tokens: PathBuf,
}

/// Who may read `/metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricsAuth {
    /// Anyone, beside `/livez`.
    #[default]
    None,
    /// Whom the API server knows by a token and allows to, over TLS at an address of their own.
    Token {
        /// Port 0: any free one; the log tells.
        listen: SocketAddr,
        /// Holds `tls.crt` and `tls.key`; `None`: a certificate is made at the start.
        certificates: Option<PathBuf>,
    },
}

/// Where the API server and the credentials are found.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// This kubeconfig; `None`: as kubectl does it, else the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// This context of the kubeconfig; `None`: its current one.
    pub context: Option<String>,
    /// The proxies that the environment names.
    pub proxies: Proxies,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster,
            watch_namespace,
            watch_labels,
            operator_namespace,
            pack_dir,
            sources,
            storage_dir,
            storage_namespaces,
            allow_lookup,
            default_service_account,
            tenancy,
            trust_pack_crds,
            require_signatures,
            ignore,
            memory_budget,
            lock,
            concurrency,
            listen,
            metrics_auth,
            webhook,
            leader_election,
            holder,
            through,
        } = self;
        f.debug_struct("Config")
            .field("cluster", cluster)
            .field("watch_namespace", watch_namespace)
            .field("watch_labels", &watch_labels.as_ref().map(ToString::to_string))
            .field("operator_namespace", operator_namespace)
            .field("pack_dir", pack_dir)
            .field("sources", sources)
            .field("storage_dir", storage_dir)
            .field("storage_namespaces", storage_namespaces)
            .field("allow_lookup", allow_lookup)
            .field("default_service_account", default_service_account)
            .field("tenancy", tenancy)
            .field("trust_pack_crds", trust_pack_crds)
            .field("require_signatures", require_signatures)
            .field("ignore", ignore)
            .field("memory_budget", memory_budget)
            .field("lock", lock)
            .field("concurrency", concurrency)
            .field("listen", listen)
            .field("metrics_auth", metrics_auth)
            .field("webhook", webhook)
            .field("leader_election", leader_election)
            .field("holder", holder)
            .field("through", &through.is_some())
            .finish()
    }
}
