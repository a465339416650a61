//! Commands that ask for something: one field or annotation, and word of what will happen.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, hook, with_pod_annotation};
use crate::support::people::Ran;
use crate::support::{Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .values("color: blue\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
}

/// The fields of the spec that the command line owns.
fn owned(release: &Value) -> Vec<String> {
    let managers = release["metadata"]["managedFields"].as_array().unwrap();
    let ours = managers.iter().filter(|entry| entry["manager"] == "sherpack-cli");
    let spec = ours.filter_map(|entry| entry["fieldsV1"]["f:spec"].as_object());
    spec.flat_map(|spec| spec.keys().cloned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_suspended_and_resumed() {
    let h = Harness::new("people-suspend").await;
    h.deploy("web", &pack(), json!({})).await;
    let dry = h.run(&["suspend", "web", "--dry-run"]);
    assert_eq!((dry.code, dry.out.as_str()), (0, ""));
    assert!(dry.err.contains("spec.suspend becomes true"), "{}", dry.err);
    assert!(h.objects.get("SherpackRelease/web").await["spec"]["suspend"].is_null());

    let Ran { code, out, err } = h.run(&["suspend", "web"]);
    assert_eq!((code, out.as_str()), (0, "sherpackrelease/web suspended\n"), "{err}");
    assert!(err.starts_with("people-suspend/web: spec.suspend becomes true"), "{err}");
    assert!(!err.contains("warning"), "{err}");
    let held = h.condition("web", "Ready", "False", Some("Suspended")).await;
    assert_eq!(owned(&held), ["f:suspend"]);
    let again = h.run(&["suspend", "web"]);
    assert_eq!((again.code, again.out.as_str()), (0, ""));
    assert!(again.err.contains("suspended already"), "{}", again.err);

    // Whoever applies the release without the field leaves it alone.
    h.release("web", json!({"pack": {"configMap": {"name": "web-pack"}}})).await;
    assert_eq!(h.objects.get("SherpackRelease/web").await["spec"]["suspend"], true);

    let Ran { code, out, err } = h.run(&["resume", "web", "--wait"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("sherpackrelease/web resumed\n"), "{out}");
    assert!(out.contains("people-suspend/web is Ready: revision 1 of web 1.0.0 is deployed\n"), "{out}");
    assert!(h.objects.get("SherpackRelease/web").await["spec"]["suspend"].is_null());
    assert_eq!(h.run(&["suspend", "nobody"]).code, 1);
    assert_eq!(h.run(&["suspend"]).code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_applies_a_release_from_git_is_named_before_its_spec_is_changed() {
    let h = Harness::new("people-gitops").await;
    h.deploy("web", &pack(), json!({})).await;
    let labels = json!({
        "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    });
    let body = json!({"metadata": {"labels": labels}, "spec": {"suspend": false}});
    h.objects.server_side_apply("SherpackRelease/web", "kustomize-controller", body).await;
    let Ran { code, err, .. } = h.run(&["suspend", "web"]);
    assert_eq!(code, 0);
    let warning =
        "warning: Flux Kustomization flux-system/apps applies this release from Git and sets spec.suspend";
    assert!(err.contains(warning), "{err}");
    // A request by annotation is no change of the spec.
    let Ran { err, .. } = h.run(&["reconcile", "web"]);
    assert!(!err.contains("warning"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_was_asked_for_is_acknowledged_even_when_nothing_can_be_done() {
    let h = Harness::new("people-reconcile").await;
    h.deploy("web", &pack(), json!({})).await;
    let Ran { code, out, err } = h.run(&["reconcile", "web", "--wait"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("sherpackrelease/web asked to reconcile\n"), "{out}");
    assert_eq!(owned(&h.objects.get("SherpackRelease/web").await), Vec::<String>::new());

    // No source; a template that fails; a spec that is refused, before anything was done and after.
    h.release("sourceless", json!({"pack": {"configMap": {"name": "nobody"}}})).await;
    h.pass("sourceless").await;
    let broken = Pack::new("web", "1.0.0").template("a.yaml", "a: {{ values.missing.deeply }}\n");
    h.apply("broken", &broken, json!({})).await;
    h.pass("broken").await;
    let Ran { code, err, .. } = h.run(&["reconcile", "broken", "--wait"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("people-reconcile/broken is not Ready: RenderFailed"), "{err}");
    h.release("refused", json!({"pack": {"path": "../outside"}})).await;
    h.pass("refused").await;
    h.edit_spec("web", json!({"pack": {"configMap": null, "path": "../outside"}})).await;
    h.pass("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_forgotten_on_request() {
    let h = Harness::new("people-reset").await;
    h.deploy("web", &pack(), json!({})).await;
    h.lose_record("web", 1).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    assert!(h.run(&["status", "web"]).out.ends_with("\n  sherpack-operator reset web -n people-reset\n"));
    let Ran { code, out, err } = h.run(&["reset", "web", "--wait"]);
    assert!(err.starts_with("people-reset/web: its records are given up"), "{err}");
    assert_eq!(code, 0, "{out}{err}");
    h.shows_states("web", &["2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_pinned_to_a_revision_and_let_go_again() {
    let h = Harness::new("people-rollback").await;
    h.deploy("web", &pack(), json!({})).await;
    h.deploy("web", &pack().values("color: green\n"), json!({})).await;
    for (arguments, code, part) in [
        (&["rollback", "web", "9"][..], 1, "has no revision 9"),
        (&["rollback", "web", "0"], 2, "0"),
        (&["rollback", "web"], 2, "REVISION"),
        (&["rollback", "web", "1", "--unpin"], 2, "--unpin"),
    ] {
        let ran = h.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(part), "{arguments:?}: {ran:?}");
    }
    assert!(h.objects.get("SherpackRelease/web").await["spec"]["rollbackTo"].is_null());

    let Ran { code, out, err } = h.run(&["rollback", "web", "1"]);
    assert_eq!((code, out.as_str()), (0, "sherpackrelease/web pinned\n"), "{err}");
    assert!(err.contains("the manifest of revision 1 is deployed again"), "{err}");
    let release = h.objects.get("SherpackRelease/web").await;
    assert_eq!(release["spec"]["rollbackTo"], 1);
    assert_eq!(owned(&release), ["f:rollbackTo"]);

    let Ran { code, out, err } = h.run(&["rollback", "web", "--unpin"]);
    assert_eq!((code, out.as_str()), (0, "sherpackrelease/web unpinned\n"), "{err}");
    let release = h.ready("web").await;
    assert!(release["spec"]["rollbackTo"].is_null());
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_revision_is_none_to_go_back_to() {
    let h = Harness::new("people-rollback-failed").await;
    let mut wrong = deployment("web", 1);
    wrong["spec"]["replicas"] = json!(-1);
    h.apply("web", &Pack::new("web", "1.0.0").object(wrong), json!({"install": {"retries": 0}})).await;
    h.shows("SherpackRelease/web", "/status/history/0/state", "failed").await;
    let Ran { code, err, .. } = h.run(&["rollback", "web", "1"]);
    assert_eq!(code, 1);
    assert!(err.contains("revision 1 of people-rollback-failed/web is failed"), "{err}");
    h.damage("web", 1, |bytes| bytes.truncate(20)).await;
    let Ran { code, err, .. } = h.run(&["rollback", "web", "1"]);
    assert_eq!(code, 1);
    assert!(err.contains("sh.sherpack.release.v1.web.v1"), "{err}");
    assert!(h.objects.get("SherpackRelease/web").await["spec"]["rollbackTo"].is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_are_asked_for_by_annotation() {
    let h = Harness::new("people-test").await;
    h.deploy("web", &pack(), json!({})).await;
    let Ran { code, out, err } = h.run(&["test", "web"]);
    assert_eq!((code, out.as_str()), (0, "sherpackrelease/web asked to test\n"), "{err}");
    assert!(err.contains("the tests of revision 1 run"), "{err}");
    let release = h.objects.get("SherpackRelease/web").await;
    assert!(release["metadata"]["annotations"]["sherpack.io/test-at"].is_string(), "{release}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_is_followed_to_its_end() {
    let h = Harness::new("people-rollback-wait").await;
    let slow = with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
    h.apply("web", &pack().object(slow), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.deploy("web", &pack().values("color: green\n"), json!({})).await;
    h.gone("Deployment/slow").await;

    // The Deployment comes back with a pod that is not ready, so that the command has something to wait for.
    let waiting = h.begin(&["rollback", "web", "1", "--wait", "--timeout", "60s"]);
    h.heal("Deployment/slow").await;
    let Ran { code, out, err } = waiting.ended().await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("sherpackrelease/web pinned\n"), "{out}");
    let end = "people-rollback-wait/web is Ready: revision 3 of web 1.0.0 is deployed and pinned by spec.rollbackTo to \
               what revision 1 was\n";
    assert!(out.ends_with(end), "{out}");
    assert!(out.contains("Deployment/slow  [1/1 ready]"), "{out}");
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "blue");

    let Ran { code, out, err } = h.run(&["rollback", "web", "--unpin", "--wait", "--timeout", "60s"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.ends_with("people-rollback-wait/web is Ready: revision 4 of web 1.0.0 is deployed\n"),
        "{out}"
    );
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "green");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_that_fails_ends_its_wait_with_one() {
    let h = Harness::new("people-rollback-fails").await;
    let undo = with_pod_annotation(hook("undo", "pre-rollback"), "devcluster/fail", "true");
    h.deploy("web", &pack().object(undo), json!({"upgrade": {"retries": 0}})).await;
    h.deploy("web", &pack().values("color: green\n"), json!({"upgrade": {"retries": 0}})).await;
    let Ran { code, out, err } = h.run(&["rollback", "web", "1", "--wait", "--timeout", "60s"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("people-rollback-fails/web is not Ready: "), "{err}");
    assert!(err.contains("Job people-rollback-fails/undo"), "{err}");
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "green");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_are_followed_to_their_end_and_their_outcome_is_that_of_the_command() {
    let h = Harness::new("people-test-wait").await;
    h.deploy("web", &pack().object(hook("smoke", "test")), json!({})).await;
    assert!(h.objects.find("Job/smoke").await.is_none(), "nobody asked");
    let Ran { code, out, err } = h.run(&["test", "web", "--wait", "--timeout", "60s"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("sherpackrelease/web asked to test\n"), "{out}");
    assert!(out.ends_with("people-test-wait/web is Ready: revision 1 of web 1.0.0 is deployed\n"), "{out}");
    // The end of the command is that of the test.
    let first = h.objects.get("Job/smoke").await;
    assert_eq!(first["status"]["succeeded"], 1, "{first}");
    let tested = h.objects.get("SherpackRelease/web").await;
    assert_eq!(condition(&tested, "Tested")["status"], "True");

    let failing = with_pod_annotation(hook("smoke", "test"), "devcluster/fail", "true");
    h.deploy("web", &pack().object(failing), json!({})).await;
    let Ran { code, out, err } = h.run(&["test", "web", "--wait", "--timeout", "60s"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("the tests of people-test-wait/web failed: "), "{err}");
    assert!(err.contains("exit code 1"), "{err}");
    h.condition("web", "Ready", "True", None).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}
