//! Packs inside packs: what is inside is healthy before the pack around it begins, and goes after it.

use serde_json::{Value, json};

use super::definitions::{size, what, widget, widgets};
use crate::support::kills::in_each_operation;
use crate::support::packs::{config_map, deployment, hook, with_annotation, with_pod_annotation};
use crate::support::{Effect, Harness, Pack};

/// It has a pod that runs and is not ready until `heal`.
fn slow(name: &str) -> Value {
    with_pod_annotation(deployment(name, 1), "devcluster/unready", "true")
}

fn config(name: &str, version: &str) -> Value {
    config_map(name, json!({"version": version}))
}

/// The files of a pack below `charts/` of another one.
fn inside(mut pack: Pack, inner: &Pack, name: &str) -> Pack {
    for (path, content) in &inner.files {
        pack = pack.file(&format!("charts/{name}/{path}"), content.clone());
    }
    pack
}

/// `web` around `api` around `db`; `logs` goes beside `web`.
fn pack(version: &str, db: Value) -> Pack {
    let db = Pack::new("db", "1.0.0").object(config("of-db", version)).object(db);
    let api = Pack::new("api", "1.0.0")
        .file(
            "Pack.yaml",
            "apiVersion: sherpack/v1\nmetadata: {name: api, version: 1.0.0}\ndependencies: [{name: db, version: 1.x}]\n",
        )
        // A wave of a pack orders what is in its own layer.
        .object(with_annotation(config("of-api", version), "sherpack.io/sync-wave", "-5"));
    let logs = Pack::new("logs", "1.0.0").object(config("of-logs", version));
    let own = format!(
        "apiVersion: sherpack/v1\nmetadata: {{name: web, version: {version}}}\n\
         dependencies: [{{name: api, version: 1.x}}, {{name: logs, version: 1.x, wait: false}}]\n"
    );
    let web = Pack::new("web", version).file("Pack.yaml", own).object(config("of-web", version));
    inside(inside(web, &inside(api, &db, "db"), "api"), &logs, "logs")
}

/// The names of objects in the order in which they were first written so since then.
fn order(h: &Harness, verb: &str, since: usize) -> Vec<String> {
    let mut names = Vec::new();
    for request in h.wire.writes_since(since).iter().filter(|request| request.verb == verb) {
        let name = request.path.rsplit('/').next().unwrap_or_default().to_owned();
        if ["of-db", "db", "of-api", "of-logs", "of-web"].contains(&name.as_str()) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_begins_when_those_inside_of_it_are_healthy_and_goes_before_them() {
    let h = Harness::new("layers-order").await;
    h.apply("web", &pack("1.0.0", slow("db")), json!({})).await;
    h.sees("SherpackRelease/web", |release| {
        let waits = &release["status"]["operation"]["waitingFor"][0]["object"];
        *waits == json!("Deployment layers-order/db")
    })
    .await;
    h.objects.get("ConfigMap/of-db").await;
    for later in ["of-api", "of-web", "of-logs"] {
        assert!(h.objects.find(&format!("ConfigMap/{later}")).await.is_none(), "{later} has begun");
    }
    // A killed operator goes on where it was.
    h.kill();
    h.start();
    h.heal("Deployment/db").await;
    h.ready("web").await;
    assert_eq!(order(&h, "apply", 0), ["of-db", "db", "of-api", "of-logs", "of-web"]);

    // What changes is rolled out in the same order, also on the way back.
    let mark = h.wire.mark();
    h.pack("web-pack", &pack("2.0.0", deployment("db", 1))).await;
    h.shows("ConfigMap/of-web", "/data/version", "2.0.0").await;
    h.ready("web").await;
    assert_eq!(order(&h, "apply", mark), ["of-db", "db", "of-api", "of-logs", "of-web"]);
    let mark = h.wire.mark();
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.shows("ConfigMap/of-db", "/data/version", "1.0.0").await;
    h.heal("Deployment/db").await;
    h.shows("ConfigMap/of-web", "/data/version", "1.0.0").await;
    h.ready("web").await;
    let written = order(&h, "apply", mark);
    let at = |name: &str| written.iter().position(|written| written == name).unwrap();
    assert!(at("of-db") < at("of-api") && at("of-api") < at("of-web"), "{written:?}");

    let mark = h.wire.mark();
    h.uninstall("web").await;
    let deleted = order(&h, "delete", mark);
    let at = |name: &str| deleted.iter().position(|deleted| deleted == name).unwrap();
    assert!(at("of-web") < at("of-api") && at("of-api") < at("db") && at("db") < at("of-db"), "{deleted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pack_defines_is_served_before_the_pack_around_it_uses_it() {
    let h = Harness::new("layers-definitions").await;
    let inner = Pack::new("store", "1.0.0")
        .file("crds/widgets.yaml", widgets(&h, &size()).to_string())
        .object(config("of-db", "1.0.0"));
    let web = Pack::new("web", "1.0.0").object(widget(&h, "own")).object(hook("before", "pre-install"));
    h.deploy("web", &inside(web, &inner, "store"), json!({})).await;
    let writes: Vec<String> = h
        .wire
        .writes_since(0)
        .iter()
        .filter(|request| ["apply", "create"].contains(&request.verb) && request.code < 300)
        .map(|request| request.path.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    let at = |name: &str| writes.iter().position(|written| written.starts_with(name)).unwrap();
    assert!(at("jobs") < at("widgets"), "hooks of all packs stand round the layers: {writes:?}");
    assert!(at("widgets") < at("of-db") && at("of-db") < at("own"), "{writes:?}");
    h.uninstall("web").await;
    h.objects.delete(&what(&h)).await;
}

async fn story(h: &Harness) {
    h.deploy("web", &pack("1.0.0", deployment("db", 1)), json!({})).await;
    h.pack("web-pack", &pack("2.0.0", deployment("db", 1))).await;
    for name in ["of-db", "of-api", "of-logs", "of-web"] {
        h.shows(&format!("ConfigMap/{name}"), "/data/version", "2.0.0").await;
    }
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.uninstall("web").await;
    for name in ["of-db", "of-api", "of-logs", "of-web"] {
        assert!(h.objects.find(&format!("ConfigMap/{name}")).await.is_none(), "{name} is left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_the_layers_go_on_where_they_were() {
    let breaks = in_each_operation(Effect::KillAfter, "layers-killed", (5, &[1, 3, 5]), story).await;
    breaks.at_least(20, "layers-killed");
    breaks.none_left_out(&[
        "create records",
        "update records",
        "apply configmaps",
        "delete configmaps",
        "apply deployments",
    ]);
}
