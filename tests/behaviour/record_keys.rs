//! The key that seals records: without it nothing is taken for another tool's, and a process that has it keeps it.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, hook};
use crate::support::wait::{eventually, wait_for};
use crate::support::{Harness, Pack};

const KEY: &str = "Secret/sherpack-operator-record-key";
const OBJECTS: [&str; 3] = ["ConfigMap/settings", "Deployment/web", "Secret/web-gen"];

fn pack(color: &str) -> Pack {
    let mut generated = crate::support::packs::secret("web-gen", json!({}));
    generated["stringData"] = json!({"password": "{{ generate_secret('p', 12) }}"});
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": color})))
        .object(generated)
        .object(deployment("web", 1))
        .object(hook("migrate", "pre-install,pre-upgrade"))
}

async fn key(h: &Harness) -> k8s_openapi::api::core::v1::Secret {
    h.secrets().get("sherpack-operator-record-key").await.unwrap()
}

/// Another key in the place of the one that is lost.
async fn another_key(h: &Harness) {
    let mut other = key(h).await;
    h.objects.delete(KEY).await;
    other.data.as_mut().unwrap().insert("key".to_owned(), k8s_openapi::ByteString(vec![9; 32]));
    h.restore(other).await;
}

/// What must not change while a release is held.
async fn state(h: &Harness) -> Value {
    let record = h.objects.get("Secret/sh.sherpack.release.v1.web.v1").await;
    json!([h.objects.uids(&OBJECTS).await, h.objects.get("Secret/web-gen").await["data"], record["data"]])
}

fn digest(release: &Value) -> String {
    let message = condition(release, "Ready")["message"].as_str().unwrap().to_owned();
    let (_, digest) =
        message.split_once("sherpack.io/accept-record: ").unwrap_or_else(|| panic!("{message}"));
    digest.split([' ', ',', ';']).next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_made_while_a_release_has_records_and_all_goes_on_when_it_is_back() {
    let h = Harness::new("key-lost").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let before = state(&h).await;
    let backup = key(&h).await;
    h.stop().await;
    h.objects.delete(KEY).await;
    h.start();
    let waits =
        async || h.readiness().await.is_some_and(|text| text.contains("sherpack-operator-record-key"));
    eventually("the operator says that it waits for its key", waits).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    assert!(h.objects.find(KEY).await.is_none(), "a key was made");
    assert_eq!(state(&h).await, before);
    h.restore(backup).await;
    h.operator_ready().await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_has_the_key_writes_a_missing_secret_again() {
    let h = Harness::new("key-kept").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let before = key(&h).await;
    h.objects.delete(KEY).await;
    let again = h.sees(KEY, |_| true).await;
    assert_eq!(again["data"], json!(before.data), "{again}");
    wait_for("an Event tells of it", async || {
        let told = h.events("sherpack-operator-record-key", "RecordKeyRestored").await;
        if told.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    h.pass("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_key_is_unknown_holds_its_release_and_no_other() {
    let h = Harness::new("key-other").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let before = state(&h).await;
    let right = h.record_key().await;
    h.stop().await;
    another_key(&h).await;
    h.start();
    h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    // A release that has records of the new key goes on.
    let other = Pack::new("other", "1.0.0").object(config_map("other", json!({"a": "b"})));
    h.deploy("other", &other, json!({})).await;
    // Whatever is wanted: not corrected, not upgraded, not pruned, not started over, not deleted.
    let mark = h.wire.mark();
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.pack("web-pack", &Pack::new("web", "2.0.0").object(config_map("settings", json!({"color": "green"}))))
        .await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.pass("web").await;
    let held = h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    assert_eq!(condition(&held, "Stalled")["status"], "True", "{held}");
    h.annotate("web", "sherpack.io/reset-at", Value::Null).await;
    h.objects.delete("SherpackRelease/web").await;
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    for kind in ["configmaps/settings", "deployments", "secrets/web-gen", "jobs"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} was written");
    }
    assert_eq!(state(&h).await, before);
    // The right key is added without a restart, and the deletion goes on with what the record says.
    sherpack_operator::storage::add_key(&h.client, &h.namespace, right, false).await.unwrap();
    h.gone("SherpackRelease/web").await;
    for object in OBJECTS {
        assert!(h.objects.find(object).await.is_none(), "{object} is still there");
    }
    h.shows("SherpackRelease/other", "/status/revision", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_somebody_vouches_for_counts_again_without_a_revision() {
    let h = Harness::new("key-accept").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let job = h.objects.get("Job/migrate").await["metadata"]["uid"].clone();
    let (uids, password) =
        (h.objects.uids(&OBJECTS).await, h.objects.get("Secret/web-gen").await["data"].clone());
    // Not this release's any more.
    let unmarked = json!({"metadata": {"annotations": {"sherpack.io/applied": "somebody-else.1"}}});
    h.stop().await;
    another_key(&h).await;
    h.objects.edit("Deployment/web", "kubectl-edit", unmarked).await;
    h.start();
    let held = h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    h.annotate("web", "sherpack.io/accept-record", "sha256:another-one").await;
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    h.annotate("web", "sherpack.io/accept-record", digest(&held)).await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    let private = h.decoded("web", 1).await.private.unwrap();
    let kept: Vec<&str> = private.inventory.iter().map(|entry| entry.id.name.as_str()).collect();
    assert!(private.accepted && !kept.contains(&"web") && kept.len() == 2, "{kept:?}");
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    assert_eq!(h.objects.get("Secret/web-gen").await["data"], password);
    assert_eq!(h.objects.get("Job/migrate").await["metadata"]["uid"], job, "a hook ran");
    // Drift is told and not put back.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "red");
    // The next revision is proved again, with the secrets of before.
    h.edit_spec("web", json!({"install": {"adopt": "Unowned"}})).await;
    h.pack("web-pack", &pack("green")).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.ready("web").await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    assert_eq!(h.objects.get("Secret/web-gen").await["data"], password);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_rotated_seals_from_then_on_and_the_old_one_still_opens() {
    let h = Harness::new("key-rotate").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let old = h.record_key().await;
    let new = sherpack_operator::storage::random().unwrap();
    sherpack_operator::storage::add_key(&h.client, &h.namespace, new.clone(), true).await.unwrap();
    // A version that knows one key only finds none, and stops.
    let first = h.objects.get(KEY).await;
    assert!(first["data"]["key"].is_null(), "{first}");
    h.pass("web").await;
    h.pack("web-pack", &pack("green")).await;
    h.shows("SherpackRelease/web", "/status/revision", 2).await;
    h.ready("web").await;
    let sealed_with = async |revision: u32| {
        let secret = h.record_secret("web", revision).await;
        let envelope: Value = serde_json::from_slice(&secret.data.unwrap()["private"].0).unwrap();
        envelope["private"]["key"].as_str().unwrap().to_owned()
    };
    assert_eq!(sealed_with(2).await, new.id());
    // Both Secrets are written again while the process runs, and read by the next one.
    h.objects.delete("Secret/sherpack-operator-record-keys").await;
    let all = h.sees("Secret/sherpack-operator-record-keys", |_| true).await;
    assert!(all["data"][old.id()].is_string() && all["data"][new.id()].is_string(), "{all}");
    h.stop().await;
    h.start();
    h.operator_ready().await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows("SherpackRelease/web", "/status/revision", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_of_before_does_not_approve_after_a_loss() {
    let h = Harness::new("key-approval").await;
    h.apply("web", &pack("blue"), json!({"approval": "Manual"})).await;
    let waiting = h.condition("web", "Ready", "False", Some("AwaitingApproval")).await;
    let first = waiting["status"]["plan"]["digest"].as_str().unwrap().to_owned();
    h.annotate("web", "sherpack.io/approve", first.as_str()).await;
    h.ready("web").await;
    // Another tool's whole-object write wipes what is ours.
    let record = h.decoded("web", 1).await.record;
    h.write_as_another_tool(&record).await;
    let again = h.condition("web", "Ready", "False", Some("AwaitingApproval")).await;
    assert_ne!(again["status"]["plan"]["digest"], json!(first));
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    h.lose_record("web", 1).await;
    h.edit_spec("web", json!({"suspend": null})).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    let lost = h.condition("web", "Ready", "False", Some("AwaitingApproval")).await;
    assert_ne!(lost["status"]["plan"]["digest"], json!(first));
    assert!(h.records("web").await.is_empty(), "a revision was made");
}

fn operator(h: &Harness, arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
        .args(arguments)
        .args(["--operator-namespace", &h.settings.operator_namespace])
        .env("KUBECONFIG", &h.settings.kubeconfig)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_key_is_made_anew_when_a_person_says_so_and_the_old_one_can_come_back() {
    let h = Harness::new("key-cli").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("key-cli.json");
    let _ = std::fs::remove_file(&file);
    let file = file.to_str().unwrap();
    let exported = operator(&h, &["key", "export", "-o", file]);
    assert!(exported.status.success(), "{exported:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(operator(&h, &["key", "export", "-o", file]).status.code(), Some(2), "nothing is overwritten");
    assert_eq!(operator(&h, &["key", "new", "--yes"]).status.code(), Some(1), "there is one");

    h.stop().await;
    h.objects.delete(KEY).await;
    let asked = operator(&h, &["key", "new"]);
    let told = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.status.code() == Some(2) && told.contains("RecordKeyLost"), "{told}");
    assert!(h.objects.find(KEY).await.is_none());
    assert!(operator(&h, &["key", "new", "--yes"]).status.success());
    h.start();
    h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    // The old one comes back while the operator runs.
    let imported = operator(&h, &["key", "import", file]);
    assert!(imported.status.success(), "{imported:?}");
    h.ready("web").await;
    assert_eq!(h.records("web").await.len(), 1, "a revision was made");
    let rotated = operator(&h, &["key", "rotate"]);
    let id = String::from_utf8_lossy(&rotated.stdout).into_owned();
    let secret = h.objects.get("Secret/sherpack-operator-record-keys").await;
    assert_eq!(secret["data"].as_object().unwrap().len(), 4, "three keys and which one seals");
    assert!(rotated.status.success() && id.contains("seals from now on"), "{id}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_that_ended_half_way_is_ended_by_the_next_process_and_loses_no_key() {
    let h = Harness::new("key-halfway").await;
    h.deploy("web", &pack("blue"), json!({})).await;
    let (before, old) = (key(&h).await, h.record_key().await);
    h.stop().await;
    let new = sherpack_operator::storage::random().unwrap();
    sherpack_operator::storage::add_key(&h.client, &h.namespace, new.clone(), true).await.unwrap();
    // Before the first Secret was deleted, and before it was written again.
    for first in [Some(before), None] {
        h.objects.delete(KEY).await;
        if let Some(first) = first {
            h.restore(first).await;
        }
        h.start();
        h.sees(KEY, |secret| secret["data"]["key"].is_null()).await;
        h.pass("web").await;
        h.ready("web").await;
        h.stop().await;
    }
    let all = h.objects.get("Secret/sherpack-operator-record-keys").await;
    assert!(all["data"][old.id()].is_string() && all["data"][new.id()].is_string(), "{all}");
    assert_eq!(h.records("web").await.len(), 1);
}
