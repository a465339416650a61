//! What a record and a status say of a definition, and why one stops a release.

use serde_json::json;

use super::*;
use crate::crd::{Analysis, Change};

fn id() -> ObjectId {
    object(None).id
}

/// A definition; `conversion`: how its versions become each other.
fn object(conversion: Option<&str>) -> Object {
    let conversion = conversion.map(|strategy| json!({"strategy": strategy}));
    Object::from_value(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"conversion": conversion}}))
    .unwrap()
}

fn shipped() -> Shipped {
    serde_json::from_value(json!({"name": "widgets.example.com", "policy": "managed"})).unwrap()
}

fn change(severity: Severity, path: &str) -> Change {
    let mut some = analysis(Vec::new()).refused(path, "no").changes.remove(0);
    (some.severity, some.message) = (severity, "told".to_owned());
    some.path = path.to_owned();
    some
}

fn analysis(changes: Vec<Change>) -> Analysis {
    Analysis { name: "widgets.example.com".to_owned(), is_new: false, changes }
}

#[test]
fn one_that_stays_as_it_is_says_why() {
    for (why, said) in [
        (Left::External, "External"),
        (Left::NotInstalled, "NotInstalled"),
        (Left::WrittenByAnother(None), "Kept"),
        (Left::WrittenByAnother(Some("apps/b".to_owned())), "WrittenBy apps/b"),
        (Left::Skipped, "Skipped"),
    ] {
        let Verdict::Ships(shipped, None) = left(shipped(), word(&why)) else { panic!("it is applied") };
        assert_eq!((shipped.verdict.as_deref(), shipped.written), (Some(said), false));
    }
}

#[test]
fn one_that_is_written_has_its_body_in_the_record_unless_the_manifest_has_it() {
    for (in_manifest, body) in [(true, None), (false, Some(object(None).body))] {
        let Verdict::Ships(shipped, Some(applied)) = written(shipped(), object(None), in_manifest) else {
            panic!("it is not applied")
        };
        assert!(shipped.written);
        assert_eq!((shipped.body, applied.id), (body, id()), "{in_manifest}");
    }
}

#[test]
fn a_release_that_is_refused_says_who_has_to_act() {
    for (why, reason, says) in [
        (Refusal::Terminating, "Terminating", "CustomResourceDefinition widgets.example.com"),
        (Refusal::Conflict("apps/b".to_owned()), "OwnershipConflict", "belongs to the release apps/b"),
        (Refusal::NotOwned(Some("shop".to_owned())), "NotOwned", "shop"),
        (Refusal::NotOwned(None), "NotOwned", "CustomResourceDefinition widgets.example.com"),
    ] {
        let error = refused_definition(&id(), why);
        assert!(error.reason().contains(reason), "{}", error.reason());
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn the_worst_changes_are_told_first_and_twenty_of_them() {
    use Severity::{Blocked, Dangerous, Safe, Warning};
    let some = [
        change(Safe, "a"),
        change(Blocked, "b"),
        change(Warning, "c"),
        change(Dangerous, "d"),
        change(Blocked, "e"),
    ];
    assert_eq!(
        told(&analysis(some.to_vec())),
        ["Blocked: b: told", "Blocked: e: told", "Dangerous: d: told", "Warning: c: told", "Safe: a: told"]
    );
    let many = (0..30).map(|number| change(if number == 29 { Dangerous } else { Safe }, &number.to_string()));
    let told = told(&analysis(many.collect()));
    assert_eq!((told.len(), &*told[0], &*told[1]), (20, "Dangerous: 29: told", "Safe: 0: told"));
    assert_eq!(severities(&analysis(some.to_vec())), [(Safe, 1), (Warning, 1), (Dangerous, 1), (Blocked, 2)]);
}

#[test]
fn only_a_conversion_by_webhook_is_told_later() {
    for (conversion, later) in [(None, false), (Some("None"), false), (Some("Webhook"), true)] {
        assert_eq!(has_webhook(&object(conversion).body), later, "{conversion:?}");
    }
}
