//! What every driver must do, in one test that runs over all of them: here, and in `tests/behaviour` over those that
//! need an API server. What it uses comes from the module around it.

use futures::TryStreamExt;

use super::{Head, Meta, Private, Record, Records, State, Stored, owner, private, record};

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

/// Lives the life of a release and leaves nothing behind. Large and small revisions take turns.
pub(crate) async fn round_trip(records: &impl Records, namespace: &str, release: &str) {
    let life = Life { records, namespace, release };
    life.begins_with_nothing().await;
    let (first, stored) = life.first_is_created_once().await;
    let (deployed, updated) = life.late_writer_loses(&first, &stored).await;
    let (superseded, old) = life.second_takes_the_mark(deployed, &updated).await;
    let oldest = life.three_are_listed().await;
    life.deleted_one_is_lost(&oldest, &old, &superseded).await;
    life.third_becomes_foreign().await;
    life.sealed_ones_go().await;
}

/// One release and the driver that keeps its revisions.
struct Life<'r, R> {
    records: &'r R,
    namespace: &'r str,
    release: &'r str,
}

impl<R: Records> Life<'_, R> {
    fn of(&self, record: Record) -> Record {
        Record { namespace: self.namespace.to_owned(), name: self.release.to_owned(), ..record }
    }

    async fn reads(&self, written: &Record, sealed: &Private) {
        let head = self.records.get(self.namespace, self.release, written.version).await.unwrap();
        let Head::Ours(stored) = head else { panic!("not ours: {head:?}") };
        assert_eq!(stored.record, *written);
        // How often it was written is not for the caller to say.
        let found = stored.private.unwrap();
        assert_eq!(Private { writes: sealed.writes, ..found }, *sealed);
    }

    async fn newest(&self) -> Head {
        self.records.newest(self.namespace, self.release).await.unwrap()
    }

    async fn list(&self) -> Vec<Meta> {
        self.records.list(self.namespace, self.release).await.unwrap()
    }

    async fn begins_with_nothing(&self) {
        let none = self.newest().await;
        assert!(matches!(none, Head::None), "{none:?}");
        assert!(self.list().await.is_empty());
    }

    /// The record of a large revision, and what the driver answered.
    async fn first_is_created_once(&self) -> (Record, Stored) {
        let first = self.of(big(1, 2_000_000));
        let stored = self.records.create(&first, &private(1)).await.unwrap();
        assert!(stored.head);
        self.reads(&first, &private(1)).await;
        // The same call twice is one; another one loses.
        self.records.create(&first, &private(1)).await.unwrap();
        let mut other = private(1);
        other.holder = "somebody-else".into();
        let error = self.records.create(&first, &other).await.unwrap_err();
        assert_eq!(error.reason(), "RecordConflict");
        self.reads(&first, &private(1)).await;
        (first, stored)
    }

    /// The first revision as it is deployed.
    async fn late_writer_loses(&self, first: &Record, stored: &Stored) -> (Record, Stored) {
        let records = self.records;
        let deployed = Record { state: State::Deployed, ..first.clone() };
        let updated = records.update(stored, &deployed, Some(&private(1)), true).await.unwrap();
        self.reads(&deployed, &private(1)).await;
        assert_eq!(updated.private.as_ref().unwrap().writes, 2);
        let late = records.update(stored, first, Some(&private(1)), true).await.unwrap_err();
        assert_eq!(late.reason(), "RecordConflict");
        assert_eq!(records.set_head(&stored.meta(), false).await.unwrap_err().reason(), "RecordConflict");
        assert_eq!(records.delete(&stored.meta()).await.unwrap_err().reason(), "RecordConflict");
        self.reads(&deployed, &private(1)).await;
        (deployed, updated)
    }

    /// The first revision as it is superseded by a small one.
    async fn second_takes_the_mark(&self, deployed: Record, updated: &Stored) -> (Record, Stored) {
        let second = self.of(record(2));
        let small = self.records.create(&second, &private(2)).await.unwrap();
        let superseded = Record { state: State::Superseded, ..deployed };
        let old = self.records.update(updated, &superseded, Some(&private(1)), false).await.unwrap();
        assert!(!old.head);
        self.reads(&superseded, &private(1)).await;
        assert_eq!(self.newest().await.revision(), Some(2));
        let version = self.records.set_head(&small.meta(), false).await.unwrap();
        assert_ne!(version, small.resource_version);
        self.reads(&second, &private(2)).await;
        let newest = self.newest().await;
        let Head::Ours(newest) = newest else { panic!("not ours: {newest:?}") };
        assert!(!newest.head);
        assert_eq!(newest.resource_version, version);
        self.records.set_head(&newest.meta(), true).await.unwrap();
        (superseded, old)
    }

    /// Gives the oldest of them.
    async fn three_are_listed(&self) -> Meta {
        let third = self.of(big(3, 1_200_000));
        self.records.create(&third, &private(3)).await.unwrap();
        let metas = self.list().await;
        assert_eq!(
            metas.iter().map(|meta| (meta.revision, meta.head)).collect::<Vec<_>>(),
            [(1, false), (2, true), (3, true)]
        );
        let mut revisions: Vec<_> = self
            .records
            .history(self.namespace, self.release)
            .map_ok(|head| (head.revision().unwrap(), head.stored().unwrap().record.state.name()))
            .try_collect()
            .await
            .unwrap();
        revisions.sort_unstable();
        let states: Vec<&str> = revisions.iter().map(|(_, state)| *state).collect();
        assert_eq!(revisions.iter().map(|(revision, _)| *revision).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(states[0], "superseded");
        assert_eq!(self.marked(&metas[0].namespace).await, [2, 3]);
        metas.into_iter().next().unwrap()
    }

    /// The revisions of this release that are marked as newest ones in a namespace.
    async fn marked(&self, namespace: &str) -> Vec<u32> {
        let mut heads: Vec<u32> = self
            .records
            .heads(Some(namespace))
            .try_filter(|head| {
                let ours = |stored: &Stored| stored.record.name == self.release;
                std::future::ready(head.sealed.as_ref().is_some_and(|stored| ours(stored)))
            })
            .map_ok(|head| head.revision)
            .try_collect()
            .await
            .unwrap();
        heads.sort_unstable();
        heads
    }

    async fn deleted_one_is_lost(&self, oldest: &Meta, old: &Stored, superseded: &Record) {
        self.records.delete(oldest).await.unwrap();
        self.records.delete(oldest).await.unwrap();
        assert!(matches!(self.records.get(self.namespace, self.release, 1).await.unwrap(), Head::None));
        let gone = self.records.update(old, superseded, None, false).await.unwrap_err();
        assert_eq!(gone.reason(), "RecordLost");
    }

    /// Another tool's from now on: superseded without a seal.
    async fn third_becomes_foreign(&self) {
        let third = self.records.get(self.namespace, self.release, 3).await.unwrap();
        let Head::Ours(third) = third else { panic!("not ours") };
        self.records.update(&third, &third.record, None, true).await.unwrap();
        let head = self.newest().await;
        assert!(matches!(&head, Head::Foreign(foreign) if foreign.record == third.record), "{head:?}");
    }

    /// The foreign one stays until it is deleted by itself.
    async fn sealed_ones_go(&self) {
        let (records, namespace, release) = (self.records, self.namespace, self.release);
        let stays = records.remove_all(namespace, release, &owner()).await.unwrap();
        let left: Vec<String> = self.list().await.into_iter().map(|meta| meta.secret_name).collect();
        assert_eq!(stays, left);
        let Head::Foreign(third) = records.get(namespace, release, 3).await.unwrap() else {
            panic!("it is gone")
        };
        records.delete(&third.meta()).await.unwrap();
        assert!(records.remove_all(namespace, release, &owner()).await.unwrap().is_empty());
        assert!(self.list().await.is_empty());
    }
}
