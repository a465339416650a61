use std::{fs, path::Path};

use super::{place::entries, *};
use crate::{
    release::State,
    storage::{
        codec::tests::KEY,
        round_trip::round_trip,
        samples::{owner, private, record},
        unreadable::Fault,
    },
};

/// A directory of this test alone.
fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sherpack-files-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn records(base: &Path) -> FileRecords {
    FileRecords::new(Some(base.to_owned()), KEY.clone())
}

fn inside(path: &Path) -> Vec<String> {
    let mut names = entries(path).unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn records_in_files_do_what_every_driver_does() {
    let base = scratch("all");
    for compression in [Compression::Zstd, Compression::Gzip, Compression::None] {
        round_trip(&records(&base).compressing(compression), "apps", "web").await;
        assert_eq!(inside(&base), Vec::<String>::new(), "{compression:?}");
    }
    fs::remove_dir_all(base).unwrap();
}

#[tokio::test]
async fn a_file_is_what_the_published_library_reads_and_writes() {
    let base = scratch("published");
    let records = records(&base);
    records.create(&record(7), &private(7)).await.unwrap();
    let file = base.join("apps/web/v7.json");
    let json = zstd::decode_all(fs::read(&file).unwrap().as_slice()).unwrap();
    assert_eq!(serde_json::from_slice::<Record>(&json).unwrap(), record(7));
    // Its own write: the same file with another content. Then ours is not beside it any more.
    let theirs = serde_json::to_vec(&Record { state: State::Superseded, ..record(7) }).unwrap();
    fs::write(&file, zstd::bulk::compress(&theirs, 3).unwrap()).unwrap();
    let Head::Foreign(stored) = records.newest("apps", "web").await.unwrap() else { panic!("not foreign") };
    assert_eq!(stored.record.state, State::Superseded);
    records.update(&stored, &stored.record, None, true).await.unwrap();
    assert_eq!(inside(&base.join("apps/web")).len(), 3, "the file, one beside it, the lock");
    fs::remove_dir_all(base).unwrap();
}

#[tokio::test]
async fn what_a_crash_leaves_is_the_old_pair_or_the_new_one() {
    let base = scratch("crash");
    let records = records(&base);
    let stored = records.create(&record(1), &private(1)).await.unwrap();
    let place = base.join("apps/web");
    let old = fs::read(place.join("v1.json")).unwrap();
    let beside =
        |path: &Path| inside(path).into_iter().filter(|name| name.ends_with(".meta")).collect::<Vec<_>>();
    let first = beside(&place);
    let kept = fs::read(place.join(&first[0])).unwrap();
    let deployed = Record { state: State::Deployed, ..record(1) };
    records.update(&stored, &deployed, Some(&private(1)), true).await.unwrap();
    // Died before the rename of the file: the old file, both files beside it, and one aside.
    fs::write(place.join(&first[0]), kept).unwrap();
    fs::write(place.join(".new"), b"half").unwrap();
    let new = fs::read(place.join("v1.json")).unwrap();
    for (content, state) in [(old, record(1).state), (new, State::Deployed)] {
        fs::write(place.join("v1.json"), content).unwrap();
        let Head::Ours(stored) = records.newest("apps", "web").await.unwrap() else { panic!("not ours") };
        assert_eq!(stored.record.state, state);
    }
    let Head::Ours(stored) = records.newest("apps", "web").await.unwrap() else { panic!("not ours") };
    records.update(&stored, &deployed, Some(&private(1)), true).await.unwrap();
    assert_eq!(beside(&place).len(), 1);
    records.remove_all("apps", "web", &owner()).await.unwrap();
    assert_eq!(inside(&base), Vec::<String>::new());
    fs::remove_dir_all(base).unwrap();
}

#[tokio::test]
async fn no_link_is_followed_and_no_name_leads_out() {
    let (base, outside) = (scratch("links"), scratch("links-outside"));
    let records = records(&base);
    let kept = records.create(&record(1), &private(1)).await.unwrap();
    fs::rename(base.join("apps/web/v1.json"), outside.join("v1.json")).unwrap();
    std::os::unix::fs::symlink(outside.join("v1.json"), base.join("apps/web/v1.json")).unwrap();
    assert!(records.newest("apps", "web").await.is_err());
    assert!(records.delete(&kept.meta()).await.is_err());
    fs::remove_dir_all(base.join("apps")).unwrap();
    std::os::unix::fs::symlink(&outside, base.join("apps")).unwrap();
    assert!(records.newest("apps", "web").await.is_err());
    assert!(records.create(&record(1), &private(1)).await.is_err());
    for name in ["..", ".", "a/b", "", "a.b"] {
        assert!(records.newest("prod", name).await.is_err(), "{name:?}");
        assert!(records.newest(name, "web").await.is_err(), "{name:?}");
    }
    assert_eq!(inside(&outside), ["v1.json"]);
    fs::remove_dir_all(base).unwrap();
    fs::remove_dir_all(outside).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_unreadable_and_without_a_directory_nothing_is_guessed() {
    let base = scratch("damaged");
    let records = records(&base);
    records.create(&record(1), &private(1)).await.unwrap();
    let file = base.join("apps/web/v1.json");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let head = records.newest("apps", "web").await.unwrap();
    assert!(matches!(&head, Head::Unreadable(why) if why.reason == Fault::Damaged), "{head:?}");
    let heads: Vec<Marked> = records.heads(None).try_collect().await.unwrap();
    assert!(matches!(heads[..], [Marked { revision: 1, sealed: None, .. }]));
    fs::remove_dir_all(&base).unwrap();

    let none = FileRecords::new(None, KEY.clone());
    let error = none.newest("apps", "web").await.unwrap_err();
    assert!(error.to_string().contains("--storage-dir"), "{error}");
}
