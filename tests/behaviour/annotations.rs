//! Annotations by each of their names and with each word of their values; `src/coverage.rs` demands one of each.

use serde_json::{Value, json};

use crate::support::packs::{config_map, with_pod_annotation};
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

/// A Job with these annotations and no others; its pod succeeds.
fn job(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/job:1"}],
        }}},
    })
}

/// Jobs that were created and the ConfigMap that was applied since `mark`, in their order.
fn story(h: &Harness, mark: usize) -> Vec<String> {
    let writes = h.wire.writes_since(mark).into_iter();
    let told = writes.filter(|request| {
        (request.verb == "create" && request.is_about("jobs")) || request.is_about("configmaps/settings")
    });
    told.map(|request| request.body["metadata"]["name"].as_str().unwrap_or("settings").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_runs_in_each_phase_by_our_name_and_by_that_of_helm() {
    let h = Harness::new("annotated-phases").await;
    let annotations = [
        json!({"sherpack.io/hook": "pre-install"}),
        json!({"sherpack.io/hook": "post-install"}),
        json!({"sherpack.io/hook": "pre-upgrade"}),
        json!({"sherpack.io/hook": "post-upgrade"}),
        json!({"sherpack.io/hook": "pre-rollback"}),
        json!({"sherpack.io/hook": "post-rollback"}),
        json!({"sherpack.io/hook": "pre-delete"}),
        json!({"sherpack.io/hook": "post-delete"}),
        json!({"sherpack.io/hook": "test"}),
        json!({"sherpack.io/hook": "test-success"}),
        json!({"helm.sh/hook": "pre-install"}),
        json!({"helm.sh/hook": "post-install"}),
        json!({"helm.sh/hook": "pre-upgrade"}),
        json!({"helm.sh/hook": "post-upgrade"}),
        json!({"helm.sh/hook": "pre-rollback"}),
        json!({"helm.sh/hook": "post-rollback"}),
        json!({"helm.sh/hook": "pre-delete"}),
        json!({"helm.sh/hook": "post-delete"}),
        json!({"helm.sh/hook": "test"}),
        json!({"helm.sh/hook": "test-success"}),
    ];
    let hooks = annotations.map(|annotations| {
        let (key, phase) = annotations.as_object().unwrap().iter().next().unwrap();
        let whose = if key.starts_with("helm") { "helm" } else { "ours" };
        job(&format!("{whose}-{}", phase.as_str().unwrap()), annotations.clone())
    });
    let of = |color: &str| pack(color).objects(hooks.clone());
    let round = |occasion: &str| {
        let phase = |phase: &str| [format!("helm-{phase}-{occasion}"), format!("ours-{phase}-{occasion}")];
        [&phase("pre")[..], &["settings".to_owned()], &phase("post")[..]].concat()
    };
    h.deploy("web", &of("blue"), json!({})).await;
    assert_eq!(story(&h, 0), round("install"));
    let mark = h.wire.mark();
    h.deploy("web", &of("green"), json!({})).await;
    assert_eq!(story(&h, mark), round("upgrade"));
    let mark = h.wire.mark();
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.condition("web", "Ready", "True", Some("RollbackSucceeded")).await;
    assert_eq!(story(&h, mark), round("rollback"));
    let mark = h.wire.mark();
    h.annotate("web", "sherpack.io/test-at", "now").await;
    h.condition("web", "Tested", "True", Some("TestsSucceeded")).await;
    assert_eq!(story(&h, mark), ["helm-test", "helm-test-success", "ours-test", "ours-test-success"]);
    let mark = h.wire.mark();
    h.uninstall("web").await;
    assert_eq!(story(&h, mark), round("delete"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_are_ordered_by_either_weight_and_ours_counts_where_both_are() {
    let h = Harness::new("annotated-weights").await;
    let hook = |name: &str, mut weights: Value| {
        weights["helm.sh/hook"] = json!("pre-install");
        job(name, weights)
    };
    let all = pack("blue")
        .object(hook("a", json!({"helm.sh/hook-weight": "3"})))
        .object(hook("b", json!({"sherpack.io/hook-weight": "2"})))
        .object(hook("c", json!({"helm.sh/hook-weight": "-1"})))
        .object(hook("d", json!({"sherpack.io/hook-weight": "-2", "helm.sh/hook-weight": "9"})));
    h.deploy("web", &all, json!({})).await;
    assert_eq!(story(&h, 0), ["d", "c", "b", "a", "settings"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stays_of_a_hook_is_what_either_delete_policy_says() {
    let h = Harness::new("annotated-deletes").await;
    let failing = |job| with_pod_annotation(job, "devcluster/fail", "true");
    let hook = |name: &str, mut annotations: Value| {
        annotations["sherpack.io/hook"] = json!("pre-install");
        annotations["sherpack.io/hook-failure-policy"] = json!("continue");
        job(name, annotations)
    };
    let all = pack("blue")
        .object(hook("ours-stays", json!({"sherpack.io/hook-delete-policy": "before-hook-creation"})))
        .object(hook("ours-goes", json!({"sherpack.io/hook-delete-policy": "hook-succeeded"})))
        .object(hook("ours-good", json!({"sherpack.io/hook-delete-policy": "hook-failed"})))
        .object(failing(hook("ours-bad", json!({"sherpack.io/hook-delete-policy": "hook-failed"}))))
        .object(hook("helm-stays", json!({"helm.sh/hook-delete-policy": "before-hook-creation"})))
        .object(hook("helm-goes", json!({"helm.sh/hook-delete-policy": "hook-succeeded"})))
        .object(hook("helm-good", json!({"helm.sh/hook-delete-policy": "hook-failed"})))
        .object(failing(hook("helm-bad", json!({"helm.sh/hook-delete-policy": "hook-failed"}))));
    h.deploy("web", &all, json!({})).await;
    let going = |job: &Value| job["metadata"]["deletionTimestamp"].is_string();
    let jobs = h.objects.list("Job", "sherpack.io/release-name=web").await.into_iter();
    let mut left: Vec<String> = jobs
        .filter(|job| !going(job))
        .map(|job| job["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["helm-good", "helm-stays", "ours-good", "ours-stays"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_whose_failure_is_to_fail_stops_its_operation() {
    let h = Harness::new("annotated-fails").await;
    let check =
        job("check", json!({"sherpack.io/hook": "pre-install", "sherpack.io/hook-failure-policy": "fail"}));
    let failing = with_pod_annotation(check, "devcluster/fail", "true");
    h.apply("web", &pack("blue").object(failing), json!({"install": {"retries": 0}})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.shows_states("web", &["1 failed"]).await;
    assert_eq!(story(&h, 0), ["check"]);
}
