//! What the status says of a release that only locks what another tool installed.

use super::*;
use crate::api::{Installer, LockOf};
use crate::release::guard::Stance;

fn helm() -> LockOf {
    LockOf { installer: Installer::Helm, namespace: "apps".to_owned(), name: "shop".to_owned() }
}

fn status(
    scene: &Scene,
    failing: Option<(&'static str, String, usize)>,
    outcome: Result<&Stance, &Error>,
) -> SherpackReleaseStatus {
    let pack = PackStatus { name: "shop".to_owned(), version: "7.1.0".to_owned(), ..PackStatus::default() };
    let guarding = Guarding { lock: &helm(), objects: 5, revision: Some(7), pack: Some(&pack), failing };
    scene.told(true, |facts| guarded(facts, &guarding, outcome).0)
}

fn ready(status: &SherpackReleaseStatus) -> String {
    let says = conditions::find(&status.conditions, "Ready").unwrap();
    format!("{} {}: {}", says.status, says.reason, says.message)
}

fn scene() -> Scene {
    Scene::new(Head::None, nothing())
}

#[test]
fn each_stance_has_its_words() {
    let back = |word: &str| Stance::StandBack { revision: 7, status: word.to_owned() };
    for (stance, says) in [
        (Stance::Suspended, "False Suspended: spec.suspend is true"),
        (
            Stance::Taken { by: "apps/other".to_owned() },
            "False ReleaseNameTaken: the Helm release apps/shop is locked or installed by the release apps/other already: delete one of the two",
        ),
        (
            Stance::Missing { lost: true },
            "False RecordLost: the Helm release apps/shop has no record any more: nothing is changed, locked or deleted; it is locked again when it is installed or its record is restored",
        ),
        (
            Stance::Missing { lost: false },
            "False ReleaseNotFound: the Helm release apps/shop does not exist: it is locked as soon as it is installed",
        ),
        (
            Stance::Unreadable { message: "the Secret is damaged".to_owned() },
            "False RecordUnreadable: the Secret is damaged: nothing is changed, locked or deleted; restore the record, or install the release again",
        ),
        // Another revision follows by itself, or does not.
        (
            back("pending-upgrade"),
            "Unknown StandingBack: revision 7 of the Helm release apps/shop is pending-upgrade: nothing is touched until one is deployed",
        ),
        (
            back("failed"),
            "False StandingBack: revision 7 of the Helm release apps/shop is failed: nothing is touched until one is deployed",
        ),
        (
            Stance::Guard { revision: 7 },
            "True Locked: guards the Helm release apps/shop, revision 7: 5 objects",
        ),
    ] {
        assert_eq!(ready(&status(&scene(), None, Ok(&stance))), says);
    }
}

#[test]
fn a_lock_that_is_off_says_whether_the_spec_or_a_pause_took_it_off() {
    for (mode, reason) in
        [(None, "DriftPaused"), (Some("Warn"), "DriftPaused"), (Some("Disabled"), "DriftDisabled")]
    {
        let scene = match mode {
            Some(mode) => scene().with("/spec/drift", json!({"mode": mode})),
            None => scene(),
        };
        let says = format!(
            "True {reason}: revision 7 of the Helm release apps/shop is deployed, and the lock is off"
        );
        assert_eq!(ready(&status(&scene, None, Ok(&Stance::Open { revision: 7 }))), says);
    }
}

#[test]
fn objects_that_cannot_be_kept_are_counted_behind_the_first_one() {
    for (count, more) in [(1, ""), (3, " (and 2 more objects are not locked)")] {
        let failing = Some(("Forbidden", "Deployment apps/web: no right".to_owned(), count));
        let says = format!(
            "False Forbidden: revision 7 of the Helm release apps/shop is not locked in all its objects: Deployment apps/web: no right{more}"
        );
        assert_eq!(ready(&status(&scene(), failing, Ok(&Stance::Guard { revision: 7 }))), says);
    }
}

#[test]
fn what_is_locked_is_told_with_its_revision_and_only_while_it_is_locked_a_reset_is_handled() {
    let asked = scene()
        .with("/metadata/annotations", json!({"sherpack.io/reset-at": "now"}))
        .with("/status", json!({"lastHandled": {"resetAt": "then"}}));
    for (stance, reset) in [
        (Ok(&Stance::Guard { revision: 7 }), "now"),
        (Ok(&Stance::Suspended), "then"),
        (Err(&Error::Undecided), "then"),
    ] {
        let status = status(&asked, None, stance);
        assert_eq!(status.last_handled.unwrap().reset_at.as_deref(), Some(reset));
        assert_eq!((status.revision, status.pack.unwrap().version), (Some(7), "7.1.0".to_owned()));
        assert_eq!(status.observed_generation, Some(4));
    }
}

#[test]
fn a_lock_under_which_nothing_differs_says_so_without_a_record_of_its_own() {
    let says = |stance: &Stance| {
        let status = status(&scene(), None, Ok(stance));
        conditions::find(&status.conditions, "Drifted").map(|found| found.reason.clone())
    };
    assert_eq!(says(&Stance::Guard { revision: 7 }).as_deref(), Some("NoDrift"));
}

#[test]
fn an_invalid_spec_and_an_error_come_before_every_stance() {
    let guard = Stance::Guard { revision: 7 };
    let invalid =
        Invalid { reason: "InvalidSpec", field: "spec.lock".to_owned(), message: "no name".to_owned() };
    let scene = Scene { invalid: Some(invalid), ..scene() };
    assert!(ready(&status(&scene, None, Ok(&guard))).starts_with("False InvalidSpec: "));
    let error = status(&self::scene(), None, Err(&Error::Undecided));
    assert!(ready(&error).starts_with("False RecordChanged: no decision was reached"));
}
