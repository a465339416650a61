use serde_json::{Value, json};

use super::*;

fn release(spec: Value, status: Value) -> SherpackRelease {
    serde_json::from_value(json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
        "metadata": {"name": "web", "namespace": "apps", "generation": 2}, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn told(request: Request, spec: Value, status: Value) -> Option<String> {
    consequence(request, &release(spec, status)).unwrap()
}

#[test]
fn every_request_says_what_will_happen() {
    let at = |revision: u32| json!({"revision": revision});
    let lost = json!({"revision": 3, "conditions": [
        {"type": "Ready", "status": "False", "reason": "RecordLost", "message": "",
         "lastTransitionTime": "2026-01-01T12:00:00Z"},
    ]});
    let running = json!({"revision": 3, "operation": {"action": "Upgrade"}});
    let suspended = json!({"suspend": true});
    for (request, spec, status, parts) in [
        (Request::Reconcile, json!({}), at(3), &["looks at the pack"][..]),
        (
            Request::Reconcile,
            suspended.clone(),
            at(3),
            &["looks at the pack", "nothing happens before it is resumed"],
        ),
        (Request::Suspend, json!({}), at(3), &["spec.suspend becomes true", "deletion still works"]),
        (Request::Suspend, json!({}), running, &["the running upgrade stops where it is"]),
        (Request::Resume, suspended, at(3), &["spec.suspend is removed", "differs from revision 3"]),
        (Request::Reset, json!({}), at(3), &["no failed attempt to forget"]),
        (Request::Reset, json!({}), json!({"failures": 4}), &["4 failed attempts are forgotten"]),
        (Request::Reset, json!({}), lost, &["records are given up", "nothing is pruned"]),
        (Request::Test, json!({}), at(3), &["the tests of revision 3 run"]),
        (Request::Rollback(2), json!({}), at(3), &["spec.rollbackTo becomes 2", "`rollback web --unpin`"]),
        (Request::Rollback(2), json!({"rollbackTo": 1}), at(3), &["spec.rollbackTo becomes 2"]),
        (Request::Unpin, json!({"rollbackTo": 1}), at(3), &["spec.rollbackTo (1) is removed"]),
    ] {
        let text = told(request, spec, status).unwrap();
        for part in parts {
            assert!(text.contains(part), "{request:?}: {part:?} in {text}");
        }
    }
}

#[test]
fn what_is_so_already_is_not_done_again() {
    for (request, spec) in [
        (Request::Suspend, json!({"suspend": true})),
        (Request::Resume, json!({})),
        (Request::Resume, json!({"suspend": false})),
        (Request::Rollback(2), json!({"rollbackTo": 2})),
        (Request::Unpin, json!({})),
    ] {
        assert_eq!(told(request, spec, json!({})), None, "{request:?}");
    }
}

#[test]
fn a_release_on_its_way_out_is_asked_for_nothing_but_its_end() {
    let mut leaving = release(json!({}), json!({}));
    leaving.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap());
    for request in [Request::Suspend, Request::Rollback(1), Request::Test] {
        assert_eq!(consequence(request, &leaving).unwrap_err().code, 1, "{request:?}");
    }
    assert!(consequence(Request::Reset, &leaving).unwrap().unwrap().contains("its objects stay"));
}

#[test]
fn a_request_owns_one_field_and_when_it_is_followed_asks_for_an_answer() {
    assert_eq!(Request::Suspend.patch("now", false), json!({"spec": {"suspend": true}}));
    assert_eq!(Request::Unpin.patch("now", false), json!({"spec": {"rollbackTo": null}}));
    assert_eq!(
        Request::Reset.patch("now", true),
        json!({"metadata": {"annotations": {
            "sherpack.io/reset-at": "now", "sherpack.io/reconcile-at": "now",
        }}})
    );
    assert_eq!(
        Request::Rollback(2).patch("now", true),
        json!({"spec": {"rollbackTo": 2}, "metadata": {"annotations": {"sherpack.io/reconcile-at": "now"}}})
    );
}
