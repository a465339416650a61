//! Install, upgrade with prune, uninstall: whatever breaks on the way, it ends the same.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::support::packs::{config_map, deployment, service};
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

fn first() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(config_map("dropped", json!({"a": "b"})))
        .object(deployment("web", 1))
}

fn second() -> Pack {
    Pack::new("web", "2.0.0")
        .object(config_map("settings", json!({"color": "green"})))
        .object(service("web"))
        .object(deployment("web", 1))
}

/// Starts an operator again whenever one has died, as a kubelet does.
pub(super) async fn supervised(h: &Harness, story: impl Future<Output = ()>) {
    let supervisor = async {
        loop {
            if h.wire.is_dead() {
                h.start();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = story => {}
        () = supervisor => {}
    }
}

/// The whole life of a release, with everything that must be true of it at each end.
async fn story(h: &Harness) {
    h.deploy("web", &first(), json!({})).await;
    h.shows_states("web", &["1 deployed"]).await;
    let lasting = ["ConfigMap/settings", "Deployment/web"];
    let uids = h.objects.uids(&lasting).await;

    h.pack("web-pack", &second()).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    // Superseding the old revision is the last write of an upgrade; after a crash the next process makes up for it.
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    wait_for("one head", async || {
        let heads = h.objects.list("Secret", "sherpack.io/head").await;
        let revisions: Vec<_> =
            heads.iter().map(|head| &head["metadata"]["labels"]["sherpack.io/release-version"]).collect();
        if revisions == [&json!("2")] { Ok(()) } else { Err(format!("{revisions:?}")) }
    })
    .await;
    // The story is told whole, also by a process that did not see all of it.
    wait_for("the history in the status", async || {
        let history = h.status("web").await["history"].clone();
        let entries = history.as_array().into_iter().flatten();
        let told: Vec<String> =
            entries.map(|entry| format!("{} {}", entry["revision"], entry["state"])).collect();
        if told == ["2 \"deployed\"", "1 \"superseded\""] { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    assert_eq!(h.objects.uids(&lasting).await, uids);
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"], json!({"color": "green"}));
    assert!(h.objects.find("ConfigMap/dropped").await.is_none());
    h.objects.get("Service/web").await;

    h.uninstall("web").await;
    for kind in ["ConfigMap", "Service", "Deployment", "Secret"] {
        let left = h.objects.list(kind, "sherpack.io/release-name").await;
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// Where stories were cut.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// At which write each lane ended, which is one more than it has.
    pub(super) ends: Vec<usize>,
    /// Kinds of writes, such as `update secrets`.
    pub(super) kinds: BTreeSet<String>,
}

impl Cuts {
    /// How many places were tried.
    pub(super) fn tried(&self) -> usize {
        self.ends.iter().min().map_or(0, |end| end - 1)
    }

    pub(super) fn none_left_out(&self, kinds: &[&str]) {
        let left_out: Vec<_> = kinds.iter().filter(|kind| !self.kinds.contains(**kind)).collect();
        assert!(left_out.is_empty(), "never cut: {left_out:?}; cut: {:?}", self.kinds);
    }
}

/// `apply sherpackreleases/status`.
pub(super) fn kind_of(request: &Request) -> String {
    let parts: Vec<&str> = request.path.split('/').collect();
    let at = parts.iter().position(|part| *part == "namespaces").map_or(parts.len() - 1, |at| at + 2);
    let plural = parts.get(at).copied().unwrap_or("namespaces");
    let part = parts.get(at + 2).map(|part| format!("/{part}")).unwrap_or_default();
    format!("{} {plural}{part}", request.verb)
}

/// Lives the story once for each of its writes that count and kills the operator there. `false`: it was never killed,
/// because the story has fewer of them.
async fn killed_at(
    effect: Effect,
    name: &str,
    write: usize,
    counts: fn(&Request) -> bool,
    kinds: &Arc<Mutex<BTreeSet<String>>>,
    story: &impl AsyncFn(&Harness),
) -> bool {
    let h = Harness::new(&format!("{name}-{write}")).await;
    let reached = Arc::new(AtomicUsize::new(0));
    let (counter, kinds) = (Arc::clone(&reached), Arc::clone(kinds));
    h.wire.fault(
        Fault::new(effect, move |request: &Request| {
            let here = counts(request) && counter.fetch_add(1, Ordering::SeqCst) + 1 == write;
            if here {
                kinds.lock().unwrap().insert(kind_of(request));
            }
            here
        })
        .once(),
    );
    supervised(&h, story(&h)).await;
    reached.load(Ordering::SeqCst) >= write
}

/// Lives the story once for each of its writes that count, in four lanes, so that four operators at a time are enough.
pub(super) async fn killed_at_each(
    effect: Effect,
    name: &str,
    counts: fn(&Request) -> bool,
    story: impl AsyncFn(&Harness),
) -> Cuts {
    let kinds = Arc::default();
    let (effect, story, told) = (&effect, &story, &kinds);
    let lanes = (1..=4).map(|mut write| async move {
        while killed_at(effect.clone(), name, write, counts, told, story).await {
            write += 4;
        }
        write
    });
    let ends = futures::future::join_all(lanes).await;
    let kinds = std::mem::take(&mut *kinds.lock().unwrap());
    Cuts { ends, kinds }
}

async fn every_write(effect: Effect, name: &str) {
    let counts = |request: &Request| request.is_write() && !request.is_about("leases");
    let cuts = killed_at_each(effect, name, counts, story).await;
    // Three phases with at least a record, three objects, a record and a status each.
    assert!(cuts.tried() >= 20, "the story has fewer writes than it must have: {cuts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_any_write_the_next_process_ends_the_story_the_same() {
    every_write(Effect::KillBefore, "crash-before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_write_the_next_process_ends_the_story_the_same() {
    every_write(Effect::KillAfter, "crash-after").await;
}

/// Hits one write in `n`, the same ones in each run but in no rhythm: an operation that begins again after an error
/// would otherwise meet the same error at the same place for ever. None to the same place twice in a row: the doubled
/// waits after errors would otherwise, by chance, outlast the patience of a test.
pub(super) fn one_in(n: u64, effect: Effect) -> Fault {
    let seen = AtomicU64::new(0);
    let hit = Mutex::new(HashSet::new());
    Fault::new(effect, move |request: &Request| {
        if !request.is_write() {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        seen.fetch_add(1, Ordering::SeqCst).hash(&mut hasher);
        let place = (request.verb, request.path.clone());
        let mut hit = hit.lock().unwrap();
        !hit.remove(&place) && hasher.finish().is_multiple_of(n) && hit.insert(place)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_the_story_still_ends_the_same() {
    let h = Harness::new("crash-again").await;
    h.wire.fault(one_in(7, Effect::KillAfter));
    supervised(&h, story(&h)).await;
}

/// One write in three fails in this way.
async fn broken(name: &str, effect: Effect) {
    let h = Harness::new(name).await;
    h.wire.fault(one_in(3, effect));
    story(&h).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_on_one_write_in_three_change_nothing() {
    broken("fault-409", Effect::Answer(409)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_on_one_write_in_three_changes_nothing() {
    broken("fault-429", Effect::Answer(429)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_errors_on_one_write_in_three_change_nothing() {
    broken("fault-500", Effect::Answer(500)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_writes_change_nothing() {
    broken("fault-slow", Effect::Slow(Duration::from_millis(300))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_never_come_change_nothing() {
    broken("fault-drop-after", Effect::DropAfterSend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_never_arrive_change_nothing() {
    broken("fault-drop-before", Effect::DropBeforeSend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_create_was_not_answered_is_resumed_and_not_made_twice() {
    let h = Harness::new("fault-record").await;
    let create = |request: &Request| {
        let name = request.body["metadata"]["name"].as_str().unwrap_or_default();
        request.verb == "create" && name.starts_with("sh.sherpack.release")
    };
    h.wire.fault(Fault::new(Effect::DropAfterSend, create).once());
    h.deploy("web", &first(), json!({})).await;
    h.shows_states("web", &["1 deployed"]).await;
    let creates: Vec<Request> = h.wire.writes_since(0).into_iter().filter(create).collect();
    assert_eq!(creates.len(), 1, "{creates:?}");
}
