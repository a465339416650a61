//! What both readers refuse.

/// Nesting that is still read. Reading recurses, and an unoptimised build needs some 20 KiB of stack for each level,
/// of which a thread has 2 MiB. The deepest schemas of real CRDs, those that embed pod templates, stay below 50.
pub(super) const MAX_DEPTH: usize = 64;
/// Documents of one stream: a joined manifest of a large release.
pub(super) const MAX_DOCUMENTS: usize = 10_000;
