//! Definitions of resources that a pack ships: first, judged, locked, shared, and kept.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::objects::uid;
use crate::support::packs::{config_map, with_annotation};
use crate::support::{Effect, Fault, Harness, Pack};

/// A definition of widgets in a group of the test's own, with these properties of `spec`.
pub(super) fn widgets(h: &Harness, properties: &Value) -> Value {
    definition(h, &[("v1", true, properties)])
}

/// The same with versions: name, whether it is the one of storage, properties of `spec`.
fn definition(h: &Harness, versions: &[(&str, bool, &Value)]) -> Value {
    let version = |(name, storage, properties): &(&str, bool, &Value)| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": properties},
            }}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{}", group(h))},
        "spec": {
            "group": group(h), "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

fn shared(definition: Value) -> Value {
    with_annotation(definition, "sherpack.io/crd-policy", "shared")
}

fn group(h: &Harness) -> String {
    format!("{}.example.com", h.namespace)
}

/// The definition as an object of the cluster.
pub(super) fn what(h: &Harness) -> String {
    format!("CustomResourceDefinition/widgets.{}", group(h))
}

pub(super) fn widget(h: &Harness, name: &str) -> Value {
    json!({
        "apiVersion": format!("{}/v1", group(h)), "kind": "Widget", "metadata": {"name": name},
        "spec": {"size": 3},
    })
}

fn api(h: &Harness) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group(h), "v1", "Widget"));
    Api::namespaced_with(h.client.clone(), &h.namespace, &resource)
}

async fn names(h: &Harness) -> Vec<String> {
    let found = api(h).list(&ListParams::default()).await.unwrap();
    found.items.into_iter().filter_map(|widget| widget.metadata.name).collect()
}

/// Somebody else's object, with values for the properties of [`size`].
pub(super) async fn make(h: &Harness, name: &str) {
    let mut widget = widget(h, name);
    widget["spec"]["color"] = json!("blue");
    let object = serde_json::from_value(widget).unwrap();
    api(h).create(&kube::api::PostParams::default(), &object).await.unwrap();
}

fn pack(version: &str, color: &str) -> Pack {
    Pack::new("web", version).object(config_map("settings", json!({"color": color})))
}

pub(super) fn shipping(version: &str, color: &str, definition: &Value) -> Pack {
    pack(version, color).file("crds/widgets.yaml", definition.to_string())
}

pub(super) fn size() -> Value {
    json!({"size": {"type": "integer"}, "color": {"type": "string"}})
}

/// The shape of a definition in the cluster: which properties its first version has.
pub(super) async fn properties(h: &Harness) -> Vec<String> {
    let live = h.objects.get(&what(h)).await;
    let found = live.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties");
    found.and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
}

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pack_defines_can_be_used_by_the_same_pack() {
    let h = Harness::new("definitions-first").await;
    let gadgets = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{}", group(&h))},
        "spec": {
            "group": group(&h), "scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let gadget = json!({
        "apiVersion": format!("{}/v1", group(&h)), "kind": "Gadget", "metadata": {"name": format!("{}-one", h.namespace)},
    });
    let pack = shipping("1.0.0", "blue", &widgets(&h, &size())).objects([
        gadgets.clone(),
        gadget,
        widget(&h, "small"),
    ]);
    let release = h.deploy("web", &pack, json!({})).await;
    assert_eq!(names(&h).await, ["small"]);
    let named: Vec<&str> =
        release["status"]["crds"].as_array().unwrap().iter().filter_map(|crd| crd["name"].as_str()).collect();
    assert_eq!(named, [format!("widgets.{}", group(&h)), format!("gadgets.{}", group(&h))]);
    assert_eq!(release["status"]["crds"][0]["policy"], "managed");
    // It is locked like everything else.
    h.objects.edit(&what(&h), "kubectl-edit", json!({"spec": {"names": {"shortNames": ["wd"]}}})).await;
    h.objects
        .edit(&what(&h), "kubectl-edit", json!({"spec": {"versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}},
        }]}}))
        .await;
    h.sees(&what(&h), |live| {
        live.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size").is_some()
    })
    .await;
    // An uninstall keeps definitions and what others made of them; a new release takes them over.
    make(&h, "theirs").await;
    h.uninstall("web").await;
    assert_eq!(names(&h).await, ["theirs"]);
    h.deploy("again", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({})).await;
    let live = h.objects.get(&what(&h)).await;
    assert_eq!(live["metadata"]["labels"]["sherpack.io/release-name"], "again");
    // Whose it is outlives what is applied: it is written by a manager of its own.
    let owner = json!(format!("{}/again", h.namespace));
    assert_eq!(live["metadata"]["annotations"]["sherpack.io/owner"], owner);
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    let own: Vec<&Value> = managers.iter().filter(|entry| entry["manager"] == "sherpack-operator").collect();
    let only_this = json!({"f:metadata": {"f:annotations": {"f:sherpack.io/owner": {}}}});
    assert_eq!(own.iter().map(|entry| &entry["fieldsV1"]).collect::<Vec<_>>(), [&only_this]);
    h.objects.delete(&format!("CustomResourceDefinition/gadgets.{}", group(&h))).await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaking_change_stops_the_release_before_anything_is_touched() {
    let h = Harness::new("definitions-breaking").await;
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({})).await;
    make(&h, "theirs").await;
    let smaller = widgets(&h, &json!({"size": {"type": "integer"}}));
    h.pack("web-pack", &shipping("2.0.0", "green", &smaller)).await;
    let held = h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    let told = message(&held);
    assert!(
        told.contains("spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.color"),
        "{told}"
    );
    assert!(told.contains(&format!("loses data of 1 of 1, first {}/theirs", h.namespace)), "{told}");
    let verdict = &held["status"]["crds"][0];
    assert_eq!(verdict["verdict"], "Dangerous", "{verdict}");
    let token = verdict["digest"].as_str().unwrap().to_owned();
    assert!(token.starts_with(&format!("widgets.{}@sha256:", group(&h))) && told.contains(&token), "{token}");
    assert_eq!(properties(&h).await, ["color", "size"]);
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "blue");
    h.shows_states("web", &["1 deployed"]).await;
    // What is deployed stays locked meanwhile.
    h.objects.edit("ConfigMap/settings", "kubectl-edit", json!({"data": {"color": "red"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    let labels = ["name=\"web\"", "type=\"Ready\"", "reason=\"CrdBreakingChange\""];
    assert_eq!(h.metric("sherpack_release_condition", &labels).await, 1.0);
    // Another change is not the confirmed one.
    h.edit_spec("web", json!({"crds": {"confirmChanges": [token.replace("sha256:", "sha256:0")]}})).await;
    h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    h.edit_spec("web", json!({"crds": {"confirmChanges": [token]}})).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.ready("web").await;
    assert_eq!(properties(&h).await, ["size"]);
    // However often it was judged, it is one change.
    assert_eq!(
        h.metric("sherpack_crd_changes_total", &["severity=\"Dangerous\"", "name=\"web\""]).await,
        1.0
    );
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_makes_the_change_and_says_so_and_skip_leaves_it() {
    let h = Harness::new("definitions-force").await;
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({"crds": {"upgrade": "Skip"}}))
        .await;
    make(&h, "theirs").await;
    let smaller = widgets(&h, &json!({"size": {"type": "integer"}}));
    h.pack("web-pack", &shipping("2.0.0", "green", &smaller)).await;
    h.shows("ConfigMap/settings", "/data/color", "green").await;
    h.shows("SherpackRelease/web", "/status/crds/0/verdict", "Skipped").await;
    assert_eq!(properties(&h).await, ["color", "size"]);
    // A pack alone may not have it forced.
    let forcing = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 3.0.0}\ncrds: {upgrade: {strategy: force}}\n";
    h.pack("web-pack", &shipping("3.0.0", "red", &smaller).file("Pack.yaml", forcing)).await;
    h.edit_spec("web", json!({"crds": null})).await;
    h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    h.edit_spec("web", json!({"crds": {"upgrade": "Force"}})).await;
    h.shows("ConfigMap/settings", "/data/color", "red").await;
    h.shows("SherpackRelease/web", "/status/crds/0/verdict", "Dangerous (forced)").await;
    let forced = h.ready("web").await;
    assert_eq!(properties(&h).await, ["size"]);
    let released = condition(&forced, "Released")["message"].as_str().unwrap().to_owned();
    assert!(released.contains("changed by force: widgets."), "{released}");
    h.pass("web").await;
    let later = condition(&h.ready("web").await, "Released")["message"].clone();
    assert_eq!(later, released, "on every pass");
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_goes_only_when_asked_and_with_objects_only_when_confirmed() {
    let h = Harness::new("definitions-deletion").await;
    let pack = shipping("1.0.0", "blue", &widgets(&h, &size()));
    h.deploy("web", &pack, json!({"crds": {"onUninstall": "Delete"}})).await;
    make(&h, "theirs").await;
    // Who cannot count does not take it for none.
    let listed = format!("/{}/v1/widgets", group(&h));
    h.wire.fault(Fault::new(Effect::Answer(403), move |request| {
        request.is_read() && request.path.contains(&listed)
    }));
    h.objects.delete("SherpackRelease/web").await;
    let uncounted = h.condition("web", "Ready", "False", Some("CrdDeletionBlocked")).await;
    assert!(message(&uncounted).contains("cannot be counted"), "{}", message(&uncounted));
    h.wire.heal();
    h.pass("web").await;
    let held = h.sees("SherpackRelease/web", |release| message(release).contains("1 resource in")).await;
    let told = message(&held);
    assert!(
        told.contains(&format!("1 resource in {}", h.namespace)) && told.contains("confirmDeletion"),
        "{told}"
    );
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "blue", "nothing was deleted");
    let name = format!("widgets.{}", group(&h));
    h.edit_spec("web", json!({"crds": {"confirmDeletion": [name]}})).await;
    h.gone("SherpackRelease/web").await;
    assert!(h.objects.find(&what(&h)).await.is_none());
    // Without objects nothing has to be confirmed.
    let managed = with_annotation(widgets(&h, &size()), "sherpack.io/crd-policy", "managed");
    h.deploy("empty", &shipping("1.0.0", "blue", &managed), json!({"crds": {"onUninstall": "Delete"}})).await;
    h.uninstall("empty").await;
    assert!(h.objects.find(&what(&h)).await.is_none());
    // What is shared never goes.
    let pack = shipping("1.0.0", "blue", &shared(widgets(&h, &size())));
    h.deploy("shared", &pack, json!({"crds": {"onUninstall": "Delete"}})).await;
    h.uninstall("shared").await;
    h.objects.delete(&what(&h)).await;
}

/// The definition says it itself, so nothing that happens to releases and records makes it theirs to delete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_definition_stays_adopted_when_no_record_knows_it() {
    let h = Harness::new("definitions-adopted").await;
    let theirs = uid(&h.objects.create("kubectl-create", widgets(&h, &size())).await);
    let pack = shipping("1.0.0", "blue", &widgets(&h, &size()));
    let delete = json!({"onUninstall": "Delete"});
    h.deploy("web", &pack, json!({"install": {"adopt": "Unowned"}, "crds": delete})).await;
    let live = h.shows(&what(&h), "/metadata/annotations/sherpack.io~1adopted", "true").await;
    assert_eq!(live["metadata"]["annotations"]["sherpack.io/owner"], "definitions-adopted/web");
    h.lose_record("web", 1).await;
    h.condition("web", "Ready", "False", Some("RecordLost")).await;
    h.annotate("web", "sherpack.io/reset-at", "now").await;
    h.shows_states("web", &["2 deployed"]).await;
    h.uninstall("web").await;
    assert_eq!(uid(&h.objects.get(&what(&h)).await), theirs, "after its record was lost");
    h.deploy("web", &pack, json!({"crds": delete})).await;
    h.uninstall("web").await;
    assert_eq!(uid(&h.objects.get(&what(&h)).await), theirs, "after the release was made anew");
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_leaves_the_pack_stays_and_so_does_that_of_a_failed_install() {
    let h = Harness::new("definitions-stay").await;
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({})).await;
    make(&h, "theirs").await;
    h.deploy("web", &pack("2.0.0", "green"), json!({})).await;
    h.uninstall("web").await;
    assert_eq!(names(&h).await, ["theirs"]);
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_releases_with_one_shared_definition_one_writes_it() {
    let h = Harness::new("definitions-shared").await;
    let other = |version: &str, definition: &Value| {
        Pack::new("other", version)
            .object(config_map("other", json!({})))
            .file("crds/widgets.yaml", definition.to_string())
    };
    let first = shared(widgets(&h, &size()));
    h.deploy("web", &shipping("1.0.0", "blue", &first), json!({})).await;
    let mut properties_of_more = size();
    properties_of_more["shape"] = json!({"type": "string"});
    let more = shared(widgets(&h, &properties_of_more));
    let second = h.deploy("other", &other("1.0.0", &more), json!({})).await;
    let told = second["status"]["crds"][0]["verdict"].as_str().unwrap().to_owned();
    assert_eq!(told, format!("WrittenBy {}/web", h.namespace));
    assert_eq!(properties(&h).await, ["color", "size"]);
    // A third that wants it for itself is told whose it is.
    h.apply("third", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({"releaseName": "third"}))
        .await;
    let held = h.condition("third", "Ready", "False", Some("OwnershipConflict")).await;
    assert!(message(&held).contains(&format!("{}/web", h.namespace)), "{}", message(&held));
    h.uninstall("third").await;
    // When the writer goes, the other one takes over with its own.
    h.uninstall("web").await;
    h.sees(&what(&h), |live| live["metadata"]["labels"]["sherpack.io/release-name"] == "other").await;
    assert_eq!(properties(&h).await, ["color", "shape", "size"]);
    h.uninstall("other").await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_is_a_change_like_others() {
    let h = Harness::new("definitions-rollback").await;
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({})).await;
    let both = definition(&h, &[("v1", true, &size()), ("v2", false, &size())]);
    h.deploy("web", &shipping("2.0.0", "green", &both), json!({})).await;
    h.edit_spec("web", json!({"rollbackTo": 1})).await;
    let held = h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    assert!(message(&held).contains("v2"), "{}", message(&held));
    assert_eq!(h.objects.get("ConfigMap/settings").await["data"]["color"], "green", "nothing was touched");
    let token = held["status"]["crds"][0]["digest"].clone();
    h.edit_spec("web", json!({"crds": {"confirmChanges": [token]}})).await;
    h.shows("ConfigMap/settings", "/data/color", "blue").await;
    h.shows_states("web", &["1 superseded", "2 superseded", "3 deployed"]).await;
    assert_eq!(h.objects.get(&what(&h)).await["spec"]["versions"].as_array().unwrap().len(), 1);
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_server_would_refuse_is_told_before_anything_is_touched() {
    let h = Harness::new("definitions-refused").await;
    let mut broken =
        widgets(&h, &json!({"size": {"type": "number", "format": "x", "properties": {"a": {}}}}));
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] =
        json!("nothing");
    h.apply("web", &shipping("1.0.0", "blue", &broken), json!({})).await;
    let told =
        h.sees("SherpackRelease/web", |release| condition(release, "Ready")["status"] == "False").await;
    assert!(message(&told).contains("properties[spec].type: Unsupported value"), "{}", message(&told));
    assert!(h.wire.writes_to("configmaps", 0).is_empty());
    // A keyword that this API server does not know.
    let mut unknown = widgets(&h, &size());
    unknown["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-other"] = json!(true);
    h.pack("web-pack", &shipping("1.0.0", "blue", &unknown)).await;
    h.sees("SherpackRelease/web", |release| {
        message(release).contains("openAPIV3Schema.x-other: field not declared")
    })
    .await;
    assert!(h.wire.writes_to("configmaps", 0).is_empty());
    // Mended, it goes on by itself.
    h.pack("web-pack", &shipping("1.0.1", "blue", &widgets(&h, &size()))).await;
    h.ready("web").await;
    // A scope is fixed: nothing lets that through.
    let mut cluster = widgets(&h, &size());
    cluster["spec"]["scope"] = json!("Cluster");
    h.pack("web-pack", &shipping("2.0.0", "green", &cluster)).await;
    let held = h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    assert_eq!(held["status"]["crds"][0]["verdict"], "Blocked");
    h.edit_spec("web", json!({"crds": {"upgrade": "Force"}})).await;
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    h.objects.delete("SherpackRelease/web").await;
    h.gone("SherpackRelease/web").await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_whose_names_are_taken_is_not_ready() {
    let h = Harness::new("definitions-names").await;
    h.objects.create("test-person", widgets(&h, &size())).await;
    let mut rival = widgets(&h, &size());
    rival["metadata"]["name"] = json!(format!("wodgets.{}", group(&h)));
    rival["spec"]["names"] = json!({"kind": "Widget", "plural": "wodgets", "singular": "wodget"});
    let spec = json!({"crds": {"waitTimeout": "2s"}, "install": {"retries": 0}});
    h.apply("web", &shipping("1.0.0", "blue", &rival), spec).await;
    let held = h.condition("web", "Released", "False", None).await;
    let told = condition(&held, "Released")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("CrdNotReady") || told.contains("not served within 2s"), "{told}");
    // Of a subpack whose definitions nobody is to wait for it hinders nothing.
    let metadata = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.1}\n\
                    dependencies: [{name: redis, version: 1.x, repository: 'https://example.com', crds: {waitReady: false}}]\n";
    let within = |metadata: &str| {
        pack("1.0.1", "blue")
            .file("Pack.yaml", metadata)
            .file(
                "charts/redis/Pack.yaml",
                "apiVersion: sherpack/v1\nmetadata: {name: redis, version: 1.0.0}\n",
            )
            .file("charts/redis/crds/wodgets.yaml", rival.to_string())
    };
    h.pack("web-pack", &within(metadata)).await;
    h.ready("web").await;
    let live = h.objects.get(&format!("CustomResourceDefinition/wodgets.{}", group(&h))).await;
    let accepted = |condition: &Value| condition["type"] == "NamesAccepted" && condition["status"] == "True";
    assert!(!live["status"]["conditions"].as_array().unwrap().iter().any(accepted), "{live}");
    h.uninstall("web").await;
    h.objects.delete(&format!("CustomResourceDefinition/wodgets.{}", group(&h))).await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_external_or_left_out_is_never_touched() {
    let h = Harness::new("definitions-external").await;
    let inner = widgets(&h, &size());
    let pack = pack("1.0.0", "blue")
        .file(
            "Pack.yaml",
            "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n\
             dependencies: [{name: redis, version: 1.x, repository: 'https://example.com', crds: {import: false}}]\n",
        )
        .file("charts/redis/Pack.yaml", "apiVersion: sherpack/v1\nmetadata: {name: redis, version: 1.0.0}\n")
        .file("charts/redis/crds/widgets.yaml", inner.to_string());
    h.deploy("web", &pack, json!({})).await;
    assert!(h.objects.find(&what(&h)).await.is_none());
    let external = with_annotation(inner, "sherpack.io/crd-policy", "external");
    let release = h.deploy("web", &shipping("2.0.0", "green", &external), json!({})).await;
    assert_eq!(release["status"]["crds"][0]["verdict"], "External");
    assert!(h.objects.find(&what(&h)).await.is_none());
    assert!(h.wire.writes_to("customresourcedefinitions", 0).is_empty());
}

/// Nobody is asked on the way out of a namespace, so nothing is lost there but what is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_outlives_its_release_when_the_namespace_goes() {
    let h = Harness::new("definitions-namespace").await;
    let spec =
        json!({"crds": {"onUninstall": "Delete", "confirmDeletion": [format!("widgets.{}", group(&h))]}});
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), spec).await;
    h.objects.delete(&format!("Namespace/{}", h.namespace)).await;
    h.gone(&format!("Namespace/{}", h.namespace)).await;
    assert!(h.objects.find(&what(&h)).await.is_some());
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_definition_gets_its_webhook_after_the_waves_and_its_ca_bundle_is_the_injector_s() {
    let h = Harness::new("definitions-conversion").await;
    let mut both = definition(&h, &[("v1", true, &size()), ("v2", false, &size())]);
    both["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "convert", "namespace": h.namespace, "path": "/"}},
    }});
    let pack = |version: &str, color: &str| shipping(version, color, &both).object(widget(&h, "small"));
    h.deploy("web", &pack("1.0.0", "blue"), json!({})).await;
    let about = format!("customresourcedefinitions/widgets.{}", group(&h));
    let writes = h.wire.writes_since(0);
    let place = |found: &dyn Fn(&crate::support::wire::Request) -> bool| {
        writes.iter().position(found).unwrap_or_else(|| panic!("not in {writes:#?}"))
    };
    let strategy =
        |request: &crate::support::wire::Request| request.body["spec"]["conversion"]["strategy"].clone();
    let first = place(&|request| request.is_about(&about) && strategy(request) != "Webhook");
    let object = place(&|request| request.is_about("widgets/small"));
    let webhook = place(&|request| request.is_about(&about) && strategy(request) == "Webhook");
    assert!(first < object && object < webhook, "{first}, {object}, {webhook}");

    let kubeconfig = kube::config::Kubeconfig::read_from(&h.settings.kubeconfig).unwrap();
    let ca = kubeconfig.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone().unwrap();
    let path = "/spec/conversion/webhook/clientConfig/caBundle";
    let inject = json!([{"op": "add", "path": path, "value": ca}]);
    h.objects.json_patch(&what(&h), "cert-manager-cainjector", inject).await;
    let mark = h.wire.mark();
    h.pass("web").await;
    assert!(h.wire.writes_to(&about, mark).is_empty(), "the bundle was touched");
    let astray = json!([{"op": "replace", "path": "/spec/conversion/webhook/clientConfig/service/name", "value": "other"}]);
    h.objects.json_patch(&what(&h), "kubectl-edit", astray).await;
    h.shows(&what(&h), "/spec/conversion/webhook/clientConfig/service/name", "convert").await;
    h.deploy("web", &pack("2.0.0", "green"), json!({})).await;
    h.shows(&what(&h), path, ca).await;
    h.uninstall("web").await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_is_none_is_told_by_its_path_and_nothing_is_touched() {
    let h = Harness::new("definitions-bad").await;
    let with = |pointer: &str, value: Value| {
        let mut definition = widgets(&h, &size());
        let place = definition.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"));
        *place = value;
        definition.to_string()
    };
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let name = format!("widgets.{}", group(&h));
    let good = widgets(&h, &size()).to_string();
    let cases = [
        ("old-api", with("/apiVersion", json!("apiextensions.k8s.io/v1beta1")), "v1beta1".to_owned()),
        (
            "not-structural",
            with(schema, json!({"properties": {"size": {"type": "integer"}}})),
            "properties[spec].type: Required value".to_owned(),
        ),
        (
            "recursion",
            with(schema, json!({"type": "object", "properties": {"self": {"$ref": "#/properties/spec"}}})),
            "$ref".to_owned(),
        ),
        ("twice", format!("{good}\n---\n{good}\n"), name.clone()),
        ("large", with(schema, json!({"type": "object", "description": "x".repeat(5 << 20)})), name.clone()),
        (
            "template",
            format!("# as it stands\n{}", good.replace("\"integer\"", "{{ values.kind }}")),
            "crds/widgets.yaml:2".to_owned(),
        ),
        ("another-kind", config_map("a", json!({})).to_string(), "crds/widgets.yaml".to_owned()),
    ];
    for (name, text, wanted) in &cases {
        h.apply(name, &pack("1.0.0", "blue").file("crds/widgets.yaml", text.as_str()), json!({})).await;
        let held = h
            .sees(&format!("SherpackRelease/{name}"), |release| {
                condition(release, "Ready")["status"] == "False"
            })
            .await;
        let told = condition(&held, "Ready");
        assert!(told["message"].as_str().unwrap().contains(wanted), "{name}: {told}");
        crate::support::tell(&format!(
            "{name}: {} {}",
            told["reason"],
            message(&held).chars().take(200).collect::<String>()
        ));
    }
    for kind in ["configmaps", "customresourcedefinitions"] {
        assert!(h.wire.writes_to(kind, 0).is_empty(), "{kind} were written");
    }
    assert!(h.objects.list("Secret", "sherpack.io/storage-driver").await.is_empty(), "a revision was stored");
    for (name, ..) in &cases {
        h.uninstall(name).await;
    }
}

/// An operator that looks at one namespace only knows nothing of the releases of the others but what their definitions say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_of_a_release_that_is_not_watched_is_not_taken_over() {
    let (theirs, ours) =
        (Harness::new("definitions-theirs").await, Harness::new("definitions-unwatched").await);
    let definition = widgets(&theirs, &size());
    theirs.deploy("web", &shipping("1.0.0", "blue", &definition), json!({})).await;
    ours.apply("rival", &shipping("1.0.0", "blue", &definition), json!({})).await;
    let held = ours.condition("rival", "Ready", "False", Some("OwnershipConflict")).await;
    assert!(message(&held).contains("definitions-theirs/web"), "{}", message(&held));
    assert!(ours.wire.writes_to("customresourcedefinitions", 0).is_empty());
    // When it has gone, the definition is free.
    theirs.uninstall("web").await;
    ours.annotate("rival", "sherpack.io/reconcile-at", "now").await;
    ours.ready("rival").await;
    ours.objects.delete(&what(&theirs)).await;
}
