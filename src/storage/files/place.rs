//! The directory of one release, and how single files in it are read and written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

use super::{ASIDE, LOCK};
use crate::{
    api::names,
    manifest::sha256_hex,
    release::Record,
    storage::{
        Error, Meta,
        codec::{self, Compression, MAX_JSON_BYTES},
    },
};

/// The second file of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beside {
    pub(super) head: bool,
    pub(super) private: Option<String>,
    pub(super) uid: String,
    pub(super) version: u64,
}

/// The directory of one release; it exists.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) namespace: String,
    pub(super) release: String,
}

/// One revision as it is on disk.
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) hash: String,
    pub(super) beside: Option<Beside>,
}

impl Place {
    pub(super) fn file(&self, revision: u32) -> PathBuf {
        self.path.join(format!("v{revision}.json"))
    }

    pub(super) fn beside(&self, revision: u32, hash: &str) -> PathBuf {
        self.path.join(format!(".v{revision}.{}.meta", &hash[..16]))
    }

    /// All revisions, oldest first.
    pub(super) fn revisions(&self) -> Result<Vec<u32>, Error> {
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
    pub(super) fn found(&self, revision: u32) -> Result<Option<Result<Found, String>>, Error> {
        let file = self.file(revision);
        // A writer may switch to another pair between the two reads.
        for _ in 0..3 {
            let Some(bytes) = read(&file, MAX_JSON_BYTES)? else { return Ok(None) };
            let Ok(bytes) = bytes else {
                return Ok(Some(Err(format!("its file is larger than {MAX_JSON_BYTES} bytes"))));
            };
            let hash = sha256_hex(&bytes);
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
    pub(super) fn current(&self, verb: &str, meta: &Meta) -> Result<Found, Error> {
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
    pub(super) fn meta(&self, revision: u32, beside: Option<&Beside>, compression: &str) -> ObjectMeta {
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
    pub(super) fn dress(&self, revision: u32, found: &Found) -> Secret {
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

    pub(super) fn is_marked(&self, revision: u32) -> bool {
        self.seconds(revision).iter().any(|path| {
            let text = read(path, 2 * codec::MAX_PRIVATE_BYTES).ok().flatten().and_then(Result::ok);
            let beside = text.and_then(|text| serde_json::from_slice::<Beside>(&text).ok());
            beside.is_some_and(|beside| beside.head)
        })
    }

    /// All second files of a revision.
    pub(super) fn seconds(&self, revision: u32) -> Vec<PathBuf> {
        let prefix = format!(".v{revision}.");
        let names = entries(&self.path).unwrap_or_default();
        let own = names.into_iter().filter(|name| name.starts_with(&prefix) && name.ends_with(".meta"));
        own.map(|name| self.path.join(name)).collect()
    }

    /// Takes away the second files of a revision, but for the one that belongs to this content. What cannot be taken
    /// away does no harm.
    pub(super) fn sweep(&self, revision: u32, keep: Option<&str>) {
        let keep = keep.map(|hash| self.beside(revision, hash));
        for path in self.seconds(revision).into_iter().filter(|path| Some(path) != keep.as_ref()) {
            let _ = fs::remove_file(path);
        }
    }

    /// Takes away what is left of a release without revisions.
    pub(super) fn clear(&self) {
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
    pub(super) fn write(&self, path: &Path, bytes: &[u8], fresh: bool) -> Result<(), Error> {
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

/// The content; `Err` in it when that is longer than `limit`. `None` when there is no such file.
pub(super) fn read(path: &Path, limit: usize) -> Result<Option<Result<Vec<u8>, ()>>, Error> {
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

pub(super) fn refuse_link(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => Err(failed("open", path, not_plain("it is no plain file, or a link"))),
        _ => Ok(()),
    }
}

/// Namespaces and releases are DNS labels, so no name leads anywhere else.
pub(super) fn plain(part: &str, below: &Path) -> Result<(), Error> {
    if names::is_dns_label(part) {
        return Ok(());
    }
    Err(failed("open", &below.join("?"), not_plain("a name in the path is no DNS label")))
}

pub(super) fn entries(directory: &Path) -> Result<Vec<String>, Error> {
    let read = fs::read_dir(directory).map_err(|error| failed("list", directory, error))?;
    let mut names = Vec::new();
    for entry in read {
        let entry = entry.map_err(|error| failed("list", directory, error))?;
        names.extend(entry.file_name().into_string().ok());
    }
    Ok(names)
}

pub(super) fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|e| failed("sync", directory, e))
}

pub(super) fn not_plain(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

pub(super) fn failed(verb: &str, path: &Path, source: io::Error) -> Error {
    Error::File { what: format!("{verb} {}", path.display()), source }
}
