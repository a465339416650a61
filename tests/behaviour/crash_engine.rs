//! Hooks and waves, killed at every kind of write: each hook runs once, and every run of a story ends the same.

use serde_json::{Value, json};

use crate::support::kills::{Breaks, at_each_write, in_each_operation};
use crate::support::packs::{config_map, deployment, hook, with_annotation, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Harness, Pack};

/// Every kind of write that the engine makes in these stories.
const KINDS: [&str; 11] = [
    "create records",
    "update records",
    "delete records",
    "create jobs",
    "delete jobs",
    "apply configmaps",
    "delete configmaps",
    "apply deployments",
    "delete deployments",
    "patch sherpackreleases",
    "apply sherpackreleases/status",
];

pub(super) fn late(object: Value) -> Value {
    with_annotation(object, "sherpack.io/sync-wave", "1")
}

/// Two waves, hooks before and after, one with each way to delete its object, and one object that goes later.
pub(super) fn pack(version: &str, color: &str) -> Pack {
    let gone_after = "before-hook-creation,hook-succeeded";
    Pack::new("web", version)
        .object(config_map("settings", json!({"color": color})))
        .object(late(deployment("web", 1)))
        .object(with_annotation(
            hook("before", "pre-install,pre-upgrade"),
            "helm.sh/hook-delete-policy",
            gone_after,
        ))
        .object(hook("after", "post-install,post-upgrade"))
}

/// With what the next revision drops, and a hook for the end.
pub(super) fn first(pack: Pack) -> Pack {
    pack.object(config_map("dropped", json!({"a": "b"}))).object(hook("goodbye", "pre-delete"))
}

/// With a last hook that fails, and says that the upgrade is to be undone.
pub(super) fn failing(pack: Pack) -> Pack {
    let check = with_pod_annotation(hook("check", "post-upgrade"), "devcluster/fail", "true");
    pack.object(with_annotation(check, "sherpack.io/hook-failure-policy", "rollback"))
}

/// How often the API server made a Job of this name: each is a run.
pub(super) fn runs(h: &Harness, job: &str) -> usize {
    let made = |request: &&Request| {
        request.verb == "create"
            && request.is_about("jobs")
            && request.body.pointer("/metadata/name").and_then(Value::as_str) == Some(job)
            && request.code == 201
    };
    h.wire.writes_since(0).iter().filter(made).count()
}

pub(super) async fn color(h: &Harness, color: &str) {
    h.shows("ConfigMap/settings", "/data/color", color).await;
}

async fn nothing_is_left(h: &Harness) {
    h.uninstall("web").await;
    for kind in ["ConfigMap", "Deployment", "Job", "Secret"] {
        let left = h.objects.list(kind, "sherpack.io/release-name").await;
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// Install, upgrade, uninstall.
pub(super) async fn plain(h: &Harness, more: Value) {
    h.deploy("web", &first(pack("1.0.0", "blue")), more).await;
    h.shows_states("web", &["1 deployed"]).await;
    h.pack("web-pack", &pack("2.0.0", "green").object(hook("goodbye", "pre-delete"))).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    color(h, "green").await;
    h.gone("ConfigMap/dropped").await;
    wait_for("results of both hooks", async || {
        let results = h.decoded("web", 2).await.private.unwrap().hooks;
        let told: Vec<String> =
            results.iter().map(|result| format!("{} {}", result.object, result.attempt)).collect();
        if told == ["Job/before 1", "Job/after 1"] { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    h.gone("Job/before").await;
    nothing_is_left(h).await;
    assert_eq!((runs(h, "before"), runs(h, "after"), runs(h, "goodbye")), (2, 2, 1), "runs of each hook");
}

/// An upgrade that fails and is undone, and a release that is pinned to where it was.
async fn back(h: &Harness) {
    h.deploy("web", &first(pack("1.0.0", "blue")), json!({})).await;
    h.pack("web-pack", &failing(pack("2.0.0", "red"))).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    color(h, "blue").await;
    h.objects.get("ConfigMap/dropped").await;
    h.pack("web-pack", &pack("3.0.0", "green")).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 superseded", "4 deployed"]).await;
    h.ready("web").await;
    h.gone("ConfigMap/dropped").await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    let states = ["1 superseded", "2 failed", "3 superseded", "4 superseded", "5 deployed"];
    h.shows_states("web", &states).await;
    h.ready("web").await;
    color(h, "blue").await;
    h.objects.get("ConfigMap/dropped").await;
    nothing_is_left(h).await;
    let all = ["before", "after", "check", "goodbye"].map(|job| runs(h, job));
    assert_eq!(all, [3, 3, 1, 1], "runs of each hook");
}

/// What each operation that makes a revision writes of it.
const OF_A_RECORD: [&str; 3] = ["create records", "update records", "apply sherpackreleases/status"];

fn all_kinds(breaks: &Breaks, name: &str) {
    breaks.at_least(30, name);
    breaks.none_left_out(&KINDS);
}

/// A few lives with this many revisions, broken at every kind of write of every operation.
async fn broken(effect: Effect, name: &str, revisions: usize, story: impl AsyncFn(&Harness)) {
    let breaks = in_each_operation(effect, name, (5, &[1, 3, 5]), story).await;
    all_kinds(&breaks, name);
    breaks.none_left_out_of(revisions, &OF_A_RECORD);
}

async fn forth(h: &Harness) {
    plain(h, json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_writes_of_each_operation_every_hook_runs_once() {
    broken(Effect::KillBefore, "engine-before", 2, forth).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_every_hook_runs_once() {
    broken(Effect::KillAfter, "engine-after", 2, forth).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_a_failed_upgrade_is_undone_and_a_pin_is_kept() {
    broken(Effect::KillAfter, "engine-back", 5, back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_lost_in_each_operation_run_no_hook_twice() {
    broken(Effect::DropAfterSend, "engine-lost", 2, forth).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_before_any_write_every_hook_runs_once() {
    let name = "engine-each-before";
    all_kinds(&at_each_write(Effect::KillBefore, name, forth).await, name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_after_any_write_every_hook_runs_once() {
    let name = "engine-each-after";
    all_kinds(&at_each_write(Effect::KillAfter, name, forth).await, name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_after_any_write_a_failed_upgrade_is_undone_and_a_pin_is_kept() {
    let name = "engine-each-back";
    all_kinds(&at_each_write(Effect::KillAfter, name, back).await, name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn answers_that_are_lost_after_any_write_run_no_hook_twice() {
    let name = "engine-each-lost";
    all_kinds(&at_each_write(Effect::DropAfterSend, name, forth).await, name);
}
