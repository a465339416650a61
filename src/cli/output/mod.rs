//! What the commands print: stdout is the answer, stderr what happens on the way; tables, JSON, and advice for a failed release.

pub(super) mod advice;
pub(super) mod answer;
pub(super) mod table;
