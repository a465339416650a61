//! As whom a release is worked on, and what that account may do.

pub(super) mod preflight;
pub(super) mod records_elsewhere;
pub(super) mod review_cache;
