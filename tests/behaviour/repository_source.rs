//! Packs in repositories with an `index.yaml`, served as static files.

use serde_json::{Value, json};
use sherpack_operator::source::cache;

use crate::support::Pack;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::{config_map, secret};
use crate::support::sourced::{assert_locked, colored, harness, message};

const INDEX: &str = "/charts/index.yaml";

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

/// One version in an index: its number, its URL and its digest.
fn entry(version: &str, url: &str, digest: Option<String>) -> Value {
    json!({"name": "web", "version": version, "urls": [url], "digest": digest, "description": "x"})
}

fn index(entries: &[Value]) -> Vec<u8> {
    json!({"apiVersion": "v1", "entries": {"web": entries, "other": []}}).to_string().into_bytes()
}

/// The digest of an archive as Helm writes it.
fn hex(color: &str) -> Option<String> {
    Some(cache::digest(&pack(color).archive()).replace("sha256:", ""))
}

fn spec(server: &HttpServer, more: Value) -> Value {
    let mut repository = json!({"url": server.url("/charts"), "name": "web"});
    json_patch::merge(&mut repository, &more);
    json!({"pack": {"repository": repository}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_version_in_the_range_is_installed_and_a_newer_one_rolled_out() {
    let h = harness("repository-install").await;
    let server = HttpServer::start().await;
    for color in ["blue", "green", "red"] {
        server.serve(&format!("/charts/{color}.tgz"), Route::File(pack(color).archive()));
    }
    let (blue, red) = (entry("1.0.0", "blue.tgz", hex("blue")), entry("2.0.0", "red.tgz", hex("red")));
    server.serve(INDEX, Route::File(index(&[blue.clone(), red.clone()])));
    h.release("web", spec(&server, json!({"version": "1.x"}))).await;
    h.ready("web").await;
    colored(&h, "blue").await;
    h.pass("web").await;
    assert_eq!(server.answers(INDEX), [200, 304], "an unchanged index costs no more than that");
    assert_eq!(server.answers("/charts/blue.tgz"), [200]);
    let green = entry("1.1.0", &server.url("/charts/green.tgz"), hex("green"));
    server.serve(INDEX, Route::File(index(&[blue, green, red])));
    h.pass("web").await;
    colored(&h, "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;

    h.edit_spec("web", spec(&server, json!({"version": "3.x"}))).await;
    let held = h.condition("web", "Ready", "False", Some("VersionNotFound")).await;
    assert!(message(&held).contains("2.0.0, 1.1.0, 1.0.0"), "{held}");
    assert_locked(&h, "green").await;
    h.edit_spec("web", spec(&server, json!({"name": "webb", "version": ">=1"}))).await;
    let held = h.sees("SherpackRelease/web", |held| message(held).contains("no pack `webb`")).await;
    assert!(message(&held).contains("web"), "{held}");
    h.edit_spec("web", spec(&server, json!({"version": ">=1"}))).await;
    colored(&h, "red").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_index_says_of_an_archive_is_checked() {
    let h = harness("repository-digest").await;
    let server = HttpServer::start().await;
    server.serve("/charts/web.tgz", Route::File(pack("blue").archive()));
    server.serve(INDEX, Route::File(index(&[entry("1.0.0", "web.tgz", None)])));
    h.release("web", spec(&server, json!({}))).await;
    h.ready("web").await;
    h.pass("web").await;
    assert_eq!(server.answers("/charts/web.tgz"), [200, 304], "without a digest the archive is asked for");
    for (bytes, reason, said) in [
        (index(&[entry("1.1.0", "web.tgz", hex("green"))]), "SourceCorrupt", hex("green").unwrap()),
        (
            index(&[entry("1.2.0", "web.tgz", Some("md5".to_owned()))]),
            "RepositoryIndexInvalid",
            "SHA-256".to_owned(),
        ),
        (index(&[entry("1.3.0", "oci://r/web", None)]), "RepositoryIndexInvalid", "spec.pack.oci".to_owned()),
        (b"<html>".to_vec(), "RepositoryIndexInvalid", "index.yaml".to_owned()),
        (index(&[]), "VersionNotFound", "web".to_owned()),
    ] {
        server.serve(INDEX, Route::File(bytes));
        h.pass("web").await;
        let held = h.condition("web", "Ready", "False", Some(reason)).await;
        assert!(message(&held).contains(&said), "{held}");
        assert_locked(&h, "blue").await;
    }
    server.serve(INDEX, Route::Promising(1 << 40));
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("PackTooLarge")).await;
    assert_locked(&h, "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_for_the_repository_unless_the_release_passes_them_on() {
    let h = harness("repository-login").await;
    // Another port is another host.
    let (server, storage) = (HttpServer::start().await, HttpServer::start().await);
    let basic = "Basic YWRtaW46c2VzYW1l";
    let listing = index(&[entry("1.0.0", &storage.url("/web.tgz"), hex("blue"))]);
    server.serve(INDEX, Route::Guarded(basic.to_owned(), listing));
    storage.serve("/web.tgz", Route::File(pack("blue").archive()));
    h.release("web", spec(&server, json!({}))).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUnauthorized")).await;
    assert!(message(&held).contains("spec.pack.repository.secretRef"), "{held}");
    h.objects
        .create("test-person", secret("login", json!({"username": "admin", "password": "sesame"})))
        .await;
    h.edit_spec("web", spec(&server, json!({"secretRef": {"name": "login"}}))).await;
    h.ready("web").await;
    let shown = || -> Vec<bool> {
        storage.asked("/web.tgz").iter().map(|asked| asked.headers.contains_key("authorization")).collect()
    };
    assert_eq!(shown(), [false]);
    h.edit_spec("web", spec(&server, json!({"secretRef": {"name": "login"}, "passCredentials": true}))).await;
    h.pass("web").await;
    assert_eq!(shown(), [false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_releases_of_a_repository_read_its_index_together() {
    let h = harness("repository-many").await;
    let server = HttpServer::start().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ release.name }}\"}\n";
    let archive = Pack::new("web", "1.0.0").template("settings.yaml", text).archive();
    let digest = Some(cache::digest(&archive));
    server.serve("/charts/web.tgz", Route::File(archive));
    server.serve(INDEX, Route::File(index(&[entry("1.0.0", "web.tgz", digest)])));
    for number in 0..8 {
        h.release(&format!("web-{number}"), spec(&server, json!({"version": "1.0.0"}))).await;
    }
    for number in 0..8 {
        h.ready(&format!("web-{number}")).await;
    }
    // A release that is new asks once more, and hears that nothing has changed.
    let asked = server.answers(INDEX);
    assert!(asked[0] == 200 && asked[1..].iter().all(|status| *status == 304), "{asked:?}");
    assert_eq!(server.answers("/charts/web.tgz"), [200]);
    assert_eq!(
        h.metric("sherpack_source_fetch_total", &[r#"kind="repository""#, r#"outcome="success""#]).await,
        1.0
    );
}
