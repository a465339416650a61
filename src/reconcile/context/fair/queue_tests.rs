//! Who is served when, and what never happens however many ask.

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn queue(capacity: u64, each: u64) -> (FairQueue, Instant) {
    (FairQueue::new(Shares { capacity, each, patience: PATIENCE, lent: false }), Instant::now())
}

fn key(text: &str) -> ReleaseKey {
    ReleaseKey::parse(text).unwrap()
}

fn woken(queue: &mut FairQueue) -> Vec<String> {
    queue.take_woken().iter().map(ToString::to_string).collect()
}

fn waits(answer: Answer) -> bool {
    matches!(answer, Answer::Waits { .. })
}

const NONE: [&str; 0] = [];

#[test]
fn what_is_free_is_taken_at_once_and_nothing_is_woken_or_kept() {
    let (mut queue, now) = queue(2, 1);
    assert_eq!(queue.ask(&key("a/1"), 1, now), Answer::Granted(1));
    assert_eq!(queue.ask(&key("b/1"), 1, now), Answer::Granted(1));
    queue.give_back("a", 1, now);
    queue.end(&key("a/1"), now);
    assert_eq!(queue.ask(&key("a/2"), 1, now), Answer::Granted(1));
    assert_eq!((woken(&mut queue), queue.expires_at(), queue.waiting()), (vec![], None, 0));
    queue.give_back("a", 1, now);
    queue.give_back("b", 1, now);
    assert!(queue.in_use() == 0 && queue.by_namespace.is_empty(), "nothing is kept of who is gone");
}

#[test]
fn a_namespace_has_its_share_and_another_one_need_not_wait_for_it() {
    let (mut queue, now) = queue(2, 1);
    assert_eq!(queue.ask(&key("evil/0"), 1, now), Answer::Granted(1));
    for index in 1..100 {
        assert!(waits(queue.ask(&key(&format!("evil/{index}")), 1, now)));
    }
    assert_eq!(queue.ask(&key("victim/0"), 1, now), Answer::Granted(1));
    assert_eq!(queue.waiting(), 99);
}

#[test]
fn namespaces_are_served_by_turns_and_the_releases_of_each_in_their_order() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("evil/0"), 1, now), Answer::Granted(1));
    for index in 1..10 {
        queue.ask(&key(&format!("evil/{index}")), 1, now);
    }
    for later in ["b/1", "b/2", "c/1"] {
        assert!(waits(queue.ask(&key(later), 1, now)));
    }
    let mut order = Vec::new();
    let mut before = "evil".to_owned();
    for _ in 0..6 {
        queue.give_back(&before, 1, now);
        let [next] = &woken(&mut queue)[..] else { panic!("one at a time") };
        assert_eq!(queue.ask(&key(next), 1, now), Answer::Granted(1));
        order.push(next.clone());
        before = key(next).namespace;
    }
    assert_eq!(order, ["evil/1", "b/1", "c/1", "evil/2", "b/2", "evil/3"]);
}

/// One turn, which is lent; `a/1` has it, and `a/2` and `a/3` wait, whose passes have ended.
fn lending() -> (FairQueue, Instant) {
    let now = Instant::now();
    let mut queue = FairQueue::new(Shares { capacity: 1, each: 1, patience: PATIENCE, lent: true });
    assert_eq!(queue.ask(&key("a/1"), 1, now), Answer::Granted(1));
    for absent in ["a/2", "a/3"] {
        assert!(waits(queue.ask(&key(absent), 1, now)));
        queue.end(&key(absent), now);
    }
    queue.give_back("a", 1, now);
    assert_eq!(woken(&mut queue), ["a/2"]);
    (queue, now)
}

#[test]
fn what_is_reserved_for_a_release_that_has_not_come_is_lent_within_its_namespace() {
    let (mut queue, now) = lending();
    assert!(waits(queue.ask(&key("b/1"), 1, now)), "not to another namespace");
    assert_eq!(queue.ask(&key("a/4"), 1, now), Answer::Granted(1));
    assert!(waits(queue.ask(&key("a/5"), 1, now)), "it is lent once");
    assert_eq!(queue.in_use(), 1);
    queue.give_back("a", 1, now);
    assert_eq!(woken(&mut queue), ["b/1"], "namespaces take turns all the same");
    queue.give_back("b", 1, now);
    queue.forget(&key("b/1"), now);
    assert_eq!(woken(&mut queue), ["a/2"], "it is still the next of its namespace");
    assert_eq!(queue.ask(&key("a/2"), 1, now), Answer::Granted(1));
}

#[test]
fn a_release_whose_pass_runs_lends_nothing() {
    let (mut queue, now) = lending();
    assert_eq!(queue.ask(&key("a/2"), 1, now), Answer::Granted(1));
    queue.keep(&key("a/2"), 1, now);
    assert!(waits(queue.ask(&key("a/4"), 1, now)), "it is kept for the rest of its pass");
}

#[test]
fn a_release_that_lent_for_as_long_as_it_may_lends_no_more() {
    let (mut queue, now) = lending();
    let later = now + PATIENCE - Duration::from_millis(1);
    assert_eq!(queue.ask(&key("a/4"), 1, later), Answer::Granted(1));
    let too_late = now + PATIENCE;
    queue.give_back("a", 1, too_late);
    assert!(waits(queue.ask(&key("a/5"), 1, too_late)), "else it might never have its turn");
    assert_eq!(queue.ask(&key("a/2"), 1, too_late), Answer::Granted(1));
}

#[test]
fn what_is_reserved_is_for_one_release_until_it_is_too_late() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("a/1"), 1, now), Answer::Granted(1));
    assert!(waits(queue.ask(&key("a/2"), 1, now)) && waits(queue.ask(&key("b/1"), 1, now)));
    queue.end(&key("a/2"), now);
    queue.end(&key("b/1"), now);
    queue.give_back("a", 1, now);
    assert_eq!(woken(&mut queue), ["a/2"]);
    assert!(waits(queue.ask(&key("c/1"), 1, now)));
    assert_eq!(queue.expires_at(), Some(now + PATIENCE));
    queue.expire(now + PATIENCE - Duration::from_millis(1));
    assert_eq!(woken(&mut queue), NONE);
    queue.expire(now + PATIENCE);
    assert_eq!(woken(&mut queue), ["b/1"], "the turn of the next");
    assert!(waits(queue.ask(&key("a/2"), 1, now)), "it has lost its place");
    assert_eq!(queue.ask(&key("b/1"), 1, now), Answer::Granted(1));
}

#[test]
fn a_release_that_asks_again_keeps_its_place() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("a/0"), 1, now), Answer::Granted(1));
    let first = queue.ask(&key("a/1"), 1, now);
    queue.ask(&key("a/2"), 1, now);
    queue.end(&key("a/1"), now);
    assert_eq!(queue.ask(&key("a/1"), 1, now + PATIENCE), first, "it has waited since then");
    queue.give_back("a", 1, now);
    assert_eq!(woken(&mut queue), ["a/1"]);
}

#[test]
fn a_pass_that_does_not_ask_any_more_leaves_the_queue() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("a/0"), 1, now), Answer::Granted(1));
    for name in ["a/1", "a/2"] {
        assert!(waits(queue.ask(&key(name), 1, now)));
        queue.end(&key(name), now);
    }
    assert_eq!(queue.waiting(), 2, "both asked in their passes");
    queue.end(&key("a/1"), now);
    assert_eq!(queue.waiting(), 1, "and one did not in its next");
    queue.give_back("a", 1, now);
    assert_eq!(woken(&mut queue), ["a/2"]);
    queue.end(&key("a/2"), now);
    assert_eq!(queue.in_use(), 0, "its turn came and it did not want it");
    assert_eq!(queue.expires_at(), None);
}

#[test]
fn a_turn_that_comes_while_the_pass_ends_that_asked_for_it_waits_for_the_next_pass() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("a/0"), 1, now), Answer::Granted(1));
    assert!(waits(queue.ask(&key("a/1"), 1, now)));
    queue.give_back("a", 1, now);
    queue.end(&key("a/1"), now);
    assert_eq!(woken(&mut queue), ["a/1"]);
    assert_eq!(queue.ask(&key("a/1"), 1, now), Answer::Granted(1));
}

#[test]
fn one_pass_asks_for_several_pieces_of_work_and_stands_in_the_queue_once() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("a/0"), 1, now), Answer::Granted(1));
    assert!(waits(queue.ask(&key("b/0"), 1, now)));
    queue.keep(&key("a/0"), 1, now);
    assert_eq!(queue.in_use(), 1);
    assert_eq!(queue.ask(&key("a/0"), 1, now), Answer::Granted(1), "b waits until its pass ends");
    queue.keep(&key("a/0"), 1, now);
    queue.end(&key("a/0"), now);
    assert_eq!(woken(&mut queue), ["b/0"]);
}

#[test]
fn a_release_that_is_gone_keeps_nothing() {
    let (mut queue, now) = queue(1, 1);
    assert_eq!(queue.ask(&key("a/0"), 1, now), Answer::Granted(1));
    assert!(waits(queue.ask(&key("a/1"), 1, now)) && waits(queue.ask(&key("a/2"), 1, now)));
    queue.forget(&key("a/1"), now);
    queue.give_back("a", 1, now);
    assert_eq!(woken(&mut queue), ["a/2"]);
    queue.forget(&key("a/2"), now);
    assert_eq!((queue.in_use(), queue.waiting(), queue.expires_at()), (0, 0, None));
}

#[test]
fn a_claim_of_more_than_there_is_runs_alone_and_smaller_ones_do_not_pass_it_for_ever() {
    let (mut queue, now) = queue(100, 60);
    assert_eq!(queue.ask(&key("a/small"), 50, now), Answer::Granted(50));
    assert!(waits(queue.ask(&key("b/huge"), 1000, now)));
    assert!(waits(queue.ask(&key("c/small"), 10, now)), "there is room, but it is the turn of another");
    queue.give_back("a", 50, now);
    assert_eq!(woken(&mut queue), ["b/huge"]);
    assert_eq!(queue.ask(&key("b/huge"), 1000, now), Answer::Granted(100));
    queue.give_back("b", 100, now);
    assert_eq!(woken(&mut queue), ["c/small"]);
}

#[test]
fn a_namespace_beyond_its_share_keeps_no_other_from_theirs() {
    let (mut queue, now) = queue(100, 60);
    assert_eq!(queue.ask(&key("a/1"), 50, now), Answer::Granted(50));
    assert!(waits(queue.ask(&key("a/2"), 20, now)));
    assert_eq!(queue.ask(&key("b/1"), 50, now), Answer::Granted(50));
    queue.give_back("a", 50, now);
    assert_eq!(woken(&mut queue), ["a/2"]);
}

#[test]
fn who_needs_more_than_is_reserved_for_it_is_the_next_to_have_it() {
    let (mut queue, now) = queue(100, 100);
    assert_eq!(queue.ask(&key("a/1"), 90, now), Answer::Granted(90));
    assert!(waits(queue.ask(&key("b/1"), 20, now)) && waits(queue.ask(&key("b/2"), 20, now)));
    queue.give_back("a", 50, now);
    assert_eq!(woken(&mut queue), ["b/1", "b/2"]);
    assert!(waits(queue.ask(&key("b/1"), 60, now)));
    assert_eq!(queue.in_use(), 60, "what was reserved for it is free");
    queue.give_back("a", 40, now);
    assert_eq!(queue.ask(&key("b/1"), 60, now), Answer::Granted(60));
    assert_eq!(queue.ask(&key("b/2"), 5, now), Answer::Granted(20), "it may ask for more of it later");
    assert_eq!(queue.in_use(), 80);
}

#[test]
fn a_pass_that_asks_for_little_first_has_all_that_it_waited_for() {
    let (mut queue, now) = queue(100, 100);
    assert_eq!(queue.ask(&key("a/1"), 80, now), Answer::Granted(80));
    assert!(waits(queue.ask(&key("b/large"), 90, now)));
    queue.end(&key("b/large"), now);
    assert!(waits(queue.ask(&key("c/1"), 20, now)));
    queue.give_back("a", 80, now);
    assert_eq!(woken(&mut queue), ["b/large"]);
    // Its next pass looks at a record before it prepares the operation that it waited for.
    assert_eq!(queue.ask(&key("b/large"), 10, now), Answer::Granted(90));
    assert_eq!(woken(&mut queue), NONE, "nothing of it goes to those behind it");
    queue.give_back("b", 90, now);
    assert_eq!(woken(&mut queue), ["c/1"]);
}

/// What may be done to a queue by any of a few releases.
#[derive(Clone, Debug)]
enum Act {
    Ask(usize, u64),
    /// The one that took something longest ago gives it back, or keeps it for its pass.
    GiveBack,
    Keep,
    End(usize),
    Forget(usize),
    Expire,
}

const KEYS: [&str; 7] = ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1", "d/1"];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..KEYS.len(), 1_u64..9).prop_map(|(of, weight)| Act::Ask(of, weight)),
        4 => Just(Act::GiveBack),
        1 => Just(Act::Keep),
        3 => (0..KEYS.len()).prop_map(Act::End),
        1 => (0..KEYS.len()).prop_map(Act::Forget),
        1 => Just(Act::Expire),
    ];
    prop::collection::vec(act, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_more_is_given_than_there_is_and_nothing_is_lost(
        acts in acts(), capacity in 1_u64..8, each in 1_u64..8, lent in any::<bool>(),
    ) {
        let shares = Shares { capacity, each: each.min(capacity), patience: PATIENCE, lent };
        let (mut queue, mut now) = (FairQueue::new(shares), Instant::now());
        let mut taken: VecDeque<(ReleaseKey, u64)> = VecDeque::new();
        for act in acts {
            now += Duration::from_millis(700);
            match act {
                Act::Ask(of, weight) => {
                    if let Answer::Granted(weight) = queue.ask(&key(KEYS[of]), weight, now) {
                        taken.push_back((key(KEYS[of]), weight));
                    }
                }
                Act::GiveBack => {
                    if let Some((of, weight)) = taken.pop_front() {
                        queue.give_back(&of.namespace, weight, now);
                    }
                }
                Act::Keep => {
                    if let Some((of, weight)) = taken.pop_front() {
                        queue.keep(&of, weight, now);
                    }
                }
                Act::End(of) => queue.end(&key(KEYS[of]), now),
                Act::Forget(of) => queue.forget(&key(KEYS[of]), now),
                Act::Expire => queue.expire(now),
            }
            let reserved: u64 = queue.reserved.values().map(|reserved| reserved.weight).sum();
            let held: u64 = taken.iter().map(|(_, weight)| weight).sum();
            prop_assert_eq!(queue.in_use(), reserved + held, "what is counted is what is taken or reserved");
            prop_assert!(queue.in_use() <= capacity);
            for namespace in ["a", "b", "c", "d"] {
                let theirs = taken.iter().filter(|(of, _)| of.namespace == namespace).map(|(_, weight)| *weight);
                let kept = queue.reserved.iter().filter(|(of, _)| of.namespace == namespace);
                let all: Vec<u64> = theirs.chain(kept.map(|(_, reserved)| reserved.weight)).collect();
                prop_assert!(all.len() <= 1 || all.iter().sum::<u64>() <= each.min(capacity));
            }
            prop_assert!(queue.next().is_none(), "nothing is free for any that waits");
        }
        // Once all is given back, each that waits has its turn.
        for (of, weight) in taken {
            queue.give_back(&of.namespace, weight, now);
        }
        for _ in 0..2 * KEYS.len() {
            now += PATIENCE;
            queue.expire(now);
        }
        prop_assert_eq!((queue.in_use(), queue.waiting()), (0, 0));
        prop_assert!(queue.by_namespace.is_empty() && queue.lines.is_empty());
    }

    #[test]
    fn however_many_of_one_namespace_wait_another_one_is_next_after_those_of_before(many in 1_usize..50) {
        let (mut queue, now) = queue(2, 1);
        for index in 0..=many {
            queue.ask(&key(&format!("evil/{index}")), 1, now);
        }
        prop_assert_eq!(queue.ask(&key("other/0"), 1, now), Answer::Granted(1));
        prop_assert!(waits(queue.ask(&key("victim/0"), 1, now)));
        queue.give_back("evil", 1, now);
        // The namespace that stood in the queue before it is served once before it.
        queue.give_back("other", 1, now);
        prop_assert_eq!(woken(&mut queue), ["evil/1", "victim/0"]);
    }
}
