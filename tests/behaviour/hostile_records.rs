//! Records that are made to harm, and large ones of which a part is missing or another's: each stops its release alone,
//! nothing is changed or deleted by it, and what is put back is taken up again.

use std::io::{Read as _, Write as _};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use sherpack_operator::storage::Keeping;

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment};
use crate::support::wait::{eventually, wait_for};
use crate::support::{Harness, Pack};

/// More than a record may unpack to.
const BOMB: usize = 40 << 20;

/// A pack of one small ConfigMap of a color and one of so many KiB that no compression makes small.
fn pack(name: &str, kib: usize) -> Pack {
    let noise =
        format!("{{% for j in range({}) %}}{{{{ ('{name}' ~ j) | sha256 }}}}{{% endfor %}}", kib * 16);
    Pack::new(name, "1.0.0")
        .values("color: blue\n")
        .object(config_map(name, json!({"color": "{{ values.color }}"})))
        .object(config_map(&format!("{name}-noise"), json!({ "noise": noise })))
        .object(deployment(name, 0))
}

const OBJECTS: [&str; 3] = ["ConfigMap/web", "ConfigMap/web-noise", "Deployment/web"];

fn data<'s>(secret: &'s mut Secret, key: &str) -> &'s mut Vec<u8> {
    &mut secret.data.get_or_insert_default().entry(key.to_owned()).or_insert_with(|| ByteString(Vec::new())).0
}

fn compressed_by(secret: &mut Secret, name: &str) {
    secret.metadata.labels.get_or_insert_default().insert("sherpack.io/compression".into(), name.into());
}

fn reason(release: &Value) -> String {
    condition(release, "Ready")["reason"].as_str().unwrap_or_default().to_owned()
}

/// The release has stopped for a record that cannot be read, and says so: `part` is in the condition and in an Event.
async fn is_told(h: &Harness, part: &str) {
    let told = h
        .sees("SherpackRelease/web", |release| {
            let message = condition(release, "Ready")["message"].clone();
            reason(release) == "RecordUnreadable" && message.as_str().unwrap_or_default().contains(part)
        })
        .await;
    let message = condition(&told, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("sh.sherpack.release.v1.web.v1") && message.contains("reset-at"), "{message}");
    assert_eq!(condition(&told, "Stalled")["status"], "True", "{told}");
    let by_event = async || h.events("web", "RecordUnreadable").await.iter().any(|note| note.contains(part));
    eventually("an Event tells it", by_event).await;
}

/// Somebody changes an object, and it is put back.
async fn is_locked(h: &Harness) {
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
}

/// No object of the release was written or deleted since `mark`, and no record.
async fn nothing_was_done(h: &Harness, mark: usize, uids: &[String]) {
    h.pass("web").await;
    for kind in ["configmaps", "deployments", "secrets"] {
        let writes = h.wire.writes_to(kind, mark);
        assert!(writes.is_empty(), "{kind}: {writes:?}");
    }
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
}

type Change = Box<dyn Fn(&mut Secret) + Send + Sync>;

/// What is done to the one object of a record, and what is told then.
#[expect(clippy::too_many_lines, reason = "a table: what is done to a record, and what is told")]
fn hostile() -> [(&'static str, Change, &'static str); 11] {
    let list = |names: Vec<String>| {
        json!({"release": {"names": names, "size": 10, "checksum": "sha256:00"}}).to_string()
    };
    let theirs = list(vec!["sh.sherpack.release.v1.other.v1".to_owned()]);
    let crowd = list((0..10_000).map(|n| format!("sh.sherpack.release.v1.web.v1.chunk.{n}")).collect());
    let huge = json!({
        "format": "chunked", "total_size": 1_u64 << 60, "chunk_count": 2, "chunk_size": 1, "checksum": "", "compression": "zstd",
    });
    [
        (
            "a zstd bomb",
            Box::new(|secret| {
                let bomb = zstd::encode_all(std::io::repeat(b' ').take(BOMB as u64), 3).unwrap();
                assert!(bomb.len() < 100_000, "{}", bomb.len());
                *data(secret, "release") = STANDARD.encode(bomb).into_bytes();
            }),
            "unpacks to more than",
        ),
        (
            "a gzip bomb",
            Box::new(|secret| {
                compressed_by(secret, "gzip");
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
                encoder.write_all(&vec![b' '; BOMB]).unwrap();
                *data(secret, "release") = STANDARD.encode(encoder.finish().unwrap()).into_bytes();
            }),
            "unpacks to more than",
        ),
        (
            "a zstd frame that asks for 128 MiB of memory",
            Box::new(|secret| {
                let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, (27 - 10) << 3, 1, 0, 0];
                *data(secret, "release") = STANDARD.encode(frame).into_bytes();
            }),
            "zstd data is damaged",
        ),
        (
            "a crowd of values",
            Box::new(|secret| {
                compressed_by(secret, "none");
                *data(secret, "release") =
                    STANDARD.encode(format!("[{}0]", "0,".repeat(300_000))).into_bytes();
            }),
            "more than 250000 JSON values",
        ),
        (
            "half of it",
            Box::new(|secret| {
                let release = data(secret, "release");
                release.truncate(release.len() / 8 * 4);
            }),
            "zstd data is damaged or cut off",
        ),
        ("no base64", Box::new(|secret| data(secret, "release").insert(0, b'!')), "not base64"),
        (
            "another compression than it says",
            Box::new(|secret| compressed_by(secret, "gzip")),
            "gzip data is damaged",
        ),
        (
            "a list of parts that is none",
            Box::new(|secret| *data(secret, "parts") = b"[1".to_vec()),
            "list of parts is not understood",
        ),
        (
            "parts of another release",
            Box::new(move |secret| *data(secret, "parts") = theirs.clone().into_bytes()),
            "none of its own",
        ),
        (
            "a crowd of parts",
            Box::new(move |secret| *data(secret, "parts") = crowd.clone().into_bytes()),
            "more than 64",
        ),
        (
            "chunks of an exabyte",
            Box::new(move |secret| *data(secret, "index") = huge.to_string().into_bytes()),
            "more than 64",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_record_stops_its_release_and_harms_nothing_until_it_is_put_back() {
    let h = Harness::new("hostile-records").await;
    h.deploy("web", &pack("web", 1), json!({})).await;
    h.deploy("other", &pack("other", 1), json!({})).await;
    let (uids, whole) = (h.objects.uids(&OBJECTS).await, h.record_secret("web", 1).await);
    for (name, change, part) in hostile() {
        let mark = h.wire.mark();
        let mut changed = whole.clone();
        change(&mut changed);
        h.restore(changed).await;
        is_told(&h, part).await;
        nothing_was_done(&h, mark, &uids).await;
        h.restore(whole.clone()).await;
        let ready = h.ready("web").await;
        assert_eq!(ready["status"]["revision"], 1, "{name}");
    }
    is_locked(&h).await;
    // The last one is not mended but given up.
    h.damage("web", 1, Vec::clear).await;
    is_told(&h, "").await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    assert_eq!(h.ready("web").await["status"]["revision"], 2);
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    is_locked(&h).await;
    // Nobody else noticed.
    h.shows_states("other", &["1 deployed"]).await;
    h.ready("other").await;
    assert!(h.events("other", "RecordUnreadable").await.is_empty());
}

/// The parts of the records of a release, in the order in which they are read.
async fn parts(h: &Harness, release: &str) -> Vec<Secret> {
    let selector = format!("sherpack.io/chunk-parent,sherpack.io/release-name={release}");
    let mut found = Vec::new();
    for part in h.objects.list("Secret", &selector).await {
        found.push(h.secrets().get(part["metadata"]["name"].as_str().unwrap()).await.unwrap());
    }
    found.sort_by_key(|part| part.metadata.labels.as_ref().unwrap()["sherpack.io/chunk-index"].clone());
    found
}

fn name_of(part: &Secret) -> &str {
    part.metadata.name.as_deref().unwrap()
}

async fn lose(h: &Harness, part: &Secret) {
    h.secrets().delete(name_of(part), &DeleteParams::default()).await.unwrap();
}

/// Changes a part; the other one is another release's.
type Damage = fn(&mut Secret, &Secret);

/// What is done to one part of a record, which another release has too, and what is told then.
const DAMAGES: [(&str, Damage, &str); 4] = [
    ("a flipped bit", |part, _| *data(part, "chunk").last_mut().unwrap() ^= 1, "size or checksum differs"),
    ("cut", |part, _| data(part, "chunk").truncate(1000), "size or checksum differs"),
    ("another release's", |part, other| part.data.clone_from(&other.data), "size or checksum differs"),
    ("empty", |part, _| part.data = None, "is missing"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_record_with_a_wrong_part_stops_its_release_until_the_right_one_is_put_back() {
    let h = Harness::new("hostile-parts").await;
    let history = json!({"history": {"compression": "None"}});
    // Of an object that is about as large as an object may be.
    for release in ["web", "other"] {
        h.deploy(release, &pack(release, 900), history.clone()).await;
    }
    let (uids, of_web, of_other) =
        (h.objects.uids(&OBJECTS).await, parts(&h, "web").await, parts(&h, "other").await);
    assert!(of_web.len() >= 2 && of_other.len() >= 2, "{} and {} parts", of_web.len(), of_other.len());
    // It is read whole when there is something to put back.
    let notice = async || {
        h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    };
    for (name, change, part) in DAMAGES {
        let mark = h.wire.mark();
        let mut changed = of_web[1].clone();
        change(&mut changed, &of_other[1]);
        h.restore(changed).await;
        notice().await;
        is_told(&h, part).await;
        nothing_was_done(&h, mark, &uids).await;
        assert_eq!(h.objects.get("ConfigMap/web").await["data"]["color"], "red", "{name}");
        h.restore(of_web[1].clone()).await;
        h.shows("ConfigMap/web", "/data/color", "blue").await;
        assert_eq!(h.ready("web").await["status"]["revision"], 1, "{name}");
    }
    // One after the other is gone, and comes back.
    let mark = h.wire.mark();
    for part in &of_web {
        lose(&h, part).await;
    }
    notice().await;
    is_told(&h, name_of(&of_web[0])).await;
    nothing_was_done(&h, mark, &uids).await;
    h.restore(of_web[0].clone()).await;
    is_told(&h, name_of(&of_web[1])).await;
    for part in &of_web[1..] {
        h.restore(part.clone()).await;
    }
    h.shows("ConfigMap/web", "/data/color", "blue").await;
    assert_eq!(h.ready("web").await["status"]["revision"], 1);
    // Nobody else noticed.
    h.keeps_states(&Keeping::default(), "hostile-parts", "other", &["1 deployed"]).await;
    assert!(h.events("other", "RecordUnreadable").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_its_manifest_is_not_upgraded_or_uninstalled_until_that_is_put_back() {
    let h = Harness::new("hostile-manifest").await;
    let history = json!({"history": {"compression": "None", "large": "SeparateManifests"}});
    h.deploy("web", &pack("web", 900), history).await;
    let (uids, parts) = (h.objects.uids(&OBJECTS).await, parts(&h, "web").await);
    let manifest = parts.iter().find(|part| name_of(part).contains(".manifest.")).unwrap();
    // While nobody looks.
    h.stop().await;
    lose(&h, manifest).await;
    h.start();
    is_told(&h, name_of(manifest)).await;
    // Neither an upgrade nor the deletion of the release touches what nobody knows any more.
    let mark = h.wire.mark();
    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    is_told(&h, name_of(manifest)).await;
    nothing_was_done(&h, mark, &uids).await;
    h.restore(manifest.clone()).await;
    h.shows("ConfigMap/web", "/data/color", "green").await;
    h.keeps_states(&Keeping::default(), "hostile-manifest", "web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;

    let mut second = self::parts(&h, "web").await;
    second.retain(|part| name_of(part).contains(".v2.manifest."));
    assert!(!second.is_empty());
    for part in &second {
        lose(&h, part).await;
    }
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    wait_for("it has stopped", async || {
        let release = h.objects.get("SherpackRelease/web").await;
        if reason(&release) == "RecordUnreadable" { Ok(()) } else { Err(release["status"].to_string()) }
    })
    .await;
    h.objects.delete("SherpackRelease/web").await;
    h.pass("web").await;
    assert_eq!(
        h.objects.uids(&OBJECTS).await,
        uids,
        "a release whose record is unreadable is not uninstalled"
    );
    for part in &second {
        h.restore(part.clone()).await;
    }
    h.gone("SherpackRelease/web").await;
    for object in OBJECTS {
        assert!(h.objects.find(object).await.is_none(), "{object} is still there");
    }
    let left = h.objects.list("Secret", "sherpack.io/release-name").await;
    assert!(left.is_empty(), "{left:?}");
}
