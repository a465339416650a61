//! Archives and documents that are made to harm: each is told by its own reason, and what is deployed stays, locked.

use std::io::{Read, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;
use sherpack_operator::pack::Limits;
use sherpack_operator::source::http::Options;
use tar::{Builder, EntryType, Header};

use crate::support::harness::condition;
use crate::support::http_server::{Authority, HttpServer, Route};
use crate::support::packs::{config_map, secret};
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

/// More objects than there are cases: one that is put back often has to wait.
fn good(version: &str) -> Pack {
    let objects = (0..25).map(|index| config_map(&format!("c{index}"), json!({"version": version})));
    Pack::new("web", version).objects(objects)
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(tar).unwrap();
    encoder.finish().unwrap()
}

/// An archive with `Pack.yaml` and one more entry, whatever its name and kind.
fn with_entry(name: &str, kind: EntryType, target: Option<&str>) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let definition = &good("9.9.9").files["Pack.yaml"];
    let mut header = Header::new_gnu();
    header.set_size(definition.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "Pack.yaml", definition.as_slice()).unwrap();
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(0);
    header.set_mode(0o644);
    // By hand: the library refuses to write such names.
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    if let Some(target) = target {
        header.set_link_name_literal(target).unwrap();
    }
    header.set_cksum();
    tar.append(&header, std::io::empty()).unwrap();
    gzip(&tar.into_inner().unwrap())
}

/// Archives that our own writer refuses to write.
fn with_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (path, content) in good("9.9.9").files.into_iter().chain(files) {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content.as_slice()).unwrap();
    }
    gzip(&tar.into_inner().unwrap())
}

fn with_file(path: &str, text: &str) -> Vec<u8> {
    with_files([(path.to_owned(), text.into())])
}

/// The archive of a good pack with one more file, of which its MANIFEST says nothing.
fn beside_its_manifest(path: &str) -> Vec<u8> {
    let listed = good("9.9.9").archive();
    let mut manifest = String::new();
    for entry in tar::Archive::new(GzDecoder::new(listed.as_slice())).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path_bytes().as_ref() == b"MANIFEST" {
            entry.read_to_string(&mut manifest).unwrap();
        }
    }
    with_files([("MANIFEST".to_owned(), manifest.into_bytes()), (path.to_owned(), Vec::new())])
}

fn zstd(content: impl Read) -> Vec<u8> {
    zstd::encode_all(content, 3).unwrap()
}

/// What is tried, the archive, the reason that it ends in, and a part of the message.
#[expect(clippy::too_many_lines, reason = "a table: archives, and what is told of each")]
fn hostile() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let many = (0..=Limits::default().entries).map(|index| (format!("files/{index}"), Vec::new()));
    let aliases = format!(
        "a: &a [{}]\n{}",
        "x,".repeat(1000),
        (0..200).map(|n| format!("k{n}: *a\n")).collect::<String>()
    );
    let packed = good("9.9.9").archive();
    let mut plain = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut plain).unwrap();
    let endless = [gzip(b"").repeat(1001), packed.clone()].concat();
    let object = config_map("c0", json!({"version": "9.9.9"}));
    let twice = good("9.9.9").object(object);
    vec![
        ("garbage", b"no archive at all".to_vec(), "PackNotAnArchive", "archive"),
        (
            "a bomb",
            with_files([("files/zeros".to_owned(), vec![0; 51 << 20])]),
            "PackTooLarge",
            "unpacked archive",
        ),
        ("many entries", with_files(many), "PackTooLarge", "10000"),
        (
            "a link",
            with_entry("templates/l.yaml", EntryType::Symlink, Some("/etc/passwd")),
            "PackLinkRefused",
            "link",
        ),
        (
            "a hard link",
            with_entry("templates/l.yaml", EntryType::Link, Some("Pack.yaml")),
            "PackLinkRefused",
            "link",
        ),
        (
            "a device",
            with_entry("templates/d.yaml", EntryType::Char, None),
            "PackEntryRefused",
            "templates/d.yaml",
        ),
        (
            "an absolute path",
            with_entry("/etc/cron.d/x", EntryType::Regular, None),
            "PackPathRefused",
            "/etc/cron.d/x",
        ),
        ("a way out", with_entry("templates/../../x", EntryType::Regular, None), "PackPathRefused", ".."),
        ("aliases in values", with_file("values.yaml", &aliases), "ValuesInvalid", "values.yaml"),
        ("aliases in a template", with_file("templates/b.yaml", &aliases), "InvalidYaml", "templates/b.yaml"),
        ("a repeated key", with_file("templates/b.yaml", "a: 1\na: 2\n"), "InvalidYaml", "templates/b.yaml"),
        ("one object twice", twice.archive(), "ObjectInvalid", "ConfigMap"),
        ("a pack in zstd", zstd(plain.as_slice()), "PackNotAnArchive", "it is compressed with zstd"),
        (
            "a bomb in zstd",
            zstd(std::io::repeat(0).take(256 << 20)),
            "PackNotAnArchive",
            "it is compressed with zstd",
        ),
        ("a plain tar", plain, "PackNotAnArchive", "a tar that is not compressed"),
        ("half an archive", packed[..packed.len() / 2].to_vec(), "PackNotAnArchive", "archive"),
        ("endless members", endless, "PackNotAnArchive", "more than 1000 members"),
        ("a long path", with_file(&format!("files/{}", "a".repeat(250)), "x"), "PackPathRefused", "too long"),
        ("an unlisted file", beside_its_manifest("files/extra"), "ManifestMismatch", "files/extra"),
        ("no Pack.yaml", gzip(&[0; 1024]), "PackInvalid", "Pack.yaml"),
    ]
}

/// The condition and an Event tell what is wrong; what is deployed is put back when somebody changes it.
async fn told_and_locked(h: &Harness, name: &str, (reason, part): (&str, &str), version: &str, object: &str) {
    let told = h
        .sees("SherpackRelease/web", |release| {
            let ready = condition(release, "Ready");
            ready["reason"] == reason && ready["message"].as_str().unwrap_or_default().contains(part)
        })
        .await;
    assert_eq!(condition(&told, "Released")["status"], "True", "{name}: {told}");
    let told_by_event = async || h.events("web", reason).await.iter().any(|note| note.contains(part));
    eventually("an Event tells it", told_by_event).await;
    h.objects.edit(object, "kubectl-edit", json!({"data": {"version": "drifted"}})).await;
    h.shows(object, "/data/version", version).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_pack_is_told_by_its_own_reason_and_what_is_deployed_stays_locked() {
    let h = Harness::new("hostile-packs").await;
    for (index, (name, archive, reason, part)) in hostile().into_iter().enumerate() {
        let version = format!("1.{index}.0");
        h.deploy("web", &good(&version), json!({})).await;
        h.pack_archive("web-pack", archive).await;
        told_and_locked(&h, name, (reason, part), &version, &format!("ConfigMap/c{index}")).await;
    }
    // It goes on by itself once the pack is mended.
    h.pack("web-pack", &good("2.0.0")).await;
    h.shows("ConfigMap/c0", "/data/version", "2.0.0").await;
    h.ready("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_server_is_told_by_its_own_reason_and_what_is_deployed_stays_locked() {
    let mut h = Harness::without_operator("hostile-servers").await;
    h.settings.sources = Options { allow: vec!["127.0.0.1".parse().unwrap()], ..Options::default() };
    h.start();
    let authority = Authority::new();
    let (server, private) = (HttpServer::start().await, HttpServer::start_tls(&authority, &[], None).await);
    let gone = HttpServer::start().await.url("/gone.tgz");
    let from = |url: String| json!({"pack": {"http": {"url": url}}});
    server.serve("/large.tgz", Route::Promising(11 << 20));
    server.serve("/endless.tgz", Route::Endless);
    server.serve("/zstd.tgz", Route::File(zstd(good("9.9.9").files["Pack.yaml"].as_slice())));
    server.serve("/other.tgz", Route::File(good("9.9.9").archive()));
    private.serve("/private.tgz", Route::File(good("3.0.0").archive()));
    let other = format!("sha256:{}", "0".repeat(64));
    let private = private.url("/private.tgz");
    for (index, (url, reason, part)) in [
        (server.url("/large.tgz"), "PackTooLarge", "larger than 10485760 bytes"),
        (server.url("/endless.tgz"), "PackTooLarge", "larger than 10485760 bytes"),
        (server.url("/zstd.tgz"), "PackNotAnArchive", "compressed with zstd"),
        (server.url("/missing.tgz"), "SourceNotFound", "/missing.tgz"),
        (server.url("/other.tgz"), "DigestMismatch", other.as_str()),
        (gone.clone(), "SourceUnreachable", gone.as_str()),
        (private.clone(), "SourceUntrusted", "`ca.crt`"),
    ]
    .into_iter()
    .enumerate()
    {
        let version = format!("1.{index}.0");
        let path = format!("/{index}.tgz");
        server.serve(&path, Route::File(good(&version).archive()));
        h.release("web", from(server.url(&path))).await;
        h.shows("ConfigMap/c0", "/data/version", version.as_str()).await;
        h.ready("web").await;
        let mut spec = from(url.clone());
        if reason == "DigestMismatch" {
            spec["pack"]["http"]["digest"] = json!(part);
        }
        h.release("web", spec).await;
        told_and_locked(&h, &url, (reason, part), &version, &format!("ConfigMap/c{index}")).await;
    }
    // It goes on by itself once the authority is known.
    h.objects.create("test-person", secret("trust", json!({"ca.crt": authority.pem()}))).await;
    h.edit_spec("web", json!({"pack": {"http": {"secretRef": {"name": "trust"}}}})).await;
    h.shows("ConfigMap/c0", "/data/version", "3.0.0").await;
    h.ready("web").await;
}
