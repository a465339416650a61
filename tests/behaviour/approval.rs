//! `approval: Manual`: nothing new begins before a person has seen what it would do.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, hook};
use crate::support::{Harness, Pack};

fn pack(version: &str, color: &str) -> Pack {
    Pack::new("web", version).object(config_map("settings", json!({"color": color})))
}

fn second() -> Pack {
    pack("2.0.0", "green").object(config_map("more", json!({}))).object(hook("migrate", "pre-upgrade"))
}

fn digest(release: &Value) -> String {
    release["status"]["plan"]["digest"].as_str().unwrap_or_else(|| panic!("no plan in {release}")).to_owned()
}

async fn waits(h: &Harness, summary: &str) -> Value {
    h.sees("SherpackRelease/web", |release| {
        let ready = condition(release, "Ready");
        let told = release["status"]["plan"]["summary"].as_str().unwrap_or_default();
        ready["reason"] == "AwaitingApproval"
            && ready["message"].as_str().unwrap().contains(told)
            && told == summary
    })
    .await
}

async fn approve(h: &Harness, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"));
    command
        .args(["approve", "web", "-n", &h.namespace])
        .args(arguments)
        .env("KUBECONFIG", &h.settings.kubeconfig);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_begins_before_its_plan_is_approved_and_what_is_deployed_stays_locked() {
    let h = Harness::new("approval").await;
    h.apply("web", &pack("1.0.0", "blue"), json!({"approval": "Manual"})).await;
    let first = waits(&h, "installs web 1.0.0: creates ConfigMap/settings").await;
    assert!(h.wire.writes_to("configmaps", 0).is_empty() && h.records("web").await.is_empty());
    assert_eq!(condition(&first, "Stalled"), Value::Null);
    // What is approved has to be the plan that waits.
    h.annotate("web", "sherpack.io/approve", "sha256:of-something-else").await;
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("AwaitingApproval")).await;
    h.annotate("web", "sherpack.io/approve", digest(&first)).await;
    let ready = h.ready("web").await;
    assert!(ready["status"]["plan"].is_null(), "{ready}");

    h.pack("web-pack", &second()).await;
    let upgrade = waits(
        &h,
        "upgrades to web 2.0.0: creates ConfigMap/more; updates ConfigMap/settings; runs Job/migrate",
    )
    .await;
    assert_ne!(digest(&upgrade), digest(&first));
    // It costs nothing while it waits, and a restart does not ask for it anew.
    let mark = h.wire.mark();
    h.stop().await;
    h.start();
    h.operator_ready().await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    assert!(h.wire.writes_to("secrets", mark).is_empty(), "a revision was stored");
    waits(&h, "upgrades to web 2.0.0: creates ConfigMap/more; updates ConfigMap/settings; runs Job/migrate")
        .await;

    // Another pack is another plan: the approval of the one before is worth nothing.
    h.pack("web-pack", &pack("3.0.0", "white")).await;
    let third = waits(&h, "upgrades to web 3.0.0: updates ConfigMap/settings").await;
    h.annotate("web", "sherpack.io/approve", digest(&upgrade)).await;
    h.pass("web").await;
    let output = approve(&h, &["--digest", &digest(&upgrade)]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let output = approve(&h, &[]).await;
    assert_eq!(output.status.code(), Some(2), "nobody can be asked: {output:?}");
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "blue");
    let output = approve(&h, &["--yes", "--wait"]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("upgrades to web 3.0.0: updates ConfigMap/settings") && told.contains(&digest(&third)),
        "{told}"
    );
    h.shows("ConfigMap/settings", "/data/color", "white").await;
    assert!(h.objects.find("ConfigMap/more").await.is_none());
    let output = approve(&h, &["--yes"]).await;
    assert_eq!(output.status.code(), Some(1), "nothing waits any more: {output:?}");

    // The same inputs once more are a plan of their own.
    h.pack("web-pack", &second()).await;
    let again = waits(
        &h,
        "upgrades to web 2.0.0: creates ConfigMap/more; updates ConfigMap/settings; runs Job/migrate",
    )
    .await;
    assert_ne!(digest(&again), digest(&upgrade));
    // Without the wish nothing waits.
    h.edit_spec("web", json!({"approval": "Automatic"})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_the_way_of_a_plan_is_told_before_anybody_is_asked() {
    let h = Harness::new("approval-broken").await;
    h.deploy("web", &pack("1.0.0", "blue"), json!({})).await;
    h.edit_spec("web", json!({"approval": "Manual"})).await;
    h.ready("web").await;
    h.pack("web-pack", &pack("2.0.0", "green").template("broken.yaml", "{{ values.nothing.at.all }}")).await;
    h.condition("web", "Ready", "False", Some("RenderFailed")).await;
    h.pack("web-pack", &pack("2.0.1", "green")).await;
    let waiting = waits(&h, "upgrades to web 2.0.1: updates ConfigMap/settings").await;
    // A retry of what was approved needs no second approval, and its undoing none at all.
    let refuse = json!({"retries": 1, "onFailure": "Rollback"});
    h.edit_spec("web", json!({"upgrade": refuse, "timeout": "1s"})).await;
    let slow = crate::support::packs::with_pod_annotation(
        crate::support::packs::deployment("slow", 1),
        "devcluster/unready",
        "true",
    );
    h.pack("web-pack", &pack("2.0.2", "green").object(slow)).await;
    let doomed =
        waits(&h, "upgrades to web 2.0.2: creates Deployment/slow; updates ConfigMap/settings").await;
    assert_ne!(digest(&doomed), digest(&waiting));
    h.annotate("web", "sherpack.io/approve", digest(&doomed)).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 failed", "4 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}
