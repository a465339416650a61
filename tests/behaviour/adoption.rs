//! What was there before a release is not the release's to lose: it is handed back, unless a revision with it was deployed.

use serde_json::{Value, json};
use sherpack_operator::release::Record;

use super::foreign_heads::failed;
use super::jobs::{job, without_ttl};
use crate::support::harness::{PERSON, condition};
use crate::support::kills::in_each_operation;
use crate::support::objects::uid;
use crate::support::packs::{config_map, deployment, hook, secret, with_annotation, with_pod_annotation};
use crate::support::wait::{eventually, wait_for};
use crate::support::wire::Request;
use crate::support::{Effect, Fault, Harness, Pack};

const LEGACY: [&str; 3] = ["ConfigMap/settings", "Secret/password", "PersistentVolumeClaim/data"];

fn claim(size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "labels": {"by": size}, "annotations": {"sherpack.io/skip-wait": "true"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn bad() -> Value {
    with_pod_annotation(deployment("bad", 1), "devcluster/unready", "true")
}

/// What a person installed by hand; gives it.
async fn by_hand(h: &Harness) -> Vec<Value> {
    let theirs = [
        config_map("settings", json!({"color": "red", "size": "big"})),
        secret("password", json!({"password": "theirs"})),
        claim("hand"),
    ];
    let mut made = Vec::new();
    for object in theirs {
        made.push(h.objects.create("kubectl-create", object).await);
    }
    made
}

/// A pack that has the same objects in another way.
fn taking(version: &str) -> Pack {
    let settings = config_map("settings", json!({"color": "blue", "shape": "round"}));
    Pack::new("web", version).objects([
        settings,
        secret("password", json!({"password": "ours"})),
        claim("pack"),
    ])
}

fn adopting(more: Value) -> Value {
    let mut spec =
        json!({"timeout": "6s", "install": {"adopt": "Unowned", "retries": 0}, "upgrade": {"retries": 0}});
    json_patch::merge(&mut spec, &more);
    spec
}

/// Without what the API server counts.
fn said(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["resourceVersion", "generation"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object.as_object_mut().unwrap().remove("status");
    object
}

fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut managers: Vec<&str> = entries.filter_map(|entry| entry["manager"].as_str()).collect();
    managers.sort_unstable();
    managers
}

/// The objects are those that were made by hand, to the byte, and nothing is kept of them any more.
async fn handed_back(h: &Harness, before: &[Value]) {
    for theirs in before {
        let what =
            format!("{}/{}", theirs["kind"].as_str().unwrap(), theirs["metadata"]["name"].as_str().unwrap());
        h.sees(&what, |live| said(live) == said(theirs)).await;
    }
    wait_for("nothing is kept", async || {
        let kept = h.objects.list("Secret", "sherpack.io/kept").await.len();
        if kept == 0 { Ok(()) } else { Err(format!("{kept} Secrets")) }
    })
    .await;
}

async fn told(h: &Harness, objects: usize) {
    wait_for("an Event for each object", async || {
        let notes = h.events("web", "HandedBack").await;
        if notes.len() == objects { Ok(()) } else { Err(format!("{notes:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_is_rolled_back_gives_back_what_it_adopted() {
    let h = Harness::new("adopt-rollback").await;
    let before = by_hand(&h).await;
    let inside = h.objects.elsewhere("adopt-precious");
    let precious = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "adopt-precious"}});
    let namespace = h.objects.create(PERSON, precious.clone()).await;
    let db = inside.create(PERSON, secret("db", json!({"password": "theirs"}))).await;
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), adopting(json!({}))).await;
    let second = taking("2.0.0").objects([deployment("good", 1), bad(), with_annotation(precious, "a", "b")]);
    h.pack("web-pack", &second).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    handed_back(&h, &before).await;
    told(&h, 4).await;
    let live = h.objects.get("Namespace/adopt-precious").await;
    assert_eq!(uid(&live), uid(&namespace));
    assert!(live["metadata"]["annotations"].is_null(), "{live}");
    assert_eq!(inside.get("Secret/db").await, db);
    h.gone("Deployment/bad").await;
    // The release has nothing to do with them any more.
    h.uninstall("web").await;
    handed_back(&h, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_install_that_is_taken_away_gives_back_what_it_adopted() {
    let failing =
        with_annotation(hook("check", "post-install"), "sherpack.io/hook-failure-policy", "rollback");
    let failing = with_pod_annotation(failing, "devcluster/fail", "true");
    let ways = [
        ("adopt-uninstall", taking("1.0.0").object(bad()), json!({"install": {"onFailure": "Uninstall"}})),
        ("adopt-hook", taking("1.0.0").object(failing), json!({})),
    ];
    for (name, pack, more) in ways {
        let h = Harness::new(name).await;
        let before = by_hand(&h).await;
        h.apply("web", &pack, adopting(more)).await;
        h.records_show("web", &["1 uninstalled"]).await;
        handed_back(&h, &before).await;
        told(&h, 3).await;
    }
}

async fn kept(h: &Harness) -> usize {
    h.objects.list("Secret", "sherpack.io/kept").await.len()
}

/// A process dies before the record names what is kept, and the object is another when the next one looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_and_named_by_no_record_goes_unless_a_record_cannot_be_read() {
    let h = Harness::new("adopt-sweep").await;
    let pack = |version: &str, color: &str| {
        Pack::new("web", version).object(config_map("settings", json!({"color": color})))
    };
    h.objects.create("kubectl-create", config_map("settings", json!({"color": "red"}))).await;
    let keeps = |request: &Request| request.verb == "create" && request.body["type"] == "sherpack.io/kept.v1";
    h.wire.fault(Fault::new(Effect::KillAfter, keeps).once());
    h.apply("web", &pack("1.0.0", "blue"), adopting(json!({}))).await;
    h.wire.killed().await;
    assert_eq!(kept(&h).await, 1);
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
    h.start();
    h.ready("web").await;
    eventually("nothing is kept", async || kept(&h).await == 0).await;

    h.pack("web-pack", &pack("2.0.0", "green")).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    let unnamed = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "sherpack.io/kept.v1",
        "metadata": {"name": "sh.sherpack.kept.v1.web.0", "labels": {
            "sherpack.io/kept": "web", "sherpack.io/release-namespace": h.namespace,
        }},
    });
    h.objects.create("test", unnamed).await;
    h.damage("web", 1, |bytes| bytes.truncate(bytes.len() / 8 * 4)).await;
    h.pack("web-pack", &pack("3.0.0", "white")).await;
    h.ready("web").await;
    assert_eq!(kept(&h).await, 1, "a record that cannot be read may name it");
    h.lose_record("web", 1).await;
    h.pack("web-pack", &pack("4.0.0", "black")).await;
    h.ready("web").await;
    assert_eq!(kept(&h).await, 0);

    // Who never adopted anything asks for nothing.
    let mark = h.wire.mark();
    h.deploy("plain", &Pack::new("plain", "1.0.0").object(config_map("plain", json!({}))), json!({})).await;
    h.uninstall("plain").await;
    let asked = h.wire.since(mark).into_iter().filter(|request| request.query.contains("kept"));
    assert_eq!(asked.map(|request| request.line()).collect::<Vec<_>>(), Vec::<String>::new());
}

/// Nothing locks what a failed first install has made. What somebody makes there instead is theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_made_anew_between_two_tries_of_a_first_install_is_theirs() {
    for (name, adopt) in [("adopt-anew", "Unowned"), ("adopt-anew-never", "Never")] {
        let h = Harness::new(name).await;
        let install = json!({"adopt": adopt, "retries": 0});
        let spec = json!({"timeout": "3s", "install": install});
        h.apply("web", &taking("1.0.0").object(bad()), spec).await;
        h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
        h.objects.delete("ConfigMap/settings").await;
        let theirs = config_map("settings", json!({"color": "red", "size": "big"}));
        let theirs = [h.objects.create("kubectl-create", theirs).await];
        h.edit_spec("web", json!({"install": {"onFailure": "Uninstall"}})).await;
        if adopt == "Never" {
            h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
        } else {
            h.records_show("web", &["1 failed", "2 uninstalled"]).await;
            h.gone("Secret/password").await;
        }
        handed_back(&h, &theirs).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_deployed_goes_with_its_release_and_volumes_and_namespaces_stay() {
    let h = Harness::new("adopt-deployed").await;
    let before = by_hand(&h).await;
    let theirs = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "adopt-kept"}});
    let namespace = h.objects.create(PERSON, theirs.clone()).await;
    let uids = h.objects.uids(&LEGACY).await;
    h.deploy("web", &taking("1.0.0").object(theirs), adopting(json!({}))).await;
    assert_eq!(h.objects.uids(&LEGACY).await, uids);
    assert!(h.objects.list("Secret", "sherpack.io/kept").await.is_empty(), "it is the release's own now");
    h.uninstall("web").await;
    h.gone("ConfigMap/settings").await;
    h.gone("Secret/password").await;
    let claim = h.objects.get("PersistentVolumeClaim/data").await;
    assert_eq!(uid(&claim), uid(&before[2]));
    assert_eq!(claim["metadata"]["labels"], json!({"by": "pack"}), "what was deployed was the release's");
    assert!(!managers(&claim).contains(&"sherpack"), "{claim}");
    let live = h.objects.get("Namespace/adopt-kept").await;
    assert_eq!((uid(&live), &live["status"]["phase"]), (uid(&namespace), &json!("Active")));
}

/// A value that somebody changed meanwhile is not the release's to restore.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_changed_since_stays_changed() {
    let h = Harness::new("adopt-changed").await;
    by_hand(&h).await;
    h.deploy(
        "web",
        &Pack::new("web", "1.0.0").object(deployment("good", 1)),
        adopting(json!({"timeout": "2m"})),
    )
    .await;
    h.pack("web-pack", &taking("2.0.0").objects([deployment("good", 1), bad()])).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.objects
        .edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"shape": "square", "more": "x"}}))
        .await;
    h.pack("web-pack", &Pack::new("web", "3.0.0").object(deployment("good", 1))).await;
    h.ready("web").await;
    let data = json!({"color": "red", "size": "big", "shape": "square", "more": "x"});
    h.sees("ConfigMap/settings", |map| map["data"] == data).await;
    h.shows("PersistentVolumeClaim/data", "/metadata/labels/by", "hand").await;
}

/// A later revision changes more of it before one is deployed: all of it goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_several_failed_revisions_changed_goes_back_as_it_was_before_the_first() {
    let h = Harness::new("adopt-twice").await;
    let before = by_hand(&h).await;
    let retained = adopting(json!({"timeout": "3s", "upgrade": {"onFailure": "Retain"}}));
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), retained).await;
    h.pack("web-pack", &taking("2.0.0").objects([deployment("good", 1), bad()])).await;
    h.shows_states("web", &["1 deployed", "2 failed"]).await;
    let third =
        [config_map("settings", json!({"size": "small", "color": "green"})), deployment("good", 1), bad()];
    h.pack("web-pack", &Pack::new("web", "3.0.0").objects(third)).await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 failed"]).await;
    h.shows("ConfigMap/settings", "/data/size", "small").await;
    // The operator of before knows nothing of it.
    h.start();
    h.pack("web-pack", &Pack::new("web", "4.0.0").object(deployment("good", 1))).await;
    h.ready("web").await;
    handed_back(&h, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_writes_of_each_operation_nothing_is_lost() {
    let story = async |h: &Harness| {
        let before = by_hand(h).await;
        h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), adopting(json!({}))).await;
        h.pack("web-pack", &taking("2.0.0").objects([deployment("good", 1), bad()])).await;
        h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
        h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
        handed_back(h, &before).await;
        h.uninstall("web").await;
        handed_back(h, &before).await;
    };
    let breaks = in_each_operation(Effect::KillAfter, "adopt-killed", (5, &[1, 3, 5]), story).await;
    breaks.at_least(20, "adopt-killed");
    breaks.none_left_out(&["patch configmaps", "patch persistentvolumeclaims", "apply configmaps"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_more_than_is_kept_is_not_adopted() {
    let h = Harness::new("adopt-large").await;
    let theirs = config_map("settings", json!({"text": "x".repeat(70_000)}));
    let theirs = h.objects.create("kubectl-create", theirs).await;
    let pack = Pack::new("web", "1.0.0").object(config_map("settings", json!({"text": "short"})));
    h.apply("web", &pack, adopting(json!({}))).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    let released = condition(&h.objects.get("SherpackRelease/web").await, "Released");
    assert!(released["message"].as_str().unwrap().contains("the limit is 65536"), "{released}");
    assert_eq!(h.objects.get("ConfigMap/settings").await, theirs);
    // What is there already can be taken, however large it is.
    h.pack("web-pack", &Pack::new("web", "1.0.1").object(config_map("settings", theirs["data"].clone())))
        .await;
    h.ready("web").await;
}

/// It comes after the release looked for it, and before the release would have made it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_meanwhile_is_adopted_before_it_is_changed() {
    let h = Harness::new("adopt-meanwhile").await;
    let apply = |request: &Request| request.verb == "apply" && request.is_about("configmaps/settings");
    h.wire.fault(Fault::new(Effect::Hold, apply).once());
    let spec = adopting(json!({"install": {"onFailure": "Uninstall"}}));
    h.apply("web", &taking("1.0.0").object(bad()), spec).await;
    wait_for("the apply", async || h.wire.since(0).iter().any(apply).then_some(()).ok_or_else(String::new))
        .await;
    let theirs = config_map("settings", json!({"color": "red", "size": "big"}));
    let theirs = h.objects.create("kubectl-create", theirs).await;
    h.wire.release();
    h.records_show("web", &["1 uninstalled"]).await;
    handed_back(&h, &[theirs]).await;
}

/// A hook deletes what stands in its place, but only what a hook of a release has made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_never_takes_the_place_of_what_was_there_before() {
    let h = Harness::new("adopt-in-hook").await;
    // It stays when it has run.
    let mut job = without_ttl(hook("check", "pre-install"));
    job["metadata"].as_object_mut().unwrap().remove("annotations");
    h.objects.create("kubectl-create", job).await;
    let before = h.objects.uids(&["Job/check"]).await;
    h.apply("web", &Pack::new("web", "1.0.0").object(hook("check", "pre-install")), adopting(json!({})))
        .await;
    let release = h.condition("web", "Released", "False", None).await;
    let message = condition(&release, "Released")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("check") && message.contains("not owned by this release"), "{message}");
    assert_eq!(h.objects.uids(&["Job/check"]).await, before);
}

/// Neither Recreate nor the rollback after it deletes what was adopted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_change_as_wanted_is_not_created_anew() {
    let h = Harness::new("adopt-recreate").await;
    let frozen = |color: &str| {
        let mut map = config_map("frozen", json!({"color": color}));
        map["immutable"] = json!(true);
        map
    };
    let theirs = h.objects.create("kubectl-create", frozen("red")).await;
    let retained =
        json!({"timeout": "3s", "upgrade": {"onFailure": "Retain", "immutableFields": "Recreate"}});
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), adopting(retained)).await;
    // The same content: it can be taken. The revision fails for another reason.
    h.pack("web-pack", &Pack::new("web", "2.0.0").objects([frozen("red"), deployment("good", 1), bad()]))
        .await;
    h.shows_states("web", &["1 deployed", "2 failed"]).await;
    h.pack("web-pack", &Pack::new("web", "3.0.0").objects([frozen("blue"), deployment("good", 1)])).await;
    h.shows_states("web", &["1 deployed", "2 failed", "3 failed"]).await;
    let release = h.condition("web", "Released", "False", None).await;
    let message = condition(&release, "Released")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("this release has not made it"), "{message}");
    assert_eq!(uid(&h.objects.get("ConfigMap/frozen").await), uid(&theirs));
    h.uninstall("web").await;
    handed_back(&h, &[theirs]).await;
}

/// Without its record nobody knows what a release had deployed, so neither a new beginning that fails nor its end takes any of it away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_record_had_deployed_survives_a_new_beginning_that_fails() {
    let h = Harness::new("adopt-start-over").await;
    let uninstalls = json!({"timeout": "6s", "install": {"retries": 0, "onFailure": "Uninstall"},
        "upgrade": {"retries": 0}});
    let good = || {
        Pack::new("web", "1.0.0")
            .objects([config_map("settings", json!({"color": "blue"})), deployment("good", 1)])
    };
    h.deploy("web", &good(), uninstalls).await;
    let uids = h.objects.uids(&["ConfigMap/settings", "Deployment/good"]).await;
    let record = h.records("web").await.remove(0);
    h.objects.delete(&format!("Secret/{}", record["metadata"]["name"].as_str().unwrap())).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    let next = config_map("settings", json!({"color": "red"}));
    h.pack("web-pack", &Pack::new("web", "2.0.0").objects([next, deployment("good", 1), bad()])).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.shows_states("web", &["2 failed"]).await;
    h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
    assert_eq!(h.objects.uids(&["ConfigMap/settings", "Deployment/good"]).await, uids);
    h.uninstall("web").await;
    h.gone("Deployment/bad").await;
    assert_eq!(h.objects.uids(&["ConfigMap/settings", "Deployment/good"]).await, uids);
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

/// As `kubectl apply` makes them: alike to the byte, but for their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_are_alike_go_back_each_for_itself() {
    let h = Harness::new("adopt-alike").await;
    let mut before = Vec::new();
    for name in ["one", "two"] {
        before.push(h.objects.create("kubectl-create", config_map(name, json!({"enabled": "false"}))).await);
    }
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), adopting(json!({}))).await;
    let taking = ["one", "two"].map(|name| config_map(name, json!({"enabled": "true"})));
    h.pack("web-pack", &Pack::new("web", "2.0.0").objects(taking).objects([deployment("good", 1), bad()]))
        .await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    handed_back(&h, &before).await;
}

/// The release goes on all the same, and says what stayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_server_does_not_take_back_holds_nothing_up() {
    let h = Harness::new("adopt-refused").await;
    by_hand(&h).await;
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), adopting(json!({}))).await;
    let mut frozen = config_map("settings", json!({"color": "blue"}));
    frozen["immutable"] = json!(true);
    frozen["metadata"]["annotations"] = json!({"a": "b"});
    h.pack("web-pack", &Pack::new("web", "2.0.0").objects([frozen, deployment("good", 1), bad()])).await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    let live = h.objects.get("ConfigMap/settings").await;
    assert_eq!((&live["data"]["color"], &live["immutable"]), (&json!("blue"), &json!(true)));
    assert!(live["metadata"]["labels"].is_null() && live["metadata"]["annotations"].is_null(), "{live}");
    let note = h.events("web", "HandedBack").await.join(" ");
    assert!(note.contains("data.color") && note.contains("immutable"), "{note}");
    h.uninstall("web").await;
    h.objects.get("ConfigMap/settings").await;
}

/// Another tool's revision between makes nothing the release's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_back_past_another_tools_revision_remembers_what_was_adopted() {
    let h = Harness::new("adopt-foreign").await;
    by_hand(&h).await;
    h.deploy("web", &Pack::new("web", "1.0.0").object(claim("pack")), adopting(json!({}))).await;
    let uids = h.objects.uids(&["PersistentVolumeClaim/data"]).await;
    let record = h.decoded("web", 1).await.record;
    h.edit_spec("web", json!({"suspend": true})).await;
    h.condition("web", "Ready", "False", Some("Suspended")).await;
    h.write_as_another_tool(&Record { version: 2, ..record }).await;
    h.edit_spec("web", json!({"suspend": null, "rollbackTo": 1})).await;
    h.shows("SherpackRelease/web", "/status/revision", 3).await;
    h.ready("web").await;
    h.uninstall("web").await;
    assert_eq!(h.objects.uids(&["PersistentVolumeClaim/data"]).await, uids);
}

/// Its ttl is the pack's, and the Job is not: it must not go before a revision with it is deployed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_ran_before_does_not_go_for_a_ttl_of_the_pack() {
    let h = Harness::new("adopt-job").await;
    let theirs = h.objects.create("kubectl-create", without_ttl(job("migrate"))).await;
    h.sees("Job/migrate", |job| job["status"]["succeeded"] == 1).await;
    h.deploy("web", &Pack::new("web", "1.0.0").object(deployment("good", 1)), adopting(json!({}))).await;
    h.pack("web-pack", &Pack::new("web", "2.0.0").objects([job("migrate"), deployment("good", 1), bad()]))
        .await;
    h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
    let live = h.objects.get("Job/migrate").await;
    assert_eq!(uid(&live), uid(&theirs));
    assert!(live["spec"]["ttlSecondsAfterFinished"].is_null(), "{live}");
}

/// The mark of the release says who wrote an object last, and not that it was not there before: only the record says that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_revision_adopted_whose_record_is_lost_is_never_deleted() {
    let good = || Pack::new("web", "1.0.0").object(deployment("good", 1));
    let lives = ["adopt-restored", "adopt-wiped"].map(async |name| {
        let h = Harness::new(name).await;
        by_hand(&h).await;
        let uids = h.objects.uids(&LEGACY).await;
        let first = h.deploy("web", &good(), adopting(json!({"timeout": "2m"}))).await;
        h.pack("web-pack", &taking("2.0.0").objects([deployment("good", 1), bad()])).await;
        h.shows("SherpackRelease/web", "/status/operation/phase", "Wait").await;
        h.stop().await;
        h.edit_spec("web", json!({"timeout": "6s"})).await;
        let lost = h.decoded("web", 2).await.record;
        h.lose_record("web", 2).await;
        if name == "adopt-restored" {
            // Release and records are of a backup that knows nothing of the revision.
            let status = &first["status"];
            let back = json!({"revision": status["revision"], "recordWrites": status["recordWrites"]});
            h.forge_status("web", back).await;
            h.start();
            h.shows_states("web", &["1 superseded", "2 failed", "3 deployed"]).await;
            assert_eq!(kept(&h).await, LEGACY.len(), "what the lost revision kept is nowhere else");
        } else {
            let state = failed();
            h.write_as_another_tool(&Record { state, ..lost }).await;
            h.start();
            h.shows_states("web", &["1 deployed", "2 failed", "3 failed"]).await;
            h.pack("web-pack", &Pack::new("web", "4.0.0").object(deployment("good", 1))).await;
            h.shows_states("web", &["1 superseded", "2 failed", "3 failed", "4 deployed"]).await;
        }
        assert_eq!(h.objects.uids(&LEGACY).await, uids);
        h.uninstall("web").await;
        assert_eq!(h.objects.uids(&LEGACY).await, uids);
    });
    futures::future::join_all(lives).await;
}
