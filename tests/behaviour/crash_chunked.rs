//! Hooks and waves, with a record in pieces: killed at every kind of write of every operation, with the same end.
//!
//! A chunked record makes every life expensive, so each kills the operator several times in every operation. Each operation
//! must be right in itself, and is checked, before the next one begins. With one kill in each life: the whole matrix of
//! `crash_engine`, for a small record.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::crash_engine::{color, failing, first, pack, runs};
use crate::support::kills::in_each_operation;
use crate::support::packs::{config_map, hook};
use crate::support::records::told;
use crate::support::wait::{LONG, wait_for, wait_within};
use crate::support::{Effect, Harness, Pack, tell};

/// What each operation that makes a revision writes of its record, and every cut must have hit.
const OF_A_RECORD: [&str; 5] =
    ["create chunks", "create records", "update records", "delete chunks", "apply sherpackreleases/status"];
/// What else is written in the story.
const ELSEWHERE: [&str; 9] = [
    "patch sherpackreleases",
    "patch records",
    "delete records",
    "create jobs",
    "delete jobs",
    "apply configmaps",
    "delete configmaps",
    "apply deployments",
    "delete deployments",
];

/// With so much in one object that the record of it does not fit into one, as long as it is not compressed.
fn heavy(version: &str, color: &str) -> Pack {
    let pad = json!({"pad": "0123456789abcdef".repeat(47_500)});
    pack(version, color).object(config_map("heavy", pad)).object(hook("undo", "pre-rollback"))
}

/// The life of a release in five revisions.
async fn story(h: &Harness) {
    h.deploy("web", &first(heavy("1.0.0", "blue")), json!({"history": {"compression": "None"}})).await;
    settled(h, &["1 deployed"], "blue").await;
    h.objects.get("ConfigMap/dropped").await;

    h.pack("web-pack", &heavy("2.0.0", "green")).await;
    settled(h, &["1 superseded", "2 deployed"], "green").await;
    h.ready("web").await;
    h.gone("ConfigMap/dropped").await;

    h.pack("web-pack", &failing(heavy("3.0.0", "red"))).await;
    settled(h, &["1 superseded", "2 superseded", "3 failed", "4 deployed"], "green").await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;

    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    let states = ["1 superseded", "2 superseded", "3 failed", "4 superseded", "5 deployed"];
    settled(h, &states, "blue").await;
    h.ready("web").await;
    h.objects.get("ConfigMap/dropped").await;

    h.uninstall("web").await;
    for kind in ["ConfigMap", "Deployment", "Job", "Secret"] {
        let left = h.objects.list(kind, "sherpack.io/release-name").await;
        let left: Vec<&Value> = left.iter().map(|object| &object["metadata"]["name"]).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
    let chunks = h.objects.list("Secret", "sherpack.io/chunk-parent").await;
    assert!(chunks.is_empty(), "{} chunks are left behind", chunks.len());
    let all = ["before", "after", "check", "undo", "goodbye"].map(|job| runs(h, job));
    assert_eq!(all, [3, 3, 1, 2, 1], "runs of each hook");
}

/// Waits until these are the revisions, the last one is the head, every chunk that a record lists is there, and the
/// objects are those of this color.
async fn settled(h: &Harness, states: &[&str], of: &str) {
    // The status first: the records are megabytes. Two operations may come before it, each cut off several times.
    let newest = states.last().copied().unwrap_or_default();
    wait_within(3 * LONG, &format!("the status tells of {newest}"), async || {
        let found = told(&h.status("web").await["history"][0]);
        if found == newest { Ok(()) } else { Err(found) }
    })
    .await;
    wait_for(&format!("the revisions are {states:?}, with one head"), async || {
        let found = revisions(h).await;
        let good = Revisions {
            states: states.iter().map(|state| (*state).to_owned()).collect(),
            heads: vec![states.len().to_string()],
            missing: Vec::new(),
        };
        if found == good { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    color(h, of).await;
}

/// What is stored, read as another tool would, without the operator's own code.
#[derive(Debug, PartialEq)]
struct Revisions {
    states: Vec<String>,
    /// Revisions that are marked as the newest.
    heads: Vec<String>,
    /// Chunks that a record lists and that are not there.
    missing: Vec<String>,
}

async fn revisions(h: &Harness) -> Revisions {
    let chunks = h.objects.list("Secret", "sherpack.io/chunk-parent").await;
    let records = h.records("web").await;
    let records: Vec<&Value> = records.iter().filter(|record| record["data"]["parts"].is_string()).collect();
    let label = |record: &Value, name: &str| record["metadata"]["labels"][name].as_str().map(str::to_owned);
    let heads = records.iter().filter(|record| label(record, "sherpack.io/head").is_some());
    let there = |name: &String| chunks.iter().any(|chunk| chunk["metadata"]["name"] == name.as_str());
    Revisions {
        states: records.iter().map(|record| state(record, &chunks)).collect(),
        heads: heads.filter_map(|record| label(record, "sherpack.io/release-version")).collect(),
        missing: records.iter().flat_map(|record| listed(record)).filter(|name| !there(name)).collect(),
    }
}

fn decoded(record: &Value, key: &str) -> Option<Value> {
    serde_json::from_slice(&STANDARD.decode(record["data"][key].as_str()?).ok()?).ok()
}

/// The chunks that a record is made of, in order.
fn listed(record: &Value) -> Vec<String> {
    let names = decoded(record, "parts").and_then(|parts| parts.pointer("/release/names").cloned());
    names.and_then(|names| serde_json::from_value(names).ok()).unwrap_or_default()
}

/// `1 deployed`: read as another tool would, without the operator's own code.
fn state(record: &Value, chunks: &[Value]) -> String {
    let text: Vec<u8> = listed(record)
        .iter()
        .filter_map(|name| chunks.iter().find(|chunk| chunk["metadata"]["name"] == name.as_str()))
        .filter_map(|chunk| STANDARD.decode(chunk["data"]["chunk"].as_str()?).ok())
        .flatten()
        .collect();
    let json: Option<Value> = STANDARD.decode(text).ok().and_then(|json| serde_json::from_slice(&json).ok());
    let json = json.unwrap_or_default();
    let state = json.pointer("/state/status").and_then(Value::as_str).unwrap_or("unreadable");
    format!("{} {state}", json["version"])
}

/// A chunked record makes an operation of many writes; with fewer from one kill to the next it would not get on.
const STRIDE: usize = 10;

async fn killed(name: &str, starts: &[usize]) {
    let began = Instant::now();
    let breaks = in_each_operation(Effect::KillAfter, name, (STRIDE, starts), story).await;
    breaks.at_least(10 * starts.len(), name);
    breaks.none_left_out(&ELSEWHERE);
    breaks.none_left_out_of(5, &OF_A_RECORD);
    tell(&format!("{name}: {:?}", began.elapsed()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_on_a_chunked_record_every_hook_runs_once() {
    killed("chunked-engine", &[3, 7, 10]).await;
}

/// Ten lives cut wherever there is a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_after_any_write_of_an_operation_on_a_chunked_record_every_hook_runs_once() {
    killed("chunked-each", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).await;
}
