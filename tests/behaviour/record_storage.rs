//! Revisions that do not fit into one object: cut into pieces, or with their manifest apart.

use serde_json::{Value, json};
use sherpack_operator::storage::{Head, Keeping, Records};

use crate::support::kills::{at_each_write, in_each_operation};
use crate::support::packs::config_map;
use crate::support::{Effect, Harness, Pack};

/// A pack of `count` ConfigMaps with as many KiB each of digests, which no compression makes much smaller.
fn heavy(count: usize, kib: usize) -> Pack {
    let template = format!(
        "{{% for i in range({count}) %}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big-{{{{ i }}}}}}\n\
         data:\n  color: {{{{ values.color }}}}\n  noise: \"{{% for j in range({}) %}}\
         {{{{ (values.color ~ i ~ '-' ~ j) | sha256 }}}}{{% endfor %}}\"\n{{% endfor %}}\n",
        kib * 16
    );
    Pack::new("heavy", "1.0.0").values("color: blue\n").template("big.yaml", &template)
}

/// The parts of records that are there, and those that a record lists.
async fn parts(h: &Harness) -> (Vec<String>, Vec<String>) {
    let named = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let there = h.objects.list("Secret", "sherpack.io/chunk-parent").await.iter().map(named).collect();
    let records = h.objects.list("Secret", "sherpack.io/storage-driver,!sherpack.io/chunk-parent").await;
    let mut listed = Vec::new();
    for record in records {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let Some(text) = record["data"]["parts"].as_str() else { continue };
        let parts: Value = serde_json::from_slice(&STANDARD.decode(text).unwrap()).unwrap();
        for stream in parts.as_object().unwrap().values() {
            listed.extend(stream["names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()));
        }
    }
    (there, listed)
}

/// The parts that are there are those that the records list; gives their number.
async fn nothing_lies_about(h: &Harness) -> usize {
    let (mut there, mut listed) = parts(h).await;
    there.sort();
    listed.sort();
    assert_eq!(there, listed);
    there.len()
}

/// Installs, upgrades, restarts, reverts drift and uninstalls a release with a manifest of more than 5 MiB.
async fn whole_life(name: &str, history: Value, at_least: usize) {
    let h = Harness::new(name).await;
    let keeping = Keeping::default();
    let history = json!({ "history": history });
    h.deploy("web", &heavy(10, 520), history).await;
    h.keeps_states(&keeping, name, "web", &["1 deployed"]).await;
    let head = h.kept(&keeping).await.newest(name, "web").await.unwrap();
    let Head::Ours(stored) = head else { panic!("not ours: {head:?}") };
    assert!(stored.record.manifest.len() > 5 << 20, "{}", stored.record.manifest.len());
    let first = nothing_lies_about(&h).await;
    assert!(first >= at_least, "{first} parts");

    h.edit_spec("web", json!({"values": {"color": "green"}})).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    h.keeps_states(&keeping, name, "web", &["1 superseded", "2 deployed"]).await;
    assert!(nothing_lies_about(&h).await >= 2 * at_least);

    h.stop().await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/big-3", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.start();
    h.shows("ConfigMap/big-3", "/data/color", "green").await;
    h.pass("web").await;
    assert!(h.wire.writes_to("secrets", mark).is_empty(), "a record was written");
    // What is made again has another uid, and that is for the record to know.
    h.objects.delete("ConfigMap/big-7").await;
    h.sees("ConfigMap/big-7", |object| object["data"]["color"] == "green").await;
    h.pass("web").await;
    let made = h.wire.writes_to("secrets", mark).into_iter().filter(|request| request.verb != "update");
    assert_eq!(made.count(), 0, "a revision or a part of one was made or deleted");
    h.keeps_states(&keeping, name, "web", &["1 superseded", "2 deployed"]).await;

    h.uninstall("web").await;
    let left = h.objects.list("Secret", "sherpack.io/release-name").await;
    assert!(left.is_empty(), "left behind: {left:?}");
    assert!(h.objects.find("ConfigMap/big-0").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_five_mebibytes_lives_in_chunks() {
    // Not compressed: seven MiB of text.
    whole_life("large-chunked", json!({"compression": "None"}), 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_five_mebibytes_lives_with_its_manifest_apart() {
    whole_life("large-separate", json!({"large": "SeparateManifests"}), 4).await;
}

/// From a record in parts to one that is whole.
async fn shrinks(h: &Harness) {
    let (keeping, name) = (Keeping::default(), h.namespace.clone());
    let history = json!({"history": {"compression": "None"}});
    h.deploy("web", &heavy(2, 500), history).await;
    h.keeps_states(&keeping, &name, "web", &["1 deployed"]).await;
    // Small from now on: what was in parts is in one object.
    h.pack("web-pack", &Pack::new("heavy", "2.0.0").object(config_map("big-0", json!({"a": "b"})))).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    h.keeps_states(&keeping, &name, "web", &["1 superseded", "2 deployed"]).await;
    h.uninstall("web").await;
    let left = h.objects.list("Secret", "sherpack.io/release-name").await;
    let left: Vec<&Value> = left.iter().map(|object| &object["metadata"]["name"]).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

const KINDS: [&str; 5] =
    ["create chunks", "delete chunks", "create records", "update records", "delete records"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_on_a_chunked_record_the_story_ends_the_same() {
    let name = "crash-chunked";
    let breaks = in_each_operation(Effect::KillAfter, name, (5, &[1, 3, 5]), shrinks).await;
    breaks.at_least(16, name);
    breaks.none_left_out(&KINDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the whole matrix takes minutes: make test-all"]
async fn killed_after_any_write_of_a_chunked_record_the_next_process_ends_the_story_the_same() {
    let name = "crash-chunked-each";
    let breaks = at_each_write(Effect::KillAfter, name, shrinks).await;
    breaks.at_least(16, name);
    breaks.none_left_out(&KINDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_part_is_lost_is_stopped_and_nothing_of_it_is_touched() {
    let h = Harness::new("large-lost-part").await;
    h.deploy("web", &heavy(2, 500), json!({"history": {"compression": "None"}})).await;
    h.stop().await;
    let (there, _) = parts(&h).await;
    let lost = h.objects.get(&format!("Secret/{}", there[0])).await;
    h.objects.delete(&format!("Secret/{}", there[0])).await;
    h.start();
    let held = h.condition("web", "Ready", "False", Some("RecordUnreadable")).await;
    assert!(held["status"].to_string().contains(&there[0]), "{held}");
    assert!(h.objects.find("ConfigMap/big-1").await.is_some());
    // Restored as a backup tool does.
    h.restore(serde_json::from_value(lost).unwrap()).await;
    h.annotate("web", "sherpack.io/reconcile-at", "now").await;
    h.stop().await;
    h.start();
    h.ready("web").await;
    assert_eq!(h.status("web").await["revision"], 1);
}
