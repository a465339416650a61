//! Probes `http` and `command`: a wait is over when the object is healthy and its probe has succeeded.

use serde_json::{Value, json};

use crate::support::accounts::{ALL, rule};
use crate::support::harness::condition;
use crate::support::http_server::{Authority, HttpServer, Route};
use crate::support::packs::{config_map, deployment, service, with_annotation};
use crate::support::probed::{Switch, harness, probed, served_by};
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

/// Waits until the operation says that it waits for this; gives the message.
async fn waits_for(h: &Harness, name: &str, object: &str, says: &str) -> String {
    let reason = |release: &Value| {
        let waiting = release["status"]["operation"]["waitingFor"].as_array().cloned().unwrap_or_default();
        let entry = waiting.into_iter().find(|entry| entry["object"] == object);
        entry.and_then(|entry| Some(entry["reason"].as_str()?.to_owned())).unwrap_or_default()
    };
    let shown = |release: &Value| reason(release).contains(says);
    reason(&h.sees(&format!("SherpackRelease/{name}"), shown).await)
}

fn execs(h: &Harness, mark: usize) -> Vec<Request> {
    h.wire.since(mark).into_iter().filter(|request| request.path.ends_with("/exec")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_has_to_succeed_in_every_pod_before_the_next_wave() {
    let h = Harness::new("probe-command").await;
    let switch = Switch::new("command");
    let command = switch.command();
    let settings = [("type", "command"), ("command", &*command), ("container", "app")];
    let web = probed(deployment("web", 2), &settings);
    let late = with_annotation(config_map("late", json!({"a": "b"})), "sherpack.io/sync-wave", "1");
    h.apply("web", &Pack::new("web", "1.0.0").object(web).object(late), json!({})).await;
    let said = waits_for(&h, "web", "Deployment probe-command/web", "exit status 3").await;
    assert!(said.starts_with("its probe fails: pod web-") && said.ends_with(": no database"), "{said}");
    let waiting = h.condition("web", "Ready", "Unknown", Some("Progressing")).await;
    let message = condition(&waiting, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("its probe fails"), "{message}");
    assert!(h.objects.find("ConfigMap/late").await.is_none(), "its wave has not begun");

    // A process that comes later asks, too.
    h.kill();
    let mark = h.wire.mark();
    h.start();
    waits_for(&h, "web", "Deployment probe-command/web", "exit status 3").await;
    crate::support::wait::eventually("it is asked again", async || execs(&h, mark).len() > 2).await;
    h.shows_states("web", &["1 pending-install"]).await;
    switch.on();
    h.ready("web").await;
    h.objects.get("ConfigMap/late").await;
    let asked: std::collections::BTreeSet<String> =
        execs(&h, mark).into_iter().map(|request| request.path).collect();
    assert_eq!(asked.len(), 2, "both pods: {asked:?}");

    // Once it is deployed, nobody asks.
    drop(switch);
    let mark = h.wire.mark();
    h.pass("web").await;
    h.objects.edit("ConfigMap/late", "kubectl-edit", json!({"data": {"a": "c"}})).await;
    h.shows("ConfigMap/late", "/data/a", "b").await;
    assert!(execs(&h, mark).is_empty(), "it is asked although nothing waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ready_pod_and_a_bare_pod_are_asked_over_http_at_their_own_address() {
    let h = harness("probe-http").await;
    let server = HttpServer::start().await;
    let port = server.address.port();
    let settings = [("type", "http"), ("scheme", "http"), ("path", "/healthz?full=1"), ("port", "http")];
    let web = probed(served_by("web", 2, port), &settings);
    // As the kubelet, nobody asks by whom a certificate was signed.
    let secure = HttpServer::start_tls(&Authority::new(), &["web.example.com"], None).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "single", "annotations": {"devcluster/loopback": "true"}},
        "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}]},
    });
    let secure_port = secure.address.port().to_string();
    let exactly = [("scheme", "https"), ("path", "/single"), ("port", &*secure_port), ("status", "201")];
    server.serve("/healthz", Route::Status(503));
    secure.serve("/single", Route::Status(200));
    h.apply("web", &Pack::new("web", "1.0.0").object(web).object(probed(pod, &exactly)), json!({})).await;
    let said = waits_for(&h, "web", "Deployment probe-http/web", "status 503").await;
    let url = format!("GET http://127.0.0.1:{port}/healthz?full=1: status 503");
    assert!(said.starts_with("its probe fails: pod web-") && said.ends_with(&url), "{said}");
    waits_for(&h, "web", "Pod probe-http/single", "status 200").await;
    // A redirect is an answer, and is not followed.
    server.serve("/healthz", Route::Redirect(302, "/elsewhere".to_owned()));
    let only_the_pod = |release: &Value| {
        let waiting = release["status"]["operation"]["waitingFor"].as_array().cloned().unwrap_or_default();
        waiting.len() == 1 && waiting[0]["object"] == "Pod probe-http/single"
    };
    h.sees("SherpackRelease/web", only_the_pod).await;
    secure.serve("/single", Route::Status(201));
    h.ready("web").await;
    assert!(server.asked("/elsewhere").is_empty(), "a redirect was followed");
    let redirected = server.answers("/healthz?full=1").iter().filter(|status| **status == 302).count();
    assert!(redirected >= 2, "both pods: {redirected}");
    assert!(execs(&h, 0).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_asked_through_the_api_server_as_the_account_of_its_release() {
    let h = Harness::new("probe-service").await;
    let server = HttpServer::start().await;
    server.serve("/healthz", Route::Status(500));
    let port = server.address.port();
    let mut exposed = probed(service("web"), &[("path", "/healthz"), ("port", "80")]);
    exposed["spec"]["ports"][0]["targetPort"] = port.into();
    let pack =
        |replicas| Pack::new("web", "1.0.0").object(deployment("web", replicas)).object(exposed.clone());
    h.account("deployer").await;
    let objects = [rule(&[""], &["configmaps", "services"], &ALL), rule(&["apps"], &["deployments"], &ALL)];
    h.grant("deployer", &objects).await;
    let more = json!({"serviceAccountName": "deployer"});
    h.apply("web", &pack(0), more).await;
    // What was granted may not be known at first.
    h.sees("SherpackRelease/web", |release| {
        let ready = condition(release, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        ready["status"] == "False"
            && ready["reason"] == "Forbidden"
            && message.contains("get services/proxy in probe-service (http:web:80)")
    })
    .await;
    assert!(h.records("web").await.is_empty(), "a revision was made");

    let proxy = rule(&[""], &["services/proxy"], &["get"]);
    h.grant("deployer", &[&objects[..], &[proxy]].concat()).await;
    waits_for(&h, "web", "Service probe-service/web", "no endpoints available").await;
    h.pack("web-pack", &pack(1)).await;
    waits_for(&h, "web", "Service probe-service/web", "GET http://:80/healthz: status 500").await;
    server.serve("/healthz", Route::Status(200));
    h.ready("web").await;
    let path = "/api/v1/namespaces/probe-service/services/http:web:80/proxy/healthz";
    let asked: Vec<Request> = h.wire.since(0).into_iter().filter(|request| request.path == path).collect();
    assert!(!asked.is_empty());
    for request in &asked {
        assert_eq!(request.user, h.user("deployer"), "{}", request.line());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_wait_nothing_is_asked() {
    let h = Harness::new("probe-no-wait").await;
    let switch = Switch::new("no-wait");
    let web = probed(deployment("web", 1), &[("command", &switch.command())]);
    // Whoever does not wait needs no right to ask, either.
    h.account("deployer").await;
    h.grant("deployer", &[rule(&[""], &["configmaps"], &ALL), rule(&["apps"], &["deployments"], &ALL)]).await;
    let more = json!({"wait": false, "serviceAccountName": "deployer"});
    h.deploy("web", &Pack::new("web", "1.0.0").object(web), more).await;
    h.sees("Deployment/web", |object| object["status"]["readyReplicas"] == 1).await;
    h.pass("web").await;
    assert!(execs(&h, 0).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_that_wants_no_pods_has_nothing_to_answer() {
    let h = Harness::new("probe-no-pods").await;
    let switch = Switch::new("no-pods");
    let web = probed(deployment("web", 0), &[("command", &switch.command())]);
    h.deploy("web", &Pack::new("web", "1.0.0").object(web), json!({})).await;
    assert!(execs(&h, 0).is_empty());
}
