//! What the newest record says: lost, in doubt, of another tool, and our own.

use super::*;

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
