use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use super::*;
use crate::storage::codec::{Compression, encode, tests::KEY};
use crate::storage::samples::{private, record};
use crate::storage::{Error, MemoryRecords, Records, Stored};

const HUGE: usize = 2 << 20;

/// A record of another tool of which one text is as long as this.
fn hostile(part: &str, length: usize) -> Secret {
    let huge = "A".repeat(length);
    let mut record = record(1);
    record.state = State::Deployed;
    match part {
        "description" => record.pack.description = Some(huge),
        "pack name" => record.pack.name = huge,
        "app version" => record.pack.app_version = Some(huge),
        "pre-release" => record.pack.version.pre = Prerelease::new(&huge).unwrap(),
        "reason" => {
            record.state = State::Failed { reason: huge, recoverable: true, failed_at: record.created_at };
        }
        "label" => drop(record.labels.insert(names::DESCRIPTION.to_owned(), huge)),
        "other label" => drop(record.labels.insert("a".to_owned(), huge)),
        "annotation" => drop(record.pack.annotations.insert("a".to_owned(), huge)),
        "manifest" => record.manifest = huge,
        other => panic!("{other}"),
    }
    encode(&record, None, Compression::Zstd, &KEY, true).unwrap()
}

/// What it takes as JSON, and what others put on its object.
fn bytes(stored: &Stored) -> usize {
    serde_json::to_vec(&stored.record).unwrap().len() + stored.carried.bytes()
}

fn room() -> Result<(), ()> {
    Ok(())
}

#[tokio::test]
async fn of_a_huge_record_little_stays() {
    let parts = [
        "description",
        "pack name",
        "app version",
        "pre-release",
        "reason",
        "label",
        "other label",
        "annotation",
        "manifest",
    ];
    for part in parts {
        let records = MemoryRecords::new(KEY.clone());
        // One as large as a record may be.
        let length = if part == "description" { 30 << 20 } else { HUGE };
        records.put(hostile(part, length));
        let Head::Foreign(slim) = records.newest_slim("apps", "web", room).await.unwrap().unwrap() else {
            panic!("{part}: not foreign");
        };
        assert!(bytes(&slim) < REST_BYTES, "{part}: {} bytes", bytes(&slim));
        assert!(slim.weight > HUGE, "{part}: who reads all of it has to know what it takes");
        assert!(slim.record.pack.name.len() <= NAME_BYTES && !slim.is_whole());
        let all: Vec<Head> = records.survey("apps", "web").try_collect().await.unwrap();
        assert!(bytes(all[0].stored().unwrap()) < REST_BYTES, "{part}");
        let whole: Vec<Head> = records.history("apps", "web").try_collect().await.unwrap();
        assert!(bytes(whole[0].stored().unwrap()) > HUGE, "{part}");
    }
}

#[tokio::test]
async fn a_survey_keeps_of_our_own_records_what_they_would_apply_as_a_digest_alone() {
    let records = MemoryRecords::new(KEY.clone());
    for revision in 1..=3 {
        let mut record = record(revision);
        record.manifest = if revision == 2 { "B" } else { "A" }.repeat(HUGE);
        records.create(&record, &private(revision)).await.unwrap();
    }
    let mut all: Vec<Head> = records.survey("apps", "web").try_collect().await.unwrap();
    all.sort_by_key(Head::revision);
    let effects: Vec<&String> = all.iter().filter_map(|head| head.stored()?.effect.as_ref()).collect();
    assert!(effects.len() == 3 && effects[0] == effects[2] && effects[0] != effects[1], "{effects:?}");
    for head in &all {
        let stored = head.stored().unwrap();
        assert!(bytes(stored) < REST_BYTES && stored.weight > HUGE && !stored.is_whole());
    }
}

#[tokio::test]
async fn an_old_record_is_read_whole_when_there_is_room_and_a_small_one_always() {
    let records = MemoryRecords::new(KEY.clone());
    records.put(hostile("description", HUGE));
    assert_eq!(records.get_with("apps", "web", 1, || Err("full")).await.unwrap().unwrap_err(), "full");
    records.create(&record(2), &private(2)).await.unwrap();
    let head = records.get_with("apps", "web", 2, || Err("full")).await.unwrap().unwrap();
    assert!(head.stored().unwrap().is_whole());
}

#[tokio::test]
async fn a_slim_record_is_not_written_and_a_refilled_one_is() {
    let records = MemoryRecords::new(KEY.clone());
    let written = records.create(&record(1), &private(1)).await.unwrap();
    let mut slim = written.clone().slim();
    let refused = records.update(&slim, &slim.record, slim.private.as_ref(), true).await.unwrap_err();
    assert!(matches!(refused, Error::NotWhole { .. }), "{refused}");
    let Head::Ours(found) = records.newest("apps", "web").await.unwrap() else { panic!("not ours") };
    assert_eq!(found.record, written.record);
    // Its mark alone may be written.
    slim.resource_version = records.set_head(&slim.meta(), true).await.unwrap();
    slim.refill(written.record.clone());
    let again = records.update(&slim, &slim.record, slim.private.as_ref(), true).await.unwrap();
    assert_eq!(again.record, written.record);
}

#[tokio::test]
async fn what_others_put_on_it_in_plenty_comes_back_with_a_read_and_not_before() {
    let records = MemoryRecords::new(KEY.clone());
    records.create(&record(1), &private(1)).await.unwrap();
    let mut main = records.lose("apps", "sh.sherpack.release.v1.web.v1").unwrap();
    let note = "n".repeat(100 << 10);
    main.metadata.annotations = Some([("note".to_owned(), note.clone())].into());
    records.put(main);
    let Head::Ours(whole) = records.newest("apps", "web").await.unwrap() else { panic!("not ours") };
    let mut slim = whole.clone().slim();
    assert!(slim.carried.bytes() == 0 && !slim.carries_all());
    slim.refill(whole.record.clone());
    assert!(!slim.is_whole(), "the annotation would be lost");
    let Head::Ours(read) = records.newest("apps", "web").await.unwrap() else { panic!("not ours") };
    slim.refill_from(*read);
    records.update(&slim, &slim.record, slim.private.as_ref(), true).await.unwrap();
    let main = records.lose("apps", "sh.sherpack.release.v1.web.v1").unwrap();
    assert_eq!(main.metadata.annotations.unwrap()["note"], note);
}

#[tokio::test]
async fn a_large_record_is_unpacked_when_there_is_room_and_a_small_one_always() {
    let records = MemoryRecords::new(KEY.clone());
    records.put(hostile("description", HUGE));
    let refused = records.newest_slim("apps", "web", || Err("full")).await.unwrap();
    assert_eq!(refused.unwrap_err(), "full");
    records.create(&record(2), &private(2)).await.unwrap();
    let head = records.newest_slim("apps", "web", || Err("full")).await.unwrap().unwrap();
    assert_eq!(head.revision(), Some(2));
}

#[tokio::test]
async fn heads_without_a_right_seal_are_told_by_their_names_alone() {
    let records = MemoryRecords::new(KEY.clone());
    let sealed = records.create(&record(1), &private(1)).await.unwrap();
    // Not even unpacked, or it would be seen that it is none.
    let mut torn = encode(&record(2), None, Compression::Zstd, &KEY, true).unwrap();
    torn.data.as_mut().unwrap().get_mut("release").unwrap().0 = b"!".to_vec();
    records.put(torn);
    // A seal of another record.
    let mut copied = encode(&record(3), None, Compression::Zstd, &KEY, true).unwrap();
    let one = records.lose("apps", "sh.sherpack.release.v1.web.v1").unwrap();
    copied.data.as_mut().unwrap().insert("private".to_owned(), one.data.as_ref().unwrap()["private"].clone());
    records.put(copied);
    records.put(one);
    let mut heads: Vec<(u32, Option<Box<Stored>>)> =
        records.heads(None).map_ok(|head| (head.revision, head.sealed)).try_collect().await.unwrap();
    heads.sort_by_key(|(revision, _)| *revision);
    assert_eq!(heads.iter().map(|(_, sealed)| sealed.is_some()).collect::<Vec<_>>(), [true, false, false]);
    let first = heads[0].1.as_ref().unwrap();
    assert!(!first.is_whole() && first.private == sealed.private);
}

#[test]
fn every_text_is_cut_at_a_character_and_a_cut_name_is_no_name() {
    let json = json!({"name": "ü".repeat(200), "version": "1.2.3-rc.1+build.5"});
    let mut pack: PackIdentity = serde_json::from_value(json).unwrap();
    cut_pack(&mut pack);
    assert!(pack.name.ends_with('…') && pack.name.len() <= NAME_BYTES);
    assert_eq!(pack.version.to_string(), "1.2.3-rc.1+build.5");
    pack.version.pre = Prerelease::new(&"a".repeat(300)).unwrap();
    cut_pack(&mut pack);
    assert_eq!(pack.version.to_string(), "1.2.3+cut");
}
