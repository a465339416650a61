//! `MANIFEST`: which files a pack has and what their hashes are, in the published text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::{Error, Files};
use crate::manifest::{hex, sha256_hex};

/// Name of the file in an archive. It does not list itself.
pub(super) const MANIFEST: &str = "MANIFEST";

/// Path to lower-case hex SHA-256.
pub(super) type Listing = BTreeMap<String, String>;

/// Hashes every file but `MANIFEST` itself.
pub(super) fn hash(files: &Files) -> Listing {
    files
        .iter()
        .filter(|(path, _)| *path != MANIFEST)
        .map(|(path, content)| (path.clone(), sha256_hex(content)))
        .collect()
}

/// SHA-256 over `path:hash` lines in path order, as the published format defines it.
pub(super) fn digest(listing: &Listing) -> String {
    let mut all = Sha256::new();
    for (path, hash) in listing {
        all.update(path.as_bytes());
        all.update(b":");
        all.update(hash.as_bytes());
        all.update(b"\n");
    }
    hex(&all.finalize())
}

/// The text of `MANIFEST`. The creation time is the epoch: the same files give the same bytes.
pub(super) fn text(listing: &Listing, name: &str, version: &str) -> String {
    let mut out = format!(
        "sherpack-manifest-version: 1\nname: {name}\nversion: {version}\ncreated: 1970-01-01T00:00:00+00:00\n\n[files]\n"
    );
    for (path, hash) in listing {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{path} sha256:{hash}");
    }
    let _ = write!(out, "\n[digest]\nsha256:{}", digest(listing));
    out
}

/// Compares a stored `MANIFEST` with the files that are really there, in both directions.
pub(super) fn verify(manifest: &[u8], listing: &Listing) -> Result<(), Error> {
    let mismatch = |message: String| Err(Error::ManifestMismatch { message });
    let Ok(manifest) = std::str::from_utf8(manifest) else {
        return mismatch("it is not UTF-8 text".to_owned());
    };
    let mut section = "";
    let mut listed = Listing::new();
    let mut stated = None;
    for line in manifest.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        if line.starts_with('[') {
            section = line;
            continue;
        }
        match section {
            "" => {
                let version = line.strip_prefix("sherpack-manifest-version:");
                if version.is_some_and(|version| version.trim() != "1") {
                    return mismatch(format!("unknown format, `{line}`"));
                }
            }
            "[files]" => {
                let Some((path, hash)) = line.rsplit_once(" sha256:") else {
                    return mismatch(format!("`{line}` is not a path and a hash"));
                };
                if listed.insert(path.to_owned(), hash.to_owned()).is_some() {
                    return mismatch(format!("`{path}` is listed twice"));
                }
            }
            "[digest]" => stated = line.strip_prefix("sha256:"),
            _ => {}
        }
    }
    for (path, hash) in &listed {
        match listing.get(path) {
            None => return mismatch(format!("`{path}` is listed but missing")),
            Some(found) if !found.eq_ignore_ascii_case(hash) => {
                return mismatch(format!("the content of `{path}` has another hash"));
            }
            Some(_) => {}
        }
    }
    if let Some(path) = listing.keys().find(|path| !listed.contains_key(*path)) {
        return mismatch(format!("`{path}` is not listed"));
    }
    match stated {
        Some(stated) if stated.eq_ignore_ascii_case(&digest(listing)) => Ok(()),
        Some(_) => mismatch("its overall digest is another".to_owned()),
        None => mismatch("it states no overall digest".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::tests::files;

    fn listing() -> Listing {
        hash(&files(&[("Pack.yaml", "a"), ("a b.txt", "b"), ("MANIFEST", "ignored")]))
    }

    #[test]
    fn a_written_manifest_verifies() {
        let text = text(&listing(), "web", "1.0.0");
        assert!(text.starts_with("sherpack-manifest-version: 1\nname: web\n"));
        assert!(!text.contains("MANIFEST sha256"));
        assert_eq!(verify(text.as_bytes(), &listing()), Ok(()));
    }

    #[test]
    fn a_changed_missing_or_extra_file_is_named() {
        let text = text(&listing(), "web", "1.0.0");
        let message = |files| verify(text.as_bytes(), &hash(&files)).unwrap_err().to_string();
        assert!(
            message(files(&[("Pack.yaml", "x"), ("a b.txt", "b")])).contains("`Pack.yaml` has another hash")
        );
        assert!(message(files(&[("Pack.yaml", "a")])).contains("`a b.txt` is listed but missing"));
        assert!(
            message(files(&[("Pack.yaml", "a"), ("a b.txt", "b"), ("x", "")])).contains("`x` is not listed")
        );
    }

    #[test]
    fn the_overall_digest_must_be_there_and_right() {
        let good = text(&listing(), "web", "1.0.0");
        let (head, _) = good.split_once("[digest]").unwrap();
        assert!(verify(head.as_bytes(), &listing()).is_err());
        assert!(verify(format!("{head}[digest]\nsha256:00").as_bytes(), &listing()).is_err());
        assert!(verify(b"sherpack-manifest-version: 9\n", &listing()).is_err());
        assert!(verify(b"\xff", &listing()).is_err());
    }
}
