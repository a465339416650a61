//! What retention gives up and what it never does.

use proptest::prelude::*;

use super::*;

/// Every one has a manifest of its own.
fn revision(revision: u32, state: &'static str) -> Retained {
    Retained { revision, state, is_ours: true, manifest: format!("m{revision}"), ..Retained::default() }
}

fn says(manifest: &str, of: Retained) -> Retained {
    Retained { manifest: manifest.to_owned(), ..of }
}

fn all(states: &[&'static str]) -> Vec<Retained> {
    (1..).zip(states).map(|(number, state)| revision(number, state)).collect()
}

const NONE: [u32; 0] = [];

#[test]
fn the_oldest_deployed_ones_go_first_and_failed_ones_take_no_room_of_theirs() {
    let history = [
        revision(4, "deployed"),
        revision(1, "superseded"),
        revision(3, "failed"),
        revision(2, "superseded"),
    ];
    assert_eq!(surplus(&history, 2), [1]);
    assert_eq!(surplus(&history, 1), [1, 2]);
    assert_eq!(surplus(&history, 3), NONE);
}

#[test]
fn three_failed_or_interrupted_ones_are_kept_and_no_deployed_one_goes_for_them() {
    let mut history = vec![revision(1, "deployed")];
    history.extend((2..=11).map(|n| revision(n, "failed")));
    assert_eq!(surplus(&history, 1), (2..=8).collect::<Vec<_>>());
    assert_eq!(surplus(&all(&["failed", "uninstalled", "failed", "uninstalled", "failed"]), 9), [1, 2]);
}

#[test]
fn copies_in_the_middle_go_before_anything_that_is_nowhere_else() {
    // Revision 4 failed, 5 went back to 3; 6 failed, 7 went back again.
    let mut history =
        all(&["superseded", "superseded", "superseded", "failed", "superseded", "failed", "deployed"]);
    for copy in [2, 4, 6] {
        history[copy].manifest = "good".to_owned();
    }
    assert_eq!(surplus(&history, 4), [5]);
    assert_eq!(surplus(&history, 3), [1, 5]);
    assert_eq!(surplus(&history, 5), NONE, "there is room for all");
}

#[test]
fn the_last_superseded_revision_stands_in_when_none_is_deployed() {
    assert_eq!(surplus(&all(&["superseded", "superseded", "failed", "failed"]), 1), [1]);
    // Another tool superseded revision 2 before its own revision worked, and revision 1 was never marked.
    assert_eq!(surplus(&all(&["deployed", "superseded", "failed"]), 1), NONE);
}

#[test]
fn a_pinned_revision_stays() {
    let mut history = all(&["superseded", "superseded", "deployed"]);
    history[0].pinned = true;
    assert_eq!(surplus(&history, 1), [2]);
    let mut failed = all(&["failed", "failed", "failed", "failed"]);
    failed[0].pinned = true;
    assert_eq!(surplus(&failed, 1), NONE);
}

#[test]
fn revisions_of_another_tool_are_neither_counted_nor_deleted() {
    let mut history = all(&["superseded", "superseded", "superseded", "deployed"]);
    history[0].is_ours = false;
    history[1].is_ours = false;
    assert_eq!(surplus(&history, 2), NONE);
    assert_eq!(surplus(&history, 1), [3]);
    // Theirs is the newest: the newest of ours stays all the same.
    let mut taken = all(&["superseded", "superseded", "deployed"]);
    taken[2].is_ours = false;
    assert_eq!(surplus(&taken, 1), [1]);
}

/// 1 is good, 2 failed, 3 went back to 1; 4 is one more try of what 2 was.
fn one_more_try(state: &'static str) -> Vec<Retained> {
    let mut history = all(&["superseded", "failed", "deployed", state]);
    history[2].manifest = "m1".to_owned();
    history[3].replaces = vec![2, 3];
    history
}

#[test]
fn one_more_try_takes_the_place_of_the_one_before_once_it_has_ended() {
    assert_eq!(surplus(&one_more_try("pending-upgrade"), 9), NONE, "it has not ended");
    assert_eq!(surplus(&one_more_try("failed"), 9), [2], "3 is what is gone back to");
    let mut undone = one_more_try("failed");
    undone[2].state = "superseded";
    undone.push(says("m1", revision(5, "deployed")));
    assert_eq!(surplus(&undone, 9), [2, 3]);
    let mut worked = one_more_try("deployed");
    worked[2].state = "superseded";
    assert_eq!(surplus(&worked, 9), [2, 3]);
    worked[2].pinned = true;
    assert_eq!(surplus(&worked, 9), [2]);
}

#[test]
fn one_more_try_takes_nothing_that_is_nowhere_else_and_nothing_newer() {
    let mut worked = one_more_try("deployed");
    worked[2] = revision(3, "superseded");
    assert_eq!(surplus(&worked, 9), [2], "nothing else says what 3 says");
    // Restored from a backup: what it names are other revisions by now.
    let mut restored = one_more_try("failed");
    restored[3].replaces = vec![4, 5, 9];
    assert_eq!(surplus(&restored, 9), NONE);
    let mut foreign = one_more_try("failed");
    foreign[3].is_ours = false;
    assert_eq!(surplus(&foreign, 9), NONE, "whoever wrote it has no say");
}

fn histories() -> impl Strategy<Value = Vec<Retained>> {
    let states =
        prop::sample::select(vec!["deployed", "failed", "superseded", "uninstalled", "pending-upgrade"]);
    let replaces = prop::collection::vec(1..60u32, 0..3);
    let one = (1..60u32, states, any::<bool>(), prop::bool::weighted(0.1), 0..4u32, replaces);
    prop::collection::vec(one, 0..30).prop_map(|rows| {
        let rows = rows.into_iter().map(|(revision, state, is_ours, pinned, manifest, replaces)| {
            let manifest = format!("m{manifest}");
            (revision, Retained { revision, state, is_ours, pinned, manifest, replaces })
        });
        rows.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn ours<'r>(of: impl Iterator<Item = &'r Retained>, deployed: bool) -> usize {
    of.filter(|r| r.is_ours && r.was_deployed() == deployed).count()
}

proptest! {
    #[test]
    fn nothing_precious_is_given_up_and_the_rest_fits(history in histories(), limit in 1..12usize) {
        let gone = surplus(&history, limit);
        prop_assert!(gone.is_sorted());
        let newest = history.iter().map(|r| r.revision).max();
        let last = |state: &[&str]| {
            history.iter().filter(|r| r.is_ours && state.contains(&r.state)).map(|r| r.revision).max()
        };
        for r in history.iter().filter(|r| gone.contains(&r.revision)) {
            prop_assert!(r.is_ours && !r.pinned && Some(r.revision) != newest);
            prop_assert!(Some(r.revision) != last(&["deployed"]));
            prop_assert!(Some(r.revision) != last(&["deployed", "superseded"]));
        }
        let stays: Vec<&Retained> = history.iter().filter(|r| !gone.contains(&r.revision)).collect();
        // Pins, and at most two that were deployed last.
        let pins = history.iter().filter(|r| r.pinned).count();
        prop_assert!(ours(stays.iter().copied(), true) <= limit.max(pins + 2));
        prop_assert!(ours(stays.iter().copied(), false) <= FAILED_KEPT.max(pins + 1) + pins + 1);
        // It is stable: what stays is not too many, but for what may go now that others are gone.
        let again = surplus(&stays.iter().map(|r| (*r).clone()).collect::<Vec<_>>(), limit);
        prop_assert!(again.iter().all(|r| !gone.contains(r)));
    }

    /// As long as there is room, nothing goes but what a later try took the place of; and of every manifest that could be
    /// gone back to, one stays.
    #[test]
    fn nothing_goes_without_a_reason(history in histories()) {
        let named: Vec<u32> = history.iter().flat_map(|r| r.replaces.clone()).collect();
        let failed = ours(history.iter(), false) > FAILED_KEPT;
        let gone = surplus(&history, usize::MAX);
        for r in history.iter().filter(|r| gone.contains(&r.revision)) {
            prop_assert!(named.contains(&r.revision) || (failed && !r.was_deployed()));
            if r.was_deployed() {
                let same = |other: &&Retained| {
                    other.is_ours && other.was_deployed() && other.manifest == r.manifest
                };
                prop_assert!(history.iter().filter(same).any(|other| !gone.contains(&other.revision)));
            }
        }
    }
}
