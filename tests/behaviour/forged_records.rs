//! Whoever may write Secrets must not become the operator: a record without our seal is never acted on.

use serde_json::{Value, json};
use sherpack_operator::release::{Record, State};

use crate::support::packs::{config_map, deployment};
use crate::support::records::{pending_since, smuggle};
use crate::support::{Harness, Pack};

const OBJECTS: [&str; 3] = ["ConfigMap/settings", "ConfigMap/second", "Deployment/web"];

fn pack() -> Pack {
    Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(config_map("second", json!({"a": "b"})))
        .object(deployment("web", 1))
}

fn evil(namespace: &str) -> Value {
    let mut object = config_map("evil", json!({"a": "b"}));
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Nobody acted on the smuggled object, and all objects are those that were there.
async fn nothing_came_of_it(h: &Harness, uids: &[String]) {
    assert!(
        h.wire.writes_to("configmaps/evil", 0).is_empty(),
        "an object of the forged manifest was applied"
    );
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

/// The release waits for somebody, and nothing is done meanwhile.
async fn is_held(h: &Harness, uids: &[String]) {
    let mark = h.wire.mark();
    h.condition("web", "Ready", "False", Some("RecordKeyLost")).await;
    h.pass("web").await;
    for kind in ["configmaps", "deployments", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written");
    }
    nothing_came_of_it(h, uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_manifest_holds_the_release() {
    let h = Harness::new("forged-deployed").await;
    h.deploy("web", &pack(), json!({})).await;
    let (uids, namespace) = (h.objects.uids(&OBJECTS).await, h.namespace.clone());
    let genuine = h.record_secret("web", 1).await;
    h.forge("web", 1, |record| {
        // Without one object, so that a prune by it would take that away; with another colour and a new object.
        record.manifest = record.manifest.replace("blue", "red");
        smuggle(record, &evil(&namespace));
    })
    .await;
    is_held(&h, &uids).await;
    // Put back, it counts again.
    h.restore(genuine).await;
    h.ready("web").await;
    nothing_came_of_it(&h, &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_manifest_is_not_acted_on_by_the_next_process_either() {
    let h = Harness::new("forged-while-down").await;
    h.deploy("web", &pack(), json!({})).await;
    let (uids, namespace) = (h.objects.uids(&OBJECTS).await, h.namespace.clone());
    h.stop().await;
    h.forge("web", 1, |record| smuggle(record, &evil(&namespace))).await;
    h.start();
    is_held(&h, &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_pending_revision_is_never_resumed() {
    let h = Harness::new("forged-pending").await;
    h.deploy("web", &pack(), json!({})).await;
    let (uids, namespace) = (h.objects.uids(&OBJECTS).await, h.namespace.clone());
    let real = h.decoded("web", 1).await;
    let mut record = Record { version: 2, state: pending_since(3600), ..real.record };
    smuggle(&mut record, &evil(&namespace));
    // A private part and a good MAC, but of revision 1.
    let mut secret = h.record_secret("web", 1).await;
    let forged = h.as_another_tool(&record).await;
    secret.metadata.name.clone_from(&forged.metadata.name);
    secret.metadata.labels.clone_from(&forged.metadata.labels);
    let release = forged.data.unwrap()["release"].clone();
    secret.data.as_mut().unwrap().insert("release".to_owned(), release);
    h.restore(secret).await;

    is_held(&h, &uids).await;
    assert!(h.decoded("web", 2).await.private.is_none(), "nothing may seal it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_uninstall_deletes_nothing() {
    let h = Harness::new("forged-uninstall").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    let started_at = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    h.forge("web", 1, |record| record.state = State::PendingUninstall { started_at, timeout: 1 }).await;
    is_held(&h, &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_objects_of_a_forged_record_are_not_deleted_with_the_release() {
    let h = Harness::new("forged-delete").await;
    h.deploy("web", &pack(), json!({})).await;
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    let uids = h.objects.uids(&OBJECTS).await;
    h.forge("web", 1, |record| record.manifest.push('\n')).await;
    h.objects.delete("SherpackRelease/web").await;
    is_held(&h, &uids).await;
    // To let it go touches nothing.
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.gone("SherpackRelease/web").await;
    nothing_came_of_it(&h, &uids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_another_tool_that_wipes_our_part_makes_the_record_theirs() {
    let h = Harness::new("wiped").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    let record = h.decoded("web", 1).await.record;
    h.write_as_another_tool(&record).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    h.ready("web").await;
    // Ours from now on, with everything that was ours.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    nothing_came_of_it(&h, &uids).await;
    h.uninstall("web").await;
    for object in OBJECTS {
        assert!(h.objects.find(object).await.is_none(), "{object} is still there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_copied_under_another_release_s_name_gives_no_right_to_its_objects() {
    let h = Harness::new("copied").await;
    h.deploy("web", &pack(), json!({})).await;
    let uids = h.objects.uids(&OBJECTS).await;
    // As it is, under another name: it names another release inside.
    let mut copy = h.record_secret("web", 1).await;
    copy.metadata.name = Some(Record::key_of("thief", 1));
    copy.metadata.labels.as_mut().unwrap().insert("sherpack.io/release-name".to_owned(), "thief".to_owned());
    h.restore(copy).await;
    let loot = Pack::new("thief", "1.0.0").object(config_map("loot", json!({"a": "b"})));
    h.apply("thief", &loot, json!({})).await;
    h.condition("thief", "Ready", "False", Some("RecordUnreadable")).await;

    // With the name changed inside as well, and the seal of the first.
    let real = h.decoded("web", 1).await;
    let mut secret = h.record_secret("thief", 1).await;
    let renamed = Record { name: "thief".to_owned(), ..real.record };
    let release = h.write_as_another_tool(&renamed).await.data.unwrap()["release"].clone();
    secret.data.as_mut().unwrap().insert("release".to_owned(), release);
    h.restore(secret).await;
    h.shows_states("thief", &["1 superseded", "2 deployed"]).await;
    h.ready("thief").await;
    assert_eq!(h.objects.uids(&OBJECTS).await, uids);
    h.uninstall("thief").await;
    nothing_came_of_it(&h, &uids).await;
    h.shows_states("web", &["1 deployed"]).await;
}
