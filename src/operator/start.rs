//! Brings an operator from a connected client to a running controller, in the order that makes a restart cheap.
//!
//! The newest records are listed once and what they expect of their objects is noted before the first kind is
//! watched: then one list of each kind shows all drift that was made while nobody looked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use futures::channel::mpsc;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::report::Outside;
use super::server::{Gate, Readiness};
use super::{Config, Error, controller};
use crate::api::{Policy, SherpackRelease};
use crate::cluster::{Cluster, describe};
use crate::reconcile::{Context, Memory, Packs, slim_head};
use crate::release::{ReleaseKey, State};
use crate::render::Capabilities;
use crate::storage::{self, Head, MacKey, Records, SecretRecords};
use crate::watch::{ObjectWatches, OnRestart, RecordWatch, RecordsOf, ReferenceWatch};

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
    metrics: &Arc<Metrics>,
    gates: Gates,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let Gates { crd, key: key_gate, records: records_gate, releases: releases_gate } = gates;
    await_crd(&client, config).await;
    drop(crd);
    let key = load_key(&client, config).await;
    drop(key_gate);

    let (wake_tx, wake_rx) = mpsc::unbounded();
    let on_restart: OnRestart = {
        let metrics = Arc::clone(metrics);
        Arc::new(move |kind| metrics.watch_restarted(kind))
    };
    let records = SecretRecords::new(client.clone(), key);
    let objects = ObjectWatches::new(client.clone(), wake_tx.clone(), Arc::clone(&on_restart));
    let (preloaded, outdated) = preload(&records, &objects).await;
    let record_watch = RecordWatch::start(client.clone(), wake_tx.clone(), Arc::clone(&on_restart));
    record_watch.listed().await;
    drop(records_gate);

    let runs = controller::new(client.clone(), config);
    let releases = runs.store();
    let report = Outside::start(client.clone(), config.holder.clone(), Arc::clone(metrics), shutdown.clone());
    let ctx = Arc::new(Context {
        cluster: Arc::new(Cluster::new(client.clone())),
        records,
        objects,
        record_watch,
        references: ReferenceWatch::new(client, wake_tx, on_restart),
        packs: Packs::default(),
        pack_dir: config.pack_dir.clone(),
        releases: releases.clone(),
        memory: Memory::default(),
        preloaded: Mutex::new(preloaded),
        outdated: Mutex::new(outdated),
        capabilities: Arc::new(capabilities),
        allowed_lookups: config.allow_lookup.clone().into(),
        policy: Policy { pack_dir_enabled: config.pack_dir.is_some() },
        holder: config.holder.clone(),
        report: Arc::new(report),
    });
    metrics.leader(true);
    let ready = async move {
        // The writer lives in the controller; when that is gone the process is stopping.
        let _ = releases.wait_until_ready().await;
        drop(releases_gate);
        tracing::info!("ready");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = controller::run(runs, ctx, wake_rx, Arc::clone(metrics), shutdown) => Ok(()),
        () = ready => Ok(()),
    }
}

/// What templates are told of the cluster: its version and the group versions that it serves, as of now.
///
/// # Errors
/// The API server does not answer, or not with that.
pub(super) async fn capabilities(client: &Client) -> kube::Result<Capabilities> {
    let kube_version = client.apiserver_version().await?.git_version;
    let mut api_versions = client.list_core_api_versions().await?.versions;
    let groups = client.list_api_groups().await?.groups;
    api_versions
        .extend(groups.into_iter().flat_map(|group| group.versions).map(|served| served.group_version));
    api_versions.sort();
    Ok(Capabilities { kube_version, api_versions })
}

/// Waits until the API server serves SherpackRelease to us.
async fn await_crd(client: &Client, config: &Config) {
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
}

/// Without the key no record can be told from a forged one, so nothing begins before it is there.
async fn load_key(client: &Client, config: &Config) -> MacKey {
    let mut said = false;
    loop {
        match storage::load_key(client, &config.operator_namespace).await {
            Ok(key) => return key,
            Err(error) => {
                if !said {
                    tracing::warn!(%error, namespace = config.operator_namespace, "the key of the revision records cannot be read or made: trying again");
                    said = true;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// Lists the newest records and notes what the deployed ones expect of their objects.
///
/// Gives the newest record of each name, and the older revisions that still call themselves the newest.
async fn preload(
    records: &SecretRecords,
    objects: &ObjectWatches,
) -> (HashMap<RecordsOf, Head>, HashMap<RecordsOf, Vec<u32>>) {
    let mut said = false;
    let heads = loop {
        match records.heads(None).map_ok(slim_head).try_collect::<Vec<Head>>().await {
            Ok(heads) => break heads,
            Err(error) => {
                if !said {
                    tracing::warn!(%error, "the revision records cannot be listed: trying again");
                    said = true;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    };
    let mut newest: HashMap<RecordsOf, Head> = HashMap::new();
    let mut outdated: HashMap<RecordsOf, Vec<u32>> = HashMap::new();
    for head in heads {
        // One that cannot be read is read again, and explained, by the pass of its release.
        let Some(stored) = head.stored() else { continue };
        let of = (stored.namespace.clone(), stored.record.name.clone());
        let older = newest.get(&of).is_some_and(|known| known.revision() >= head.revision());
        let out = if older { Some(head) } else { newest.insert(of.clone(), head) };
        outdated.entry(of).or_default().extend(out.and_then(|head| head.revision()));
    }
    let mut table = objects.table();
    for stored in newest.values().filter_map(Head::stored) {
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
    outdated.retain(|_, revisions| !revisions.is_empty());
    (newest, outdated)
}
