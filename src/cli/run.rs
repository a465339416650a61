//! `run`: reads flags and environment, starts the runtime and the operator.

mod holder;
mod lease;
mod metrics;
mod sources;
mod values;
mod webhook;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::BoolishValueParser;

use self::holder::{default_holder, holder};
use self::values::{
    Account, IgnoreRules, Namespace, Tenancy, account, ignore_rules, memory_budget, namespace,
    namespace_or_all,
};
use crate::api;
use crate::cluster::client::Proxies;
use crate::operator::config::{Cluster, Config};
use crate::operator::{self, shutdown, telemetry};

/// Run the operator until SIGTERM or SIGINT.
///
/// Every flag has an environment variable; the flag wins. Logs go to stderr. Packs are fetched through the proxies that
/// HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY name, and the API server is asked through those of HTTPS_PROXY, HTTP_PROXY
/// and NO_PROXY unless the kubeconfig names one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Look only at the SherpackReleases of this namespace [default: of all namespaces]
    #[arg(long, env = "SHERPACK_WATCH_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    watch_namespace: Option<Namespace>,

    /// Work only on the SherpackReleases with such labels, such as `shard=a` [default: on all]
    ///
    /// One of several operators that share the releases; with --leader-elect each selector has a lease of its own. Every
    /// release has to be of exactly one of them: one that none selects is left alone, its objects unlocked.
    #[arg(long, env = "SHERPACK_WATCH_LABEL_SELECTOR", value_name = "SELECTOR", value_parser = api::selector::parse)]
    watch_label_selector: Option<kube::core::Selector>,

    /// Where the operator keeps what is its own: the key that signs revision records, its lease
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "sherpack-system", value_parser = namespace)]
    operator_namespace: Namespace,

    /// Directory below which `spec.pack.path` is looked up [default: such releases are refused]
    #[arg(long, env = "SHERPACK_PACK_DIR", value_name = "DIR")]
    pack_dir: Option<PathBuf>,

    #[command(flatten)]
    sources: sources::Flags,

    /// Directory of the revisions of releases with `spec.history.storage: File` [default: such releases are refused]
    #[arg(long, env = "SHERPACK_STORAGE_DIR", value_name = "DIR")]
    storage_dir: Option<PathBuf>,

    /// Allow `spec.history.namespace` to be this one, besides the release's target; `*` allows all. Can be repeated
    #[arg(long = "allow-storage-namespace", env = "SHERPACK_ALLOW_STORAGE_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace_or_all)]
    storage_namespaces: Vec<Namespace>,
    /// Namespace that `lookup` in templates may read, beside the target namespace and the one of the release; may be
    /// repeated. `*` is all of them and kinds without a namespace [default: none]
    #[arg(long, env = "SHERPACK_ALLOW_LOOKUP", value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace_or_all)]
    allow_lookup: Vec<Namespace>,

    /// Service account of releases without `spec.serviceAccountName`, in the namespace of each [default: they are worked
    /// on as the operator]
    #[arg(long, env = "SHERPACK_DEFAULT_SERVICE_ACCOUNT", value_name = "NAME", value_parser = account)]
    default_service_account: Option<Account>,

    /// single: a release without a service account is worked on as the operator. multi: it is refused, and so are
    /// references to other namespaces
    #[arg(long, env = "SHERPACK_TENANCY", value_enum, default_value = "single")]
    tenancy: Tenancy,

    /// Believes a pack that wants definitions of resources changed at any cost (`upgrade.strategy: force`) or deleted with the
    /// release (`uninstall.keep: false`) in its Pack.yaml; otherwise only the release can say so
    #[arg(long, env = "SHERPACK_TRUST_PACK_CRDS")]
    trust_pack_crds: bool,

    /// Takes only packs that are signed: every release names keys in `spec.pack.verify`, or takes an artifact that Flux has
    /// verified
    #[arg(long, env = "SHERPACK_REQUIRE_SIGNATURES")]
    require_signatures: bool,

    /// What others may change of any release, before what each says in `spec.drift.ignore`: a list of such rules as YAML or
    /// JSON, such as `[{target: {kind: Deployment}, paths: [/spec/replicas]}]` [default: nothing]
    #[arg(long, env = "SHERPACK_DRIFT_IGNORE", value_name = "RULES", value_parser = ignore_rules)]
    drift_ignore: Option<IgnoreRules>,

    /// Memory that running operations may use together for manifests and objects, at least 16Mi
    ///
    /// An operation that needs more than is free waits for it, and one that needs more than all of it works alone. A quarter of
    /// it is for putting drift back. One namespace has half of either part. An operation that waits for health holds nothing.
    #[arg(long, env = "SHERPACK_MEMORY_BUDGET", value_name = "SIZE", default_value = "128Mi", value_parser = memory_budget)]
    memory_budget: u64,

    /// Objects that one `spec.lock` may have; beyond that nothing of it is locked (`LockTooLarge`)
    #[arg(long, env = "SHERPACK_LOCK_OBJECTS", value_name = "N", default_value = "1000")]
    lock_objects: NonZeroUsize,

    /// Lets a `spec.lock` without a service account write, as the operator, objects without a namespace, in other namespaces
    /// than its records, and those that give rights
    ///
    /// Then each user who may write Secrets where the records are may have the operator write any of these.
    #[arg(long, env = "SHERPACK_ALLOW_LOCK_AS_OPERATOR", value_parser = BoolishValueParser::new())]
    allow_lock_as_operator: bool,

    /// Releases worked on at once
    #[arg(long, env = "SHERPACK_CONCURRENCY", value_name = "N", default_value = "10")]
    concurrency: NonZeroUsize,

    /// Address of /livez, /readyz and /metrics; port 0 takes a free one and logs it
    #[arg(long, env = "SHERPACK_LISTEN", value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,

    #[command(flatten)]
    metrics: metrics::Flags,

    #[command(flatten)]
    webhook: webhook::Flags,

    /// Look of the log lines
    #[arg(long, env = "SHERPACK_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: telemetry::Format,

    /// off, error, warn, info, debug, trace, or a filter like `info,sherpack_operator::watch=debug`
    #[arg(long, env = "SHERPACK_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    log_level: String,

    /// Use this kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
    #[arg(long, env = "SHERPACK_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Use this context of the kubeconfig [default: its current context]
    #[arg(long, env = "SHERPACK_CONTEXT", value_name = "NAME")]
    context: Option<String>,

    #[command(flatten)]
    lease: lease::Flags,

    /// Name of this process in records and in the lease [default: host, process id and a random part]
    #[arg(long, env = "SHERPACK_HOLDER", value_name = "NAME", value_parser = holder)]
    holder: Option<String>,

    /// Threads of the async runtime
    #[arg(long, env = "SHERPACK_WORKER_THREADS", value_name = "N", default_value = "2")]
    worker_threads: NonZeroUsize,
}

/// Part of the grace period that is kept for threads that still block when everything else has ended.
const THREADS_GRACE: Duration = Duration::from_secs(1);

pub(super) fn run(args: Args) -> ExitCode {
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(error.as_ref());
            ExitCode::from(2)
        }
    }
}

fn start(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    telemetry::install(args.log_format, &args.log_level)?;
    let runtime = operator::runtime(args.worker_threads)
        .map_err(|source| operator::Error::System { what: "threads for the async runtime", source })?;
    let config = config(args, Proxies::of_environment(), default_holder)?;
    let result = runtime.block_on(async {
        let asked = shutdown::on_signals()
            .map_err(|source| operator::Error::System { what: "a signal handler", source })?;
        let overdue = async {
            asked.cancelled().await;
            tokio::time::sleep(shutdown::GRACE.saturating_sub(THREADS_GRACE)).await;
        };
        tokio::select! {
            ended = operator::run(config, asked.clone()) => ended,
            () = overdue => Err(operator::Error::ShutdownOverdue { seconds: shutdown::GRACE.as_secs() }),
        }
    });
    runtime.shutdown_timeout(THREADS_GRACE);
    Ok(result?)
}

fn config(
    args: Args,
    proxies: Proxies,
    default_holder: impl FnOnce() -> String,
) -> Result<Config, operator::Error> {
    let Args {
        watch_namespace,
        watch_label_selector,
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
        drift_ignore,
        memory_budget,
        lock_objects,
        allow_lock_as_operator,
        concurrency,
        listen,
        metrics,
        webhook,
        log_format: _,
        log_level: _,
        kubeconfig,
        context,
        lease,
        holder,
        worker_threads: _,
    } = args;
    let tenancy = tenancy.into();
    Ok(Config {
        leader_election: lease.timing()?,
        cluster: Cluster { kubeconfig, context, proxies: proxies.clone() },
        watch_namespace: watch_namespace.map(|namespace| namespace.0),
        watch_labels: watch_label_selector,
        operator_namespace: operator_namespace.0,
        pack_dir,
        sources: sources.options(tenancy, proxies),
        storage_dir,
        storage_namespaces: storage_namespaces.into_iter().map(|namespace| namespace.0).collect(),
        allow_lookup: allow_lookup.into_iter().map(|namespace| namespace.0).collect(),
        default_service_account: default_service_account.map(|account| account.0),
        tenancy,
        trust_pack_crds,
        require_signatures,
        ignore: drift_ignore.map(|rules| rules.0).unwrap_or_default(),
        memory_budget,
        lock: api::LockPolicy { objects: lock_objects.get(), as_operator: allow_lock_as_operator },
        concurrency,
        listen,
        metrics_auth: metrics.auth(),
        webhook: webhook.config(),
        holder: holder.unwrap_or_else(default_holder),
        through: None,
    })
}

/// The error and its causes on one line of stderr. A cause that only repeats is left out.
#[allow(clippy::print_stderr)] // Logs may be off or not set up yet; why the process ends must be seen.
fn report(error: &dyn std::error::Error) {
    eprintln!("error: {}", telemetry::on_one_line(&explain(error)));
}

fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = error.to_string();
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
