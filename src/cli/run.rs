//! `run`: reads flags and environment, starts the runtime and the operator.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::BoolishValueParser;

use crate::api::{self, duration};
use crate::cluster::client::Proxies;
use crate::manifest::yaml;
use crate::operator::config::{Cluster, Config, MetricsAuth};
use crate::operator::lease::Timing;
use crate::operator::{self, shutdown, telemetry};
use crate::source::http::{Allowed, Options};

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

    /// Fetch packs from this host whatever its address is, and tell in full why one cannot be had; repeatable
    ///
    /// Behind a proxy, the proxy is told the name of such a host and not the address that was checked, so also one that
    /// only the proxy can resolve is found. Probes ask such an address, too.
    #[arg(long, env = "SHERPACK_ALLOW_SOURCE", value_name = "HOST[:PORT]", value_delimiter = ',')]
    allow_source: Vec<Allowed>,

    /// Fetch no packs from private addresses and from Services of the cluster, unless --allow-source names the host
    /// [default: true with --tenancy=multi, else false]
    #[arg(long, env = "SHERPACK_DENY_PRIVATE_SOURCES", value_name = "BOOL", value_parser = BoolishValueParser::new(), num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    deny_private_sources: Option<bool>,

    /// Directory for fetched packs [default: sherpack-operator in the directory for temporary files]
    ///
    /// It may be lost at any time, which costs fetches, and shared by several processes of one user. When it cannot be
    /// written, fetched packs are kept in memory.
    #[arg(long, env = "SHERPACK_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,

    /// What fetched packs may take in that directory, at least 32Mi
    #[arg(long, env = "SHERPACK_CACHE_SIZE", value_name = "SIZE", default_value = "256Mi", value_parser = cache_size)]
    cache_size: u64,
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

    /// none: anyone may read /metrics, beside /livez. token: over https at --metrics-listen, for clients with a bearer token
    /// that the API server knows (TokenReview) and allows to get /metrics (SubjectAccessReview)
    #[arg(long, env = "SHERPACK_METRICS_AUTH", value_enum, default_value = "none")]
    metrics_auth: Auth,

    /// Address of /metrics with --metrics-auth=token; port 0 takes a free one and logs it
    #[arg(
        long,
        env = "SHERPACK_METRICS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:8443"
    )]
    metrics_listen: SocketAddr,

    /// Directory with the certificate of /metrics, tls.crt and tls.key, which may be replaced at any time [default: one that
    /// is made at the start and self-signed]
    #[arg(long, env = "SHERPACK_METRICS_CERT_DIR", value_name = "DIR")]
    metrics_cert_dir: Option<PathBuf>,

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

    /// Act only while holding the leader lease, for several replicas of which one acts
    ///
    /// The Lease is in the operator's namespace and named sherpack-operator, with the watched namespace and a digest of the
    /// label selector behind it if there are such. A process that loses it ends with an error and has to be started again.
    #[arg(long, env = "SHERPACK_LEADER_ELECT", value_parser = BoolishValueParser::new())]
    leader_elect: bool,

    /// How long the others leave a lease alone that its holder does not renew
    #[arg(long, env = "SHERPACK_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    leader_elect_lease_duration: Duration,

    /// How long the holder acts without a renewal; together with the request timeout less than the lease duration
    #[arg(long, env = "SHERPACK_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    leader_elect_renew_deadline: Duration,

    /// Between two renewals, and between two tries to get the lease
    #[arg(long, env = "SHERPACK_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    leader_elect_retry_period: Duration,

    /// What one request for the lease may take
    #[arg(long, env = "SHERPACK_LEADER_ELECT_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "4s", value_parser = duration::parse)]
    leader_elect_request_timeout: Duration,

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
        allow_source,
        deny_private_sources,
        cache_dir,
        cache_size,
        storage_dir,
        storage_namespaces,
        allow_lookup,
        default_service_account,
        tenancy,
        trust_pack_crds,
        drift_ignore,
        memory_budget,
        lock_objects,
        allow_lock_as_operator,
        concurrency,
        listen,
        metrics_auth,
        metrics_listen,
        metrics_cert_dir,
        log_format: _,
        log_level: _,
        kubeconfig,
        context,
        leader_elect,
        leader_elect_lease_duration,
        leader_elect_renew_deadline,
        leader_elect_retry_period,
        leader_elect_request_timeout,
        holder,
        worker_threads: _,
    } = args;
    // Checked even when it is off: a user who turns it on later shall not be surprised.
    let timing = Timing::new(
        leader_elect_lease_duration,
        leader_elect_renew_deadline,
        leader_elect_retry_period,
        leader_elect_request_timeout,
    )?;
    Ok(Config {
        cluster: Cluster { kubeconfig, context, proxies: proxies.clone() },
        watch_namespace: watch_namespace.map(|namespace| namespace.0),
        watch_labels: watch_label_selector,
        operator_namespace: operator_namespace.0,
        pack_dir,
        sources: Options {
            allow: allow_source,
            deny_private: deny_private_sources.unwrap_or(tenancy == Tenancy::Multi),
            // The API server tells.
            services: Vec::new(),
            proxies,
            cache_dir: Some(cache_dir.unwrap_or_else(|| std::env::temp_dir().join("sherpack-operator"))),
            cache_bytes: cache_size,
        },
        storage_dir,
        storage_namespaces: storage_namespaces.into_iter().map(|namespace| namespace.0).collect(),
        allow_lookup: allow_lookup.into_iter().map(|namespace| namespace.0).collect(),
        default_service_account: default_service_account.map(|account| account.0),
        tenancy: match tenancy {
            Tenancy::Single => api::Tenancy::Single,
            Tenancy::Multi => api::Tenancy::Multi,
        },
        trust_pack_crds,
        ignore: drift_ignore.map(|rules| rules.0).unwrap_or_default(),
        memory_budget,
        lock: api::LockPolicy { objects: lock_objects.get(), as_operator: allow_lock_as_operator },
        concurrency,
        listen,
        metrics_auth: match metrics_auth {
            Auth::None => MetricsAuth::None,
            Auth::Token => MetricsAuth::Token { listen: metrics_listen, certificates: metrics_cert_dir },
        },
        leader_election: leader_elect.then_some(timing),
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

/// A DNS label, as the API server wants it of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Namespace(String);

fn namespace(text: &str) -> Result<Namespace, String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    if bytes.len() <= 63 && bytes.iter().all(|byte| inner(*byte)) && edge(bytes.first()) && edge(bytes.last())
    {
        return Ok(Namespace(text.to_owned()));
    }
    Err("a namespace has 1 to 63 characters of a-z, 0-9 and -, with no - at an end".to_owned())
}

/// The name of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account(String);

fn account(text: &str) -> Result<Account, String> {
    if api::is_account_name(text) {
        return Ok(Account(text.to_owned()));
    }
    Err("a service account has 1 to 253 characters of a-z, 0-9, - and dots".to_owned())
}

/// Rules of what is left to others.
#[derive(Clone, Debug, PartialEq)]
struct IgnoreRules(Vec<Arc<api::IgnoreRule>>);

fn ignore_rules(text: &str) -> Result<IgnoreRules, String> {
    let value = yaml::parse_value(text, "the rules").map_err(|error| error.to_string())?;
    let written: Vec<api::DriftIgnore> =
        serde_json::from_value(value).map_err(|error| format!("no list of rules: {error}"))?;
    let parsed = written.iter().enumerate().map(|(at, rule)| {
        let bad = |bad: api::BadRule| match bad.field.as_str() {
            "" => format!("[{at}] {}", bad.message),
            field => format!("[{at}].{field}: {}", bad.message),
        };
        api::IgnoreRule::parse(rule).map(Arc::new).map_err(bad)
    });
    parsed.collect::<Result<_, _>>().map(IgnoreRules)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tenancy {
    Single,
    Multi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Auth {
    None,
    Token,
}

/// Room for a few of the largest packs.
const CACHE_MIN: u64 = 32 << 20;

fn cache_size(text: &str) -> Result<u64, String> {
    size(text, CACHE_MIN)
}

/// Room for the largest manifest that is not worked with alone by design.
const MEMORY_MIN: u64 = 16 << 20;

fn memory_budget(text: &str) -> Result<u64, String> {
    size(text, MEMORY_MIN)
}

/// A number of bytes, in Ki, Mi, Gi or Ti if that is said.
fn size(text: &str, least: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        _ => return Err("a size is a number of bytes, such as 268435456, 256Mi or 2Gi".to_owned()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= least => Ok(bytes),
        Some(_) => Err(format!("it must be at least {}Mi", least >> 20)),
        None => Err("a size is a number of bytes, such as 268435456, 256Mi or 2Gi".to_owned()),
    }
}

fn namespace_or_all(text: &str) -> Result<Namespace, String> {
    if text == "*" { Ok(Namespace(text.to_owned())) } else { namespace(text) }
}

fn holder(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && text.chars().all(|letter| letter.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err("a holder has 1 to 200 visible ASCII characters".to_owned())
}

/// In a container the process id is always 1 and a restart keeps the host name: the random part
/// tells a process from its predecessor.
fn default_holder() -> String {
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .unwrap_or_default();
    let mut random = [0; 4];
    // Without randomness the process id has to do; a name is no reason to fail.
    let _ = getrandom::fill(&mut random);
    holder_name(host.trim(), std::process::id(), u32::from_ne_bytes(random))
}

fn holder_name(host: &str, process: u32, random: u32) -> String {
    let host: String = host.chars().filter(char::is_ascii_graphic).take(150).collect();
    let host = if host.is_empty() { "unnamed" } else { &host };
    format!("{host}-{process}-{random:08x}")
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
