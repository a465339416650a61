use super::*;
use crate::pack::tests::{MINIMAL, files};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A tar with one header per entry, written raw so that hostile paths survive.
fn tar_of(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, kind, content) in entries {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o777);
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn read(entries: &[(&str, EntryType, &[u8])]) -> Result<Pack, Error> {
    read_archive(&gzip(&tar_of(entries)), &Limits::default())
}

const PACK: (&str, EntryType, &[u8]) = ("Pack.yaml", EntryType::Regular, MINIMAL.as_bytes());

#[test]
fn entries_may_stand_at_the_root_or_below_one_directory() {
    assert_eq!(read(&[PACK]).unwrap().metadata.name, "web");
    let below = read(&[
        ("web/", EntryType::Directory, b""),
        ("web/Pack.yaml", EntryType::Regular, MINIMAL.as_bytes()),
        ("web/templates/a.yaml", EntryType::Regular, b"x"),
    ]);
    assert!(below.unwrap().files.contains_key("templates/a.yaml"));
    let two = read(&[
        ("web/Pack.yaml", EntryType::Regular, MINIMAL.as_bytes()),
        ("other/a.yaml", EntryType::Regular, b"x"),
    ]);
    assert_eq!(two, Err(Error::NoPackYaml));
    let chart = read(&[("web/Chart.yaml", EntryType::Regular, b"name: web")]);
    assert_eq!(chart, Err(Error::HelmChart));
    let link = EntryType::Symlink;
    let repository = gzip(&tar_of(&[
        ("packs/web/Pack.yaml", EntryType::Regular, MINIMAL.as_bytes()),
        ("packs/web/templates/a.yaml", EntryType::Regular, b"x"),
        ("packs/webapp/Pack.yaml", EntryType::Regular, b"no"),
        ("link", link, b""),
    ]));
    let below = |directory: &str| read_archive_below(&repository, directory, &Limits::default());
    let files = below("packs/web").unwrap().files;
    assert_eq!(files.keys().collect::<Vec<_>>(), ["Pack.yaml", "templates/a.yaml"]);
    assert_eq!(below("packs"), Err(Error::NoPackYaml), "not the only one");
    assert_eq!(read_archive(&repository, &Limits::default()).unwrap_err().reason(), "PackLinkRefused");
}

#[test]
fn every_hostile_entry_has_its_own_reason() {
    let regular = EntryType::Regular;
    for (entry, reason) in [
        (("templates/a.yaml", EntryType::Symlink, &b""[..]), "PackLinkRefused"),
        (("a", EntryType::Link, b""), "PackLinkRefused"),
        (("a", EntryType::Char, b""), "PackEntryRefused"),
        (("a", EntryType::Block, b""), "PackEntryRefused"),
        (("a", EntryType::Fifo, b""), "PackEntryRefused"),
        (("/etc/passwd", regular, b"x"), "PackPathRefused"),
        (("../a", regular, b"x"), "PackPathRefused"),
        (("templates/../../a", regular, b"x"), "PackPathRefused"),
        (("a/../b/", EntryType::Directory, b""), "PackPathRefused"),
        (("/", EntryType::Directory, b""), "PackPathRefused"),
        (("a\\b", regular, b"x"), "PackPathRefused"),
        (("Pack.yaml", regular, b"x"), "PackDuplicatePath"),
        (("./Pack.yaml", regular, b"x"), "PackDuplicatePath"),
    ] {
        let error = read(&[PACK, entry]).unwrap_err();
        assert_eq!(error.reason(), reason, "{entry:?}: {error}");
    }
}

#[test]
fn an_archive_bomb_stops_at_the_limit() {
    let zeros = vec![0_u8; 60 << 20];
    let bomb = gzip(&tar_of(&[PACK, ("big", EntryType::Regular, &zeros)]));
    assert!(bomb.len() < 1 << 20);
    let error = read_archive(&bomb, &Limits::default()).unwrap_err();
    assert_eq!(error, Error::TooLarge { what: "unpacked archive", limit: 50 << 20 });
}

#[test]
fn members_of_a_multi_member_gzip_count_together() {
    let tar = tar_of(&[PACK, ("big", EntryType::Regular, &[7; 3000])]);
    let mut bytes = gzip(&tar[..1500]);
    bytes.extend(gzip(&tar[1500..]));
    assert!(read_archive(&bytes, &Limits::default()).is_ok());
    let tight = Limits { unpacked: 4000, ..Limits::default() };
    assert_eq!(read_archive(&bytes, &tight).unwrap_err().reason(), "PackTooLarge");
}

#[test]
fn an_archive_of_endless_members_is_refused() {
    let pack = gzip(&tar_of(&[PACK]));
    let after = |count: usize| [gzip(b"").repeat(count), pack.clone()].concat();
    assert!(read_archive(&after(MEMBERS), &Limits::default()).is_ok());
    let error = read_archive(&after(MEMBERS + 1), &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("1000 members"), "{error}");
}

#[test]
fn a_manifest_is_bounded() {
    let lines = "f sha256:00\n".repeat(200_000);
    let error = read(&[PACK, ("MANIFEST", EntryType::Regular, lines.as_bytes())]).unwrap_err();
    assert_eq!(error, Error::TooLarge { what: "MANIFEST", limit: 2 << 20 });
}

#[test]
fn a_header_that_lies_about_its_size_is_refused() {
    let mut tar = tar_of(&[PACK]);
    let mut header = Header::new_ustar();
    header.set_path("liar").unwrap();
    header.set_entry_type(EntryType::Regular);
    header.set_size(1 << 40);
    header.set_cksum();
    tar.truncate(tar.len() - 1024);
    tar.extend_from_slice(header.as_bytes());
    assert!(read_archive(&gzip(&tar), &Limits::default()).is_err());
}

#[test]
fn too_many_entries_and_too_many_compressed_bytes_are_refused() {
    let names: Vec<String> = (0..30).map(|index| format!("f{index}")).collect();
    let mut entries = vec![PACK];
    entries.extend(names.iter().map(|name| (name.as_str(), EntryType::Regular, &b""[..])));
    let bytes = gzip(&tar_of(&entries));
    let few = Limits { entries: 30, ..Limits::default() };
    assert_eq!(read_archive(&bytes, &few), Err(Error::TooManyEntries { limit: 30 }));
    let small = Limits { compressed: 10, ..Limits::default() };
    assert_eq!(read_archive(&bytes, &small).unwrap_err().reason(), "PackTooLarge");
}

#[test]
fn another_format_is_named_and_not_unpacked() {
    let zstd = zstd::encode_all(tar_of(&[PACK]).as_slice(), 0).unwrap();
    for (bytes, part) in [
        (zstd.as_slice(), "compressed with zstd"),
        (b"\xfd7zXZ\0", "compressed with xz"),
        (b"BZh9", "compressed with bzip2"),
        (b"PK\x03\x04", "a zip file"),
        (tar_of(&[PACK]).as_slice(), "a tar that is not compressed"),
    ] {
        let error = read_archive(bytes, &Limits::default()).unwrap_err();
        assert_eq!(error.reason(), "PackNotAnArchive");
        assert!(error.to_string().ends_with(part), "{error}");
    }
}

#[test]
fn garbage_is_no_archive() {
    for bytes in [&b""[..], b"hello", &[0x1f, 0x8b, 8, 0], &gzip(b"not a tar, but long enough")] {
        let error = read_archive(bytes, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::NotAnArchive { .. } | Error::NoPackYaml), "{error}");
    }
    let mut cut = gzip(&tar_of(&[PACK, ("a", EntryType::Regular, &[1; 5000])]));
    cut.truncate(cut.len() / 2);
    assert!(read_archive(&cut, &Limits::default()).is_err());
}

#[test]
fn an_archive_is_the_same_whenever_it_is_written_and_its_manifest_is_checked() {
    let files = files(&[("Pack.yaml", MINIMAL), ("templates/a.yaml", "x"), ("README.md", "r")]);
    let bytes = write_archive(&files).unwrap();
    assert_eq!(bytes, write_archive(&files).unwrap());
    let names: Vec<String> = Archive::new(GzDecoder::new(&bytes[..]))
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["MANIFEST", "Pack.yaml", "README.md", "templates/a.yaml"]);

    let listing = listing::text(&listing::hash(&files), "web", "1.2.3");
    let manifest = ("MANIFEST", EntryType::Regular, listing.as_bytes());
    let extra = read(&[manifest, PACK, ("extra", EntryType::Regular, b"")]);
    assert_eq!(extra.unwrap_err().reason(), "ManifestMismatch");
}

#[test]
fn long_paths_survive_the_round_trip() {
    let long = format!("templates/{}/a.yaml", "d".repeat(180));
    let files = files(&[("Pack.yaml", MINIMAL), (&long, "x")]);
    let pack = read_archive(&write_archive(&files).unwrap(), &Limits::default()).unwrap();
    assert!(pack.files.contains_key(&long));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(0_u8.., 0..2000)) {
        let _ = read_archive(&bytes, &Limits::default());
        let _ = read_archive(&gzip(&bytes), &Limits::default());
    }
}
