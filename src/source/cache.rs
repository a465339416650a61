//! Archives that were fetched, by their digest, and what is known of the sources that gave them.
//!
//! Below the directory: `archives/<hex>`, named after their content and verified at each read, and `sources/<hex>`, one
//! small JSON file for each source. Files appear by rename, so two processes can share the directory: each sees a file
//! whole or not at all. What was not used for the longest time goes first.
//!
//! Losing any of it costs a fetch. Invariant: an archive is only given out under the digest that its bytes have now.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::lru::WeightedLru;
use super::validators::Validators;
use crate::manifest::{digest_of, sha256_hex};

/// The layout; another one gets another name.
const VERSION: &str = "packs-v1";
/// Sources that are remembered.
const SOURCES: usize = 4096;
/// Archives that are kept, however small they are.
const ARCHIVES: usize = 4096;
/// A source's file is not longer than this.
const SOURCE_BYTES: u64 = 16 << 10;
/// Digests remembered of one source.
const GIVEN: usize = 16;
/// Without a directory archives are kept in memory, so much of them.
const MEMORY_BYTES: usize = 64 << 20;
/// What a process that died was writing.
const ABANDONED: Duration = Duration::from_mins(60);
/// An archive that was used so lately needs no new time stamp.
const TOUCH_AFTER: Duration = Duration::from_mins(1);

/// What is known of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Digests of the archives that it gave and that are at hand, the newest last.
    pub given: Vec<String>,
    /// What it gave last, if that is at hand.
    #[serde(default)]
    pub current: Option<String>,
    /// Those of `current`.
    #[serde(default)]
    pub validators: Validators,
}

impl Known {
    /// Takes note of what the source gave now.
    pub fn gave(&mut self, digest: &str, validators: Validators) {
        self.forget(digest);
        self.given.push(digest.to_owned());
        self.current = Some(digest.to_owned());
        let over = self.given.len().saturating_sub(GIVEN);
        self.given.drain(..over);
        self.validators = validators;
    }

    /// The archive is not at hand any more. Without it a server must not answer that nothing has changed, and what the
    /// source gave before is not what it gives now.
    pub fn forget(&mut self, digest: &str) {
        if self.current.as_deref() == Some(digest) {
            self.current = None;
            self.validators = Validators::default();
        }
        self.given.retain(|given| given != digest);
    }
}

/// The digest of an archive: `sha256:` and hex over its bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    digest_of(bytes)
}

/// A bounded store of archives. Every method blocks on file IO.
pub struct Cache {
    disk: Option<Disk>,
    memory: Mutex<WeightedLru<String, Vec<u8>>>,
    archive_limit: u64,
}

struct Disk {
    root: PathBuf,
    limit: u64,
    count_limit: usize,
    /// Both make names of temporary files.
    process: u64,
    count: AtomicU64,
    /// The directory failed; it was said once.
    failing: AtomicBool,
}

impl Cache {
    /// A cache below `directory` of at most `limit` bytes; without one, or when it cannot be used, in memory.
    #[must_use]
    pub fn open(directory: Option<&Path>, limit: u64, archive_limit: u64) -> Self {
        let disk = directory.and_then(|directory| match Disk::open(directory, limit) {
            Ok(disk) => Some(disk),
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "fetched packs cannot be kept there: they are kept in memory, and fetched again after a restart");
                None
            }
        });
        Self { disk, memory: Mutex::new(WeightedLru::new(ARCHIVES, MEMORY_BYTES)), archive_limit }
    }

    /// Keeps an archive; gives its digest.
    pub fn put(&self, bytes: Vec<u8>) -> String {
        let digest = digest(&bytes);
        let kept = self.disk.as_ref().is_some_and(|disk| {
            let written =
                disk.write("archives", bare(&digest), &bytes).and_then(|()| disk.shrink(bare(&digest)));
            disk.said(written).is_some()
        });
        if !kept {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let weight = bytes.len();
            memory.put(digest.clone(), bytes, weight);
        }
        digest
    }

    /// The archive with this digest. One whose bytes do not have it any more is thrown away.
    pub fn get(&self, digest: &str) -> Option<Vec<u8>> {
        let on_disk = self.disk.as_ref().and_then(|disk| disk.archive(bare(digest), self.archive_limit));
        on_disk.or_else(|| {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.get(digest).map(|bytes| bytes.clone())
        })
    }

    /// The archive is in use, though it was not read.
    pub fn used(&self, digest: &str) {
        let path = self.disk.as_ref().map(|disk| disk.path("archives", bare(digest)));
        if let Some(file) = path.and_then(|path| File::open(path).ok()) {
            // What cannot be marked is fetched again some day.
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// What is known of a source, as far as its archives are still there.
    #[must_use]
    pub fn source(&self, id: &str) -> Known {
        let read = |disk: &Disk| {
            let bytes = disk.read("sources", &sha256_hex(id.as_bytes()), SOURCE_BYTES)?;
            serde_json::from_slice::<Known>(&bytes).ok()
        };
        let mut known = self.disk.as_ref().and_then(read).unwrap_or_default();
        if known.current.as_ref().is_some_and(|current| !known.given.contains(current)) {
            return Known::default();
        }
        for digest in known.given.clone() {
            let there = |disk: &Disk| disk.path("archives", bare(&digest)).is_file();
            if !is_digest(&digest) || !self.disk.as_ref().is_some_and(there) {
                known.forget(&digest);
            }
        }
        known
    }

    /// Remembers what is known of a source.
    pub fn put_source(&self, id: &str, known: &Known) {
        let Some(disk) = &self.disk else { return };
        let Ok(text) = serde_json::to_vec(known) else { return };
        disk.said(disk.write("sources", &sha256_hex(id.as_bytes()), &text));
    }
}

impl Disk {
    fn open(directory: &Path, limit: u64) -> io::Result<Self> {
        let root = directory.join(VERSION);
        fs::create_dir_all(directory)?;
        let mut process = [0; 8];
        getrandom::fill(&mut process).map_err(io::Error::other)?;
        let process = u64::from_ne_bytes(process);
        let disk = Self {
            root,
            limit,
            count_limit: ARCHIVES,
            process,
            count: AtomicU64::new(0),
            failing: AtomicBool::new(false),
        };
        for name in ["", "archives", "sources", "new"] {
            let path = disk.root.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            // Another user's directory, or one that others may write, could say what a source has given.
            let metadata = fs::symlink_metadata(&path)?;
            if !metadata.is_dir() || metadata.permissions().mode() & 0o022 != 0 {
                return Err(io::Error::other(format!("{} is not a directory of ours alone", path.display())));
            }
        }
        let probe = disk.new_file("owner");
        let ours = File::create_new(&probe)?.metadata()?.uid();
        fs::remove_file(&probe)?;
        if fs::metadata(&disk.root)?.uid() != ours {
            return Err(io::Error::other(format!("{} belongs to another user", disk.root.display())));
        }
        disk.shrink("")?;
        Ok(disk)
    }

    fn path(&self, kind: &str, name: &str) -> PathBuf {
        self.root.join(kind).join(name)
    }

    /// A path that no other process uses, whatever process ids they have in their containers.
    fn new_file(&self, name: &str) -> PathBuf {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.path("new", &format!("{:016x}-{count}-{name}", self.process))
    }

    fn write(&self, kind: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.new_file(name);
        let written = (|| {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            fs::rename(&new, self.path(kind, name))
        })();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    fn read(&self, kind: &str, name: &str, limit: u64) -> Option<Vec<u8>> {
        let file = File::open(self.path(kind, name)).ok()?;
        let mut bytes = Vec::new();
        (&file).take(limit + 1).read_to_end(&mut bytes).ok()?;
        let now = SystemTime::now();
        let used = file.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        if now.duration_since(used).is_ok_and(|age| age > TOUCH_AFTER) {
            let _ = file.set_modified(now);
        }
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    fn archive(&self, name: &str, limit: u64) -> Option<Vec<u8>> {
        let path = self.path("archives", name);
        if !path.is_file() {
            return None;
        }
        let found = self.read("archives", name, limit).filter(|bytes| sha256_hex(bytes) == name);
        if found.is_none() {
            tracing::warn!(path = %path.display(), "a kept pack is damaged: it is thrown away and fetched again");
            let _ = fs::remove_file(&path);
        }
        found
    }

    /// Takes away what was not used for the longest time, but not the archive `keep`.
    fn shrink(&self, keep: &str) -> io::Result<()> {
        let mut archives = listed(&self.root.join("archives"))?;
        let mut total: u64 = archives.iter().map(|entry| entry.bytes).sum();
        let mut count = archives.len();
        archives.sort_by_key(|entry| entry.used);
        for entry in archives.iter().filter(|entry| entry.path != self.path("archives", keep)) {
            if total <= self.limit && count <= self.count_limit {
                break;
            }
            let _ = fs::remove_file(&entry.path);
            total = total.saturating_sub(entry.bytes);
            count -= 1;
        }
        let mut sources = listed(&self.root.join("sources"))?;
        sources.sort_by_key(|entry| entry.used);
        for entry in sources.iter().take(sources.len().saturating_sub(SOURCES)) {
            let _ = fs::remove_file(&entry.path);
        }
        for entry in listed(&self.root.join("new"))? {
            if entry.used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(&entry.path);
            }
        }
        Ok(())
    }

    /// Says once that the directory fails, and once that it works again.
    fn said<T>(&self, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.failing.store(false, Ordering::Relaxed);
                Some(value)
            }
            Err(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(directory = %self.root.display(), %error, "a fetched pack cannot be kept there: it is kept in memory");
                }
                None
            }
        }
    }
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn listed(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        // Another process may be faster to remove it.
        let Ok((entry, metadata)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else {
            continue;
        };
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        entries.push(Entry { path: entry, bytes: metadata.len(), used });
    }
    Ok(entries)
}

fn bare(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
