//! From the wanted inputs to a revision that can be stored. Touches no object.

pub(super) mod approval;
pub(super) mod preflight;
pub(super) mod revision;
pub(super) mod rollback;
pub(super) mod successor;
