//! Brings an operator from a connected client to a running controller, in the order that makes a restart cheap.
//!
//! The newest records are listed once and what they expect of their objects is noted before the first kind is
//! watched: then one list of each kind shows all drift that was made while no operator ran.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use futures::channel::mpsc::{self, UnboundedSender};
use kube::api::ListParams;
use kube::runtime::reflector::Store;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::report::Outside;
use super::server::{Gate, Readiness};
use super::webhook::{Target, Webhook};
use super::{Config, Error, controller, keys};
use crate::api::{HistoryStorage, Policy, SherpackRelease};
use crate::cluster::{Cluster, describe, service_networks};
use crate::pack::Limits;
use crate::pack::render::Capabilities;
use crate::reconcile::{Budget, Calm, Context, LetGo, NameClaims, Packs, Rights, Sharing, ValuesKept, Walks};
use crate::release::{ReleaseKey, State};
use crate::source::cache::Cache;
use crate::source::fetch::{Fetcher, OnFetch};
use crate::source::http::{self, StatusClient};
use crate::storage::{self, AnyRecords, Keeping, Keys, Marked, Records, Stored, Stores};
use crate::watch::probe::Prober;
use crate::watch::{Dependencies, ObjectWatches, OnRestart, RecordWatch, RecordsOf, ReferenceWatch};

/// Between two looks for something that has to be there before work can begin.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What `/readyz` waits for.
pub(super) struct Gates {
    crd: Gate,
    key: Gate,
    records: Gate,
    releases: Gate,
}

impl Gates {
    pub(super) fn new(readiness: &Readiness) -> Self {
        Self {
            crd: readiness.gate("the CustomResourceDefinition of SherpackRelease"),
            key: readiness.gate("the key of the revision records"),
            records: readiness.gate("the revision records"),
            releases: readiness.gate("the releases"),
        }
    }
}

/// Ends when `shutdown` comes before everything is ready.
pub(super) async fn abandoned(readiness: &Readiness, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    if readiness.waiting_for().is_empty() {
        std::future::pending::<()>().await;
    }
}

/// Starts everything and runs until `shutdown`.
pub(super) async fn work(
    config: &Config,
    client: Client,
    capabilities: Capabilities,
    (metrics, webhook): (&Arc<Metrics>, Option<&Arc<Webhook>>),
    gates: Gates,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    await_crd(&client, config, gates.crd).await;
    let keys = Keys::from(keys::load(&client, config, &gates.key).await);
    drop(gates.key);

    let (wake_tx, wake_rx) = mpsc::unbounded();
    let on_restart = on_restart(metrics);
    let records = Stores::new(client.clone(), keys.clone(), config.storage_dir.clone());
    let watches = Watches::start(&client, &records, &wake_tx, &on_restart).await;
    drop(gates.records);

    let policy = policy(config);
    let dependencies = Arc::new(Dependencies::new(policy.clone(), wake_tx.clone()));
    let follow = watches.objects.follow();
    let runs = controller::new(client.clone(), config, policy.clone(), Arc::clone(&dependencies), follow);
    let releases = runs.store();
    let report = Outside::start(client.clone(), config.holder.clone(), Arc::clone(metrics), shutdown.clone());
    let keeper = keys::Keeper {
        client: client.clone(),
        namespace: config.operator_namespace.clone(),
        keys,
        releases: releases.clone(),
        wake_tx: wake_tx.clone(),
        on_restore: report.on_restore(),
    };
    let ctx = Context {
        as_operator: Arc::new(Cluster::new(client.clone())),
        rights: Rights::default(),
        records,
        objects: watches.objects,
        guards: watches.guards,
        record_watch: watches.records,
        packs: Packs::new(config.concurrency.get(), wake_tx.clone()),
        names: NameClaims::default(),
        sharing: Sharing::default(),
        walks: Walks::new(wake_tx.clone()),
        values: ValuesKept::default(),
        budget: Budget::new(config.memory_budget, wake_tx.clone()),
        fetcher: fetcher(config, &client, metrics, wake_tx.clone()).await,
        prober: Prober::new(StatusClient::new(&config.sources.allow), wake_tx.clone()),
        references: ReferenceWatch::new(client, wake_tx.clone(), on_restart),
        pack_dir: config.pack_dir.clone(),
        releases: releases.clone(),
        dependencies,
        let_go: LetGo::default(),
        calm: Calm::default(),
        preloaded: Mutex::new(watches.newest),
        outdated: Mutex::new(watches.outdated),
        capabilities: Arc::new(capabilities),
        policy,
        allowed_lookups: config.allow_lookup.clone().into(),
        holder: config.holder.clone(),
        report: Arc::new(report),
    };
    let _reached = webhook.map(|webhook| webhook.reaches(Target::of(&ctx, wake_tx)));
    tokio::select! {
        () = controller::run(runs, ctx, wake_rx, Arc::clone(metrics), shutdown) => Ok(()),
        () = announce(releases, gates.releases) => Ok(()),
        () = keeper.keep() => Ok(()),
    }
}

/// Opens the last gate when the releases are known. It never ends.
async fn announce(releases: Store<SherpackRelease>, gate: Gate) {
    // The writer lives in the controller; when that is gone the process is stopping.
    let _ = releases.wait_until_ready().await;
    drop(gate);
    tracing::info!("ready");
    std::future::pending::<()>().await;
}

fn on_restart(metrics: &Arc<Metrics>) -> OnRestart {
    let metrics = Arc::clone(metrics);
    Arc::new(move |kind| metrics.watch_restarted(kind))
}

/// What of the flags says what a release may ask for.
fn policy(config: &Config) -> Policy {
    Policy {
        pack_dir_enabled: config.pack_dir.is_some(),
        storage_dir_enabled: config.storage_dir.is_some(),
        storage_namespaces: config.storage_namespaces.clone(),
        watch_namespace: config.watch_namespace.clone(),
        watch_labels: config.watch_labels.clone(),
        default_service_account: config.default_service_account.clone(),
        tenancy: config.tenancy,
        require_signatures: config.require_signatures,
        trust_pack_crds: config.trust_pack_crds,
        ignore: config.ignore.clone(),
        lock: config.lock,
    }
}

/// The watches of records and objects, and what the list of records told at their start.
struct Watches {
    records: RecordWatch,
    objects: ObjectWatches,
    /// Of objects that other tools installed.
    guards: ObjectWatches,
    newest: HashMap<RecordsOf, Box<Stored>>,
    outdated: HashMap<RecordsOf, Vec<u32>>,
}

impl Watches {
    /// Lists the records before the first kind of object is watched, and ends when the watch of records has listed them as well.
    async fn start(
        client: &Client,
        stores: &Stores,
        wake_tx: &UnboundedSender<ReleaseKey>,
        on_restart: &OnRestart,
    ) -> Self {
        let objects = ObjectWatches::new(client.clone(), wake_tx.clone(), Arc::clone(on_restart));
        let guards = ObjectWatches::of_others(client.clone(), wake_tx.clone(), Arc::clone(on_restart));
        let Preloaded { newest, outdated, in_files } = preload(stores, &objects).await;
        let records = RecordWatch::start(client.clone(), wake_tx.clone(), Arc::clone(on_restart));
        for (of, revision, version) in in_files {
            // No watch tells of files.
            records.found(&of, revision, version);
        }
        records.listed().await;
        Self { records, objects, guards, newest, outdated }
    }
}

/// What fetches packs from URLs, with what earlier processes left in the cache.
async fn fetcher(
    config: &Config,
    client: &Client,
    metrics: &Arc<Metrics>,
    wake_tx: UnboundedSender<ReleaseKey>,
) -> Fetcher {
    let limits = Limits::default();
    let mut options = config.sources.clone();
    let (directory, bytes) = (options.cache_dir.clone(), options.cache_bytes);
    let opened =
        tokio::task::spawn_blocking(move || Cache::open(directory.as_deref(), bytes, limits.compressed));
    options.services = services(client).await;
    let cache = opened.await.unwrap_or_else(|_| Cache::open(None, 0, limits.compressed));
    let client = http::Client::new(&options, http::Timing::default(), &limits);
    let metrics = Arc::clone(metrics);
    let on_fetch: OnFetch = Arc::new(move |kind, outcome| metrics.source_fetched(kind, outcome));
    Fetcher::new(client, Arc::new(cache), wake_tx, on_fetch)
}

/// The networks of the cluster's Services. One that is added later is known to the next process.
async fn services(client: &Client) -> Vec<http::Network> {
    match service_networks(client).await {
        Ok(networks) => networks.iter().filter_map(|network| network.parse().ok()).collect(),
        Err(error) => {
            tracing::warn!(
                error = describe(&error),
                "ServiceCIDRs cannot be listed: as a source, the address of a Service is not told from a public one unless it is private"
            );
            Vec::new()
        }
    }
}

/// Waits until the API server serves SherpackRelease to us, and opens the gate then.
async fn await_crd(client: &Client, config: &Config, gate: Gate) {
    let api: Api<SherpackRelease> = match &config.watch_namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut said = false;
    while let Err(error) = api.list_metadata(&ListParams::default().limit(1)).await {
        if !said {
            tracing::warn!(
                error = describe(&error),
                "SherpackRelease cannot be listed: waiting until its CustomResourceDefinition is installed"
            );
            said = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    drop(gate);
}

/// What the lists of newest records told. Of records that this operator has not sealed nothing is kept.
#[derive(Default)]
struct Preloaded {
    /// The newest record of each name, slim.
    newest: HashMap<RecordsOf, Box<Stored>>,
    /// Older revisions that still call themselves the newest.
    outdated: HashMap<RecordsOf, Vec<u32>>,
    /// Revision and version of those in files, also of unreadable ones.
    in_files: Vec<(RecordsOf, u32, u64)>,
}

/// Lists the newest records and notes what the deployed ones expect of their objects.
async fn preload(stores: &Stores, objects: &ObjectWatches) -> Preloaded {
    let mut preloaded = Preloaded::default();
    for storage in stores.kinds() {
        let (heads, outdated) = heads(stores, storage).await;
        for (of, Head { revision, sealed }) in heads {
            if storage == HistoryStorage::File {
                let version = sealed.as_ref().and_then(|stored| stored.resource_version.parse().ok());
                preloaded.in_files.push((of.clone(), revision, version.unwrap_or(0)));
            }
            // One of another tool, or one that cannot be read, is read and explained by the pass of its release.
            preloaded.newest.extend(sealed.map(|stored| (of, stored)));
        }
        preloaded.outdated.extend(outdated);
    }
    let Preloaded { newest, outdated, .. } = &mut preloaded;
    outdated.retain(|of, _| newest.contains_key(of));
    let mut table = objects.table();
    for stored in newest.values() {
        let Some(private) = stored.private.as_ref().filter(|_| stored.record.state == State::Deployed) else {
            continue;
        };
        let owner =
            ReleaseKey { namespace: private.owner.namespace.clone(), name: private.owner.name.clone() };
        for entry in &private.inventory {
            if table.track(&owner, &entry.id).is_ok() {
                table.expect(&entry.id, entry.fingerprint.clone(), entry.uid.clone());
            }
        }
    }
    drop(table);
    preloaded
}

/// The newest record of a name, as far as one list has shown it.
struct Head {
    revision: u32,
    /// Unless this operator has not sealed it.
    sealed: Option<Box<Stored>>,
}

type Heads = (HashMap<RecordsOf, Head>, HashMap<RecordsOf, Vec<u32>>);

/// The newest records in one kind of place, and the older ones beside them.
async fn heads(stores: &Stores, storage: HistoryStorage) -> Heads {
    let records = stores.of(&Keeping { storage, ..Keeping::default() });
    let mut said = false;
    loop {
        match listed(&records, storage).await {
            Ok(heads) => return heads,
            Err(error) => {
                if !said {
                    tracing::warn!(%error, ?storage, "the revision records cannot be listed: trying again");
                    said = true;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

async fn listed(records: &AnyRecords, storage: HistoryStorage) -> Result<Heads, storage::Error> {
    let (mut newest, mut outdated) = Heads::default();
    let mut heads = std::pin::pin!(records.heads(None));
    while let Some(Marked { namespace, stem, revision, sealed }) = heads.try_next().await? {
        let of = RecordsOf { storage, namespace, stem };
        let known: Option<&Head> = newest.get(&of);
        let older = known.is_some_and(|known| known.revision >= revision);
        let head = Head { revision, sealed };
        let out = if older { Some(head) } else { newest.insert(of.clone(), head) };
        if let Some(out) = out {
            outdated.entry(of).or_default().push(out.revision);
        }
    }
    Ok((newest, outdated))
}
