//! The stored revisions: which are kept, what of them stays in memory, and what is deleted.

pub(super) mod accept;
pub(super) mod bulk;
pub(super) mod failures;
pub(super) mod known;
pub(super) mod manifest_cache;
pub(super) mod parsed;
pub(super) mod retention;
pub(super) mod sweep;
