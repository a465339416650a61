//! Revision records: where they are kept and how they are read, written and found again.
//!
//! May import `release` and below. [`codec`] is pure: a record as a Secret, or as several when it is large. The drivers
//! stand around it: [`Driver`] on whatever keeps objects (Secrets, ConfigMaps, memory), [`FileRecords`] in a directory;
//! [`AnyRecords`] is the one that a release asks for, and [`Stores`] knows them all. Invariants:
//!
//! * A record is created once (create-only) and every later write carries the resourceVersion that was read, so of two
//!   writers one gets [`Error::Conflict`] and must stop.
//! * Nothing is guessed: a record that cannot be understood is [`Head::Unreadable`], a record without a valid seal is
//!   [`Head::Foreign`] and has no private part that counts; what it says of itself is in `unproved`.
//! * Every call ends within [`CALL_TIMEOUT`]; one that timed out may still have taken effect.
//!
//! # What other tools see
//!
//! Sherpack's own library (0.4.0) reads these Secrets: it looks for the labels `app.kubernetes.io/managed-by=sherpack`
//! and `sherpack.io/release-name`, takes the data key `release`, and ignores what it does not know, so the key `private`
//! and the label `sherpack.io/head` do not disturb it. Its writes replace the whole object and wipe both; such a record
//! is foreign from then on. It silently skips what it cannot read, so nothing but its nine states is ever stored. It
//! refuses to upgrade a pending release, and takes a pending one for stuck after `started_at + timeout`. It would apply
//! hook documents left in `manifest` as ordinary objects; ours are in `hooks` only. It knows no namespace for records
//! but the release's own, so it does not find those that stand elsewhere. Large records: see `codec::parts`.

mod any;
mod backend;
pub mod codec;
mod driver;
mod error;
mod files;
mod head;
mod helm;
mod kept;
mod key;
mod unpacking;
mod unreadable;
pub mod unverified;

use std::{future::Future, time::Duration};

use futures::Stream;

/// Most bytes of all data keys of one object together.
///
/// The API server's own limit is 1,048,576 in all; the published format draws the line here.
pub const MAX_RECORD_BYTES: usize = 1_000_000;

pub use self::{
    any::{AnyRecords, Keeping, Stores},
    backend::{Backend, Holds, InCluster, Page, Selector},
    codec::{Because, Compression, KeyRing, Keys, Large, MacKey, Provenance, Unproved, stem},
    driver::{
        ConfigMapRecords, Driver, SecretRecords,
        memory::{InMemory, MemoryRecords, Operations},
    },
    error::Error,
    files::FileRecords,
    head::{
        Head, Marked, Meta, Stored,
        slim::{NAME_BYTES, REST_BYTES},
    },
    helm::{
        HelmRelease, helm_key, helm_revision,
        records::{HelmFound, HelmNewest, HelmRecords},
    },
    kept::kept_secrets,
    key::{
        Kept, RECORD_KEY_DATA, RECORD_KEY_SECRET, RECORD_KEYS_SECRET, add_key, finalized::finalized,
        keep_keys, keys_are_missing, make_key, random, read_keys,
    },
    unreadable::{Fault, Unreadable},
};
use crate::release::{Private, Record, ReleaseKey};

/// How long one call may take, retries of the client included.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// How many objects one page of metadata holds.
const PAGE: u32 = 50;

/// Where revision records are kept.
///
/// Methods that name a namespace mean the namespace of the release, wherever its records are.
pub trait Records: Send + Sync {
    /// Stores a new revision, marked as the newest.
    ///
    /// # Errors
    /// [`Error::Conflict`] if this revision exists already, unless it is byte for byte this one: then an earlier send
    /// of this call got through.
    fn create(
        &self,
        record: &Record,
        private: &Private,
    ) -> impl Future<Output = Result<Stored, Error>> + Send;

    /// Replaces what is stored in `stored` and marks it as the newest revision or not.
    ///
    /// Without `private` the record stays, or becomes, another tool's: that is how a foreign record is superseded.
    /// Labels, annotations, finalizers and owner references that others put on the Secret are kept.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was changed since `stored` was read, [`Error::Missing`] if it is gone,
    /// [`Error::NotWhole`] if `stored` is slim: what is cut in memory must not be cut in the cluster.
    fn update(
        &self,
        stored: &Stored,
        record: &Record,
        private: Option<&Private>,
        head: bool,
    ) -> impl Future<Output = Result<Stored, Error>> + Send;

    /// Sets or takes the mark of the newest revision and changes nothing else. Returns the new resourceVersion.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    fn set_head(&self, meta: &Meta, head: bool) -> impl Future<Output = Result<String, Error>> + Send;

    /// One revision; [`Head::None`] if there is none.
    fn get(
        &self,
        namespace: &str,
        release: &str,
        revision: u32,
    ) -> impl Future<Output = Result<Head, Error>> + Send;

    /// As [`get`](Self::get). `room` is asked before a large one is fetched and unpacked.
    ///
    /// # Errors
    /// Inside: what `room` answered. Outside: as every call.
    fn get_with<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        revision: u32,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> impl Future<Output = Result<Result<Head, E>, Error>> + Send;

    /// All revisions of one release by their metadata alone, oldest first. Bodies are not read.
    fn list(&self, namespace: &str, release: &str) -> impl Future<Output = Result<Vec<Meta>, Error>> + Send;

    /// The revision with the highest number, whatever its marks say and whichever tool wrote it.
    ///
    /// Costs one list of metadata and one read. A record that lost its labels is not found.
    fn newest(&self, namespace: &str, release: &str) -> impl Future<Output = Result<Head, Error>> + Send;

    /// As [`newest`](Self::newest), but slim. `room` is asked before a large one is fetched and unpacked.
    ///
    /// # Errors
    /// Inside: what `room` answered. Outside: as every call.
    fn newest_slim<E: Send>(
        &self,
        namespace: &str,
        release: &str,
        room: impl FnOnce() -> Result<(), E> + Send,
    ) -> impl Future<Output = Result<Result<Head, E>, Error>> + Send;

    /// All revisions of one release with their content, one in memory at a time, in no promised order.
    ///
    /// Never yields [`Head::None`]. A list that grew too old while it was read starts again from the beginning, so
    /// a revision may come twice.
    fn history(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send;

    /// As [`history`](Self::history), but slim: a caller that rewrites a record reads it again. Of our own it has
    /// [`Stored::effect`].
    fn survey(&self, namespace: &str, release: &str) -> impl Stream<Item = Result<Head, Error>> + Send;

    /// Every record that is marked as a newest one, in one namespace or in all. One without a right seal is not even
    /// unpacked: any user may make such objects, as many as there is room for.
    ///
    /// A release may come twice, while its next revision is pending or after a crash: the higher revision counts.
    /// Releases whose newest record was written by another tool may be missing: ask [`newest`](Self::newest) for those.
    fn heads(&self, namespace: Option<&str>) -> impl Stream<Item = Result<Marked, Error>> + Send;

    /// Deletes exactly the record that `meta` was read from; one that is gone already is fine.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was changed or replaced since.
    fn delete(&self, meta: &Meta) -> impl Future<Output = Result<(), Error>> + Send;

    /// Deletes the revisions that are sealed for `owner`, oldest first, and the parts that a crash may have left of them.
    /// Gives the names of the records that stay: those of other tools and other owners, and unreadable ones. Parts of
    /// their revisions stay too.
    ///
    /// # Errors
    /// As for [`delete`](Self::delete).
    fn remove_all(
        &self,
        namespace: &str,
        release: &str,
        owner: &ReleaseKey,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
}

#[cfg(test)]
use self::samples::{owner, private, record};
#[cfg(test)]
use crate::{
    manifest::{InventoryEntry, ObjectId, adoption::Adopted},
    release::{Action, Operation, OperationPhase, Owner, PRIVATE_VERSION, State},
};

#[cfg(test)]
mod large_tests;
#[cfg(test)]
pub(crate) mod round_trip;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
