//! Every row of the table of operations, in its order.

use super::*;

pub(super) const NOW: i64 = 1_000_000;
pub(super) const WANTED: &str = "sha256:wanted";
pub(super) const OTHER: &str = "sha256:other";
pub(super) const SPEC: &str = "sha256:spec";

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A release that was just created: nothing is there and nothing is in the way.
pub(super) fn created() -> Observation {
    Observation {
        deletion: None,
        suspended: false,
        name_taken_by: None,
        unapproved: None,
        head: Head::None { expected: false },
        inputs: Some(WANTED.to_owned()),
        unreadable: false,
        accepted: None,
        spec: SPEC.to_owned(),
        reset_requested: false,
        paused: false,
        dependency: None,
        successor: Successor::Ready,
        healed: false,
        retries: Retries { install: 3, upgrade: 3 },
        retry_interval: RetryInterval::default(),
        on_failure: OnFailure::default(),
        rollback_to: None,
        test: false,
        drift: Drift::Watched,
        now: at(NOW),
    }
}

pub(super) fn with(head: Head) -> Observation {
    Observation { head, ..created() }
}

/// Revision 4 of this release, made from `inputs`, after an earlier one was deployed.
pub(super) fn ours(state: HeadState, inputs: &str) -> Head {
    Head::Ours(OurHead { last_deployed: Some(3), ..head_of(state, inputs, 1) })
}

pub(super) fn head_of(state: HeadState, inputs: &str, attempt: u32) -> OurHead {
    OurHead {
        revision: 4,
        state,
        inputs: inputs.to_owned(),
        spec: SPEC.to_owned(),
        attempt,
        last_deployed: None,
        unreachable: None,
        earlier_deployed: false,
        target: None,
        undone: None,
        failures: Vec::new(),
        undo_at_once: false,
        hook_running: false,
    }
}

pub(super) fn never_deployed(state: HeadState, inputs: &str, attempt: u32) -> Head {
    Head::Ours(head_of(state, inputs, attempt))
}

pub(super) fn pending(started_at: i64, timeout: u64) -> HeadState {
    HeadState::Pending { started_at: at(started_at), timeout: secs(timeout), uninstalling: false }
}

pub(super) fn failed(seconds_ago: i64) -> HeadState {
    HeadState::Failed { at: at(NOW - seconds_ago) }
}

fn deleted(head: Head, deletion: Deletion) -> Observation {
    Observation { deletion: Some(deletion), inputs: None, ..with(head) }
}

fn lost() -> Head {
    Head::None { expected: true }
}

pub(super) fn unreadable() -> Head {
    Head::Unreadable { message: "cut off".to_owned() }
}

pub(super) fn doubted(doubt: Doubt) -> Doubtful {
    Doubtful { doubt, digest: Some("sha256:seen".to_owned()), message: "its key is unknown".to_owned() }
}

fn foreign(state: HeadState) -> Head {
    Head::Foreign { revision: 7, state }
}

pub(super) fn waits() -> Blocked {
    let by = crate::release::ReleaseKey { namespace: "apps".to_owned(), name: "db".to_owned() };
    Blocked { by, why: crate::release::depends::Unready::Missing, others: 0 }
}

struct Row {
    name: &'static str,
    seen: Observation,
    operation: Operation,
    correct: bool,
    until: Option<i64>,
}

fn row(name: &'static str, seen: Observation, operation: Operation) -> Row {
    Row { name, seen, operation, correct: false, until: None }
}

impl Row {
    fn locked(self) -> Self {
        Self { correct: true, ..self }
    }

    fn until(self, seconds: i64) -> Self {
        Self { until: Some(seconds), ..self }
    }
}

fn check(rows: Vec<Row>) {
    for Row { name, seen, operation, correct, until } in rows {
        let expected = Decision { operation, correct, until: until.map(at) };
        assert_eq!(decide(&seen), expected, "{name}");
    }
}

#[test]
fn a_release_that_is_deleted() {
    let plain = Deletion::default();
    let orphan = Deletion { orphan: true, ..plain };
    let own_crd = Deletion { own_crd_terminating: true, ..plain };
    let namespace = Deletion { namespace_terminating: true, ..plain };
    let account = Deletion { account_gone: true, ..plain };
    let deployed = || ours(HeadState::Deployed, WANTED);
    let hold_unreadable = Hold::RecordUnreadable { message: "cut off".to_owned() };
    let suspended = Observation { suspended: true, ..deleted(deployed(), plain) };
    let reset = |head| Observation { reset_requested: true, ..deleted(head, plain) };
    check(vec![
        row("policy Orphan touches nothing", deleted(deployed(), orphan), Operation::Orphan),
        row(
            "our own CRD going away takes no workload along",
            deleted(deployed(), own_crd),
            Operation::Orphan,
        ),
        row(
            "Orphan wins over a terminating namespace",
            deleted(deployed(), Deletion { orphan: true, ..namespace }),
            Operation::Orphan,
        ),
        row("Orphan needs no record", deleted(lost(), orphan), Operation::Orphan),
        row(
            "a terminating namespace gets no record writes",
            deleted(deployed(), namespace),
            Operation::LetGo,
        ),
        row("without its account a release is let go", deleted(deployed(), account), Operation::LetGo),
        row(
            "without its account nothing waits for a lost record",
            deleted(lost(), account),
            Operation::LetGo,
        ),
        row(
            "Orphan needs no account",
            deleted(deployed(), Deletion { orphan: true, ..account }),
            Operation::Orphan,
        ),
        row(
            "a terminating namespace does not wait for a lost record",
            deleted(lost(), namespace),
            Operation::LetGo,
        ),
        row("a lost record deletes nothing", deleted(lost(), plain), Operation::Hold(Hold::RecordLost)),
        row(
            "an unreadable record deletes nothing",
            deleted(unreadable(), plain),
            Operation::Hold(hold_unreadable),
        ),
        row("reset-at lets a release without its record go", reset(lost()), Operation::Orphan),
        row("reset-at lets a release with an unreadable record go", reset(unreadable()), Operation::Orphan),
        row("nothing was ever installed", deleted(Head::None { expected: false }, plain), Operation::Orphan),
        row(
            "another tool's objects are not ours to delete",
            deleted(foreign(HeadState::Deployed), plain),
            Operation::Orphan,
        ),
        row(
            "another tool's pending revision is not ours either",
            deleted(foreign(pending(NOW, 60)), plain),
            Operation::Orphan,
        ),
        row("a deployed release is uninstalled", deleted(deployed(), plain), Operation::Uninstall),
        row("a suspended one too", suspended, Operation::Uninstall),
        row("a failed one too", deleted(ours(failed(1), WANTED), plain), Operation::Uninstall),
        row("a pending one too", deleted(ours(pending(NOW, 60), OTHER), plain), Operation::Uninstall),
    ]);
}

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
fn a_record_that_is_lost_or_unreadable() {
    let reset = |head| Observation { reset_requested: true, ..with(head) };
    let message = || Hold::RecordUnreadable { message: "cut off".to_owned() };
    check(vec![
        row("lost", with(lost()), Operation::Hold(Hold::RecordLost)),
        row("unreadable", with(unreadable()), Operation::Hold(message())),
        row("lost and reset", reset(lost()), Operation::StartOver),
        row("unreadable and reset", reset(unreadable()), Operation::StartOver),
    ]);
}

#[test]
fn a_record_that_somebody_has_to_vouch_for() {
    let plain = Deletion::default();
    let orphan = Deletion { orphan: true, ..plain };
    let accepts = |digest: &str, seen: Observation| Observation { accepted: Some(digest.to_owned()), ..seen };
    let reset = |seen: Observation| Observation { reset_requested: true, ..seen };
    for doubt in [Doubt::KeyLost, Doubt::Rewound] {
        let head = || Head::Doubtful(doubted(doubt));
        let held = || Operation::Hold(Hold::RecordDoubtful(doubted(doubt)));
        let nameless = Doubtful { digest: None, ..doubted(doubt) };
        let nameless_held = Operation::Hold(Hold::RecordDoubtful(nameless.clone()));
        check(vec![
            row("nothing is touched", with(head()), held()),
            row("reset-at may be an old one from a backup", reset(with(head())), held()),
            row("another record is vouched for", accepts("sha256:other", with(head())), held()),
            row("this very record is", accepts("sha256:seen", with(head())), Operation::AcceptRecord),
            row(
                "nobody can vouch for what nobody understands",
                with(Head::Doubtful(nameless)),
                nameless_held,
            ),
            row("deleting waits", deleted(head(), plain), held()),
            row("policy Orphan touches nothing", deleted(head(), orphan), Operation::Orphan),
            row("reset-at lets it go", reset(deleted(head(), plain)), Operation::Orphan),
            row(
                "deleted, and vouched for",
                accepts("sha256:seen", deleted(head(), plain)),
                Operation::AcceptRecord,
            ),
            row(
                "suspended",
                Observation { suspended: true, ..accepts("sha256:seen", with(head())) },
                Operation::Hold(Hold::Suspended),
            ),
        ]);
    }
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
fn a_record_of_another_tool() {
    let held = |until| Operation::Hold(Hold::ForeignPending { until: at(until) });
    let upgrade = Operation::Upgrade { revision: 8, attempt: 1 };
    let paused = Observation { paused: true, ..with(foreign(HeadState::Deployed)) };
    let blind = Observation { inputs: None, ..with(foreign(HeadState::Deployed)) };
    let endless = pending(NOW - 10, u64::MAX);
    let never = Operation::Hold(Hold::ForeignPending { until: Timestamp::MAX });
    let forever = decide(&with(foreign(endless)));
    assert_eq!((forever.operation, forever.until), (never, Some(Timestamp::MAX)), "a claim without end");
    check(vec![
        row("its time is not over", with(foreign(pending(NOW - 10, 60))), held(NOW + 50)).until(NOW + 50),
        row("its time is over this very moment", with(foreign(pending(NOW - 60, 60))), Operation::Recover),
        row("its time was over long ago", with(foreign(pending(NOW - 600, 60))), Operation::Recover),
        row(
            "deployed: superseded by an upgrade of ours, never locked",
            with(foreign(HeadState::Deployed)),
            upgrade.clone(),
        ),
        row("failed", with(foreign(failed(1))), upgrade.clone()),
        row("superseded", with(foreign(HeadState::Superseded)), upgrade),
        row(
            "uninstalled",
            with(foreign(HeadState::Uninstalled)),
            Operation::Install { revision: 8, attempt: 1 },
        ),
        row("paused", paused, Operation::Hold(Hold::Paused)),
        row("inputs not known", blind, Operation::Hold(Hold::InputsUnknown)),
    ]);
}

#[test]
fn our_own_pending_record() {
    let uninstalling = HeadState::Pending { started_at: at(NOW), timeout: secs(60), uninstalling: true };
    let blind = Observation { inputs: None, ..with(ours(pending(NOW, 60), WANTED)) };
    let paused = Observation { paused: true, ..with(ours(pending(NOW, 60), WANTED)) };
    check(vec![
        row("same inputs", with(ours(pending(NOW, 60), WANTED)), Operation::Resume),
        row("same inputs, long after its timeout", with(ours(pending(0, 60), WANTED)), Operation::Resume),
        row("inputs not known: what is stored is finished", blind, Operation::Resume),
        row("paused: what is begun is finished", paused, Operation::Resume),
        row(
            "other inputs",
            with(ours(pending(NOW, 60), OTHER)),
            Operation::Upgrade { revision: 5, attempt: 1 },
        ),
        row(
            "an uninstall that nobody wants any more",
            with(ours(uninstalling, WANTED)),
            Operation::Interrupt,
        ),
    ]);
}

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

#[test]
fn our_own_settled_record() {
    let install = Operation::Install { revision: 5, attempt: 1 };
    let upgrade = Operation::Upgrade { revision: 5, attempt: 1 };
    let deployed = || with(ours(HeadState::Deployed, WANTED));
    let differs = || with(ours(HeadState::Deployed, OTHER));
    let paused = |seen: Observation| Observation { paused: true, ..seen };
    let blind = |seen: Observation| Observation { inputs: None, ..seen };
    check(vec![
        row("no record: install", created(), Operation::Install { revision: 1, attempt: 1 }),
        row("no record, paused: install", paused(created()), Operation::Install { revision: 1, attempt: 1 }),
        row("no record, inputs not known", blind(created()), Operation::Hold(Hold::InputsUnknown)),
        row("deployed as wanted", deployed(), Operation::Nothing).locked(),
        row("deployed as wanted, paused", paused(deployed()), Operation::Nothing).locked(),
        row(
            "deployed, a reset is asked for that changes nothing",
            Observation { reset_requested: true, ..deployed() },
            Operation::Nothing,
        )
        .locked(),
        row("deployed, other inputs", differs(), upgrade.clone()),
        row(
            "deployed, other inputs, paused: keeps healing",
            paused(differs()),
            Operation::Hold(Hold::Paused),
        )
        .locked(),
        row(
            "deployed, inputs not known: keeps healing",
            blind(deployed()),
            Operation::Hold(Hold::InputsUnknown),
        )
        .locked(),
        row(
            "deployed, inputs not known, tests asked for: they need the record only",
            Observation { test: true, ..blind(deployed()) },
            Operation::Test,
        )
        .locked(),
        row(
            "deployed, drift disabled or paused",
            Observation { drift: Drift::Ignored, ..deployed() },
            Operation::Nothing,
        ),
        row("superseded", with(ours(HeadState::Superseded, WANTED)), upgrade),
        row("uninstalled", with(ours(HeadState::Uninstalled, WANTED)), install.clone()),
        row("uninstalled, paused", paused(with(ours(HeadState::Uninstalled, WANTED))), install),
    ]);
}

fn undone(attempt: u32, ago: i64) -> Option<Failure> {
    Some(known(attempt, ago))
}

fn known(attempt: u32, ago: i64) -> Failure {
    let (inputs, spec) = (WANTED.to_owned(), SPEC.to_owned());
    Failure { inputs, attempt, at: at(NOW - ago), spec, for_good: false }
}

#[test]
fn inputs_that_are_known_to_fail() {
    let exceeded = |attempts| Operation::Hold(Hold::RetriesExceeded { attempts });
    let upgrade = |attempt| Operation::Upgrade { revision: 5, attempt };
    let rollback = OnFailure { uninstall: true, rollback: true };
    // Revision 4 was made from something else after the wanted inputs failed.
    let after = |state, failure: Failure| OurHead {
        last_deployed: Some(3),
        failures: vec![Failure { inputs: "sha256:third".to_owned(), ..known(9, 9) }, failure],
        ..head_of(state, OTHER, 1)
    };
    let seen = |head| Observation { on_failure: rollback, ..with(Head::Ours(head)) };
    let deployed = |failure| seen(after(HeadState::Deployed, failure));
    let other_spec = |seen: Observation| Observation { spec: "sha256:edited".to_owned(), ..seen };
    let every = |seconds, seen: Observation| {
        let interval = Some(secs(seconds));
        Observation { retry_interval: RetryInterval { install: None, upgrade: interval }, ..seen }
    };
    let failed_head = || after(failed(1), known(4, 600));
    let first = || OurHead { last_deployed: None, ..failed_head() };
    let own = |attempt| OurHead { last_deployed: Some(3), ..head_of(failed(100), WANTED, attempt) };
    let gone_back =
        || OurHead { undone: undone(4, 100), target: Some(3), ..after(HeadState::Deployed, known(4, 100)) };
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
        row("also right after the failure", other_spec(seen(own(1))), upgrade(1)),
        row("also after they were undone", other_spec(seen(gone_back())), upgrade(1)),
        row("a reset does", Observation { reset_requested: true, ..deployed(known(4, 600)) }, upgrade(1)),
        row(
            "what failed meanwhile is undone",
            seen(failed_head()),
            Operation::Rollback { revision: 5, target: 3, attempt: 1 },
        ),
        row(
            "what failed meanwhile stays with Retain",
            Observation { on_failure: OnFailure::default(), ..seen(failed_head()) },
            exceeded(4),
        ),
        row("a first install that failed meanwhile is taken away", seen(first()), Operation::Remove),
        row(
            "what failed meanwhile is a way back that the spec does not ask for any more",
            seen(OurHead { target: Some(2), ..failed_head() }),
            Operation::Rollback { revision: 5, target: 3, attempt: 1 },
        ),
        row(
            "that something else is healthy says nothing of them",
            Observation { healed: true, on_failure: OnFailure::default(), ..seen(failed_head()) },
            exceeded(4),
        ),
        row("more tries are asked for: not yet", every(600, deployed(known(4, 100))), exceeded(4))
            .until(NOW + 500)
            .locked(),
        row("more tries are asked for: now", every(600, deployed(known(4, 600))), upgrade(5)),
        row("after it was undone: not yet", every(600, seen(gone_back())), exceeded(4))
            .until(NOW + 500)
            .locked(),
        row("after it was undone: now", every(100, seen(gone_back())), upgrade(5)),
        row(
            "a test of what is deployed is awaited",
            every(600, seen(OurHead { hook_running: true, ..after(HeadState::Deployed, known(4, 600)) })),
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
                    ..seen(OurHead { last_deployed: None, ..own(4) })
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

#[test]
fn a_failure_that_is_undone() {
    let all = OnFailure { uninstall: true, rollback: true };
    let head = |attempt| OurHead { last_deployed: Some(3), ..head_of(failed(1), WANTED, attempt) };
    let first = |attempt| head_of(failed(1), WANTED, attempt);
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

// ---- for all observations -----------------------------------------------------------------------------------

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
    let failed_for = |inputs| rolls_back(with(ours(super::tests::failed(0), inputs)));
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
            not(Successor::Refused, rolls_back(with(never_deployed(super::tests::failed(0), OTHER, 1)))),
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
