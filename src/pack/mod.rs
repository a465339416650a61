//! A pack: templates, default values and metadata, read from bytes and held in memory.
//!
//! Owns the archive format and its limits, `Pack.yaml`, `Pack.lock`, `MANIFEST`, the schema of the values, the packs below `charts/`, and
//! what merging values means. [`render`] makes manifests of a pack.
//! May import `api` and `manifest`. Pure: a pack is made from bytes, never from a path.
//!
//! Invariant: a [`Pack`] is bounded by [`Limits`] together with all packs inside of it, its file names are relative, clean and unique, and
//! the same files give the same [`Pack::digest`] whether they came from a directory or an archive.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod archive;
pub mod crds_dir;
mod definitions;
mod error;
pub mod layers;
mod listing;
mod metadata;
mod path;
pub mod render;
pub mod schema;
mod slot;
pub mod subpacks;
pub mod values;
pub mod version;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use archive::{read_archive, read_archive_below, write_archive};
pub use definitions::{DefinitionWishes, DependencyDefinitions};
pub use error::Error;
#[cfg(test)]
pub(crate) use metadata::SECTIONS;
pub use metadata::{Dependency, Kind, Maintainer, Metadata, Resolve};
pub use path::clean;
pub use schema::Schema;
pub use subpacks::{Subpack, lock};

use slot::Slot;

/// The files of a pack by path relative to its root, `/` between the parts.
pub type Files = BTreeMap<String, Vec<u8>>;

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
    /// What it says of its definitions of resources: `crds` of `Pack.yaml`.
    pub definitions: DefinitionWishes,
    /// What the values have to be like.
    pub schema: Option<Schema>,
    /// Default values: `values.yaml` laid on the defaults of the schema; an object, empty when there are none.
    pub values: Value,
    /// The packs below `charts/`, in the order of their paths.
    pub subpacks: Vec<Subpack>,
    /// Every file but `MANIFEST`. Shared: templates may read them.
    pub files: Arc<Files>,
    /// `sha256:` + hex over all paths and contents; the same for a directory and an archive of it.
    pub digest: String,
    /// What was understood but not used, such as unknown keys of `Pack.yaml`.
    pub warnings: Vec<String>,
    /// For what a render makes of the files and of nothing else.
    pub(crate) compiled: Slot,
}

impl Pack {
    /// Takes a file out, also of a pack inside. `false`: there is none of this path.
    ///
    /// What else was made of the files stays as it is: values, schema, digest.
    pub fn remove(&mut self, path: &str) -> bool {
        self.compiled = Slot::default();
        let mut found = Arc::make_mut(&mut self.files).remove(path).is_some();
        for subpack in &mut self.subpacks {
            let inner = path.strip_prefix(&subpack.path).and_then(|rest| rest.strip_prefix('/'));
            if let (Some(inner), Ok(pack)) = (inner, &mut subpack.content) {
                found |= pack.remove(inner);
            }
        }
        found
    }
}

/// Makes a pack of the files of one directory.
///
/// `MANIFEST`, when present, must list exactly these files with their hashes; it is then left out. A pack below `charts/` that
/// is not one is no error here: only a render knows whether it is needed.
///
/// # Errors
/// A limit is exceeded, also by a pack inside; a path is unclean, `MANIFEST` disagrees, or `Pack.yaml`, `values.yaml` or the schema
/// is missing or wrong.
pub fn from_files(files: Files, limits: &Limits) -> Result<Pack, Error> {
    subpacks::Allowance::new(limits).pack(files, 0)
}

/// The part of [`from_files`] that does not look below `charts/`.
fn alone(mut files: Files) -> Result<Pack, Error> {
    let manifest = files.remove(listing::MANIFEST);
    if manifest.as_ref().is_some_and(|manifest| manifest.len() > MANIFEST_BYTES) {
        return Err(Error::TooLarge { what: listing::MANIFEST, limit: MANIFEST_BYTES as u64 });
    }
    let listing = listing::hash(&files);
    let definition = metadata::read(&files)?;
    if let Some(manifest) = manifest {
        listing::verify(&manifest, &listing)?;
    }
    let schema = schema::read(&files)?;
    let own = match files.get("values.yaml") {
        None => Value::Object(serde_json::Map::new()),
        Some(text) => values::parse(text, "values.yaml")?,
    };
    let values = match &schema {
        // A null in `values.yaml` is a value like others.
        Some(schema) => values::overlay(schema.defaults(), own),
        None => own,
    };
    let mut warnings = definition.warnings;
    if let Some(schema) = &schema {
        let unknown = schema.unknown.iter();
        warnings.extend(unknown.map(|key| format!("{}: unknown key `{key}` is ignored", schema.file())));
    }
    let digest = listing::digest(&listing);
    Ok(Pack {
        kind: definition.kind,
        metadata: definition.metadata,
        strict: definition.strict,
        dependencies: definition.dependencies,
        definitions: definition.definitions,
        schema,
        values,
        subpacks: Vec::new(),
        files: Arc::new(files),
        digest: format!("sha256:{digest}"),
        warnings,
        compiled: Slot::default(),
    })
}

/// What an author wrote, for a message: cut off, and with nothing in it that a terminal would obey.
pub(crate) fn shown(text: &str, characters: usize) -> String {
    text.chars().take(characters).flat_map(char::escape_debug).collect()
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
    fn the_defaults_of_the_schema_lie_below_the_values_of_the_pack() {
        let schema = "type: object\nproperties: {a: {default: 1}, b: {default: 2}, c: {default: 3}}";
        let pack = from_files(
            files(&[
                ("Pack.yaml", MINIMAL),
                ("values.schema.yaml", schema),
                ("values.yaml", "a: 5\nc: null\nd:\n"),
            ]),
            &Limits::default(),
        );
        assert_eq!(pack.unwrap().values, serde_json::json!({"a": 5, "b": 2, "c": null, "d": null}));
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
