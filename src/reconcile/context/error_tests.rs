//! Who has to act on an error, the word for it, and what else a pass makes of it.

use serde_json::json;

use super::*;
use crate::manifest::ObjectId;

fn id() -> ObjectId {
    let [kind, name] = ["ConfigMap", "a"].map(str::to_owned);
    ObjectId { group: String::new(), kind, namespace: Some("apps".to_owned()), name }
}

/// A write of the release itself that the API server answers with this code.
fn own(what: &'static str, code: u16) -> Error {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": ""});
    let status: kube::core::Status = serde_json::from_value(status).unwrap();
    Error::Own { what, source: Box::new(kube::Error::Api(Box::new(status))) }
}

/// Class, reason, and what a pass makes of it besides.
fn told(error: &Error) -> String {
    let marks = [
        (error.is_conflict(), " conflict"),
        (error.may_pass(), " may-pass"),
        (error.fetching_since().is_some(), " under-way"),
        (error.wakes(), " wakes"),
        (error.is_blind(), " blind"),
    ];
    let marks: String = marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect();
    format!("{:?} {}{marks}", error.class(), error.reason())
}

#[test]
fn what_the_spec_or_the_pack_asks_for_is_for_the_author_of_the_release() {
    let message = || "no".to_owned();
    for (error, expected) in [
        (
            Error::NotSupported { what: "a phase".to_owned(), object: "Job a".to_owned() },
            "FixSpec NotSupported",
        ),
        (Error::EmptyRender { before: 3 }, "FixSpec EmptyRender"),
        (Error::DuplicateObject { id: id() }, "FixSpec ObjectInvalid"),
        (Error::NamespaceOnClusterObject { id: id() }, "FixSpec ObjectInvalid"),
        (Error::RenderTimeout { after: Duration::from_secs(30) }, "FixSpec RenderFailed"),
        (Error::RenderAborted { message: message() }, "FixSpec RenderFailed"),
        (Error::PackAborted { message: message() }, "FixSpec PackInvalid"),
        (Error::CrdBreakingChange { stopped: Vec::new() }, "FixSpec CrdBreakingChange"),
        (Error::NoAccount, "FixSpec ServiceAccountRequired"),
    ] {
        assert_eq!(told(&error), expected, "{error}");
    }
}

#[test]
fn what_stands_in_the_cluster_is_for_who_may_change_it_there() {
    let message = || "no".to_owned();
    for (error, expected) in [
        (Error::RollbackTarget { revision: 2, problem: message() }, "FixCluster RollbackTargetInvalid"),
        (Error::Hook { reason: "HookFailed", message: message() }, "FixCluster HookFailed"),
        (Error::RecordDoubtful { message: message() }, "FixCluster RecordKeyLost"),
        (
            Error::OwnershipConflict { name: "a.b".to_owned(), owner: "apps/x".to_owned() },
            "FixCluster OwnershipConflict",
        ),
        (Error::CrdDeletionBlocked { blocked: vec![message()] }, "FixCluster CrdDeletionBlocked"),
        (Error::ReadForbidden { what: "Secret a".to_owned(), message: message() }, "FixCluster Forbidden"),
    ] {
        assert_eq!(told(&error), expected, "{error}");
    }
}

#[test]
fn what_passes_by_itself_is_tried_again_and_only_a_lost_race_is_a_conflict() {
    let (message, since) = (|| "no".to_owned(), Instant::now());
    let what = || "Secret a".to_owned();
    for (error, expected) in [
        (Error::ManifestAborted { revision: 2, message: message() }, "Retry RecordUnreadable"),
        (Error::NoRandomness { message: message() }, "Retry NoRandomness"),
        (Error::Undecided, "Retry RecordChanged"),
        (Error::RecordChanged { revision: 2 }, "Retry RecordChanged conflict"),
        (Error::OwnTimeout { what: "status", after: Duration::from_secs(5) }, "Retry StatusWriteFailed"),
        (own("status", 500), "Retry StatusWriteFailed"),
        (own("status", 409), "Retry StatusWriteFailed conflict"),
        // The JSON patch of the finalizer tests the version; a status that is refused is the operator's mistake.
        (own("finalizer", 422), "Retry StatusWriteFailed conflict"),
        (own("status", 422), "Retry StatusWriteFailed"),
        (Error::Queued { since }, "Retry Progressing under-way wakes"),
        (Error::Walking { name: "a.b".to_owned(), since }, "Retry Progressing under-way wakes"),
        (Error::Fetching { url: "https://x".to_owned(), since }, "Retry Fetching under-way wakes"),
    ] {
        assert_eq!(told(&error), expected, "{error}");
    }
    for (error, conflict, passes) in [
        (storage::Error::Conflict { what: what() }, true, false),
        (storage::Error::Missing { what: what() }, true, false),
        (storage::Error::Forbidden { what: what(), message: message() }, false, true),
        (storage::Error::NamespaceNotFound { namespace: "apps".to_owned() }, false, false),
    ] {
        let (class, reason) = (error.class(), error.reason());
        let error = Error::from(error);
        assert_eq!((error.class(), error.reason()), (class, reason));
        assert_eq!((error.is_conflict(), error.may_pass()), (conflict, passes), "{error}");
    }
}

#[test]
fn an_error_whose_message_is_hidden_keeps_all_else() {
    for class in [Class::FixSpec, Class::FixCluster, Class::Retry] {
        for may_pass in [true, false] {
            let error = Error::Hidden { reason: "Forbidden", class, may_pass, message: "m".to_owned() };
            let mark = if may_pass { " may-pass" } else { "" };
            assert_eq!(told(&error), format!("{class:?} Forbidden{mark}"));
        }
    }
}

#[test]
fn a_definition_that_stops_a_release_names_three_changes_and_how_to_confirm_them() {
    let stopped = |changes: &[&str], token: Option<&str>| Stopped {
        name: "widgets.example.com".to_owned(),
        policy: Policy::Managed,
        verdict: Severity::Dangerous,
        changes: changes.iter().map(|&change| change.to_owned()).collect(),
        token: token.map(str::to_owned),
    };
    for (stopped, says) in [
        (stopped(&["a"], Some("w@1")), "widgets.example.com: a (confirm with w@1)"),
        (stopped(&["a", "b", "c"], Some("w@1")), "widgets.example.com: a; b; c (confirm with w@1)"),
        (
            stopped(&["a", "b", "c", "d", "e"], Some("w@1")),
            "widgets.example.com: a; b; c; and 2 more (confirm with w@1)",
        ),
        (stopped(&["a"], None), "widgets.example.com: a (the API server refuses this)"),
    ] {
        assert_eq!(stopped.to_string(), says);
        let error = Error::CrdBreakingChange { stopped: vec![stopped.clone(), stopped] };
        assert!(error.to_string().contains(&format!("{says}; {says}; put what is meant")), "{error}");
    }
}
