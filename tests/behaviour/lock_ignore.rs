//! The lock: what `spec.drift.ignore` leaves to others is not put back, not applied, and not reset.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, service, with_annotation};
use crate::support::wait::wait_for;
use crate::support::{Effect, Fault, Harness, Pack};

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fn pack(version: &str, objects: impl IntoIterator<Item = Value>) -> Pack {
    Pack::new("web", version).objects(objects)
}

fn ignore(rules: Value) -> Value {
    json!({"drift": {"mode": "Enabled", "ignore": rules}})
}

fn replicas() -> Value {
    json!([{"target": {"kind": "Deployment", "name": "we*"}, "paths": ["/spec/replicas"]}])
}

async fn scale(h: &Harness, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    h.objects.edit_subresource("Deployment/web", "scale", "kubectl", patch).await;
}

/// Another change of the same object is put back; gives the object.
async fn image_is_put_back(h: &Harness) -> Value {
    let other = json!({"containers": [{"name": "app", "image": "example.com/other:2"}]});
    let other = json!({"spec": {"template": {"spec": other}}});
    h.objects.strategic("Deployment/web", "kubectl-set", other).await;
    h.shows("Deployment/web", IMAGE, "example.com/app:1.0.0").await
}

/// Changes of spec in between: a second one would mend what an apply of ours has reset.
fn writes(before: &Value, after: &Value) -> i64 {
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();
    generation(after) - generation(before)
}

async fn paint(h: &Harness, what: &str, data: Value) {
    h.objects.edit(what, "kubectl-edit", json!({"data": data})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_a_person_has_set_survive_a_new_rule_reverts_upgrades_and_its_end_puts_them_back() {
    let h = Harness::new("ignore-new-rule").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({"drift": {"mode": "Disabled"}})).await;
    scale(&h, 5).await;
    let rule = ignore(replicas());
    h.edit_spec("web", rule.clone()).await;
    h.ready("web").await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 5);
    let before = h.objects.get("Deployment/web").await;
    let annotated = with_annotation(deployment("web", 2), "example.com/release", "next");
    h.deploy("web", &pack("2.0.0", [annotated]), rule).await;
    let after = h.objects.get("Deployment/web").await;
    assert_eq!((&after["spec"]["replicas"], writes(&before, &after)), (&json!(5), 1));
    // It is remembered by the record, not by the process; and a rule that makes no sense loses nothing.
    h.start();
    h.operator_ready().await;
    h.edit_spec("web", ignore(json!([{"paths": ["spec/replicas"]}]))).await;
    let invalid = h.condition("web", "Ready", "False", Some("InvalidSpec")).await;
    let message = condition(&invalid, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("spec.drift.ignore[0].paths[0]: "), "{message}");
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 5);
    // That is told a second later, and no reason for more.
    h.rests("web").await;

    h.edit_spec("web", json!({"drift": {"ignore": null}})).await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
    scale(&h, 4).await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_of_ours_is_handed_over_before_it_is_left_out() {
    let h = Harness::new("ignore-own-field").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 3)]), json!({})).await;
    let mark = h.wire.mark();
    h.edit_spec("web", ignore(replicas())).await;
    h.ready("web").await;
    assert!(h.wire.writes_to("deployments/web", mark).is_empty(), "a rule alone changes nothing");
    let before = h.objects.get("Deployment/web").await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 3, "not reset to 1");
    let after = h.objects.get("Deployment/web").await;
    assert_eq!(writes(&before, &after), 2, "theirs and ours");
    // Nobody is asked any more when it changes.
    let mark = h.wire.mark();
    scale(&h, 7).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 7);
    assert_eq!(h.wire.writes_to("deployments/web", mark).len(), 1);
    // An upgrade that wants another number does not get it; one that comes without a rule does.
    h.deploy("web", &pack("2.0.0", [deployment("web", 2)]), ignore(replicas())).await;
    assert_eq!(h.objects.get("Deployment/web").await["spec"]["replicas"], 7);
    // What is created has everything.
    h.objects.delete("Deployment/web").await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
    scale(&h, 6).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 6);
    h.edit_spec("web", json!({"drift": null})).await;
    h.deploy("web", &pack("3.0.0", [deployment("web", 2)]), json!({})).await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_apply_and_an_upgrade_leave_out_what_a_rule_came_for_at_the_same_time() {
    let h = Harness::new("ignore-at-once").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 3)]), json!({})).await;
    let before = h.objects.get("Deployment/web").await;
    let annotated = with_annotation(deployment("web", 1), "example.com/release", "next");
    let next = pack("2.0.0", [annotated]);
    h.pack("next-pack", &next).await;
    let mut spec = ignore(replicas());
    spec["pack"] = json!({"configMap": {"name": "next-pack"}});
    h.edit_spec("web", spec).await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["pack"]["digest"], next.digest());
    let after = h.objects.get("Deployment/web").await;
    assert_eq!((&after["spec"]["replicas"], writes(&before, &after)), (&json!(3), 1));

    let adopted = Harness::new("ignore-adopted").await;
    adopted.objects.create("kubectl-create", deployment("web", 4)).await;
    let spec = json!({"install": {"adopt": "Unowned"}, "drift": {"ignore": replicas()}});
    adopted.deploy("web", &pack("1.0.0", [deployment("web", 1)]), spec).await;
    assert_eq!(adopted.objects.get("Deployment/web").await["spec"]["replicas"], 4);
    assert_eq!(image_is_put_back(&adopted).await["spec"]["replicas"], 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_find_keys_items_and_wildcards_and_everything_else_is_locked() {
    let h = Harness::new("ignore-paths").await;
    let blue = |name: &str| config_map(name, json!({"color": "blue", "size": "small"}));
    let mut labelled = blue("labelled");
    labelled["metadata"]["labels"] = json!({"tier": "front"});
    let mut two = deployment("two", 0);
    let containers = two.pointer_mut("/spec/template/spec/containers").unwrap().as_array_mut().unwrap();
    containers.push(json!({"name": "log", "image": "example.com/log:1", "args": ["--a", "--b"]}));
    let rules = json!([
        {"target": {"kind": "ConfigMap", "name": "k*", "namespace": "ignore-paths"}, "paths": ["/data/color"]},
        {"target": {"kind": "ConfigMap", "name": "locked", "namespace": "elsewhere"}, "paths": ["/data/*"]},
        {"target": {"group": "", "labelSelector": "tier in (front)"}, "paths": ["/data/*"]},
        {"target": {"kind": "Deployment"}, "paths": [
            "/spec/template/spec/containers[name=log]/image", "/spec/template/spec/containers[name=log]/args/1",
        ]},
        {"target": {"kind": "Service"}, "paths": ["/spec/ports/0/targetPort"]},
    ]);
    let objects = || [blue("key"), blue("locked"), labelled.clone(), two.clone(), service("web")];
    h.deploy("web", &pack("1.0.0", objects()), ignore(rules.clone())).await;
    let red = || json!({"color": "red"});
    paint(&h, "ConfigMap/key", json!({"color": "red", "size": "big"})).await;
    paint(&h, "ConfigMap/locked", red()).await;
    paint(&h, "ConfigMap/labelled", json!({"color": "red", "size": null})).await;
    let other = |name: &str, more: Value| {
        let mut container = json!({"name": name, "image": "example.com/other:2"});
        for (key, value) in more.as_object().unwrap() {
            container[key] = value.clone();
        }
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    h.objects.strategic("Deployment/two", "updater", other("log", json!({"args": ["--x", "--y"]}))).await;
    h.objects.strategic("Deployment/two", "updater", other("app", json!({}))).await;
    let port = json!([{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 8080}]);
    h.objects.json_patch("Service/web", "kubectl-edit", port).await;
    h.shows("ConfigMap/locked", "/data/color", "blue").await;
    h.shows("ConfigMap/key", "/data/size", "small").await;
    h.shows("Deployment/two", IMAGE, "example.com/app:1.0.0").await;
    let expected = async || {
        h.shows("Deployment/two", "/spec/template/spec/containers/1/args", json!(["--a", "--y"])).await;
        let two = h.objects.get("Deployment/two").await;
        assert_eq!(
            two.pointer("/spec/template/spec/containers/1/image"),
            Some(&json!("example.com/other:2"))
        );
        assert_eq!(h.objects.get("ConfigMap/key").await["data"], json!({"color": "red", "size": "small"}));
        assert_eq!(h.objects.get("ConfigMap/labelled").await["data"], json!({"color": "red"}));
        let service = h.objects.get("Service/web").await;
        assert_eq!(service.pointer("/spec/ports/0/targetPort"), Some(&json!(8080)));
    };
    h.pass("web").await;
    expected().await;
    let next = objects().map(|object| with_annotation(object, "example.com/release", "next"));
    h.deploy("web", &pack("2.0.0", next), ignore(rules)).await;
    expected().await;
    // Nothing of this is told as drift that goes on.
    let release = h.objects.get("SherpackRelease/web").await;
    assert_eq!(condition(&release, "Drifted")["status"], "False", "{release}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_manager_sets_is_left_to_it_and_what_others_set_is_not() {
    let h = Harness::new("ignore-manager").await;
    let rules = json!([{"managers": ["image-updater"]}]);
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), ignore(rules.clone())).await;
    let other = json!({"containers": [{"name": "app", "image": "example.com/app:9"}]});
    let other = json!({"spec": {"template": {"spec": other}}});
    h.objects.strategic("Deployment/web", "image-updater", other.clone()).await;
    scale(&h, 4).await;
    let live = h.shows("Deployment/web", "/spec/replicas", 1).await;
    assert_eq!(live.pointer(IMAGE), Some(&json!("example.com/app:9")));
    let annotated = with_annotation(deployment("web", 2), "example.com/release", "next");
    h.deploy("web", &pack("2.0.0", [annotated.clone()]), ignore(rules)).await;
    let live = h.objects.get("Deployment/web").await;
    assert_eq!(live.pointer(IMAGE), Some(&json!("example.com/app:9")));
    assert_eq!(live["spec"]["replicas"], 2);
    h.edit_spec("web", json!({"drift": {"ignore": null}})).await;
    h.shows("Deployment/web", IMAGE, "example.com/app:1.0.0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_object_is_created_and_then_left_to_others() {
    let h = Harness::new("ignore-whole").await;
    let blue = |name: &str| config_map(name, json!({"color": "blue"}));
    let open = || with_annotation(blue("annotated"), "sherpack.io/drift", "ignore");
    let away = || with_annotation(blue("away"), "sherpack.io/drift", "ignore");
    let rules = json!([{"target": {"kind": "ConfigMap", "name": "rule"}}]);
    h.deploy("web", &pack("1.0.0", [blue("rule"), open(), blue("locked"), away()]), ignore(rules.clone()))
        .await;
    for name in ["rule", "annotated", "locked"] {
        paint(&h, &format!("ConfigMap/{name}"), json!({"color": "red"})).await;
    }
    h.shows("ConfigMap/locked", "/data/color", "blue").await;
    let green = |object: Value| {
        let mut object = object;
        object["data"] = json!({"color": "green"});
        object
    };
    let next = [green(blue("rule")), green(open()), green(blue("locked")), green(away())];
    h.deploy("web", &pack("2.0.0", next), ignore(rules)).await;
    h.shows("ConfigMap/locked", "/data/color", "green").await;
    for name in ["rule", "annotated"] {
        let live = h.objects.get(&format!("ConfigMap/{name}")).await;
        assert_eq!(live["data"]["color"], "red", "{name}");
        assert_eq!(live["metadata"]["labels"]["sherpack.io/release-name"], "web", "{name}");
    }
    h.objects.delete("ConfigMap/rule").await;
    h.objects.delete("ConfigMap/away").await;
    h.pass("web").await;
    assert!(h.objects.find("ConfigMap/rule").await.is_none());
    h.edit_spec("web", json!({"drift": {"ignore": null}})).await;
    h.shows("ConfigMap/rule", "/data/color", "green").await;
    paint(&h, "ConfigMap/rule", json!({"color": "red"})).await;
    h.shows("ConfigMap/rule", "/data/color", "green").await;
    assert!(
        h.objects.find("ConfigMap/away").await.is_none(),
        "the end of a rule is no matter of what another one names"
    );
    // It goes with the release all the same.
    h.uninstall("web").await;
    h.gone("ConfigMap/annotated").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_locked_again_keeps_nothing_else_from_being_locked() {
    let h = Harness::new("ignore-refused").await;
    let blue = |name: &str| config_map(name, json!({"color": "blue", "size": "small"}));
    let rules = json!([{"target": {"kind": "ConfigMap", "name": "refused"}, "paths": ["/data/color"]}]);
    h.deploy("web", &pack("1.0.0", [blue("refused"), blue("locked")]), ignore(rules)).await;
    paint(&h, "ConfigMap/refused", json!({"color": "red"})).await;
    paint(&h, "ConfigMap/refused", json!({"size": "large"})).await;
    let refused = h.shows("ConfigMap/refused", "/data/size", "small").await;
    assert_eq!(refused["data"]["color"], "red");
    h.wire.fault(Fault::on_writes(Effect::Answer(403), "configmaps/refused"));
    h.edit_spec("web", json!({"drift": {"ignore": null}})).await;
    h.condition("web", "Ready", "False", Some("Forbidden")).await;
    paint(&h, "ConfigMap/locked", json!({"color": "red"})).await;
    h.shows("ConfigMap/locked", "/data/color", "blue").await;
    assert_eq!(h.objects.get("ConfigMap/refused").await["data"]["color"], "red");
    h.wire.heal();
    h.shows("ConfigMap/refused", "/data/color", "blue").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warn_says_nothing_of_what_is_ignored() {
    let h = Harness::new("ignore-warn").await;
    let blue = |name: &str| config_map(name, json!({"color": "blue", "size": "small"}));
    let rules = json!([{"paths": ["/data/color"]}]);
    let spec = json!({"drift": {"mode": "Warn", "ignore": rules}});
    h.deploy("web", &pack("1.0.0", [blue("ignored"), blue("told")]), spec).await;
    let mark = h.wire.mark();
    paint(&h, "ConfigMap/ignored", json!({"color": "red"})).await;
    paint(&h, "ConfigMap/told", json!({"color": "red", "size": "big"})).await;
    let release = h.condition("web", "Drifted", "True", Some("DriftDetected")).await;
    let objects = release["status"]["drift"]["objects"].as_array().unwrap().clone();
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert_eq!(objects[0]["object"], "ConfigMap ignore-warn/told");
    h.pass("web").await;
    assert!(h.wire.writes_to("configmaps", mark).iter().all(|write| write.line().contains("dryRun")));
    h.edit_spec("web", json!({"drift": {"mode": "Enabled"}})).await;
    h.shows("ConfigMap/told", "/data/size", "small").await;
    assert_eq!(h.objects.get("ConfigMap/told").await["data"]["color"], "red");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_leaves_to_others_holds_for_every_release() {
    let mut h = Harness::without_operator("ignore-default").await;
    h.settings.drift_ignore = json!([{"target": {"kind": "Deployment"}, "paths": ["/spec/replicas"]}]);
    h.start();
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    scale(&h, 5).await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 5);
    h.deploy("web", &pack("2.0.0", [deployment("web", 2)]), ignore(json!([{"paths": ["/data/color"]}])))
        .await;
    assert_eq!(h.objects.get("Deployment/web").await["spec"]["replicas"], 5);
    // An operator without it locks again.
    h.stop().await;
    h.settings.drift_ignore = json!([]);
    h.start();
    h.shows("Deployment/web", "/spec/replicas", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_a_person_has_set_survive_a_new_autoscaler_in_the_namespace() {
    let h = Harness::new("autoscaler-new").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1)]), json!({})).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "any"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9},
    });
    h.objects.create("kubectl-create", autoscaler).await;
    // It is within the bounds of the autoscaler, which has no metrics here and lets it be.
    scale(&h, 5).await;
    wait_for("the replicas are handed over", async || {
        let drift = h.status("web").await["drift"].clone();
        if drift["objects"][0]["action"] == "HandedOver" { Ok(()) } else { Err(drift.to_string()) }
    })
    .await;
    assert_eq!(image_is_put_back(&h).await["spec"]["replicas"], 5);
    let annotated = with_annotation(deployment("web", 2), "example.com/release", "next");
    h.deploy("web", &pack("2.0.0", [annotated.clone()]), json!({})).await;
    assert_eq!(h.objects.get("Deployment/web").await["spec"]["replicas"], 5);
    h.objects.delete("HorizontalPodAutoscaler/any").await;
    h.deploy("web", &pack("3.0.0", [annotated]), json!({})).await;
    h.shows("Deployment/web", "/spec/replicas", 2).await;
}

/// Neither hooks nor definitions are for rules to speak of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_rules_reads_nothing_more_for_them() {
    let h = Harness::new("ignore-none").await;
    h.deploy("web", &pack("1.0.0", [deployment("web", 1), config_map("a", json!({"b": "c"}))]), json!({}))
        .await;
    let mark = h.wire.mark();
    image_is_put_back(&h).await;
    paint(&h, "ConfigMap/a", json!({"b": "d"})).await;
    h.shows("ConfigMap/a", "/data/b", "c").await;
    h.pass("web").await;
    let reads: Vec<String> = h
        .wire
        .since(mark)
        .iter()
        .filter(|request| request.is_read())
        .filter(|request| {
            request.is_about("deployments")
                || request.is_about("configmaps/a")
                || request.is_about("horizontalpodautoscalers")
        })
        .map(|request| request.line())
        .collect();
    assert!(reads.is_empty(), "{reads:?}");
}
