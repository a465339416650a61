//! CustomResourceDefinitions of a pack: judged, and shared between releases.

pub(super) mod definitions;
pub(super) mod evidence;
pub(super) mod shared;
