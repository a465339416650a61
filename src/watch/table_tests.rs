use super::*;

fn key(name: &str) -> ReleaseKey {
    ReleaseKey { namespace: "apps".into(), name: name.into() }
}

fn id(name: &str) -> ObjectId {
    ObjectId {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: Some("apps".into()),
        name: name.into(),
    }
}

fn live(fingerprint: &str, version: u64) -> Sighting {
    Sighting { fingerprint: Some(fingerprint.into()), version, uid: Some("u1".into()), ..Sighting::default() }
}

fn applied() -> Table {
    let mut table = Table::default();
    table.track(&key("web"), &id("web")).unwrap();
    table.begin(&id("web"));
    assert!(!table.applied(&id("web"), Some("f1".into()), 10, Some("u1".into())));
    table
}

#[test]
fn the_echo_of_our_own_apply_is_not_drift() {
    let mut table = applied();
    assert_eq!(table.saw(&id("web"), live("f1", 10)), None);
    assert_eq!(table.saw(&id("web"), live("f0", 9)), None);
    assert!(table.suspicions(&key("web")).is_empty());
}

#[test]
fn another_fingerprint_above_our_version_is_drift_until_we_apply_again() {
    let mut table = applied();
    assert_eq!(table.saw(&id("web"), live("f2", 11)), Some(key("web")));
    assert_eq!(table.suspicions(&key("web")).len(), 1);
    table.begin(&id("web"));
    assert!(!table.applied(&id("web"), Some("f1".into()), 12, Some("u1".into())));
    assert!(table.suspicions(&key("web")).is_empty());
}

#[test]
fn a_status_write_wakes_nobody_who_does_not_wait() {
    let mut table = applied();
    assert_eq!(table.saw(&id("web"), live("f1", 11)), None);
    table.wake_on(&key("web"), &BTreeSet::from([id("web")]));
    assert_eq!(table.saw(&id("web"), live("f1", 12)), Some(key("web")));
    table.wake_on(&key("web"), &BTreeSet::new());
    assert_eq!(table.saw(&id("web"), live("f1", 13)), None);
}

#[test]
fn a_change_seen_before_our_apply_returned_is_compared_afterwards() {
    let mut table = applied();
    table.begin(&id("web"));
    assert_eq!(table.saw(&id("web"), live("f9", 15)), None);
    assert!(table.applied(&id("web"), Some("f1".into()), 14, Some("u1".into())));
    assert_eq!(table.suspicions(&key("web")).len(), 1);
}

#[test]
fn an_object_of_another_uid_is_drift_even_with_the_same_fields() {
    let mut table = applied();
    let other = Sighting { uid: Some("u2".into()), ..live("f1", 11) };
    assert_eq!(table.saw(&id("web"), other), Some(key("web")));
}

#[test]
fn what_a_list_does_not_show_is_gone_unless_it_was_applied_meanwhile() {
    let mut table = applied();
    table.track(&key("web"), &id("api")).unwrap();
    table.applied(&id("api"), Some("f1".into()), 11, None);
    table.list_begins(&Subject::kind("apps", "Deployment"));
    table.applied(&id("api"), Some("f1".into()), 12, None);
    assert_eq!(table.list_ends(&Subject::kind("apps", "Deployment")), [key("web")]);
    let gone = table.suspicions(&key("web"));
    assert_eq!(gone.len(), 1);
    assert!(gone[0].gone && gone[0].id == id("web"));
}

#[test]
fn a_terminating_object_is_awaited() {
    let mut table = applied();
    let going = Sighting { terminating: true, ..live("f2", 11) };
    assert_eq!(table.saw(&id("web"), going), None);
    assert_eq!(table.lost(&id("web"), 12), Some(key("web")));
    assert!(table.suspicions(&key("web"))[0].gone);
}

#[test]
fn a_stored_expectation_meets_the_first_list_after_a_restart() {
    let mut table = Table::default();
    table.track(&key("web"), &id("web")).unwrap();
    table.expect(&id("web"), Some("f1".into()), Some("u1".into()));
    table.list_begins(&Subject::kind("apps", "Deployment"));
    assert_eq!(table.saw(&id("web"), live("f2", 40)), Some(key("web")));
    assert!(table.list_ends(&Subject::kind("apps", "Deployment")).is_empty());
}

#[test]
fn two_releases_never_track_one_object() {
    let mut table = applied();
    assert_eq!(table.track(&key("other"), &id("web")), Err(key("web")));
    table.forget_all(&key("web"));
    assert_eq!(table.track(&key("other"), &id("web")), Ok(()));
}

#[test]
fn what_was_applied_and_has_gone_is_missing() {
    let mut table = applied();
    table.track(&key("web"), &id("hook")).unwrap();
    assert!(table.missing(&key("web")).is_empty());
    table.lost(&id("web"), 11);
    table.lost(&id("hook"), 11);
    assert_eq!(table.missing(&key("web")), [id("web")], "nothing is expected of the hook");
    table.saw(&id("web"), live("f1", 12));
    assert!(table.missing(&key("web")).is_empty());
}

#[test]
fn unknown_objects_are_ignored() {
    let mut table = applied();
    assert_eq!(table.saw(&id("stranger"), live("f1", 99)), None);
    assert_eq!(table.lost(&id("stranger"), 99), None);
}

#[test]
fn a_watch_of_a_namespace_and_one_by_label_each_tell_of_their_own() {
    let unlabelled =
        |namespace: Option<&str>| ObjectId { namespace: namespace.map(str::to_owned), ..id("bare") };
    let (here, there) = (unlabelled(Some("apps")), unlabelled(Some("other")));
    let mut table = applied();
    for id in [&here, &there] {
        table.track(&key("bare"), id).unwrap();
        table.is_unlabelled(id);
        table.applied(id, Some("f1".into()), 10, None);
    }
    let subject = Subject::around(&here);
    assert_eq!(subject, Subject::around(&ObjectId { name: "another".into(), ..here.clone() }));
    assert_ne!(subject, Subject::around(&unlabelled(None)));
    table.list_begins(&subject);
    assert_eq!(table.list_ends(&subject), [key("bare")]);
    assert!(table.is_gone(&here) && !table.is_gone(&there) && !table.is_gone(&id("web")));
    let labelled = Subject::kind("apps", "Deployment");
    table.list_begins(&labelled);
    assert_eq!(table.list_ends(&labelled), [key("web")]);
    assert!(!table.is_gone(&there));
}

#[test]
fn an_object_that_is_taken_over_is_told_once_to_the_release_that_had_it() {
    let mut table = applied();
    assert_eq!(table.take_over(&key("other"), &id("web")), Some(key("web")));
    assert_eq!(table.owner(&id("web")), Some(&key("other")));
    assert!(table.tracked(&key("web")).is_empty());
    assert_eq!(table.take_lost(&key("web")), BTreeSet::from([id("web")]));
    assert!(table.take_lost(&key("web")).is_empty());
    // It has it already, and so has one that finds it free.
    assert_eq!(table.take_over(&key("other"), &id("web")), None);
    assert_eq!(table.take_over(&key("web"), &id("api")), None);
    assert_eq!(table.owner(&id("api")), Some(&key("web")));
    // A release that lets go of everything wants to hear of nothing.
    assert_eq!(table.take_over(&key("web"), &id("web")), Some(key("other")));
    table.forget_all(&key("other"));
    assert!(table.take_lost(&key("other")).is_empty());
}
