//! What a release is made of: its pack, its values, and what templates look up.

pub(super) mod lookup;
pub(super) mod referenced_objects;
pub(super) mod references;
pub(super) mod sources;
pub(super) mod values;
