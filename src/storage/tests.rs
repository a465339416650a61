use futures::TryStreamExt;

use super::{
    codec::{encode, tests::KEY},
    round_trip::{big, round_trip},
    *,
};
use crate::api::names;

fn records() -> MemoryRecords {
    MemoryRecords::new(KEY.clone())
}

fn deployed(revision: u32) -> Record {
    Record { state: State::Deployed, ..record(revision) }
}

#[tokio::test]
async fn records_in_memory_do_what_every_driver_does() {
    for (compression, large) in [
        (Compression::Zstd, Large::Chunked),
        (Compression::Zstd, Large::SeparateManifests),
        (Compression::Gzip, Large::SeparateManifests),
        (Compression::None, Large::Chunked),
    ] {
        let records = records().compressing(compression).splitting(large);
        round_trip(&records, "apps", "web").await;
        assert_eq!(records.objects(), Vec::<String>::new(), "{compression:?} {large:?}");
    }
    let elsewhere = records().within("vault");
    round_trip(&elsewhere, "apps", "web").await;
    assert_eq!(elsewhere.objects(), Vec::<String>::new());
}

#[tokio::test]
async fn one_revision_is_created_once() {
    let records = records();
    records.create(&record(1), &private(1)).await.unwrap();
    let mut other = private(1);
    other.holder = "somebody-else".into();
    let error = records.create(&record(1), &other).await.unwrap_err();
    assert_eq!(error.reason(), "RecordConflict");
    // The same bytes again are the same call, sent twice.
    records.create(&record(1), &private(1)).await.unwrap();
}

#[tokio::test]
async fn of_two_writers_with_one_reading_the_second_loses() {
    let records = records();
    let stored = records.create(&record(1), &private(1)).await.unwrap();
    let updated = records.update(&stored, &deployed(1), Some(&private(1)), true).await.unwrap();
    assert_eq!(updated.record.state, State::Deployed);
    let late = records.update(&stored, &record(1), Some(&private(1)), true).await.unwrap_err();
    assert_eq!(late.reason(), "RecordConflict");
    assert_eq!(records.set_head(&stored.meta(), false).await.unwrap_err().reason(), "RecordConflict");
    assert_eq!(records.delete(&stored.meta()).await.unwrap_err().reason(), "RecordConflict");
    records.delete(&updated.meta()).await.unwrap();
    records.delete(&updated.meta()).await.unwrap();
    assert_eq!(records.update(&updated, &record(1), None, true).await.unwrap_err().reason(), "RecordLost");
}

#[tokio::test]
async fn the_newest_is_the_highest_number_whatever_the_marks_say() {
    let records = records();
    assert!(matches!(records.newest("apps", "web").await.unwrap(), Head::None));
    for revision in [9, 10] {
        let stored = records.create(&record(revision), &private(revision)).await.unwrap();
        records.set_head(&stored.meta(), revision == 9).await.unwrap();
    }
    let newest = records.newest("apps", "web").await.unwrap();
    assert!(matches!(&newest, Head::Ours(stored) if stored.record.version == 10 && !stored.head));

    let theirs = encode(&record(11), None, Compression::Gzip, &KEY, false).unwrap();
    records.put(theirs);
    let newest = records.newest("apps", "web").await.unwrap();
    assert!(
        matches!(&newest, Head::Foreign(stored) if stored.record.version == 11 && stored.private.is_none())
    );

    let mut broken = encode(&record(12), None, Compression::Zstd, &KEY, false).unwrap();
    broken.data = None;
    records.put(broken);
    assert!(
        matches!(records.newest("apps", "web").await.unwrap(), Head::Unreadable(u) if u.revision == Some(12))
    );
}

#[tokio::test]
async fn chunks_other_releases_and_strangers_with_our_labels_are_not_revisions() {
    let records = records();
    records.create(&record(1), &private(1)).await.unwrap();
    let mut chunk = encode(&record(2), None, Compression::Zstd, &KEY, false).unwrap();
    chunk.metadata.labels.as_mut().unwrap().insert(names::CHUNK_PARENT.into(), "x".into());
    records.put(chunk);
    let mut stranger = encode(&record(3), None, Compression::Zstd, &KEY, false).unwrap();
    stranger.metadata.name = Some("sh.sherpack.release.v1.db.v3".into());
    records.put(stranger);
    let revisions: Vec<_> = records.list("apps", "web").await.unwrap().iter().map(|m| m.revision).collect();
    assert_eq!(revisions, [1]);
    assert!(matches!(records.newest("other", "web").await.unwrap(), Head::None));
}

#[tokio::test]
async fn heads_are_the_marked_records_of_one_namespace_or_of_all() {
    let records = records();
    let one = records.create(&record(1), &private(1)).await.unwrap();
    records
        .update(&one, &Record { state: State::Superseded, ..record(1) }, Some(&private(1)), false)
        .await
        .unwrap();
    records.create(&record(2), &private(2)).await.unwrap();
    let elsewhere = Record { namespace: "other".into(), ..record(5) };
    records.create(&elsewhere, &private(5)).await.unwrap();
    let revisions = |namespace| records.heads(namespace).map_ok(|head| head.revision).try_collect::<Vec<_>>();
    assert_eq!(revisions(None).await.unwrap(), [2, 5]);
    assert_eq!(revisions(Some("apps")).await.unwrap(), [2]);
    let history: Vec<_> = records.history("apps", "web").try_collect().await.unwrap();
    assert_eq!(history.len(), 2);
}

#[tokio::test]
async fn a_foreign_record_stays_foreign_and_keeps_what_others_put_on_it() {
    let records = records();
    let mut theirs = encode(&record(1), None, Compression::Zstd, &KEY, false).unwrap();
    theirs.metadata.labels.as_mut().unwrap().insert("backup".into(), "nightly".into());
    theirs.metadata.annotations = Some([("note".to_owned(), "keep".to_owned())].into());
    theirs.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    records.put(theirs);
    let found = records.newest("apps", "web").await.unwrap();
    let superseded = Record { state: State::Superseded, ..record(1) };
    records.update(found.stored().unwrap(), &superseded, None, false).await.unwrap();
    let Head::Foreign(after) = records.newest("apps", "web").await.unwrap() else { panic!("not foreign") };
    assert_eq!(after.record.state, State::Superseded);
    let mut secret = encode(&superseded, None, Compression::Zstd, &KEY, false).unwrap();
    after.succeed(&mut secret);
    let meta = secret.metadata;
    assert_eq!(meta.labels.unwrap()["backup"], "nightly");
    assert_eq!(meta.annotations.unwrap()["note"], "keep");
    assert_eq!(meta.finalizers.unwrap(), ["example.com/hold"]);
    assert_eq!(meta.uid.unwrap(), after.uid);
}

#[tokio::test]
async fn a_new_mark_does_not_outlive_its_record() {
    let records = records();
    let stored = records.create(&record(1), &private(1)).await.unwrap();
    assert!(stored.head);
    let updated = records.update(&stored, &deployed(1), Some(&private(1)), false).await.unwrap();
    assert!(!updated.head);
}

#[tokio::test]
async fn every_operation_is_counted() {
    let records = records();
    let stored = records.create(&record(1), &private(1)).await.unwrap();
    let stored = records.update(&stored, &deployed(1), Some(&private(1)), true).await.unwrap();
    records.newest("apps", "web").await.unwrap();
    records.set_head(&stored.meta(), true).await.unwrap();
    let expected =
        Operations { creates: 1, updates: 1, label_patches: 1, gets: 1, lists: 1, ..Operations::default() };
    assert_eq!(records.operations(), expected);
}

#[tokio::test]
async fn a_removal_takes_what_is_sealed_for_the_release_and_names_what_stays() {
    let records = records();
    for revision in [1, 5] {
        records.create(&big(revision, 1 << 20), &private(revision)).await.unwrap();
    }
    // Another release's, another tool's in parts, one that nobody can read, and one that names us and is not sealed.
    let mut of_another = private(2);
    of_another.owner.name = "rival".into();
    records.create(&record(2), &of_another).await.unwrap();
    records.import(&big(3, 1 << 20), None, false).await.unwrap();
    let mut damaged = encode(&record(4), None, Compression::Zstd, &KEY, false).unwrap();
    damaged.data.as_mut().unwrap().insert("release".into(), k8s_openapi::ByteString(b"AAAA".to_vec()));
    records.put(damaged);
    let forged =
        encode(&record(6), Some(&private(6)), Compression::Zstd, &MacKey::new([9; 32]), false).unwrap();
    records.put(forged);
    let before = records.objects();
    let key = |revision: u32| format!("sh.sherpack.release.v1.web.v{revision}");

    let stays = records.remove_all("apps", "web", &owner()).await.unwrap();
    assert_eq!(stays, [2, 3, 4, 6].map(key));
    let of = |name: &String, revision: u32| {
        let name = name.trim_start_matches("apps/");
        name == key(revision) || name.starts_with(&format!("{}.", key(revision)))
    };
    let expected: Vec<String> =
        before.into_iter().filter(|name| ![1, 5].iter().any(|own| of(name, *own))).collect();
    assert_eq!(records.objects(), expected);
    assert!(matches!(records.get("apps", "web", 3).await.unwrap(), Head::Foreign(_)), "its parts are gone");
    assert_eq!(records.operations().scans, 1);
}
