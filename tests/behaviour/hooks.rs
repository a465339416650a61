//! Hooks: when they run, what their failure does, and what stays of them.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, hook, with_annotation, with_pod_annotation};
use crate::support::wait::wait_for;
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .values("color: blue\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
}

fn failing(job: Value) -> Value {
    with_pod_annotation(job, "devcluster/fail", "true")
}

/// Its pod runs and never ends.
fn hanging(job: Value) -> Value {
    with_pod_annotation(job, "devcluster/unready", "true")
}

fn message(release: &Value, type_: &str) -> String {
    condition(release, type_)["message"].as_str().unwrap_or_default().to_owned()
}

/// The writes to Jobs, ConfigMaps and Deployments in their order, such as `create migrate`.
fn story(h: &Harness, mark: usize) -> Vec<String> {
    let told = ["jobs", "configmaps", "deployments"];
    let writes = h
        .wire
        .writes_since(mark)
        .into_iter()
        .filter(|request| told.iter().any(|kind| request.is_about(kind)));
    writes
        .map(|request| {
            let named = request.path.rsplit('/').next().unwrap_or_default();
            let name = request.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(named);
            format!("{} {name}", request.verb)
        })
        .collect()
}

async fn end_pod_of(h: &Harness, job: &str) {
    wait_for("a pod of the Job", async || {
        let pods = h.objects.list("Pod", &format!("job-name={job}")).await;
        let Some(pod) = pods.iter().find(|pod| pod["status"]["phase"] == "Running") else {
            return Err("none runs".to_owned());
        };
        let name = pod["metadata"]["name"].as_str().unwrap();
        let ends = json!({"status": {"phase": "Succeeded"}});
        h.objects.edit_subresource(&format!("Pod/{name}"), "status", "test", ends).await;
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_run_round_the_objects_by_weight_and_name() {
    let h = Harness::new("hook-order").await;
    let weighed = |name: &str, phases: &str, weight: &str| {
        with_annotation(hook(name, phases), "sherpack.io/hook-weight", weight)
    };
    let all = pack()
        .object(weighed("second", "pre-install", "5"))
        .object(weighed("first", "pre-install", "-5"))
        .object(weighed("third", "pre-install", "5"))
        .object(hook("after", "post-install,post-upgrade"))
        .object(hook("later", "pre-upgrade"));
    h.deploy("web", &all, json!({})).await;
    let told = story(&h, 0);
    assert_eq!(told, ["create first", "create second", "create third", "apply settings", "create after"]);
    assert!(h.objects.find("Job/later").await.is_none());
    let results = h.decoded("web", 1).await.private.unwrap().hooks;
    let results: Vec<String> = results
        .iter()
        .map(|result| format!("{} {} {:?}", result.phase, result.object, result.failure))
        .collect();
    assert_eq!(
        results,
        [
            "pre-install Job/first None",
            "pre-install Job/second None",
            "pre-install Job/third None",
            "post-install Job/after None",
        ]
    );
    assert!(
        h.metric("sherpack_hook_results_total", &["phase=\"pre-install\"", "outcome=\"success\""]).await
            >= 3.0
    );

    // The next revision runs its own: the Job of before makes way for a new one.
    let before = h.objects.uids(&["Job/after"]).await;
    let mark = h.wire.mark();
    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    assert_eq!(story(&h, mark), ["create later", "apply settings", "delete after", "create after"]);
    assert_ne!(h.objects.uids(&["Job/after"]).await, before);
    // Hooks are no objects of the release: what becomes of them is nobody's drift.
    h.objects.delete("Job/after").await;
    h.pass("web").await;
    assert!(h.objects.find("Job/after").await.is_none());
    h.uninstall("web").await;
    for job in ["first", "second", "third", "later"] {
        h.gone(&format!("Job/{job}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_fails_stops_its_operation_with_its_last_words() {
    let h = Harness::new("hook-fails").await;
    let bad = pack().object(failing(hook("migrate", "pre-install")));
    h.apply("web", &bad, json!({"install": {"retries": 0}})).await;
    let failed = h.condition("web", "Released", "False", None).await;
    let text = message(&failed, "Released");
    assert!(text.contains("pre-install hook") && text.contains("Job hook-fails/migrate"), "{text}");
    assert!(text.contains("exit code 1"), "{text}");
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("exit code 1"), "{held}");
    assert!(h.objects.find("ConfigMap/settings").await.is_none(), "nothing was applied");
    let record = h.decoded("web", 1).await.record;
    assert!(format!("{:?}", record.state).contains("HookFailed: "), "{:?}", record.state);

    h.pack("web-pack", &pack().object(hook("migrate", "pre-install"))).await;
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_says_what_its_failure_does() {
    let h = Harness::new("hook-policy").await;
    let policy = |job, policy: &str| with_annotation(job, "sherpack.io/hook-failure-policy", policy);
    // continue: told, and that is all.
    let lenient = pack().object(policy(failing(hook("warm", "post-install,pre-upgrade")), "continue"));
    h.deploy("web", &lenient, json!({"upgrade": {"retries": 5}})).await;
    let results = h.decoded("web", 1).await.private.unwrap().hooks;
    assert!(results[0].failure.as_ref().is_some_and(|(reason, _)| reason == "HookFailed"), "{results:?}");

    // rollback: no further attempt, whatever retries say.
    let strict =
        pack().values("color: green\n").object(policy(failing(hook("check", "post-upgrade")), "rollback"));
    h.pack("web-pack", &strict).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    let back = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&back, "Ready").contains("post-upgrade hook"), "{back}");
    // It is locked as what it is.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    // What failed is still wanted, and comes once it works.
    h.pack("web-pack", &pack().values("color: green\n")).await;
    h.ready("web").await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_runs_again_as_often_as_it_says() {
    let h = Harness::new("hook-retries").await;
    let job = with_annotation(failing(hook("migrate", "pre-install")), "sherpack.io/hook-retries", "2");
    h.apply("web", &pack().object(job), json!({"install": {"retries": 0}})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert_eq!(
        story(&h, 0),
        ["create migrate", "delete migrate", "create migrate", "delete migrate", "create migrate"]
    );
    let attempts: Vec<u32> =
        h.decoded("web", 1).await.private.unwrap().hooks.iter().map(|result| result.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_never_ends_is_bounded_by_its_timeout() {
    let h = Harness::new("hook-timeout").await;
    let job = with_annotation(hanging(hook("migrate", "pre-install")), "sherpack.io/hook-timeout", "1s");
    h.apply("web", &pack().object(job), json!({"install": {"retries": 0}})).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("did not end within 1s"), "{held}");
    let results = h.decoded("web", 1).await.private.unwrap().hooks;
    assert!(results[0].failure.as_ref().is_some_and(|(reason, _)| reason == "HookTimeout"), "{results:?}");
}

/// The process dies before it makes the hook's object, and something else is wanted when the next one begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_never_began_has_no_result_and_runs_in_the_next_revision() {
    let h = Harness::new("hook-unbegun").await;
    let hooked = || pack().object(hook("migrate", "pre-install"));
    let makes = |request: &Request| request.verb == "create" && request.is_about("jobs");
    h.wire.fault(Fault::new(Effect::KillBefore, makes).once());
    h.apply("web", &hooked(), json!({})).await;
    h.wire.killed().await;
    h.wire.heal();
    h.pack("web-pack", &hooked().values("color: green\n")).await;
    h.start();
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
    assert_eq!(h.decoded("web", 1).await.private.unwrap().hooks, []);
    let results = h.decoded("web", 2).await.private.unwrap().hooks;
    assert!(results.len() == 1 && results[0].failure.is_none(), "{results:?}");
    let told = h.metric("sherpack_hook_results_total", &["outcome=\"failure\""]).await;
    assert!(told < 1.0, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_whose_object_vanishes_while_no_operator_runs_is_not_run_again_unasked() {
    let h = Harness::new("hook-vanished").await;
    let hooked = pack().object(hanging(hook("migrate", "pre-install")));
    h.apply("web", &hooked, json!({"install": {"retries": 0}})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "pre-install").await;
    h.kill();
    h.objects.delete("Job/migrate").await;
    h.gone("Job/migrate").await;
    h.start();
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("was deleted while it ran"), "{held}");
    assert_eq!(story(&h, 0), ["create migrate"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_whose_object_vanishes_is_an_error_and_not_run_again_unasked() {
    let h = Harness::new("hook-vanishes").await;
    h.apply(
        "web",
        &pack().object(hanging(hook("migrate", "pre-install"))),
        json!({"install": {"retries": 0}}),
    )
    .await;
    let shown = h.shows("SherpackRelease/web", "/status/operation/phase", "pre-install").await;
    assert_eq!(shown["status"]["operation"]["waitingFor"][0]["object"], "Job hook-vanishes/migrate");
    h.objects.delete("Job/migrate").await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("was deleted while it ran"), "{held}");
    assert_eq!(story(&h, 0), ["create migrate"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stays_of_a_hook_is_what_its_delete_policy_says() {
    let h = Harness::new("hook-deletes").await;
    let job = |name: &str, policy: &str| {
        with_annotation(hook(name, "pre-install"), "helm.sh/hook-delete-policy", policy)
    };
    let lenient = |job| with_annotation(job, "sherpack.io/hook-failure-policy", "continue");
    let all = pack()
        .object(job("kept", "before-hook-creation"))
        .object(job("done", "before-hook-creation,hook-succeeded"))
        .object(lenient(failing(job("bad", "hook-failed"))))
        .object(lenient(failing(job("bad-kept", "hook-succeeded"))))
        .object(job("only-failed", "hook-failed"));
    h.deploy("web", &all, json!({})).await;
    let mut left: Vec<String> = h
        .objects
        .list("Job", "sherpack.io/release-name=web")
        .await
        .iter()
        .map(|job| job["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["bad-kept", "kept", "only-failed"]);
    let kept = h.objects.get("Job/kept").await;
    assert!(
        kept["spec"].get("ttlSecondsAfterFinished").is_none(),
        "it goes by its policy and by nothing else"
    );
    h.uninstall("web").await;
    h.gone("Job/kept").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_an_earlier_run_that_may_stay_stands_in_the_way_by_name() {
    let h = Harness::new("hook-exists").await;
    let job = with_annotation(
        hook("migrate", "pre-install,pre-upgrade"),
        "helm.sh/hook-delete-policy",
        "hook-failed",
    );
    h.deploy("web", &pack().object(job), json!({"upgrade": {"retries": 0, "onFailure": "Retain"}})).await;
    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("before-hook-creation"), "{held}");
    // Somebody else's object is another matter.
    h.objects.create("somebody", hook("theirs", "pre-install")).await;
    h.apply(
        "api",
        &Pack::new("api", "1.0.0").object(hook("theirs", "pre-install")),
        json!({"install": {"retries": 0}}),
    )
    .await;
    let held = h.condition("api", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held, "Ready").contains("Job hook-exists/theirs"), "{held}");
    assert!(format!("{:?}", h.decoded("api", 1).await.record.state).contains("ObjectNotOwned"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_hook_is_awaited_before_another_spec_is_acted_on() {
    let h = Harness::new("hook-awaited").await;
    h.apply("web", &pack().object(hanging(hook("migrate", "pre-install"))), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "pre-install").await;
    let mark = h.wire.mark();
    h.pack("web-pack", &pack().values("color: green\n")).await;
    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    h.sees("SherpackRelease/web", |release| {
        release["status"]["observedGeneration"] == release["metadata"]["generation"]
    })
    .await;
    assert_eq!(story(&h, mark), Vec::<String>::new(), "the hook runs on");
    end_pod_of(&h, "migrate").await;
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
    let first = h.decoded("web", 1).await;
    assert!(format!("{:?}", first.record.state).contains("Interrupted"), "{:?}", first.record.state);
    assert_eq!(first.private.unwrap().hooks[0].failure, None, "its result was seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_awaits_a_running_hook_and_takes_away_what_was_begun() {
    let h = Harness::new("hook-half").await;
    h.apply("web", &pack().object(hanging(hook("slow", "post-install"))), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "post-install").await;
    h.objects.delete("SherpackRelease/web").await;
    h.sees("SherpackRelease/web", |release| release["metadata"]["deletionTimestamp"].is_string()).await;
    h.objects.get("ConfigMap/settings").await;
    let told = h.condition("web", "Ready", "Unknown", Some("Uninstalling")).await;
    assert!(
        message(&told, "Ready")
            .starts_with("uninstalling: first a hook of revision 1 has to end: waiting until"),
        "{told}"
    );
    end_pod_of(&h, "slow").await;
    h.gone("SherpackRelease/web").await;
    h.gone("ConfigMap/settings").await;
    h.gone("Job/slow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uninstall_runs_its_hooks_and_tries_one_that_fails_again() {
    let h = Harness::new("hook-uninstall").await;
    let all = pack().object(failing(hook("backup", "pre-delete"))).object(hook("farewell", "post-delete"));
    h.deploy("web", &all, json!({})).await;
    assert_eq!(story(&h, 0), ["apply settings"]);
    let mark = h.wire.mark();
    h.objects.delete("SherpackRelease/web").await;
    let held = h.condition("web", "Ready", "False", Some("HookFailed")).await;
    assert!(message(&held, "Ready").contains("pre-delete hook"), "{held}");
    h.objects.get("ConfigMap/settings").await;
    // Its next run ends as it should.
    wait_for("another run", async || {
        let runs = story(&h, mark).iter().filter(|line| *line == "create backup").count();
        if runs >= 2 { Ok(()) } else { Err(format!("{runs} runs")) }
    })
    .await;
    wait_for("a run that succeeds", async || {
        if h.objects.find("SherpackRelease/web").await.is_none() {
            return Ok(());
        }
        let pods = h.objects.list("Pod", "job-name=backup").await;
        for pod in pods
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running" || pod["status"]["phase"] == "Pending")
        {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let ends = json!({"metadata": {"annotations": {"devcluster/fail": null}}});
            h.objects.edit(&format!("Pod/{name}"), "test", ends).await;
        }
        Err("not yet".to_owned())
    })
    .await;
    h.gone("ConfigMap/settings").await;
    h.gone("Job/farewell").await;
    assert!(story(&h, mark).contains(&"create farewell".to_owned()));
    assert!(h.records("web").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uninstall_that_waits_for_a_hook_says_how_long_that_one_has() {
    let h = Harness::new("hook-uninstall-waits").await;
    h.deploy("web", &pack().object(hanging(hook("backup", "pre-delete"))), json!({})).await;
    h.objects.delete("SherpackRelease/web").await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "pre-delete").await;
    let told = h.condition("web", "Ready", "Unknown", Some("Progressing")).await;
    let (message, operation) = (message(&told, "Ready"), &told["status"]["operation"]);
    assert!(message.starts_with("uninstalling revision 1: waiting until "), "{message}");
    assert!(!message.contains("9999") && !operation["deadline"].to_string().contains("9999"), "{told}");
    end_pod_of(&h, "backup").await;
    h.gone("SherpackRelease/web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_kind_may_be_a_hook_and_a_name_may_be_left_open() {
    let h = Harness::new("hook-kinds").await;
    let mut job = hook("x", "pre-install");
    job["metadata"] = json!({"generateName": "seed-", "annotations": {"helm.sh/hook": "pre-install"}});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "once", "annotations": {"helm.sh/hook": "pre-install"}}});
    pod["spec"] = job["spec"]["template"]["spec"].clone();
    let all = pack().object(job).object(pod).object(with_annotation(
        config_map("early", json!({"a": "b"})),
        "sherpack.io/hook",
        "pre-install",
    ));
    h.apply("web", &all, json!({})).await;
    // That it runs is not the end of a hook.
    h.shows("Pod/once", "/status/phase", "Running").await;
    h.shows("SherpackRelease/web", "/status/operation/waitingFor/0/object", "Pod hook-kinds/once").await;
    h.objects.edit_subresource("Pod/once", "status", "test", json!({"status": {"phase": "Succeeded"}})).await;
    h.ready("web").await;
    h.objects.get("ConfigMap/early").await;
    let seeds = h.objects.list("Job", "sherpack.io/release-name=web").await;
    assert!(seeds[0]["metadata"]["name"].as_str().unwrap().starts_with("seed-"), "{seeds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_that_mean_nothing_are_named_and_nothing_is_applied() {
    let h = Harness::new("hook-mistakes").await;
    let annotated =
        |key: &str, value: &str| with_annotation(config_map("special", json!({"a": "b"})), key, value);
    let cases = [
        ("phase", annotated("sherpack.io/hook", "before-install"), "AnnotationInvalid", "before-install"),
        (
            "weight",
            with_annotation(hook("a", "pre-install"), "helm.sh/hook-weight", "heavy"),
            "AnnotationInvalid",
            "heavy",
        ),
        (
            "policy",
            with_annotation(hook("a", "pre-install"), "sherpack.io/hook-failure-policy", "ignore"),
            "AnnotationInvalid",
            "ignore",
        ),
        ("wave", annotated("sherpack.io/sync-wave", "first"), "AnnotationInvalid", "first"),
        ("nothing", annotated("sherpack.io/wait-for", "Job/nobody"), "WaitForInvalid", "Job/nobody"),
        (
            "circle",
            annotated("sherpack.io/wait-for", "ConfigMap/special"),
            "WaitForInvalid",
            "ConfigMap/special -> ",
        ),
    ];
    for (name, object, reason, named) in cases {
        h.apply(name, &pack().object(object), json!({})).await;
        let held = h.condition(name, "Ready", "False", Some(reason)).await;
        assert!(message(&held, "Ready").contains(named), "{name}: {held}");
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{name}");
        assert_eq!(h.records(name).await.len(), 0, "{name}");
    }
    let mut nameless = hook("x", "pre-install");
    nameless["metadata"].as_object_mut().unwrap().remove("name");
    h.apply("nameless", &pack().object(nameless), json!({})).await;
    let held = h.condition("nameless", "Ready", "False", Some("InvalidManifest")).await;
    assert!(message(&held, "Ready").contains("metadata.name"), "{held}");
    assert!(story(&h, 0).is_empty());
}
