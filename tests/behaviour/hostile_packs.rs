//! Archives and documents that are made to harm: each is told by its own reason, and what is deployed stays, locked.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sherpack_operator::pack::Limits;
use tar::{Builder, EntryType, Header};

use crate::support::harness::condition;
use crate::support::packs::config_map;
use crate::support::wait::eventually;
use crate::support::{Harness, Pack};

/// More objects than there are cases: one that is put back often has to wait.
fn good(version: &str) -> Pack {
    let objects = (0..15).map(|index| config_map(&format!("c{index}"), json!({"version": version})));
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

/// What is tried, the archive, the reason that it ends in, and a part of the message.
fn hostile() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let many = (0..=Limits::default().entries).map(|index| (format!("files/{index}"), Vec::new()));
    let aliases = format!(
        "a: &a [{}]\n{}",
        "x,".repeat(1000),
        (0..200).map(|n| format!("k{n}: *a\n")).collect::<String>()
    );
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
        ("no Pack.yaml", gzip(&[0; 1024]), "PackInvalid", "Pack.yaml"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_pack_is_told_by_its_own_reason_and_what_is_deployed_stays_locked() {
    let h = Harness::new("hostile-packs").await;
    for (index, (name, archive, reason, part)) in hostile().into_iter().enumerate() {
        let version = format!("1.{index}.0");
        h.deploy("web", &good(&version), json!({})).await;
        h.pack_archive("web-pack", archive).await;
        let told = h
            .sees("SherpackRelease/web", |release| {
                let ready = condition(release, "Ready");
                ready["reason"] == reason && ready["message"].as_str().unwrap_or_default().contains(part)
            })
            .await;
        assert_eq!(condition(&told, "Released")["status"], "True", "{name}: {told}");
        let told_by_event = async || h.events("web", reason).await.iter().any(|note| note.contains(part));
        eventually("an Event tells it", told_by_event).await;
        let object = format!("ConfigMap/c{index}");
        h.objects.edit(&object, "kubectl-edit", json!({"data": {"version": "drifted"}})).await;
        h.shows(&object, "/data/version", version.as_str()).await;
    }
    // It goes on by itself once the pack is mended.
    h.pack("web-pack", &good("2.0.0")).await;
    h.shows("ConfigMap/c0", "/data/version", "2.0.0").await;
    h.ready("web").await;
}
