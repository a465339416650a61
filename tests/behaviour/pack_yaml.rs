//! What each key of `Pack.yaml` does; `crds` has a file of its own, `definitions_wishes`.

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::config_map;
use crate::support::{Harness, Pack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pack_says_of_itself_is_in_its_record_and_its_templates() {
    const TELLS: &str = "apiVersion: sherpack/v1\nmetadata:\n  name: web\n  version: 1.0.0\n  description: A shop\n  appVersion: 7.1\n  \
        kubeVersion: '>=1.20.0-0'\n  home: https://example.com/shop\n  icon: https://example.com/shop.svg\n  \
        sources: [https://git.example.com/shop]\n  keywords: [shop]\n  \
        maintainers: [{name: Team, email: team@example.com, url: https://example.com/team}]\n  annotations: {tier: front}\n";
    let h = Harness::new("pack-tells").await;
    let shown = json!({"name": "{{ pack.name }}", "version": "{{ pack.version }} {{ pack.appVersion }}"});
    let pack = Pack::new("web", "1.0.0").file("Pack.yaml", TELLS).object(config_map("shown", shown));
    let release = h.deploy("web", &pack, json!({})).await;
    assert_eq!(release["status"]["pack"]["appVersion"], "7.1");
    let data = h.objects.get("ConfigMap/shown").await["data"].clone();
    assert_eq!(data, json!({"name": "web", "version": "1.0.0 7.1"}));
    let stored = serde_json::to_value(&h.decoded("web", 1).await.record.pack).unwrap();
    let told = json!({
        "name": "web", "version": "1.0.0", "description": "A shop", "appVersion": "7.1", "kubeVersion": ">=1.20.0-0",
        "home": "https://example.com/shop", "icon": "https://example.com/shop.svg",
        "sources": ["https://git.example.com/shop"], "keywords": ["shop"],
        "maintainers": [{"name": "Team", "email": "team@example.com", "url": "https://example.com/team"}],
        "annotations": {"tier": "front"},
    });
    assert_eq!(stored, told);
    let newer = TELLS.replace(">=1.20.0-0", ">=9.0.0");
    h.pack("web-pack", &pack.file("Pack.yaml", newer)).await;
    h.condition("web", "Ready", "False", Some("KubernetesVersion")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_not_there_fails_a_strict_pack_only() {
    const LENIENT: &str =
        "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\nengine: {strict: false}\n";
    let h = Harness::new("pack-strict").await;
    let strict = Pack::new("web", "1.0.0").object(config_map("shown", json!({"a": "<{{ values.none }}>"})));
    h.apply("web", &strict, json!({})).await;
    h.condition("web", "Ready", "False", Some("RenderFailed")).await;
    h.deploy("web", &strict.file("Pack.yaml", LENIENT), json!({})).await;
    h.shows("ConfigMap/shown", "/data/a", "<>").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_is_rendered_as_it_is_named_and_switched() {
    const SWITCHED: &str = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\ndependencies:\n\
        - {name: db, version: ^1, repository: 'https://example.com', alias: main, resolve: never}\n\
        - {name: db, version: ^1, repository: 'https://example.com', alias: spare, enabled: false}\n\
        - {name: db, version: ^1, repository: 'https://example.com', alias: asked, condition: asked.enabled}\n\
        - {name: db, version: ^1, repository: 'https://example.com', alias: tagged, tags: [extra]}\n";
    let h = Harness::new("pack-dependencies").await;
    let db = "apiVersion: sherpack/v1\nmetadata: {name: db, version: 1.0.0}\n";
    let object = config_map("db-{{ values.is }}", json!({"a": "b"})).to_string();
    let pack = Pack::new("web", "1.0.0")
        .file("Pack.yaml", SWITCHED)
        .object(config_map("own", json!({"a": "b"})))
        .file("charts/db/Pack.yaml", db)
        .file("charts/db/templates/db.yaml", object);
    let is = |name: &str, enabled: bool| json!({"is": name, "enabled": enabled});
    let values = |asked: bool, extra: bool| {
        json!({"values": {
            "main": is("main", true), "spare": is("spare", true), "asked": is("asked", asked),
            "tagged": is("tagged", true), "tags": {"extra": extra},
        }})
    };
    for (asked, extra) in [(false, true), (true, false)] {
        h.deploy("web", &pack, values(asked, extra)).await;
        let there = async |name: &str| h.objects.find(&format!("ConfigMap/db-{name}")).await.is_some();
        let all = [there("main").await, there("spare").await, there("asked").await, there("tagged").await];
        assert_eq!(all, [true, false, asked, extra]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_archives_the_one_under_the_key_is_installed() {
    let h = Harness::without_operator("pack-key").await;
    let pack = |color: &str| {
        use base64::Engine as _;
        let pack =
            Pack::new("web", "1.0.0").object(config_map("{{ release.name }}", json!({"color": color})));
        base64::engine::general_purpose::STANDARD.encode(pack.archive())
    };
    let both = json!({"blue.tgz": pack("blue"), "red.tgz": pack("red")});
    h.objects.server_side_apply("ConfigMap/packs", "test-person", json!({"binaryData": both})).await;
    h.objects.server_side_apply("Secret/packs", "test-person", json!({"data": both})).await;
    h.start();
    h.release("unsaid", json!({"pack": {"configMap": {"name": "packs"}}})).await;
    let held = h.condition("unsaid", "Ready", "False", Some("SourceInvalid")).await;
    let message: Value = condition(&held, "Ready")["message"].clone();
    assert!(message.as_str().unwrap().contains("spec.pack.configMap.key"), "{message}");
    h.release("web", json!({"pack": {"configMap": {"name": "packs", "key": "red.tgz"}}})).await;
    h.release("hidden", json!({"pack": {"secret": {"name": "packs", "key": "blue.tgz"}}})).await;
    h.shows("ConfigMap/web", "/data/color", "red").await;
    h.shows("ConfigMap/hidden", "/data/color", "blue").await;
}
