//! What holds of every decision, whatever is observed.

use proptest::prelude::*;

use super::afterwards::afterwards;
use super::any::any_observation;
use super::*;

fn is_rest(operation: &Operation) -> bool {
    matches!(operation, Operation::Hold(_) | Operation::Wait | Operation::Nothing)
}

fn ends(operation: &Operation) -> bool {
    matches!(operation, Operation::Orphan | Operation::LetGo | Operation::Uninstall)
}

proptest! {
    /// Total, and the lock acts only on what is deployed, ours, wanted here and not being worked on.
    #[test]
    fn the_lock_acts_on_nothing_but_a_deployed_head_of_ours(seen in any_observation()) {
        let decision = decide(&seen);
        if decision.correct {
            let deployed = matches!(&seen.head, Head::Ours(head) if head.state == HeadState::Deployed);
            prop_assert!(deployed && (is_rest(&decision.operation) || decision.operation == Operation::Test));
            prop_assert!(seen.deletion.is_none() && !seen.suspended && seen.name_taken_by.is_none());
            prop_assert_eq!(seen.drift, Drift::Watched);
        }
    }

    /// A release is taken away only when it is deleted, and then nothing new is rolled out.
    #[test]
    fn nothing_is_taken_away_that_is_not_deleted_and_nothing_rolled_out_that_is(seen in any_observation()) {
        let operation = decide(&seen).operation;
        match seen.deletion {
            None => prop_assert!(!ends(&operation), "{operation:?}"),
            Some(_) => {
                let waits =
                    matches!(operation, Operation::Hold(_) | Operation::AwaitHook | Operation::AcceptRecord);
                prop_assert!(ends(&operation) || waits, "{operation:?}");
            }
        }
    }

    /// Nothing new begins while a dependency is not Ready: what runs goes on, and what failed is undone. Nothing else changes by
    /// that.
    #[test]
    fn nothing_new_begins_before_its_dependencies_are_ready(seen in any_observation()) {
        let free = decide(&Observation { dependency: None, ..seen.clone() });
        let held = decide(&Observation { dependency: Some(waits()), ..seen });
        match (&free.operation, &held.operation) {
            (Operation::Install { .. } | Operation::Upgrade { .. } | Operation::StartOver, operation) => {
                let holds = *operation == Operation::Hold(Hold::DependencyNotReady(waits()));
                prop_assert!(holds || matches!(operation, Operation::Resume | Operation::Rollback { .. }), "{operation:?}");
            }
            (Operation::Hasten | Operation::AwaitHook, Operation::Resume) => {}
            // What would begin once it is approved is what has to wait, too.
            (Operation::Hold(Hold::AwaitingApproval { .. }), Operation::Rollback { .. }) => {}
            _ => prop_assert_eq!(held, free),
        }
    }

    /// Where nobody asks for the dependencies, nothing that is done or told depends on them.
    #[test]
    fn dependencies_are_asked_for_wherever_they_count(seen in any_observation()) {
        let free = Observation { dependency: None, ..seen.clone() };
        let held = Observation { dependency: Some(waits()), ..seen.clone() };
        if !asks_for_dependencies(&seen) {
            prop_assert_eq!(decide(&free), decide(&held));
            prop_assert_eq!(held_up(&free), held_up(&held));
        }
        if begins(&decide(&free).operation) {
            prop_assert!(asks_for_dependencies(&seen));
        }
    }

    /// An operation under way makes way only for what could begin.
    #[test]
    fn nothing_is_interrupted_for_what_cannot_begin(seen in any_observation()) {
        let operation = decide(&seen).operation;
        let upgrading = matches!(&seen.head, Head::Ours(OurHead { state: HeadState::Pending { uninstalling: false, .. }, .. }));
        if upgrading && seen.deletion.is_none() && seen.successor != Successor::Ready {
            prop_assert!(matches!(operation, Operation::Resume | Operation::Hold(_)), "{operation:?}");
        }
        if asks_for_successor(&seen) {
            prop_assert!(seen.deletion.is_none() && !seen.suspended);
        }
    }

    /// What was deployed and cannot be gone back to is neither gone back past nor taken away.
    #[test]
    fn nothing_goes_back_past_what_cannot_be_gone_back_to(seen in any_observation()) {
        let decision = decide(&seen);
        let Head::Ours(head) = &seen.head else { return Ok(()) };
        let Some(barrier) = head.unreachable else { return Ok(()) };
        match decision.operation {
            Operation::Remove => prop_assert!(false, "taken away"),
            // A pin asks for it, and an undoing that has begun goes on.
            Operation::Rollback { target, .. } if seen.rollback_to.is_none() && head.target.is_none() => {
                prop_assert!(target > barrier);
            }
            _ => {}
        }
    }

    /// A record in doubt is left as it is, unless it is named.
    #[test]
    fn a_record_in_doubt_is_not_acted_on(seen in any_observation()) {
        if let Head::Doubtful(_) = &seen.head {
            let decision = decide(&seen);
            prop_assert!(!decision.correct);
            match decision.operation {
                Operation::AcceptRecord => prop_assert!(seen.accepted.is_some()),
                operation => prop_assert!(is_rest(&operation) || matches!(operation, Operation::Orphan | Operation::LetGo), "{operation:?}"),
            }
        }
    }

    /// A new revision never takes the number of the record that is there.
    #[test]
    fn a_new_revision_has_a_higher_number_than_the_head(seen in any_observation()) {
        if let Operation::Install { revision, .. }
        | Operation::Upgrade { revision, .. }
        | Operation::Rollback { revision, .. } = decide(&seen).operation
        {
            let head = match &seen.head {
                Head::Foreign { revision, .. } => *revision,
                Head::Ours(head) => head.revision,
                Head::None { .. } | Head::Unreadable { .. } | Head::Doubtful(_) => 0,
            };
            prop_assert!(revision > head);
        }
    }

    /// A rest that ends by itself ends in the future, so that no pass is followed by another at once.
    #[test]
    fn a_wait_ends_later_than_now(seen in any_observation()) {
        if let Some(until) = decide(&seen).until {
            prop_assert!(until > seen.now);
        }
    }

    /// With the same wishes and no time passing, every release comes to rest after at most six decisions,
    /// whether its attempts succeed or fail: to end a hook, to end what is pending, to go back, to try again, to undo
    /// that, and to test.
    #[test]
    fn unchanged_wishes_come_to_rest(seen in any_observation(), outcomes in proptest::collection::vec(any::<bool>(), 6)) {
        let mut seen = seen;
        let mut told = Vec::new();
        for succeeds in outcomes {
            let operation = decide(&seen).operation;
            if is_rest(&operation) || ends(&operation) {
                return Ok(());
            }
            seen = afterwards(&seen, &operation, succeeds);
            told.push(operation);
        }
        let last = decide(&seen).operation;
        prop_assert!(is_rest(&last) || ends(&last), "still busy after {told:?}: {last:?}");
    }

    /// Attempts that keep failing end with the retries, for ever; or go on after the interval that is asked for, and never
    /// more often than retries come.
    #[test]
    fn a_release_that_keeps_failing_rests(
        retries in 0..5_u32,
        ever_deployed: bool,
        rollback: bool,
        interval in proptest::option::of(1..5_000_u64),
    ) {
        let last_deployed = ever_deployed.then_some(1);
        let head = Head::Ours(OurHead { last_deployed, ..head_of(failed(0), WANTED, 1) });
        let every = interval.map(secs);
        let mut seen = Observation {
            retries: Retries { install: retries, upgrade: retries },
            retry_interval: RetryInterval { install: every, upgrade: every },
            on_failure: OnFailure { uninstall: false, rollback },
            ..with(head)
        };
        let mut waits = Vec::new();
        let mut rests = false;
        while waits.len() < 12 && !rests {
            let decision = decide(&seen);
            match (decision.until, &decision.operation) {
                (Some(until), _) => {
                    waits.push(until.duration_since(seen.now).as_secs());
                    seen.now = until;
                }
                (None, Operation::Hold(hold)) => {
                    prop_assert!(matches!(hold, Hold::RetriesExceeded { .. }), "{hold:?}");
                    rests = true;
                }
                // What undoes it works.
                (None, operation) => {
                    let succeeds = matches!(operation, Operation::Rollback { .. });
                    seen = afterwards(&seen, operation, succeeds);
                }
            }
        }
        prop_assert!(waits.is_sorted(), "{waits:?}");
        prop_assert_eq!(rests, interval.is_none());
        let retries = usize::try_from(retries).unwrap_or_default();
        let interval = interval.unwrap_or_default();
        let asked = waits.iter().skip(retries).all(|wait| wait.unsigned_abs() >= interval.min(300));
        prop_assert!(if rests { waits.len() == retries } else { asked }, "{waits:?}");
    }

    /// What failed for good begins only when it is asked for, whatever came after it.
    #[test]
    fn nothing_that_failed_for_good_begins_again_unasked(seen in any_observation(), ago in 0..1_000_000_i64) {
        let mut seen = Observation { reset_requested: false, healed: false, retry_interval: RetryInterval::default(), ..seen };
        let attempt = 1 + seen.retries.install.max(seen.retries.upgrade);
        let (inputs, spec) = (WANTED.to_owned(), SPEC.to_owned());
        if let Head::Ours(head) = &mut seen.head {
            head.undone = None;
            head.inputs = OTHER.to_owned();
            head.failures = vec![Failure { inputs, attempt, at: at(NOW - ago), spec, for_good: false }];
            let operation = decide(&seen).operation;
            prop_assert!(!matches!(operation, Operation::Install { .. } | Operation::Upgrade { .. }), "{operation:?}");
        }
    }

    /// An install is taken away only while nothing of the release was ever deployed.
    #[test]
    fn nothing_is_taken_away_after_anything_was_deployed(seen in any_observation()) {
        if decide(&seen).operation == Operation::Remove {
            let first =
                matches!(&seen.head, Head::Ours(head) if head.last_deployed.is_none() && !head.earlier_deployed);
            prop_assert!(first);
        }
    }
}
