use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T12:00:00Z";

fn release(spec: Value, status: Value) -> SherpackRelease {
    serde_json::from_value(json!({
        "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
        "metadata": {"name": "web", "namespace": "apps", "generation": 2},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-01-01T11:59:00Z"})
}

fn shown(spec: Value, status: Value) -> String {
    text(&release(spec, status), "sherpack-operator", NOW.parse().unwrap())
}

#[test]
fn a_running_upgrade_tells_how_far_it_is_and_how_to_follow_it() {
    let status = json!({
        "observedGeneration": 2, "revision": 4,
        "pack": {"name": "podinfo", "version": "1.0.0", "appVersion": "6.5.0"},
        "conditions": [condition("Ready", "Unknown", "Progressing", "upgrading to revision 4")],
        "operation": {
            "action": "Upgrade", "revision": 4, "phase": "Wait", "wave": 1, "waves": 2, "attempt": 1,
            "startedAt": "2026-01-01T11:59:50Z", "deadline": "2026-01-01T12:04:50Z",
            "waitingFor": [{"object": "Deployment apps/web", "state": "InProgress", "ready": 1, "desired": 3,
                            "reason": "1 of 3 ready", "since": "2026-01-01T11:59:55Z"}],
        },
        "drift": {"count": 0, "lastRevertedAt": "2026-01-01T11:00:00Z",
                  "objects": [{"object": "ConfigMap apps/settings"}]},
    });
    let expected = "\
Release:   apps/web
Pack:      podinfo 1.0.0 (app version 6.5.0)
Revision:  4, pending-upgrade
Operation: Upgrade to revision 4, phase Wait, wave 1 of 2, attempt 1, for 10s, until 2026-01-01T12:04:50Z (4m50s left)
Drift:     last put back 60m ago: ConfigMap apps/settings

CONDITION  STATUS   REASON       SINCE  MESSAGE
Ready      Unknown  Progressing  60s    upgrading to revision 4

WAITING FOR          STATE           SINCE  WHY
Deployment apps/web  InProgress 1/3  5s     1 of 3 ready

Docs: docs/reference/reasons.md#progressing
Next: it is being worked on: follow it
  sherpack-operator wait web -n apps
";
    assert_eq!(shown(json!({}), status), expected);
}

#[test]
fn what_is_not_ready_names_the_documentation_of_its_reason() {
    let shown = |status: &str, reason: &str| {
        let ready = condition("Ready", status, reason, "");
        shown(json!({}), json!({"observedGeneration": 2, "conditions": [ready]}))
    };
    let late = shown("False", "HealthTimeout");
    assert!(late.contains("\nDocs: docs/reference/reasons.md#healthtimeout\nNext: "), "{late}");
    for fine in [shown("True", "InstallSucceeded"), shown("False", "FromTheFuture")] {
        assert!(!fine.contains("Docs:"), "{fine}");
    }
}

#[test]
fn the_last_line_is_the_command_for_what_stands_in_the_way() {
    let last = |spec: Value, status: Value| shown(spec, status).lines().last().unwrap().trim().to_owned();
    let ready = |status: &str, reason: &str, message: &str| json!({"observedGeneration": 2, "conditions": [condition("Ready", status, reason, message)]});
    assert_eq!(last(json!({}), json!({})), "sherpack-operator wait web -n apps");
    let stale =
        json!({"observedGeneration": 1, "conditions": [condition("Ready", "True", "InstallSucceeded", "")]});
    assert_eq!(last(json!({}), stale), "sherpack-operator wait web -n apps");
    let late = ready("False", "HealthTimeout", "not healthy within 5m: Deployment apps/slow: 0 of 1 ready");
    assert_eq!(last(json!({}), late), "kubectl describe deployment/slow -n apps");
    let taken = ready("False", "Suspended", "spec.suspend is true");
    assert_eq!(last(json!({"suspend": true}), taken), "sherpack-operator resume web -n apps");
    let waits = ready("False", "DependencyNotReady", "db is not Ready");
    let depends = json!({"dependsOn": [{"name": "db"}]});
    assert_eq!(last(depends, waits), "sherpack-operator status db -n apps");
    let fine = ready("True", "InstallSucceeded", "revision 1 is deployed");
    assert_eq!(last(json!({}), fine), "sherpack-operator history web -n apps");
    let contended = json!({"observedGeneration": 2, "conditions": [
        condition("Ready", "True", "InstallSucceeded", ""),
        condition("Drifted", "True", "Contended", "Deployment apps/web keeps being changed"),
    ]});
    let expected = "kubectl get sherpackrelease/web -n apps -o jsonpath='{.status.drift}'";
    assert_eq!(last(json!({}), contended), expected);
    let ailing = json!({"observedGeneration": 2, "conditions": [
        condition("Ready", "True", "InstallSucceeded", ""),
        condition("Healthy", "False", "HealthFailed", "HorizontalPodAutoscaler apps/web: no metrics"),
    ]});
    assert_eq!(last(json!({}), ailing), "kubectl describe horizontalpodautoscaler/web -n apps");
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed() {
    let status = json!({"observedGeneration": 2, "conditions": [
        condition("Ready", "False", "RenderFailed", "a\u{1b}[2Jb\nc"),
    ]});
    let text = shown(json!({}), status);
    assert!(text.contains("a [2Jb c"), "{text:?}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn an_object_is_found_in_a_message() {
    let found = |text: &str| object_in(text).map(|(object, namespace)| format!("{object} {namespace:?}"));
    for (text, expected) in [
        ("Deployment apps/web", Some("deployment/web Some(\"apps\")")),
        ("Deployment apps/web: 0 of 1", Some("deployment/web Some(\"apps\")")),
        ("ClusterRole admin: gone", Some("clusterrole/admin None")),
        ("ClusterRole admin", Some("clusterrole/admin None")),
        ("first ConfigMap apps/a, then", Some("configmap/a Some(\"apps\")")),
        ("The object is not there", None),
        ("", None),
    ] {
        assert_eq!(found(text).as_deref(), expected, "{text}");
    }
}
