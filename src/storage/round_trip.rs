//! What every driver must do, in one test that runs over all of them: here, and in `tests/behaviour` over those that
//! need an API server. What it uses comes from the module around it.

use futures::TryStreamExt;

use super::{Head, Private, Record, Records, State, owner, private, record};

/// A manifest of so many bytes that no compression makes smaller.
pub(crate) fn noise(bytes: usize, seed: u64) -> String {
    let mut state = seed | 1;
    let letters = std::iter::repeat_with(move || {
        // xorshift: good enough to defeat a compressor.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[(state & 63) as usize])
    });
    letters.take(bytes).collect()
}

/// A record that needs several objects.
pub(crate) fn big(revision: u32, bytes: usize) -> Record {
    Record { manifest: noise(bytes, u64::from(revision) + 7), ..record(revision) }
}

fn of(namespace: &str, release: &str, record: Record) -> Record {
    Record { namespace: namespace.to_owned(), name: release.to_owned(), ..record }
}

async fn read(records: &impl Records, written: &Record, sealed: &Private) {
    let head = records.get(&written.namespace, &written.name, written.version).await.unwrap();
    let Head::Ours(stored) = head else { panic!("not ours: {head:?}") };
    assert_eq!(stored.record, *written);
    // How often it was written is not for the caller to say.
    let found = stored.private.unwrap();
    assert_eq!(Private { writes: sealed.writes, ..found }, *sealed);
}

/// Lives the life of a release and leaves nothing behind. Large and small revisions take turns.
pub(crate) async fn round_trip(records: &impl Records, namespace: &str, release: &str) {
    let none = records.newest(namespace, release).await.unwrap();
    assert!(matches!(none, Head::None), "{none:?}");
    assert!(records.list(namespace, release).await.unwrap().is_empty());

    let first = of(namespace, release, big(1, 2_000_000));
    let stored = records.create(&first, &private(1)).await.unwrap();
    assert!(stored.head);
    read(records, &first, &private(1)).await;
    // The same call twice is one; another one loses.
    records.create(&first, &private(1)).await.unwrap();
    let mut other = private(1);
    other.holder = "somebody-else".into();
    let error = records.create(&first, &other).await.unwrap_err();
    assert_eq!(error.reason(), "RecordConflict");
    read(records, &first, &private(1)).await;

    let deployed = Record { state: State::Deployed, ..first.clone() };
    let updated = records.update(&stored, &deployed, Some(&private(1)), true).await.unwrap();
    read(records, &deployed, &private(1)).await;
    assert_eq!(updated.private.as_ref().unwrap().writes, 2);
    let late = records.update(&stored, &first, Some(&private(1)), true).await.unwrap_err();
    assert_eq!(late.reason(), "RecordConflict");
    assert_eq!(records.set_head(&stored.meta(), false).await.unwrap_err().reason(), "RecordConflict");
    assert_eq!(records.delete(&stored.meta()).await.unwrap_err().reason(), "RecordConflict");
    read(records, &deployed, &private(1)).await;

    let second = of(namespace, release, record(2));
    let small = records.create(&second, &private(2)).await.unwrap();
    let superseded = Record { state: State::Superseded, ..deployed };
    let old = records.update(&updated, &superseded, Some(&private(1)), false).await.unwrap();
    assert!(!old.head);
    read(records, &superseded, &private(1)).await;
    let newest = records.newest(namespace, release).await.unwrap();
    assert_eq!(newest.revision(), Some(2));
    let version = records.set_head(&small.meta(), false).await.unwrap();
    assert_ne!(version, small.resource_version);
    read(records, &second, &private(2)).await;
    let newest = records.newest(namespace, release).await.unwrap();
    let Head::Ours(newest) = newest else { panic!("not ours: {newest:?}") };
    assert!(!newest.head);
    assert_eq!(newest.resource_version, version);
    records.set_head(&newest.meta(), true).await.unwrap();

    let third = of(namespace, release, big(3, 1_200_000));
    records.create(&third, &private(3)).await.unwrap();
    let metas = records.list(namespace, release).await.unwrap();
    assert_eq!(
        metas.iter().map(|meta| (meta.revision, meta.head)).collect::<Vec<_>>(),
        [(1, false), (2, true), (3, true)]
    );
    let mut revisions: Vec<_> = records
        .history(namespace, release)
        .map_ok(|head| (head.revision().unwrap(), head.stored().unwrap().record.state.name()))
        .try_collect()
        .await
        .unwrap();
    revisions.sort_unstable();
    let states: Vec<&str> = revisions.iter().map(|(_, state)| *state).collect();
    assert_eq!(revisions.iter().map(|(revision, _)| *revision).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(states[0], "superseded");
    let stored_in = metas[0].namespace.clone();
    let mut heads: Vec<u32> = records
        .heads(Some(&stored_in))
        .try_filter(|head| {
            std::future::ready(head.sealed.as_ref().is_some_and(|stored| stored.record.name == release))
        })
        .map_ok(|head| head.revision)
        .try_collect()
        .await
        .unwrap();
    heads.sort_unstable();
    assert_eq!(heads, [2, 3]);

    records.delete(&metas[0]).await.unwrap();
    records.delete(&metas[0]).await.unwrap();
    assert!(matches!(records.get(namespace, release, 1).await.unwrap(), Head::None));
    let gone = records.update(&old, &superseded, None, false).await.unwrap_err();
    assert_eq!(gone.reason(), "RecordLost");
    // Another tool's from now on: superseded without a seal.
    let Head::Ours(third) = records.get(namespace, release, 3).await.unwrap() else { panic!("not ours") };
    records.update(&third, &third.record, None, true).await.unwrap();
    let head = records.newest(namespace, release).await.unwrap();
    assert!(matches!(&head, Head::Foreign(foreign) if foreign.record == third.record), "{head:?}");

    // That one stays, and what is sealed goes.
    let stays = records.remove_all(namespace, release, &owner()).await.unwrap();
    let left: Vec<String> =
        records.list(namespace, release).await.unwrap().into_iter().map(|meta| meta.secret_name).collect();
    assert_eq!(stays, left);
    let Head::Foreign(third) = records.get(namespace, release, 3).await.unwrap() else {
        panic!("it is gone")
    };
    records.delete(&third.meta()).await.unwrap();
    assert!(records.remove_all(namespace, release, &owner()).await.unwrap().is_empty());
    assert!(records.list(namespace, release).await.unwrap().is_empty());
}
