//! Packs inside packs, as one release.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::harness::condition;
use crate::support::packs::config_map;
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

fn message(release: &Value) -> String {
    condition(release, "Ready")["message"].as_str().unwrap_or_default().to_owned()
}

fn dependency(name: &str, more: &str) -> Pack {
    let definition = format!(
        "apiVersion: sherpack/v1\nmetadata: {{name: web, version: 1.0.0}}\ndependencies: [{{name: {name}, version: ^1, repository: x{more}}}]\n"
    );
    Pack::new("web", "1.0.0").file("Pack.yaml", definition).object(config_map("own", json!({"a": "b"})))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_objects_of_all_packs_are_one_release_and_a_pack_that_is_switched_off_is_pruned() {
    let h = Harness::new("subpacks").await;
    let shop = Pack::sample("shop");
    h.deploy("shop", &shop, json!({"values": {"replicas": 0}})).await;
    h.shows("ConfigMap/shop-cache", "/data/domain", "shop.example.com").await;
    let uids = h.objects.uids(&["ConfigMap/shop-cache", "Service/shop-exporter-9121"]).await;
    for object in [
        "ConfigMap/shop-queue",
        "Service/shop-exporter-9999",
        "ConfigMap/shop-postgres",
        "ConfigMap/shop-mailer",
        "Deployment/shop",
        "Ingress/shop",
    ] {
        h.objects.get(object).await;
    }
    // Locked like any other.
    h.objects.edit("ConfigMap/shop-queue", "kubectl-edit", json!({"data": {"domain": "x"}})).await;
    h.shows("ConfigMap/shop-queue", "/data/domain", "shop.example.com").await;

    let values = json!({"replicas": 0, "queue": {"enabled": false}, "postgres": {"enabled": false}});
    h.edit_spec("shop", json!({"values": values})).await;
    for object in ["ConfigMap/shop-queue", "Service/shop-exporter-9999", "ConfigMap/shop-postgres"] {
        h.gone(object).await;
    }
    h.ready("shop").await;
    assert_eq!(h.objects.uids(&["ConfigMap/shop-cache", "Service/shop-exporter-9121"]).await, uids);
    h.uninstall("shop").await;
    assert!(h.objects.find("ConfigMap/shop-cache").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_or_broken_dependency_is_named_and_the_release_recovers() {
    let h = Harness::new("subpacks-missing").await;
    let inner = "apiVersion: sherpack/v1\nmetadata: {name: db, version: 1.0.0}\n";
    let object = config_map("db", json!({"a": "b"})).to_string();
    let whole =
        dependency("db", "").file("charts/db/Pack.yaml", inner).file("charts/db/templates/a.yaml", object);
    h.deploy("web", &whole, json!({})).await;
    let old = inner.replace("1.0.0", "0.9.0");
    let packs = [
        ("DependencyMissing", "`db`", dependency("db", "")),
        ("DependencyInvalid", "charts/db", dependency("db", "").file("charts/db/Pack.yaml", "a: [")),
        ("DependencyInvalid", "0.9.0", dependency("db", "").file("charts/db/Pack.yaml", old)),
        ("DependencyInvalid", "charts/odd", whole.clone().file("charts/odd/README.md", "not a pack")),
    ];
    for (reason, named, pack) in packs {
        h.pack("web-pack", &pack).await;
        let held = h
            .sees("SherpackRelease/web", |release| {
                condition(release, "Ready")["reason"] == reason && message(release).contains(named)
            })
            .await;
        assert_eq!(condition(&held, "Stalled")["status"], "True", "{held}");
        assert_eq!(condition(&held, "Released")["status"], "True", "{held}");
        eventually("an Event tells of it", async || !h.events("web", reason).await.is_empty()).await;
    }
    h.shows_states("web", &["1 deployed"]).await;
    h.objects.edit("ConfigMap/db", "kubectl-edit", json!({"data": {"a": "x"}})).await;
    h.shows("ConfigMap/db", "/data/a", "b").await;
    h.pack("web-pack", &whole).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_pack_is_sound_and_reaches_ready() {
    let h = Harness::new("init-pack").await;
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("init-pack");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let operator = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_sherpack-operator"))
            .args(arguments)
            .current_dir(&directory)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    assert_eq!(operator(&["init", "front"]).0, Some(0));
    let (code, _, story) = operator(&["init", "front"]);
    assert!(code == Some(2) && story.contains("not empty"), "{story}");
    assert_eq!(operator(&["init", "UPPER/.."]).0, Some(2));
    assert_eq!(
        operator(&["lint", "front", "-o", "json"]),
        (Some(0), "[]\n".to_owned(), "nothing is wrong\n".to_owned())
    );
    let everything = ["--set", "ingress.enabled=true", "--set", "disruptionBudget.enabled=true"];
    assert_eq!(operator(&[&["lint", "front"], &everything[..]].concat()).0, Some(0));
    let (code, manifests, notes) = operator(&[&["render", "front"], &everything[..]].concat());
    assert!(
        code == Some(0) && manifests.contains("kind: Ingress") && notes.contains("front.example.com"),
        "{notes}"
    );
    assert_eq!(operator(&["render", "front", "--set", "replicas=many"]).0, Some(1), "the schema holds");

    std::fs::write(directory.join("front/templates/bad.yaml"), "a: {{ values.gone }}\n").unwrap();
    let (code, findings, _) = operator(&["lint", "front", "-o", "json"]);
    let findings: Value = serde_json::from_str(&findings).unwrap();
    assert_eq!(code, Some(1));
    assert_eq!((&findings[0]["file"], &findings[0]["line"]), (&json!("templates/bad.yaml"), &json!(1)));
    assert_eq!(operator(&["lint", "gone"]).0, Some(2));
    std::fs::remove_file(directory.join("front/templates/bad.yaml")).unwrap();

    assert_eq!(operator(&["package", "front", "-o", "front.tgz"]).0, Some(0));
    let archive = std::fs::read(directory.join("front.tgz")).unwrap();
    let limits = sherpack_operator::pack::Limits::default();
    let read = sherpack_operator::pack::read_archive(&archive, &limits).unwrap();
    let pack = read
        .files
        .iter()
        .fold(Pack::new("front", "0.1.0"), |pack, (path, content)| pack.file(path, content.clone()));
    h.deploy("front", &pack, json!({"values": {"replicas": 1, "ingress": {"enabled": true}}})).await;
    h.objects.get("Ingress/front").await;
    h.objects.get("ServiceAccount/front").await;
}
