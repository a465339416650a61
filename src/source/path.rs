//! A pack below the operator's pack directory: a directory or an archive.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use super::signature::{Keys, MAX_MINISIG_BYTES, check_beside};
use super::{Error, MINISIG};
use crate::pack::{self, Files, Limits, Pack, clean};

/// Reads `rel` below `pack_dir`. With keys it has to be an archive that one of them has signed, in a file beside it.
///
/// No part of `rel`, and nothing in a pack directory, may be a link; names starting with a dot are
/// left out of a directory (`.git`, `.helmignore`). Blocks on file IO.
///
/// # Errors
/// [`Error::Invalid`] when `rel` is absolute, leaves the directory or is a link; [`Error::NotFound`];
/// [`Error::Pack`] with the limit or mistake; [`Error::Signature`] and [`Error::Unverified`].
pub fn load(pack_dir: &Path, rel: &str, keys: Option<&Keys>, limits: &Limits) -> Result<Pack, Error> {
    let rel = rel.trim_end_matches('/');
    clean(rel, limits.path)
        .map_err(|error| Error::Invalid { what: "spec.pack.path".to_owned(), why: error.to_string() })?;
    let mut path = pack_dir.to_path_buf();
    for part in rel.split('/') {
        path.push(part);
        // The pack directory itself may be a link (a mounted volume); what is below it may not.
        if status(&path, rel)?.is_symlink() {
            return Err(Error::Invalid { what: format!("pack `{rel}`"), why: format!("`{part}` is a link") });
        }
    }
    read_signed(&path, &format!("pack `{rel}`"), keys, limits)
}

/// Reads a pack from a directory or archive that the user of the command line names.
///
/// # Errors
/// As [`load`], but the path itself may be anything.
pub fn read(path: &Path, what: &str, limits: &Limits) -> Result<Pack, Error> {
    read_signed(path, what, None, limits)
}

fn read_signed(path: &Path, what: &str, keys: Option<&Keys>, limits: &Limits) -> Result<Pack, Error> {
    let wrong = |error| Error::Pack { what: what.to_owned(), error };
    // Follows a link that the user typed; `load` has refused it before.
    let metadata = std::fs::metadata(path).map_err(|error| io(&error, what))?;
    if metadata.is_dir() {
        if keys.is_some() {
            let why =
                "it is a directory, and only archives can be signed: put it there as `package` writes it";
            return Err(Error::Unverified { what: what.to_owned(), why: why.to_owned() });
        }
        return pack::from_files(files(path, what, limits)?, limits).map_err(wrong);
    }
    let bytes = archive(path, what, limits)?;
    if let Some(keys) = keys {
        let verdict = check_beside(keys, &bytes, beside(path, what)?.as_deref());
        verdict.map_err(|why| Error::Signature { what: what.to_owned(), why })?;
    }
    pack::read_archive(&bytes, limits).map_err(wrong)
}

/// The bytes of a file that is no larger than an archive may be.
///
/// # Errors
/// As [`read`].
pub fn archive(path: &Path, what: &str, limits: &Limits) -> Result<Vec<u8>, Error> {
    let metadata = std::fs::metadata(path).map_err(|error| io(&error, what))?;
    if !metadata.is_file() {
        return Err(Error::Invalid {
            what: what.to_owned(),
            why: "it is neither a directory nor a file".to_owned(),
        });
    }
    bounded(path, limits.compressed, what)?.ok_or_else(|| Error::Pack {
        what: what.to_owned(),
        error: pack::Error::TooLarge { what: "archive", limit: limits.compressed },
    })
}

/// The signature in the file beside an archive; `None`: there is none. A link is not followed.
fn beside(path: &Path, what: &str) -> Result<Option<Vec<u8>>, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(MINISIG);
    let path = Path::new(&name);
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => bounded(path, MAX_MINISIG_BYTES as u64, what),
        _ => Ok(None),
    }
}

/// All files of a pack directory by their relative path.
///
/// # Errors
/// As [`read`].
pub fn files(root: &Path, what: &str, limits: &Limits) -> Result<Files, Error> {
    let wrong = |error| Error::Pack { what: what.to_owned(), error };
    let mut files = Files::new();
    let mut entries = 0_usize;
    let mut left = limits.unpacked;
    let mut todo = vec![(root.to_path_buf(), String::new())];
    while let Some((directory, prefix)) = todo.pop() {
        for entry in std::fs::read_dir(&directory).map_err(|error| io(&error, what))? {
            let entry = entry.map_err(|error| io(&error, what))?;
            let name = entry.file_name();
            let rel = format!("{prefix}{}", name.to_string_lossy());
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            entries += 1;
            if entries > limits.entries {
                return Err(wrong(pack::Error::TooManyEntries { limit: limits.entries }));
            }
            if name.to_str().is_none() {
                return Err(wrong(pack::Error::Path { path: rel, why: "it is not UTF-8" }));
            }
            clean(&rel, limits.path).map_err(wrong)?;
            // Not followed: `DirEntry` looks at the link itself.
            let kind = entry.file_type().map_err(|error| io(&error, what))?;
            if kind.is_dir() {
                todo.push((entry.path(), format!("{rel}/")));
            } else if kind.is_symlink() {
                return Err(wrong(pack::Error::Link { path: rel }));
            } else if kind.is_file() {
                let too_large = pack::Error::TooLarge { what: "unpacked pack", limit: limits.unpacked };
                let content = bounded(&entry.path(), left, what)?.ok_or_else(|| wrong(too_large))?;
                left -= content.len() as u64;
                files.insert(rel, content);
            } else {
                return Err(wrong(pack::Error::NotAFile { path: rel, what: "a special file" }));
            }
        }
    }
    Ok(files)
}

/// The content, or nothing when it is longer than `limit`.
fn bounded(path: &Path, limit: u64, what: &str) -> Result<Option<Vec<u8>>, Error> {
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| io(&error, what))?;
    file.take(limit + 1).read_to_end(&mut content).map_err(|error| io(&error, what))?;
    Ok(Some(content).filter(|content| content.len() as u64 <= limit))
}

fn status(path: &Path, rel: &str) -> Result<Metadata, Error> {
    std::fs::symlink_metadata(path).map_err(|error| io(&error, &format!("pack `{rel}`")))
}

fn io(error: &std::io::Error, what: &str) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound || error.kind() == std::io::ErrorKind::NotADirectory {
        return Error::NotFound { what: what.to_owned() };
    }
    Error::Io { what: what.to_owned(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    const PACK: &str = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";

    /// A directory below the target directory that goes away with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sherpack-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("web/templates")).unwrap();
            std::fs::write(path.join("web/Pack.yaml"), PACK).unwrap();
            std::fs::write(path.join("web/templates/a.yaml"), "x: 1").unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn reason(dir: &Path, rel: &str, limits: &Limits) -> &'static str {
        load(dir, rel, None, limits).map_or_else(|error| error.reason(), |_| "fine")
    }

    #[test]
    fn a_directory_and_an_archive_are_read_and_dot_files_are_not() {
        let dir = Scratch::new("read");
        std::fs::create_dir(dir.0.join("web/.git")).unwrap();
        std::fs::write(dir.0.join("web/.git/HEAD"), "x").unwrap();
        let limits = Limits::default();
        let pack = load(&dir.0, "web", None, &limits).unwrap();
        assert_eq!(pack.files.keys().collect::<Vec<_>>(), ["Pack.yaml", "templates/a.yaml"]);
        std::fs::write(dir.0.join("web.tgz"), pack::write_archive(&pack.files).unwrap()).unwrap();
        assert_eq!(load(&dir.0, "web.tgz", None, &limits), Ok(pack.clone()));
        assert_eq!(load(&dir.0, "web/", None, &limits), Ok(pack));
    }

    #[test]
    fn nothing_outside_of_the_pack_directory_can_be_named() {
        let dir = Scratch::new("outside");
        let limits = Limits::default();
        for rel in ["/etc", "../x", "web/../../x", "", ".", "a//b"] {
            assert_eq!(reason(&dir.0, rel, &limits), "SourceInvalid", "{rel}");
        }
        assert_eq!(reason(&dir.0, "missing", &limits), "SourceNotFound");
        assert_eq!(reason(&dir.0, "web/Pack.yaml/x", &limits), "SourceNotFound");
    }

    #[test]
    fn links_are_refused_on_the_way_and_inside() {
        let dir = Scratch::new("links");
        let limits = Limits::default();
        symlink("/etc", dir.0.join("etc")).unwrap();
        symlink(dir.0.join("web"), dir.0.join("alias")).unwrap();
        assert_eq!(reason(&dir.0, "etc", &limits), "SourceInvalid");
        assert_eq!(reason(&dir.0, "alias", &limits), "SourceInvalid");
        symlink("/etc/passwd", dir.0.join("web/templates/b.yaml")).unwrap();
        assert!(
            load(&dir.0, "web", None, &limits)
                .unwrap_err()
                .to_string()
                .contains("`templates/b.yaml` is a link")
        );
    }

    #[test]
    fn a_directory_is_read_within_the_limits() {
        let dir = Scratch::new("limits");
        for (limits, expected) in [
            (Limits { unpacked: 20, ..Limits::default() }, "PackTooLarge"),
            (Limits { entries: 2, ..Limits::default() }, "PackTooLarge"),
            (Limits { path: 4, ..Limits::default() }, "PackPathRefused"),
        ] {
            assert_eq!(reason(&dir.0, "web", &limits), expected);
        }
    }
}
