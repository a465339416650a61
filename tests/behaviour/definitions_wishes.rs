//! Who decides what happens to definitions: the release, then `crds` of `Pack.yaml` as far as the operator believes it.

use serde_json::json;

use super::definitions::{make, properties, shipping, size, what, widgets};
use crate::support::harness::condition;
use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

const FORCES: &str = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 2.0.0}\ncrds: {upgrade: {strategy: force}, uninstall: {keep: false}}\n";

/// The definition without one of its properties, in a pack that wants it forced, and deleted in the end.
fn forcing(h: &Harness) -> Pack {
    let smaller = widgets(h, &json!({"size": {"type": "integer"}}));
    shipping("2.0.0", "green", &smaller).file("Pack.yaml", FORCES)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_is_not_there_is_made_as_the_release_says_and_else_as_the_pack_says() {
    const NOT: &str =
        "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\ncrds: {install: false}\n";
    let h = Harness::new("wishes-install").await;
    let plain = shipping("1.0.0", "blue", &widgets(&h, &size()));
    let release = h.deploy("web", &plain, json!({"crds": {"install": false}})).await;
    assert_eq!(release["status"]["crds"][0]["verdict"], "NotInstalled", "{release}");
    assert!(h.objects.find(&what(&h)).await.is_none(), "the release does not want it");
    let not = plain.file("Pack.yaml", NOT).object(config_map("second", json!({})));
    let release = h.deploy("web", &not, json!({})).await;
    assert_eq!(release["status"]["crds"][0]["verdict"], "NotInstalled", "{release}");
    assert!(h.objects.find(&what(&h)).await.is_none(), "the pack does not want it");
    let again = not.object(config_map("third", json!({})));
    h.deploy("web", &again, json!({"crds": {"install": true}})).await;
    assert_eq!(properties(&h).await, ["color", "size"], "the release wants it");
    h.uninstall("web").await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_is_trusted_has_its_definition_forced_and_deleted() {
    let mut h = Harness::without_operator("wishes-trusted").await;
    h.settings.trust_pack_crds = true;
    h.start();
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({})).await;
    make(&h, "theirs").await;
    // The release may be stricter.
    h.apply("web", &forcing(&h), json!({"crds": {"upgrade": "Safe", "onUninstall": "Keep"}})).await;
    h.condition("web", "Ready", "False", Some("CrdBreakingChange")).await;
    assert_eq!(properties(&h).await, ["color", "size"]);
    h.edit_spec("web", json!({"crds": {"upgrade": null}})).await;
    h.shows("SherpackRelease/web", "/status/crds/0/verdict", "Dangerous (forced)").await;
    h.ready("web").await;
    assert_eq!(properties(&h).await, ["size"]);
    h.uninstall("web").await;
    assert!(h.objects.find(&what(&h)).await.is_some(), "the release keeps it");
    let name = format!("widgets.{}.example.com", h.namespace);
    let spec = json!({"install": {"adopt": "Unowned"}, "crds": {"confirmDeletion": [name]}});
    h.deploy("web", &forcing(&h), spec).await;
    h.uninstall("web").await;
    assert!(h.objects.find(&what(&h)).await.is_none(), "the pack does not keep it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_is_not_trusted_has_its_definition_kept() {
    let h = Harness::new("wishes-untrusted").await;
    h.deploy("web", &forcing(&h), json!({})).await;
    h.uninstall("web").await;
    h.objects.get(&what(&h)).await;
    h.objects.delete(&what(&h)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_may_have_its_definition_left_as_it_is() {
    const LEAVES: &str = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 2.0.0}\ncrds: {upgrade: {enabled: false, strategy: force}}\n";
    let h = Harness::new("wishes-left").await;
    h.deploy("web", &shipping("1.0.0", "blue", &widgets(&h, &size())), json!({})).await;
    let smaller = widgets(&h, &json!({"size": {"type": "integer"}}));
    let release =
        h.deploy("web", &shipping("2.0.0", "green", &smaller).file("Pack.yaml", LEAVES), json!({})).await;
    assert_eq!(release["status"]["crds"][0]["verdict"], "Skipped", "{release}");
    assert_eq!(properties(&h).await, ["color", "size"]);
    h.uninstall("web").await;
    h.objects.delete(&what(&h)).await;
}

/// Names that another definition has are never accepted, so what it defines is never served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_never_served_is_waited_for_as_the_release_says_and_else_as_the_pack_says() {
    const PATIENT: &str = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\ncrds: {waitReady: true, waitTimeout: 2s}\n";
    const HASTY: &str = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\ncrds: {waitReady: false, waitTimeout: 2s}\n";
    let h = Harness::new("wishes-wait").await;
    h.objects.create("test-person", widgets(&h, &size())).await;
    let mut rival = widgets(&h, &size());
    rival["metadata"]["name"] = json!(format!("wodgets.{}.example.com", h.namespace));
    rival["spec"]["names"] = json!({"kind": "Widget", "plural": "wodgets", "singular": "wodget"});
    // The time is what the pack says, for what the release says to be waited for.
    let wishing = |metadata: &str| shipping("1.0.0", "blue", &rival).file("Pack.yaml", metadata);
    let spec = json!({"crds": {"waitReady": true}, "install": {"retries": 0}});
    h.apply("waits", &wishing(HASTY), spec).await;
    let held = h.condition("waits", "Released", "False", None).await;
    let told = condition(&held, "Released")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("not served within 2s"), "{told}");
    h.uninstall("waits").await;
    h.deploy("web", &wishing(HASTY), json!({})).await;
    h.uninstall("web").await;
    h.deploy("web", &wishing(PATIENT), json!({"crds": {"waitReady": false}})).await;
    h.uninstall("web").await;
    h.objects.delete(&format!("CustomResourceDefinition/wodgets.{}.example.com", h.namespace)).await;
    h.objects.delete(&what(&h)).await;
}
