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
        Just(HeadState::Interrupted),
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
        prop_oneof![Just(Doubt::KeyLost), Just(Doubt::Rewound)]
            .prop_map(|doubt| Head::Doubtful(doubted(doubt))),
        (1..50_u32, any_state()).prop_map(|(revision, state)| Head::Foreign { revision, state }),
        any_of_ours(inputs).prop_map(Head::Ours),
    ]
}

fn any_failure() -> impl Strategy<Value = Failure> {
    let inputs = prop_oneof![Just(WANTED), Just(OTHER)];
    let spec = prop_oneof![Just(SPEC), Just("sha256:edited")];
    (inputs, 1..9_u32, NOW - 5_000..NOW + 5_000, spec, any::<bool>()).prop_map(
        |(inputs, attempt, seconds, spec, for_good)| Failure {
            inputs: inputs.to_owned(),
            attempt,
            at: at(seconds),
            spec: spec.to_owned(),
            for_good,
        },
    )
}

/// As many as a record knows, each of other inputs.
fn any_failures() -> impl Strategy<Value = Vec<Failure>> {
    proptest::collection::vec(any_failure(), 0..4).prop_map(|mut failures| {
        failures.sort_by(|a, b| a.inputs.cmp(&b.inputs));
        failures.dedup_by(|a, b| a.inputs == b.inputs);
        failures
    })
}

prop_compose! {
    fn any_of_ours(inputs: impl Strategy<Value = &'static str>)(
        revision in 4..50_u32,
        state in any_state(),
        inputs in inputs,
        attempt in 1..9_u32,
        last_deployed in proptest::option::of(1..4_u32),
        unreachable in proptest::option::weighted(0.2, 1..4_u32),
        target in proptest::option::weighted(0.4, 1..4_u32),
        undone in proptest::option::weighted(0.3, any_failure()),
        failures in any_failures(),
        spec in prop_oneof![Just(SPEC), Just("sha256:edited")],
        earlier_deployed: bool,
        undo_at_once: bool,
        hook_running: bool,
    ) -> OurHead {
        // What is deployed has nothing left to be undone, and what was undone was so by a rollback or by taking it away.
        let undone = undone.filter(|_| target.is_some() || state == HeadState::Uninstalled);
        let (inputs, spec) = (inputs.to_owned(), spec.to_owned());
        OurHead {
            revision, state, inputs, spec, attempt, last_deployed, earlier_deployed, unreachable, target, undone, failures, undo_at_once,
            hook_running,
        }
    }
}

prop_compose! {
    fn any_deletion()(orphan: bool, own_crd_terminating: bool, namespace_terminating: bool, account_gone: bool) -> Deletion {
        Deletion { orphan, own_crd_terminating, namespace_terminating, account_gone }
    }
}

prop_compose! {
    fn any_observation()(
        deletion in proptest::option::weighted(0.2, any_deletion()),
        suspended in proptest::bool::weighted(0.1),
        taken in proptest::bool::weighted(0.1),
        head in any_head(),
        inputs in proptest::option::weighted(0.9, Just(WANTED.to_owned())),
        accepted in proptest::option::weighted(0.3, Just("sha256:seen".to_owned())),
        unreadable: bool,
        reset_requested: bool,
        paused: bool,
        awaiting in proptest::bool::weighted(0.1),
        blocked in proptest::bool::weighted(0.2),
        successor in prop_oneof![Just(Successor::Unknown), Just(Successor::Ready), Just(Successor::Refused)],
        healed: bool,
        install in 0..5_u32,
        upgrade in 0..5_u32,
        intervals in (proptest::option::of(1..5_000_u64), proptest::option::of(1..5_000_u64)),
        watched: bool,
        uninstall: bool,
        rollback: bool,
        rollback_to in proptest::option::weighted(0.3, (1..5_u32, any::<bool>())),
        test: bool,
    ) -> Observation {
        let name_taken_by = taken.then(|| "other/web".to_owned());
        let drift = if watched { Drift::Watched } else { Drift::Ignored };
        let retries = Retries { install, upgrade };
        let retry_interval = RetryInterval { install: intervals.0.map(secs), upgrade: intervals.1.map(secs) };
        let on_failure = OnFailure { uninstall, rollback };
        let rollback_to = rollback_to.map(|(revision, there)| RollbackTo {
            revision,
            problem: (!there).then(|| "gone".to_owned()),
        });
        let dependency = blocked.then(waits);
        let unapproved = awaiting.then(|| "sha256:1".to_owned());
        Observation {
            deletion, suspended, name_taken_by, head, inputs, unreadable, accepted, reset_requested, paused, unapproved, dependency, successor, healed,
            retries, retry_interval, on_failure, rollback_to, test, drift, now: at(NOW), spec: SPEC.to_owned(),
        }
    }
}

/// What the world looks like after `operation`, with nobody else around. `succeeds`: whether an attempt does.
fn afterwards(seen: &Observation, operation: &Operation, succeeds: bool) -> Observation {
    // What just failed is not healthy.
    let mut next = Observation { healed: false, ..seen.clone() };
    let before = match &seen.head {
        Head::Ours(head) => Some(head),
        _ => None,
    };
    let last_deployed = before.and_then(|head| head.last_deployed);
    let failures = before.map(|head| head.failures.clone()).unwrap_or_default();
    let failed_head = |head: &OurHead| Failure {
        inputs: head.inputs.clone(),
        attempt: head.attempt,
        at: seen.now,
        spec: head.spec.clone(),
        for_good: head.undo_at_once,
    };
    let end = |head: OurHead| {
        let state = if succeeds { HeadState::Deployed } else { HeadState::Failed { at: seen.now } };
        let last_deployed = if succeeds { Some(head.revision) } else { head.last_deployed };
        let mut failures = head.failures.clone();
        if succeeds || head.target.is_none() {
            failures.retain(|known| known.inputs != head.inputs);
        }
        if !succeeds && head.target.is_none() {
            failures.push(failed_head(&head));
        }
        Head::Ours(OurHead { state, last_deployed, failures, hook_running: false, ..head })
    };
    let attempted = |revision, attempt, last_deployed| OurHead {
        revision,
        last_deployed,
        failures: failures.clone(),
        ..head_of(HeadState::Deployed, WANTED, attempt)
    };
    match (operation, &seen.head) {
        (Operation::Recover | Operation::Interrupt, head) => {
            let state = HeadState::Failed { at: seen.now };
            next.head = match head.clone() {
                Head::Foreign { revision, .. } => Head::Foreign { revision, state },
                Head::Ours(head) => Head::Ours(OurHead { state, ..head }),
                other => other,
            };
        }
        (Operation::AwaitHook, Head::Ours(head)) => {
            next.head = Head::Ours(OurHead { hook_running: false, ..head.clone() });
        }
        (Operation::Test, Head::Ours(head)) => {
            next.head = Head::Ours(OurHead { hook_running: false, ..head.clone() });
            next.test = false;
        }
        (Operation::Remove, Head::Ours(head)) => {
            let undone = failed_head(head);
            let state = HeadState::Uninstalled;
            next.head = Head::Ours(OurHead { state, undone: Some(undone), ..head.clone() });
        }
        (Operation::Rollback { revision, target, attempt }, head) => {
            let undone = match head {
                Head::Ours(head) if seen.rollback_to.is_none() => {
                    head.undone.clone().or_else(|| Some(failed_head(head)))
                }
                _ => None,
            };
            let head = head_of(HeadState::Deployed, OTHER, *attempt);
            let target = Some(*target);
            let failures = failures.clone();
            next.head = end(OurHead { revision: *revision, target, undone, last_deployed, failures, ..head });
            next.reset_requested = false;
        }
        (Operation::Resume | Operation::Hasten, Head::Ours(head)) => {
            next.head = end(head.clone());
            next.reset_requested = false;
        }
        (Operation::Install { revision, attempt } | Operation::Upgrade { revision, attempt }, _) => {
            next.head = end(attempted(*revision, *attempt, last_deployed));
            next.reset_requested = false;
        }
        (Operation::AcceptRecord, _) => {
            let head = head_of(HeadState::Deployed, WANTED, 1);
            next.head = Head::Ours(OurHead { last_deployed: Some(4), ..head });
        }
        (Operation::StartOver, _) => {
            next.head = end(attempted(50, 1, None));
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
