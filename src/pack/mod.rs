//! A pack: templates, default values and metadata, read from bytes and held in memory.
//!
//! Owns the archive format and its limits, `Pack.yaml`, `MANIFEST`, and what merging values means.
//! May import `api` and `manifest`. Pure: a pack is made from bytes, never from a path.
//!
//! Invariant: a [`Pack`] is bounded by [`Limits`], its file names are relative, clean and unique, and
//! the same files give the same [`Pack::digest`] whether they came from a directory or an archive.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod archive;
mod error;
mod listing;
mod metadata;
mod path;
pub mod values;
pub mod version;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use archive::{read_archive, write_archive};
pub use error::Error;
pub use metadata::{Dependency, Kind, Maintainer, Metadata};
pub use path::clean;

/// The files of a pack by path relative to its root, `/` between the parts.
pub type Files = BTreeMap<String, Vec<u8>>;

/// File names that hold a schema of the values, in the order in which they are looked for.
const SCHEMAS: [&str; 4] = ["values.schema.yaml", "values.schema.json", "schema.yaml", "schema.json"];

/// Bytes of `MANIFEST`: thousands of files.
const MANIFEST_BYTES: usize = 2 << 20;

/// What a pack may cost. Everything above is refused while it is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the archive as it is stored.
    pub compressed: u64,
    /// Bytes of the tar stream, or of all files of a directory.
    pub unpacked: u64,
    /// Entries of the archive or directory, directories included.
    pub entries: usize,
    /// Bytes of one path.
    pub path: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { compressed: 10 << 20, unpacked: 50 << 20, entries: 10_000, path: 255 }
    }
}

/// A pack in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    /// Application, or library (which cannot be installed).
    pub kind: Kind,
    /// `metadata` of `Pack.yaml`.
    pub metadata: Metadata,
    /// `engine.strict` of `Pack.yaml`: an undefined value is an error. Default true.
    pub strict: bool,
    /// Declared dependencies, enabled or not.
    pub dependencies: Vec<Dependency>,
    /// `crds` of `Pack.yaml` as it stands there; null when absent.
    pub crds: Value,
    /// Default values: `values.yaml` as an object, empty when there is none.
    pub values: Value,
    /// Every file but `MANIFEST`. Shared: templates may read them.
    pub files: Arc<Files>,
    /// `sha256:` + hex over all paths and contents; the same for a directory and an archive of it.
    pub digest: String,
    /// What was understood but not used, such as unknown keys of `Pack.yaml`.
    pub warnings: Vec<String>,
}

impl Pack {
    /// Path of the schema of the values, when the pack has one.
    #[must_use]
    pub fn schema(&self) -> Option<&'static str> {
        SCHEMAS.into_iter().find(|name| self.files.contains_key(*name))
    }
}

/// Makes a pack of the files of one directory.
///
/// `MANIFEST`, when present, must list exactly these files with their hashes; it is then left out.
///
/// # Errors
/// A limit is exceeded, a path is unclean, `MANIFEST` disagrees, or `Pack.yaml` or `values.yaml` is
/// missing or wrong.
pub fn from_files(mut files: Files, limits: &Limits) -> Result<Pack, Error> {
    if files.len() > limits.entries {
        return Err(Error::TooManyEntries { limit: limits.entries });
    }
    let mut size = 0_u64;
    for (name, content) in &files {
        clean(name, limits.path)?;
        size = size.saturating_add(content.len() as u64);
    }
    if size > limits.unpacked {
        return Err(Error::TooLarge { what: "unpacked pack", limit: limits.unpacked });
    }
    let manifest = files.remove(listing::MANIFEST);
    if manifest.as_ref().is_some_and(|manifest| manifest.len() > MANIFEST_BYTES) {
        return Err(Error::TooLarge { what: listing::MANIFEST, limit: MANIFEST_BYTES as u64 });
    }
    let listing = listing::hash(&files);
    let definition = metadata::read(&files)?;
    if let Some(manifest) = manifest {
        listing::verify(&manifest, &listing)?;
    }
    let values = match files.get("values.yaml") {
        None => Value::Object(serde_json::Map::new()),
        Some(text) => values::parse(text, "values.yaml")?,
    };
    let digest = listing::digest(&listing);
    Ok(Pack {
        kind: definition.kind,
        metadata: definition.metadata,
        strict: definition.strict,
        dependencies: definition.dependencies,
        crds: definition.crds,
        values,
        files: Arc::new(files),
        digest: format!("sha256:{digest}"),
        warnings: definition.warnings,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const MINIMAL: &str =
        "apiVersion: sherpack/v1\nkind: application\nmetadata: {name: web, version: 1.2.3}\n";

    pub(crate) fn files(of: &[(&str, &str)]) -> Files {
        of.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_directory_and_its_archive_are_the_same_pack() {
        let files = files(&[
            ("Pack.yaml", MINIMAL),
            ("values.yaml", "a: 1\n"),
            ("templates/cm.yaml", "x"),
            ("crds/a.yaml", "y"),
            ("charts/sub/Pack.yaml", "z"),
            ("files/logo.bin", "\0\u{1}"),
        ]);
        let limits = Limits::default();
        let archive = write_archive(&files).unwrap();
        assert_eq!(read_archive(&archive, &limits), from_files(files, &limits));
    }

    #[test]
    fn one_changed_byte_changes_the_digest() {
        let digest = |text| {
            from_files(files(&[("Pack.yaml", MINIMAL), ("templates/a.yaml", text)]), &Limits::default())
                .unwrap()
                .digest
        };
        assert_ne!(digest("a"), digest("b"));
    }

    #[test]
    fn a_schema_is_found_in_the_stated_order() {
        let pack = from_files(
            files(&[("Pack.yaml", MINIMAL), ("schema.json", "{}"), ("values.schema.json", "{}")]),
            &Limits::default(),
        );
        assert_eq!(pack.unwrap().schema(), Some("values.schema.json"));
    }

    #[test]
    fn values_and_definition_are_bounded_and_the_file_is_named() {
        let read = |name: &str, text: String| {
            let mut all = files(&[("Pack.yaml", MINIMAL)]);
            all.insert(name.to_owned(), text.into_bytes());
            from_files(all, &Limits::default()).map(|_| ()).map_err(|error| error.to_string())
        };
        let text = format!("a: \"{}\"\n", "y".repeat(1 << 20));
        let nodes = format!("a: [{}]\n", "{b: 1},".repeat(20_000));
        let aliases = format!("a: &a [{}]\n{}", "1,".repeat(1000), "b: *a\n".repeat(100));
        for (name, head) in [("values.yaml", ""), ("Pack.yaml", MINIMAL)] {
            assert_eq!(
                read(name, format!("{head}{text}")).unwrap_err(),
                format!("{name}: it is larger than 1 MiB")
            );
            for many in [&nodes, &aliases] {
                let error = read(name, format!("{head}{many}")).unwrap_err();
                assert!(error.contains(name), "{error}");
            }
        }
        let honest: String = (0..5000).map(|index| format!("k{index}: [a, {{b: 1}}]\n")).collect();
        assert_eq!(read("values.yaml", honest), Ok(()));
    }

    #[test]
    fn a_directory_above_the_limits_is_refused() {
        let limits = Limits { unpacked: 80, ..Limits::default() };
        let files = files(&[("Pack.yaml", MINIMAL), ("a", "0123456789")]);
        assert_eq!(from_files(files.clone(), &limits).unwrap_err().reason(), "PackTooLarge");
        let limits = Limits { entries: 1, ..Limits::default() };
        assert_eq!(from_files(files, &limits).unwrap_err().reason(), "PackTooLarge");
    }
}
