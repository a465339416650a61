//! Records for people to look at: read without the key that seals them, so nothing is said of who wrote them.

use super::codec::KEY_BYTES;
use super::{Error, Head, MacKey, Records, Unreadable};
use crate::release::Record;

/// What there is of one revision.
#[derive(Clone, Debug)]
pub enum Found {
    /// There is no such revision.
    Nothing,
    /// What it says, whoever wrote it.
    Record(Box<Record>),
    /// There is one, and it cannot be read.
    Unreadable(Unreadable),
}

/// A key that seals nothing. A driver that has it shows every record as another tool's and must not write.
#[must_use]
pub fn no_key() -> MacKey {
    MacKey::new([0; KEY_BYTES])
}

/// Reads a revision, or the newest one.
///
/// # Errors
/// As for [`Records::get`] and [`Records::newest`].
pub async fn find(
    records: &impl Records,
    namespace: &str,
    release: &str,
    revision: Option<u32>,
) -> Result<Found, Error> {
    let head = match revision {
        Some(revision) => records.get(namespace, release, revision).await?,
        None => records.newest(namespace, release).await?,
    };
    Ok(match head {
        Head::None => Found::Nothing,
        Head::Ours(stored) | Head::Foreign(stored) => Found::Record(Box::new(stored.record)),
        Head::Unreadable(unreadable) => Found::Unreadable(unreadable),
    })
}
