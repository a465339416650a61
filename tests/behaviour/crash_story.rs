//! Install, upgrade with prune, uninstall: whatever breaks on the way, it ends the same.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::kills::{at_each_write, in_each_operation, supervised};
use crate::support::packs::{config_map, deployment, service};
use crate::support::records::told;
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
        let told: Vec<String> = entries.map(told).collect();
        if told == ["2 deployed", "1 superseded"] { Ok(()) } else { Err(format!("{told:?}")) }
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

/// Every kind of write of the story.
const KINDS: [&str; 9] = [
    "create records",
    "update records",
    "delete records",
    "apply configmaps",
    "apply deployments",
    "apply services",
    "delete configmaps",
    "patch sherpackreleases",
    "apply sherpackreleases/status",
];
/// What each operation that makes a revision writes of it.
const OF_A_RECORD: [&str; 3] = ["create records", "update records", "apply sherpackreleases/status"];

/// A few lives, broken at every kind of write of every operation.
async fn broken_in_each_operation(effect: Effect, name: &str) {
    let breaks = in_each_operation(effect, name, (5, &[1, 3, 5]), story).await;
    breaks.at_least(15, name);
    breaks.none_left_out(&KINDS);
    breaks.none_left_out_of(2, &OF_A_RECORD);
}

/// A life for every write.
async fn broken_at_each_write(effect: Effect, name: &str) {
    let breaks = at_each_write(effect, name, story).await;
    // Three phases with at least a record, three objects, a record and a status each.
    breaks.at_least(20, name);
    breaks.none_left_out(&KINDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_writes_of_each_operation_the_next_process_ends_the_story_the_same() {
    broken_in_each_operation(Effect::KillBefore, "crash-before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_the_next_process_ends_the_story_the_same() {
    broken_in_each_operation(Effect::KillAfter, "crash-after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_before_any_write_the_next_process_ends_the_story_the_same() {
    broken_at_each_write(Effect::KillBefore, "crash-each-before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_after_any_write_the_next_process_ends_the_story_the_same() {
    broken_at_each_write(Effect::KillAfter, "crash-each-after").await;
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
