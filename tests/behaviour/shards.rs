//! Operators that share the releases by label: each works on its own, and all know all.

use serde_json::{Value, json};

use crate::support::operator::{Operator, Probe, Settings};
use crate::support::packs::config_map;
use crate::support::wait::eventually;
use crate::support::wire::Wire;
use crate::support::{Harness, Pack};

struct Shard {
    _operator: Operator,
    wire: Wire,
    probe: Probe,
}

impl Shard {
    async fn start(h: &Harness, name: &str) -> Self {
        let labels = sherpack_operator::api::selector::parse(&format!("shard={name}")).unwrap();
        let settings =
            Settings { watch_labels: Some(labels), holder: format!("shard-{name}"), ..h.settings.clone() };
        let wire = Wire::default();
        let operator = Operator::start(&settings, &wire);
        let probe = Probe(operator.address);
        probe.ready().await;
        Self { _operator: operator, wire, probe }
    }

    /// How many releases of this name it tells about.
    async fn knows(&self, release: &str) -> f64 {
        self.probe.metric("sherpack_release_info", &[&format!("name=\"{release}\"")]).await
    }
}

fn pack(name: &str) -> Pack {
    Pack::new(name, "1.0.0").object(config_map(name, json!({"color": "blue"})))
}

async fn create(h: &Harness, name: &str, shard: Option<&str>, depends_on: Value) {
    h.pack(&format!("{name}-pack"), &pack(name)).await;
    h.objects
        .create(
            "test-person",
            json!({
                "apiVersion": "sherpack.io/v1alpha1", "kind": "SherpackRelease",
                "metadata": {"name": name, "labels": shard.map(|shard| json!({"shard": shard}))},
                "spec": {"pack": {"configMap": {"name": format!("{name}-pack")}}, "dependsOn": depends_on},
            }),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_worked_on_by_the_operator_that_selects_it_and_changes_hands_with_its_label() {
    let h = Harness::without_operator("shards").await;
    let (a, b) = (Shard::start(&h, "a").await, Shard::start(&h, "b").await);
    create(&h, "nobody", None, json!([])).await;
    // A dependency is known whoever works on it.
    create(&h, "next", Some("b"), json!([{"name": "web"}])).await;
    create(&h, "web", Some("a"), json!([])).await;
    h.ready("web").await;
    h.ready("next").await;
    assert!(a.wire.writes_to("configmaps/next", 0).is_empty());
    assert!(b.wire.writes_to("configmaps/web", 0).is_empty());
    assert_eq!((a.knows("web").await, b.knows("web").await), (1.0, 0.0));
    let nobody = h.objects.get("SherpackRelease/nobody").await;
    assert_eq!(
        (&nobody["status"]["conditions"], &nobody["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );

    h.objects
        .edit("SherpackRelease/web", "test-person", json!({"metadata": {"labels": {"shard": "b"}}}))
        .await;
    eventually("the one lets go and the other takes over", async || {
        a.knows("web").await == 0.0 && b.knows("web").await == 1.0
    })
    .await;
    let mark = a.wire.mark();
    h.objects.edit("ConfigMap/web", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/web", "/data/color", "blue").await;
    assert!(a.wire.writes_since(mark).is_empty(), "{:?}", a.wire.writes_since(mark));
    // No new revision for that.
    h.shows_states("web", &["1 deployed"]).await;
    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/web").await.is_none());
}
