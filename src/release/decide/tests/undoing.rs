//! The ways back: after a failure, and because a release is pinned.

use super::*;

#[test]
fn a_failure_that_is_undone() {
    let all = OnFailure { uninstall: true, rollback: true };
    let head = |attempt| OurHead { last_deployed: Some(3), ..head_of(failed(1), WANTED, attempt) };
    let first = |attempt| head_of(failed(1), WANTED, attempt);
    let seen = |head| Observation { on_failure: all, ..with(Head::Ours(head)) };
    let back = |attempt| Operation::Rollback { revision: 5, target: 3, attempt };
    let exceeded = |attempts| Operation::Hold(Hold::RetriesExceeded { attempts });
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    let at_once = |head| OurHead { undo_at_once: true, ..head };
    let retains = |head| Observation { on_failure: OnFailure::default(), ..seen(head) };
    let healed = Observation { healed: true, ..seen(head(4)) };
    let paused = Observation { paused: true, ..seen(head(4)) };
    check(vec![
        row("retries are left", seen(head(3)), Operation::Wait).until(NOW + 19),
        row("retries are spent: back", seen(head(4)), back(1)),
        row("paused holds no undoing up", paused, back(1)),
        row("Retain leaves it", retains(head(4)), exceeded(4)),
        row("a hook asks for it: at once", seen(at_once(head(1))), back(1)),
        row("a hook asks for it, whatever the policy", retains(at_once(head(1))), back(1)),
        row("healthy by itself: deployed", healed, upgrade(5)),
        row("a first install is taken away", seen(first(4)), Operation::Remove),
        row("a hook of a first install asks for it", retains(at_once(first(1))), Operation::Remove),
        row("a first install stays with Retain", retains(first(4)), exceeded(4)),
        row(
            "something of it may have been deployed before: nothing is taken away",
            seen(OurHead { earlier_deployed: true, ..first(4) }),
            exceeded(4),
        ),
        row(
            "neither because a hook asks for it",
            seen(OurHead { earlier_deployed: true, ..at_once(first(1)) }),
            exceeded(1),
        ),
    ]);
}

#[test]
fn a_release_that_has_gone_back() {
    let all = OnFailure { uninstall: true, rollback: true };
    let seen = |head| Observation { on_failure: all, ..with(Head::Ours(head)) };
    let back = |attempt| Operation::Rollback { revision: 5, target: 3, attempt };
    let exceeded = |attempts| Operation::Hold(Hold::RetriesExceeded { attempts });
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    // Revision 4 went back to revision 3.
    let gone_back = |state, attempt| OurHead {
        inputs: OTHER.to_owned(),
        attempt,
        target: Some(3),
        undone: undone(4, 10),
        last_deployed: Some(if state == HeadState::Deployed { 4 } else { 3 }),
        ..head_of(state, OTHER, attempt)
    };
    let removed = OurHead { undone: undone(4, 10), ..head_of(HeadState::Uninstalled, WANTED, 4) };
    let wants_other = |head| Observation { inputs: Some(OTHER.to_owned()), ..seen(head) };
    let reset = |head| Observation { reset_requested: true, ..seen(head) };
    check(vec![
        row(
            "gone back: the lock is on, and it is not tried again",
            seen(gone_back(HeadState::Deployed, 1)),
            exceeded(4),
        )
        .locked(),
        row(
            "gone back with retries left: as without",
            seen(OurHead { undone: undone(1, 2), ..gone_back(HeadState::Deployed, 1) }),
            exceeded(1),
        )
        .locked(),
        row(
            "gone back, a day ago",
            seen(OurHead { undone: undone(4, 86_400), ..gone_back(HeadState::Deployed, 1) }),
            exceeded(4),
        )
        .locked(),
        row(
            "going back failed, and what it applied is healthy now",
            Observation { healed: true, ..seen(gone_back(failed(1), 1)) },
            back(2),
        ),
        row(
            "gone back, and that is what is wanted now",
            wants_other(gone_back(HeadState::Deployed, 1)),
            Operation::Nothing,
        )
        .locked(),
        row("gone back, and reset", reset(gone_back(HeadState::Deployed, 1)), upgrade(1)),
        row("going back failed", seen(gone_back(failed(1), 1)), exceeded(4)).until(NOW + 599),
        row("going back failed a while ago", seen(gone_back(failed(600), 1)), back(2)),
        row("going back failed, other inputs", wants_other(gone_back(failed(1), 1)), upgrade(1)),
        row("going back goes on", seen(gone_back(pending(NOW, 60), 1)), Operation::Resume),
        row(
            "going back is not wanted any more: it does not wait for health",
            wants_other(gone_back(pending(NOW, 60), 1)),
            Operation::Hasten,
        ),
        row("taken away", seen(removed.clone()), exceeded(4)),
        row("taken away, other inputs", wants_other(removed), Operation::Install { revision: 5, attempt: 1 }),
    ]);
}

#[test]
fn a_failure_after_a_deployed_revision_that_cannot_be_gone_back_to() {
    let fails = |last_deployed, unreachable, undo_at_once| Observation {
        retries: Retries { install: 0, upgrade: 0 },
        on_failure: OnFailure { uninstall: true, rollback: true },
        ..with(Head::Ours(OurHead {
            last_deployed,
            unreachable,
            undo_at_once,
            ..head_of(failed(0), WANTED, 1)
        }))
    };
    let retained = || Operation::Hold(Hold::RetriesExceeded { attempts: 1 });
    let next = |seen| Observation { inputs: Some(OTHER.to_owned()), ..seen };
    let back = Operation::Rollback { revision: 5, target: 3, attempt: 1 };
    check(vec![
        row("nothing was ever deployed", fails(None, None, false), Operation::Remove),
        row("another tool's revision was", fails(None, Some(2), false), retained()),
        row("a hook asks to undo at once", fails(None, Some(2), true), retained()),
        row("never back past it", fails(Some(1), Some(2), false), retained()),
        row("not at once either", fails(Some(1), Some(2), true), retained()),
        row("back to what came after it", fails(Some(3), Some(2), false), back),
        row(
            "the next attempt is no install",
            next(fails(None, Some(2), false)),
            Operation::Upgrade { revision: 5, attempt: 1 },
        ),
    ]);
}

#[test]
fn a_release_that_is_pinned_to_a_revision() {
    let to =
        |revision, problem: Option<&str>| Some(RollbackTo { revision, problem: problem.map(str::to_owned) });
    let pinned = |head, revision| Observation { rollback_to: to(revision, None), ..with(Head::Ours(head)) };
    let deployed = |inputs| OurHead { last_deployed: Some(4), ..head_of(HeadState::Deployed, inputs, 1) };
    let back = |attempt| Operation::Rollback { revision: 5, target: 2, attempt };
    let went = |state, attempt| OurHead {
        target: Some(2),
        last_deployed: Some(3),
        ..head_of(state, OTHER, attempt)
    };
    let gone = Hold::RollbackTargetInvalid { message: "gone".to_owned() };
    let nowhere = |head| Observation { rollback_to: to(2, Some("gone")), ..with(head) };
    let blind = Observation { inputs: None, ..pinned(deployed(WANTED), 2) };
    let unpinned = |head| with(Head::Ours(head));
    check(vec![
        row("not there yet", pinned(deployed(WANTED), 2), back(1)),
        row("inputs are not needed for it", blind, back(1)),
        row("there by a rollback", pinned(went(HeadState::Deployed, 1), 2), Operation::Nothing).locked(),
        row("it is the head itself", pinned(deployed(OTHER), 4), Operation::Nothing).locked(),
        row("on the way", pinned(went(pending(NOW, 60), 1), 2), Operation::Resume),
        row("on the way elsewhere", pinned(went(pending(NOW, 60), 1), 3), Operation::Hasten),
        row("in the middle of an upgrade", pinned(head_of(pending(NOW, 60), WANTED, 1), 2), back(1)),
        row("after a failed upgrade, without its pause", pinned(head_of(failed(0), WANTED, 1), 2), back(1)),
        row("it failed", pinned(went(failed(1), 1), 2), Operation::Wait).until(NOW + 4),
        row("it failed a while ago", pinned(went(failed(5), 1), 2), back(2)),
        row(
            "it failed too often",
            pinned(went(failed(1), 4), 2),
            Operation::Hold(Hold::RetriesExceeded { attempts: 4 }),
        )
        .until(NOW + 599),
        row("nowhere to go", nowhere(Head::Ours(deployed(WANTED))), Operation::Hold(gone.clone())).locked(),
        row(
            "nowhere to go and no record",
            nowhere(Head::None { expected: false }),
            Operation::Hold(gone.clone()),
        ),
        row(
            "nowhere to go from another tool's",
            nowhere(foreign(HeadState::Deployed)),
            Operation::Hold(gone),
        ),
        row(
            "from another tool's",
            Observation { rollback_to: to(2, None), ..with(foreign(HeadState::Deployed)) },
            Operation::Rollback { revision: 8, target: 2, attempt: 1 },
        ),
        row(
            "the pin is taken away",
            unpinned(went(HeadState::Deployed, 1)),
            Operation::Upgrade { revision: 5, attempt: 1 },
        ),
        row("the pin is taken away on the way", unpinned(went(pending(NOW, 60), 1)), Operation::Hasten),
        row(
            "the pin is taken away after it failed",
            unpinned(went(failed(0), 1)),
            Operation::Upgrade { revision: 5, attempt: 1 },
        ),
    ]);
}
