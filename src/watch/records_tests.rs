use super::*;

fn records_of() -> RecordsOf {
    RecordsOf { storage: HistoryStorage::Secret, namespace: "apps".to_owned(), stem: "web".to_owned() }
}

#[test]
fn a_read_does_not_take_back_what_the_watch_told_meanwhile() {
    let (mut state, of) = (State::default(), records_of());
    let at = |revision, version| Newest::At { revision, version };
    assert!(state.saw(of.clone(), 1, 10));
    let before = state.newest(&of);
    state.read(&of, before, at(1, 11));
    assert_eq!(state.newest(&of), at(1, 11));

    let before = state.newest(&of);
    assert!(state.saw(of.clone(), 2, 12));
    state.read(&of, before, at(1, 11));
    assert_eq!(state.newest(&of), at(2, 12));

    let before = state.newest(&of);
    assert!(state.lost(&of, 2));
    state.read(&of, before, at(2, 12));
    assert_eq!(state.newest(&of), Newest::Lost);
    state.read(&of, Newest::Lost, at(1, 11));
    assert_eq!(state.newest(&of), at(1, 11));
}

fn key() -> ReleaseKey {
    ReleaseKey { namespace: "apps".to_owned(), name: "web".to_owned() }
}

#[test]
fn a_newest_record_that_was_deleted_during_a_list_is_lost() {
    let (mut state, of) = (State::default(), records_of());
    assert!(state.saw(of.clone(), 1, 10));
    assert!(state.saw(of.clone(), 2, 11));
    state.list_begins(of.storage);
    state.listed(of.clone(), 1, 10);
    assert_eq!(state.list_ends(of.storage), std::slice::from_ref(&of));
    assert_eq!(state.newest(&of), Newest::Lost);
}

#[test]
fn a_record_that_is_written_during_a_list_is_not_lost() {
    let (mut state, of) = (State::default(), records_of());
    assert!(state.saw(of.clone(), 1, 10));
    state.list_begins(of.storage);
    state.listed(of.clone(), 1, 10);
    assert!(state.saw(of.clone(), 2, 12));
    assert!(state.list_ends(of.storage).is_empty());
    assert_eq!(state.newest(&of), Newest::At { revision: 2, version: 12 });
}

#[test]
fn a_name_is_forgotten_with_its_last_record_and_its_release() {
    let (mut state, of) = (State::default(), records_of());
    state.claim(&key(), std::slice::from_ref(&of));
    state.saw(of.clone(), 1, 10);
    state.saw(of.clone(), 2, 11);
    // Somebody deletes the newest: the older one has to be read.
    assert!(state.lost(&of, 2));
    state.claim(&key(), &[]);
    assert_eq!(state.newest(&of), Newest::Lost);
    assert!(!state.lost(&of, 1));
    assert!(state.known.is_empty(), "{state:?}");
    // The other way round: the release goes last.
    state.claim(&key(), std::slice::from_ref(&of));
    state.saw(of.clone(), 1, 20);
    assert!(state.lost(&of, 1));
    assert_eq!(state.newest(&of), Newest::Lost);
    state.claim(&key(), &[]);
    assert!(state.known.is_empty() && !state.claims.has(&of), "{state:?}");
    // What a list does not show any more goes too.
    state.saw(of.clone(), 1, 30);
    state.list_begins(of.storage);
    assert_eq!(state.list_ends(of.storage), [of]);
    assert!(state.known.is_empty() && state.listing.is_empty(), "{state:?}");
}

fn other(name: &str) -> ReleaseKey {
    ReleaseKey { namespace: "evil".to_owned(), name: name.to_owned() }
}

#[test]
fn a_new_revision_of_a_release_is_news_to_the_others_that_name_it_and_its_checkpoints_are_not() {
    let (mut state, of) = (State::default(), records_of());
    for release in [key(), other("a"), other("b")] {
        state.claim(&release, std::slice::from_ref(&of));
    }
    let others = [other("a"), other("b")];
    assert_eq!(state.wrote(&of, 1, 10, &key()), others);
    assert!(state.wrote(&of, 1, 11, &key()).is_empty());
    assert!(!state.saw(of.clone(), 1, 11), "the echo is no news");
    assert_eq!(state.wrote(&of, 2, 12, &key()), others);
    state.claim(&other("a"), &[]);
    assert_eq!(state.wrote(&of, 3, 13, &key()), [other("b")]);
}

#[test]
fn the_parts_of_a_record_are_heeded_as_long_as_somebody_claims_it() {
    let (mut state, of) = (State::default(), records_of());
    state.heed(&of, Some(1));
    assert!(state.heeded.is_empty(), "nobody claims it");
    for release in [key(), other("a")] {
        state.claim(&release, std::slice::from_ref(&of));
    }
    state.heed(&of, Some(1));
    state.claim(&other("a"), &[]);
    assert_eq!(state.heeded.len(), 1);
    state.claim(&key(), &[]);
    assert!(state.heeded.is_empty());
}
