//! Probes that fail, hang, or may not be made: they hurt their own release only, and that one says why.

use serde_json::{Value, json};

use crate::support::accounts::{ALL, rule};
use crate::support::harness::condition;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::{config_map, deployment, hook};
use crate::support::probed::{Silent, Switch, harness, probed, served_by};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

fn web(switch: &Switch) -> Pack {
    Pack::new("web", "2.0.0").object(probed(deployment("web", 1), &[("command", &switch.command())]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_never_succeeds_ends_its_wave_at_the_deadline_and_the_release_goes_back() {
    let h = Harness::new("probe-rollback").await;
    let switch = Switch::new("rollback");
    let more = json!({"upgrade": {"retries": 0, "onFailure": "Rollback"}});
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("web", 1)), more).await;
    h.edit_spec("web", json!({"waves": {"timeout": "5s"}})).await;
    h.ready("web").await;
    h.pack("web-pack", &web(&switch)).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    let failed = format!("{:?}", h.decoded("web", 2).await.record.state);
    for part in
        ["ProbeFailed: not healthy within ", "Deployment probe-rollback/web: its probe fails: pod web-"]
    {
        assert!(failed.contains(part), "{failed}");
    }
    let web = h.objects.get("Deployment/web").await;
    assert!(web["metadata"]["annotations"]["sherpack.io/health-check"].is_null(), "{web}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_are_healthy_do_not_stand_for_a_probe_that_failed() {
    let h = Harness::new("probe-retain").await;
    let switch = Switch::new("retain");
    let more = json!({"upgrade": {"retries": 1, "onFailure": "Retain"}});
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("web", 1)), more).await;
    h.edit_spec("web", json!({"waves": {"timeout": "5s"}})).await;
    h.ready("web").await;
    h.pack("web-pack", &web(&switch)).await;
    let failed = h.condition("web", "Ready", "False", Some("ProbeFailed")).await;
    assert!(message(&failed).contains("Deployment probe-retain/web: its probe fails"), "{failed}");
    assert_eq!(condition(&failed, "Healthy")["reason"], "ProbeFailed");
    let held = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert!(message(&held).contains("its probe fails"), "{held}");
    h.pass("web").await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 failed"]).await;
    let (first, second) = (h.decoded("web", 2).await, h.decoded("web", 3).await);
    let waited = second.record.created_at.duration_since(first.record.updated_at);
    assert!(waited.as_secs() >= 5, "the second attempt was made after {waited}");

    switch.on();
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_that_hang_hold_no_worker_and_end_with_what_they_are_for() {
    // The operator of a test works on four releases at once.
    let h = harness("probe-hangs").await;
    let silent = Silent::start().await;
    let port = silent.address.port();
    for number in 0..5 {
        let name = format!("stuck-{number}");
        let settings = [("path", "/"), ("port", "http"), ("timeout", "5m")];
        let object = probed(served_by(&name, 1, port), &settings);
        h.apply(&name, &Pack::new(&name, "1.0.0").object(object), json!({"timeout": "1h"})).await;
    }
    eventually("all are asked", async || silent.open() == 5).await;
    let other = Pack::new("other", "1.0.0").object(config_map("other", json!({"color": "blue"})));
    h.deploy("other", &other.object(deployment("other", 1)), json!({})).await;
    h.objects.edit("ConfigMap/other", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/other", "/data/color", "blue").await;
    assert_eq!(silent.open(), 5);

    // Other inputs, a suspended release, one that is deleted, and the end of the process.
    h.deploy("stuck-0", &Pack::new("stuck-0", "2.0.0").object(deployment("stuck-0", 1)), json!({})).await;
    eventually("the old inputs are not asked for", async || silent.open() == 4).await;
    h.edit_spec("stuck-1", json!({"suspend": true})).await;
    h.condition("stuck-1", "Ready", "False", Some("Suspended")).await;
    eventually("a suspended release asks nobody", async || silent.open() == 3).await;
    h.uninstall("stuck-2").await;
    eventually("a deleted release asks nobody", async || silent.open() == 2).await;
    h.stop().await;
    eventually("a stopped operator asks nobody", async || silent.open() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_does_not_end_or_writes_without_end_fails_and_is_tried_again() {
    let h = Harness::new("probe-endless").await;
    for (name, command, says) in [
        ("sleeps", "exec sleep 20", "no answer within 1s"),
        ("writes", "exec yes", "wrote more than 1024 KiB"),
    ] {
        let settings = [("command", command), ("timeout", if name == "sleeps" { "1s" } else { "1m" })];
        let pack = Pack::new(name, "1.0.0").object(probed(deployment(name, 1), &settings));
        h.apply(name, &pack, json!({})).await;
        h.sees(&format!("SherpackRelease/{name}"), |release| message(release).contains(says)).await;
        h.shows_states(name, &["1 pending-install"]).await;
        let cured =
            Pack::new(name, "1.0.1").object(probed(deployment(name, 1), &[("command", r#"["true"]"#)]));
        h.deploy(name, &cured, json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_may_not_run_commands_is_told_before_and_while_it_is_needed() {
    let h = Harness::new("probe-rights").await;
    let switch = Switch::new("rights");
    switch.on();
    h.account("deployer").await;
    let objects = [rule(&[""], &["configmaps"], &ALL), rule(&["apps"], &["deployments"], &ALL)];
    h.grant("deployer", &objects).await;
    h.apply("web", &web(&switch), json!({"serviceAccountName": "deployer"})).await;
    // What was granted may not be known at first.
    let held = h
        .sees("SherpackRelease/web", |release| {
            let missing = ["get, create pods/exec in probe-rights", "list pods in probe-rights"];
            missing.iter().all(|missing| message(release).contains(missing))
        })
        .await;
    let ready = condition(&held, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("Forbidden")));
    assert!(h.records("web").await.is_empty(), "a revision was made");
    let probes = [rule(&[""], &["pods"], &["list"]), rule(&[""], &["pods/exec"], &["get", "create"])];
    h.grant("deployer", &[&objects[..], &probes].concat()).await;
    h.ready("web").await;
    let mine = h.wire.since(0).into_iter().filter(|request| request.path.ends_with("/exec"));
    for request in mine {
        assert_eq!((request.user.clone(), request.code), (h.user("deployer"), 101), "{}", request.line());
    }

    // What is known of its rights is old by now: the call that needs one of them tells.
    h.grant("deployer", &[&objects[..], &probes[..1]].concat()).await;
    eventually("the right is gone", async || !h.may("deployer", "create", "pods/exec").await).await;
    let next = Pack::new("web", "3.0.0").object(config_map("more", json!({"a": "b"})));
    let next = next.object(probed(deployment("web", 1), &[("command", &switch.command())]));
    h.pack("web-pack", &next).await;
    let failed = h
        .sees("SherpackRelease/web", |release| {
            let ready = condition(release, "Ready");
            ready["status"] == "False" && ready["reason"] == "Forbidden"
        })
        .await;
    assert!(message(&failed).contains("pods/exec"), "{failed}");
    h.grant("deployer", &[&objects[..], &probes].concat()).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_of_the_operator_itself_is_not_asked_unless_it_is_allowed() {
    let h = Harness::new("probe-loopback").await;
    let server = HttpServer::start().await;
    server.serve("/healthz", Route::Status(200));
    let settings = [("path", "/healthz"), ("port", "http")];
    let object = probed(served_by("web", 1, server.address.port()), &settings);
    h.apply("web", &Pack::new("web", "1.0.0").object(object), json!({"timeout": "1h"})).await;
    let refused = h.condition("web", "Ready", "False", Some("ProbeRefused")).await;
    for part in ["Deployment probe-loopback/web", "a loopback address", "--allow-source"] {
        assert!(message(&refused).contains(part), "{part}: {refused}");
    }
    assert!(server.asked("/healthz").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_in_the_network_of_its_node_is_not_asked_unless_the_node_is_allowed() {
    let mut h = Harness::new("probe-node").await;
    let server = HttpServer::start().await;
    server.serve("/healthz", Route::Status(200));
    let port = server.address.port().to_string();
    let settings = [("path", "/healthz"), ("port", &*port)];
    let mut object = probed(deployment("web", 1), &settings);
    object["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    h.apply("web", &Pack::new("web", "1.0.0").object(object), json!({"timeout": "1h"})).await;
    let refused = h.condition("web", "Ready", "False", Some("ProbeRefused")).await;
    for part in ["Deployment probe-node/web", "the address of the pod's node", "--allow-source"] {
        assert!(message(&refused).contains(part), "{part}: {refused}");
    }
    assert!(server.asked("/healthz").is_empty());
    h.kill();
    h.settings.sources.allow = vec!["127.0.0.1".parse().unwrap()];
    h.start();
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.ready("web").await;
    assert!(!server.asked("/healthz").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_means_nothing_is_named_and_nothing_is_touched() {
    let h = Harness::new("probe-mistakes").await;
    let job = {
        let mut job = hook("job", "pre-install");
        job["metadata"]["annotations"] = json!({});
        job
    };
    let settings = [("path", "/"), ("port", "http")];
    for (name, object, says) in [
        (
            "job",
            probed(job, &settings),
            "Job probe-mistakes/job: the annotation `sherpack.io/health-check` is for",
        ),
        ("hook", probed(hook("hook", "pre-install"), &settings), "Job probe-mistakes/hook: "),
        (
            "half",
            probed(deployment("half", 1), &[("path", "/")]),
            "Deployment probe-mistakes/half: an http probe needs the annotation `sherpack.io/health-check-port`",
        ),
        (
            "word",
            probed(deployment("word", 1), &[("type", "tcp")]),
            "`sherpack.io/health-check-type` is `tcp`",
        ),
    ] {
        h.apply(name, &Pack::new(name, "1.0.0").object(object), json!({})).await;
        let held = h.condition(name, "Ready", "False", Some("AnnotationInvalid")).await;
        assert!(message(&held).contains(says), "{held}");
        assert_eq!(condition(&held, "Stalled")["status"], "True");
        assert!(h.records(name).await.is_empty(), "{name}");
    }
    assert!(h.wire.writes_to("deployments", 0).is_empty() && h.wire.writes_to("jobs", 0).is_empty());
    // Mended, it goes on.
    h.deploy("half", &Pack::new("half", "1.0.1").object(deployment("half", 1)), json!({})).await;
}
