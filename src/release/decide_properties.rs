//! What holds of every decision, whatever is observed.

use proptest::prelude::*;

use super::tests::*;
use super::*;

fn any_state() -> impl Strategy<Value = HeadState> {
    let seconds = NOW - 5_000..NOW + 5_000;
    prop_oneof![
        Just(HeadState::Deployed),
        Just(HeadState::Superseded),
        Just(HeadState::Uninstalled),
        seconds.clone().prop_map(|seconds| HeadState::Failed { at: at(seconds) }),
        (seconds, prop_oneof![0..9_000_u64, Just(u64::MAX)], any::<bool>()).prop_map(
            |(started, timeout, uninstalling)| {
                HeadState::Pending { started_at: at(started), timeout: secs(timeout), uninstalling }
            }
        ),
    ]
}

fn any_head() -> impl Strategy<Value = Head> {
    let inputs = prop_oneof![Just(WANTED), Just(OTHER)];
    prop_oneof![
        any::<bool>().prop_map(|expected| Head::None { expected }),
        Just(unreadable()),
        (1..50_u32, any_state()).prop_map(|(revision, state)| Head::Foreign { revision, state }),
        (1..50_u32, any_state(), inputs, 1..9_u32, any::<bool>()).prop_map(
            |(revision, state, inputs, attempt, ever_deployed)| {
                Head::Ours(OurHead { revision, state, inputs: inputs.to_owned(), attempt, ever_deployed })
            }
        ),
    ]
}

prop_compose! {
    fn any_deletion()(orphan: bool, own_crd_terminating: bool, namespace_terminating: bool) -> Deletion {
        Deletion { orphan, own_crd_terminating, namespace_terminating }
    }
}

prop_compose! {
    fn any_observation()(
        deletion in proptest::option::weighted(0.2, any_deletion()),
        suspended in proptest::bool::weighted(0.1),
        taken in proptest::bool::weighted(0.1),
        head in any_head(),
        inputs in proptest::option::weighted(0.9, Just(WANTED.to_owned())),
        reset_requested: bool,
        paused: bool,
        blocked in proptest::bool::weighted(0.2),
        healed: bool,
        install in 0..5_u32,
        upgrade in 0..5_u32,
        watched: bool,
    ) -> Observation {
        let name_taken_by = taken.then(|| "other/web".to_owned());
        let drift = if watched { Drift::Watched } else { Drift::Ignored };
        let retries = Retries { install, upgrade };
        let dependency = blocked.then(waits);
        Observation { deletion, suspended, name_taken_by, head, inputs, reset_requested, paused, dependency, healed, retries, drift, now: at(NOW) }
    }
}

/// What the world looks like after `operation`, with nobody else around. `succeeds`: whether an attempt does.
fn afterwards(seen: &Observation, operation: &Operation, succeeds: bool) -> Observation {
    // What just failed is not healthy.
    let mut next = Observation { healed: false, ..seen.clone() };
    let end = |revision, inputs: &str, attempt, ever_deployed| {
        let state = if succeeds { HeadState::Deployed } else { HeadState::Failed { at: seen.now } };
        let ever_deployed = ever_deployed || succeeds;
        Head::Ours(OurHead { revision, state, inputs: inputs.to_owned(), attempt, ever_deployed })
    };
    let ever = matches!(&seen.head, Head::Ours(head) if head.ever_deployed);
    match (operation, &seen.head) {
        (Operation::Recover | Operation::Interrupt, head) => {
            let state = HeadState::Failed { at: seen.now };
            next.head = match head.clone() {
                Head::Foreign { revision, .. } => Head::Foreign { revision, state },
                Head::Ours(head) => Head::Ours(OurHead { state, ..head }),
                other => other,
            };
        }
        (Operation::Resume, Head::Ours(head)) => {
            next.head = end(head.revision, &head.inputs, head.attempt, head.ever_deployed);
            next.reset_requested = false;
        }
        (Operation::Install { revision, attempt } | Operation::Upgrade { revision, attempt }, _) => {
            next.head = end(*revision, WANTED, *attempt, ever);
            next.reset_requested = false;
        }
        (Operation::StartOver, _) => {
            next.head = end(50, WANTED, 1, false);
            next.reset_requested = false;
        }
        _ => {}
    }
    next
}

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
            prop_assert!(deployed && is_rest(&decision.operation));
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
            Some(_) => prop_assert!(ends(&operation) || matches!(operation, Operation::Hold(_)), "{operation:?}"),
        }
    }

    /// Nothing new begins while a dependency is not Ready, and nothing else changes by that.
    #[test]
    fn nothing_new_begins_before_its_dependencies_are_ready(seen in any_observation()) {
        let free = decide(&Observation { dependency: None, ..seen.clone() });
        let held = decide(&Observation { dependency: Some(waits()), ..seen });
        if matches!(free.operation, Operation::Install { .. } | Operation::Upgrade { .. } | Operation::StartOver) {
            prop_assert_eq!(held.operation, Operation::Hold(Hold::DependencyNotReady(waits())));
        } else {
            prop_assert_eq!(held, free);
        }
    }

    /// A new revision never takes the number of the record that is there.
    #[test]
    fn a_new_revision_has_a_higher_number_than_the_head(seen in any_observation()) {
        if let Operation::Install { revision, .. } | Operation::Upgrade { revision, .. } = decide(&seen).operation {
            let head = match &seen.head {
                Head::Foreign { revision, .. } => *revision,
                Head::Ours(head) => head.revision,
                Head::None { .. } | Head::Unreadable { .. } => 0,
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

    /// With the same wishes and no time passing, every release comes to rest after at most four decisions,
    /// which is what one pass makes, whether its attempts succeed or fail.
    #[test]
    fn unchanged_wishes_come_to_rest(seen in any_observation(), outcomes in proptest::collection::vec(any::<bool>(), 4)) {
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

    /// Attempts that keep failing are made ever more rarely: at most the allowed ones in the first minutes and
    /// then less than one in ten minutes, for ever.
    #[test]
    fn a_release_that_keeps_failing_is_tried_ever_more_rarely(retries in 0..5_u32, ever_deployed: bool) {
        let head = Head::Ours(OurHead { revision: 1, state: failed(0), inputs: WANTED.to_owned(), attempt: 1, ever_deployed });
        let mut seen = Observation { retries: Retries { install: retries, upgrade: retries }, ..with(head) };
        let mut waits = Vec::new();
        while waits.len() < 12 {
            let decision = decide(&seen);
            match decision.until {
                Some(until) => {
                    waits.push(until.duration_since(seen.now).as_secs());
                    seen.now = until;
                }
                None => seen = afterwards(&seen, &decision.operation, false),
            }
        }
        prop_assert!(waits.is_sorted(), "{waits:?}");
        let slow = waits.iter().filter(|wait| **wait >= 600).count();
        prop_assert_eq!(waits.len() - slow, usize::try_from(retries).unwrap_or_default());
    }
}
