//! Records of which one text is as long as a record may be: a tenant who may write ConfigMaps and Secrets makes many of
//! them. Nothing of such a text is kept, shown or lost.

use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sherpack_operator::release::{Record, State};
use sherpack_operator::storage::codec;

use crate::support::harness::condition;
use crate::support::operator::Probe;
use crate::support::packs::config_map;
use crate::support::process::{self, Process};
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::{Effect, Fault, Request};
use crate::support::{Harness, Pack};

/// Of one text.
const HUGE: usize = 30 << 20;
/// Records that take a process half a gibibyte if it keeps them.
const BOMBS: usize = 20;
/// What a process may take at its highest: itself, and one of them while it is unpacked.
const MEMORY: u64 = 220 << 20;
/// Most bytes of a name in a status.
const NAME: usize = 253;

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

fn huge() -> String {
    "A".repeat(HUGE)
}

fn gzip(content: &Value) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&serde_json::to_vec(content).unwrap()).unwrap();
    STANDARD.encode(encoder.finish().unwrap())
}

/// Revision 1 of another tool's release, with this pack, as a Secret or a ConfigMap.
fn record(h: &Harness, kind: &str, release: &str, pack: &Value) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let content = json!({
        "name": release, "namespace": h.namespace, "version": 1, "state": {"status": "deployed"}, "pack": pack,
        "values": {}, "manifest": "", "createdAt": at, "updatedAt": at,
    });
    let text = gzip(&content);
    let (driver, text) = match kind {
        "Secret" => ("secrets", STANDARD.encode(text)),
        _ => ("configmap", text),
    };
    let mut object = json!({
        "metadata": {
            "annotations": {"note": "theirs"},
            "labels": {
                "app.kubernetes.io/managed-by": "sherpack", "sherpack.io/compression": "gzip",
                "sherpack.io/storage-driver": driver, "sherpack.io/release-name": release,
                "sherpack.io/release-namespace": h.namespace, "sherpack.io/release-version": "1",
                "sherpack.io/head": "true",
            },
        },
        "data": {"release": text},
    });
    if kind == "Secret" {
        object["type"] = json!("sherpack.io/release.v1");
    }
    object
}

async fn forge(h: &Harness, kind: &str, release: &str, pack: &Value) {
    let what = format!("{kind}/sh.sherpack.release.v1.{release}.v1");
    h.objects.server_side_apply(&what, "tenant", record(h, kind, release, pack)).await;
}

fn described() -> Value {
    json!({"name": "web", "version": "1.0.0", "description": huge()})
}

/// The most memory that a process has had, in bytes.
fn most(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

fn is_short(name: &Value) -> bool {
    name.as_str().is_some_and(|name| name.len() <= NAME && name.ends_with('…'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_huge_records_cost_a_process_no_memory_at_its_start_or_later() {
    let h = Harness::without_operator("hostile-sizes").await;
    for index in 0..BOMBS {
        forge(&h, "ConfigMap", &format!("b{index}"), &described()).await;
    }
    let bytes = h.objects.get("ConfigMap/sh.sherpack.release.v1.b0.v1").await["data"].clone();
    let mut command = process::command(&h, &["--log-level", "info"]);
    // As the image has it.
    command.env("MIMALLOC_PURGE_DELAY", "0").env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    let process = Process::of(command).await;
    Probe(process.address).ready().await;
    let at_start = most(process.pid());
    // Beside them a release is deployed and locked.
    h.deploy("web", &pack("blue"), json!({})).await;
    for index in 0..BOMBS {
        let spec = json!({
            "pack": {"configMap": {"name": "web-pack"}}, "history": {"storage": "ConfigMap"}, "upgrade": {"paused": true},
        });
        h.release(&format!("b{index}"), spec).await;
    }
    for index in 0..BOMBS {
        h.condition(&format!("b{index}"), "Ready", "False", Some("Paused")).await;
    }
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    let later = most(process.pid());
    assert!(at_start < MEMORY && later < MEMORY, "{} MiB, then {} MiB", at_start >> 20, later >> 20);
    let now = h.objects.get("ConfigMap/sh.sherpack.release.v1.b0.v1").await["data"].clone();
    assert_eq!(now, bytes, "what is only looked at is not written");
}

/// Older revisions of the release `web`, sealed and marked as its newest, of which one text is as long as a record may be,
/// and the newest one, of which the status does not know.
async fn forge_own(h: &Harness) -> u32 {
    let (first, key) = (h.record_secret("web", 1).await, h.record_key().await);
    let known = codec::decode(&first, &key).unwrap();
    let newest = u32::try_from(BOMBS).unwrap() + 2;
    for version in 2..=newest {
        let mut record = Record { version, ..known.record.clone() };
        if version < newest {
            (record.state, record.notes) = (State::Superseded, Some(huge()));
        }
        let secret =
            codec::encode(&record, known.private.as_ref(), codec::Compression::Zstd, &key, true).unwrap();
        h.restore(secret).await;
    }
    newest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_huge_revisions_of_its_own_that_call_themselves_the_newest_are_never_in_memory_at_once() {
    let h = Harness::new("hostile-sizes-own").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    h.stop().await;
    let newest = forge_own(&h).await;
    let mut command = process::command(&h, &["--log-level", "info"]);
    command.env("MIMALLOC_PURGE_DELAY", "0").env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    let process = Process::of(command).await;
    eventually("the newest alone calls itself so, and surplus ones are gone", async || {
        let marked = h.objects.list("Secret", "sherpack.io/head=true").await;
        let all = h.objects.list("Secret", "sherpack.io/release-name=web").await;
        marked.len() == 1 && all.len() < BOMBS
    })
    .await;
    let most = most(process.pid());
    assert!(most < MEMORY, "{} MiB", most >> 20);
    let told = h.sees("SherpackRelease/web", |release| release["status"]["revision"] == newest).await;
    assert_eq!(told["status"]["history"][0]["state"], "deployed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_record_of_another_tool_is_superseded_with_all_that_is_in_it() {
    let h = Harness::without_operator("hostile-sizes-whole").await;
    forge(&h, "Secret", "web", &described()).await;
    h.start();
    h.deploy("web", &pack("blue"), json!({})).await;
    h.records_show("web", &["1 superseded", "2 deployed"]).await;
    let first = h.record_secret("web", 1).await;
    assert_eq!(first.metadata.annotations.as_ref().unwrap()["note"], "theirs");
    let whole = codec::decode(&first, &h.record_key().await).unwrap();
    assert!(whole.private.is_none());
    assert_eq!(whole.record.pack.description.map(|text| text.len()), Some(HUGE));
    // A process that finds it so does not cut it either.
    h.stop().await;
    h.start();
    h.pack("web-pack", &pack("green")).await;
    h.records_show("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    let again = h.record_secret("web", 1).await;
    assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_name_of_a_chart_or_a_pack_is_shown_cut() {
    let h = Harness::new("hostile-sizes-names").await;
    let chart = json!({
        "name": "big", "namespace": h.namespace, "version": 1, "info": {"status": "deployed"},
        "chart": {"metadata": {"name": huge(), "version": "1.0.0", "appVersion": "v".repeat(1000)}},
        "config": {}, "manifest": "",
    });
    let secret = json!({
        "type": "helm.sh/release.v1",
        "metadata": {"labels": {"owner": "helm", "name": "big", "status": "deployed", "version": "1"}},
        "data": {"release": STANDARD.encode(gzip(&chart))},
    });
    h.objects.server_side_apply("Secret/sh.helm.release.v1.big.v1", "tenant", secret).await;
    forge(&h, "Secret", "shop", &json!({"name": huge(), "version": "1.0.0"})).await;
    h.release("big", json!({"lock": {"helmRelease": {"name": "big"}}})).await;
    h.release("other", json!({"lock": {"sherpackRelease": {"name": "shop"}}})).await;
    for name in ["big", "other"] {
        let release = h.condition(name, "Ready", "True", Some("Locked")).await;
        let pack = &release["status"]["pack"];
        assert!(is_short(&pack["name"]), "{name}: {} bytes", pack.to_string().len());
        assert_eq!((&pack["version"], &release["status"]["revision"]), (&json!("1.0.0"), &json!(1)));
    }
    assert!(is_short(&h.status("big").await["pack"]["appVersion"]));
    let metrics = h.metrics().await;
    assert!(
        metrics.contains(r#"name="big",pack="AAAA"#) && metrics.len() < 1 << 20,
        "{} bytes",
        metrics.len()
    );
}

/// A status with the name of a pack in it.
fn names_a_pack(request: &Request) -> bool {
    request.is_about("sherpackreleases/web")
        && request.path.ends_with("/status")
        && !request.body["status"]["pack"].is_null()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_is_refused_is_not_sent_again_and_the_conditions_are() {
    let h = Harness::new("hostile-sizes-status").await;
    h.wire.fault(Fault::new(Effect::Answer(413), names_a_pack));
    let mark = h.wire.mark();
    let refused = || h.wire.since(mark).iter().filter(|request| request.code == 413).count();
    h.apply("web", &pack("blue"), json!({})).await;
    let release = h.condition("web", "Ready", "True", Some("InstallSucceeded")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("refused the whole status as too large"), "{message}");
    let status = &release["status"];
    assert_eq!((&status["pack"], &status["revision"]), (&Value::Null, &json!(1)));
    assert_eq!((&status["history"][0]["revision"], &status["history"][0]["pack"]), (&json!(1), &Value::Null));
    eventually("an Event tells it", async || !h.events("web", "StatusRefused").await.is_empty()).await;
    assert!(h.metric("sherpack_reconcile_errors_total", &["\"StatusRefused\""]).await >= 1.0);
    // A pass that finds the same writes nothing, and sends nothing that was refused.
    let known = refused();
    let writes = h.wire.mark();
    let passes = async || h.metric("sherpack_reconcile_duration_seconds_count", &[]).await;
    let before = passes().await;
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    h.objects.edit("ConfigMap/web-pack", "test", note).await;
    eventually("a pass is made", async || passes().await > before).await;
    assert_eq!(refused(), known);
    assert!(h.wire.writes_to("sherpackreleases/web", writes).is_empty());
    assert_eq!(h.events("web", "InstallSucceeded").await.len(), 1, "it is told once");
    // Another status is tried again, once.
    h.pass("web").await;
    assert_eq!(refused(), known + 1);
    // What is new is told whole as soon as it is taken.
    h.wire.heal();
    h.pack("web-pack", &pack("green")).await;
    wait_for("the whole status", async || {
        let status = h.status("web").await;
        let whole = status["revision"] == 2 && status["pack"]["name"] == "web";
        if whole { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    let message = condition(&h.ready("web").await, "Ready")["message"].clone();
    assert!(!message.as_str().unwrap().contains("refused"), "{message}");
}
