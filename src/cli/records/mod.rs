//! Revisions in a file, and the keys that prove who wrote a record.

pub(super) mod export;
pub(super) mod import;
pub(super) mod key;
