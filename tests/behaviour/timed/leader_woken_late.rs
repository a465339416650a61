//! A leader that is stopped, replaced, and woken late: whatever it was about to do, the newest revision stands.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::leader_election::{self, QUICK};
use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, hook, service, with_annotation};
use crate::support::replica::signal;
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::{Request, Wire};
use crate::support::{Effect, Fault, Harness, Pack, Replica, tell};

/// Of the engine, not of the election.
fn of_the_engine(request: &Request) -> bool {
    !request.is_about("leases") && request.path != "/version"
}

fn engine_write(request: &Request) -> bool {
    request.is_write() && of_the_engine(request)
}

fn is_record(request: &Request) -> bool {
    let name = request.body["metadata"]["name"].as_str().unwrap_or_default();
    matches!(request.verb, "create" | "update") && name.starts_with("sh.sherpack.release")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_woken_late_sends_nothing_and_ends() {
    let h = Harness::without_operator("lease-late").await;
    let mut late = Replica::start(&h, "late", &QUICK).await;
    late.led().await;
    let next = Replica::start(&h, "next", &QUICK).await;
    let pack = |color: &str| Pack::new("web", "1.0.0").object(config_map("web", json!({"color": color})));
    h.deploy("web", &pack("blue"), json!({})).await;
    late.freeze();
    let mark = late.wire.mark();
    next.led().await;
    // Its watches tell it all of this the moment it wakes up.
    h.deploy("web", &pack("green"), json!({})).await;
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "green").await;
    h.apply("other", &Pack::new("other", "1.0.0").template("a.yaml", "{{ nothing_like_it() }}"), json!({}))
        .await;
    h.condition("other", "Ready", "False", None).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;

    late.thaw();
    assert_eq!(late.exit_code().await, Some(2), "{}", late.log());
    assert!(late.log().contains("the leader lease is lost"), "{}", late.log());
    let sent: Vec<String> = late.wire.since(mark).iter().map(Request::line).collect();
    assert_eq!(sent, Vec::<String>::new());
    assert!(next.leads().await);
}

// ---- many moments -----------------------------------------------------------------------------------------

const LANES: usize = 4;
/// Writes of an install or upgrade below, more or less: finalizer, record, hooks and their checkpoints, two waves of
/// objects, record, status, Event.
const WRITES: u64 = 20;
/// All requests of one, more or less.
const REQUESTS: u64 = 44;

/// The same numbers in each run; `LEASE_SEED` gives others.
fn random(moment: usize, what: &str, below: u64) -> u64 {
    let seed: u64 = std::env::var("LEASE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut hasher = DefaultHasher::new();
    (seed, moment, what).hash(&mut hasher);
    hasher.finish() % below
}

fn pack(name: &str, version: u32, color: &str) -> Pack {
    let pack = Pack::new(name, &format!("{version}.0.0"))
        .object(config_map(&format!("{name}-settings"), json!({"color": color})))
        .object(config_map(&format!("{name}-more"), json!({"version": version.to_string()})))
        .object(hook(&format!("{name}-before"), "pre-install,pre-upgrade"))
        .object(late_wave(deployment(name, 0)))
        .object(hook(&format!("{name}-after"), "post-install,post-upgrade"));
    // Every upgrade takes away one object and adds another.
    if version == 1 {
        pack.object(config_map(&format!("{name}-old"), json!({})))
    } else {
        pack.object(late_wave(service(name)))
    }
}

const HOOKS: [&str; 2] = ["before", "after"];

fn late_wave(object: Value) -> Value {
    with_annotation(object, "sherpack.io/sync-wave", "1")
}

fn is_hook(request: &Request) -> bool {
    request.verb == "create" && request.is_about("jobs")
}

/// How often a Job of this name was made: each is a run.
fn runs(wire: &Wire, job: &str) -> usize {
    let made = |request: &&Request| {
        is_hook(request) && request.code == 201 && request.body["metadata"]["name"] == job
    };
    wire.since(0).iter().filter(made).count()
}

/// Whoever takes over, started again when it ends: on a busy machine it may lose the lease as well.
struct Next<'a> {
    h: &'a Harness,
    name: String,
    starts: usize,
    replica: Replica,
    /// Of all of them.
    wires: Vec<Wire>,
}

impl<'a> Next<'a> {
    async fn start(h: &'a Harness, name: String) -> Self {
        let replica = Replica::start(h, &name, &QUICK).await;
        let wires = vec![replica.wire.clone()];
        Self { h, name, starts: 1, replica, wires }
    }

    /// Keeps one running as long as this takes.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.replica.ended() => {}
            }
            self.starts += 1;
            let name = format!("{}-{}", self.name, self.starts);
            tokio::select! {
                done = &mut work => return done,
                replica = Replica::start(self.h, &name, &QUICK) => {
                    self.wires.push(replica.wire.clone());
                    self.replica = replica;
                }
            }
        }
    }
}

/// A process that leads; on a very busy machine not the first one that is started.
async fn leader(h: &Harness, name: &str) -> Replica {
    loop {
        let mut replica = Replica::start(h, name, &QUICK).await;
        eventually("it leads or ends", async || replica.leads().await || replica.has_ended()).await;
        if !replica.has_ended() {
            return replica;
        }
    }
}

/// What a write is about that was held back on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Record,
    Hook,
    Else,
}

fn about(request: &Request) -> About {
    match request {
        request if is_record(request) => About::Record,
        request if is_hook(request) => About::Hook,
        _ => About::Else,
    }
}

/// What happened at one moment.
#[derive(Debug, Default)]
struct Told {
    in_the_middle: bool,
    /// Late writes that were held back on the way, with the status that they got.
    late: Vec<(About, String)>,
    /// What the woken process sent.
    after: Vec<String>,
    hooks: usize,
}

/// Stops a process at the moment with this number. True once it is stopped.
fn stop_in_the_middle(late: &Replica, number: usize) -> Arc<AtomicBool> {
    // Of ten moments four: as a certain write is on its way, which then arrives late. One: as the create of a hook is.
    // Else: as a certain request is.
    let hooks = number % 10 == 5;
    let held = hooks || random(number, "held", 9) < 4;
    let of = if hooks {
        HOOKS.len() as u64
    } else if held {
        WRITES
    } else {
        REQUESTS
    };
    let at = 1 + random(number, "at", of);
    let (count, stopped) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let (pid, reached) = (late.pid(), Arc::clone(&stopped));
    late.wire.fault(Fault::new(Effect::Hold, move |request| {
        let counts = match (hooks, held) {
            (true, _) => is_hook(request),
            (false, true) => engine_write(request),
            (false, false) => of_the_engine(request),
        };
        if !counts || count.fetch_add(1, Ordering::SeqCst) + 1 != usize::try_from(at).unwrap() {
            return false;
        }
        signal(pid, "STOP");
        reached.store(true, Ordering::SeqCst);
        held
    }));
    stopped
}

/// Lets the writes go that were held, and gives what came of each.
async fn arrive_late(wire: &Wire) -> Vec<Request> {
    let open = |request: &&Request| engine_write(request) && request.code == 0;
    let waiting: Vec<usize> = {
        let sent = wire.since(0);
        sent.iter().enumerate().filter(|(_, request)| open(request)).map(|(at, _)| at).collect()
    };
    wire.heal();
    wire.release();
    wait_for("the late writes arrive", async || {
        let sent = wire.since(0);
        let arrived: Vec<Request> = waiting.iter().map(|at| sent[*at].clone()).collect();
        if arrived.iter().any(|request| request.code == 0) {
            Err(format!("{arrived:?}"))
        } else {
            Ok(arrived)
        }
    })
    .await
}

/// How often hooks ran; each once for each revision.
fn ran_once_each(late: &Wire, others: &[Wire], name: &str, revisions: usize) -> usize {
    let mut hooks = 0;
    for hook in HOOKS {
        let job = format!("{name}-{hook}");
        let ran = runs(late, &job) + others.iter().map(|wire| runs(wire, &job)).sum::<usize>();
        assert_eq!(ran, revisions, "{job}: each revision runs its hook once");
        hooks += ran;
    }
    hooks
}

/// One moment: a leader installs or upgrades and is stopped; another one takes over and goes on; then the first one's
/// last write arrives, and it wakes up.
async fn moment(h: &Harness, number: usize, name: &str, version: u32) -> Told {
    let mut late = leader(h, &format!("late-{number}")).await;
    let mut next = Next::start(h, format!("next-{number}")).await;

    let stopped = stop_in_the_middle(&late, number);
    let color = format!("color-{number}");
    let before = h.records(name).await.len();
    let wanted = pack(name, version, &color);
    h.apply(name, &wanted, json!({})).await;
    let through = async || {
        let release = h.objects.get(&format!("SherpackRelease/{name}")).await;
        let deployed = release["status"]["pack"]["digest"] == wanted.digest().as_str();
        deployed && condition(&release, "Ready")["status"] == "True"
    };
    let middle = || stopped.load(Ordering::SeqCst);
    next.during(eventually("it is stopped or through", async || middle() || through().await)).await;
    let mut told = Told { in_the_middle: middle(), ..Told::default() };
    if !told.in_the_middle {
        late.freeze();
    }

    let holder = late.holder.clone();
    let other_leads = async || leader_election::holder(h).await.is_some_and(|leader| leader != holder);
    next.during(eventually("another one leads", other_leads)).await;
    next.during(settled(h, name, version, &color)).await;
    // Sometimes the newest revision is already another one when the late write arrives.
    let color = if random(number, "newer", 2) == 0 {
        let color = format!("newer-{number}");
        h.pack(&format!("{name}-pack"), &pack(name, version, &color)).await;
        next.during(settled(h, name, version, &color)).await;
        color
    } else {
        color
    };
    let mark = late.wire.mark();
    let arrived = arrive_late(&late.wire).await;
    told.late = arrived.iter().map(|request| (about(request), request.line())).collect();
    for request in arrived.iter().filter(|request| about(request) != About::Else) {
        assert_eq!(request.code, 409, "a late write of a record or create of a hook: {request:?}");
    }

    late.thaw();
    assert_eq!(late.exit_code().await, Some(2), "{}", late.log());
    let after = late.wire.since(mark);
    told.after = after.iter().map(Request::line).collect();
    for request in after.iter().filter(|request| about(request) != About::Else) {
        assert_eq!(request.code, 409, "a write of the woken process: {request:?}");
    }
    next.during(settled(h, name, version, &color)).await;

    let revisions = h.records(name).await.len() - before;
    told.hooks = ran_once_each(&late.wire, &next.wires, name, revisions);
    let mut next = next.replica;
    if !next.has_ended() {
        next.terminate();
    }
    next.ended().await;
    told
}

/// Waits until everything is as the newest revision says, and the status says so.
async fn settled(h: &Harness, name: &str, version: u32, color: &str) {
    h.shows(&format!("ConfigMap/{name}-settings"), "/data/color", color).await;
    h.shows(&format!("ConfigMap/{name}-more"), "/data/version", version.to_string()).await;
    h.sees(&format!("Deployment/{name}"), |_| true).await;
    if version == 1 {
        h.sees(&format!("ConfigMap/{name}-old"), |_| true).await;
    } else {
        h.sees(&format!("Service/{name}"), |_| true).await;
        h.gone(&format!("ConfigMap/{name}-old")).await;
    }
    wait_for("one deployed revision, the newest", async || {
        let states = h.states(name).await;
        let status = h.status(name).await;
        let (newest, older) = states.split_last().ok_or("no revision")?;
        let fits = *newest == format!("{} deployed", states.len())
            && older.iter().all(|state| state.ends_with(" superseded"))
            && status["revision"] == states.len();
        if fits { Ok(()) } else { Err(format!("{states:?}, {status}")) }
    })
    .await;
    h.ready(name).await;
}

async fn lane(lane: usize, moments: usize) -> Vec<Told> {
    let h = Harness::without_operator(&format!("lease-moments-{lane}")).await;
    let mut all = Vec::new();
    for (step, number) in (lane..moments).step_by(LANES).enumerate() {
        let version = if step % 2 == 0 { 1 } else { 2 };
        all.push(moment(&h, number, &format!("web{}", step / 2), version).await);
    }
    all
}

/// Twenty moments; `LEASE_MOMENTS` gives another number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_any_moment_a_leader_may_be_stopped_and_woken_late() {
    let moments = std::env::var("LEASE_MOMENTS").ok().and_then(|number| number.parse().ok()).unwrap_or(20);
    let lanes = futures::future::join_all((0..LANES).map(|number| lane(number, moments))).await;
    let all: Vec<Told> = lanes.into_iter().flatten().collect();
    let middle = all.iter().filter(|told| told.in_the_middle).count();
    let late: Vec<&(About, String)> = all.iter().flat_map(|told| &told.late).collect();
    let of = |what: About| late.iter().filter(|(about, _)| *about == what).count();
    let (records, hooks) = (of(About::Record), of(About::Hook));
    let after: Vec<&String> = all.iter().flat_map(|told| &told.after).collect();
    tell(&format!(
        "{} moments, {middle} of them in the middle of an operation; {} writes arrived late, {records} of them to \
         records and {hooks} creates of hooks, each refused with 409; {} hooks ran, each once; the woken processes \
         sent {} requests: {after:?}",
        all.len(),
        late.len(),
        all.iter().map(|told| told.hooks).sum::<usize>(),
        after.len()
    ));
    assert_eq!(all.len(), moments);
    assert!(middle * 2 > moments, "{middle} of {moments} moments were in the middle of something: {all:#?}");
    // In a few moments chance may spare a kind of write.
    assert!(moments < 20 || (records > 0 && hooks > 0), "{all:#?}");
    assert!(moments < 100 || late.len() > records + hooks, "{all:#?}");
}
