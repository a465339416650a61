//! Which revisions of a release are too many.
//!
//! Pure: revisions and a limit in, revision numbers out. Imports nothing of the crate. Invariant: the newest
//! revision, the one that is or was deployed last, and pinned ones are never given up, whatever the limit.

/// One stored revision, as far as retention cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    pub revision: u32,
    /// [`State::name`](super::State::name); for an unreadable record any other text.
    pub state: &'static str,
    /// The record carries a valid private part.
    pub is_ours: bool,
    /// Somebody refers to it by number (`rollbackTo`).
    pub pinned: bool,
}

/// The revisions to delete so that at most `limit` of our own remain, oldest first.
///
/// Records of other tools are neither counted nor deleted: they are somebody else's history. "Deployed last" is
/// the newest `deployed` revision, or else the newest `superseded` one, because some tools supersede the old
/// revision before the new one works. A limit of 0 keeps only what is never given up. Order of the input does not
/// matter.
pub fn surplus(revisions: &[Retained], limit: usize) -> Vec<u32> {
    let newest_in = |state: &str| revisions.iter().filter(|r| r.state == state).map(|r| r.revision).max();
    let newest = revisions.iter().map(|r| r.revision).max();
    let last_deployed = newest_in("deployed").or_else(|| newest_in("superseded"));
    let protected =
        |r: &Retained| r.pinned || Some(r.revision) == newest || Some(r.revision) == last_deployed;

    let ours = || revisions.iter().filter(|r| r.is_ours);
    let mut free: Vec<u32> = ours().filter(|r| !protected(r)).map(|r| r.revision).collect();
    let room = limit.saturating_sub(ours().filter(|r| protected(r)).count());
    free.sort_unstable();
    free.truncate(free.len().saturating_sub(room));
    free
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn revision(revision: u32, state: &'static str) -> Retained {
        Retained { revision, state, is_ours: true, pinned: false }
    }

    #[test]
    fn the_oldest_go_first() {
        let history = [
            revision(4, "deployed"),
            revision(1, "superseded"),
            revision(3, "failed"),
            revision(2, "superseded"),
        ];
        assert_eq!(surplus(&history, 2), [1, 2]);
        assert_eq!(surplus(&history, 4), Vec::<u32>::new());
    }

    #[test]
    fn ten_failed_upgrades_do_not_evict_the_deployed_revision() {
        let mut history = vec![revision(1, "deployed")];
        history.extend((2..=11).map(|n| revision(n, "failed")));
        assert_eq!(surplus(&history, 3), (2..=9).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_superseded_revision_stands_in_when_none_is_deployed() {
        let history = [
            revision(1, "superseded"),
            revision(2, "superseded"),
            revision(3, "failed"),
            revision(4, "failed"),
        ];
        assert_eq!(surplus(&history, 1), [1, 3]);
    }

    #[test]
    fn a_pinned_revision_stays() {
        let mut history = [revision(1, "superseded"), revision(2, "superseded"), revision(3, "deployed")];
        history[0].pinned = true;
        assert_eq!(surplus(&history, 1), [2]);
    }

    #[test]
    fn revisions_of_another_tool_are_neither_counted_nor_deleted() {
        let mut history = [
            revision(1, "superseded"),
            revision(2, "superseded"),
            revision(3, "superseded"),
            revision(4, "deployed"),
        ];
        history[0].is_ours = false;
        history[1].is_ours = false;
        assert_eq!(surplus(&history, 2), Vec::<u32>::new());
        assert_eq!(surplus(&history, 1), [3]);
    }

    fn histories() -> impl Strategy<Value = Vec<Retained>> {
        let states =
            prop::sample::select(vec!["deployed", "failed", "superseded", "uninstalled", "pending-upgrade"]);
        let one = (1..60u32, states, any::<bool>(), prop::bool::weighted(0.1));
        prop::collection::vec(one, 0..30).prop_map(|rows| {
            let mut rows: Vec<_> = rows
                .into_iter()
                .map(|(revision, state, is_ours, pinned)| Retained { revision, state, is_ours, pinned })
                .collect();
            let mut seen = std::collections::BTreeSet::new();
            rows.retain(|r| seen.insert(r.revision));
            rows
        })
    }

    proptest! {
        #[test]
        fn nothing_precious_is_given_up_and_the_rest_fits(history in histories(), limit in 0..12usize) {
            let gone = surplus(&history, limit);
            let newest = history.iter().map(|r| r.revision).max();
            let deployed = history.iter().filter(|r| r.state == "deployed").map(|r| r.revision).max();
            for r in history.iter().filter(|r| gone.contains(&r.revision)) {
                prop_assert!(r.is_ours && !r.pinned);
                prop_assert!(Some(r.revision) != newest && Some(r.revision) != deployed);
            }
            let ours = history.iter().filter(|r| r.is_ours).count();
            // At most three kinds of protection can push the rest above the limit: pins, the newest, the last deployed.
            let pins = history.iter().filter(|r| r.pinned).count();
            prop_assert!(ours - gone.len() <= limit.max(pins + 2));
            // Never more is deleted than the limit asks for, and what stays of the free ones is newer than what goes.
            prop_assert!(gone.is_empty() || ours - gone.len() >= limit);
            prop_assert!(gone.is_sorted());
        }
    }
}
