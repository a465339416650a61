//! What holds a release up: a suspension, a taken name, a hook that runs, a dependency, a successor that cannot begin.

use super::*;

#[test]
fn what_stops_a_release_before_its_record_is_looked_at() {
    let by = "other/web".to_owned();
    let suspended = |head| Observation { suspended: true, inputs: None, ..with(head) };
    let taken = |head| Observation { name_taken_by: Some(by.clone()), inputs: None, ..with(head) };
    let both = Observation { suspended: true, ..taken(lost()) };
    let is_taken = || Operation::Hold(Hold::ReleaseNameTaken { by: by.clone() });
    check(vec![
        row(
            "suspended: nothing, not even the lock",
            suspended(ours(HeadState::Deployed, WANTED)),
            Operation::Hold(Hold::Suspended),
        ),
        row(
            "suspended with a pending record",
            suspended(ours(pending(NOW, 60), WANTED)),
            Operation::Hold(Hold::Suspended),
        ),
        row("suspended comes before a taken name and a lost record", both, Operation::Hold(Hold::Suspended)),
        row("another release has the name", taken(Head::None { expected: false }), is_taken()),
        row("a taken name comes before a lost record", taken(lost()), is_taken()),
        row("a taken name is not locked from here", taken(ours(HeadState::Deployed, WANTED)), is_taken()),
    ]);
}

#[test]
fn a_hook_that_may_be_running_and_tests() {
    let running = |head: OurHead| OurHead { hook_running: true, last_deployed: Some(3), ..head };
    let upgrading = |inputs| Head::Ours(running(head_of(pending(NOW, 60), inputs, 1)));
    let uninstalling = HeadState::Pending { started_at: at(NOW), timeout: secs(60), uninstalling: true };
    let test = |seen: Observation| Observation { test: true, ..seen };
    let deployed = |inputs| Head::Ours(running(head_of(HeadState::Deployed, inputs, 1)));
    check(vec![
        row("its operation goes on", with(upgrading(WANTED)), Operation::Resume),
        row("other inputs wait for it", with(upgrading(OTHER)), Operation::AwaitHook),
        row("a deletion waits for it", deleted(upgrading(WANTED), Deletion::default()), Operation::AwaitHook),
        row(
            "but not for its own hook",
            deleted(Head::Ours(running(head_of(uninstalling, WANTED, 1))), Deletion::default()),
            Operation::Uninstall,
        ),
        row(
            "Orphan waits for nothing",
            deleted(upgrading(WANTED), Deletion { orphan: true, ..Deletion::default() }),
            Operation::Orphan,
        ),
        row("tests are asked for", test(with(ours(HeadState::Deployed, WANTED))), Operation::Test).locked(),
        row(
            "other inputs come first",
            test(with(ours(HeadState::Deployed, OTHER))),
            Operation::Upgrade { revision: 5, attempt: 1 },
        ),
        row("other inputs wait for a running test", test(with(deployed(OTHER))), Operation::AwaitHook),
        row("a failed head is not tested", test(with(ours(failed(1), WANTED))), Operation::Wait)
            .until(NOW + 4),
    ]);
}

#[test]
fn a_release_whose_dependencies_are_not_ready() {
    let hold = || Operation::Hold(Hold::DependencyNotReady(waits()));
    let held = |seen: Observation| Observation { dependency: Some(waits()), ..seen };
    let uninstalling = HeadState::Pending { started_at: at(NOW), timeout: secs(60), uninstalling: true };
    let reset = |head| Observation { reset_requested: true, ..with(head) };
    let paused = |seen: Observation| Observation { paused: true, ..seen };
    let plain = Deletion::default();
    let blind = Observation { inputs: None, ..created() };
    let deployed = || with(ours(HeadState::Deployed, WANTED));
    check(vec![
        row("no record: not installed", held(created()), hold()),
        row("no record, inputs not known", held(blind), Operation::Hold(Hold::InputsUnknown)),
        row("deployed as wanted: nothing waits", held(deployed()), Operation::Nothing).locked(),
        row(
            "deployed, other inputs: not upgraded, and locked",
            held(with(ours(HeadState::Deployed, OTHER))),
            hold(),
        )
        .locked(),
        row(
            "deployed, other inputs, paused: it would not be upgraded anyway",
            held(paused(with(ours(HeadState::Deployed, OTHER)))),
            Operation::Hold(Hold::Paused),
        )
        .locked(),
        row("pending: what has begun goes on", held(with(ours(pending(NOW, 60), WANTED))), Operation::Resume),
        row(
            "pending for other inputs: it goes on until those may begin",
            held(with(ours(pending(NOW, 60), OTHER))),
            Operation::Resume,
        ),
        row(
            "an uninstall that nobody wants any more",
            held(with(ours(uninstalling, WANTED))),
            Operation::Interrupt,
        ),
        row("cooling down", held(with(ours(failed(2), WANTED))), Operation::Wait).until(NOW + 3),
        row("cooled down: no retry", held(with(ours(failed(5), WANTED))), hold()),
        row("uninstalled", held(with(ours(HeadState::Uninstalled, WANTED))), hold()),
        row("another tool's", held(with(foreign(HeadState::Deployed))), hold()),
        row("lost and reset: it does not start over", held(reset(lost())), hold()),
        row(
            "deleted: uninstalled all the same",
            held(deleted(ours(HeadState::Deployed, WANTED), plain)),
            Operation::Uninstall,
        ),
    ]);
}

#[test]
fn what_is_wanted_instead_takes_over_only_when_it_could_begin() {
    let under_way = || with(ours(pending(NOW, 60), OTHER));
    let not = |successor, seen: Observation| Observation { successor, ..seen };
    let paused = |seen: Observation| Observation { paused: true, ..seen };
    let unapproved = |seen: Observation| Observation { unapproved: Some("sha256:1".to_owned()), ..seen };
    let waiting = |seen: Observation| Observation { dependency: Some(waits()), ..seen };
    let no_way_back = |seen: Observation| Observation { on_failure: OnFailure::default(), ..seen };
    let rolls_back =
        |seen: Observation| Observation { on_failure: OnFailure { uninstall: true, rollback: true }, ..seen };
    let failed = || rolls_back(with(ours(failed(0), OTHER)));
    let failed_for = |inputs| rolls_back(with(ours(super::failed(0), inputs)));
    let retries = |seen: Observation| Observation { retries: Retries { install: 3, upgrade: 3 }, ..seen };
    let silent = |seen: Observation| Observation { inputs: None, ..seen };
    let unreadable = |seen: Observation| Observation { unreadable: true, ..silent(seen) };
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    let back = |attempt| Operation::Rollback { revision: 5, target: 3, attempt };
    let going_back = |state| {
        let head = head_of(state, OTHER, 1);
        rolls_back(with(Head::Ours(OurHead { last_deployed: Some(3), target: Some(3), ..head })))
    };
    check(vec![
        row("not tried yet: what runs goes on", not(Successor::Unknown, under_way()), Operation::Resume),
        row("refused: what runs goes on", not(Successor::Refused, under_way()), Operation::Resume),
        row("ready, but paused", paused(under_way()), Operation::Resume),
        row("ready, but not approved", unapproved(under_way()), Operation::Resume),
        row("ready, but waiting for a dependency", waiting(under_way()), Operation::Resume),
        row("going back, refused", not(Successor::Refused, going_back(pending(NOW, 60))), Operation::Resume),
        row("failed, ready", failed(), upgrade(1)),
        row("failed, refused: nothing else can help", not(Successor::Refused, failed()), back(1)),
        row("failed, paused", paused(failed()), back(1)),
        row("failed, waiting for a dependency", waiting(failed()), back(1)),
        row("failed, refused, no way back", not(Successor::Refused, no_way_back(failed())), upgrade(1)),
        row(
            "a first install is not taken away for it",
            not(Successor::Refused, rolls_back(with(never_deployed(super::failed(0), OTHER, 1)))),
            Operation::Install { revision: 5, attempt: 1 },
        ),
        row("interrupted: no failure", with(ours(HeadState::Interrupted, WANTED)), upgrade(1)),
        row("interrupted, other inputs", with(ours(HeadState::Interrupted, OTHER)), upgrade(1)),
        row("failed, inputs unreadable", unreadable(failed()), back(1)),
        row("failed, source does not answer", silent(failed()), Operation::Hold(Hold::InputsUnknown)),
        row(
            "failed, source does not answer for long",
            Observation { now: at(NOW + 600), ..silent(failed()) },
            back(1),
        ),
        row("failed, same inputs, paused: no retry can begin", paused(retries(failed_for(WANTED))), back(1)),
        row(
            "failed, same inputs, a dependency is away for a moment",
            waiting(retries(failed_for(WANTED))),
            Operation::Wait,
        )
        .until(NOW + 5),
        row(
            "failed, same inputs, a dependency is away for long",
            Observation { now: at(NOW + 600), ..waiting(retries(failed_for(WANTED))) },
            back(1),
        ),
    ]);
}
