//! `make scale N=200`: how fast and how cheap the operator is, beside the same objects applied bare.
//!
//! A control plane with etcd waiting for the disk and no node; everything shares the machine's cores. In order: warm-up and bare
//! applies; then, on a fresh control plane, because what a Service costs grows with the Services that exist, warm-up, install, idle,
//! upgrade, drift, storm, dependents, restart, crowd; then, on a fresh one, the bare applies once more. A shared machine is at times
//! half as fast again as at others: what is compared with is the mean of both, and the story tells how fast the machine was in between.
//! Nothing is asserted about time; the run fails only when something does not
//! happen at all, or when the two counts of requests disagree.
//!
//! With SERVICE_ACCOUNT=1 every release but the first few is worked on as one account, with SERVICE_ACCOUNT=n as one of n. CRDS=500 NOISE=10000:
//! beside so many definitions, ConfigMaps and Secrets of others.

pub(crate) mod accounts;
mod counts;
mod crowd;
mod depends;
pub(crate) mod drift;
mod noise;
pub(crate) mod process;
mod report;
mod workload;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::failure::{During, Failure, Result, check};
use crate::operator::{self, Settings};
use crate::release;
use crate::sight::Sight;
use counts::{Operator as Counts, cross_check, quiet};
use process::Clock;
use report::Report;

/// Requests of this program under way at once, as the operator's own concurrency.
pub(crate) const CONCURRENCY: usize = 10;

/// No event for this long: something is broken.
const STANDSTILL: Duration = Duration::from_secs(120);

const NAMESPACE: &str = "load";
/// Of the first few releases.
const FIRST: &str = "first";
/// So many come before everything else: the API server fills its caches and opens its connections, and so does the operator.
const WARM_UP: usize = 10;
const PACK: &str = "podinfo";

fn from_env(name: &str, default: usize) -> Result<usize> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| Failure::new(format!("{name}={text} is not a number"))),
        Err(_) => Ok(default),
    }
}

/// One line of the run's story; stdout is kept for the result.
fn say(text: impl std::fmt::Display) {
    eprintln!("scale: {text}");
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100.0).round() / 100.0
}

pub(crate) async fn run() -> Result<()> {
    let n = from_env("N", 200)?;
    check(n > 0, || "N must be at least 1".to_owned())?;
    let idle = Duration::from_secs(from_env("IDLE_S", 60)? as u64);
    let accounts = from_env("SERVICE_ACCOUNT", 0)?;
    let start = || Cluster::start(&["-fsync", "-kwok=false"]);
    let cluster = start().await?;
    say(format!("control plane {} up, {n} releases to come", cluster.version().await?));
    let before = without_operator(&cluster, n).await?;
    cluster.end().await?;
    let cluster = start().await?;
    let client = cluster.client.clone();
    let settings = Settings::new(&cluster.kubeconfig, "sherpack-system", None, "scale.log")?;
    let asked = Asked { n, accounts, idle, definitions: from_env("CRDS", 0)?, noise: from_env("NOISE", 0)? };
    let measured = measure(&cluster, &client, &settings, &asked, &before).await;
    let mut report =
        measured.map_err(|failure| Failure::new(format!("{failure}\n{}", settings.log_tail())))?;
    cluster.end().await?;
    let cluster = start().await?;
    // What was measured so far is told even if this fails.
    let after = without_operator(&cluster, n).await;
    if let Ok(after) = &after {
        report.compare(&before, after);
    }
    let text = report.json()?;
    println!("{text}");
    let file = crate::cluster::root().join("target/scale.json");
    std::fs::write(&file, format!("{text}\n")).during(file.display())?;
    eprint!("{}", report.table());
    after?;
    cluster.end().await
}

/// What the environment asks for.
struct Asked {
    n: usize,
    accounts: usize,
    idle: Duration,
    /// Of others.
    definitions: usize,
    /// ConfigMaps and Secrets of others.
    noise: usize,
}

/// What everything is compared with.
pub(crate) struct ByHand {
    pub(crate) bare: workload::Bare,
    /// One object of every set once more, with another value.
    pub(crate) storm: Duration,
}

async fn without_operator(cluster: &Cluster, n: usize) -> Result<ByHand> {
    let (client, clock) = (&cluster.client, Clock::new(cluster));
    workload::apply_bare(client, "warm", WARM_UP).await?;
    tell_speed();
    let before = clock.read(None);
    let bare = workload::apply_bare(client, "bare", n).await?;
    let after = clock.read(None);
    let (objects, took) = (n * bare.objects, seconds(bare.took));
    say(format!("bare: {objects} objects applied in {took} s; CPU {}", after.since(&before)));
    workload::settle(client, "bare", n).await?;
    let storm = workload::apply_services(client, "bare", n).await?;
    say(format!("bare: {n} of them changed in {} s", seconds(storm)));
    Ok(ByHand { bare, storm })
}

#[expect(
    clippy::too_many_lines,
    reason = "one story from beginning to end: each figure is taken where its line stands"
)]
async fn measure(
    cluster: &Cluster,
    client: &Client,
    settings: &Settings,
    asked: &Asked,
    by_hand: &ByHand,
) -> Result<Report> {
    let Asked { n, accounts, idle, definitions, noise } = *asked;
    let clock = Clock::new(cluster);
    release::install_crd(client, &operator::output(&["crd"]).await?, None).await?;
    for namespace in ["sherpack-system", FIRST, NAMESPACE] {
        release::create_namespace(client, namespace).await?;
    }
    accounts::make(client, NAMESPACE, accounts).await?;
    noise::make(client, definitions, noise).await?;

    workload::apply_bare(client, "warm", WARM_UP).await?;
    workload::settle(client, "warm", WARM_UP).await?;

    for namespace in [FIRST, NAMESPACE] {
        release::store_pack(client, namespace, PACK, operator::package(PACK).await?).await?;
    }
    let mut operator = settings.spawn()?;
    operator.ready().await?;
    say(format!("operator ready {:.2} s after its start", operator.spawned.elapsed().as_secs_f64()));
    quiet(&operator).await?;
    let (rss_empty, _) = process::memory(operator.pid()?)?;
    install(client, FIRST, WARM_UP, 0).await?;
    let base = quiet(&operator).await?;
    let (rss_first, _) = process::memory(operator.pid()?)?;
    say(format!("memory: {rss_empty} MiB without releases, {rss_first} with {WARM_UP}"));
    tell_speed();
    let server_base = counts::server(client).await?;

    let before = clock.read(Some(operator.pid()?));
    let ready_s = seconds(install(client, NAMESPACE, n, accounts).await?);
    let after = clock.read(Some(operator.pid()?));
    say(format!("install: {n} releases Ready in {ready_s} s; CPU {}", after.since(&before)));
    let installed = quiet(&operator).await?;
    let install_counts = installed.minus(&base);
    say(format!("requests of the install: {install_counts}"));
    let server_installed = counts::server(client).await?;
    let seen = server_installed.minus(&server_base);
    say(format!("requests of all at the API server: {seen}"));
    cross_check(&install_counts, &seen, n)?;

    say(format!("idle for {} s", idle.as_secs()));
    let began = Instant::now();
    let before = Counts::read(&operator).await?;
    tokio::time::sleep(idle).await;
    let idle_counts = Counts::read(&operator).await?.minus(&before);
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let (rss_idle, peak_of_install) = process::memory(operator.pid()?)?;
    let connections = process::connections(operator.pid()?)?;
    say(format!("requests while idle: {idle_counts}"));

    tell_speed();
    let before = (Counts::read(&operator).await?, clock.read(Some(operator.pid()?)));
    let upgrade_s = seconds(upgrade(client, n).await?);
    let after = clock.read(Some(operator.pid()?));
    say(format!("upgrade: all Ready at revision 2 in {upgrade_s} s; CPU {}", after.since(&before.1)));
    let upgraded = quiet(&operator).await?;
    say(format!("requests of the upgrade: {}", upgraded.minus(&before.0)));
    say(format!(
        "requests of all at the API server: {}",
        counts::server(client).await?.minus(&server_installed)
    ));

    tell_speed();
    let deployments = drift::deployments(client, NAMESPACE, 100).await?;
    let services = drift::services(client, NAMESPACE, 50).await?;
    let at_once = drift::deployments_at_once(client, NAMESPACE, n.min(20)).await?;
    let drifted = quiet(&operator).await?;
    say(format!(
        "requests of {} reverts: {}",
        [&deployments, &services, &at_once].map(|reverts| reverts.latencies.count()).iter().sum::<usize>(),
        drifted.minus(&upgraded)
    ));
    tell_speed();
    let before = clock.read(Some(operator.pid()?));
    let storm = drift::storm(client, NAMESPACE, n).await?;
    let after = clock.read(Some(operator.pid()?));
    say(format!(
        "storm: {n} edits sent in {} s, the last one back after {} s; CPU {}",
        seconds(storm.edits),
        seconds(storm.reverted),
        after.since(&before)
    ));
    quiet(&operator).await?;
    let dependents = depends::measure(client, 20).await?;
    let (_, peak) = process::memory(operator.pid()?)?;
    say(format!("memory: at most {peak_of_install} MiB until all were installed, {peak} until now"));

    say(format!("operator stopped in {:.2} s", operator.stop().await?.as_secs_f64()));
    let stopped = counts::server(client).await?;
    let mut operator = settings.spawn()?;
    operator.ready().await?;
    say(format!("ready again {:.2} s after its start", operator.spawned.elapsed().as_secs_f64()));
    let restart = quiet(&operator).await?;
    say(format!("requests of the restart: {restart}"));
    say(format!("requests of all at the API server: {}", counts::server(client).await?.minus(&stopped)));
    let (_, peak_after_restart) = process::memory(operator.pid()?)?;
    say(format!("memory: at most {peak_after_restart} MiB since the restart"));
    operator.stop().await?;
    let crowd = crowd::measure(client, settings, crowd::SIZE).await?;

    let per_release = |count: u64| (count as f64 / n as f64 * 100.0).round() / 100.0;
    let per_minute = |count: u64| (count as f64 / minutes * 10.0).round() / 10.0;
    let mut report = Report {
        n,
        service_accounts: accounts,
        other_definitions: definitions,
        other_objects: noise,
        objects_per_release: by_hand.bare.objects,
        ready_s,
        bare_s: 0.0,
        ratio: 0.0,
        connections,
        rss_empty_mib: rss_empty,
        rss_idle_mib: rss_idle,
        rss_first_mib: rss_first,
        rss_per_release_mib: ((rss_idle - rss_first) / n as f64 * 10_000.0).round() / 10_000.0,
        rss_peak_mib: peak.max(peak_after_restart),
        writes_per_release: per_release(install_counts.writes()),
        reads_per_release: per_release(install_counts.reads()),
        idle_reads_per_min: per_minute(idle_counts.reads()),
        idle_writes_per_min: per_minute(idle_counts.writes()),
        upgrade_s,
        restart_reads: restart.reads(),
        restart_writes: restart.writes(),
        drift_p50_ms: deployments.latencies.percentile(50),
        drift_p99_ms: deployments.latencies.percentile(99),
        edit_p50_ms: deployments.edits.percentile(50),
        drift_service_p50_ms: services.latencies.percentile(50),
        edit_service_p50_ms: services.edits.percentile(50),
        drift_20_at_once_p50_ms: at_once.latencies.percentile(50),
        edit_20_at_once_p50_ms: at_once.edits.percentile(50),
        storm_edits_s: seconds(storm.edits),
        storm_s: seconds(storm.reverted),
        storm_bare_s: 0.0,
        storm_ratio: 0.0,
        dependent_p50_ms: dependents.percentile(50),
        dependent_p99_ms: dependents.percentile(99),
        crowd,
    };
    report.compare(by_hand, by_hand);
    Ok(report)
}

/// How fast both cores are at this moment, beside nothing else.
fn tell_speed() {
    say(format!("the machine does {:.0} steps a microsecond", process::speed()));
}

/// Creates all releases; from the first request to the event that completes the set.
async fn install(client: &Client, namespace: &str, n: usize, accounts: usize) -> Result<Duration> {
    let api = release::api(client, namespace);
    let began = Instant::now();
    let create = |index: usize| {
        let api = api.clone();
        async move {
            let name = workload::name(index);
            let mut object = release::release(&name, PACK, &workload::values("first"))?;
            accounts::name_one(&mut object, index, accounts);
            api.create(&PostParams::default(), &object).await.during(&name)?;
            Ok(())
        }
    };
    all_ready(&api, n, 1, began, create).await
}

/// Changes one value of all releases; from the first request to the event that completes the set.
async fn upgrade(client: &Client, n: usize) -> Result<Duration> {
    let api = release::api(client, NAMESPACE);
    let began = Instant::now();
    let change = |index: usize| {
        let api = api.clone();
        async move {
            let patch = json!({"spec": {"values": {"message": "second"}}});
            let name = workload::name(index);
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.during(&name)?;
            Ok(())
        }
    };
    all_ready(&api, n, 2, began, change).await
}

/// Sends `request` for every index, ten at once, and watches until all `n` are Ready at `revision`.
async fn all_ready<F>(
    api: &Api<DynamicObject>,
    n: usize,
    revision: u64,
    began: Instant,
    request: impl Fn(usize) -> F,
) -> Result<Duration>
where
    F: Future<Output = Result<()>>,
{
    let mut sight = Sight::open(api.clone()).await?;
    let opened = began.elapsed();
    let requests = stream::iter((0..n).map(request)).buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>();
    let watch = async {
        let mut ready: HashSet<String> = HashSet::with_capacity(n);
        let mut last = String::new();
        while ready.len() < n {
            let standstill = format!("{} of {n} Ready at revision {revision}", ready.len());
            let next = sight.until(&standstill, STANDSTILL, |change| {
                let object = change.present()?;
                if release::is_stalled(object) {
                    return Some(Err(Failure::new(release::standing(object))));
                }
                last = release::standing(object);
                (release::is_ready_at(object, revision) && !ready.contains(&object.name_any()))
                    .then(|| Ok(object.name_any()))
            });
            let (_, name) = next.await.map_err(|failure| Failure::new(format!("{failure}; last: {last}")))?;
            ready.insert(name?);
        }
        Ok(began.elapsed())
    };
    let (_, took) = tokio::try_join!(requests, watch)?;
    Ok(took - opened)
}
