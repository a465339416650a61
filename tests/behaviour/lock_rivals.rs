//! The lock: somebody who does not give up, controllers that change what we apply, and what must not be told.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, secret};
use crate::support::wait::wait_for;
use crate::support::{Harness, Pack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fight_is_named_and_cooled_down_and_everything_else_is_still_put_back_at_once() {
    let h = Harness::new("contended").await;
    let names = ["fought", "quiet"];
    let pack = Pack::new("web", "1.0.0")
        .objects(names.map(|name| config_map(name, json!({"color": "blue", "size": "small"}))));
    h.deploy("web", &pack, json!({})).await;
    let objects = h.objects.clone();
    let (before, began) = (h.wire.mark(), Instant::now());
    let rival = tokio::spawn(async move {
        loop {
            let red = json!({"data": {"color": "red"}});
            objects.edit("ConfigMap/fought", "rival-controller", red).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let release = h.condition("web", "Drifted", "True", Some("Contended")).await;
    let contended = &release["status"]["drift"]["contended"];
    assert_eq!(
        *contended,
        json!([{"object": "ConfigMap contended/fought", "manager": "rival-controller", "paths": ["/data/color"]}])
    );
    let message = condition(&release, "Drifted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("fought") && message.contains("rival-controller"), "{message}");

    h.shows("ConfigMap/fought", "/data/color", "red").await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/quiet", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/quiet", "/data/color", "blue").await;
    let first = h.wire.writes_since(mark).into_iter().find(|request| request.is_about("configmaps"));
    assert!(first.as_ref().is_some_and(|request| request.is_about("configmaps/quiet")), "{first:?}");
    // Three at once, then one in two seconds and ever fewer, however often the rival writes.
    let reverts = h.wire.writes_to("configmaps/fought", before).len() as u64;
    let most = 4 + began.elapsed().as_secs() / 2;
    assert!((3..=most).contains(&reverts), "{reverts} reverts, at most {most}");
    rival.abort();
    // When the rival has gone, the last word is ours, and what was told of the fight does not stay.
    h.shows("ConfigMap/fought", "/data/color", "blue").await;
    h.start();
    let release = h.condition("web", "Drifted", "False", None).await;
    let drift = &release["status"]["drift"];
    assert_eq!((&drift["count"], &drift["contended"]), (&json!(0), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_rests_while_a_pause_holds_what_is_due() {
    let h = Harness::new("contended-pause").await;
    let pack = Pack::new("web", "1.0.0").object(config_map("fought", json!({"color": "blue"})));
    h.deploy("web", &pack, json!({})).await;
    let red = json!({"data": {"color": "red"}});
    // Until it is put back no more at once, but at a time that has been set.
    loop {
        h.objects.edit("ConfigMap/fought", "rival-controller", red.clone()).await;
        h.pass("web").await;
        if h.objects.get("ConfigMap/fought").await["data"]["color"] == "red" {
            break;
        }
    }
    let until = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_hours(1)).unwrap();
    h.annotate("web", "sherpack.io/drift-pause-until", until.to_string()).await;
    h.condition("web", "Drifted", "Unknown", Some("DriftPaused")).await;
    h.rests("web").await;
}

/// What the operator logs, collected for the whole test binary.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_secrets_are_told_to_nobody() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter("sherpack_operator=trace")
        .with_writer(move || writer.clone())
        .try_init()
        .expect("no other test collects the log");
    let h = Harness::new("secret-values").await;
    let (ours, theirs) = ("Zq9-ours-in-clear-Zq9", "Zq9-theirs-in-clear-Zq9");
    let pack = Pack::new("web", "1.0.0").objects(
        ["password", "frozen", "gone"].map(|name| secret(name, json!({"user": "me", "password": ours}))),
    );
    h.deploy("web", &pack, json!({})).await;
    let watched = Pack::new("watched", "1.0.0").object(secret("watched", json!({"password": ours})));
    h.deploy("watched", &watched, json!({"drift": {"mode": "Warn"}})).await;

    let changed = json!({"data": {"password": STANDARD.encode(theirs)}});
    h.objects.edit("Secret/password", "kubectl-edit", changed.clone()).await;
    h.objects.edit("Secret/watched", "kubectl-edit", changed.clone()).await;
    h.objects.delete("Secret/gone").await;
    h.shows("Secret/password", "/data/password", STANDARD.encode(ours)).await;
    h.condition("web", "Drifted", "False", Some("DriftReverted")).await;
    h.condition("watched", "Drifted", "True", Some("DriftDetected")).await;
    // One that cannot be put back: the API server says why, and the release tells it.
    let mut frozen = changed;
    frozen["immutable"] = json!(true);
    h.objects.edit("Secret/frozen", "kubectl-edit", frozen).await;
    h.condition("web", "Ready", "False", Some("ImmutableField")).await;
    for (release, reason) in
        [("web", "DriftReverted"), ("web", "ImmutableField"), ("watched", "DriftDetected")]
    {
        wait_for("the Events are there", async || {
            let events = h.events(release, reason).await;
            if events.is_empty() { Err(format!("no {reason}")) } else { Ok(()) }
        })
        .await;
    }
    let drift = h.run(&["diff", "watched"]);
    assert_eq!(drift.code, 1, "{drift:?}");
    let metrics = h.metrics().await;
    assert!(metrics.contains("sherpack_drift_reverted_total{"), "{metrics}");
    h.stop().await;

    let mut told: Vec<Value> = h.objects.list("SherpackRelease", "").await;
    told.extend(h.objects.list("Event", "").await);
    let mut told: String = told.iter().map(Value::to_string).collect();
    assert!(told.contains("/data/password"), "the change itself is told");
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("secret-values/web"), "the log is collected");
    told.extend([logged, drift.out, drift.err, metrics]);
    for value in [ours, theirs] {
        let encoded = STANDARD.encode(value);
        assert!(!told.contains(value) && !told.contains(&encoded), "{value} is told");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_rewrites_what_we_apply_makes_no_loop() {
    let h = Harness::new("rewritten").await;
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": h.namespace}});
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
    let green = r#"[JSONPatch{op: "replace", path: "/data/color", value: "green"}]"#;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "rewritten"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
            "matchConditions": [{"name": "painted", "expression": "has(object.data) && 'color' in object.data"}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": green}}],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        },
    });
    h.objects.create("test", policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "rewritten"}, "spec": {"policyName": "rewritten"},
    });
    h.objects.create("test", binding).await;
    wait_for("the policy is in force", async || {
        let probe = json!({"data": {"color": "blue"}});
        let live = h.objects.server_side_apply("ConfigMap/probe", "test", probe).await;
        if live["data"]["color"] == "green" { Ok(()) } else { Err(live["data"].to_string()) }
    })
    .await;
    let rewritten = config_map("settings", json!({"color": "blue", "size": "small"}));
    let pack =
        Pack::new("web", "1.0.0").object(rewritten).object(config_map("last", json!({"size": "small"})));
    h.deploy("web", &pack, json!({})).await;
    let big = || json!({"data": {"size": "big"}});
    let until_seen = async || {
        h.objects.edit("ConfigMap/last", "kubectl-edit", big()).await;
        h.shows("ConfigMap/last", "/data/size", "small").await;
        h.pass("web").await;
    };
    until_seen().await;
    assert_eq!(h.wire.writes_to("configmaps/settings", 0).len(), 1, "the install alone");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", big()).await;
    h.shows("ConfigMap/settings", "/data/size", "small").await;
    until_seen().await;
    assert_eq!(h.wire.writes_to("configmaps/settings", 0).len(), 2, "the install and one revert");
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "green");
}

fn network_policy(name: &str, ingress: Option<Value>) -> Value {
    let mut spec = json!({"podSelector": {"matchLabels": {"app": name}}, "policyTypes": ["Ingress"]});
    if let Some(ingress) = ingress {
        spec["ingress"] = ingress;
    }
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explicit_empty_list_is_locked_and_a_missing_one_is_not() {
    let h = Harness::new("empty-list").await;
    let pack = Pack::new("web", "1.0.0")
        .object(network_policy("open", None))
        .object(network_policy("closed", Some(json!([]))));
    h.deploy("web", &pack, json!({})).await;
    let mark = h.wire.mark();
    let rule = json!({"spec": {"ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}});
    h.objects.edit("NetworkPolicy/open", "kubectl-edit", rule.clone()).await;
    h.objects.edit("NetworkPolicy/closed", "kubectl-edit", rule).await;
    let without_rules = |object: &Value| {
        let rules = object["spec"]["ingress"].as_array();
        rules.is_none_or(Vec::is_empty)
    };
    h.sees("NetworkPolicy/closed", without_rules).await;
    h.pass("web").await;
    assert_eq!(h.wire.writes_to("networkpolicies/open", mark).len(), 0);
    assert_eq!(h.wire.writes_to("networkpolicies/closed", mark).len(), 1);
    assert!(!without_rules(&h.objects.get("NetworkPolicy/open").await));
}
