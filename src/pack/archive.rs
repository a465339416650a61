//! Gzip tar, read within limits and written the same for the same files.

use std::io::{Read, Write as _};

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use tar::{Archive, EntryType, Header};

use super::path::refuse;
use super::{Error, Files, Limits, Pack, clean, from_files, listing, metadata};

/// Members of one gzip. Tools write one, or one for each block; an empty one costs time and gives nothing.
const MEMBERS: usize = 1000;

/// Reads a pack from a gzip-compressed tar, in memory.
///
/// Files stand at the root or all below one top-level directory, as Helm packs charts. The limit on
/// unpacked bytes counts the whole tar stream (headers, padding, long-name records), and is enforced
/// while decompressing, also across the members of a multi-member gzip.
///
/// # Errors
/// A limit is exceeded; an entry is a link, a device or another special file; a path is absolute,
/// contains `..` or is there twice; or the files are not a pack ([`from_files`]).
pub fn read_archive(bytes: &[u8], limits: &Limits) -> Result<Pack, Error> {
    from_files(unpack(bytes, limits)?, limits)
}

/// Reads the pack in a directory of an archive, such as that of a whole repository. What stands elsewhere may be anything; it
/// counts to the limit on unpacked bytes only.
///
/// # Errors
/// As [`read_archive`].
pub fn read_archive_below(bytes: &[u8], directory: &str, limits: &Limits) -> Result<Pack, Error> {
    from_files(unpacked(bytes, Some(directory), limits)?, limits)
}

/// The files of an archive, whatever they are.
pub(super) fn unpack(bytes: &[u8], limits: &Limits) -> Result<Files, Error> {
    unpacked(bytes, None, limits).map(strip_top_level)
}

fn unpacked(bytes: &[u8], below: Option<&str>, limits: &Limits) -> Result<Files, Error> {
    if bytes.len() as u64 > limits.compressed {
        return Err(Error::TooLarge { what: "archive", limit: limits.compressed });
    }
    if let Some(message) = other_format(bytes) {
        return Err(Error::NotAnArchive { message: message.to_owned() });
    }
    let inner = Members { decoder: GzDecoder::new(bytes), left: MEMBERS };
    let mut stream = Bounded { inner, left: limits.unpacked, exceeded: false };
    let result = entries(&mut stream, below, limits);
    // The tar reader only sees an IO error at the limit; this says which one it was.
    if stream.exceeded {
        return Err(Error::TooLarge { what: "unpacked archive", limit: limits.unpacked });
    }
    result
}

/// What bytes are that people take for an archive, by how they begin; nothing of them is unpacked.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    const FORMATS: [(&[u8], &str); 4] = [
        (&[0x28, 0xb5, 0x2f, 0xfd], "it is compressed with zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "it is compressed with xz"),
        (b"BZh", "it is compressed with bzip2"),
        (b"PK\x03\x04", "it is a zip file"),
    ];
    let found = FORMATS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, message)| *message);
    let tar = || (bytes.get(257..262) == Some(b"ustar")).then_some("it is a tar that is not compressed");
    found.or_else(tar)
}

fn entries(stream: &mut Bounded<Members<'_>>, below: Option<&str>, limits: &Limits) -> Result<Files, Error> {
    let broken = |error: std::io::Error| Error::NotAnArchive { message: error.to_string() };
    let mut archive = Archive::new(stream);
    let mut files = Files::new();
    let mut count = 0_usize;
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let raw = entry.path_bytes().into_owned();
        if below.is_some_and(|directory| !stands_below(&raw, directory)) {
            continue;
        }
        count += 1;
        if count > limits.entries {
            return Err(Error::TooManyEntries { limit: limits.entries });
        }
        let Ok(path) = std::str::from_utf8(&raw) else {
            return Err(refuse(&String::from_utf8_lossy(&raw), "it is not UTF-8"));
        };
        let path = path.strip_prefix("./").unwrap_or(path);
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory => {
                let directory = path.trim_end_matches('/');
                if !directory.is_empty() && directory != "." || path.starts_with('/') {
                    clean(directory, limits.path)?;
                }
                continue;
            }
            // A global header of pax carries comments such as a git commit, no file.
            EntryType::XGlobalHeader => continue,
            EntryType::Symlink | EntryType::Link => {
                return Err(Error::Link { path: path.escape_debug().take(120).collect() });
            }
            other => {
                return Err(Error::NotAFile {
                    path: path.escape_debug().take(120).collect(),
                    what: describe(other),
                });
            }
        }
        clean(path, limits.path)?;
        // It stands below the directory.
        let path = below.map_or(path, |directory| path.get(directory.len() + 1..).unwrap_or(path));
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(broken)?;
        if files.insert(path.to_owned(), content).is_some() {
            return Err(Error::Duplicate { path: path.to_owned() });
        }
    }
    Ok(files)
}

fn stands_below(path: &[u8], directory: &str) -> bool {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    path.strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.len() > 1 && rest.starts_with(b"/"))
}

fn describe(entry: EntryType) -> &'static str {
    match entry {
        EntryType::Block | EntryType::Char => "a device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "a special entry",
    }
}

/// Takes one common top-level directory off, when there is no `Pack.yaml` at the root.
fn strip_top_level(files: Files) -> Files {
    if files.contains_key("Pack.yaml") {
        return files;
    }
    let Some((top, _)) = files.keys().next().and_then(|path| path.split_once('/')) else {
        return files;
    };
    let prefix = format!("{top}/");
    if !files.keys().all(|path| path.starts_with(&prefix)) {
        return files;
    }
    files.into_iter().map(|(path, content)| (path[prefix.len()..].to_owned(), content)).collect()
}

/// All members of a gzip as one stream.
struct Members<'a> {
    decoder: GzDecoder<&'a [u8]>,
    left: usize,
}

impl Read for Members<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.decoder.read(buffer)?;
            let rest = *self.decoder.get_ref();
            if read > 0 || buffer.is_empty() || rest.is_empty() {
                return Ok(read);
            }
            self.left = self
                .left
                .checked_sub(1)
                .ok_or_else(|| std::io::Error::other(format!("it has more than {MEMBERS} members")))?;
            self.decoder = GzDecoder::new(rest);
        }
    }
}

/// Ends in an error, not in a short read, when more than `left` bytes come.
struct Bounded<R> {
    inner: R,
    left: u64,
    exceeded: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if read as u64 > self.left {
            self.exceeded = true;
            return Err(std::io::Error::other("too large"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Writes all files as a gzip tar: `MANIFEST` first, then by path, mode 0644, owner 0, time 0.
///
/// The same files give the same bytes. A `MANIFEST` among the files is replaced by a fresh one.
///
/// # Errors
/// The files are no pack ([`from_files`] with the default limits), or one path does not fit into a
/// tar header.
pub fn write_archive(files: &Files) -> Result<Vec<u8>, Error> {
    let definition = metadata::read(files)?;
    let listing = listing::hash(files);
    let manifest =
        listing::text(&listing, &definition.metadata.name, &definition.metadata.version.to_string());
    let encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut builder = tar::Builder::new(encoder);
    append(&mut builder, listing::MANIFEST, manifest.as_bytes())?;
    let limits = Limits::default();
    for (path, content) in files.iter().filter(|(path, _)| *path != listing::MANIFEST) {
        clean(path, limits.path)?;
        append(&mut builder, path, content)?;
    }
    let broken = |error: std::io::Error| Error::NotAnArchive { message: error.to_string() };
    let mut encoder = builder.into_inner().map_err(broken)?;
    encoder.flush().map_err(broken)?;
    let bytes = encoder.finish().map_err(broken)?;
    // What we write, we can read: an archive above the limits is of no use to anyone.
    read_archive(&bytes, &limits)?;
    Ok(bytes)
}

fn append<W: std::io::Write>(builder: &mut tar::Builder<W>, path: &str, content: &[u8]) -> Result<(), Error> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    builder
        .append_data(&mut header, path, content)
        .map_err(|error| Error::NotAnArchive { message: format!("`{path}`: {error}") })
}

#[cfg(test)]
mod tests {
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
}
