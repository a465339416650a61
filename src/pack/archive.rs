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
#[path = "archive_tests.rs"]
mod tests;
