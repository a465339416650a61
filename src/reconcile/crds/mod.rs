//! CustomResourceDefinitions of a pack: judged, applied, awaited, shared between releases.

pub(super) mod definitions;
pub(super) mod established;
pub(super) mod evidence;
pub(super) mod shared;
