//! Records in several objects: what other tools find, and what a crash leaves.

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    backend::Backend,
    codec::{self, tests::KEY},
    round_trip::{big, noise},
    *,
};
use crate::{api::names, manifest::InventoryEntry};

const KEY_OF_ONE: &str = "sh.sherpack.release.v1.web.v1";

fn records() -> MemoryRecords {
    MemoryRecords::new(KEY.clone())
}

async fn secret(records: &MemoryRecords, name: &str) -> Secret {
    records.backend.get("apps", name).await.unwrap().unwrap()
}

/// Reads a chunked record as facts of the published library have it: by label, exactly as many as the index says.
async fn as_published(records: &MemoryRecords, name: &str) -> Result<Vec<u8>, String> {
    let main = secret(records, name).await;
    let data = main.data.unwrap();
    assert!(!data.contains_key("release"), "an index has no release");
    let index: Value = serde_json::from_slice(&data["index"].0).unwrap();
    assert_eq!((&index["format"], &index["chunk_size"]), (&"chunked".into(), &700_000.into()));
    assert_eq!(index["compression"], "zstd");
    let mut chunks = Vec::new();
    for object in records.objects() {
        let part = secret(records, object.strip_prefix("apps/").unwrap()).await;
        let labels = part.metadata.labels.clone().unwrap();
        if labels.get("sherpack.io/chunk-parent").is_some_and(|parent| parent == name) {
            assert_eq!(part.type_.as_deref(), Some("sherpack.io/release-chunk.v1"));
            assert!(
                !labels.contains_key("sherpack.io/compression") && !labels.contains_key("sherpack.io/head")
            );
            assert_eq!(labels["sherpack.io/chunked"], "true");
            assert_eq!(labels["sherpack.io/storage-driver"], "secrets");
            let at: usize = labels["sherpack.io/chunk-index"].parse().unwrap();
            let data = part.data.unwrap();
            assert_eq!(data["index"].0, at.to_string().into_bytes());
            chunks.push((at, data["chunk"].0.clone()));
        }
    }
    chunks.sort();
    if chunks.len() as u64 != index["chunk_count"] {
        return Err(format!("{} of {} chunks", chunks.len(), index["chunk_count"]));
    }
    let text = chunks.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<u8>>();
    assert_eq!(index["total_size"], text.len());
    let sum: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(index["checksum"], format!("sha256:{sum}"));
    Ok(text)
}

#[tokio::test]
async fn a_chunked_record_is_what_the_published_library_reads() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let records = records();
    let written = big(1, 5 << 20);
    records.create(&written, &private(1)).await.unwrap();
    let main = secret(&records, KEY_OF_ONE).await;
    assert_eq!(main.type_.as_deref(), Some("sherpack.io/release.v1"));
    assert_eq!(main.metadata.labels.unwrap()["sherpack.io/chunked"], "true");
    let text = as_published(&records, KEY_OF_ONE).await.unwrap();
    let json = zstd::decode_all(STANDARD.decode(text).unwrap().as_slice()).unwrap();
    assert_eq!(serde_json::from_slice::<Record>(&json).unwrap(), written);
}

#[tokio::test]
async fn chunks_of_the_published_library_are_read_by_label_and_only_when_exactly_those_are_there() {
    let records = records();
    let written = big(1, 2 << 20);
    records.create(&written, &private(1)).await.unwrap();
    // As that library writes it: no list of names, no private part, names without a hash.
    let mut main = secret(&records, KEY_OF_ONE).await;
    for object in records.objects() {
        let name = object.strip_prefix("apps/").unwrap().to_owned();
        if name != KEY_OF_ONE {
            let mut part = records.lose("apps", &name).unwrap();
            let index = part.metadata.labels.as_ref().unwrap()["sherpack.io/chunk-index"].clone();
            part.metadata.name = Some(format!("{KEY_OF_ONE}.chunk.{index}"));
            records.put(part);
        }
    }
    let data = main.data.as_mut().unwrap();
    data.remove("parts");
    data.remove("private");
    main.metadata.labels.as_mut().unwrap().remove("sherpack.io/parts");
    records.put(main);
    let head = records.newest("apps", "web").await.unwrap();
    assert!(matches!(&head, Head::Foreign(stored) if stored.record == written), "{head:?}");

    let other = MemoryRecords::new(KEY.clone());
    for object in records.objects() {
        other.put(secret(&records, object.strip_prefix("apps/").unwrap()).await);
    }
    let lost = records.lose("apps", &format!("{KEY_OF_ONE}.chunk.1")).unwrap();
    let head = records.newest("apps", "web").await.unwrap();
    assert!(matches!(&head, Head::Unreadable(why) if why.message.contains("2 of 3 chunks")), "{head:?}");
    records.put(lost.clone());
    let mut twice = lost;
    twice.metadata.name = Some("another".into());
    records.put(twice);
    let head = records.newest("apps", "web").await.unwrap();
    assert!(
        matches!(&head, Head::Unreadable(why) if why.message.contains("more than the 3 chunks")),
        "{head:?}"
    );
    records.lose("apps", &format!("{KEY_OF_ONE}.chunk.2"));
    let head = records.newest("apps", "web").await.unwrap();
    assert!(matches!(&head, Head::Unreadable(why) if why.message.contains("two chunks 1")), "{head:?}");

    // One that we write anew keeps nothing of theirs.
    let head = other.newest("apps", "web").await.unwrap();
    other.update(head.stored().unwrap(), &record(1), None, false).await.unwrap();
    assert_eq!(other.objects(), [format!("apps/{KEY_OF_ONE}")]);
}

#[tokio::test]
async fn a_separate_manifest_leaves_a_record_that_others_can_read() {
    let records = records().splitting(Large::SeparateManifests);
    let written = big(1, 3 << 20);
    let stored = records.create(&written, &private(1)).await.unwrap();
    let main = secret(&records, KEY_OF_ONE).await;
    assert!(!main.metadata.labels.as_ref().unwrap().contains_key(names::CHUNKED));
    let mut plain = main.clone();
    plain.data.as_mut().unwrap().retain(|key, _| key == "release");
    let seen = codec::decode(&plain, &KEY).unwrap().record;
    assert_eq!(seen, Record { manifest: String::new(), ..written.clone() });
    // The manifest is written once: a new state writes the record alone.
    let parts = records.objects();
    let creates = records.operations().creates;
    let deployed = Record { state: State::Deployed, ..written };
    records.update(&stored, &deployed, Some(&private(1)), true).await.unwrap();
    assert_eq!((records.objects(), records.operations().creates), (parts, creates));
    let head = records.newest("apps", "web").await.unwrap();
    assert!(matches!(&head, Head::Ours(stored) if stored.record == deployed), "{head:?}");
}

#[tokio::test]
async fn another_manifest_than_the_sealed_one_is_not_ours() {
    let written = big(1, 2 << 20);
    let (honest, forger) =
        (records().splitting(Large::SeparateManifests), MemoryRecords::new(MacKey::new([1; 32])));
    honest.create(&written, &private(1)).await.unwrap();
    let evil = Record { manifest: noise(2 << 20, 99), ..written };
    let forger = forger.splitting(Large::SeparateManifests);
    forger.create(&evil, &private(1)).await.unwrap();
    // Everything of the forger's but the seal.
    let sealed = secret(&honest, KEY_OF_ONE).await.data.unwrap()["private"].clone();
    for object in forger.objects() {
        let name = object.strip_prefix("apps/").unwrap().to_owned();
        let mut object = secret(&forger, &name).await;
        if name == KEY_OF_ONE {
            object.data.as_mut().unwrap().insert("private".into(), sealed.clone());
        }
        honest.put(object);
    }
    let head = honest.newest("apps", "web").await.unwrap();
    assert!(matches!(&head, Head::Foreign(stored) if stored.record == evil), "{head:?}");
}

/// An inventory of so many objects; a finished one knows what they are like.
fn inventory(count: usize, finished: bool) -> Vec<InventoryEntry> {
    let one = private(1).inventory.remove(0);
    (0..count)
        .map(|n| {
            let mut entry = one.clone();
            entry.id.name = format!("settings-{n}");
            entry.digest = format!("sha256:{}", noise(64, n as u64));
            entry.uid = finished.then(|| noise(36, n as u64 + 1));
            entry.fingerprint = finished.then(|| noise(64, n as u64 + 2));
            entry
        })
        .collect()
}

#[tokio::test]
async fn what_could_be_created_can_be_finished_whatever_its_inventory_grows_to() {
    // Around the size at which everything just fits into one object, a large inventory, and one that does not fit
    // by itself.
    for (manifest, objects) in
        [(500_000, 300), (640_000, 700), (690_000, 200), (10_000, 4_000), (2 << 20, 5_000)]
    {
        for large in [Large::Chunked, Large::SeparateManifests] {
            let records = records().splitting(large);
            let written = big(1, manifest);
            let pending = Private { inventory: inventory(objects, false), ..private(1) };
            let stored = records.create(&written, &pending).await.unwrap();
            let finished = Private { inventory: inventory(objects, true), ..private(1) };
            let deployed = Record { state: State::Deployed, ..written };
            records.update(&stored, &deployed, Some(&finished), true).await.unwrap();
            let head = records.newest("apps", "web").await.unwrap();
            let Head::Ours(stored) = head else { panic!("{manifest} {objects}: {head:?}") };
            assert_eq!((stored.record, stored.private), (deployed, Some(Private { writes: 2, ..finished })));
            for object in records.objects() {
                let object = secret(&records, object.strip_prefix("apps/").unwrap()).await;
                assert!(codec::bytes_of([&object]) <= codec::MAX_RECORD_BYTES);
            }
        }
    }
}

#[tokio::test]
async fn what_nobody_could_read_is_refused_before_anything_is_written() {
    let records = records();
    let many = Record { values: Value::from(vec![0; codec::MAX_JSON_NODES]), ..record(1) };
    let error = records.create(&many, &private(1)).await.unwrap_err();
    assert_eq!((error.reason(), error.class()), ("RecordTooLarge", crate::api::Class::FixSpec));
    let huge = Record { manifest: "x".repeat(codec::MAX_JSON_BYTES), ..record(1) };
    let error = records.create(&huge, &private(1)).await.unwrap_err();
    assert!(error.to_string().contains("apps/sh.sherpack.release.v1.web.v1"), "{error}");
    let crowd = Private { inventory: inventory(18_000, false), ..private(1) };
    assert_eq!(records.create(&record(1), &crowd).await.unwrap_err().reason(), "RecordTooLarge");
    assert_eq!(records.objects(), Vec::<String>::new());
}

/// Ends the process after each write of `story` in turn; `check` sees what is left. Gives the number of writes.
async fn killed_after_each_write<F: Future<Output = ()>>(
    large: Large,
    before: impl AsyncFn(&MemoryRecords),
    story: impl Fn(MemoryRecords) -> F,
    check: impl AsyncFn(&MemoryRecords),
) -> u32 {
    for writes in 0.. {
        let records = records().splitting(large);
        before(&records).await;
        let operations = |records: &MemoryRecords| {
            let Operations { creates, updates, label_patches, deletes, .. } = records.operations();
            creates + updates + label_patches + deletes
        };
        let at = operations(&records);
        records.die_after(Some(writes));
        story(records.clone()).await;
        let done = operations(&records) - at <= writes;
        records.die_after(None);
        check(&records).await;
        if done {
            return writes;
        }
    }
    0
}

#[tokio::test]
async fn killed_at_any_write_the_old_or_the_new_state_is_read_and_the_next_write_leaves_no_part_over() {
    let old = big(1, 1 << 20);
    // Another text altogether, so that no part of the one is a part of the other.
    let new = Record { state: State::Deployed, ..old.clone() };
    let small = Record { manifest: "a: b\n".into(), ..new.clone() };
    for large in [Large::Chunked, Large::SeparateManifests] {
        for (from, to) in [(&old, &new), (&old, &small), (&small, &old)] {
            let writes = killed_after_each_write(
                large,
                async |records| drop(records.create(from, &private(1)).await.unwrap()),
                |records| async move {
                    let head = records.newest("apps", "web").await.unwrap();
                    let _ = records.update(head.stored().unwrap(), to, Some(&private(1)), true).await;
                },
                async |records| {
                    let head = records.newest("apps", "web").await.unwrap();
                    let Head::Ours(stored) = &head else { panic!("{head:?}") };
                    assert!(stored.record == *from || stored.record == *to);
                    let last = Record { updated_at: "2030-01-01T00:00:00Z".parse().unwrap(), ..old.clone() };
                    let stored = records.update(stored, &last, Some(&private(1)), true).await.unwrap();
                    assert_eq!(records.objects().len(), 1 + stored.parts.len(), "{:?}", records.objects());
                    if large == Large::Chunked {
                        as_published(records, KEY_OF_ONE).await.unwrap();
                    }
                    records.remove_all("apps", "web", &owner()).await.unwrap();
                    assert_eq!(records.objects(), Vec::<String>::new());
                },
            )
            .await;
            assert!(writes >= 1, "{writes} writes");
        }
    }
}

#[tokio::test]
async fn killed_at_any_write_of_a_new_revision_there_is_none_or_a_whole_one_and_it_can_be_made_again() {
    let first = big(1, 2 << 20);
    let writes = killed_after_each_write(
        Large::Chunked,
        async |_| {},
        |records| {
            let first = first.clone();
            async move { drop(records.create(&first, &private(1)).await) }
        },
        async |records| match records.newest("apps", "web").await.unwrap() {
            Head::None => {
                // The next process makes another one, of another time.
                let again = big(1, (2 << 20) + 5);
                let stored = records.create(&again, &private(1)).await.unwrap();
                assert_eq!(records.objects().len(), 1 + stored.parts.len(), "{:?}", records.objects());
            }
            Head::Ours(stored) => assert_eq!(stored.record, first),
            head => panic!("{head:?}"),
        },
    )
    .await;
    assert_eq!(writes, 4, "three chunks and an index");
}

#[tokio::test]
async fn killed_at_any_write_of_a_deletion_the_release_is_left_with_nothing_in_the_end() {
    let writes = killed_after_each_write(
        Large::Chunked,
        async |records| {
            for revision in [1, 2] {
                records.create(&big(revision, 1 << 20), &private(revision)).await.unwrap();
            }
        },
        |records| async move {
            let oldest = records.list("apps", "web").await.unwrap().remove(0);
            if records.delete(&oldest).await.is_ok() {
                let _ = records.remove_all("apps", "web", &owner()).await;
            }
        },
        async |records| {
            // Readable or gone, never broken.
            for revision in [1, 2] {
                let head = records.get("apps", "web", revision).await.unwrap();
                assert!(matches!(head, Head::None | Head::Ours(_)), "{head:?}");
            }
            records.remove_all("apps", "web", &owner()).await.unwrap();
            assert_eq!(records.objects(), Vec::<String>::new());
        },
    )
    .await;
    assert!(writes >= 6, "{writes}");
}

#[tokio::test]
async fn parts_of_an_older_revision_that_is_gone_are_swept_with_the_next_large_one() {
    let records = records();
    records.create(&big(1, 1 << 20), &private(1)).await.unwrap();
    records.create(&big(2, 1 << 20), &private(2)).await.unwrap();
    // A process died between the index and its chunks.
    records.lose("apps", KEY_OF_ONE).unwrap();
    records.create(&big(3, 1 << 20), &private(3)).await.unwrap();
    let left = records.objects();
    assert!(left.iter().all(|name| !name.contains("web.v1")), "{left:?}");
    assert!(matches!(records.get("apps", "web", 2).await.unwrap(), Head::Ours(_)));
}

#[tokio::test]
async fn a_missing_or_damaged_part_is_unreadable_and_the_next_same_write_mends_it() {
    let records = records();
    let written = big(1, 2 << 20);
    records.create(&written, &private(1)).await.unwrap();
    let parts: Vec<String> = records.objects().into_iter().filter(|name| name.contains(".chunk.")).collect();
    for part in &parts {
        let name = part.strip_prefix("apps/").unwrap();
        let lost = records.lose("apps", name).unwrap();
        let head = records.newest("apps", "web").await.unwrap();
        let Head::Unreadable(why) = head else { panic!("{head:?}") };
        assert!(why.reason == Fault::Damaged && why.message.contains("is missing"), "{why}");
        let mut damaged = lost.clone();
        damaged.data.as_mut().unwrap().get_mut("chunk").unwrap().0[5] ^= 1;
        records.put(damaged);
        let head = records.newest("apps", "web").await.unwrap();
        let Head::Unreadable(why) = head else { panic!("{head:?}") };
        assert!(why.reason == Fault::Damaged && why.message.contains("checksum"), "{why}");
        records.create(&written, &private(1)).await.unwrap();
        assert!(matches!(records.newest("apps", "web").await.unwrap(), Head::Ours(_)));
    }
}

#[tokio::test]
async fn a_record_makes_us_fetch_nothing_that_is_not_its_own_and_not_without_end() {
    let records = records();
    records.create(&big(1, 2 << 20), &private(1)).await.unwrap();
    let honest = secret(&records, KEY_OF_ONE).await;
    let listing = |names: Value| {
        serde_json::json!({"release": {"names": names, "size": 1, "checksum": "sha256:00"}}).to_string()
    };
    let many: Vec<String> = (0..65).map(|n| format!("{KEY_OF_ONE}.chunk.{n}")).collect();
    for (names, fault) in [
        (serde_json::json!(["sherpack-operator-record-key"]), Fault::Damaged),
        (serde_json::json!(["sh.sherpack.release.v1.web.v10"]), Fault::Damaged),
        (serde_json::json!([format!("{KEY_OF_ONE}.chunk/../x")]), Fault::Damaged),
        (serde_json::json!(many), Fault::TooLarge),
        (serde_json::json!("all"), Fault::Damaged),
    ] {
        let mut main = honest.clone();
        main.data.as_mut().unwrap().get_mut("parts").unwrap().0 = listing(names).into_bytes();
        records.put(main);
        let gets = records.operations().gets;
        let head = records.newest("apps", "web").await.unwrap();
        assert!(matches!(&head, Head::Unreadable(why) if why.reason == fault), "{head:?}");
        assert_eq!(records.operations().gets, gets + 1, "the record itself and nothing else");
    }
}

#[tokio::test]
async fn releases_of_one_name_share_a_namespace_for_records_and_do_not_see_each_other() {
    let (one, vault) = (records(), "vault");
    let shared = one.clone().within(vault);
    for namespace in ["apps", "prod", vault] {
        let record = Record { namespace: namespace.to_owned(), ..big(1, 1 << 20) };
        shared.create(&record, &private(1)).await.unwrap();
    }
    for namespace in ["apps", "prod", vault] {
        let head = shared.newest(namespace, "web").await.unwrap();
        assert!(matches!(&head, Head::Ours(stored) if stored.record.namespace == namespace), "{head:?}");
        assert_eq!(shared.list(namespace, "web").await.unwrap().len(), 1);
        let history: Vec<Head> =
            futures::TryStreamExt::try_collect(shared.history(namespace, "web")).await.unwrap();
        assert_eq!(history.len(), 1);
    }
    assert!(one.objects().iter().all(|name| name.starts_with("vault/")));
    shared.remove_all("apps", "web", &owner()).await.unwrap();
    for namespace in ["prod", vault] {
        assert!(matches!(shared.newest(namespace, "web").await.unwrap(), Head::Ours(_)));
    }
    // A record says whose it is; a copy under another release's name is nobody's.
    let mut copy = one.backend.get(vault, "sh.sherpack.release.v1.prod.web.v1").await.unwrap().unwrap();
    copy.metadata.name = Some("sh.sherpack.release.v1.apps.web.v1".into());
    one.put(copy);
    assert!(matches!(shared.newest("apps", "web").await.unwrap(), Head::Unreadable(_)));
}

#[tokio::test]
async fn one_part_that_is_listed_many_times_is_not_read_into_more_than_a_record_may_be() {
    let records = records();
    records.create(&big(1, 2 << 20), &private(1)).await.unwrap();
    let mut main = secret(&records, KEY_OF_ONE).await;
    let data = main.data.as_mut().unwrap();
    let mut listings: Value = serde_json::from_slice(&data["parts"].0).unwrap();
    let names = listings["release"]["names"].as_array_mut().unwrap();
    *names = vec![names[0].clone(); codec::MAX_PARTS];
    let mut large = secret(&records, names[0].as_str().unwrap()).await;
    data.get_mut("parts").unwrap().0 = serde_json::to_vec(&listings).unwrap();
    records.put(main);
    large.data.as_mut().unwrap().get_mut("chunk").unwrap().0 = vec![b'A'; 1_000_000];
    records.put(large);
    let head = records.newest("apps", "web").await.unwrap();
    assert!(
        matches!(&head, Head::Unreadable(why) if why.message.contains("its parts are more than 44800000")),
        "{head:?}"
    );
}

#[tokio::test]
async fn what_is_quoted_of_a_record_is_cut() {
    let records = records();
    records.create(&record(1), &private(1)).await.unwrap();
    let mut main = secret(&records, KEY_OF_ONE).await;
    let long = format!("{{\"release\": \"{}\"}}", "ä".repeat(100_000));
    main.data.as_mut().unwrap().get_mut("release").unwrap().0.clear();
    main.data.as_mut().unwrap().insert("parts".into(), k8s_openapi::ByteString(long.into_bytes()));
    records.put(main);
    let Head::Unreadable(why) = records.newest("apps", "web").await.unwrap() else { panic!("readable") };
    assert!(
        why.message.starts_with("its list of parts is not understood") && why.message.chars().count() == 401
    );
}
