//! Packs in OCI registries, against a real registry: how they are pulled, with which requests, and what is told when they cannot
//! be had.

use serde_json::{Value, json};
use sherpack_operator::source::cache;

use crate::support::Pack;
use crate::support::harness::condition;
use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::{config_map, secret};
use crate::support::registry::{
    Artifact, Auth, INDEX, MANIFEST, Options, PASSWORD, Registry, USER, descriptor,
};
use crate::support::sourced::{assert_locked, colored, harness, message};
use crate::support::wait::eventually;

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

fn pack(version: &str, color: &str) -> Pack {
    Pack::new("web", version).object(config_map("settings", json!({"color": color})))
}

fn artifact_of(kind: &str, bytes: Vec<u8>) -> Artifact {
    Artifact { layers: vec![(kind.to_owned(), bytes)], ..Artifact::of_pack(Vec::new()) }
}

fn artifact(version: &str, color: &str) -> Artifact {
    Artifact::of_pack(pack(version, color).archive())
}

/// An archive with a Helm chart.
fn chart() -> Vec<u8> {
    let text = b"apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    builder.append_data(&mut header, "web/Chart.yaml", &text[..]).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

/// A spec with this of `spec.pack.oci`, from a registry without TLS.
fn oci(registry: &Registry, repository: &str, more: Value) -> Value {
    let mut oci = json!({"repository": format!("oci://{}/{repository}", registry.address), "insecure": true});
    json_patch::merge(&mut oci, &more);
    json!({"pack": {"oci": oci}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_is_pulled_by_digest_and_looked_at_again_with_one_request() {
    let h = harness("oci-tag").await;
    let registry = Registry::start(Options::default()).await;
    let first = registry.push("packs/web", "stable", &artifact("1.0.0", "blue")).await;
    h.release("web", oci(&registry, "packs/web", json!({"tag": "stable"}))).await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["pack"]["digest"], pack("1.0.0", "blue").digest());
    assert_eq!(ready["status"]["pack"]["version"], "1.0.0");
    let blob = cache::digest(&pack("1.0.0", "blue").archive());
    let pulled = [
        "HEAD /v2/packs/web/manifests/stable 200".to_owned(),
        format!("GET /v2/packs/web/manifests/{first} 200"),
        format!("GET /v2/packs/web/blobs/{blob} 200"),
    ];
    assert_eq!(registry.requests().await, pulled, "everything but the tag is fetched by digest");
    h.pass("web").await;
    assert_eq!(registry.requests().await[3..], pulled[..1], "an unchanged tag costs one request");

    registry.push("packs/web", "stable", &artifact("1.1.0", "green")).await;
    h.pass("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
    colored(&h, "green").await;
    for (outcome, count) in [("success", 2.0), ("unchanged", 1.0), ("failure", 0.0)] {
        let labels = [r#"kind="oci""#, &format!("outcome=\"{outcome}\"")];
        assert_eq!(h.metric("sherpack_source_fetch_total", &labels).await, count, "{outcome}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_that_moves_is_rolled_out_when_the_interval_has_passed() {
    let h = harness("oci-interval").await;
    let registry = Registry::start(Options::default()).await;
    registry.push("web", "latest", &artifact("1.0.0", "blue")).await;
    let mut spec = oci(&registry, "web", json!({}));
    spec["interval"] = json!("10s");
    h.release("web", spec).await;
    h.ready("web").await;
    registry.push("web", "latest", &artifact("1.0.0", "green")).await;
    colored(&h, "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_takes_the_newest_tag_in_it_and_names_the_newest_when_none_is() {
    let h = harness("oci-semver").await;
    let registry = Registry::start(Options::default()).await;
    for (tag, color) in [("1.0.0", "blue"), ("v1.2.0", "green"), ("1.3.0-rc.1", "red"), ("2.0.0", "gray")] {
        registry.push("web", tag, &artifact(tag.trim_start_matches('v'), color)).await;
    }
    registry.push("web", "nightly", &artifact("9.0.0", "black")).await;
    h.release("web", oci(&registry, "web", json!({"semver": "1.x"}))).await;
    h.ready("web").await;
    colored(&h, "green").await;
    registry.push("web", "1.10.0_build.7", &artifact("1.10.0+build.7", "white")).await;
    h.pass("web").await;
    colored(&h, "white").await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["pack"]["version"], "1.10.0+build.7");

    h.edit_spec("web", oci(&registry, "web", json!({"semver": "3.x"}))).await;
    let held = h.condition("web", "Ready", "False", Some("VersionNotFound")).await;
    let said = message(&held);
    assert!(said.contains("`3.x`") && said.contains("2.0.0") && said.contains("1.3.0-rc.1"), "{said}");
    assert_locked(&h, "white").await;
    h.edit_spec("web", oci(&registry, "web", json!({"semver": "not a range"}))).await;
    let held = h.condition("web", "Ready", "False", Some("SourceInvalid")).await;
    assert!(message(&held).contains("spec.pack.oci.semver"), "{held}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_is_pulled_once_and_a_content_that_is_not_its_own_is_refused() {
    let h = harness("oci-digest").await;
    let registry = Registry::start(Options::default()).await;
    let digest = registry.push("web", "1.0.0", &artifact("1.0.0", "blue")).await;
    h.release("web", oci(&registry, "web", json!({"digest": digest, "tag": "gone", "semver": "9.x"}))).await;
    h.ready("web").await;
    h.pass("web").await;
    assert_eq!(registry.requests().await.len(), 2, "{:?}", registry.requests().await);

    // A registry that lies.
    let liar = HttpServer::start().await;
    let good = pack("1.1.0", "green").archive();
    let manifest = |size: usize| {
        let mut manifest = Artifact::of_pack(good.clone()).manifest();
        manifest["layers"][0]["size"] = json!(size);
        manifest.to_string().into_bytes()
    };
    let mut other = good.clone();
    *other.last_mut().unwrap() ^= 1;
    let blob = format!("/v2/web/blobs/{}", cache::digest(&good));
    for (size, bytes, said) in [
        (good.len(), other.clone(), cache::digest(&other)),
        (good.len() - 1, good.clone(), "more bytes".to_owned()),
        (good.len() + 1, good.clone(), format!("{} bytes", good.len())),
    ] {
        let digest = cache::digest(&manifest(size));
        liar.serve(&format!("/v2/web/manifests/{digest}"), Route::File(manifest(size)));
        liar.serve(&blob, Route::File(bytes));
        let repository = format!("oci://{}/web", liar.address);
        let spec = json!({"pack": {"oci": {"repository": repository, "insecure": true, "digest": digest}}});
        h.edit_spec("web", spec).await;
        let held = h.sees("SherpackRelease/web", |held| message(held).contains(&said)).await;
        assert_eq!(condition(&held, "Ready")["reason"], "SourceCorrupt", "{held}");
        assert_locked(&h, "blue").await;
    }
    // The manifest, too, has to be what its digest stands for.
    let (asked, given) = (digest, manifest(good.len() + 2));
    liar.serve(&format!("/v2/web/manifests/{asked}"), Route::File(given.clone()));
    let repository = format!("oci://{}/web", liar.address);
    h.edit_spec("web", json!({"pack": {"oci": {"repository": repository, "digest": asked}}})).await;
    let held = h.sees("SherpackRelease/web", |held| message(held).contains(&cache::digest(&given))).await;
    assert_eq!(condition(&held, "Ready")["reason"], "SourceCorrupt", "{held}");
    assert_locked(&h, "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_pack_is_refused_and_an_index_is_searched_for_one() {
    let h = harness("oci-types").await;
    let registry = Registry::start(Options::default()).await;
    registry.push("web", "chart", &artifact_of(CHART, pack("1.0.0", "blue").archive())).await;
    h.release("web", oci(&registry, "web", json!({"tag": "chart"}))).await;
    h.ready("web").await;

    let image = artifact_of("application/vnd.oci.image.layer.v1.tar+gzip", pack("1.0.0", "red").archive());
    registry.push("web", "image", &image).await;
    let mut two = artifact("1.0.0", "red");
    two.layers.push((CHART.to_owned(), pack("1.0.0", "gray").archive()));
    registry.push("web", "two", &two).await;
    for (tag, said) in [("image", "no layer has the media type"), ("two", "several layers")] {
        h.edit_spec("web", oci(&registry, "web", json!({"tag": tag}))).await;
        let held = h.sees("SherpackRelease/web", |held| message(held).contains(said)).await;
        assert_eq!(condition(&held, "Ready")["reason"], "ArtifactUnsupported", "{held}");
        assert_locked(&h, "blue").await;
    }

    registry.push("web", "helm", &artifact_of(CHART, chart())).await;
    h.edit_spec("web", oci(&registry, "web", json!({"tag": "helm"}))).await;
    h.condition("web", "Ready", "False", Some("HelmEngineMissing")).await;
    assert_locked(&h, "blue").await;

    let green = artifact("1.1.0", "green");
    registry.push("web", "green", &green).await;
    let manifests: Vec<Value> = [image.manifest(), green.manifest()]
        .iter()
        .map(|manifest| descriptor(MANIFEST, manifest.to_string().as_bytes()))
        .collect();
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    registry.push_manifest("web", "index", INDEX, index.to_string().as_bytes()).await;
    h.edit_spec("web", oci(&registry, "web", json!({"tag": "index"}))).await;
    colored(&h, "green").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_asked_for_with_the_credentials_of_the_secret() {
    let h = harness("oci-token").await;
    let registry =
        Registry::start(Options { auth: Auth::Tokens(300), tls: true, ..Options::default() }).await;
    registry.push("packs/web", "1.0.0", &artifact("1.0.0", "blue")).await;
    registry.push("public/web", "1.0.0", &artifact("1.0.0", "blue")).await;
    let ca = registry.ca.clone().unwrap();
    let spec = |repository: &str, secret: &str| {
        oci(&registry, repository, json!({"tag": "1.0.0", "insecure": false, "secretRef": {"name": secret}}))
    };
    let config = |password: &str| {
        let login = json!({"username": USER, "password": password});
        json!({"auths": {registry.address.to_string(): login}}).to_string()
    };
    // Whom a private authority vouches for is not trusted without its certificate.
    h.release("web", oci(&registry, "packs/web", json!({"tag": "1.0.0", "insecure": false}))).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUntrusted")).await;
    assert!(!message(&held).contains("spec.pack.http"), "{held}");
    h.objects.create("test-person", secret("ca", json!({"ca.crt": ca}))).await;
    h.edit_spec("web", spec("packs/web", "ca")).await;
    let held = h.condition("web", "Ready", "False", Some("SourceUnauthorized")).await;
    assert!(message(&held).contains("spec.pack.oci.secretRef"), "{held}");

    let login = secret("login", json!({".dockerconfigjson": config(PASSWORD), "ca.crt": ca}));
    h.objects.create("test-person", login).await;
    h.edit_spec("web", spec("packs/web", "login")).await;
    h.ready("web").await;
    let before = (registry.tokens().await, registry.requests().await.len());
    h.pass("web").await;
    let asked = registry.requests().await[before.1..].to_vec();
    assert_eq!(asked, ["HEAD /v2/packs/web/manifests/1.0.0 200"], "the token is still good");
    assert_eq!(registry.tokens().await, before.0);

    h.objects
        .edit("Secret/login", "test-person", json!({"stringData": {".dockerconfigjson": config("wr0ng")}}))
        .await;
    let held = h.condition("web", "Ready", "False", Some("SourceUnauthorized")).await;
    assert!(!held.to_string().contains("wr0ng"), "{held}");
    assert_locked(&h, "blue").await;
    h.objects
        .edit("Secret/login", "test-person", json!({"stringData": {".dockerconfigjson": config(PASSWORD)}}))
        .await;
    h.ready("web").await;

    // What everybody may have is given to those who show nothing.
    let mut public = spec("public/web", "ca");
    public["releaseName"] = json!("public");
    public["targetNamespace"] = json!(h.namespace);
    h.release("public", public).await;
    eventually("it is pulled", async || {
        let asked = registry.requests().await;
        asked.iter().any(|line| line.starts_with("GET /v2/public/web/blobs/") && line.ends_with(" 200"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_refused_is_asked_for_anew() {
    let h = harness("oci-token-ended").await;
    let options = Options { auth: Auth::Tokens(300), ..Options::default() };
    let registry = Registry::start(options.clone()).await;
    registry.push("web", "1.0.0", &artifact("1.0.0", "blue")).await;
    let login = secret("login", json!({"username": USER, "password": PASSWORD}));
    h.objects.create("test-person", login).await;
    h.release("web", oci(&registry, "web", json!({"tag": "1.0.0", "secretRef": {"name": "login"}}))).await;
    h.ready("web").await;
    // Another one takes its place, which has never given the token that the operator holds.
    let address = registry.address;
    registry.stop().await;
    let registry = Registry::start(Options { address: Some(address), ..options }).await;
    registry.push("web", "1.0.0", &artifact("1.1.0", "green")).await;
    h.pass("web").await;
    colored(&h, "green").await;
    let asked = registry.requests().await;
    assert_eq!(asked[0], "HEAD /v2/web/manifests/1.0.0 401", "{asked:?}");
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_a_password_are_shown_to_who_wants_them() {
    let h = harness("oci-basic").await;
    let registry = Registry::start(Options { auth: Auth::Basic, ..Options::default() }).await;
    registry.push("web", "1.0.0", &artifact("1.0.0", "blue")).await;
    let spec = |more: Value| oci(&registry, "web", more);
    h.release("web", spec(json!({"tag": "1.0.0"}))).await;
    h.condition("web", "Ready", "False", Some("SourceUnauthorized")).await;
    h.objects.create("test-person", secret("login", json!({"username": USER, "password": PASSWORD}))).await;
    h.edit_spec("web", spec(json!({"tag": "1.0.0", "secretRef": {"name": "login"}}))).await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_has_its_reason_and_what_is_deployed_stays_locked() {
    let h = harness("oci-refusals").await;
    let registry = Registry::start(Options::default()).await;
    registry.push("web", "1.0.0", &artifact("1.0.0", "blue")).await;
    h.release("web", oci(&registry, "web", json!({"tag": "1.0.0"}))).await;
    h.ready("web").await;
    h.edit_spec("web", oci(&registry, "web", json!({"tag": "2.0.0"}))).await;
    let held = h.condition("web", "Ready", "False", Some("SourceNotFound")).await;
    assert!(message(&held).contains("web:2.0.0 does not exist"), "{held}");
    assert_locked(&h, "blue").await;
    for (tag, status, reason) in [
        ("3.0.0", 403, "SourceAccessDenied"),
        ("4.0.0", 500, "SourceUnavailable"),
        ("5.0.0", 429, "SourceThrottled"),
    ] {
        registry.refuse_next(1000, status, Some(1)).await;
        h.edit_spec("web", oci(&registry, "web", json!({"tag": tag}))).await;
        h.condition("web", "Ready", "False", Some(reason)).await;
        assert_locked(&h, "blue").await;
        registry.refuse_next(0, status, None).await;
    }
    registry.push("web", "5.0.0", &artifact("5.0.0", "green")).await;
    colored(&h, "green").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_do_not_follow_a_blob_to_another_host() {
    let h = harness("oci-redirect").await;
    // Another port is another host.
    let (registry, storage) = (HttpServer::start().await, HttpServer::start().await);
    let archive = pack("1.0.0", "blue").archive();
    let manifest = artifact("1.0.0", "blue").manifest().to_string().into_bytes();
    let (digest, blob) = (cache::digest(&manifest), cache::digest(&archive));
    let basic = "Basic YWRtaW46c2VzYW1l";
    registry.serve(&format!("/v2/web/manifests/{digest}"), Route::Guarded(basic.to_owned(), manifest));
    registry.serve(&format!("/v2/web/blobs/{blob}"), Route::Redirect(307, storage.url("/signed")));
    storage.serve("/signed", Route::File(archive));
    h.objects
        .create("test-person", secret("login", json!({"username": "admin", "password": "sesame"})))
        .await;
    let repository = format!("oci://{}/web", registry.address);
    let oci =
        json!({"repository": repository, "insecure": true, "digest": digest, "secretRef": {"name": "login"}});
    h.release("web", json!({"pack": {"oci": oci}})).await;
    h.ready("web").await;
    let shown = |server: &HttpServer, path: &str| -> Vec<bool> {
        server.asked(path).iter().map(|asked| asked.headers.contains_key("authorization")).collect()
    };
    assert_eq!(shown(&registry, &format!("/v2/web/blobs/{blob}")), [true]);
    assert_eq!(shown(&storage, "/signed"), [false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_releases_of_one_artifact_pull_it_once() {
    let h = harness("oci-many").await;
    let registry = Registry::start(Options::default()).await;
    let pack = Pack::new("many", "1.0.0").template(
        "settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ release.name }}\"}\n",
    );
    registry.push("web", "1.0.0", &Artifact::of_pack(pack.archive())).await;
    for number in 0..8 {
        h.release(&format!("web-{number}"), oci(&registry, "web", json!({"tag": "1.0.0"}))).await;
    }
    for number in 0..8 {
        h.ready(&format!("web-{number}")).await;
    }
    let asked = registry.requests().await;
    assert_eq!(asked.iter().filter(|line| line.contains("/blobs/")).count(), 1, "{asked:?}");
    eventually("the fetches are counted", async || {
        h.metric("sherpack_source_fetch_total", &[r#"kind="oci""#, r#"outcome="success""#]).await == 1.0
    })
    .await;
}
