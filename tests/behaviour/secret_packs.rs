//! A pack in a Secret: the same as one in a ConfigMap.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::{PERSON, condition};
use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("shown", json!({"color": color})))
}

/// Sets the whole content of the Secret.
async fn put(h: &Harness, entries: &[(&str, Vec<u8>)]) {
    let data: serde_json::Map<String, Value> =
        entries.iter().map(|(key, bytes)| ((*key).to_owned(), json!(STANDARD.encode(bytes)))).collect();
    h.objects.server_side_apply("Secret/web-pack", PERSON, json!({"data": data})).await;
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_in_a_secret_is_installed_and_its_changes_are_rolled_out() {
    let h = Harness::new("secret-pack").await;
    h.release("web", json!({"pack": {"secret": {"name": "web-pack"}}})).await;
    let held = h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    assert!(message(&held).contains("Secret secret-pack/web-pack"), "{held}");
    put(&h, &[("web.tgz", pack("blue").archive())]).await;
    let release = h.ready("web").await;
    assert_eq!(release["status"]["pack"]["digest"], pack("blue").digest());
    h.shows("ConfigMap/shown", "/data/color", "blue").await;
    put(&h, &[("web.tgz", pack("red").archive())]).await;
    h.shows("ConfigMap/shown", "/data/color", "red").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    assert!(
        h.metric("sherpack_source_fetch_total", &["kind=\"Secret\"", "outcome=\"success\""]).await >= 2.0
    );
    // The same content written again, and a ConfigMap of the same name, are no news.
    put(&h, &[("web.tgz", pack("red").archive())]).await;
    h.pack("web-pack", &pack("green")).await;
    h.pass("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_the_secret_is_named_and_what_is_deployed_stays_locked() {
    let h = Harness::new("secret-pack-bad").await;
    put(&h, &[("web.tgz", pack("blue").archive())]).await;
    h.release("web", json!({"pack": {"secret": {"name": "web-pack"}}})).await;
    h.ready("web").await;
    let good = || ("web.tgz", pack("blue").archive());
    for (entries, reason, part) in [
        (vec![good(), ("b.tgz", b"x".to_vec())], "SourceInvalid", "spec.pack.secret.key"),
        (vec![("web.tgz", b"hunter2 is no archive".to_vec())], "PackNotAnArchive", "key `web.tgz` of Secret"),
        (vec![], "SourceNotFound", "in `data` of Secret secret-pack-bad/web-pack"),
    ] {
        put(&h, &entries).await;
        let held = h.condition("web", "Ready", "False", Some(reason)).await;
        assert!(message(&held).contains(part), "{held}");
        assert!(!held.to_string().contains("hunter2"), "{held}");
        h.objects.edit("ConfigMap/shown", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
        h.shows("ConfigMap/shown", "/data/color", "blue").await;
        put(&h, &[good()]).await;
        h.ready("web").await;
    }
    // A revision record is no place for a pack: nobody would hear of its changes.
    let label = json!({"metadata": {"labels": {"sherpack.io/storage-driver": "secrets"}}});
    h.objects.edit("Secret/web-pack", PERSON, label).await;
    let held = h.condition("web", "Ready", "False", Some("SourceInvalid")).await;
    assert!(message(&held).contains("sherpack.io/storage-driver"), "{held}");
    let unlabelled = json!({"metadata": {"labels": {"sherpack.io/storage-driver": null}}});
    h.objects.edit("Secret/web-pack", PERSON, unlabelled).await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
}
