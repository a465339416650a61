//! Packs that a pack depends on and does not hold: fetched by the digests of its `Pack.lock`.

use serde_json::{Value, json};
use sherpack_operator::pack::lock::{FILE, Lock, Locked};
use sherpack_operator::source::cache::digest;

use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::{config_map, secret};
use crate::support::registry::{Artifact, Auth, Options, PASSWORD, Registry, USER};
use crate::support::sourced::{harness, message};
use crate::support::{Harness, Pack};

fn part(name: &str, color: &str) -> Pack {
    Pack::new(name, "1.2.0").object(config_map(&format!("of-{name}"), json!({"color": color})))
}

fn locked(name: &str, repository: &str, digest: &str) -> Locked {
    Locked {
        name: name.to_owned(),
        alias: None,
        version: "1.2.0".to_owned(),
        repository: repository.to_owned(),
        constraint: "1.x".to_owned(),
        digest: digest.to_owned(),
    }
}

/// A pack that needs these, each with more of its entry in `Pack.yaml`.
fn pack(version: &str, needs: &[(&Locked, &str)]) -> Pack {
    let entry = |(of, more): &(&Locked, &str)| {
        let Locked { name, repository, constraint, .. } = of;
        format!("{{name: {name}, version: '{constraint}', repository: '{repository}'{more}}}")
    };
    let entries: Vec<String> = needs.iter().map(entry).collect();
    let definition = format!(
        "apiVersion: sherpack/v1\nmetadata: {{name: web, version: {version}}}\ndependencies: [{}]\n",
        entries.join(", ")
    );
    let lock = Lock::of(needs.iter().map(|(of, _)| (*of).clone()).collect()).unwrap();
    let own = config_map("of-web", json!({"version": version}));
    Pack::new("web", version).file("Pack.yaml", definition).file(FILE, lock.text()).object(own)
}

/// A repository that has this archive of `redis`.
fn serve(server: &HttpServer, archive: Vec<u8>) {
    let entry = json!({"name": "redis", "version": "1.2.0", "urls": ["redis.tgz"]});
    let index = json!({"apiVersion": "v1", "entries": {"redis": [entry]}}).to_string();
    server.serve("/charts/index.yaml", Route::File(index.into_bytes()));
    server.serve("/charts/redis.tgz", Route::File(archive));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_switched_on_is_fetched_by_the_digest_of_the_lock_and_nothing_else() {
    let h = harness("dependencies-locked").await;
    let options = Options { auth: Auth::Basic, ..Options::default() };
    let (registry, server) = (Registry::start(options).await, HttpServer::start().await);
    let archive = part("redis", "blue").archive();
    serve(&server, archive.clone());
    let of_db = registry.push("deps/db", "1.2.0", &Artifact::of_pack(part("db", "blue").archive())).await;
    let db = locked("db", &format!("oci://{}/deps", registry.address), &of_db);
    let redis = locked("redis", &server.url("/charts"), &digest(&archive));
    let web = pack("1.0.0", &[(&db, ""), (&redis, ", condition: redis.on")]);
    registry.push("web", "stable", &Artifact::of_pack(web.archive())).await;
    h.objects
        .create("kubectl-create", secret("login", json!({"username": USER, "password": PASSWORD})))
        .await;
    let oci = json!({"repository": format!("oci://{}/web", registry.address), "insecure": true, "tag": "stable",
        "secretRef": {"name": "login"}});
    h.release("web", json!({"pack": {"oci": oci}, "values": {"redis": {"on": false}}})).await;
    h.ready("web").await;
    h.shows("ConfigMap/of-db", "/data/color", "blue").await;
    assert!(server.answers("/charts/index.yaml").is_empty(), "what is switched off is not looked at");
    let asked = registry.requests().await;
    assert!(asked.contains(&format!("GET /v2/deps/db/manifests/{of_db} 200")), "{asked:?}");
    assert!(!asked.iter().any(|line| line.contains("/deps/db/tags")), "no version is resolved: {asked:?}");

    h.edit_spec("web", json!({"values": {"redis": {"on": true}}})).await;
    h.shows("ConfigMap/of-redis", "/data/color", "blue").await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    assert_eq!(server.answers("/charts/redis.tgz"), [200]);
    let of_db = |lines: &[String]| lines.iter().filter(|line| line.contains("deps/db/blobs")).count();
    assert_eq!(of_db(&registry.requests().await), 1, "it was at hand");
    // Nothing is asked for while nothing changes.
    let requests = registry.requests().await.len();
    h.pass("web").await;
    let more = registry.requests().await.split_off(requests);
    assert!(!more.iter().any(|line| line.contains("deps")), "{more:?}");
    h.edit_spec("web", json!({"values": {"redis": {"on": false}}})).await;
    h.gone("ConfigMap/of-redis").await;
}

async fn held(h: &Harness, reason: &str, said: &str) {
    h.sees("SherpackRelease/web", |release| message(release).contains(said)).await;
    let held = h.condition("web", "Ready", "False", Some(reason)).await;
    assert!(message(&held).contains(said), "{said}: {held}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_does_not_fit_and_what_cannot_be_had_are_told_and_what_is_deployed_stays_locked() {
    let h = harness("dependencies-bad").await;
    let server = HttpServer::start().await;
    let archive = part("redis", "blue").archive();
    serve(&server, archive.clone());
    let good = locked("redis", &server.url("/charts"), &digest(&archive));
    h.pack_archive("web-pack", pack("1.0.0", &[(&good, "")]).archive()).await;
    h.release("web", json!({"pack": {"configMap": {"name": "web-pack"}}})).await;
    h.ready("web").await;
    h.shows("ConfigMap/of-redis", "/data/color", "blue").await;

    let with = |lock: &str| pack("1.1.0", &[(&good, "")]).file(FILE, lock).archive();
    let lock = |of: Locked| Lock::of(vec![of]).unwrap().text();
    let stale = lock(Locked { constraint: "^1".to_owned(), ..good.clone() });
    h.pack_archive("web-pack", with(&stale)).await;
    held(&h, "DependencyLockStale", "run `sherpack-operator dependency update`").await;
    h.pack_archive("web-pack", with("dependencies: 7")).await;
    held(&h, "DependencyLockInvalid", "Pack.lock cannot be used").await;
    let tampered = lock(Locked { digest: digest(b"other"), ..good.clone() });
    h.pack_archive("web-pack", with(&tampered)).await;
    held(&h, "DependencyInvalid", "one of the two was changed").await;
    let elsewhere = locked("redis", &server.url("/nowhere"), &digest(b"more"));
    h.pack_archive("web-pack", pack("1.1.0", &[(&elsewhere, "")]).archive()).await;
    held(&h, "SourceNotFound", "the dependency redis 1.2.0").await;
    let local = pack("1.1.0", &[(&Locked { repository: "../redis".to_owned(), ..good.clone() }, "")]);
    h.pack_archive("web-pack", local.archive()).await;
    held(&h, "DependencyInvalid", "below charts/").await;
    h.objects.edit("ConfigMap/of-redis", "kubectl-edit", json!({"data": {"color": "pink"}})).await;
    h.shows("ConfigMap/of-redis", "/data/color", "blue").await;
    h.shows_states("web", &["1 deployed"]).await;

    // It is found when it comes, without being asked.
    let green = part("redis", "green").archive();
    let later = locked("redis", &server.url("/charts"), &digest(&green));
    server.serve("/charts/index.yaml", Route::Status(500));
    h.pack_archive("web-pack", pack("1.2.0", &[(&later, "")]).archive()).await;
    held(&h, "SourceUnavailable", "the dependency redis 1.2.0").await;
    serve(&server, green);
    h.shows("ConfigMap/of-redis", "/data/color", "green").await;
    h.ready("web").await;
    let shown: Value = h.objects.get("ConfigMap/of-web").await;
    assert_eq!(shown["data"]["version"], "1.2.0");
}
