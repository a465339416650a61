//! Records in several objects: a script of what somebody did to the objects of a large record, one act a line.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};
use sherpack_operator::api::names;
use sherpack_operator::manifest::sha256_hex;
use sherpack_operator::release::{PRIVATE_VERSION, Private, Record, ReleaseKey};
use sherpack_operator::storage::codec::{self, Compression, Large, MAX_PARTS, Needs};
use sherpack_operator::storage::{Head, MacKey, MemoryRecords, Records};
use tokio::runtime::Runtime;

const NAME: &str = "sh.sherpack.release.v1.web.v7";

/// Objects that look like the record's own and are not.
const STRANGERS: [(&str, &str); 3] = [
    ("sh.sherpack.release.v1.web-2.v7", "web-2"),
    ("sh.sherpack.release.v1.web-2.v7.chunk.0", "web-2"),
    ("sh.sherpack.release.v1.other.web.v7.chunk.0", "web"),
];

type Objects = BTreeMap<String, Secret>;

/// What the script leaves is read as the operator reads it, and removed as it removes a release.
pub fn parts(bytes: &[u8]) {
    let Ok(script) = std::str::from_utf8(bytes) else { return };
    let (first, acts) = script.split_once('\n').unwrap_or((script, ""));
    let mut objects = match first {
        "labelled" => labelled(),
        "separate" => separate().clone(),
        _ => named(),
    };
    for act in acts.lines().take(64) {
        let _ = carry_out(&mut objects, act);
    }
    if let Some(main) = objects.get(NAME) {
        what_it_asks_for_is_its_own(main);
    }
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let found = RUNTIME
        .get_or_init(|| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"))
        .block_on(read_and_remove(objects));
    if acts.is_empty() {
        let whole = if first == "labelled" { "foreign" } else { "ours" };
        assert_eq!(found, whole, "nobody did anything to it");
    }
}

fn what_it_asks_for_is_its_own(main: &Secret) {
    match codec::needs(main) {
        Ok(Needs::Named(names)) => {
            assert!(!names.is_empty() && names.len() <= MAX_PARTS, "{} parts", names.len());
            for name in names {
                let own = name.strip_prefix(NAME).is_some_and(|rest| rest.starts_with('.'));
                assert!(own && name.len() <= 253, "{name:?} is none of its own");
            }
        }
        Ok(Needs::Labelled { parent, count }) => assert!(parent == NAME && count <= MAX_PARTS, "{count}"),
        Ok(Needs::Nothing) | Err(_) => {}
    }
}

/// Says how the record was found.
async fn read_and_remove(objects: Objects) -> &'static str {
    let records = MemoryRecords::new(key());
    for object in objects.into_values().chain(STRANGERS.map(|(name, release)| stranger(name, release))) {
        records.put(object);
    }
    let head = records.newest("apps", "web").await.expect("nobody disturbs the read");
    let found = match head {
        Head::Ours(stored) => {
            assert_eq!(stored.private.as_ref(), Some(&private()), "nobody but us can seal");
            let separate = Record { manifest: noise(), ..record() };
            assert!(stored.record == record() || stored.record == separate, "another record has our seal");
            "ours"
        }
        Head::Unreadable(why) => {
            assert!(why.message.chars().count() <= 401, "{}", why.message);
            "unreadable"
        }
        Head::Foreign(_) => "foreign",
        Head::None => "none",
    };
    let done = records.operations();
    assert_eq!((done.creates, done.updates, done.label_patches, done.deletes), (0, 0, 0, 0));
    assert!(done.gets as usize <= MAX_PARTS + 3 && done.lists + done.scans <= 3, "{done:?}");

    let owner = ReleaseKey { namespace: "apps".to_owned(), name: "web".to_owned() };
    records.remove_all("apps", "web", &owner).await.expect("it can be removed");
    let left = records.objects();
    for (name, _) in STRANGERS {
        assert!(left.contains(&format!("apps/{name}")), "{name} went with it");
    }
    // What is sealed goes, and nothing else does.
    let after = records.newest("apps", "web").await.expect("nobody disturbs");
    let expected = match found {
        "foreign" => matches!(after, Head::Foreign(_)),
        "unreadable" => matches!(after, Head::Unreadable(_)),
        _ => matches!(after, Head::None),
    };
    assert!(expected, "{found} before, {after:?} after");
    found
}

fn key() -> MacKey {
    MacKey::new([7; codec::KEY_BYTES])
}

fn record() -> Record {
    static RECORD: OnceLock<Record> = OnceLock::new();
    let golden = include_str!("../../src/release/golden/record_full.json");
    RECORD.get_or_init(|| serde_json::from_str(golden).expect("a record")).clone()
}

/// What must be there, and nothing else.
fn private() -> Private {
    let private = json!({
        "version": PRIVATE_VERSION, "owner": {"namespace": "apps", "name": "web", "uid": "6f1c"},
        "holder": "operator-0", "action": "Upgrade", "attempt": 1, "inputs": "sha256:aa",
        "packDigest": "sha256:bb", "inventory": [], "lastDeployed": 1,
    });
    serde_json::from_value(private).expect("a private part")
}

fn stranger(name: &str, release: &str) -> Secret {
    let mut secret = part(name, 0, b"theirs");
    let labels = secret.metadata.labels.get_or_insert_default();
    labels.insert(names::RELEASE_NAME.to_owned(), release.to_owned());
    match name.split_once(".chunk") {
        Some((parent, _)) => drop(labels.insert(names::CHUNK_PARENT.to_owned(), parent.to_owned())),
        None => labels.retain(|label, _| label != names::CHUNK_PARENT),
    }
    secret
}

/// A small record whose streams stand in parts: three and two.
fn named() -> Objects {
    let (mut main, release, sealed) = whole();
    let mut objects = Objects::new();
    let mut listings = Map::new();
    for (stream, word, text, count) in [("release", "chunk", release, 3), ("private", "private", sealed, 2)] {
        let cut = pieces(&text, count);
        let names: Vec<String> =
            (0..cut.len()).map(|at| format!("{NAME}.{word}.{}.{at}", &sha256_hex(cut[at])[..16])).collect();
        let listing = json!({"names": names, "size": text.len(), "checksum": checksum(&text)});
        listings.insert(stream.to_owned(), listing);
        objects.extend((0..).zip(names).map(|(at, name)| (name.clone(), part(&name, at, cut[at]))));
        if stream == "release" {
            set(&mut main, names::DATA_INDEX, index(&text, cut.len()));
        }
    }
    set(&mut main, names::DATA_PARTS, Value::Object(listings).to_string());
    objects.insert(NAME.to_owned(), main);
    objects
}

/// As the published library writes it.
fn labelled() -> Objects {
    let (mut main, release, _) = whole();
    let cut = pieces(&release, 3);
    set(&mut main, names::DATA_INDEX, index(&release, cut.len()));
    let name = |at: usize| format!("{NAME}.chunk.{at}");
    let mut objects: Objects =
        cut.iter().enumerate().map(|(at, bytes)| (name(at), part(&name(at), at, bytes))).collect();
    objects.insert(NAME.to_owned(), main);
    objects
}

/// A large record as our own driver writes it, with its manifest apart.
fn separate() -> &'static Objects {
    static OBJECTS: OnceLock<Objects> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let records = MemoryRecords::new(key()).compressing(Compression::None);
        let records = records.splitting(Large::SeparateManifests);
        let large = Record { manifest: noise(), ..record() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(records.create(&large, &private())).expect("it is stored");
        let names = records.objects();
        let lost = names.iter().filter_map(|name| records.lose("apps", name.strip_prefix("apps/")?));
        lost.map(|object| (object.metadata.name.clone().unwrap_or_default(), object)).collect()
    })
}

fn noise() -> String {
    "some-text: so that it does not fit into one object\n".repeat(16_000)
}

/// The record in one object without its streams, and these.
fn whole() -> (Secret, Vec<u8>, Vec<u8>) {
    let mut main =
        codec::encode(&record(), Some(&private()), Compression::None, &key(), true).expect("it is small");
    let data = main.data.get_or_insert_default();
    let mut take = |stream: &str| data.remove(stream).map(|bytes| bytes.0).unwrap_or_default();
    let (release, private) = (take(names::DATA_RELEASE), take(names::DATA_PRIVATE));
    let labels = main.metadata.labels.get_or_insert_default();
    labels.insert(names::CHUNKED.to_owned(), "true".to_owned());
    (main, release, private)
}

fn pieces(text: &[u8], count: usize) -> Vec<&[u8]> {
    text.chunks(text.len().div_ceil(count).max(1)).collect()
}

fn checksum(text: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(text))
}

fn index(text: &[u8], count: usize) -> String {
    let index = json!({
        "format": "chunked", "total_size": text.len(), "chunk_count": count, "chunk_size": 700_000,
        "checksum": checksum(text), "compression": "none",
    });
    index.to_string()
}

fn part(name: &str, at: usize, bytes: &[u8]) -> Secret {
    let labels = [
        (names::MANAGED_BY, names::MANAGED_BY_SHERPACK),
        (names::RELEASE_NAME, "web"),
        (names::RELEASE_NAMESPACE, "apps"),
        (names::RELEASE_VERSION, "7"),
        (names::STORAGE_DRIVER, names::DRIVER_SECRETS),
        (names::CHUNK_PARENT, NAME),
        (names::CHUNK_INDEX, &at.to_string()),
    ];
    let mut secret = Secret { type_: Some(names::CHUNK_TYPE.to_owned()), ..Secret::default() };
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("apps".to_owned());
    secret.metadata.labels =
        Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    set(&mut secret, names::DATA_CHUNK, bytes);
    secret
}

fn set(object: &mut Secret, key: &str, bytes: impl AsRef<[u8]>) {
    object.data.get_or_insert_default().insert(key.to_owned(), ByteString(bytes.as_ref().to_vec()));
}

/// One act of the script; `$` in a word stands for the name of the record. What makes no sense does nothing.
fn carry_out(objects: &mut Objects, act: &str) -> Option<()> {
    let (verb, rest) = act.split_once(' ').unwrap_or((act, ""));
    match verb {
        // The data keys of the main object.
        "parts" | "index" => {
            set(objects.get_mut(NAME)?, verb, rest.replace('$', NAME));
            return Some(());
        }
        "sum" => return right_sums(objects),
        _ => {}
    }
    let (at, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let named = objects.keys().nth(at.parse().ok()?)?.clone();
    let (word, text) = rest.split_once(' ').unwrap_or((rest, ""));
    match verb {
        "lose" => drop(objects.remove(&named)),
        "swap" => {
            let other = objects.keys().nth(word.parse().ok()?)?.clone();
            let theirs = objects.get(&other)?.data.clone();
            let ours = std::mem::replace(&mut objects.get_mut(&named)?.data, theirs);
            objects.get_mut(&other)?.data = ours;
        }
        "copy" => {
            let mut copy = objects.get(&named)?.clone();
            let name = word.replace('$', NAME);
            copy.metadata.name = Some(name.clone());
            objects.insert(name, copy);
        }
        "data" => set(objects.get_mut(&named)?, word, text),
        "forget" => drop(objects.get_mut(&named)?.data.as_mut()?.remove(word)),
        "cut" => objects.get_mut(&named)?.data.as_mut()?.get_mut(word)?.0.truncate(text.parse().ok()?),
        "flip" => {
            let bytes = &mut objects.get_mut(&named)?.data.as_mut()?.get_mut(word)?.0;
            *bytes.get_mut(text.parse::<usize>().ok()?)? ^= 1;
        }
        "label" => {
            let labels = objects.get_mut(&named)?.metadata.labels.get_or_insert_default();
            labels.insert(word.to_owned(), text.replace('$', NAME));
        }
        "unlabel" => drop(objects.get_mut(&named)?.metadata.labels.as_mut()?.remove(word)),
        _ => return None,
    }
    Some(())
}

/// Makes sizes and checksums those of the parts that are there, as a forger does.
fn right_sums(objects: &mut Objects) -> Option<()> {
    let data = objects.get(NAME)?.data.clone()?;
    let mut listings: Value = serde_json::from_slice(&data.get(names::DATA_PARTS)?.0).ok()?;
    for listing in listings.as_object_mut()?.values_mut() {
        let mut text = Vec::new();
        for name in listing.get("names")?.as_array()?.iter().take(MAX_PARTS) {
            let chunk =
                objects.get(name.as_str()?).and_then(|part| part.data.as_ref()?.get(names::DATA_CHUNK));
            text.extend_from_slice(chunk.map_or(&[], |chunk| chunk.0.as_slice()));
        }
        listing["size"] = json!(text.len());
        listing["checksum"] = json!(checksum(&text));
    }
    set(objects.get_mut(NAME)?, names::DATA_PARTS, listings.to_string());
    Some(())
}
