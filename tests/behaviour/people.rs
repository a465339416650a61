//! What people see of their releases: lists, status, history, hooks.

use serde_json::{Value, json};
use sherpack_operator::release::{Record, State};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::people::Ran;
use crate::support::records::pending_since;
use crate::support::{Harness, Pack};

const DESCRIPTION: &str = "sherpack.io/description";

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .values("color: blue\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
        .object(config_map("fixed", json!({"a": "b"})))
}

/// [`pack`] with a Deployment that does not get ready.
fn stuck() -> Pack {
    pack().object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

fn messages(release: &Value) -> Vec<(i64, String)> {
    let history = release["status"]["history"].as_array().cloned().unwrap_or_default();
    let entry = |entry: &Value| {
        (entry["revision"].as_i64().unwrap(), entry["message"].as_str().unwrap_or_default().to_owned())
    };
    history.iter().map(entry).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_says_why_each_revision_was_made_and_the_condition_what_it_did() {
    let h = Harness::new("people-history").await;
    let ready = h.deploy("web", &pack().object(config_map("left", json!({"a": "b"}))), json!({})).await;
    assert_eq!(condition(&ready, "Released")["message"], "revision 1 is deployed: 3 created");

    h.annotate("web", DESCRIPTION, "Paint it green").await;
    // Packs come by another watch than annotations do, and may be faster.
    h.pass("web").await;
    let ready = h.deploy("web", &pack().values("color: green\n"), json!({})).await;
    let counts = "revision 2 is deployed: 1 updated, 1 unchanged, 1 pruned";
    assert_eq!(condition(&ready, "Released")["message"], counts);
    // Other passes leave it as it is.
    h.pass("web").await;
    let release = h.objects.get("SherpackRelease/web").await;
    assert_eq!(condition(&release, "Released")["message"], counts);

    h.annotate("web", DESCRIPTION, json!(null)).await;
    h.pass("web").await;
    let ready = h.deploy("web", &pack().values("color: red\n"), json!({})).await;
    let told = [(3, "Upgrade complete"), (2, "Paint it green"), (1, "Install complete")];
    assert_eq!(messages(&ready), told.map(|(revision, text)| (revision, text.to_owned())));
    assert_eq!(h.decoded("web", 2).await.record.labels[DESCRIPTION], "Paint it green");
    assert!(h.decoded("web", 3).await.record.labels.is_empty());

    let Ran { out, code, .. } = h.run(&["history", "web"]);
    assert_eq!(code, 0);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with("REVISION  UPDATED"), "{out}");
    for (line, parts) in lines[1..].iter().zip([
        ["1 ", "superseded", "web 1.0.0", "Install complete"],
        ["2 ", "superseded", "web 1.0.0", "Paint it green"],
        ["3 ", "deployed", "web 1.0.0", "Upgrade complete"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
    let rows = h.run(&["history", "web", "-o", "json"]).json();
    assert_eq!(rows[1]["description"], "Paint it green");
    assert_eq!(rows[1]["revision"], 2);

    // One that cannot be read is told of, and hides no other.
    h.damage("web", 1, |bytes| bytes.truncate(20)).await;
    let rows = h.run(&["history", "web", "-o", "json"]).json();
    assert_eq!((&rows[0]["state"], &rows[2]["state"]), (&json!("unreadable"), &json!("deployed")));

    let none = h.run(&["history", "nobody"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{}", none.err);
    assert!(none.err.contains("there is no SherpackRelease people-history/nobody"), "{}", none.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_lists_revisions_that_were_interrupted_or_recovered() {
    let h = Harness::new("people-ended").await;
    h.deploy("web", &pack(), json!({})).await;
    h.pack("web-pack", &stuck()).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.pack("web-pack", &pack().values("color: green\n")).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    let release = h.ready("web").await;
    assert_eq!(messages(&release)[1], (2, "Interrupted: other inputs are wanted now".to_owned()));
    assert_eq!(release["status"]["history"][1]["state"], "failed");

    let newest = h.decoded("web", 3).await.record;
    h.write_as_another_tool(&Record { version: 4, state: pending_since(601), ..newest }).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 superseded", "4 failed", "5 deployed"]).await;
    h.shows("SherpackRelease/web", "/status/history/0/revision", 5).await;
    let release = h.ready("web").await;
    let told = messages(&release);
    assert_eq!(told.iter().map(|(revision, _)| *revision).collect::<Vec<_>>(), [5, 4, 3, 2, 1]);
    assert!(told[1].1.starts_with("Recovered: "), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_listed_with_state_revision_pack_and_age() {
    let h = Harness::new("people-list").await;
    h.deploy("web", &pack(), json!({})).await;
    h.release("broken", json!({"pack": {"configMap": {"name": "nobody"}}})).await;
    h.condition("broken", "Ready", "False", Some("SourceNotFound")).await;

    let Ran { out, code, .. } = h.run(&["list"]);
    assert_eq!(code, 0);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "STATE", "REVISION", "PACK", "AGE"]);
    assert_eq!(lines[1][..6], ["broken", "False", "SourceNotFound", "-", "-", "-"]);
    assert_eq!(lines[2][..7], ["web", "True", "InstallSucceeded", "deployed", "1", "web", "1.0.0"]);
    let all = h.run(&["list", "--all-namespaces", "-o", "json"]).json();
    let ours = all.as_array().unwrap().iter().filter(|row| row["namespace"] == "people-list");
    let ours: Vec<&Value> = ours.collect();
    assert_eq!(ours.len(), 2);
    assert_eq!((&ours[1]["name"], &ours[1]["state"]), (&json!("web"), &json!("deployed")));
    assert_eq!(h.run(&["list", "--context", "none"]).code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_a_release_ends_with_the_next_command() {
    let h = Harness::new("people-status").await;
    h.deploy("web", &pack(), json!({})).await;
    let Ran { out, code, .. } = h.run(&["status", "web"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("Revision:  1, deployed\n"), "{out}");
    assert!(out.ends_with("\n  sherpack-operator history web -n people-status\n"), "{out}");

    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    let Ran { out, code, .. } = h.run(&["status", "web"]);
    assert_eq!(code, 1, "it is not Ready");
    assert!(out.contains("\nDocs: docs/reference/reasons.md#suspended\n"), "{out}");
    assert!(out.ends_with("\n  sherpack-operator resume web -n people-status\n"), "{out}");
    let json = h.run(&["status", "web", "-o", "json"]).json();
    assert_eq!(json["next"]["command"], "sherpack-operator resume web -n people-status");
    assert_eq!(json["status"]["revision"], 1);

    let none = h.run(&["status", "nobody"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    assert_eq!(h.run(&["status"]).code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_releases_are_listed_with_whose_they_are_and_until_when() {
    let h = Harness::new("people-stale").await;
    h.deploy("fine", &pack(), json!({"releaseName": "fine"})).await;
    let other = Pack::new("web", "1.0.0").object(config_map("web", json!({"a": "b"})));
    h.deploy("theirs", &other, json!({})).await;
    let own = Pack::new("web", "1.0.0").object(config_map("own", json!({"a": "b"})));
    h.deploy("ours", &own, json!({})).await;
    let none = h.run(&["list", "--stale"]);
    assert_eq!((none.code, none.out.lines().count()), (0, 1), "{}{}", none.out, none.err);

    h.stop().await;
    let first = h.decoded("theirs", 1).await.record;
    h.write_as_another_tool(&Record { version: 2, state: pending_since(0), ..first }).await;
    let decoded = h.decoded("ours", 1).await;
    let mut private = decoded.private.unwrap();
    private.holder = "operator-of-yore".to_owned();
    h.write_as_ours(&Record { version: 2, state: pending_since(700), ..decoded.record }, &private).await;
    // Ours, and it has time left: nothing holds it.
    let decoded = h.decoded("fine", 1).await;
    let record = Record { version: 2, state: pending_since(0), ..decoded.record };
    h.write_as_ours(&record, &decoded.private.unwrap()).await;

    let Ran { out, code, err } = h.run(&["list", "--stale"]);
    assert_eq!(code, 1, "{out}{err}");
    let lines: Vec<&str> = out.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{out}");
    for (line, parts) in lines.iter().zip([
        ["ours", "2 ", "pending-upgrade", "operator-of-yore", " ago"],
        ["theirs", "2 ", "pending-upgrade", "another tool", "in "],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
    let rows = h.run(&["list", "--stale", "-o", "json"]).json();
    let State::PendingUpgrade { .. } = h.decoded("ours", 2).await.record.state else { panic!("not pending") };
    let until = h.decoded("ours", 2).await.record.state.deadline().unwrap();
    assert_eq!(rows[0]["until"], format!("{until:.0}"));
    assert_eq!((&rows[0]["foreign"], &rows[0]["expired"]), (&json!(false), &json!(true)));
    assert_eq!((&rows[1]["foreign"], &rows[1]["expired"]), (&json!(true), &json!(false)));

    // What cannot be told is no "nothing".
    h.damage("fine", 2, |bytes| bytes.truncate(20)).await;
    let Ran { out, code, err } = h.run(&["list", "--stale"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("people-stale/fine"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hooks_of_a_revision_are_listed_whoever_wrote_it() {
    let h = Harness::new("people-hooks").await;
    h.deploy("web", &pack(), json!({})).await;
    h.stop().await;
    let mut record = Record { version: 2, ..h.decoded("web", 1).await.record };
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\n";
    record.hooks = serde_json::from_value(json!([
        {"name": "migrate", "phases": ["pre-upgrade"], "weight": 5, "resource": job},
        {"name": "check", "phases": ["test"], "weight": -5, "resource": job},
    ]))
    .unwrap();
    h.write_as_another_tool(&record).await;
    let Ran { out, code, .. } = h.run(&["get", "hooks", "web"]);
    assert_eq!(code, 0);
    let lines: Vec<Vec<&str>> = out.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["Job/check", "test", "-5"]);
    assert_eq!(lines[1][..3], ["Job/migrate", "pre-upgrade", "5"]);
    let rows = h.run(&["get", "hooks", "web", "-o", "json"]).json();
    assert_eq!(rows[1]["phases"], json!(["pre-upgrade"]));
    assert_eq!(h.run(&["get", "hooks", "web", "--revision", "1"]).code, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_finds_the_command_line_as_a_plugin() {
    let h = Harness::new("people-kubectl").await;
    h.deploy("web", &pack(), json!({})).await;
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("people-kubectl");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let plugin = directory.join("kubectl-sherpack");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sherpack-operator"), &plugin).unwrap();
    let kubectl = |arguments: &[&str]| {
        let output = std::process::Command::new(h.control_plane.bin.join("kubectl"))
            .arg("sherpack")
            .args(arguments)
            .env("PATH", &directory)
            .env("KUBECONFIG", &h.settings.kubeconfig)
            .output();
        Ran::of(output.unwrap())
    };
    let Ran { out, code, err } = kubectl(&["status", "web", "-n", "people-kubectl"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.ends_with("\n  kubectl sherpack history web -n people-kubectl\n"), "{out}");
    assert_eq!(kubectl(&["status", "nobody", "-n", "people-kubectl"]).code, 1);
    let help = kubectl(&["status", "--help"]).out;
    assert!(help.contains("Usage: kubectl sherpack status"), "{help}");
}
