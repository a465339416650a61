//! A leader that ends without a word, with the lease that everybody has: 15 s.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::packs::{config_map, hook, with_pod_annotation};
use crate::support::wire::Request;
use crate::support::{Harness, Pack, Replica, tell};

/// The default of `--leader-elect-lease-duration`.
const LEASE: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_in_the_middle_of_a_hook_another_one_goes_on_within_the_default_lease() {
    let h = Harness::without_operator("lease-default").await;
    let mut first = Replica::start(&h, "first", &[]).await;
    first.led().await;
    let second = Replica::start(&h, "second", &[]).await;
    let hanging = with_pod_annotation(hook("before", "pre-install"), "devcluster/unready", "true");
    let pack = Pack::new("web", "1.0.0").object(config_map("web", json!({"color": "blue"}))).object(hanging);
    h.apply("web", &pack, json!({})).await;
    h.sees("Job/before", |job| job["status"]["active"] == 1).await;
    first.kill();
    let killed = Instant::now();
    first.ended().await;
    h.heal("Job/before").await;
    second.led().await;
    let leads = killed.elapsed();
    h.shows("ConfigMap/web", "/data/color", "blue").await;
    let acted = killed.elapsed();
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    let made = |replica: &Replica| {
        let made = |request: &&Request| request.verb == "create" && request.code == 201;
        replica.wire.writes_to("jobs", 0).iter().filter(made).count()
    };
    assert_eq!((made(&first), made(&second)), (1, 0), "the hook ran once");
    tell(&format!(
        "lease-default: killed in the middle of a hook; the other one led after {leads:.2?} and went on after \
         {acted:.2?}, with a lease of {LEASE:?}"
    ));
    // A moment for the machine, as in the other test of this.
    assert!(leads < LEASE + Duration::from_millis(1500), "{leads:?} with a lease of {LEASE:?}");
}
