//! Flags that no other test of the command line gives.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::config_map;
use crate::support::people::Ran;
use crate::support::process::{Process, command};
use crate::support::{Harness, Pack};

fn operator(arguments: &[&str]) -> Ran {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sherpack-operator")).args(arguments).output();
    Ran::of(output.unwrap())
}

/// A directory of this test alone.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn a_render_is_told_the_cluster_and_prints_definitions_when_asked() {
    let archive = scratch("flags-render").join("web.tgz");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let served = "{{ capabilities.kubeVersion.minor }} {{ 'example.com/v1' in capabilities.apiVersions }}";
    let pack = Pack::new("web", "1.0.0")
        .object(config_map("served", json!({"is": served})))
        .file("crds/widgets.yaml", definition.to_string());
    std::fs::write(&archive, pack.archive()).unwrap();
    let archive = archive.to_str().unwrap();
    let plain = operator(&["render", archive]);
    assert_eq!(plain.code, 0, "{plain:?}");
    assert!(plain.out.contains("33 false") && !plain.out.contains("widgets.example.com"), "{plain:?}");
    let flags = ["--kube-version=v1.31.0", "--api-version=example.com/v1", "--include-crds"];
    let told = operator(&[&["render", archive], &flags[..]].concat());
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("31 true") && told.out.contains("widgets.example.com"), "{told:?}");
}

#[test]
fn a_new_pack_has_the_name_that_is_given_and_the_kinds_of_change_are_printed() {
    let directory = scratch("flags-init").join("there");
    let made = operator(&["init", directory.to_str().unwrap(), "--name", "front"]);
    assert_eq!(made.code, 0, "{made:?}");
    let definition = std::fs::read_to_string(directory.join("Pack.yaml")).unwrap();
    assert!(definition.contains("name: front"), "{definition}");
    let kinds = operator(&["crd-diff", "--kinds"]);
    assert_eq!(kinds.code, 0, "{kinds:?}");
    assert!(kinds.out.starts_with("# Changes of CustomResourceDefinitions\n"), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_takes_packs_and_looks_up_where_its_flags_allow_it() {
    let h = Harness::without_operator("flags-run").await;
    let directory = scratch("flags-run");
    let (packs, cache) = (directory.join("packs"), directory.join("cache"));
    std::fs::create_dir_all(&packs).unwrap();
    std::fs::create_dir_all(&cache).unwrap();
    let seen = "{{ lookup('v1', 'ConfigMap', 'kube-system', 'nobody') | length }}";
    let archive =
        Pack::new("web", "1.0.0").object(config_map("{{ release.name }}", json!({"seen": seen}))).archive();
    std::fs::write(packs.join("web.tgz"), &archive).unwrap();
    let server = HttpServer::start().await;
    server.serve("/web.tgz", Route::File(archive));
    let (packs, cache_dir) = (packs.to_str().unwrap(), cache.to_str().unwrap());
    let flags = [
        "--pack-dir",
        packs,
        "--cache-dir",
        cache_dir,
        "--cache-size=32Mi",
        "--allow-source=127.0.0.1",
        "--allow-lookup=kube-system",
    ];
    h.release("by-path", json!({"pack": {"path": "web.tgz"}})).await;
    h.release("by-url", json!({"pack": {"http": {"url": server.url("/web.tgz")}}})).await;
    let process = Process::of(command(&h, &flags)).await;
    for name in ["by-path", "by-url"] {
        h.ready(name).await;
        h.shows(&format!("ConfigMap/{name}"), "/data/seen", "0").await;
    }
    assert!(std::fs::read_dir(&cache).unwrap().next().is_some(), "what was fetched is in the cache");
    assert_eq!(process.stop().await.0, Some(0));
}
