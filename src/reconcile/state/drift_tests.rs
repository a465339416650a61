use super::*;

const MINUTE: i64 = 60;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn id(name: &str) -> ObjectId {
    ObjectId {
        group: "apps".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("apps".to_owned()),
        name: name.to_owned(),
    }
}

fn suspicion(name: &str) -> Suspicion {
    Suspicion {
        id: id(name),
        gone: false,
        version: 7,
        fingerprint: Some("a".to_owned()),
        since: None,
        managed_fields: Vec::new(),
    }
}

/// The names of those that are due, and in how many seconds the others are.
fn due(
    memory: &mut DriftMemory,
    suspicions: &[Suspicion],
    warn: bool,
    now: i64,
) -> (Vec<String>, Option<i64>) {
    let due = memory.due(suspicions.to_vec(), warn, at(now));
    let names = due.into_iter().map(|suspicion| suspicion.id.name).collect();
    (names, memory.revert_at.map(|next| next.duration_since(at(now)).as_secs()))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn note(name: &str, action: DriftAction) -> Drifted {
    Drifted { id: id(name), manager: None, paths: Vec::new(), action, at: at(0) }
}

#[test]
fn what_has_not_been_looked_into_is_due_at_once() {
    let both = [suspicion("a"), suspicion("b")];
    assert_eq!(due(&mut DriftMemory::default(), &both, false, 0), (names(&["a", "b"]), None));
    assert_eq!(due(&mut DriftMemory::default(), &[], false, 0), (names(&[]), None));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: what happened before, what is due, and when the next is")]
fn each_object_waits_for_itself_and_the_pass_comes_back_for_the_first() {
    type Before = fn(&mut DriftMemory);
    let cases: [(&str, Before, &[&str], Option<i64>); 8] = [
        (
            "two reverts are free",
            |memory| (0..2).for_each(|_| memory.reverted(&id("a"), at(0))),
            &["a", "b"],
            Some(2),
        ),
        ("the fourth waits", |memory| (0..4).for_each(|_| memory.reverted(&id("a"), at(0))), &["b"], Some(6)),
        (
            "five false alarms, and one more",
            |memory| (0..6).for_each(|_| memory.false_alarm(&id("a"), at(0))),
            &["b"],
            Some(4),
        ),
        (
            "a failure of the cluster",
            |memory| memory.failed(&id("a"), "Forbidden", Class::FixCluster, "", at(0)),
            &["b"],
            Some(1),
        ),
        (
            "a failure that only a revision mends",
            |memory| memory.failed(&id("a"), "Invalid", Class::FixSpec, "", at(0)),
            &["b"],
            Some(MINUTE),
        ),
        (
            "the longest wait of one object counts",
            |memory| {
                (0..4).for_each(|_| memory.reverted(&id("a"), at(0)));
                memory.failed(&id("a"), "Invalid", Class::FixSpec, "", at(0));
            },
            &["b"],
            Some(MINUTE),
        ),
        (
            "the shortest wait of the objects is the next pass",
            |memory| {
                (0..4).for_each(|_| memory.reverted(&id("a"), at(0)));
                memory.failed(&id("b"), "Forbidden", Class::Retry, "", at(0));
            },
            &[],
            Some(1),
        ),
        (
            "what succeeded does not wait",
            |memory| {
                memory.failed(&id("a"), "Forbidden", Class::Retry, "", at(0));
                memory.succeeded(&id("a"));
            },
            &["a", "b"],
            None,
        ),
    ];
    for (name, before, expected, next) in cases {
        let mut memory = DriftMemory::default();
        before(&mut memory);
        let found = due(&mut memory, &[suspicion("a"), suspicion("b")], false, 0);
        // What is free may be put back now, so the pass comes back for nothing.
        let next = if expected.len() == 2 { None } else { next };
        assert_eq!(found, (names(expected), next), "{name}");
    }
}

#[test]
fn failures_of_one_object_are_tried_again_ever_later_and_at_least_each_minute() {
    let mut memory = DriftMemory::default();
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..8 {
        memory.failed(&id("a"), "Forbidden", Class::FixCluster, "no right", at(now));
        let (found, next) = due(&mut memory, &[suspicion("a")], false, now);
        assert!(found.is_empty());
        waits.push(next.unwrap());
        now += next.unwrap();
        assert_eq!(due(&mut memory, &[suspicion("a")], false, now).0, names(&["a"]));
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    let failing = memory.failing().get(&id("a")).unwrap();
    assert_eq!((failing.reason, &*failing.message), ("Forbidden", "no right"));
}

#[test]
fn a_conflict_is_looked_into_again_at_once_unless_it_goes_on() {
    let mut memory = DriftMemory::default();
    let mut waits = Vec::new();
    for _ in 0..8 {
        memory.revert_at = None;
        memory.conflicted(&id("a"), at(0));
        waits.push(memory.revert_at.unwrap().duration_since(at(0)).as_secs());
    }
    assert_eq!(waits, [0, 0, 0, 0, 2, 4, 8, 10]);
}

#[test]
fn in_warn_mode_what_stays_changed_is_looked_into_ever_less_often_and_only_for_news() {
    let mut memory = DriftMemory::default();
    let (one, newer) = (suspicion("a"), Suspicion { version: 8, ..suspicion("a") });
    memory.looked(&one, at(0));
    assert_eq!(
        due(&mut memory, std::slice::from_ref(&one), true, 0),
        (names(&[]), None),
        "nothing is new of it"
    );
    assert_eq!(
        due(&mut memory, std::slice::from_ref(&newer), true, 0),
        (names(&[]), Some(2)),
        "others wrote it"
    );
    assert_eq!(due(&mut memory, std::slice::from_ref(&newer), true, 2), (names(&["a"]), None));
    memory.looked(&newer, at(2));
    memory.looked(&newer, at(2));
    let newest = Suspicion { version: 9, ..suspicion("a") };
    assert_eq!(
        due(&mut memory, std::slice::from_ref(&newest), true, 2),
        (names(&[]), Some(8)),
        "the third look"
    );
    for changed in [
        Suspicion { fingerprint: Some("b".to_owned()), ..suspicion("a") },
        Suspicion { gone: true, ..suspicion("a") },
    ] {
        assert_eq!(
            due(&mut memory, &[changed], true, 2).0,
            names(&["a"]),
            "ours of it changed: it is due at once"
        );
    }
}

#[test]
fn what_was_looked_into_is_due_when_it_is_to_be_put_back_from_now_on() {
    let mut memory = DriftMemory::default();
    memory.looked(&suspicion("a"), at(0));
    assert_eq!(due(&mut memory, &[suspicion("a")], false, 0).0, names(&["a"]));
    memory.looked(&suspicion("a"), at(0));
    assert_eq!(due(&mut memory, &[], true, 0).0, names(&[]));
    assert_eq!(due(&mut memory, &[suspicion("a")], true, 0).0, names(&["a"]), "it was in order meanwhile");
}

#[test]
fn only_what_is_reported_and_differs_no_more_is_taken_back() {
    let mut memory = DriftMemory::default();
    memory.note(note("reported", DriftAction::Reported));
    memory.note(note("still", DriftAction::Reported));
    memory.note(note("reverted", DriftAction::Reverted));
    memory.due(vec![suspicion("still")], true, at(0));
    let seen: Vec<&str> = memory.seen.iter().map(|seen| &*seen.id.name).collect();
    assert_eq!(seen, ["still", "reverted"]);
}

#[test]
fn the_newest_note_of_an_object_stays_and_twenty_objects_are_told() {
    let mut memory = DriftMemory::default();
    for number in 0..25 {
        memory.note(note(&number.to_string(), DriftAction::Reverted));
    }
    memory.note(note("10", DriftAction::Recreated));
    assert_eq!(memory.seen.len(), 20);
    assert_eq!(memory.seen[0].id.name, "5");
    assert_eq!(memory.seen[19].action, DriftAction::Recreated);
    assert_eq!(memory.seen.iter().filter(|seen| seen.id.name == "10").count(), 1);
}

#[test]
fn an_object_is_contended_until_it_was_quiet_for_long_enough() {
    let mut memory = DriftMemory::default();
    (0..3).for_each(|_| memory.reverted(&id("b"), at(0)));
    assert!(memory.contended(at(0)).is_empty() && memory.contended_until(at(0)).is_none());
    (0..4).for_each(|_| memory.reverted(&id("a"), at(0)));
    assert_eq!(memory.contended(at(0)), [&id("a")]);
    assert_eq!((memory.contended_until(at(0)), memory.last_reverted), (Some(at(MINUTE)), Some(at(0))));
    assert!(memory.contended(at(MINUTE)).is_empty());
    memory.due(Vec::new(), false, at(MINUTE));
    assert!(memory.heat.is_empty(), "what is cold is forgotten");
}

#[test]
fn what_other_objects_did_says_nothing_of_those_that_are_locked_from_now_on() {
    let mut memory = DriftMemory::default();
    memory.failed(&id("a"), "Forbidden", Class::FixCluster, "", at(0));
    (0..6).for_each(|_| memory.false_alarm(&id("b"), at(0)));
    memory.forget_behaviour();
    assert_eq!(due(&mut memory, &[suspicion("a"), suspicion("b")], false, 0), (names(&["a", "b"]), None));
    memory.looked(&suspicion("a"), at(0));
    memory.note(note("a", DriftAction::Reported));
    memory.come_back_at(at(9));
    memory.come_back_at(at(5));
    memory.come_back_at(at(7));
    assert_eq!(memory.revert_at, Some(at(5)), "the soonest");
    memory.forget_objects();
    assert_eq!((memory.seen.len(), memory.revert_at), (0, None));
    assert_eq!(due(&mut memory, &[suspicion("a")], true, 0).0, names(&["a"]));
}

#[test]
fn each_action_has_its_word_in_status_and_events() {
    for (action, word) in [
        (DriftAction::Reverted, "Reverted"),
        (DriftAction::Recreated, "Recreated"),
        (DriftAction::HandedOver, "HandedOver"),
        (DriftAction::Reported, "Reported"),
    ] {
        assert_eq!(action.as_str(), word);
    }
}
