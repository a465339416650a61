use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    release::{Operation, OperationPhase, State},
    storage::samples::{PUBLISHED, private, record},
};

pub(crate) static KEY: LazyLock<MacKey> = LazyLock::new(|| MacKey::new([42; KEY_BYTES]));

fn ours(revision: u32) -> Secret {
    encode(&record(revision), Some(&private(revision)), Compression::Zstd, &KEY, true).unwrap()
}

fn data<'a>(secret: &'a mut Secret, key: &str) -> &'a mut Vec<u8> {
    &mut secret.data.as_mut().unwrap().get_mut(key).unwrap().0
}

fn label(secret: &mut Secret, key: &str, value: &str) {
    secret.metadata.labels.as_mut().unwrap().insert(key.into(), value.into());
}

fn fault(secret: &Secret) -> Fault {
    decode(secret, &KEY).unwrap_err().reason
}

#[test]
fn a_secret_has_the_published_name_type_labels_and_key() {
    let secret = encode(&record(7), None, Compression::Zstd, &KEY, false).unwrap();
    let published = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "sh.sherpack.release.v1.web.v7",
            "namespace": "apps",
            "labels": {
                "app.kubernetes.io/managed-by": "sherpack",
                "sherpack.io/release-name": "web",
                "sherpack.io/release-version": "7",
                "sherpack.io/release-namespace": "apps",
                "sherpack.io/storage-driver": "secrets",
                "sherpack.io/compression": "zstd",
            },
        },
        "type": "sherpack.io/release.v1",
    });
    let mut written = serde_json::to_value(&secret).unwrap();
    let data = written.as_object_mut().unwrap().remove("data").unwrap();
    assert_eq!(written, published);
    assert_eq!(data.as_object().unwrap().keys().collect::<Vec<_>>(), ["release"]);
}

#[test]
fn the_blob_is_base64_text_of_a_zstd_frame_of_the_published_json() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let mut secret = ours(7);
    let frame = STANDARD.decode(data(&mut secret, "release")).unwrap();
    let json: Value = serde_json::from_slice(&zstd::decode_all(frame.as_slice()).unwrap()).unwrap();
    assert_eq!(json, serde_json::from_str::<Value>(PUBLISHED).unwrap());
}

#[test]
fn ours_adds_one_data_key_and_on_the_newest_record_one_label() {
    let secret = ours(7);
    assert_eq!(secret.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["private", "release"]);
    assert!(is_marked_head(&secret.metadata));
    let older = encode(&record(6), Some(&private(6)), Compression::Zstd, &KEY, false).unwrap();
    assert!(!is_marked_head(&older.metadata));
}

#[test]
fn all_compressions_are_read() {
    for compression in [Compression::Zstd, Compression::Gzip, Compression::None] {
        let secret = encode(&record(7), Some(&private(7)), compression, &KEY, true).unwrap();
        let decoded = decode(&secret, &KEY).unwrap();
        assert_eq!((decoded.record, decoded.private), (record(7), Some(private(7))), "{compression:?}");
    }
}

#[test]
fn all_nine_states_survive() {
    let t = "2024-05-01T10:00:00Z";
    for state in [
        serde_json::json!({"status": "deployed"}),
        serde_json::json!({"status": "failed", "reason": "r", "recoverable": false, "failed_at": t}),
        serde_json::json!({"status": "uninstalled"}),
        serde_json::json!({"status": "superseded"}),
        serde_json::json!({"status": "pending-install", "started_at": t, "timeout": 300}),
        serde_json::json!({"status": "pending-upgrade", "started_at": t, "timeout": 300, "previous_version": 1}),
        serde_json::json!({"status": "pending-rollback", "started_at": t, "timeout": 300, "target_version": 1}),
        serde_json::json!({"status": "pending-uninstall", "started_at": t, "timeout": 300}),
        serde_json::json!({"status": "recovering", "from_status": "failed", "attempt": 1, "started_at": t}),
    ] {
        let mut written = record(7);
        written.state = serde_json::from_value::<State>(state).unwrap();
        let secret = encode(&written, Some(&private(7)), Compression::Zstd, &KEY, true).unwrap();
        assert_eq!(decode(&secret, &KEY).unwrap().record, written);
    }
}

#[test]
fn a_record_of_another_tool_is_foreign() {
    let mut theirs = ours(7);
    theirs.data.as_mut().unwrap().remove("private");
    let decoded = decode(&theirs, &KEY).unwrap();
    assert_eq!(decoded.provenance, Provenance::Foreign(Because::NoPrivatePart));
    assert_eq!(decoded.private, None);
}

#[test]
fn a_record_sealed_with_another_key_is_foreign() {
    let other = MacKey::new([1; KEY_BYTES]);
    let forged = encode(&record(7), Some(&private(7)), Compression::Zstd, &other, true).unwrap();
    let decoded = decode(&forged, &KEY).unwrap();
    assert_eq!((decoded.provenance, decoded.private), (Provenance::Foreign(Because::UnknownKey), None));
    assert_eq!(decoded.unproved.unwrap().owner, Some(private(7).owner));
}

#[test]
fn a_private_part_of_another_revision_is_foreign() {
    let (mut six, mut seven) = (ours(6), ours(7));
    std::mem::swap(data(&mut six, "private"), data(&mut seven, "private"));
    for swapped in [six, seven] {
        assert_eq!(decode(&swapped, &KEY).unwrap().provenance, Provenance::Foreign(Because::BrokenSeal));
    }
}

#[test]
fn a_record_that_names_another_release_namespace_or_revision_is_unreadable() {
    for (namespace, name) in [
        ("other", "sh.sherpack.release.v1.web.v7"),
        ("apps", "sh.sherpack.release.v1.db.v7"),
        ("apps", "sh.sherpack.release.v1.web.v8"),
        ("apps", "anything"),
    ] {
        let mut secret = ours(7);
        secret.metadata.namespace = Some(namespace.into());
        secret.metadata.name = Some(name.into());
        assert_eq!(fault(&secret), Fault::ForeignName, "{namespace}/{name}");
    }
    for key in [names::RELEASE_NAME, names::RELEASE_NAMESPACE, names::RELEASE_VERSION] {
        let mut secret = ours(7);
        label(&mut secret, key, "8");
        assert_eq!(fault(&secret), Fault::ForeignName, "{key}");
    }
}

#[test]
fn a_record_without_labels_is_still_ours() {
    let mut secret = ours(7);
    secret.metadata.labels = None;
    assert_eq!(decode(&secret, &KEY).unwrap().provenance, Provenance::Ours);
}

#[test]
fn a_record_marked_as_chunked_another_type_and_an_empty_secret_are_unreadable() {
    let mut chunked = ours(7);
    label(&mut chunked, names::CHUNKED, "true");
    assert_eq!(fault(&chunked), Fault::Damaged);
    let mut opaque = ours(7);
    opaque.type_ = Some("Opaque".into());
    assert_eq!(fault(&opaque), Fault::WrongType);
    let mut empty = ours(7);
    empty.data = None;
    assert_eq!(fault(&empty), Fault::Damaged);
}

#[test]
fn a_record_cut_anywhere_is_unreadable() {
    let whole = data(&mut ours(7), "release").len();
    for length in 0..whole {
        let mut cut = ours(7);
        data(&mut cut, "release").truncate(length);
        assert_eq!(fault(&cut), Fault::Damaged, "{length}");
    }
}

#[test]
fn an_unreadable_record_says_which_and_why() {
    let mut cut = ours(7);
    data(&mut cut, "release").truncate(8);
    let unreadable = decode(&cut, &KEY).unwrap_err();
    assert_eq!((unreadable.release.as_deref(), unreadable.revision), (Some("web"), Some(7)));
    assert!(unreadable.to_string().starts_with("record apps/sh.sherpack.release.v1.web.v7 cannot be read"));
}

#[test]
fn no_flipped_bit_is_ever_ours() {
    for compression in [Compression::Zstd, Compression::Gzip, Compression::None] {
        let mut secret = encode(&record(7), Some(&private(7)), compression, &KEY, true).unwrap();
        // One of them byte by byte, the others in steps that meet every part of the frame.
        let step = if compression == Compression::Zstd { 1 } else { 7 };
        for key in ["release", "private"] {
            for at in (0..data(&mut secret, key).len()).step_by(step) {
                for bit in 0..8 {
                    data(&mut secret, key)[at] ^= 1 << bit;
                    if let Ok(decoded) = decode(&secret, &KEY) {
                        let foreign = matches!(decoded.provenance, Provenance::Foreign(because) if because != Because::NoPrivatePart);
                        assert!(foreign, "{key} byte {at} bit {bit}: {:?}", decoded.provenance);
                        assert!(decoded.private.is_none());
                    }
                    data(&mut secret, key)[at] ^= 1 << bit;
                }
            }
        }
        assert_eq!(decode(&secret, &KEY).unwrap().provenance, Provenance::Ours);
    }
}

#[test]
fn size_counts_all_data_keys() {
    let (mut record, mut private) = (record(7), private(7));
    let encode =
        |record: &Record, private: &Private| encode(record, Some(private), Compression::None, &KEY, true);
    record.manifest = "x".repeat(600_000);
    assert!(encode(&record, &private).is_ok());
    private.holder = "x".repeat(200_001);
    let Err(error) = encode(&record, &private) else { panic!("two keys of 800,000 and 300,000 bytes fit") };
    assert_eq!(error.reason(), "RecordTooLarge");
    assert!(error.to_string().contains("apps/sh.sherpack.release.v1.web.v7"), "{error}");
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Eighths: exact in binary and in text.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        values in any_json(),
        manifest in any::<String>(),
        notes in any::<Option<String>>(),
        revision in 1..u32::MAX,
        holder in any::<String>(),
        step in any::<u32>(),
        which in 0..3usize,
    ) {
        let compression = [Compression::Zstd, Compression::Gzip, Compression::None][which];
        let written = Record { values, manifest, notes, ..record(revision) };
        let operation = Some(Operation { phase: OperationPhase::Prune, wave: 3, step, hook: None, jobs: Vec::new() });
        let sealed = Private { holder, operation, ..private(revision) };
        let secret = encode(&written, Some(&sealed), compression, &KEY, false).unwrap();
        // As it travels: the API server's JSON.
        let secret: Secret = serde_json::from_value(serde_json::to_value(secret).unwrap()).unwrap();
        let read = decode(&secret, &KEY).unwrap();
        prop_assert_eq!(read.record, written);
        prop_assert_eq!(read.private, Some(sealed));
    }
}
