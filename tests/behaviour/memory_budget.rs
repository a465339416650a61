//! Operations with large manifests: few at a time in memory, none while they wait, and nothing of them is lost.

use serde_json::json;

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, with_annotation, with_pod_annotation};
use crate::support::{Harness, Pack};

/// Objects of a megabyte together, and a wave before them that is not healthy until `heal`.
const LARGE: usize = 4;

fn pack(name: &str) -> Pack {
    let text = "{% for i in range(3000) %}abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrst\n    {% endfor %}";
    let first = with_pod_annotation(deployment(name, 1), "devcluster/unready", "true");
    let late =
        with_annotation(config_map(&format!("{name}-late"), json!({"a": "b"})), "sherpack.io/sync-wave", "1");
    let mut pack = Pack::new("web", "1.0.0").object(first).object(late);
    for index in 0..LARGE {
        let template = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}-{index}\n  annotations: {{sherpack.io/sync-wave: \"1\"}}\ndata:\n  n: \"{{{{ values.n }}}}\"\n  text: |\n    {text}\n"
        );
        pack = pack.template(&format!("large{index}.yaml"), &template);
    }
    pack.values("n: 1\n")
}

/// It has no more than the least that can be configured: each of these operations needs more, and works alone.
async fn harness(name: &str) -> Harness {
    let mut h = Harness::without_operator(name).await;
    h.settings.memory_budget = 4 << 20;
    h.start();
    h
}

async fn waits(h: &Harness, name: &str) {
    h.sees(&format!("SherpackRelease/{name}"), |release| {
        let waiting = &release["status"]["operation"]["waitingFor"][0];
        waiting["object"] == format!("Deployment {}/{name}", h.namespace)
            && release["status"]["operation"]["wave"] == 0
    })
    .await;
}

async fn is_ready_at(h: &Harness, revision: u32) {
    h.sees("SherpackRelease/web", |release| {
        release["status"]["revision"] == revision && condition(release, "Ready")["status"] == "True"
    })
    .await;
}

/// The whole manifest stands in the record, and every object is as it says.
async fn is_whole(h: &Harness, name: &str, revision: u32, n: &str) {
    let manifest = h.decoded(name, revision).await.record.manifest;
    assert!(manifest.len() > 1_000_000, "the manifest of {name} has {} bytes", manifest.len());
    for index in 0..LARGE {
        h.shows(&format!("ConfigMap/{name}-{index}"), "/data/n", n).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_waits_holds_no_memory_and_goes_on_with_all_of_its_manifest() {
    let h = harness("budget-waits").await;
    let names = ["one", "two", "three"];
    for name in names {
        h.apply(name, &pack(name), json!({})).await;
    }
    // Each needs all of the budget to get here, so none of the others still has it.
    for name in names {
        waits(&h, name).await;
    }
    // So does the next process, which reads the records again.
    h.kill();
    h.start();
    for name in names {
        h.heal(&format!("Deployment/{name}")).await;
    }
    for name in names {
        h.ready(name).await;
        is_whole(&h, name, 1, "1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deployed_of_a_large_manifest_is_locked_and_upgraded_and_undone() {
    let h = harness("budget-lock").await;
    h.apply("web", &pack("web"), json!({})).await;
    waits(&h, "web").await;
    h.heal("Deployment/web").await;
    h.ready("web").await;
    h.objects.edit("ConfigMap/web-2", "kubectl-edit", json!({"data": {"n": "by hand"}})).await;
    h.shows("ConfigMap/web-2", "/data/n", "1").await;
    let spec = json!({"values": {"n": 2}, "upgrade": {"retries": 0}});
    h.edit_spec("web", spec).await;
    is_ready_at(&h, 2).await;
    is_whole(&h, "web", 2, "2").await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    is_ready_at(&h, 3).await;
    is_whole(&h, "web", 3, "1").await;
    h.uninstall("web").await;
}
