//! Several operators, one leader: who acts, and how long it takes until another one does.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use sherpack_operator::operator::Error;
use sherpack_operator::operator::lease::Timing;

use crate::support::operator::{Operator, Probe, Settings};
use crate::support::packs::config_map;
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::{Request, Wire};
use crate::support::{Effect, Fault, Harness, Pack, Replica};

/// A lease of 5 s, renewed twice a second and given up after 3.5 s: short, and long enough for a busy machine.
pub(in crate::behaviour) fn quick() -> Timing {
    let millis = Duration::from_millis;
    Timing::new(LEASE, millis(3500), millis(500), millis(1400)).unwrap()
}

const LEASE: Duration = Duration::from_secs(5);

/// The same for a process.
pub(in crate::behaviour) const QUICK: [&str; 4] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3500ms",
    "--leader-elect-retry-period=500ms",
    "--leader-elect-request-timeout=1400ms",
];

/// One of several operators in this process.
struct One {
    operator: Operator,
    wire: Wire,
    probe: Probe,
}

impl One {
    fn start(h: &Harness, holder: &str) -> Self {
        let settings =
            Settings { leader_election: Some(quick()), holder: holder.to_owned(), ..h.settings.clone() };
        let wire = Wire::default();
        let operator = Operator::start(&settings, &wire);
        let probe = Probe(operator.address);
        Self { operator, wire, probe }
    }

    async fn leads(&self) -> bool {
        self.probe.http("/metrics").await.is_some_and(|text| text.contains("\nsherpack_leader 1\n"))
    }

    async fn led(&self) {
        eventually("it leads", async || self.leads().await).await;
    }
}

fn leases(h: &Harness) -> Api<Lease> {
    Api::namespaced(h.client.clone(), &h.namespace)
}

fn lease_name(h: &Harness) -> String {
    format!("sherpack-operator-{}", h.namespace)
}

pub(in crate::behaviour) async fn holder(h: &Harness) -> Option<String> {
    let lease = leases(h).get_opt(&lease_name(h)).await.unwrap()?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

fn pack() -> Pack {
    Pack::new("web", "1.0.0").object(config_map("web", json!({"color": "blue"})))
}

/// Somebody changes an object of the release; waits until it is put back.
async fn drift(h: &Harness) {
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
}

fn about_the_lease(request: &Request) -> bool {
    request.is_about("leases")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_operators_only_the_leader_acts_and_the_other_is_ready_and_idle() {
    let h = Harness::without_operator("lease-two").await;
    let first = One::start(&h, "first");
    first.led().await;
    let second = One::start(&h, "second");
    second.probe.ready().await;
    h.deploy("web", &pack(), json!({})).await;
    drift(&h).await;

    assert!(first.leads().await && !second.leads().await);
    assert_eq!(second.probe.metric("sherpack_leader", &[]).await, 0.0);
    second.probe.ready().await;
    let lease = leases(&h).get(&lease_name(&h)).await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some("first"));
    assert_eq!((lease.lease_duration_seconds, lease.lease_transitions), (Some(5), Some(0)));
    eventually("the lease is renewed", async || {
        let lease = leases(&h).get(&lease_name(&h)).await.unwrap().spec.unwrap();
        lease.acquire_time.unwrap() < lease.renew_time.unwrap()
    })
    .await;

    // It asks what version the API server has, and then for nothing but the lease; that it watches.
    let sent = second.wire.since(0);
    let only_looks = |request: &Request| {
        request.path == "/version" || (about_the_lease(request) && matches!(request.verb, "get" | "watch"))
    };
    assert!(sent.iter().all(only_looks), "{sent:?}");
    assert!(sent.iter().any(|request| request.verb == "watch" && request.code == 200), "{sent:?}");
    let mark = second.wire.mark();
    drift(&h).await;
    let sent = second.wire.since(mark);
    assert!(sent.len() <= 2, "standing by costs nothing but to begin a broken watch anew: {sent:?}");
    first.operator.stop().await;
    second.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_followed_when_its_lease_is_over_and_not_before() {
    let h = Harness::without_operator("lease-kill").await;
    let (first, second) = (One::start(&h, "first"), One::start(&h, "second"));
    eventually("one leads", async || first.leads().await || second.leads().await).await;
    let (leader, follower) = if first.leads().await { (first, second) } else { (second, first) };
    h.apply("web", &pack(), json!({})).await;
    // In the middle of the install: the record is there and nothing else.
    leader.wire.fault(Fault::on_writes(Effect::KillBefore, "configmaps/web").once());
    leader.wire.killed().await;
    let killed = Instant::now();
    leader.operator.kill();
    follower.led().await;
    let took = killed.elapsed();
    println!("followed {took:?} after the leader was killed, with a lease of {LEASE:?}");
    // The killed one might have acted for as long as its last renewal let it.
    assert!(took > LEASE - quick().renew_deadline(), "{took:?}: the lease was still the other one's");
    assert!(took < LEASE + Duration::from_millis(1500), "{took:?} with a lease of {LEASE:?}");
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    follower.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sigterm_the_lease_is_handed_over_in_under_two_seconds() {
    let h = Harness::without_operator("lease-hand-over").await;
    // A lease of 15 s: nobody waits for its end.
    let mut first = Replica::start(&h, "first", &[]).await;
    first.led().await;
    let second = Replica::start(&h, "second", &[]).await;
    h.deploy("web", &pack(), json!({})).await;
    let asked = Instant::now();
    first.terminate();
    second.led().await;
    let leads = asked.elapsed();
    // What it does first shows that it really works.
    drift(&h).await;
    println!("handed over {leads:?} after SIGTERM; drift is put back {:?} after it", asked.elapsed());
    assert!(leads < Duration::from_secs(2), "{leads:?}");
    assert_eq!(first.exit_code().await, Some(0), "{}", first.log());
    let last = first.wire.since(0).into_iter().rfind(Request::is_write).unwrap();
    assert!(about_the_lease(&last), "nothing is sent after the lease is given away: {last:?}");
    assert_eq!(last.body["spec"]["holderIdentity"], json!(null));
    let lease = leases(&h).get(&lease_name(&h)).await.unwrap().spec.unwrap();
    assert_eq!((lease.holder_identity.as_deref(), lease.lease_transitions), (Some("second"), Some(1)));
}

/// What is under way could take effect after the other one has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_not_given_away_while_a_write_is_under_way() {
    let h = Harness::without_operator("lease-busy").await;
    let first = One::start(&h, "first");
    first.led().await;
    let second = One::start(&h, "second");
    second.probe.ready().await;
    first.wire.fault(Fault::on_writes(Effect::HoldAnswer, "configmaps/web").once());
    h.apply("web", &pack(), json!({})).await;
    h.sees("ConfigMap/web", |_| true).await;
    let wire = first.wire.clone();
    let stopping = tokio::spawn(first.operator.stop());
    // Longer than it may begin anything new, and than a hand-over takes, it renews the lease and waits for the answer.
    let mark = wire.mark();
    eventually("it holds the lease for more than two seconds", async || {
        wire.writes_since(mark)
            .iter()
            .filter(|request| about_the_lease(request) && request.code == 200)
            .count()
            >= 5
    })
    .await;
    assert_eq!(holder(&h).await.as_deref(), Some("first"));
    assert!(!second.leads().await);
    let mark = wire.mark();
    wire.release();
    stopping.await.unwrap();
    second.led().await;
    let sent: Vec<Request> =
        wire.since(mark).into_iter().filter(|request| !about_the_lease(request)).collect();
    assert!(sent.is_empty(), "nothing begins a second after SIGTERM: {sent:?}");
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    second.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_cannot_renew_ends_before_another_one_begins() {
    let h = Harness::without_operator("lease-cut").await;
    let first = One::start(&h, "first");
    first.led().await;
    let second = One::start(&h, "second");
    second.probe.ready().await;
    h.deploy("web", &pack(), json!({})).await;
    first.wire.fault(Fault::new(Effect::DropBeforeSend, about_the_lease));
    let ended = first.operator.ended().await.unwrap_err();
    assert!(matches!(ended, Error::LeaseLost), "{ended}");
    assert!(!second.leads().await, "the other one waits out the whole lease");
    second.led().await;
    drift(&h).await;
    second.operator.stop().await;
}

/// Lost answers, and people and tools that touch the lease, do not unseat a leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_survives_lost_answers_a_label_and_a_deleted_lease() {
    let h = Harness::without_operator("lease-rough").await;
    let first = One::start(&h, "first");
    first.led().await;
    let second = One::start(&h, "second");
    second.probe.ready().await;
    let renewed = async |since: usize| {
        wait_for("two more renewals", async || {
            let sent = first.wire.since(since);
            let done = sent.iter().filter(|request| request.verb == "update" && request.code == 200).count();
            if done >= 2 { Ok(()) } else { Err(format!("{sent:?}")) }
        })
        .await;
    };
    let update = |request: &Request| about_the_lease(request) && request.verb == "update";
    first.wire.fault(Fault::new(Effect::DropAfterSend, update).once());
    renewed(first.wire.mark()).await;

    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    leases(&h).patch(&lease_name(&h), &PatchParams::default(), &label).await.unwrap();
    renewed(first.wire.mark()).await;
    let labels = leases(&h).get(&lease_name(&h)).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["team"], "a", "what others put there stays");

    leases(&h).delete(&lease_name(&h), &DeleteParams::default()).await.unwrap();
    eventually("it is made again", async || holder(&h).await.as_deref() == Some("first")).await;
    renewed(first.wire.mark()).await;
    assert!(first.leads().await && !second.leads().await);
    first.operator.stop().await;
    second.led().await;
    second.operator.stop().await;
}

/// A pod that is restarted with a fixed name is not its predecessor, which may still be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_of_one_name_do_not_act_at_once() {
    let h = Harness::without_operator("lease-namesake").await;
    let first = One::start(&h, "same");
    first.led().await;
    let second = One::start(&h, "same");
    second.probe.ready().await;
    h.deploy("web", &pack(), json!({})).await;
    drift(&h).await;
    assert!(first.leads().await && !second.leads().await);
    first.operator.kill();
    second.led().await;
    drift(&h).await;
    second.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durations_that_do_not_fit_together_end_the_start() {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(["run", "--leader-elect", "--leader-elect-renew-deadline=11s"])
        .output()
        .await
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("renew deadline (11s)") && error.contains("(15s)"), "{error}");
}
