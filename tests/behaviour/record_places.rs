//! Revisions in ConfigMaps, in files, and in another namespace.

use serde_json::{Value, json};
use sherpack_operator::api::HistoryStorage;
use sherpack_operator::storage::Keeping;

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment};
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": color})))
        .object(deployment("web", 0))
}

/// A directory of this test alone.
fn scratch(name: &str) -> std::path::PathBuf {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Installs, upgrades, restarts, reverts drift made while nobody looked, and uninstalls.
async fn whole_life(h: &Harness, history: Value, keeping: &Keeping) {
    let target = h.namespace.clone();
    h.deploy("web", &pack("blue"), json!({ "history": history })).await;
    h.keeps_states(keeping, &target, "web", &["1 deployed"]).await;
    h.pack("web-pack", &pack("green")).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    h.keeps_states(keeping, &target, "web", &["1 superseded", "2 deployed"]).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.pass("web").await;

    h.stop().await;
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.start();
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.pass("web").await;
    h.ready("web").await;
    h.keeps_states(keeping, &target, "web", &["1 superseded", "2 deployed"]).await;
    let record = |request: &Request| request.path.contains("sh.sherpack.release");
    let written: Vec<String> =
        h.wire.writes_since(mark).iter().filter(|request| record(request)).map(Request::line).collect();
    assert!(written.is_empty(), "{written:?}");
    h.pack("web-pack", &pack("white")).await;
    h.shows("ConfigMap/settings", "/data/color", "white").await;
    h.keeps_states(keeping, &target, "web", &["1 superseded", "2 superseded", "3 deployed"]).await;

    h.uninstall("web").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
    h.keeps_states(keeping, &target, "web", &[]).await;
    // Nothing of the first one stands in the way of another one of its name.
    h.deploy("web", &pack("blue"), json!({ "history": history })).await;
    h.keeps_states(keeping, &target, "web", &["1 deployed"]).await;
    h.uninstall("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_lives_with_its_revisions_in_config_maps() {
    let h = Harness::new("kept-configmap").await;
    let keeping = Keeping { storage: HistoryStorage::ConfigMap, ..Keeping::default() };
    whole_life(&h, json!({"storage": "ConfigMap"}), &keeping).await;
    for kind in ["Secret", "ConfigMap"] {
        let left = h.objects.list(kind, "sherpack.io/release-name").await;
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_else_s_write_of_a_config_map_is_seen() {
    let h = Harness::new("kept-configmap-seen").await;
    h.deploy("web", &pack("blue"), json!({"history": {"storage": "ConfigMap"}})).await;
    let damaged = json!({"data": {"release": "AAAA"}});
    h.objects.edit("ConfigMap/sh.sherpack.release.v1.web.v1", "kubectl-edit", damaged).await;
    h.condition("web", "Ready", "False", Some("RecordUnreadable")).await;
    h.objects.delete("ConfigMap/sh.sherpack.release.v1.web.v1").await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_lives_with_its_revisions_in_files() {
    let mut h = Harness::without_operator("kept-file").await;
    let directory = scratch("kept-file");
    h.settings.storage_dir = Some(directory.clone());
    h.start();
    let keeping = Keeping { storage: HistoryStorage::File, ..Keeping::default() };
    whole_life(&h, json!({"storage": "File"}), &keeping).await;
    assert!(h.objects.list("Secret", "sherpack.io/release-name").await.is_empty());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_damaged_or_out_of_reach_stops_its_release_and_nothing_is_touched() {
    let mut h = Harness::without_operator("kept-file-damaged").await;
    let directory = scratch("kept-file-damaged");
    h.settings.storage_dir = Some(directory.clone());
    h.start();
    h.deploy("web", &pack("blue"), json!({"history": {"storage": "File"}})).await;
    h.stop().await;
    let file = directory.join("kept-file-damaged/web/v1.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..20]).unwrap();
    h.start();
    h.condition("web", "Ready", "False", Some("RecordUnreadable")).await;
    h.stop().await;
    std::fs::write(&file, whole).unwrap();

    // Started without the flag: the field is named, and the release goes on when the flag is back.
    h.settings.storage_dir = None;
    h.start();
    let held = h.condition("web", "Ready", "False", Some("InvalidSpec")).await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("spec.history.storage: ") && message.contains("--storage-dir"), "{message}");
    h.stop().await;
    h.settings.storage_dir = Some(directory);
    h.start();
    h.ready("web").await;
    assert_eq!(h.status("web").await["revision"], 1);
    h.uninstall("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_of_two_releases_of_one_name_live_in_a_third_namespace() {
    let mut h = Harness::without_operator("kept-elsewhere").await;
    h.settings.storage_namespaces = vec!["kept-elsewhere-vault".to_owned()];
    for name in ["kept-elsewhere-vault", "kept-elsewhere-a", "kept-elsewhere-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        h.objects.create("test", namespace).await;
    }
    h.start();
    let spec = |target: &str, vault: &str| json!({"releaseName": "web", "targetNamespace": target, "history": {"namespace": vault}});
    let keeping = Keeping { namespace: Some("kept-elsewhere-vault".to_owned()), ..Keeping::default() };
    for (name, target) in [("one", "kept-elsewhere-a"), ("two", "kept-elsewhere-b")] {
        h.deploy(name, &pack("blue"), spec(target, "kept-elsewhere-vault")).await;
        h.keeps_states(&keeping, target, "web", &["1 deployed"]).await;
    }
    let vault = h.objects.elsewhere("kept-elsewhere-vault");
    let names = async || {
        let found = vault.list("Secret", "sherpack.io/storage-driver").await;
        let mut names: Vec<String> =
            found.iter().map(|secret| secret["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let record = |target: &str| format!("sh.sherpack.release.v1.{target}.web.v1");
    assert_eq!(names().await, [record("kept-elsewhere-a"), record("kept-elsewhere-b")]);

    h.stop().await;
    let mark = h.wire.mark();
    h.start();
    h.pass("one").await;
    h.ready("two").await;
    let creates = |request: &&Request| request.verb == "create" && request.is_about("secrets");
    assert_eq!(h.wire.writes_since(mark).iter().filter(creates).count(), 0);
    // Somebody else's change is seen there too.
    vault.delete(&format!("Secret/{}", record("kept-elsewhere-b"))).await;
    h.condition("two", "Ready", "False", Some("RecordLost")).await;
    h.uninstall("one").await;
    assert_eq!(names().await, Vec::<String>::new());

    h.pack("three-pack", &pack("blue")).await;
    let mut refused = spec("kept-elsewhere-a", "kube-system");
    refused["pack"] = json!({"configMap": {"name": "three-pack"}});
    h.release("three", refused).await;
    let held = h.condition("three", "Ready", "False", Some("InvalidSpec")).await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("spec.history.namespace: "), "{message}");
}
