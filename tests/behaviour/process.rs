//! The operator as a process: its probes, its metrics, its logs, its end.

use std::net::SocketAddr;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::http_proxy::HttpProxy;
use crate::support::http_server::{HttpServer, Route};
use crate::support::operator::Probe;
use crate::support::packs::{config_map, deployment, secret, with_pod_annotation};
use crate::support::process::Process;
use crate::support::wait::{LONG, eventually, wait_for};
use crate::support::{Harness, Pack};

async fn get(address: SocketAddr, path: &str) -> String {
    Probe(address).http(path).await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_and_metrics_tell_what_state_releases_are_in() {
    let h = Harness::without_operator("process-probes").await;
    let process = Process::start(&h, "info").await;
    Probe(process.address).ready().await;
    assert!(get(process.address, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(get(process.address, "/nothing").await.starts_with("HTTP/1.1 404"));

    h.deploy("web", &Pack::new("web", "1.2.3").object(config_map("web", json!({"a": "b"}))), json!({})).await;
    h.apply("bad", &Pack::new("bad", "1.0.0").template("a.yaml", "{{ nothing_like_it() }}"), json!({})).await;
    h.condition("bad", "Ready", "False", None).await;
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"a": "c"}})).await;
    h.shows("ConfigMap/web", "/data/a", "b").await;

    let reason = h.typed("bad").await.status.unwrap().conditions;
    let reason = reason.iter().find(|condition| condition.type_ == "Ready").unwrap().reason.clone();
    let of = |name: &str| [r#"namespace="process-probes""#.to_owned(), format!(r#"name="{name}""#)];
    let (web, bad) = (of("web"), of("bad"));
    let reason = format!(r#"reason="{reason}""#);
    let rows: [(&str, &[&str]); 14] = [
        (
            "sherpack_release_info",
            &[&web[0], &web[1], r#"pack="web""#, r#"version="1.2.3""#, r#"revision="1""#],
        ),
        (
            "sherpack_release_condition",
            &[&web[0], &web[1], r#"type="Ready",status="True",reason="InstallSucceeded""#],
        ),
        ("sherpack_release_condition", &[&bad[0], &bad[1], r#"type="Ready",status="False""#, &reason]),
        ("sherpack_reconcile_errors_total", &[&reason]),
        ("sherpack_revision_state", &[&web[0], &web[1], r#"state="deployed""#]),
        (
            "sherpack_drift_reverted_total",
            &[&web[0], &web[1], r#"kind="ConfigMap""#, r#"manager="kubectl-edit""#],
        ),
        (
            "sherpack_operation_duration_seconds_count",
            &[&web[0], &web[1], r#"action="install""#, r#"outcome="success""#],
        ),
        ("sherpack_drift_revert_seconds_count", &[]),
        ("sherpack_reconcile_duration_seconds_count", &[r#"decision="Install""#]),
        ("sherpack_api_requests_total", &[r#"verb="apply""#, r#"code="201""#]),
        ("sherpack_api_request_seconds_count", &[r#"verb="apply""#]),
        ("sherpack_source_fetch_total", &[r#"kind="ConfigMap""#, r#"outcome="success""#]),
        ("sherpack_leader", &[]),
        ("process_resident_memory_bytes", &[]),
    ];
    for (name, labels) in rows {
        wait_for(&format!("{name} {labels:?}"), async || {
            let value = Probe(process.address).metric(name, labels).await;
            if value > 0.0 { Ok(()) } else { Err(get(process.address, "/metrics").await) }
        })
        .await;
    }
    h.uninstall("web").await;
    let series = r#"namespace="process-probes",name="web""#;
    eventually("the series go with the release", async || {
        !get(process.address, "/metrics").await.contains(series)
    })
    .await;
    let (code, _) = process.stop().await;
    assert_eq!(code, Some(0));
}

/// What it waits for is not waited for: the release is taken up again by the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_on_a_signal_in_the_middle_of_a_wait_and_the_next_one_goes_on() {
    let h = Harness::without_operator("process-signal").await;
    let process = Process::start(&h, "info").await;
    let never = with_pod_annotation(deployment("web", 1), "devcluster/unready", "true");
    h.apply("web", &Pack::new("web", "1.0.0").object(never), json!({})).await;
    h.sees("SherpackRelease/web", |release| release["status"]["operation"]["phase"] == "Wait").await;
    let (code, _) = process.stop().await;
    assert_eq!(code, Some(0), "a stop that is asked for is no failure");
    h.heal("Deployment/web").await;

    let next = Process::start(&h, "info").await;
    h.ready("web").await;
    assert_eq!(h.records("web").await.len(), 1, "no second revision");
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_value_reaches_the_log() {
    let h = Harness::without_operator("process-log").await;
    let process = Process::start(&h, "trace").await;
    let pack = Pack::new("web", "1.0.0")
        .object(secret("web", json!({"password": "{{ values.password }}"})))
        .object(config_map("web", json!({"a": "b"})));
    h.deploy("web", &pack, json!({"values": {"password": "tall-green-giraffe"}})).await;
    let other = json!({"stringData": {"password": "small-red-beetle"}});
    h.objects.edit("Secret/web", "kubectl-edit", other).await;
    h.shows("Secret/web", "/data/password", "dGFsbC1ncmVlbi1naXJhZmZl").await;
    h.pass("web").await;
    h.uninstall("web").await;
    let (_, lines) = process.stop().await;
    assert!(lines.len() > 5, "a log at level trace: {lines:?}");
    let log = Value::from(lines).to_string();
    for value in ["giraffe", "dGFsbC1ncmVlbi1naXJhZmZl", "beetle", "c21hbGwtcmVkLWJlZXRsZQ"] {
        let at = log.find(value).map(|at| &log[at.saturating_sub(300)..(at + 40).min(log.len())]);
        assert_eq!(at, None, "{value} is in the log");
    }
}

/// It ends, for its supervisor to start it again, and says what it could not reach.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_api_server_it_ends_and_says_so() {
    let h = Harness::without_operator("process-alone").await;
    let nowhere = h.control_plane.kubeconfig.with_file_name("nowhere.kubeconfig");
    let mut config = kube::config::Kubeconfig::read_from(&h.control_plane.kubeconfig).unwrap();
    for cluster in &mut config.clusters {
        cluster.cluster.as_mut().unwrap().server = Some("https://127.0.0.1:1".to_owned());
    }
    std::fs::write(&nowhere, serde_json::to_string(&config).unwrap()).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(["run", "--listen=127.0.0.1:0", "--watch-namespace", &h.namespace])
        .env("KUBECONFIG", &nowhere)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(LONG, ended).await.unwrap().unwrap();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{error}");
    assert!(error.contains("https://127.0.0.1:1"), "{error}");
}

/// What a tenant writes is in the log, where only administrators read it, and never as a line of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_log_has_one_line_for_each_event_and_tells_what_is_withheld_from_tenants() {
    let h = Harness::without_operator("process-lines").await;
    let server = HttpServer::start().await;
    server.serve("/web.tgz", Route::Status(418));
    let proxy = HttpProxy::start(server.address, None).await;
    let log = std::env::temp_dir().join(format!("process-lines-{}", std::process::id()));
    let mut operator = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"));
    operator.args(["run", "--log-format=text", "--log-level=debug", "--listen=127.0.0.1:0"]);
    operator.args(["--watch-namespace", &h.namespace, "--operator-namespace", &h.namespace]);
    operator.env("KUBECONFIG", &h.control_plane.kubeconfig);
    operator.env("HTTP_PROXY", format!("http://{}", proxy.address));
    let mut child = operator
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let forged = "2026-01-01T00:00:00.000000Z  INFO sherpack_operator: forged";
    let template = format!("{{{{ fail(\"first\\n{forged}\") }}}}");
    h.apply("bad", &Pack::new("bad", "1.0.0").template("a.yaml", &template), json!({})).await;
    h.condition("bad", "Ready", "False", Some("RenderFailed")).await;
    h.release("web", json!({"pack": {"http": {"url": "http://10.0.0.7/web.tgz"}}})).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUnreachable")).await;
    assert!(!held.to_string().contains("418"), "{held}");
    let written = || std::fs::read_to_string(&log).unwrap();
    wait_for("the log tells both", async || {
        let log = written();
        if log.contains("answers 418") && log.contains("forged") { Ok(()) } else { Err(log) }
    })
    .await;
    child.kill().await.unwrap();
    for line in written().lines() {
        assert!(line.starts_with("20") && !line.starts_with(forged), "{line}");
    }
    std::fs::remove_file(&log).unwrap();
}
