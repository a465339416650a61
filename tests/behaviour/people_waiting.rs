//! `wait`: a line for each change, and an end that a script can rely on.

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::people::Ran;
use crate::support::{Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(deployment("web", 2))
}

/// [`pack`] with a Deployment that does not get ready.
fn stuck() -> Pack {
    pack().object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_gets_a_line_for_each_change_until_the_release_is_ready() {
    let h = Harness::new("people-wait").await;
    h.apply("web", &stuck(), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    let waiting = h.begin(&["wait", "web", "--timeout", "60s"]);
    // It has seen the state before: its watch of the Deployment is a second stream of events.
    h.pass("web").await;
    h.heal("Deployment/slow").await;
    let Ran { code, out, err } = waiting.ended().await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(!out.contains('\x1b'), "{out:?}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(*lines.last().unwrap(), "people-wait/web is Ready: revision 1 of web 1.0.0 is deployed");
    for line in
        ["✓ ConfigMap/settings  [ready]", "✓ Deployment/web  [2/2 ready]", "✓ Deployment/slow  [1/1 ready]"]
    {
        assert!(lines.contains(&line), "{line} in {out}");
    }
    let mut told = lines.clone();
    told.dedup();
    assert_eq!(told, lines, "no line twice");
    // What is Ready needs no wait, and a release that nobody has is no reason for one.
    let again = h.run(&["wait", "web"]);
    assert_eq!(again.code, 0, "{again:?}");
    let none = h.run(&["wait", "nobody"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    assert_eq!(h.run(&["wait", "web", "--timeout", "soon"]).code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_one_when_the_release_does_not_get_ready() {
    let h = Harness::new("people-wait-fails").await;
    h.apply("slow", &stuck(), json!({})).await;
    h.shows("SherpackRelease/slow", "/status/operation/phase", "Wait").await;
    let Ran { code, err, .. } = h.run(&["wait", "slow", "--timeout", "1s"]);
    assert_eq!(code, 1);
    assert!(err.contains("people-wait-fails/slow is not Ready after 1s: Progressing: "), "{err}");

    h.release("stalled", json!({"pack": {"path": "../outside"}})).await;
    let Ran { code, err, .. } = h.run(&["wait", "stalled", "--timeout", "60s"]);
    assert_eq!(code, 1);
    assert!(err.contains("people-wait-fails/stalled is not Ready: "), "{err}");

    h.release("held", json!({"pack": {"configMap": {"name": "slow-pack"}}, "suspend": true})).await;
    let Ran { code, err, .. } = h.run(&["wait", "held", "--timeout", "60s"]);
    assert_eq!(code, 1);
    assert!(err.contains("held is not Ready: Suspended"), "{err}");

    let mut wrong = deployment("wrong", 1);
    wrong["spec"]["replicas"] = json!(-1);
    h.apply("failed", &Pack::new("web", "1.0.0").object(wrong), json!({})).await;
    let Ran { code, err, .. } = h.run(&["wait", "failed", "--timeout", "60s"]);
    assert_eq!(code, 1);
    assert!(err.contains("failed is not Ready: ObjectInvalid"), "{err}");
    // Patience for its retries ends at the timeout or when they are spent.
    let Ran { code, err, .. } = h.run(&["wait", "failed", "--timeout", "1s", "--through-retries"]);
    assert_eq!(code, 1);
    assert!(err.contains("failed is not Ready"), "{err}");

    h.stop().await;
    h.edit_spec("failed", json!({"timeout": "9m"})).await;
    let Ran { code, err, .. } = h.run(&["wait", "failed", "--timeout", "1s"]);
    assert_eq!(code, 1);
    assert!(err.contains("the operator has not looked at generation 2 of it yet"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_deleted_release_is_waited_for() {
    let h = Harness::new("people-wait-deletion").await;
    let mut held = config_map("settings", json!({"a": "b"}));
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    h.deploy("web", &Pack::new("web", "1.0.0").object(held), json!({})).await;
    h.objects.delete("SherpackRelease/web").await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Delete").await;
    let waiting = h.begin(&["wait", "web", "--timeout", "60s"]);
    h.objects.edit("ConfigMap/settings", "test", json!({"metadata": {"finalizers": null}})).await;
    let Ran { code, out, err } = waiting.ended().await;
    // It may have been gone before the wait began.
    let gone = code == 0 && out.ends_with("people-wait-deletion/web is gone\n");
    assert!(gone || err.contains("there is no SherpackRelease"), "{out}{err}");
    h.gone("SherpackRelease/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_read_releases_only_gets_the_lines_of_the_status() {
    let h = Harness::new("people-wait-viewer").await;
    let rule = json!({"apiGroups": ["sherpack.io"], "resources": ["sherpackreleases"], "verbs": ["get", "list", "watch"]});
    h.objects.server_side_apply("Role/viewer", "test", json!({"rules": [rule]})).await;
    let binding = json!({
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(h.client.clone(), &h.namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let text = std::fs::read_to_string(&h.settings.kubeconfig).unwrap();
    let mut config = sherpack_operator::manifest::yaml::parse_value(&text, "kubeconfig").unwrap();
    config["users"][0]["user"]["as"] = json!("viewer");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("people-wait-viewer.yaml");
    std::fs::write(&file, config.to_string()).unwrap();

    h.apply("web", &stuck(), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    let waiting = h.begin_as(&file, &["wait", "web", "--timeout", "60s"]);
    h.heal("Deployment/slow").await;
    let Ran { code, out, err } = waiting.ended().await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("the lines are from the status alone"), "{err}");
    let history = h.begin_as(&file, &["history", "web"]).ended().await;
    assert_eq!(history.code, 0, "{history:?}");
    assert!(
        history.err.contains("this is from the status") && history.out.contains("Install complete"),
        "{history:?}"
    );
    assert_eq!(h.begin_as(&file, &["suspend", "web"]).ended().await.code, 2, "it may not");
}
