//! Why a command has no pack.

use crate::cli::output::answer::Failure;
use crate::pack;

/// Why there is no pack.
#[derive(Debug)]
pub(in crate::cli) enum Unread {
    /// What is there is none: its name in messages, and why.
    NoPack(String, pack::Error),
    /// It cannot be had.
    Failed(Failure),
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::NoPack(what, error) => Self::finding(format!("{what}: {error}")),
            Unread::Failed(failure) => failure,
        }
    }
}
