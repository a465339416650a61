//! Hooks and waves, with a record in pieces: killed at every write of every operation, with the same end.
//!
//! A chunked record makes every run expensive, so each run kills the operator in every operation of the story, at its
//! n-th write and at each tenth after that: ten runs cut wherever there is a write. Each operation must be right in
//! itself, and is checked, before the next one begins. A cut moves what comes after it, so past the tenth write it is
//! chance what gets cut: the last run therefore also cuts at every kind of write that no run has cut in that operation.
//! With one kill in each run: `crash_engine`, for a small record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::crash_engine::{color, failing, first, pack, runs};
use super::crash_story::{kind_of, supervised};
use crate::support::packs::{config_map, hook};
use crate::support::wait::{LONG, wait_for, wait_within};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack, tell};

/// By the revision that each makes; what comes before the first is the finalizer and the key of the records.
const OPERATIONS: [&str; 7] =
    ["begin", "install", "upgrade", "failed upgrade", "rollback of it", "rollbackTo", "uninstall"];
const UNINSTALL: usize = 6;

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

/// The life of a release in five revisions. `uninstalls` is set before the last step.
async fn story(h: &Harness, uninstalls: &AtomicBool) {
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

    uninstalls.store(true, Ordering::SeqCst);
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
        let entry = h.status("web").await["history"][0].clone();
        let found = format!("{} {}", entry["revision"], entry["state"].as_str().unwrap_or_default());
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

/// Writes of an operation from one kill to the next.
const STRIDE: usize = 10;

/// The operation and the kind of write, of every cut of all runs so far.
type Cuts = Arc<Mutex<Vec<(usize, String)>>>;

/// Kills the operator at the `write`-th write of each operation, and at every [`STRIDE`]th after it.
struct Knife {
    write: usize,
    /// Number of the operation, and writes in it so far.
    at: Mutex<(usize, usize)>,
    uninstalls: AtomicBool,
    cuts: Cuts,
}

impl Knife {
    /// To be called for every request, in order.
    fn cuts_at(&self, request: &Request) -> bool {
        if !request.is_write() || request.is_about("leases") {
            return false;
        }
        let mut at = self.at.lock().unwrap();
        let operation = if self.uninstalls.load(Ordering::SeqCst) {
            UNINSTALL
        } else {
            at.0.max(begun_by(request).unwrap_or(0))
        };
        *at = if operation == at.0 { (operation, at.1 + 1) } else { (operation, 1) };
        let cut = (operation, what(request));
        let mut cuts = self.cuts.lock().unwrap();
        let missed = self.write == STRIDE && !cuts.contains(&cut);
        let here = missed || at.1 % STRIDE == self.write % STRIDE;
        if here {
            cuts.push(cut);
        }
        here
    }
}

/// The revision whose first write this may be.
fn begun_by(request: &Request) -> Option<usize> {
    let name = request.body.pointer("/metadata/name")?.as_str().filter(|_| request.verb == "create")?;
    let revision = name.strip_prefix("sh.sherpack.release.v1.web.v")?;
    revision.split('.').next()?.parse().ok()
}

/// [`kind_of`], with records and their chunks told from other Secrets.
fn what(request: &Request) -> String {
    let kind = kind_of(request);
    let name = request.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(&request.path);
    if !request.is_about("secrets") || !name.contains("sh.sherpack.release") {
        return kind;
    }
    kind.replace("secrets", if name.contains(".chunk.") { "chunks" } else { "records" })
}

/// Lives the story with these kills in each operation, and notes where they were.
async fn killed(write: usize, cuts: Cuts) {
    let h = Harness::new(&format!("chunked-engine-{write}")).await;
    let knife = Arc::new(Knife { write, at: Mutex::default(), uninstalls: AtomicBool::new(false), cuts });
    let cutting = Arc::clone(&knife);
    h.wire.fault(Fault::new(Effect::KillAfter, move |request| cutting.cuts_at(request)));
    supervised(&h, story(&h, &knife.uninstalls)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_write_of_an_operation_on_a_chunked_record_every_hook_runs_once() {
    const LANES: usize = 4;
    let began = std::time::Instant::now();
    let cuts = Cuts::default();
    let lanes = (1..=LANES).map(async |first| {
        for write in (first..=STRIDE).step_by(LANES) {
            killed(write, Arc::clone(&cuts)).await;
        }
    });
    futures::future::join_all(lanes).await;
    let cuts = std::mem::take(&mut *cuts.lock().unwrap());
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut numbers = [0; OPERATIONS.len()];
    for (operation, kind) in &cuts {
        numbers[*operation] += 1;
        kinds.entry(OPERATIONS[*operation]).or_default().insert(kind);
    }
    let each: Vec<String> =
        OPERATIONS.iter().zip(numbers).map(|(operation, number)| format!("{operation} {number}")).collect();
    tell(&format!(
        "chunked-engine: cut at {} writes ({}) in {:?}",
        cuts.len(),
        each.join(", "),
        began.elapsed()
    ));
    assert!(cuts.len() >= 100, "the story has fewer writes than it must have: {each:?}");
    let all: BTreeSet<&str> = kinds.values().flatten().copied().collect();
    let in_each = OPERATIONS[1..UNINSTALL].iter().flat_map(|name| OF_A_RECORD.map(|kind| (*name, kind)));
    let never: Vec<(&str, &str)> = in_each
        .filter(|(operation, kind)| !kinds.get(operation).is_some_and(|cut| cut.contains(kind)))
        .chain(ELSEWHERE.into_iter().filter(|kind| !all.contains(kind)).map(|kind| ("all", kind)))
        .collect();
    assert!(never.is_empty(), "never cut: {never:?}; cut: {kinds:#?}");
}
