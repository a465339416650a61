//! CustomResourceDefinitions on the command line: the one of SherpackRelease, and what changes between two.

pub(super) mod diff;
pub(super) mod print;
