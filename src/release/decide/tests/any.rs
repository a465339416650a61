//! Observations of any kind.

use proptest::prelude::*;

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
    pub(super) fn any_observation()(
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
