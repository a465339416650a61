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
//! Nobody is told of changes in files: the operator must be their only writer while it runs.

mod place;

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{Stream, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;

use self::place::{Beside, Place, entries, failed, not_plain, plain, refuse_link, sync};
use super::{
    CALL_TIMEOUT, Error, Head, Marked, Meta, Records, Stored,
    codec::{Compression, Keys, Large, MAX_JSON_BYTES, Parts, Shape},
    head::slim::Keep,
    unreadable::{Fault, Unreadable},
};
use crate::{
    api::names,
    manifest::{hex, sha256_hex},
    release::{Private, Record, ReleaseKey},
};

const LOCK: &str = ".lock";
const ASIDE: &str = ".new";

/// The driver that needs no API server.
#[derive(Clone)]
pub struct FileRecords {
    files: Arc<Files>,
    shape: Shape,
}

struct Files {
    base: Option<PathBuf>,
    keys: Keys,
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
        self.run(what, move |files| {
            let newest = files.place(&namespace, &release)?.map(|place| place.revisions()).transpose()?;
            match newest.and_then(|revisions| revisions.last().copied()) {
                Some(revision) => files.head(&namespace, &release, revision),
                None => Ok(Head::None),
            }
        })
        .await
    }

    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send {
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        let what = format!("list the revisions of {namespace}/{release}");
        self.each(self.run(what, move |files| {
            let place = files.place(&namespace, &release)?;
            let revisions = place.map(|place| place.revisions()).transpose()?.unwrap_or_default();
            Ok(revisions.into_iter().map(|r| (namespace.clone(), release.clone(), r)).collect())
        }))
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
        self.run(what, move |files| {
            let mut stays = Vec::new();
            for meta in files.metas(&namespace, &release)? {
                match files.head(&namespace, &release, meta.revision)? {
                    Head::None => {}
                    head if head.is_sealed_for(&owner) => files.delete(&meta)?,
                    _ => stays.push(meta.secret_name),
                }
            }
            if let Some(place) = files.place(&namespace, &release)? {
                place.clear();
            }
            Ok(stays)
        })
        .await
    }
}

impl Files {
    fn base(&self) -> Result<&Path, Error> {
        self.base.as_deref().ok_or(Error::NoStorageDir)
    }

    /// The directory of a release, if there is one.
    fn place(&self, namespace: &str, release: &str) -> Result<Option<Place>, Error> {
        let mut path = self.base()?.to_path_buf();
        plain(namespace, &path)?;
        plain(release, &path)?;
        for part in [namespace, release] {
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(failed("open", &path, not_plain("it is no directory, or a link"))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed("open", &path, error)),
            }
        }
        Ok(Some(Place { path, namespace: namespace.to_owned(), release: release.to_owned() }))
    }

    /// The directory of a release, made if need be, and its lock.
    fn locked(&self, namespace: &str, release: &str) -> Result<(Place, File), Error> {
        let mut path = self.base()?.to_path_buf();
        plain(namespace, &path)?;
        plain(release, &path)?;
        for part in [namespace, release] {
            path.push(part);
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed("create", &path, error));
                }
                _ => {}
            }
            // Before anything is made below it.
            match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(failed("open", &path, not_plain("it is no directory, or a link"))),
                Err(error) => return Err(failed("open", &path, error)),
            }
        }
        let place = self.place(namespace, release)?;
        let place = place.ok_or_else(|| failed("open", &path, io::ErrorKind::NotFound.into()))?;
        let lock = place.path.join(LOCK);
        refuse_link(&lock)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let file = file.and_then(|file| file.lock().map(|()| file));
        Ok((place, file.map_err(|error| failed("lock", &lock, error))?))
    }

    fn head(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
        let Some(place) = self.place(namespace, release)? else { return Ok(Head::None) };
        match place.found(revision)? {
            None => Ok(Head::None),
            Some(Err(why)) => {
                let meta = place.meta(revision, None, "");
                Ok(Head::Unreadable(Unreadable::of(&meta, Fault::TooLarge, why)))
            }
            Some(Ok(found)) => {
                let main = place.dress(revision, &found);
                Ok(Head::of(&main, &Parts::default(), &self.keys.ring(), MAX_JSON_BYTES))
            }
        }
    }

    fn create(
        &self,
        shape: &Shape,
        record: &Record,
        private: Option<&Private>,
        head: bool,
        fresh: bool,
    ) -> Result<Stored, Error> {
        let main = shape.encode(record, private, self.keys.ring().current(), head, fresh)?.main;
        let (place, _lock) = self.locked(&record.namespace, &record.name)?;
        let (bytes, sealed) = undress(&main)?;
        if let Some(found) = place.found(record.version)? {
            let same = found.ok().filter(|found| {
                found.bytes == bytes && found.beside.as_ref().is_some_and(|beside| beside.private == sealed)
            });
            let what = format!("create {}", place.file(record.version).display());
            let found = same.ok_or(Error::Conflict { what })?;
            let meta = place.dress(record.version, &found).metadata;
            return Ok(Stored::written(record, private, &meta, Vec::new()));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(Error::Random)?;
        let beside = Beside { head, private: sealed, uid: hex(&random), version: 1 };
        self.put(&place, record.version, &bytes, &beside, true)?;
        let meta = place.meta(record.version, Some(&beside), shape.compression.label());
        Ok(Stored::written(record, private, &meta, Vec::new()))
    }

    fn update(
        &self,
        shape: &Shape,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> Result<Stored, Error> {
        let main = shape.encode(record, private, self.keys.ring().current(), head, false)?.main;
        let meta = stored.meta();
        let (place, _lock) = self.locked(&record.namespace, &record.name)?;
        place.current("update", &meta)?;
        let (bytes, private_text) = undress(&main)?;
        let beside = next(&meta, head, private_text);
        self.put(&place, record.version, &bytes, &beside, false)?;
        let meta = place.meta(record.version, Some(&beside), shape.compression.label());
        Ok(Stored::written(record, private, &meta, Vec::new()))
    }

    fn set_head(&self, meta: &Meta, head: bool) -> Result<String, Error> {
        let (place, _lock) = self.locked(&meta.namespace, &meta.release)?;
        let found = place.current("mark", meta)?;
        let beside = next(meta, head, found.beside.and_then(|beside| beside.private));
        self.put(&place, meta.revision, &found.bytes, &beside, false)?;
        Ok(beside.version.to_string())
    }

    fn delete(&self, meta: &Meta) -> Result<(), Error> {
        let (place, _lock) = self.locked(&meta.namespace, &meta.release)?;
        match place.current("delete", meta) {
            Ok(_) => {}
            Err(Error::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let file = place.file(meta.revision);
        fs::remove_file(&file).map_err(|error| failed("delete", &file, error))?;
        sync(&place.path)?;
        place.sweep(meta.revision, None);
        if place.revisions()?.is_empty() {
            place.clear();
        }
        Ok(())
    }

    /// Writes both files of a revision. The lock is held.
    fn put(
        &self,
        place: &Place,
        revision: u32,
        bytes: &[u8],
        beside: &Beside,
        fresh: bool,
    ) -> Result<(), Error> {
        let (file, hash) = (place.file(revision), sha256_hex(bytes));
        let second = place.beside(revision, &hash);
        let text = serde_json::to_vec(beside).map_err(|error| failed("write", &second, error.into()))?;
        place.write(&second, &text, false)?;
        if fresh || fs::read(&file).map(|now| now != bytes).unwrap_or(true) {
            place.write(&file, bytes, fresh)?;
        }
        place.sweep(revision, Some(&hash));
        Ok(())
    }

    fn metas(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
        let Some(place) = self.place(namespace, release)? else { return Ok(Vec::new()) };
        let mut metas = Vec::new();
        for revision in place.revisions()? {
            let meta = match place.found(revision)? {
                Some(Ok(found)) => place.dress(revision, &found).metadata,
                Some(Err(_)) => place.meta(revision, None, ""),
                None => continue,
            };
            metas.extend(Meta::of(&meta, release));
        }
        Ok(metas)
    }

    /// The newest revision of every release, and older ones that are marked as the newest.
    fn heads(&self, namespace: Option<&str>) -> Result<Vec<(String, String, u32)>, Error> {
        let base = self.base()?;
        let mut found = Vec::new();
        for namespace in entries(base)?.into_iter().filter(|name| namespace.is_none_or(|only| only == name)) {
            let inside = base.join(&namespace);
            if !fs::symlink_metadata(&inside).is_ok_and(|meta| meta.is_dir()) {
                continue;
            }
            for release in entries(&inside)? {
                // Whatever else is there is not ours to judge.
                let Ok(Some(place)) = self.place(&namespace, &release) else { continue };
                let revisions = place.revisions()?;
                let newest = revisions.last().copied();
                for revision in revisions {
                    if Some(revision) == newest || place.is_marked(revision) {
                        found.push((namespace.clone(), release.clone(), revision));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The file and the sealed private part of an encoded record.
fn undress(main: &Secret) -> Result<(Vec<u8>, Option<String>), Error> {
    let data = |key: &str| main.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.clone());
    let broken = || Error::Encode {
        record: main.metadata.name.clone().unwrap_or_default(),
        source: io::ErrorKind::InvalidData.into(),
    };
    let bytes = STANDARD.decode(data(names::DATA_RELEASE).unwrap_or_default()).map_err(|_| broken())?;
    let private = data(names::DATA_PRIVATE).map(String::from_utf8).transpose().map_err(|_| broken())?;
    Ok((bytes, private))
}

fn next(meta: &Meta, head: bool, private: Option<String>) -> Beside {
    let version = meta.resource_version.parse::<u64>().unwrap_or(0).saturating_add(1);
    Beside { head, private, uid: meta.uid.clone(), version }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
