//! What failed, and whether it is tried again.

use super::*;

#[test]
fn our_own_failed_record() {
    let wait = |attempt, ago| {
        let head = head_of(failed(ago), WANTED, attempt);
        with(Head::Ours(OurHead { last_deployed: Some(3), ..head }))
    };
    let exceeded = |attempts| Operation::Hold(Hold::RetriesExceeded { attempts });
    let no_retries = |seen: Observation| Observation { retries: Retries { install: 0, upgrade: 0 }, ..seen };
    let reset = Observation { reset_requested: true, ..wait(4, 1) };
    let healed = |seen: Observation| Observation { healed: true, ..seen };
    let paused = Observation { paused: true, ..wait(1, 100) };
    let paused_first = Observation { paused: true, ..with(never_deployed(failed(100), WANTED, 1)) };
    let paused_other = Observation { paused: true, ..with(ours(failed(100), OTHER)) };
    let blind = Observation { inputs: None, ..wait(1, 1) };
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    let install = |attempt| Operation::Install { revision: 5, attempt };
    check(vec![
        row("cooling down: 5 s", wait(1, 2), Operation::Wait).until(NOW + 3),
        row("cooling down: 20 s after the third", wait(3, 2), Operation::Wait).until(NOW + 18),
        row("cooled down: next attempt in a new revision", wait(1, 5), upgrade(2)),
        row("the last allowed retry", wait(3, 20), upgrade(4)),
        row("retries spent: it rests", wait(4, 20), exceeded(4)),
        row("retries spent, and for a day", wait(4, 86_400), exceeded(4)),
        row("no retries at all", no_retries(wait(1, 0)), exceeded(1)),
        row(
            "an install has its own number of retries",
            Observation {
                retries: Retries { install: 1, upgrade: 9 },
                ..with(never_deployed(failed(11), WANTED, 2))
            },
            exceeded(2),
        ),
        row(
            "a first install is tried again as an install",
            with(never_deployed(failed(5), WANTED, 1)),
            install(2),
        ),
        row("cooling down, but healthy by itself", healed(wait(1, 2)), upgrade(2)),
        row("retries spent, but healthy by itself", healed(wait(4, 20)), upgrade(5)),
        row("reset-at forgets the failures", reset, upgrade(1)),
        row("other inputs do not wait", with(ours(failed(0), OTHER)), upgrade(1)),
        row(
            "other inputs after a failed first install",
            with(never_deployed(failed(0), OTHER, 1)),
            install(1),
        ),
        row("paused", paused, Operation::Hold(Hold::Paused)),
        row("paused with other inputs", paused_other, Operation::Hold(Hold::Paused)),
        row("paused holds no install back", paused_first, install(2)),
        row("inputs not known", blind, Operation::Hold(Hold::InputsUnknown)),
    ]);
}

/// Revision 4, made from something else after the wanted inputs failed.
fn after(state: HeadState, failure: Failure) -> OurHead {
    OurHead {
        last_deployed: Some(3),
        failures: vec![Failure { inputs: "sha256:third".to_owned(), ..known(9, 9) }, failure],
        ..head_of(state, OTHER, 1)
    }
}

/// A release whose failures are undone.
fn undoes(head: OurHead) -> Observation {
    Observation { on_failure: OnFailure { uninstall: true, rollback: true }, ..with(Head::Ours(head)) }
}

fn own(attempt: u32) -> OurHead {
    OurHead { last_deployed: Some(3), ..head_of(failed(100), WANTED, attempt) }
}

fn gone_back() -> OurHead {
    OurHead { undone: undone(4, 100), target: Some(3), ..after(HeadState::Deployed, known(4, 100)) }
}

#[test]
fn inputs_that_are_known_to_fail() {
    let exceeded = |attempts| Operation::Hold(Hold::RetriesExceeded { attempts });
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    let deployed = |failure| undoes(after(HeadState::Deployed, failure));
    let other_spec = |seen: Observation| Observation { spec: "sha256:edited".to_owned(), ..seen };
    let failed_head = || after(failed(1), known(4, 600));
    let first = || OurHead { last_deployed: None, ..failed_head() };
    check(vec![
        row("the source goes back to them", deployed(known(4, 600)), exceeded(4)).locked(),
        row("with retries left, it waits", deployed(known(2, 3)), Operation::Wait).until(NOW + 7).locked(),
        row("with retries left, they count on", deployed(known(2, 10)), upgrade(3)),
        row(
            "a hook had asked that nothing more is attempted",
            deployed(Failure { for_good: true, ..known(1, 600) }),
            exceeded(1),
        )
        .locked(),
        row(
            "they are deployed: nothing is known against them",
            with(ours(HeadState::Deployed, WANTED)),
            Operation::Nothing,
        )
        .locked(),
        row("another spec tries them anew", other_spec(deployed(known(4, 600))), upgrade(1)),
        row("also right after the failure", other_spec(undoes(own(1))), upgrade(1)),
        row("also after they were undone", other_spec(undoes(gone_back())), upgrade(1)),
        row("a reset does", Observation { reset_requested: true, ..deployed(known(4, 600)) }, upgrade(1)),
        row(
            "what failed meanwhile is undone",
            undoes(failed_head()),
            Operation::Rollback { revision: 5, target: 3, attempt: 1 },
        ),
        row(
            "what failed meanwhile stays with Retain",
            Observation { on_failure: OnFailure::default(), ..undoes(failed_head()) },
            exceeded(4),
        ),
        row("a first install that failed meanwhile is taken away", undoes(first()), Operation::Remove),
        row(
            "what failed meanwhile is a way back that the spec does not ask for any more",
            undoes(OurHead { target: Some(2), ..failed_head() }),
            Operation::Rollback { revision: 5, target: 3, attempt: 1 },
        ),
        row(
            "that something else is healthy says nothing of them",
            Observation { healed: true, on_failure: OnFailure::default(), ..undoes(failed_head()) },
            exceeded(4),
        ),
    ]);
}

#[test]
fn more_tries_that_are_asked_for_come_after_their_interval() {
    let exceeded = |attempts| Operation::Hold(Hold::RetriesExceeded { attempts });
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    let deployed = |failure| undoes(after(HeadState::Deployed, failure));
    let every = |seconds, seen: Observation| {
        let interval = Some(secs(seconds));
        Observation { retry_interval: RetryInterval { install: None, upgrade: interval }, ..seen }
    };
    check(vec![
        row("more tries are asked for: not yet", every(600, deployed(known(4, 100))), exceeded(4))
            .until(NOW + 500)
            .locked(),
        row("more tries are asked for: now", every(600, deployed(known(4, 600))), upgrade(5)),
        row("after it was undone: not yet", every(600, undoes(gone_back())), exceeded(4))
            .until(NOW + 500)
            .locked(),
        row("after it was undone: now", every(100, undoes(gone_back())), upgrade(5)),
        row(
            "a test of what is deployed is awaited",
            every(600, undoes(OurHead { hook_running: true, ..after(HeadState::Deployed, known(4, 600)) })),
            Operation::AwaitHook,
        ),
        row("never more often than retries", every(1, deployed(known(6, 100))), exceeded(6))
            .until(NOW + 60)
            .locked(),
        row(
            "an install has an interval of its own",
            every(
                1,
                Observation {
                    on_failure: OnFailure::default(),
                    ..undoes(OurHead { last_deployed: None, ..own(4) })
                },
            ),
            exceeded(4),
        ),
        row(
            "paused holds such a try up",
            Observation { paused: true, ..every(600, deployed(known(4, 600))) },
            Operation::Hold(Hold::Paused),
        )
        .locked(),
    ]);
}
