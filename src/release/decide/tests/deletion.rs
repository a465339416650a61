//! What happens when a release is deleted.

use super::*;

#[test]
fn a_release_that_is_let_go() {
    let plain = Deletion::default();
    let orphan = Deletion { orphan: true, ..plain };
    let own_crd = Deletion { own_crd_terminating: true, ..plain };
    let namespace = Deletion { namespace_terminating: true, ..plain };
    let account = Deletion { account_gone: true, ..plain };
    let deployed = || ours(HeadState::Deployed, WANTED);
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
    ]);
}

#[test]
fn a_release_that_is_deleted() {
    let plain = Deletion::default();
    let deployed = || ours(HeadState::Deployed, WANTED);
    let hold_unreadable = Hold::RecordUnreadable { message: "cut off".to_owned() };
    let suspended = Observation { suspended: true, ..deleted(deployed(), plain) };
    let reset = |head| Observation { reset_requested: true, ..deleted(head, plain) };
    check(vec![
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
