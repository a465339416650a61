//! Packs in artifacts of Flux sources, made by the real source-controller.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sherpack_operator::source::http::Options as Sources;

use crate::support::flux::Flux;
use crate::support::git_server::GitServer;
use crate::support::harness::{PERSON, condition};
use crate::support::packs::config_map;
use crate::support::registry::{Artifact, Options, Registry};
use crate::support::sourced::{assert_locked, colored, harness, message, sources};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack, control_plane};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

/// A repository with a pack in a directory, and other files beside it.
fn files(color: &str) -> BTreeMap<String, Vec<u8>> {
    let below = pack(color).files.into_iter().map(|(path, bytes)| (format!("packs/web/{path}"), bytes));
    below.chain([("README.md".to_owned(), b"# All of it".to_vec())]).collect()
}

fn spec(kind: &str, path: Option<&str>) -> Value {
    let mut artifact = json!({"kind": kind, "name": "app"});
    if let Some(path) = path {
        artifact["path"] = json!(path);
    }
    json!({"pack": {"artifact": artifact}})
}

async fn repository(h: &Harness, git: &GitServer) {
    let spec = json!({"spec": {"url": git.url(), "ref": {"branch": "main"}, "interval": "1h"}});
    h.objects.server_side_apply("GitRepository/app", PERSON, spec).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_rolled_out_when_flux_has_seen_it() {
    let h = harness("flux-git").await;
    let flux = Flux::start(h.control_plane, &h.namespace).await;
    let git = GitServer::start().await;
    git.commit(&files("blue")).await;
    h.release("web", spec("GitRepository", Some("packs/web"))).await;
    let held = h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    assert!(message(&held).contains(&format!("GitRepository {}/app", h.namespace)), "{held}");
    repository(&h, &git).await;
    h.ready("web").await;
    colored(&h, "blue").await;

    // Whatever else is committed makes another artifact, and the same pack.
    let mut more = files("blue");
    more.insert("other.txt".to_owned(), b"x".to_vec());
    git.commit(&more).await;
    let app = flux.reconcile(&h.objects, "GitRepository/app").await;
    let digest = app["status"]["artifact"]["digest"].as_str().unwrap().to_owned();
    eventually("the new artifact is fetched", async || {
        h.metric("sherpack_source_fetch_total", &[r#"kind="artifact""#, r#"outcome="success""#]).await == 2.0
    })
    .await;
    h.ready("web").await;
    h.shows_states("web", &["1 deployed"]).await;
    assert!(digest.starts_with("sha256:"), "{app}");

    git.commit(&files("green")).await;
    flux.reconcile(&h.objects, "GitRepository/app").await;
    colored(&h, "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;

    // Nothing is read for a pass that follows, until Flux says something new.
    h.ready("web").await;
    let mark = h.wire.mark();
    h.edit_spec("web", json!({"timeout": "7m"})).await;
    h.ready("web").await;
    let read = |request: &&crate::support::wire::Request| {
        request.verb == "get" && request.is_about("gitrepositories")
    };
    assert_eq!(h.wire.since(mark).iter().filter(read).count(), 0);
    h.objects.delete("GitRepository/app").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_fails_is_told_with_its_own_words_and_one_that_starts_anew_is_not() {
    let h = harness("flux-failing").await;
    let flux = Flux::start(h.control_plane, &h.namespace).await;
    let git = GitServer::start().await;
    git.commit(&files("blue")).await;
    repository(&h, &git).await;
    h.release("web", spec("GitRepository", Some("packs/web"))).await;
    h.ready("web").await;

    h.objects.edit("GitRepository/app", PERSON, json!({"spec": {"ref": {"branch": "gone"}}})).await;
    let held = h.condition("web", "Ready", "False", Some("ArtifactNotReady")).await;
    assert!(message(&held).contains("is not Ready"), "{held}");
    assert_locked(&h, "blue").await;
    h.objects.edit("GitRepository/app", PERSON, json!({"spec": {"ref": {"branch": "main"}}})).await;
    h.ready("web").await;
    // A directory that is not there.
    h.edit_spec("web", spec("GitRepository", Some("packs/none"))).await;
    h.condition("web", "Ready", "False", Some("PackInvalid")).await;
    h.edit_spec("web", spec("GitRepository", Some("packs/web"))).await;
    h.ready("web").await;

    // A new process of Flux has no artifacts at first.
    let told = h.events("web", "ArtifactNotReady").await;
    flux.stop().await;
    let _flux = Flux::start(h.control_plane, &h.namespace).await;
    git.commit(&files("green")).await;
    colored(&h, "green").await;
    assert_eq!(h.events("web", "ArtifactNotReady").await, told, "what it gave last was good");
    h.objects.delete("GitRepository/app").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_of_a_registry_is_taken_as_flux_gives_it() {
    let h = harness("flux-oci").await;
    let flux = Flux::start(h.control_plane, &h.namespace).await;
    let registry = Registry::start(Options::default()).await;
    let push =
        async |color: &str| registry.push("web", "latest", &Artifact::of_pack(pack(color).archive())).await;
    push("blue").await;
    let url = format!("oci://{}/web", registry.address);
    let source = json!({"spec": {"url": url, "insecure": true, "interval": "1h", "ref": {"tag": "latest"}}});
    h.objects.server_side_apply("OCIRepository/app", PERSON, source).await;
    h.release("web", spec("OCIRepository", None)).await;
    h.ready("web").await;
    push("green").await;
    flux.reconcile(&h.objects, "OCIRepository/app").await;
    colored(&h, "green").await;
    h.ready("web").await;
    h.objects.delete("OCIRepository/app").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_private_sources_are_denied_artifacts_come_from_the_named_source_controller_only() {
    let mut h = Harness::without_operator("flux-denied").await;
    let flux = Flux::start(h.control_plane, &h.namespace).await;
    let git = GitServer::start().await;
    git.commit(&files("blue")).await;
    repository(&h, &git).await;
    h.settings.sources = Sources { deny_private: true, allow: Vec::new(), ..sources() };
    h.start();
    h.release("web", spec("GitRepository", Some("packs/web"))).await;
    let held = h.condition("web", "Ready", "False", Some("SourceForbidden")).await;
    assert!(message(&held).contains("--source-controller"), "{held}");
    h.stop().await;
    h.settings.sources.source_controller = Some(flux.storage.to_string().parse().unwrap());
    h.start();
    h.ready("web").await;
    // What others write into a status leads nowhere else, and not to what is another source's.
    h.objects.server_side_apply("ExternalArtifact/app", PERSON, json!({"spec": {}})).await;
    let theirs = h.objects.get("GitRepository/app").await["status"]["artifact"].clone();
    let inside = format!("http://{}/externalartifact/{}/app/", flux.storage, h.namespace);
    let path = theirs["path"].as_str().unwrap();
    for url in [
        "http://127.0.0.1:1/a.tgz".to_owned(),
        theirs["url"].as_str().unwrap().to_owned(),
        format!("{inside}../../../{path}"),
        format!("{inside}%2e%2e/%2e%2e/%2e%2e/{path}"),
    ] {
        let mut artifact = theirs.clone();
        artifact["url"] = json!(url);
        let status = json!({"status": {"artifact": artifact}});
        h.objects.edit_subresource("ExternalArtifact/app", "status", PERSON, status).await;
        h.edit_spec("web", json!({"pack": {"artifact": {"kind": "ExternalArtifact"}}})).await;
        let held = h.sees("SherpackRelease/web", |held| message(held).contains(&url)).await;
        assert_eq!(condition(&held, "Ready")["reason"], "SourceForbidden", "{held}");
        assert_locked(&h, "blue").await;
    }
    h.objects.delete("GitRepository/app").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flux_may_be_installed_after_the_release() {
    let own = control_plane::own().await;
    let mut h = Harness::on(own.plane, "flux-later").await;
    h.settings.sources = sources();
    h.start();
    h.release("web", spec("GitRepository", Some("packs/web"))).await;
    let held = h.condition("web", "Ready", "False", Some("FluxNotInstalled")).await;
    assert!(message(&held).contains("CustomResourceDefinitions"), "{held}");
    let _flux = Flux::start(own.plane, &h.namespace).await;
    let git = GitServer::start().await;
    git.commit(&files("blue")).await;
    repository(&h, &git).await;
    h.ready("web").await;
    h.stop().await;
}
