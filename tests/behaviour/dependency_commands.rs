//! `dependency`: what a pack depends on is resolved once, locked and vendored.

use std::fs;

use serde_json::{Value, json};
use sherpack_operator::source::cache::digest;

use super::oci_commands::Place;
use crate::support::Pack;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::config_map;
use crate::support::registry::{Artifact, Options, Registry};

fn part(name: &str, version: &str) -> Pack {
    Pack::new(name, version).object(config_map(&format!("of-{name}"), json!({"version": version})))
}

/// A repository that has these versions of `redis`.
fn serve(server: &HttpServer, versions: &[&str]) {
    let mut entries = Vec::new();
    for version in versions {
        let archive = part("redis", version).archive();
        let file = format!("redis-{version}.tgz");
        let digest = digest(&archive).replace("sha256:", "");
        entries.push(json!({"name": "redis", "version": version, "urls": [file], "digest": digest}));
        server.serve(&format!("/redis-{version}.tgz"), Route::File(archive));
    }
    let index = json!({"apiVersion": "v1", "entries": {"redis": entries}}).to_string();
    server.serve("/index.yaml", Route::File(index.into_bytes()));
}

struct Scene {
    place: Place,
    registry: Registry,
    server: HttpServer,
    dir: String,
}

impl Scene {
    /// A pack that needs `redis` of a repository and `db` of a registry.
    async fn new(name: &str) -> Self {
        let (place, registry) = (Place::new(name), Registry::start(Options::default()).await);
        let server = HttpServer::start().await;
        serve(&server, &["7.0.0", "7.2.0", "8.0.0"]);
        for version in ["1.0.0", "1.1.0"] {
            registry.push("deps/db", version, &Artifact::of_pack(part("db", version).archive())).await;
        }
        let dir = place.pack("1.0.0", "blue");
        let scene = Self { place, registry, server, dir };
        scene.needs("7.x");
        scene
    }

    fn needs(&self, redis: &str) {
        let (url, registry) = (self.server.url("/"), self.registry.address);
        let definition = json!({"apiVersion": "sherpack/v1", "metadata": {"name": "web", "version": "1.0.0"}, "dependencies": [
            {"name": "redis", "version": redis, "repository": url, "condition": "redis.on"},
            {"name": "db", "version": "1.x", "repository": format!("oci://{registry}/deps"), "alias": "store"},
        ]});
        fs::write(format!("{}/Pack.yaml", self.dir), definition.to_string()).unwrap();
    }

    fn on(&self, arguments: &[&str]) -> String {
        self.place.done(&[arguments, &[&self.dir, "--plain-http"]].concat())
    }

    fn refused(&self, arguments: &[&str]) -> String {
        self.place.refused(1, &[arguments, &[&self.dir, "--plain-http"]].concat())
    }

    fn states(&self) -> Vec<String> {
        let text = self.place.done(&["dependency", "list", &self.dir, "-o", "json"]);
        let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.iter()
            .map(|row| format!("{} {} {}", text(row, "name"), text(row, "locked"), text(row, "state")))
            .collect()
    }

    fn vendored(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(format!("{}/charts", self.dir)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    fn lock(&self) -> String {
        fs::read_to_string(format!("{}/Pack.lock", self.dir)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_are_resolved_locked_vendored_and_built_again_from_the_lock() {
    let scene = Scene::new("dependency-update").await;
    assert_eq!(scene.states(), ["redis  missing", "store  missing"]);
    let output = scene.place.path("web.tgz");
    let said = scene.refused(&["package", "-o", &output]);
    assert!(said.contains("dependency update"), "{said}");
    let repository = format!("oci://{}/web", scene.registry.address);
    scene.place.refused(1, &["push", &scene.dir, &repository, "--plain-http"]);
    scene.on(&["dependency", "update"]);
    assert_eq!(scene.vendored(), ["db-1.1.0.tgz", "redis-7.2.0.tgz"], "the newest in their ranges");
    assert_eq!(scene.states(), ["redis 7.2.0 vendored", "store 1.1.0 vendored"]);
    let lock = scene.lock();
    assert!(lock.contains("constraint: \"7.x\"") && lock.contains("alias: store"), "{lock}");
    let table = scene.place.done(&["dep", "list", &scene.dir]);
    assert!(table.starts_with("NAME ") && table.contains("7.2.0"), "{table}");
    scene.on(&["dependency", "update"]);
    assert_eq!(scene.lock(), lock, "the same gives the same bytes");

    // A newer version is not taken before it is asked for.
    serve(&scene.server, &["7.0.0", "7.2.0", "7.3.0"]);
    fs::remove_dir_all(format!("{}/charts", scene.dir)).unwrap();
    assert_eq!(scene.states(), ["redis 7.2.0 locked", "store 1.1.0 locked"]);
    scene.on(&["dependency", "build"]);
    assert_eq!(scene.vendored(), ["db-1.1.0.tgz", "redis-7.2.0.tgz"]);
    scene.on(&["package", "-o", &output]);
    scene.on(&["package", "-u", "-o", &output]);
    assert_eq!(scene.vendored(), ["db-1.1.0.tgz", "redis-7.3.0.tgz"], "the old one has gone");
    let objects = scene.place.done(&["render", &output, "--set", "redis.on=true"]);
    assert!(objects.contains("of-db") && objects.contains("7.3.0"), "{objects}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_with_a_lock_alone_is_complete_where_it_is_rendered() {
    let scene = Scene::new("dependency-lock-only").await;
    scene.on(&["dependency", "update", "--lock-only"]);
    assert!(scene.vendored().is_empty());
    assert_eq!(scene.states(), ["redis 7.2.0 locked", "store 1.1.0 locked"]);
    let output = scene.place.path("web.tgz");
    scene.on(&["package", "-o", &output]);
    let before = scene.server.answers("/redis-7.2.0.tgz").len();
    let objects = scene.place.done(&["render", &output, "--plain-http"]);
    assert!(objects.contains("of-db") && !objects.contains("of-redis"), "{objects}");
    assert_eq!(scene.server.answers("/redis-7.2.0.tgz").len(), before, "it is switched off");
    let on = ["render", &output, "--plain-http", "--set", "redis.on=true"];
    assert!(scene.place.done(&on).contains("7.2.0"));
    scene.place.done(&["lint", &output, "--plain-http"]);
    // It is pushed as it is.
    let repository = format!("oci://{}/web", scene.registry.address);
    scene.place.done(&["push", &scene.dir, &repository, "--plain-http"]);
    assert!(scene.place.done(&["render", &repository, "--plain-http"]).contains("of-db"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_before_anything_is_written() {
    let scene = Scene::new("dependency-bad").await;
    assert!(scene.refused(&["dependency", "build"]).contains("no Pack.lock"));
    scene.on(&["dependency", "update"]);
    let lock = scene.lock();
    scene.needs("8.x");
    for command in [&["dependency", "build"][..], &["dependency", "build"]] {
        assert!(scene.refused(command).contains("Pack.yaml says version `8.x`"), "{command:?}");
    }
    scene.needs("9.x");
    let said = scene.refused(&["dependency", "update"]);
    assert!(said.contains("8.0.0, 7.2.0, 7.0.0"), "{said}");
    assert_eq!(scene.lock(), lock);
    scene.needs("7.x");

    // The repository has another content under the same version now.
    let archive = part("redis", "7.2.0").object(config_map("more", json!({}))).archive();
    let entry = json!({"name": "redis", "version": "7.2.0", "urls": ["redis-7.2.0.tgz"]});
    let index = json!({"apiVersion": "v1", "entries": {"redis": [entry]}}).to_string();
    scene.server.serve("/index.yaml", Route::File(index.into_bytes()));
    scene.server.serve("/redis-7.2.0.tgz", Route::File(archive));
    fs::remove_dir_all(format!("{}/charts", scene.dir)).unwrap();
    let said = scene.refused(&["dependency", "build"]);
    assert!(said.contains("one of the two was changed"), "{said}");
    assert!(scene.vendored().is_empty());
    fs::write(format!("{}/Pack.lock", scene.dir), "dependencies: 7").unwrap();
    assert!(scene.refused(&["dependency", "build"]).contains("Pack.lock cannot be used"));
    let local = json!({"apiVersion": "sherpack/v1", "metadata": {"name": "web", "version": "1.0.0"},
        "dependencies": [{"name": "redis", "version": "1", "repository": "file://../redis"}]});
    fs::write(format!("{}/Pack.yaml", scene.dir), local.to_string()).unwrap();
    assert!(scene.refused(&["dependency", "update"]).contains("below charts/"));
    scene.place.refused(2, &["dependency", "update", "nowhere"]);
}
