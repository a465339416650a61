//! Install, upgrade with prune, and nothing at all; who owns a release name.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::{config_map, deployment, service};
use crate::support::wire::Request;
use crate::support::{Harness, Pack};

fn pack(version: &str) -> Pack {
    Pack::new("web", version)
        .values("color: blue\n")
        .object(config_map("settings", json!({"color": "{{ values.color }}"})))
        .object(deployment("web", 1))
}

fn lines(requests: &[Request]) -> Vec<String> {
    requests.iter().map(Request::line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pending_revision_is_stored_with_its_whole_manifest_before_the_first_object() {
    let h = Harness::new("intent-first").await;
    h.deploy("web", &pack("1.0.0").object(service("web")), json!({})).await;
    let writes = h.wire.writes_since(0);
    let record = writes.iter().position(|request| request.verb == "create" && request.is_about("secrets"));
    let record = writes[record.unwrap()..]
        .iter()
        .position(|request| request.body["metadata"]["name"] == "sh.sherpack.release.v1.web.v1")
        .map(|place| place + record.unwrap());
    let first_object =
        writes.iter().position(|request| request.verb == "apply" && !request.is_about("status"));
    assert!(record.unwrap() < first_object.unwrap(), "{:#?}", lines(&writes));

    // A simple release costs this and no more: see design 4.
    let others: Vec<&Request> = writes
        .iter()
        .filter(|r| !r.is_about("sherpack-operator-record-key") && !r.is_about("events"))
        .collect();
    let count = |verb: &str, what: &str| others.iter().filter(|r| r.verb == verb && r.is_about(what)).count();
    assert_eq!(count("patch", "sherpackreleases/web"), 1, "the finalizer");
    assert_eq!(count("update", "secrets/sh.sherpack.release.v1.web.v1"), 1, "deployed");
    assert_eq!(count("apply", "sherpackreleases/web/status"), 1, "status: {:#?}", lines(&writes));
    for object in ["configmaps/settings", "services/web", "deployments/web"] {
        assert_eq!(count("apply", object), 1, "{object}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_prunes_what_only_the_old_revision_has_and_only_what_is_ours() {
    let h = Harness::new("upgrade-prune").await;
    let mut kept = config_map("kept", json!({"a": "b"}));
    kept["metadata"]["annotations"] = json!({"sherpack.io/resource-policy": "keep"});
    let first = pack("1.0.0")
        .object(config_map("dropped", json!({"a": "b"})))
        .object(config_map("taken", json!({"a": "b"})))
        .object(kept);
    h.deploy("web", &first, json!({"drift": {"mode": "Disabled"}})).await;
    // Made anew by somebody else: the same name, not our object any more.
    h.objects.delete("ConfigMap/taken").await;
    h.objects.create("somebody", config_map("taken", json!({"mine": "true"}))).await;
    let stays =
        h.objects.uids(&["ConfigMap/settings", "ConfigMap/kept", "ConfigMap/taken", "Deployment/web"]).await;

    h.pack("web-pack", &pack("1.1.0").object(service("web"))).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    let ready = h.ready("web").await;
    assert_eq!(
        (&ready["status"]["revision"], &ready["status"]["pack"]["version"]),
        (&json!(2), &json!("1.1.0"))
    );
    assert!(h.objects.find("ConfigMap/dropped").await.is_none());
    h.objects.get("Service/web").await;
    assert_eq!(
        h.objects.uids(&["ConfigMap/settings", "ConfigMap/kept", "ConfigMap/taken", "Deployment/web"]).await,
        stays
    );
    let heads: Vec<Value> = h.objects.list("Secret", "sherpack.io/head").await;
    assert_eq!(heads.len(), 1);
    assert_eq!(heads[0]["metadata"]["labels"]["sherpack.io/release-version"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_follows_the_applies() {
    let h = Harness::new("prune-order").await;
    h.deploy("web", &pack("1.0.0").object(config_map("dropped", json!({"a": "b"}))), json!({})).await;
    let mark = h.wire.mark();
    h.pack("web-pack", &pack("1.1.0").object(deployment("second", 1))).await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    let writes = h.wire.writes_since(mark);
    let place = |verb: &str, what: &str| {
        let found = writes.iter().position(|request| request.verb == verb && request.is_about(what));
        found.unwrap_or_else(|| panic!("no {verb} {what} in {:#?}", lines(&writes)))
    };
    assert!(place("apply", "deployments/second") < place("delete", "configmaps/dropped"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_that_is_suddenly_empty_deletes_nothing() {
    let h = Harness::new("empty-render").await;
    let conditional = Pack::new("web", "1.0.0").values("enabled: true\n").template(
        "all.yaml",
        "{% if values.enabled %}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: only}\n{% endif %}\n",
    );
    h.deploy("web", &conditional, json!({})).await;
    let uids = h.objects.uids(&["ConfigMap/only"]).await;
    h.edit_spec("web", json!({"values": {"enabled": false}})).await;
    h.condition("web", "Ready", "False", Some("EmptyRender")).await;
    assert_eq!(h.objects.uids(&["ConfigMap/only"]).await, uids);
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_over_a_release_that_is_as_it_should_be_writes_nothing_but_its_acknowledgement() {
    let h = Harness::new("nothing").await;
    h.deploy("web", &pack("1.0.0"), json!({})).await;
    h.pass("web").await;
    let mark = h.wire.mark();
    h.pass("web").await;
    // Fields that do not change the manifest are no reason for a revision either.
    h.edit_spec("web", json!({"interval": "20m", "timeout": "7m", "history": {"limit": 3}})).await;
    h.ready("web").await;
    h.pass("web").await;
    let writes = h.wire.writes_since(mark);
    assert!(
        writes.iter().all(|request| request.is_about("sherpackreleases/web/status")),
        "{:#?}",
        lines(&writes)
    );
    h.shows_states("web", &["1 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_upgrade_waits_and_what_is_deployed_is_kept_meanwhile() {
    let h = Harness::new("paused").await;
    h.deploy("web", &pack("1.0.0"), json!({"upgrade": {"paused": true}})).await;
    h.pack("web-pack", &pack("1.1.0").values("color: green\n")).await;
    let held = h.condition("web", "Ready", "False", Some("Paused")).await;
    assert_eq!(condition(&held, "Released")["status"], "True");
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.edit_spec("web", json!({"upgrade": null})).await;
    h.ready("web").await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_release_of_a_name_touches_nothing_and_takes_over_when_the_first_is_gone() {
    let h = Harness::new("name-taken").await;
    h.deploy("first", &pack("1.0.0"), json!({"releaseName": "web"})).await;
    let uids = h.objects.uids(&["ConfigMap/settings", "Deployment/web"]).await;
    let mark = h.wire.mark();
    h.apply("second", &pack("9.0.0").values("color: red\n"), json!({"releaseName": "web"})).await;
    let held = h.condition("second", "Ready", "False", Some("ReleaseNameTaken")).await;
    assert!(condition(&held, "Ready")["message"].as_str().unwrap().contains("name-taken/first"), "{held}");
    assert_eq!(condition(&held, "Stalled")["status"], "True");
    h.pass("second").await;
    for kind in ["configmaps", "deployments", "secrets"] {
        assert!(h.wire.writes_to(kind, mark).is_empty(), "{kind} were written");
    }
    // Its deletion is not the deletion of what the first one has.
    h.uninstall("second").await;
    assert_eq!(h.objects.uids(&["ConfigMap/settings", "Deployment/web"]).await, uids);
    h.records_show("web", &["1 deployed"]).await;

    h.apply("second", &pack("9.0.0").values("color: red\n"), json!({"releaseName": "web"})).await;
    h.condition("second", "Ready", "False", Some("ReleaseNameTaken")).await;
    h.uninstall("first").await;
    h.ready("second").await;
    h.shows("ConfigMap/settings", "/data/color", "red").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rename_of_the_pack_s_objects_moves_them_in_one_upgrade() {
    let h = Harness::new("rename").await;
    h.deploy("web", &pack("1.0.0"), json!({})).await;
    let renamed = Pack::new("web", "2.0.0").object(config_map("settings-2", json!({"a": "b"})));
    h.pack("web-pack", &renamed).await;
    h.gone("Deployment/web").await;
    h.gone("ConfigMap/settings").await;
    h.objects.get("ConfigMap/settings-2").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_revisions_are_kept_than_the_limit_says() {
    let h = Harness::new("retention").await;
    h.deploy("web", &pack("1.0.0"), json!({"history": {"limit": 2}})).await;
    for (revision, color) in [(2, "red"), (3, "white"), (4, "green")] {
        h.edit_spec("web", json!({"values": {"color": color}})).await;
        let ready = h.ready("web").await;
        assert_eq!(ready["status"]["revision"], revision);
    }
    h.shows_states("web", &["3 superseded", "4 deployed"]).await;
    let history = h.status("web").await["history"].clone();
    let kept: Vec<(Value, Value)> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["revision"].clone(), entry["state"].clone()))
        .collect();
    assert_eq!(kept, [(json!(4), json!("deployed")), (json!(3), json!("superseded"))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_upgrades_do_not_push_the_last_deployed_revision_out() {
    let h = Harness::new("retention-failed").await;
    let spec = json!({"history": {"limit": 1}, "upgrade": {"retries": 0, "onFailure": "Retain"}});
    h.deploy("web", &pack("1.0.0"), spec).await;
    h.edit_spec("web", json!({"timeout": "1s"})).await;
    h.ready("web").await;
    for round in ["a", "b"] {
        let slow =
            crate::support::packs::with_pod_annotation(deployment("slow", 1), "devcluster/unready", "true");
        h.pack("web-pack", &pack(&format!("2.0.0-{round}")).object(slow)).await;
        h.condition("web", "Ready", "False", Some("RetriesExceeded")).await;
        h.shows("SherpackRelease/web", "/status/pack/version", format!("2.0.0-{round}")).await;
    }
    h.shows_states("web", &["1 deployed", "2 failed", "3 failed"]).await;
}

/// What a deleted release left behind on purpose is nobody's to prune, whoever takes its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_of_an_orphaned_release_deletes_nothing_that_it_left() {
    let h = Harness::new("orphan-successor").await;
    let first = pack("1.0.0").object(config_map("data", json!({"precious": "yes"})));
    h.deploy("web", &first, json!({"uninstall": {"policy": "Orphan"}})).await;
    let before = h.objects.uids(&["ConfigMap/data", "ConfigMap/settings", "Deployment/web"]).await;
    h.uninstall("web").await;

    h.apply("other", &pack("2.0.0"), json!({"releaseName": "web"})).await;
    h.condition("other", "Ready", "False", Some("ObjectNotOwned")).await;
    h.edit_spec("other", json!({"install": {"adopt": "Unowned"}})).await;
    h.ready("other").await;
    assert_eq!(h.objects.uids(&["ConfigMap/data", "ConfigMap/settings", "Deployment/web"]).await, before);
    h.records_show("web", &["1 superseded", "2 deployed"]).await;
}
