//! The API server, or what is behind it, goes away in the middle of an upgrade with hooks and waves. It comes back, and
//! the upgrade ends as if nothing had been: one revision, each hook once.
//!
//! Several releases, each in a namespace of its own and held at another place, go through it at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::crash_engine::late;
use crate::support::accounts::{ALL, rule};
use crate::support::control_plane::{self, ControlPlane};
use crate::support::packs::{config_map, deployment, hook, with_pod_annotation};
use crate::support::replica::signal;
use crate::support::wait::{eventually, wait_within};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack, tell};

/// Where an upgrade is when it happens.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The first write of this kind is on its way, and arrives while nobody answers.
    Sends(&'static str, &'static str),
    /// The pre-upgrade hook runs and does not end by itself.
    Hook,
    /// The first wave waits for a Deployment.
    Wave,
}

const PLACES: [Place; 6] = [
    Place::Sends("create", "secrets"),
    Place::Sends("update", "secrets"),
    Place::Sends("create", "jobs"),
    Place::Sends("apply", "deployments"),
    Place::Hook,
    Place::Wave,
];

fn pack(version: &str, color: &str) -> Pack {
    Pack::new("web", version)
        .object(config_map("settings", json!({"color": color})))
        .object(late(deployment("web", 1)))
        .object(hook("after", "post-install,post-upgrade"))
}

fn second(place: Place) -> Pack {
    let never = |object: Value| with_pod_annotation(object, "devcluster/unready", "true");
    let before = hook("before", "pre-upgrade");
    let pack = pack("2.0.0", "green");
    match place {
        Place::Sends(..) => pack.object(before),
        Place::Hook => pack.object(never(before)),
        Place::Wave => pack.object(before).object(never(deployment("slow", 1))),
    }
}

/// One release on its way from its first to its second revision.
struct Upgrade {
    h: Harness,
    place: Place,
}

impl Upgrade {
    /// Deploys the first revision, begins the second, and waits until it is at its place.
    async fn begin(plane: &'static ControlPlane, name: &str, number: usize, place: Place) -> Self {
        let h = Harness::on(plane, &format!("{name}-{number}")).await;
        h.start();
        // Half of them act as an account, whose rights the API server has to know again when it is back.
        let account = number.is_multiple_of(2);
        if account {
            h.account("deployer").await;
            let rules = [
                rule(&[""], &["configmaps"], &ALL),
                rule(&["apps"], &["deployments"], &ALL),
                rule(&["batch"], &["jobs"], &ALL),
                rule(&[""], &["pods"], &["get", "list"]),
                rule(&["apps"], &["replicasets"], &["get", "list"]),
            ];
            h.grant("deployer", &rules).await;
        }
        let first = pack("1.0.0", "blue").object(config_map("dropped", json!({"a": "b"})));
        let spec = if account { json!({"serviceAccountName": "deployer"}) } else { json!({}) };
        h.deploy("web", &first, spec).await;
        let upgrade = Self { h, place };
        upgrade.reach().await;
        upgrade
    }

    async fn reach(&self) {
        let h = &self.h;
        if let Place::Sends(verb, kind) = self.place {
            let held = move |request: &Request| request.verb == verb && request.is_about(kind);
            h.wire.fault(Fault::new(Effect::Hold, held).once());
        }
        let mark = h.wire.mark();
        h.pack("web-pack", &second(self.place)).await;
        match self.place {
            Place::Sends(verb, kind) => {
                eventually("the write is on its way", async || {
                    h.wire.since(mark).iter().any(|request| request.verb == verb && request.is_about(kind))
                })
                .await;
            }
            Place::Hook => {
                h.sees("Job/before", |job| job["status"]["active"] == 1).await;
            }
            Place::Wave => {
                h.sees("Deployment/slow", |object| object["status"]["unavailableReplicas"] == 1).await;
            }
        }
    }

    /// What was on its way is sent now.
    fn send(&self) {
        self.h.wire.heal();
        self.h.wire.release();
    }

    /// What did not end or get ready by itself does.
    async fn cure(&self) {
        match self.place {
            Place::Sends(..) => {}
            Place::Hook => self.h.heal("Job/before").await,
            Place::Wave => self.h.heal("Deployment/slow").await,
        }
    }

    /// The second revision is deployed, there is no third, and each hook ran once.
    async fn ends_well(&self, since: Instant) -> Duration {
        let Self { h, place } = self;
        wait_within(
            Duration::from_secs(120),
            &format!("{place:?}: the second revision is deployed"),
            async || {
                let (states, status) = (h.states("web").await, h.status("web").await);
                let ready = status["revision"] == 2 && states == ["1 superseded", "2 deployed"];
                if ready { Ok(()) } else { Err(format!("{states:?} {status}")) }
            },
        )
        .await;
        let took = since.elapsed();
        h.ready("web").await;
        h.shows("ConfigMap/settings", "/data/color", "green").await;
        h.gone("ConfigMap/dropped").await;
        for (job, phase) in [("before", "pre-upgrade"), ("after", "post-upgrade")] {
            let job = h.objects.get(&format!("Job/{job}")).await;
            let run = &job["metadata"]["annotations"]["sherpack.io/hook-run"];
            assert!(run.as_str().unwrap().ends_with(&format!(".2.{phase}.1")), "{place:?}: {run}");
        }
        // A second run would have had to delete the first one's Job. Only that of the first revision was deleted.
        let deleted: BTreeSet<String> = h
            .wire
            .writes_to("jobs", 0)
            .iter()
            .filter(|request| request.verb == "delete")
            .map(|request| request.body["preconditions"]["uid"].to_string())
            .collect();
        assert_eq!(deleted.len(), 1, "{place:?}: {deleted:?}");
        let results = h.decoded("web", 2).await.private.unwrap().hooks;
        let told: Vec<String> =
            results.iter().map(|result| format!("{} {}", result.object, result.attempt)).collect();
        assert_eq!(told, ["Job/before 1", "Job/after 1"], "{place:?}");
        took
    }
}

/// All of them at their places, then `trouble`, which sends what is on its way while nobody answers.
async fn through(name: &str, trouble: impl AsyncFnOnce(&'static ControlPlane, &[Upgrade])) {
    let own = control_plane::own().await;
    let plane = own.plane;
    let begun = PLACES.iter().enumerate().map(|(number, place)| Upgrade::begin(plane, name, number, *place));
    let upgrades = futures::future::join_all(begun).await;
    let began = Instant::now();
    trouble(plane, &upgrades).await;
    let over = Instant::now();
    futures::future::join_all(upgrades.iter().map(Upgrade::cure)).await;
    let took = futures::future::join_all(upgrades.iter().map(|upgrade| upgrade.ends_well(over))).await;
    let after: Vec<String> = took.iter().map(|took| format!("{:.1} s", took.as_secs_f64())).collect();
    tell(&format!(
        "{name}: {} upgrades, nobody answered for {:.1} s, and they were through {} later",
        upgrades.len(),
        (over - began).as_secs_f64(),
        after.join(", ")
    ));
    for upgrade in &upgrades {
        upgrade.h.uninstall("web").await;
        upgrade.h.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_is_killed_and_started_again_in_the_middle_of_an_upgrade() {
    through("server-restart", async |plane, upgrades| {
        let before = plane.pid("kube-apiserver");
        signal(before, "KILL");
        upgrades.iter().for_each(Upgrade::send);
        plane.api_server_after(before).await;
    })
    .await;
}

/// For 30 s nothing is read and nothing is written; what was sent meanwhile may take effect when nobody waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_stands_still_for_thirty_seconds_in_the_middle_of_an_upgrade() {
    through("etcd-stopped", async |plane, upgrades| {
        let etcd = plane.pid("etcd");
        signal(etcd, "STOP");
        upgrades.iter().for_each(Upgrade::send);
        // No condition can be waited for: nothing answers.
        tokio::time::sleep(Duration::from_secs(30)).await;
        signal(etcd, "CONT");
        plane.api_server_ready().await;
    })
    .await;
}
