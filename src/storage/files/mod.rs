//! Records as files below one directory, for clusters that must not keep them.
//!
//! `<base>/<namespace>/<release>/v<revision>.json` is what Sherpack's own library writes and reads: the compressed JSON
//! alone. Beside it, `.v<revision>.<hash of that file>.meta` holds what is ours: the sealed private part, the mark of
//! the newest revision, and a number that grows with every write and stands for a resourceVersion. Invariants:
//!
//! * The name of the second file carries the hash of the first. So one rename of the first switches both, and what a
//!   crash leaves is either the old pair or the new one.
//! * Every file is written aside, synced, and put in place by a link (which never replaces) or a rename.
//! * A lock file in the directory of a release keeps writers apart, also those of another process.
//! * No part of a path below the base is a link, and none is followed.
//!
//! No watch tells of changes in files: the operator must be their only writer while it runs.

mod place;
mod tree;

use std::{path::PathBuf, sync::Arc};

use futures::{Stream, TryStreamExt, stream};

use self::tree::Files;
use super::{
    CALL_TIMEOUT, Error, Head, Marked, Meta, Records, Stored,
    codec::{Compression, Keys, Large, Shape},
    head::slim::Keep,
};
use crate::release::{Private, Record, ReleaseKey};

const LOCK: &str = ".lock";
const ASIDE: &str = ".new";

/// The driver that needs no API server.
#[derive(Clone)]
pub struct FileRecords {
    files: Arc<Files>,
    shape: Shape,
}

impl FileRecords {
    /// `base` must exist; without one every call is [`Error::NoStorageDir`].
    pub fn new(base: Option<PathBuf>, keys: impl Into<Keys>) -> Self {
        let shape = Shape {
            namespace: None,
            driver: "file",
            compression: Compression::default(),
            large: Large::default(),
            limit: None,
        };
        Self { files: Arc::new(Files { base, keys: keys.into() }), shape }
    }

    /// The same driver, writing with another compression. All of them are read anyway.
    #[must_use]
    pub fn compressing(mut self, compression: Compression) -> Self {
        self.shape.compression = compression;
        self
    }

    pub(super) async fn import(
        &self,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        self.create_as(record, private, head, false).await
    }

    async fn create_as(
        &self,
        record: &Record,
        private: Option<&Private>,
        head: bool,
        fresh: bool,
    ) -> Result<Stored, Error> {
        let (record, private, shape) = (record.clone(), private.cloned(), self.shape.clone());
        let what = format!("write revision {} of {}/{}", record.version, record.namespace, record.name);
        self.run(what, move |files| files.create(&shape, &record, private.as_ref(), head, fresh)).await
    }

    /// Runs `work` where it may block.
    async fn run<T: Send + 'static>(
        &self,
        what: String,
        work: impl FnOnce(&Files) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let files = Arc::clone(&self.files);
        match tokio::time::timeout(CALL_TIMEOUT, tokio::task::spawn_blocking(move || work(&files))).await {
            Ok(Ok(done)) => done,
            Ok(Err(stopped)) => Err(Error::File { what, source: stopped.into() }),
            Err(_) => Err(Error::Timeout { what, after: CALL_TIMEOUT }),
        }
    }

    async fn one(&self, namespace: String, release: String, revision: u32) -> Result<Head, Error> {
        let what = format!("read revision {revision} of {namespace}/{release}");
        self.run(what, move |files| files.head(&namespace, &release, revision)).await
    }

    fn each(
        &self,
        which: impl Future<Output = Result<Vec<(String, String, u32)>, Error>> + Send,
    ) -> impl Stream<Item = Result<Head, Error>> + Send {
        stream::once(async move {
            let which = which.await?;
            Ok::<_, Error>(stream::try_unfold(which.into_iter(), move |mut left| async move {
                loop {
                    let Some((namespace, release, revision)) = left.next() else { return Ok(None) };
                    match self.one(namespace, release, revision).await? {
                        // Deleted since the directory was read.
                        Head::None => {}
                        head => return Ok(Some((head, left))),
                    }
                }
            }))
        })
        .try_flatten()
    }
}

impl Records for FileRecords {
    async fn create(&self, record: &Record, private: &Private) -> Result<Stored, Error> {
        self.create_as(record, Some(private), true, true).await
    }

    async fn update(
        &self,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        stored.must_be_whole()?;
        let (stored, record, private) = (stored.clone(), record.clone(), stored.counted(private));
        let shape = self.shape.clone();
        let what = format!("write revision {} of {}/{}", record.version, record.namespace, record.name);
        self.run(what, move |files| files.update(&shape, &stored, &record, private.as_ref(), head)).await
    }

    async fn set_head(&self, meta: &Meta, head: bool) -> Result<String, Error> {
        let meta = meta.clone();
        let what = format!("mark {}/{}", meta.namespace, meta.secret_name);
        self.run(what, move |files| files.set_head(&meta, head)).await
    }

    async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
        self.one(namespace.to_owned(), release.to_owned(), revision).await
    }

    async fn list(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        let what = format!("list the revisions of {namespace}/{release}");
        self.run(what, move |files| files.metas(&namespace, &release)).await
    }

    async fn newest(&self, namespace: &str, release: &str) -> Result<Head, Error> {
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        let what = format!("read the newest revision of {namespace}/{release}");
        self.run(what, move |files| files.newest(&namespace, &release)).await
    }

    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        let what = format!("list the revisions of {namespace}/{release}");
        self.each(self.run(what, move |files| files.revisions(&namespace, &release)))
    }

    // The operator is the only writer of its files: no user makes many of them, or large ones.
    async fn newest_slim<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        _room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        Ok(Ok(self.newest(namespace, release).await?.slim()))
    }

    async fn get_with<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        revision: u32,
        _room: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<Result<Head, E>, Error> {
        Ok(Ok(self.get(namespace, release, revision).await?))
    }

    fn survey(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        self.history(namespace, release).map_ok(|head| Keep::Survey.of(head))
    }

    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Marked, Error>> + Send {
        let namespace = namespace.map(str::to_owned);
        let what = "list the revisions in files".to_owned();
        let heads = self.each(self.run(what, move |files| files.heads(namespace.as_deref())));
        heads.try_filter_map(|head| std::future::ready(Ok(Marked::of(head))))
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        let meta = meta.clone();
        let what = format!("delete {}/{}", meta.namespace, meta.secret_name);
        self.run(what, move |files| files.delete(&meta)).await
    }

    async fn remove_all(
        &self,
        namespace: &str,
        release: &str,
        owner: &ReleaseKey,
    ) -> Result<Vec<String>, Error> {
        let (namespace, release, owner) = (namespace.to_owned(), release.to_owned(), owner.clone());
        let what = format!("delete the revisions of {namespace}/{release}");
        self.run(what, move |files| files.remove_all(&namespace, &release, &owner)).await
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
