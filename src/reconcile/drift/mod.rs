//! Puts back what others changed.

pub(super) mod external;
pub(super) mod reserve;
pub(super) mod revert;
