//! Packs that are taken only when a key that the release names has signed them.

use serde_json::{Value, json};

use crate::support::http_server::{HttpServer, Route};
use crate::support::packs::{config_map, secret};
use crate::support::process::{Process, command};
use crate::support::registry::{Artifact, Options, Registry};
use crate::support::signing::{Cosign, Minisign, refer, refer_all};
use crate::support::sourced::{assert_locked, colored, harness, message};
use crate::support::{Harness, Pack};

fn pack(color: &str) -> Pack {
    Pack::new("web", "1.0.0").object(config_map("settings", json!({"color": color})))
}

fn artifact(color: &str) -> Artifact {
    Artifact::of_pack(pack(color).archive())
}

/// A spec with this source, whose packs a key of the Secret `signers` has to have signed.
fn cosign(source: Value) -> Value {
    with(json!({"pack": {"verify": {"provider": "cosign", "secretRef": {"name": "signers"}}}}), source)
}

fn minisign(source: Value) -> Value {
    with(json!({"pack": {"verify": {"provider": "minisign", "secretRef": {"name": "signers"}}}}), source)
}

fn with(mut spec: Value, source: Value) -> Value {
    for (key, value) in source.as_object().unwrap() {
        spec["pack"][key] = value.clone();
    }
    spec
}

fn oci(registry: &Registry) -> Value {
    let repository = format!("oci://{}/web", registry.address);
    json!({"oci": {"repository": repository, "insecure": true, "tag": "stable"}})
}

/// The Secret `signers` holds these keys, and a password that is no key.
async fn signers(h: &Harness, keys: &[&str]) {
    let mut data = json!({"password": "open sesame"});
    for (at, key) in keys.iter().enumerate() {
        data[format!("{at}.pub")] = json!(key);
    }
    if h.objects.find("Secret/signers").await.is_some() {
        h.objects.delete("Secret/signers").await;
    }
    h.objects.create("kubectl-create", secret("signers", data)).await;
}

/// The pack of `web` is refused, with this in the message.
async fn refused_for(h: &Harness, said: &str) {
    h.sees("SherpackRelease/web", |release| message(release).contains(said)).await;
    let message = message(&h.condition("web", "Ready", "False", Some("SignatureInvalid")).await);
    assert!(message.contains(said), "{said}: {message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_of_a_registry_needs_a_signature_of_cosign_by_a_key_of_the_secret() {
    let h = harness("signatures-oci").await;
    let registry = Registry::start(Options::default()).await;
    let (ours, other) = (Cosign::default(), Cosign::default());
    let blue = registry.push("web", "stable", &artifact("blue")).await;
    h.release("web", cosign(oci(&registry))).await;
    refused_for(&h, "Secret signatures-oci/signers of spec.pack.verify.secretRef: it does not exist").await;
    signers(&h, &[&ours.public()]).await;
    refused_for(&h, "it has no signature: sign it").await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none(), "nothing of it was applied");
    other.sign_bundle(&registry, "web", &blue).await;
    h.pass("web").await;
    refused_for(&h, "no signature of it is made by a key of the Secret").await;
    ours.sign_bundle(&registry, "web", &blue).await;
    h.pass("web").await;
    h.ready("web").await;
    colored(&h, "blue").await;
    let asked = registry.requests().await.len();
    h.pass("web").await;
    assert_eq!(
        registry.requests().await[asked..],
        ["HEAD /v2/web/manifests/stable 200"],
        "it is checked once"
    );
    // Nor again for a change of something else in the Secret.
    let other_than_keys =
        json!({"metadata": {"annotations": {"a": "b"}}, "stringData": {"password": "sesame"}});
    h.objects.edit("Secret/signers", "kubectl-edit", other_than_keys).await;
    h.pass("web").await;
    let more = registry.requests().await.split_off(asked + 1);
    assert_eq!(more, ["HEAD /v2/web/manifests/stable 200"]);

    // A signature for another content does not count, and what is deployed stays locked.
    let green = registry.push("web", "stable", &artifact("green")).await;
    h.pass("web").await;
    refused_for(&h, "it has no signature").await;
    assert_locked(&h, "blue").await;
    other.sign_payload(&registry, "web", &green).await;
    h.pass("web").await;
    refused_for(&h, "no signature of it is made by a key").await;
    ours.sign_payload(&registry, "web", &green).await;
    h.pass("web").await;
    colored(&h, "green").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;

    // Another key is another check; both may have signed.
    signers(&h, &[&other.public()]).await;
    h.ready("web").await;
    signers(&h, &[&Cosign::default().public()]).await;
    refused_for(&h, "no signature of it is made by a key").await;
    assert_locked(&h, "green").await;
    signers(&h, &["no key"]).await;
    refused_for(&h, "`0.pub` is no public key in PEM").await;
    signers(&h, &[&other.public(), &ours.public()]).await;
    h.ready("web").await;
    h.shows_states("web", &["1 superseded", "2 deployed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_of_another_manifest_or_one_that_was_changed_is_refused() {
    let h = harness("signatures-forged").await;
    let registry = Registry::start(Options::default()).await;
    let ours = Cosign::default();
    signers(&h, &[&ours.public()]).await;
    let blue = registry.push("web", "stable", &artifact("blue")).await;
    let red = registry.push("web", "other", &artifact("red")).await;
    ours.sign_bundle(&registry, "web", &red).await;
    refer(&registry, "web", &blue, b"{\"mediaType\": 1}").await;
    h.release("web", cosign(oci(&registry))).await;
    refused_for(&h, "its signature is damaged").await;
    // The good signature of `red` is put where that of `blue` belongs.
    refer(&registry, "web", &blue, &ours.bundle(&red)).await;
    h.pass("web").await;
    refused_for(&h, &format!("it names {red}, and the digest is {blue}")).await;
    assert!(h.objects.find("ConfigMap/settings").await.is_none());
}

/// Who may push may leave what cannot be read beside a good signature.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_signature_counts_whatever_lies_beside_it() {
    let h = harness("signatures-many").await;
    let registry = Registry::start(Options::default()).await;
    let ours = Cosign::default();
    signers(&h, &[&ours.public()]).await;
    let blue = registry.push("web", "stable", &artifact("blue")).await;
    let (strange, good) = (Cosign::default().bundle(&blue), ours.bundle(&blue));
    let large = json!({"note": "x".repeat(2 << 20)});
    let all = [(&strange[..], large), (b"{", json!({})), (&strange, json!({})), (&good, json!({}))];
    refer_all(&registry, "web", &blue, &all).await;
    h.release("web", cosign(oci(&registry))).await;
    h.ready("web").await;
    colored(&h, "blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_behind_a_url_needs_a_signature_of_minisign_beside_it() {
    let h = harness("signatures-http").await;
    let (server, ours) = (HttpServer::start().await, Minisign::default());
    signers(&h, &[&ours.public()]).await;
    let blue = pack("blue").archive();
    server.serve("/a/web.tgz", Route::File(blue.clone()));
    h.release("web", minisign(json!({"http": {"url": server.url("/a/web.tgz")}}))).await;
    refused_for(&h, "it has no signature").await;
    server.serve("/a/web.tgz.minisig", Route::File(Minisign::default().sign(&blue)));
    h.pass("web").await;
    refused_for(&h, "no signature of it is made by a key").await;
    server.serve("/a/web.tgz.minisig", Route::File(ours.sign(&blue)));
    h.pass("web").await;
    h.ready("web").await;
    colored(&h, "blue").await;
    server.serve("/a/web.tgz", Route::File(pack("green").archive()));
    h.pass("web").await;
    refused_for(&h, "its signature is damaged").await;
    assert_locked(&h, "blue").await;
    server.serve("/a/web.tgz.minisig", Route::Endless);
    h.pass("web").await;
    h.condition("web", "Ready", "False", Some("PackTooLarge")).await;
    server.serve("/a/web.tgz.minisig", Route::File(ours.sign(&pack("green").archive())));
    h.pass("web").await;
    colored(&h, "green").await;

    // A repository, with the signature beside the archive that its index names.
    let entry = json!({"name": "web", "version": "1.0.0", "urls": ["../a/web.tgz"]});
    let index = json!({"apiVersion": "v1", "entries": {"web": [entry]}}).to_string();
    server.serve("/b/index.yaml", Route::File(index.into_bytes()));
    let repository = json!({"http": null, "repository": {"url": server.url("/b"), "name": "web"}});
    h.edit_spec("web", minisign(repository)).await;
    h.ready("web").await;
    let red = pack("red").archive();
    server.serve("/a/web.tgz", Route::File(red.clone()));
    h.pass("web").await;
    refused_for(&h, "its signature is damaged").await;
    assert_locked(&h, "green").await;
    server.serve("/a/web.tgz.minisig", Route::File(ours.sign(&red)));
    h.pass("web").await;
    colored(&h, "red").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_in_an_object_or_file_needs_a_signature_of_minisign_beside_it() {
    let mut h = Harness::without_operator("signatures-beside").await;
    let dir = std::env::temp_dir().join(&h.namespace);
    std::fs::create_dir_all(dir.join("web")).unwrap();
    h.settings.pack_dir = Some(dir.clone());
    h.start();
    let ours = Minisign::default();
    signers(&h, &[&ours.public()]).await;
    h.pack_archive("web-pack", pack("blue").archive()).await;
    h.release("web", minisign(json!({"configMap": {"name": "web-pack"}}))).await;
    refused_for(
        &h,
        "key `pack.tgz` of ConfigMap signatures-beside/web-pack is not taken: it has no signature",
    )
    .await;
    let sign = async |name: &str, archive: &[u8]| {
        let text = String::from_utf8(ours.sign(archive)).unwrap();
        h.objects.edit(name, "kubectl-edit", json!({"data": {"pack.tgz.minisig": text}})).await;
    };
    sign("ConfigMap/web-pack", &pack("blue").archive()).await;
    h.ready("web").await;
    colored(&h, "blue").await;
    h.pack_archive("web-pack", pack("green").archive()).await;
    refused_for(&h, "its signature is damaged").await;
    assert_locked(&h, "blue").await;
    // Without another look at the object, another key counts from now on.
    sign("ConfigMap/web-pack", &pack("green").archive()).await;
    colored(&h, "green").await;
    signers(&h, &[&Minisign::default().public()]).await;
    refused_for(&h, "no signature of it is made by a key").await;
    assert_locked(&h, "green").await;
    signers(&h, &[&ours.public()]).await;
    h.ready("web").await;

    std::fs::write(dir.join("web.tgz"), pack("red").archive()).unwrap();
    h.edit_spec("web", minisign(json!({"configMap": null, "path": "web"}))).await;
    refused_for(&h, "only archives can be signed").await;
    h.edit_spec("web", minisign(json!({"path": "web.tgz"}))).await;
    refused_for(&h, "it has no signature").await;
    std::fs::write(dir.join("web.tgz.minisig"), ours.sign(&pack("red").archive())).unwrap();
    h.pass("web").await;
    colored(&h, "red").await;
    std::fs::remove_dir_all(dir).unwrap();
}

/// What the published Sherpack 0.4.0 has packaged and signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_sherpack_has_signed_is_taken() {
    let h = Harness::new("signatures-sherpack").await;
    let file = |name: &str| std::fs::read(format!("src/source/signature/fixtures/sherpack/{name}")).unwrap();
    signers(&h, &[&String::from_utf8(file("sherpack.pub")).unwrap()]).await;
    h.pack_archive("web-pack", file("demo-1.0.0.tar.gz")).await;
    let minisig = String::from_utf8(file("demo-1.0.0.tar.gz.minisig")).unwrap();
    h.objects
        .edit("ConfigMap/web-pack", "kubectl-edit", json!({"data": {"pack.tgz.minisig": minisig}}))
        .await;
    h.release("web", minisign(json!({"configMap": {"name": "web-pack"}}))).await;
    let ready = h.ready("web").await;
    assert_eq!(ready["status"]["pack"]["name"], "demo");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_requires_signatures_takes_no_pack_without_keys() {
    let h = Harness::without_operator("signatures-required").await;
    let process = Process::of(command(&h, &[])).await;
    h.pack_archive("web-pack", pack("blue").archive()).await;
    h.release("web", json!({"pack": {"configMap": {"name": "web-pack"}}})).await;
    h.ready("web").await;
    process.stop().await;
    let process = Process::of(command(&h, &["--require-signatures"])).await;
    refused_for(&h, "--require-signatures").await;
    assert_locked(&h, "blue").await;
    let ours = Minisign::default();
    signers(&h, &[&ours.public()]).await;
    let text = String::from_utf8(ours.sign(&pack("blue").archive())).unwrap();
    h.objects.edit("ConfigMap/web-pack", "kubectl-edit", json!({"data": {"pack.tgz.minisig": text}})).await;
    h.edit_spec("web", minisign(json!({"configMap": {"name": "web-pack"}}))).await;
    h.ready("web").await;
    process.stop().await;
}
