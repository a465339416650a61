//! Which revisions of a release are too many.
//!
//! Pure: revisions and a limit in, revision numbers out. Imports nothing of the crate. Invariant: the newest
//! revision, the one that is or was deployed last, and pinned ones are never given up, whatever the limit.

use std::collections::{BTreeMap, BTreeSet};

/// Failed revisions that are kept: enough to see what went wrong, and whether it was always the same.
pub const FAILED_KEPT: usize = 3;

/// One stored revision, as far as retention cares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    pub revision: u32,
    /// [`State::name`](super::State::name); for an unreadable record any other text.
    pub state: &'static str,
    /// The record carries a valid private part, and it is one of this release.
    pub is_ours: bool,
    /// A user refers to it by number (`rollbackTo`).
    pub pinned: bool,
    /// Digest of everything that going back to it would apply and run.
    pub manifest: String,
    /// Revisions of which this one is one more try: they go once it has ended.
    pub replaces: Vec<u32>,
}

impl Retained {
    /// It was deployed once, so it can be gone back to.
    fn was_deployed(&self) -> bool {
        matches!(self.state, "deployed" | "superseded")
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, "deployed" | "superseded" | "failed" | "uninstalled")
    }
}

/// The revisions to delete, oldest first.
///
/// Of our own at most `limit` remain that were deployed, and at most [`FAILED_KEPT`] of the others: those that failed,
/// were interrupted or are uninstalled. Neither pushes the other out. Where deployed ones are too many, those go first
/// whose manifest both an older and a newer one has, then the oldest.
///
/// What one more try takes the place of goes once that has ended, but a deployed one only while another one with the same
/// manifest stays. Records of other tools are neither counted nor deleted: they are another tool's history. "Deployed
/// last" is the newest `deployed` revision and the newest `superseded` one that is newer still, because some tools
/// supersede the old revision before the new one works. Order of the input does not matter.
#[must_use]
pub fn surplus(revisions: &[Retained], limit: usize) -> Vec<u32> {
    let kept = protected(revisions);
    let mut gone = replaced(revisions, &kept);
    let left = |deployed: bool, gone: &BTreeSet<u32>| {
        let mut left: Vec<&Retained> = revisions
            .iter()
            .filter(|r| r.is_ours && r.was_deployed() == deployed && !gone.contains(&r.revision))
            .collect();
        left.sort_by_key(|r| r.revision);
        left
    };
    let deployed = left(true, &gone);
    let mut free: Vec<&&Retained> = deployed.iter().filter(|r| !kept.contains(&r.revision)).collect();
    free.sort_by_key(|r| (!is_between_equals(r, &deployed), r.revision));
    let surplus = deployed.len().saturating_sub(limit);
    let surplus: Vec<u32> = free.into_iter().take(surplus).map(|r| r.revision).collect();
    let others = left(false, &gone);
    let failed = others.len().saturating_sub(FAILED_KEPT);
    let failed = others.into_iter().take(failed).map(|r| r.revision).filter(|r| !kept.contains(r));
    gone.extend(surplus.into_iter().chain(failed));
    gone.into_iter().collect()
}

/// What is never given up.
fn protected(revisions: &[Retained]) -> BTreeSet<u32> {
    let newest =
        |fits: &dyn Fn(&Retained) -> bool| revisions.iter().filter(|r| fits(r)).map(|r| r.revision).max();
    let pinned = revisions.iter().filter(|r| r.pinned).map(|r| r.revision);
    let newest = [
        newest(&|_| true),
        newest(&|r| r.is_ours),
        newest(&|r| r.is_ours && r.state == "deployed"),
        newest(&|r| r.is_ours && r.was_deployed()),
    ];
    pinned.chain(newest.into_iter().flatten()).collect()
}

/// What later tries took the place of.
fn replaced(revisions: &[Retained], kept: &BTreeSet<u32>) -> BTreeSet<u32> {
    let named: BTreeSet<u32> = revisions
        .iter()
        .filter(|r| r.is_ours && r.has_ended())
        .flat_map(|r| r.replaces.iter().copied().filter(|older| *older < r.revision))
        .collect();
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for r in revisions.iter().filter(|r| r.is_ours && r.was_deployed()) {
        *copies.entry(&r.manifest).or_default() += 1;
    }
    let mut gone = BTreeSet::new();
    for r in revisions.iter().filter(|r| r.is_ours && r.has_ended()) {
        if !named.contains(&r.revision) || kept.contains(&r.revision) || gone.contains(&r.revision) {
            continue;
        }
        if r.was_deployed() {
            let Some(copies) = copies.get_mut(&*r.manifest).filter(|copies| **copies > 1) else { continue };
            *copies -= 1;
        }
        gone.insert(r.revision);
    }
    gone
}

/// An older and a newer one say the same.
fn is_between_equals(of: &Retained, all: &[&Retained]) -> bool {
    let equal =
        |fits: &dyn Fn(u32) -> bool| all.iter().any(|r| fits(r.revision) && r.manifest == of.manifest);
    equal(&|revision| revision < of.revision) && equal(&|revision| revision > of.revision)
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
