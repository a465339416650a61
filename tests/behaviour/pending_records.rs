//! A revision that is pending: whose it is and what it wants decide what becomes of it.

use serde_json::json;
use sherpack_operator::release::{Private, Record, State};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_pod_annotation};
use crate::support::records::pending_since;
use crate::support::wait::eventually;
use crate::support::{Effect, Fault, Harness, Pack};

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .values("color: blue\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
        .object(deployment("web", 1))
}

/// [`pack`] with a Deployment that does not get ready.
fn stuck() -> Pack {
    pack().object(with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_revision_of_another_tool_is_left_alone_and_nothing_is_locked_meanwhile() {
    let h = Harness::new("pending-foreign").await;
    h.deploy("web", &pack(), json!({})).await;
    let first = h.decoded("web", 1).await.record;
    let mut second = Record { version: 2, state: pending_since(0), ..first };
    h.write_as_another_tool(&second).await;
    let held = h.condition("web", "Ready", "False", Some("ForeignPending")).await;
    assert_eq!(condition(&held, "Stalled")["status"], json!(null), "{held}");
    // Whose, and until when.
    let secret = h.record_secret("web", 2).await;
    let manager = secret.metadata.managed_fields.unwrap()[0].manager.clone().unwrap();
    let until = second.state.deadline().unwrap();
    assert_eq!(
        condition(&held, "Ready")["message"],
        format!(
            "revision 2 is pending-upgrade, held by another tool (field manager {manager}); it is left alone until {until:.0}"
        )
    );

    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "another-tool", json!({"data": {"color": "red"}})).await;
    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("ForeignPending")).await;
    for kind in ["configmaps", "deployments", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written");
    }
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");

    // The other tool is done: now our spec counts.
    second.state = State::Deployed;
    h.write_as_another_tool(&second).await;
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.objects.edit("ConfigMap/settings", "another-tool", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_revision_of_another_tool_is_recovered_after_its_own_timeout() {
    let h = Harness::new("pending-recover").await;
    h.deploy("web", &pack(), json!({})).await;
    let first = h.decoded("web", 1).await.record;
    h.write_as_another_tool(&Record { version: 2, state: pending_since(601), ..first }).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.ready("web").await;
    let State::Failed { reason, .. } = h.decoded("web", 2).await.record.state else { panic!("not failed") };
    assert!(reason.starts_with("Recovered"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_of_another_tool_is_respected_for_two_minutes() {
    let h = Harness::new("pending-recovering").await;
    h.deploy("web", &pack(), json!({})).await;
    let first = h.decoded("web", 1).await.record;
    let recovering = |ago: i64| State::Recovering {
        from_status: "pending-upgrade".to_owned(),
        attempt: 1,
        started_at: jiff::Timestamp::now() - jiff::SignedDuration::from_secs(ago),
    };
    h.write_as_another_tool(&Record { version: 2, state: recovering(0), ..first.clone() }).await;
    h.condition("web", "Ready", "False", Some("ForeignPending")).await;
    h.write_as_another_tool(&Record { version: 2, state: recovering(121), ..first }).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_revision_with_a_seal_that_is_not_ours_is_told_by_whom_it_says_it_is() {
    let h = Harness::new("pending-sealed").await;
    h.deploy("web", &pack(), json!({})).await;
    let first = h.decoded("web", 1).await;
    let mut private = Private { holder: "operator-of-yore".to_owned(), ..first.private.unwrap() };
    // Of this release it would hold it for its seal.
    private.owner.name = "another".to_owned();
    let second = Record { version: 2, state: pending_since(0), ..first.record };
    h.stop().await;
    h.write_as_ours(&second, &private).await;
    // Its seal does not fit what it says.
    h.forge("web", 2, |record| record.notes = Some("forged".to_owned())).await;
    h.start();
    let held = h.condition("web", "Ready", "False", Some("ForeignPending")).await;
    let told = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("held by an operator with another key (it says: operator-of-yore)"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_pending_revision_is_resumed_by_the_next_process() {
    let h = Harness::new("pending-resume").await;
    h.apply("web", &stuck(), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.start();
    h.heal("Deployment/slow").await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["revision"], 1);
    h.shows_states("web", &["1 deployed"]).await;
    // A pass is counted after its status is written.
    eventually("a pass that resumed", async || {
        h.metric("sherpack_reconcile_duration_seconds_count", &["\"Resume\""]).await > 0.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_revision_is_resumed_from_what_is_stored_although_its_source_is_gone() {
    let h = Harness::new("pending-no-source").await;
    h.wire.fault(Fault::on_writes(Effect::KillBefore, "deployments/web"));
    h.apply("web", &pack(), json!({})).await;
    h.wire.killed().await;
    h.wire.heal();
    h.objects.delete("ConfigMap/web-pack").await;
    h.start();
    h.shows_states("web", &["1 deployed"]).await;
    h.sees("Deployment/web", |_| true).await;
    h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    // Deployed and locked all the same.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_inputs_interrupt_a_wait_at_once() {
    let h = Harness::new("pending-interrupt").await;
    h.deploy("web", &pack(), json!({})).await;
    h.pack("web-pack", &stuck()).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.pack("web-pack", &pack().values("color: green\n")).await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    // What only the interrupted revision had made goes with the next one.
    assert!(h.objects.find("Deployment/slow").await.is_none());
    let State::Failed { reason, .. } = h.decoded("web", 2).await.record.state else { panic!("not failed") };
    assert!(reason.starts_with("Interrupted"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_inputs_interrupt_the_first_install_as_well() {
    let h = Harness::new("pending-interrupt-first").await;
    h.apply("web", &stuck(), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.stop().await;
    h.pack("web-pack", &pack()).await;
    h.start();
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
    assert!(h.objects.find("Deployment/slow").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_somebody_else_writes_meanwhile_ends_the_operation_without_a_lost_write() {
    let h = Harness::new("pending-conflict").await;
    h.apply("web", &stuck(), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    let mut theirs = h.decoded("web", 1).await.record;
    theirs.state = State::Failed {
        reason: "somebody ended it".to_owned(),
        recoverable: true,
        failed_at: jiff::Timestamp::now(),
    };
    h.write_as_another_tool(&theirs).await;
    h.shows("SherpackRelease/web", "/status/operation/revision", 2).await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    h.shows_states("web", &["1 failed", "2 deployed"]).await;
    let State::Failed { reason, .. } = h.decoded("web", 1).await.record.state else { panic!("not failed") };
    assert_eq!(reason, "somebody ended it");
}
