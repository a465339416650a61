//! What may be touched: objects of this release, and those that it was asked to adopt.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::objects::uid;
use crate::support::packs::{autoscaler, config_map, deployment, secret, service};
use crate::support::wait::wait_for;
use crate::support::wire::{Effect, Fault, Request};
use crate::support::{Harness, Pack};

fn settings(version: &str, data: Value) -> Pack {
    Pack::new("web", version).object(config_map("settings", data))
}

/// The release says whose way `ConfigMap/settings` stands in, and the object is as it was.
async fn left_alone(h: &Harness, theirs: &Value) {
    let release = h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("settings"), "{message}");
    assert_eq!(h.objects.get("ConfigMap/settings").await, *theirs);
}

/// When it is out of the way, the release goes on.
async fn goes_on_without_it(h: &Harness) {
    h.objects.delete("ConfigMap/settings").await;
    h.pass("web").await;
    h.ready("web").await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_not_ours_is_not_touched() {
    let h = Harness::new("not-ours").await;
    let theirs = h.objects.create("kubectl-create", config_map("settings", json!({"color": "red"}))).await;
    h.apply("web", &settings("1.0.0", json!({"color": "blue"})).object(service("web")), json!({})).await;
    left_alone(&h, &theirs).await;
    // Nothing of the release was made, not even a revision.
    assert!(h.objects.find("Service/web").await.is_none());
    assert!(h.records("web").await.is_empty());
    goes_on_without_it(&h).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_comes_between_the_check_and_the_apply_is_not_touched() {
    let h = Harness::new("comes-between").await;
    let apply = |request: &Request| request.verb == "apply" && request.is_about("configmaps/settings");
    h.wire.fault(Fault::new(Effect::Hold, apply).once());
    h.apply("web", &settings("1.0.0", json!({"color": "blue"})), json!({})).await;
    wait_for("the apply", async || h.wire.since(0).iter().any(apply).then_some(()).ok_or_else(String::new))
        .await;
    let theirs = h.objects.create("kubectl-create", config_map("settings", json!({"color": "red"}))).await;
    h.wire.release();
    left_alone(&h, &theirs).await;
    goes_on_without_it(&h).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_comes_while_nobody_works_on_an_install_is_not_touched() {
    let h = Harness::new("comes-meanwhile").await;
    h.wire.fault(Fault::on_writes(Effect::KillBefore, "configmaps/settings"));
    let pack = settings("1.0.0", json!({"color": "blue"})).object(service("web"));
    h.apply("web", &pack, json!({})).await;
    h.wire.killed().await;
    let theirs = h.objects.create("kubectl-create", config_map("settings", json!({"color": "red"}))).await;
    h.wire.heal();
    h.start();
    left_alone(&h, &theirs).await;
    goes_on_without_it(&h).await;
}

/// What an apply would leave to others is made somebody's before it. Not in an object that is nobody's to touch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_handed_over_in_an_object_that_comes_meanwhile() {
    let h = Harness::new("comes-with-rules").await;
    let rule = json!({"target": {"kind": "Deployment"}, "paths": ["/spec/template/spec/containers/*/image"]});
    let pack =
        settings("1.0.0", json!({"color": "blue"})).objects([deployment("web", 1), autoscaler("web", 2, 5)]);
    h.wire.fault(Fault::on_writes(Effect::KillAfter, "configmaps/settings"));
    h.apply("web", &pack, json!({"drift": {"ignore": [rule]}, "wait": false})).await;
    h.wire.killed().await;
    let mut theirs = deployment("web", 3);
    theirs["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/other:2");
    h.objects.create("kubectl-create", theirs).await;
    h.wire.heal();
    let mark = h.wire.mark();
    h.start();
    let release = h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Deployment"), "{message}");
    let refused = |request: &Request| request.is_write() && request.is_about("deployments/web");
    let codes: Vec<u16> = h.wire.since(mark).iter().filter(|one| refused(one)).map(|one| one.code).collect();
    assert!(codes.iter().all(|code| *code == 409), "{codes:?}");
    let managers = h.objects.get("Deployment/web").await["metadata"]["managedFields"].to_string();
    assert!(!managers.contains("sherpack"), "{managers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_whose_first_apply_was_not_answered_is_known_as_our_own() {
    let h = Harness::new("not-answered").await;
    let apply = |request: &Request| request.verb == "apply" && request.is_about("configmaps/settings");
    h.wire.fault(Fault::new(Effect::DropAfterSend, apply).once());
    h.deploy("web", &settings("1.0.0", json!({"color": "blue"})), json!({})).await;
    let codes: Vec<u16> = h.wire.since(0).iter().filter(|one| apply(one)).map(|one| one.code).collect();
    assert_eq!(codes, [201, 409, 200]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_comes_with_an_upgrade_and_is_not_ours_is_not_touched() {
    let h = Harness::new("not-ours-later").await;
    h.deploy("web", &settings("1.0.0", json!({"color": "blue"})), json!({})).await;
    let theirs = h.objects.create("kubectl-create", config_map("more", json!({"color": "red"}))).await;
    let next = settings("2.0.0", json!({"color": "green"})).object(config_map("more", json!({})));
    h.apply("web", &next, json!({})).await;
    h.condition("web", "Ready", "False", Some("ObjectNotOwned")).await;
    assert_eq!(h.objects.get("ConfigMap/more").await, theirs);
    // What is deployed stays, and stays locked.
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "blue");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_releases_never_apply_one_object() {
    let h = Harness::new("two-releases").await;
    h.deploy("first", &settings("1.0.0", json!({"color": "blue"})), json!({})).await;
    let before = h.objects.get("ConfigMap/settings").await;
    let adopting = json!({"install": {"adopt": "Unowned"}});
    h.apply("second", &settings("1.0.0", json!({"color": "red"})), adopting).await;
    let release = h.condition("second", "Ready", "False", Some("ObjectNotOwned")).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("two-releases/first"), "{message}");
    assert_eq!(h.objects.get("ConfigMap/settings").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_object_loses_what_the_pack_drops_later() {
    let h = Harness::new("adopted").await;
    let theirs = config_map("settings", json!({"color": "red", "size": "big", "shape": "round"}));
    let before = h.objects.create("kubectl-create", theirs).await;
    let adopting = json!({"install": {"adopt": "Unowned"}});
    let both = settings("1.0.0", json!({"color": "blue", "size": "small"}));
    h.deploy("web", &both, adopting.clone()).await;
    let live = h.objects.get("ConfigMap/settings").await;
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(live["data"], json!({"color": "blue", "size": "small", "shape": "round"}));
    // It is locked like any other.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.deploy("web", &settings("2.0.0", json!({"color": "blue"})), adopting).await;
    let live = h.objects.get("ConfigMap/settings").await;
    assert_eq!(live["data"], json!({"color": "blue", "shape": "round"}));
}

/// The records of an orphaned release stay, so after a restart they still name an owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_a_release_that_is_gone_can_be_adopted_after_a_restart() {
    let h = Harness::new("adopted-orphan").await;
    let pack = settings("1.0.0", json!({"color": "blue"}));
    h.deploy("web", &pack, json!({"uninstall": {"policy": "Orphan"}})).await;
    h.uninstall("web").await;
    let before = h.objects.get("ConfigMap/settings").await;
    h.start();
    h.deploy("new", &pack, json!({"install": {"adopt": "Unowned"}})).await;
    assert_eq!(uid(&h.objects.get("ConfigMap/settings").await), uid(&before));
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    // Two records name the object now, and which comes first is chance.
    h.start();
    h.operator_ready().await;
    h.pass("new").await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_being_deleted_is_awaited_by_an_install() {
    let h = Harness::new("in-the-way").await;
    let mut going = config_map("settings", json!({"color": "red"}));
    going["metadata"]["finalizers"] = json!(["example.com/hold"]);
    h.objects.create("kubectl-create", going).await;
    h.objects.delete("ConfigMap/settings").await;
    let before = h.objects.get("ConfigMap/settings").await;
    h.apply("web", &settings("1.0.0", json!({"color": "blue"})), json!({"install": {"adopt": "Unowned"}}))
        .await;
    h.condition("web", "Ready", "False", Some("ObjectTerminating")).await;
    assert_eq!(h.objects.get("ConfigMap/settings").await, before);
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"metadata": {"finalizers": null}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_left_to_the_server_is_refused() {
    let h = Harness::new("generated-name").await;
    let mut nameless = config_map("x", json!({"color": "blue"}));
    nameless["metadata"] = json!({"generateName": "settings-"});
    h.apply("web", &Pack::new("web", "1.0.0").object(nameless), json!({})).await;
    let release = h.condition("web", "Stalled", "True", None).await;
    let message = condition(&release, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("settings-") && message.contains("generateName"), "{message}");
    assert!(h.records("web").await.is_empty());
    let mine = h.objects.list("ConfigMap", "sherpack.io/release-name").await;
    assert!(mine.is_empty(), "{mine:?}");
}

fn manager(request: &Request) -> Option<&str> {
    request.query.split('&').find_map(|part| part.strip_prefix("fieldManager="))
}

/// An apply of less than everything by the manager of the full applies would delete the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manager_of_objects_only_ever_applies_them_whole() {
    let h = Harness::new("whole-applies").await;
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("settings", json!({"color": "blue"})))
        .object(secret("password", json!({"color": "blue"})))
        .object(deployment("web", 0));
    h.deploy("web", &pack, json!({})).await;
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.objects.delete("Deployment/web").await;
    h.sees("Deployment/web", |object| object["spec"]["replicas"] == 0).await;
    h.pass("web").await;
    let finalizers = h.objects.get("SherpackRelease/web").await["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["sherpack.io/finalizer"]));
    h.uninstall("web").await;

    let writes = h.wire.writes_since(0);
    let objects: Vec<&Request> =
        writes.iter().filter(|request| manager(request) == Some("sherpack")).collect();
    assert!(objects.len() >= 5, "{objects:?}");
    for request in objects {
        assert_eq!(request.verb, "apply", "{}", request.line());
        let body = &request.body;
        assert!(body.get("data").or_else(|| body.get("spec")).is_some(), "{body}");
        assert!(body["metadata"]["annotations"]["sherpack.io/applied"].is_string(), "{body}");
        assert!(body["metadata"].get("finalizers").is_none(), "{body}");
    }
    let release: Vec<&Request> =
        writes.iter().filter(|request| request.is_about("sherpackreleases/web")).collect();
    for request in release {
        assert_eq!(manager(request), Some("sherpack-operator"), "{}", request.line());
        let status = request.path.ends_with("/status");
        assert_eq!(request.verb, if status { "apply" } else { "patch" }, "{}", request.line());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finalizer_that_somebody_else_adds_to_a_release_stays() {
    let h = Harness::new("others-finalizer").await;
    h.deploy("web", &settings("1.0.0", json!({"color": "blue"})), json!({})).await;
    let two = json!({"metadata": {"finalizers": ["sherpack.io/finalizer", "example.com/hold"]}});
    h.objects.edit("SherpackRelease/web", "backup", two).await;
    h.objects.delete("SherpackRelease/web").await;
    h.gone("ConfigMap/settings").await;
    wait_for("only their finalizer is left", async || {
        let finalizers = h.objects.get("SherpackRelease/web").await["metadata"]["finalizers"].clone();
        if finalizers == json!(["example.com/hold"]) { Ok(()) } else { Err(finalizers.to_string()) }
    })
    .await;
    h.objects.edit("SherpackRelease/web", "backup", json!({"metadata": {"finalizers": null}})).await;
    h.gone("SherpackRelease/web").await;
}
