//! The directories and files themselves. Everything here blocks.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Secret;

use super::{
    LOCK,
    place::{Beside, Place, entries, failed, not_plain, plain, refuse_link, sync},
};
use crate::{
    api::names,
    manifest::{hex, sha256_hex},
    release::{Private, Record, ReleaseKey},
    storage::{
        Error, Head, Meta, Stored,
        codec::{Keys, MAX_JSON_BYTES, Parts, Shape},
        unreadable::{Fault, Unreadable},
    },
};

pub(super) struct Files {
    pub(super) base: Option<PathBuf>,
    pub(super) keys: Keys,
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

    pub(super) fn head(&self, namespace: &str, release: &str, revision: u32) -> Result<Head, Error> {
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

    pub(super) fn create(
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

    pub(super) fn update(
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

    pub(super) fn set_head(&self, meta: &Meta, head: bool) -> Result<String, Error> {
        let (place, _lock) = self.locked(&meta.namespace, &meta.release)?;
        let found = place.current("mark", meta)?;
        let beside = next(meta, head, found.beside.and_then(|beside| beside.private));
        self.put(&place, meta.revision, &found.bytes, &beside, false)?;
        Ok(beside.version.to_string())
    }

    pub(super) fn delete(&self, meta: &Meta) -> Result<(), Error> {
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

    pub(super) fn newest(&self, namespace: &str, release: &str) -> Result<Head, Error> {
        let newest = self.place(namespace, release)?.map(|place| place.revisions()).transpose()?;
        match newest.and_then(|revisions| revisions.last().copied()) {
            Some(revision) => self.head(namespace, release, revision),
            None => Ok(Head::None),
        }
    }

    /// Each revision of a release, with the names that lead to it.
    pub(super) fn revisions(
        &self,
        namespace: &str,
        release: &str,
    ) -> Result<Vec<(String, String, u32)>, Error> {
        let place = self.place(namespace, release)?;
        let revisions = place.map(|place| place.revisions()).transpose()?.unwrap_or_default();
        Ok(revisions.into_iter().map(|r| (namespace.to_owned(), release.to_owned(), r)).collect())
    }

    /// Deletes what is sealed for `owner` and gives the names of what stays.
    pub(super) fn remove_all(
        &self,
        namespace: &str,
        release: &str,
        owner: &ReleaseKey,
    ) -> Result<Vec<String>, Error> {
        let mut stays = Vec::new();
        for meta in self.metas(namespace, release)? {
            match self.head(namespace, release, meta.revision)? {
                Head::None => {}
                head if head.is_sealed_for(owner) => self.delete(&meta)?,
                _ => stays.push(meta.secret_name),
            }
        }
        if let Some(place) = self.place(namespace, release)? {
            place.clear();
        }
        Ok(stays)
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

    pub(super) fn metas(&self, namespace: &str, release: &str) -> Result<Vec<Meta>, Error> {
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
    pub(super) fn heads(&self, namespace: Option<&str>) -> Result<Vec<(String, String, u32)>, Error> {
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
