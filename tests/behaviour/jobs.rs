//! Jobs that are no hooks: each runs once in a revision, whoever takes it away afterwards.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::objects::uid;
use crate::support::packs::{config_map, deployment, with_annotation, with_pod_annotation};
use crate::support::wait::{eventually, wait_for};
use crate::support::{Effect, Fault, Harness, Pack};

/// A Job that ends by itself and goes at once when it may.
pub(super) fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0, "ttlSecondsAfterFinished": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "example.com/job:1"}],
            }},
        },
    })
}

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color}))).object(job("once"))
}

pub(super) fn without_ttl(mut job: Value) -> Value {
    job["spec"].as_object_mut().unwrap().remove("ttlSecondsAfterFinished");
    job
}

fn slow() -> Value {
    with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true")
}

/// How often the operator made the Job: an apply of a Job that is not there.
fn made(h: &Harness, name: &str) -> usize {
    let writes = h.wire.writes_to(&format!("jobs/{name}"), 0);
    // One that has run is applied with its uid, which makes nothing.
    writes.iter().filter(|write| write.verb == "apply" && write.body["metadata"]["uid"].is_null()).count()
}

/// The lock has looked at everything that happened until now.
async fn until_seen(h: &Harness, color: &str) {
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "seen"}})).await;
    h.shows("ConfigMap/settings", "/data/color", color).await;
}

async fn ran(h: &Harness, revision: u32) -> bool {
    let private = h.decoded("web", revision).await.private.unwrap();
    private.inventory.iter().any(|entry| entry.ran.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_goes_after_its_end_runs_once_and_is_no_drift() {
    let h = Harness::new("job-ttl").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    h.gone("Job/once").await;
    until_seen(&h, "blue").await;
    h.pass("web").await;
    h.kill();
    h.start();
    h.operator_ready().await;
    until_seen(&h, "blue").await;
    h.pass("web").await;
    assert!(h.objects.find("Job/once").await.is_none());
    assert_eq!(made(&h, "once"), 1);
    let drifted = h.status("web").await["drift"]["objects"].to_string();
    assert!(!drifted.contains("/once"), "{drifted}");
    // The next revision has the same Job: it has run.
    h.pack("web-pack", &pack("green")).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    until_seen(&h, "green").await;
    assert_eq!(made(&h, "once"), 1);
    // Another body is another Job.
    let mut other = job("once");
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/job:2");
    let next =
        Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": "red"}))).object(other);
    h.pack("web-pack", &next).await;
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    h.gone("Job/once").await;
    assert_eq!(made(&h, "once"), 2);
    h.uninstall("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_somebody_removes_after_its_end_is_not_run_again_and_one_that_runs_is() {
    let h = Harness::new("job-removed").await;
    let running = with_annotation(
        with_pod_annotation(without_ttl(job("running")), "devcluster/unready", "true"),
        "sherpack.io/skip-wait",
        "true",
    );
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(without_ttl(job("once")))
        .object(running);
    h.deploy("web", &pack, json!({})).await;
    let before = uid(&h.objects.get("Job/running").await);
    h.objects.delete("Job/once").await;
    h.objects.delete("Job/running").await;
    h.sees("Job/running", |job| uid(job) != before).await;
    until_seen(&h, "blue").await;
    assert!(h.objects.find("Job/once").await.is_none());
    assert_eq!((made(&h, "once"), made(&h, "running")), (1, 2));
    // Its end is written down although no operation waited for it.
    h.heal("Job/running").await;
    wait_for("the end of the Job is in the record", async || {
        let private = h.decoded("web", 1).await.private.unwrap();
        let ended = private.inventory.iter().filter(|entry| entry.ran.is_some()).count();
        if ended == 2 { Ok(()) } else { Err(format!("{ended} have ended")) }
    })
    .await;
    h.objects.delete("Job/running").await;
    h.gone("Job/running").await;
    until_seen(&h, "blue").await;
    assert_eq!(made(&h, "running"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_keeps_its_result_until_that_is_written_down_and_the_next_process_does_not_run_it_again() {
    let h = Harness::new("job-crash").await;
    // It waits for another object of its wave when the process dies.
    h.apply("web", &pack("blue").object(slow()), json!({})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.gone("Job/once").await;
    assert!(ran(&h, 1).await, "it went before its end was written down");
    h.start();
    h.operator_ready().await;
    h.pass("web").await;
    h.heal("Deployment/slow").await;
    h.ready("web").await;
    assert_eq!(made(&h, "once"), 1);
}

/// Between the record and the apply of the ttl, which the next process makes up for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_ttl_was_not_applied_yet_gets_it_from_the_next_process() {
    let h = Harness::new("job-ttl-crash").await;
    let with_uid = |write: &crate::support::wire::Request| {
        write.verb == "apply" && write.is_about("jobs/once") && !write.body["metadata"]["uid"].is_null()
    };
    h.wire.fault(Fault::new(Effect::KillBefore, with_uid).once());
    h.apply("web", &pack("blue"), json!({})).await;
    h.wire.killed().await;
    assert!(ran(&h, 1).await);
    h.objects.get("Job/once").await;
    h.start();
    h.ready("web").await;
    h.gone("Job/once").await;
    assert_eq!(made(&h, "once"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_deleted_before_its_end_fails_the_operation() {
    let h = Harness::new("job-unfinished").await;
    let running = with_pod_annotation(job("once"), "devcluster/unready", "true");
    let pack = Pack::new("web", "1.0.0").object(running);
    h.apply("web", &pack, json!({"install": {"retries": 0}})).await;
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    h.objects.delete("Job/once").await;
    let failed = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    let told = condition(&failed, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("was deleted while it was waited for"), "{told}");
    assert!(!ran(&h, 1).await);
}

/// Nobody saw it go, and perhaps another one of its name come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_deleted_unfinished_while_no_operator_runs_is_not_made_again_by_the_same_operation() {
    for (name, replaced) in [("job-lost", false), ("job-replaced", true)] {
        let h = Harness::new(name).await;
        let running = with_pod_annotation(job("once"), "devcluster/unready", "true");
        h.apply("web", &Pack::new("web", "1.0.0").object(running), json!({"install": {"retries": 0}})).await;
        h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
        h.kill();
        h.objects.delete("Job/once").await;
        h.gone("Job/once").await;
        if replaced {
            h.objects.create("kubectl-create", without_ttl(job("once"))).await;
        }
        h.start();
        let failed = h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
        let told = condition(&failed, "Ready")["message"].as_str().unwrap().to_owned();
        assert!(told.contains("was deleted while it was waited for"), "{told}");
        assert_eq!((h.objects.find("Job/once").await.is_some(), made(&h, "once")), (replaced, 1));
        assert!(!ran(&h, 1).await);
    }
}

/// The process dies before the record says which Job it made: the marks of the Job do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_was_made_and_not_yet_written_down_is_gone_on_with() {
    let h = Harness::new("job-unwritten").await;
    let running = with_pod_annotation(job("once"), "devcluster/unready", "true");
    h.wire.fault(Fault::on_writes(Effect::KillAfter, "jobs/once").once());
    h.apply("web", &Pack::new("web", "1.0.0").object(running), json!({})).await;
    h.wire.killed().await;
    let before = uid(&h.objects.get("Job/once").await);
    h.start();
    h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
    assert_eq!(uid(&h.objects.get("Job/once").await), before);
    h.heal("Job/once").await;
    h.ready("web").await;
}

/// Without its ttl it would stand in the way of every attempt to come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_failed_goes_as_its_ttl_says_and_runs_again_with_the_next_attempt() {
    let h = Harness::new("job-failed").await;
    let failing = with_pod_annotation(job("once"), "devcluster/fail", "true");
    h.apply("web", &Pack::new("web", "1.0.0").object(failing), json!({"install": {"retries": 0}})).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.gone("Job/once").await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.records_show("web", &["1 failed", "2 failed"]).await;
    eventually("the Job ran twice", async || made(&h, "once") == 2).await;
}
