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

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{Stream, TryStreamExt, stream};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    CALL_TIMEOUT, Error, Head, Meta, Records, Stored,
    codec::{self, Compression, Large, MAX_JSON_BYTES, MacKey, Parts, Shape},
    unreadable::{Fault, Unreadable},
};
use crate::{
    api::names,
    release::{Private, Record},
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
    key: Arc<MacKey>,
}

/// The second file of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Beside {
    head: bool,
    private: Option<String>,
    uid: String,
    version: u64,
}

/// The directory of one release; it exists.
struct Place {
    path: PathBuf,
    namespace: String,
    release: String,
}

/// One revision as it is on disk.
struct Found {
    bytes: Vec<u8>,
    hash: String,
    beside: Option<Beside>,
}

impl FileRecords {
    /// `base` must exist; without one every call is [`Error::NoStorageDir`].
    pub fn new(base: Option<PathBuf>, key: Arc<MacKey>) -> Self {
        let shape = Shape {
            namespace: None,
            driver: "file",
            compression: Compression::default(),
            large: Large::default(),
            limit: None,
        };
        Self { files: Arc::new(Files { base, key }), shape }
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
        let (stored, record, private) = (stored.clone(), record.clone(), private.cloned());
        let shape = self.shape.clone();
        let what = format!("write revision {} of {}/{}", record.version, record.namespace, record.name);
        self.run(what, move |files| files.update(&shape, &stored, &record, private.as_ref(), head)).await
    }

    async fn set_head(&self, stored: &Stored, head: bool) -> Result<String, Error> {
        let meta = stored.meta();
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

    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Head, Error>> + Send {
        let namespace = namespace.map(str::to_owned);
        let what = "list the revisions in files".to_owned();
        self.each(self.run(what, move |files| files.heads(namespace.as_deref())))
    }

    async fn delete(&self, meta: &Meta) -> Result<(), Error> {
        let meta = meta.clone();
        let what = format!("delete {}/{}", meta.namespace, meta.secret_name);
        self.run(what, move |files| files.delete(&meta)).await
    }

    async fn remove_all(&self, namespace: &str, release: &str) -> Result<(), Error> {
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        let what = format!("delete the revisions of {namespace}/{release}");
        self.run(what, move |files| {
            for meta in files.metas(&namespace, &release)? {
                files.delete(&meta)?;
            }
            if let Some(place) = files.place(&namespace, &release)? {
                place.clear();
            }
            Ok(())
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
            Some(Ok(found)) => Ok(Head::of(&place.dress(revision, &found), &Parts::default(), &self.key)),
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
        let main = shape.encode(record, private, &self.key, head, fresh)?.main;
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
        let main = shape.encode(record, private, &self.key, head, false)?.main;
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
        let (file, hash) = (place.file(revision), hash(bytes));
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

impl Place {
    fn file(&self, revision: u32) -> PathBuf {
        self.path.join(format!("v{revision}.json"))
    }

    fn beside(&self, revision: u32, hash: &str) -> PathBuf {
        self.path.join(format!(".v{revision}.{}.meta", &hash[..16]))
    }

    /// All revisions, oldest first.
    fn revisions(&self) -> Result<Vec<u32>, Error> {
        let number = |name: String| {
            let digits = name.strip_prefix('v')?.strip_suffix(".json")?;
            // One spelling only: two files must never mean one revision.
            digits.parse::<u32>().ok().filter(|revision| revision.to_string() == digits)
        };
        let mut revisions: Vec<u32> = entries(&self.path)?.into_iter().filter_map(number).collect();
        revisions.sort_unstable();
        Ok(revisions)
    }

    /// One revision; or why it cannot be read, as the end of a sentence.
    fn found(&self, revision: u32) -> Result<Option<Result<Found, String>>, Error> {
        let file = self.file(revision);
        // A writer may switch to another pair between the two reads.
        for _ in 0..3 {
            let Some(bytes) = read(&file, MAX_JSON_BYTES)? else { return Ok(None) };
            let Ok(bytes) = bytes else {
                return Ok(Some(Err(format!("its file is larger than {MAX_JSON_BYTES} bytes"))));
            };
            let hash = hash(&bytes);
            let second = read(&self.beside(revision, &hash), 2 * codec::MAX_PRIVATE_BYTES)?;
            let beside = second.and_then(Result::ok).and_then(|text| serde_json::from_slice(&text).ok());
            let again = beside.is_none() && read(&file, MAX_JSON_BYTES)? != Some(Ok(bytes.clone()));
            if !again {
                return Ok(Some(Ok(Found { bytes, hash, beside })));
            }
        }
        Err(failed("read", &file, io::ErrorKind::Interrupted.into()))
    }

    /// One revision, if it is still the one that `meta` was read from.
    fn current(&self, verb: &str, meta: &Meta) -> Result<Found, Error> {
        let what = || format!("{verb} {}", self.file(meta.revision).display());
        let Some(found) = self.found(meta.revision)? else { return Err(Error::Missing { what: what() }) };
        let found = found.map_err(|_| Error::Conflict { what: what() })?;
        let now = self.dress(meta.revision, &found).metadata;
        if now.resource_version.as_ref() != Some(&meta.resource_version)
            || now.uid.as_ref() != Some(&meta.uid)
        {
            return Err(Error::Conflict { what: what() });
        }
        Ok(found)
    }

    /// The metadata that a Secret of this revision would have.
    fn meta(&self, revision: u32, beside: Option<&Beside>, compression: &str) -> ObjectMeta {
        let mut labels =
            vec![(names::RELEASE_NAME, self.release.clone()), (names::COMPRESSION, compression.to_owned())];
        if beside.is_some_and(|beside| beside.head) {
            labels.push((names::HEAD, codec::HEAD_VALUE.to_owned()));
        }
        ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(Record::key_of(&self.release, revision)),
            labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            uid: Some(beside.map(|beside| beside.uid.clone()).unwrap_or_default()),
            resource_version: Some(beside.map_or(0, |beside| beside.version).to_string()),
            ..ObjectMeta::default()
        }
    }

    /// The Secret that would hold this.
    fn dress(&self, revision: u32, found: &Found) -> Secret {
        let compression = match found.bytes.get(..4) {
            Some([0x28, 0xB5, 0x2F, 0xFD]) => Compression::Zstd,
            Some([0x1F, 0x8B, ..]) => Compression::Gzip,
            _ => Compression::None,
        };
        let mut metadata = self.meta(revision, found.beside.as_ref(), compression.label());
        if found.beside.is_none() {
            // Another tool's: any change of it is another version.
            let digits = u64::from_str_radix(&found.hash[..15], 16).unwrap_or(0);
            metadata.resource_version = Some(digits.to_string());
        }
        let text = STANDARD.encode(&found.bytes).into_bytes();
        let private = found.beside.as_ref().and_then(|beside| beside.private.clone());
        let private = private.map(|text| (names::DATA_PRIVATE, text.into_bytes()));
        let data = private.into_iter().chain([(names::DATA_RELEASE, text)]);
        Secret {
            metadata,
            type_: Some(names::RECORD_TYPE.to_owned()),
            data: Some(data.map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).collect()),
            ..Secret::default()
        }
    }

    fn is_marked(&self, revision: u32) -> bool {
        self.seconds(revision).iter().any(|path| {
            let text = read(path, 2 * codec::MAX_PRIVATE_BYTES).ok().flatten().and_then(Result::ok);
            let beside = text.and_then(|text| serde_json::from_slice::<Beside>(&text).ok());
            beside.is_some_and(|beside| beside.head)
        })
    }

    /// All second files of a revision.
    fn seconds(&self, revision: u32) -> Vec<PathBuf> {
        let prefix = format!(".v{revision}.");
        let names = entries(&self.path).unwrap_or_default();
        let own = names.into_iter().filter(|name| name.starts_with(&prefix) && name.ends_with(".meta"));
        own.map(|name| self.path.join(name)).collect()
    }

    /// Takes away the second files of a revision, but for the one that belongs to this content. What cannot be taken
    /// away does no harm.
    fn sweep(&self, revision: u32, keep: Option<&str>) {
        let keep = keep.map(|hash| self.beside(revision, hash));
        for path in self.seconds(revision).into_iter().filter(|path| Some(path) != keep.as_ref()) {
            let _ = fs::remove_file(path);
        }
    }

    /// Takes away what is left of a release without revisions.
    fn clear(&self) {
        for name in [ASIDE, LOCK] {
            let _ = fs::remove_file(self.path.join(name));
        }
        if fs::remove_dir(&self.path).is_ok()
            && let Some(parent) = self.path.parent()
        {
            let _ = fs::remove_dir(parent);
        }
    }

    /// Writes a file whole: a reader sees what was there before, or all of it. The lock is held.
    fn write(&self, path: &Path, bytes: &[u8], fresh: bool) -> Result<(), Error> {
        let aside = self.path.join(ASIDE);
        let put = || {
            let _ = fs::remove_file(&aside);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            if fresh {
                fs::hard_link(&aside, path)?;
                fs::remove_file(&aside)?;
            } else {
                fs::rename(&aside, path)?;
            }
            File::open(&self.path)?.sync_all()
        };
        put().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Conflict { what: format!("create {}", path.display()) },
            _ => failed("write", path, error),
        })
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

/// The content; `Err` in it when that is longer than `limit`. `None` when there is no such file.
fn read(path: &Path, limit: usize) -> Result<Option<Result<Vec<u8>, ()>>, Error> {
    refuse_link(path)?;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, error)),
    };
    let mut bytes = Vec::new();
    let read = file.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed("read", path, error))?;
    Ok(Some(if bytes.len() > limit { Err(()) } else { Ok(bytes) }))
}

fn refuse_link(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => Err(failed("open", path, not_plain("it is no plain file, or a link"))),
        _ => Ok(()),
    }
}

/// Namespaces and releases are DNS labels, so no name leads anywhere else.
fn plain(part: &str, below: &Path) -> Result<(), Error> {
    if names::is_dns_label(part) {
        return Ok(());
    }
    Err(failed("open", &below.join("?"), not_plain("a name in the path is no DNS label")))
}

fn entries(directory: &Path) -> Result<Vec<String>, Error> {
    let read = fs::read_dir(directory).map_err(|error| failed("list", directory, error))?;
    let mut names = Vec::new();
    for entry in read {
        let entry = entry.map_err(|error| failed("list", directory, error))?;
        names.extend(entry.file_name().into_string().ok());
    }
    Ok(names)
}

fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|e| failed("sync", directory, e))
}

fn not_plain(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn failed(verb: &str, path: &Path, source: io::Error) -> Error {
    Error::File { what: format!("{verb} {}", path.display()), source }
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
