use crate::api::Class;

/// Why bytes are not a pack, or a text is not values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A size limit is exceeded.
    #[error("the {what} is larger than {limit} bytes")]
    TooLarge {
        /// `archive`, `unpacked archive`, `unpacked pack`, `MANIFEST`.
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// Too many files and directories.
    #[error("the pack has more than {limit} entries")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// Too many packs inside.
    #[error("the pack has more than {limit} packs inside")]
    TooManyPacks {
        /// The limit.
        limit: usize,
    },
    /// Packs inside packs inside packs.
    #[error("the pack has packs nested more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The values, schemas and definitions of a pack and those inside are too much data.
    #[error("the values, schemas and definitions of the pack have more than {limit} fields and items")]
    TooManyFields {
        /// The limit.
        limit: usize,
    },
    /// Not a gzip stream with a tar archive inside.
    #[error("the archive is not a gzip-compressed tar: {message}")]
    NotAnArchive {
        /// What the decoder says.
        message: String,
    },
    /// A path that could leave the pack or is not plain.
    #[error("path `{path}` is refused: {why}")]
    Path {
        /// The path, shortened and with unprintable characters escaped.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A link: it could point outside of the pack.
    #[error("`{path}` is a link: a pack holds regular files only")]
    Link {
        /// Path of the link.
        path: String,
    },
    /// A device, pipe, or another entry that is no file.
    #[error("`{path}` is {what}: a pack holds regular files only")]
    NotAFile {
        /// Path of the entry.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// The same path twice.
    #[error("`{path}` is in the archive twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// No `Pack.yaml` at the root or in the one directory at the root.
    #[error("the pack has no Pack.yaml at its root or in its only top-level directory")]
    NoPackYaml,
    /// There is a `Chart.yaml` where `Pack.yaml` would be.
    #[error("it is a Helm chart, and this operator has no engine for Helm charts: use a pack with Pack.yaml")]
    HelmChart,
    /// `Pack.yaml` says something that cannot be understood.
    #[error("Pack.yaml: {message}")]
    Definition {
        /// Field and what is wrong.
        message: String,
    },
    /// `Pack.yaml` is not YAML.
    #[error("{message}")]
    Syntax {
        /// Starts with the file and line.
        message: String,
    },
    /// A text is not YAML, or not an object.
    #[error("{file}: {message}")]
    Values {
        /// Name of the text.
        file: String,
        /// Line when known, and what is wrong.
        message: String,
    },
    /// A text of values is YAML of another shape.
    #[error("{file}: it is {found}, not an object (`key: value`)")]
    ValuesNotAnObject {
        /// Name of the text.
        file: String,
        /// What stands there instead, with article.
        found: &'static str,
    },
    /// A text of values is too long.
    #[error("{file}: it is larger than {} MiB", .limit >> 20)]
    ValuesTooLarge {
        /// Name of the text.
        file: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A value is to be set below something that has no such part.
    #[error("{file}: {message}")]
    ValuesPath {
        /// Name of what is to be set.
        file: String,
        /// Where it does not fit.
        message: String,
    },
    /// The schema of the values cannot be used.
    #[error("{file}: {message}")]
    Schema {
        /// File of the schema, with the line when known.
        file: String,
        /// What is wrong and where.
        message: String,
    },
    /// The schema refers to something outside of itself.
    #[error(
        "{file}: `$ref: {reference}` leads out of the schema, and nothing is ever fetched: copy what it names into the schema"
    )]
    SchemaReference {
        /// File of the schema.
        file: String,
        /// The reference, shortened.
        reference: String,
    },
    /// The values do not fit the schema of the pack.
    #[error("the values do not fit {file}: {message}")]
    Violations {
        /// File of the schema.
        file: String,
        /// The first places and what the schema wants there.
        message: String,
    },
    /// A pack below `charts/` that is needed is not there.
    #[error("the dependency `{name}` is missing: {message}")]
    DependencyMissing {
        /// Name or alias.
        name: String,
        /// What to do.
        message: String,
    },
    /// A pack below `charts/` cannot be used.
    #[error("the dependency `{name}` cannot be used: {message}")]
    DependencyInvalid {
        /// Name, alias or place.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// `Pack.lock` is of another `Pack.yaml`.
    #[error(
        "Pack.lock does not fit Pack.yaml for the dependency `{name}`: {message}; run `sherpack-operator dependency update`"
    )]
    DependencyLockStale {
        /// Name or alias.
        name: String,
        /// Where the two differ.
        message: String,
    },
    /// `Pack.lock` cannot be read.
    #[error("Pack.lock cannot be used: {message}; write it anew with `sherpack-operator dependency update`")]
    DependencyLockInvalid {
        /// What is wrong with it.
        message: String,
    },
    /// A `--set` expression is malformed.
    #[error("cannot set `{expression}`: {why}")]
    Set {
        /// What the user wrote.
        expression: String,
        /// What is wrong.
        why: String,
    },
    /// `MANIFEST` does not agree with the files.
    #[error("MANIFEST disagrees with the files: {message}; package the pack again")]
    ManifestMismatch {
        /// The first disagreement.
        message: String,
    },
}

impl Error {
    /// Everything here is in the bytes of the pack or in the values: only their author can act.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::FixSpec
    }

    /// Stable PascalCase reason for conditions and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. }
            | Self::TooManyEntries { .. }
            | Self::TooManyPacks { .. }
            | Self::TooDeep { .. }
            | Self::TooManyFields { .. } => "PackTooLarge",
            Self::HelmChart => "HelmEngineMissing",
            Self::NotAnArchive { .. } => "PackNotAnArchive",
            Self::Path { .. } => "PackPathRefused",
            Self::Link { .. } => "PackLinkRefused",
            Self::NotAFile { .. } => "PackEntryRefused",
            Self::Duplicate { .. } => "PackDuplicatePath",
            Self::NoPackYaml | Self::Definition { .. } | Self::Syntax { .. } => "PackInvalid",
            Self::ValuesNotAnObject { .. } | Self::ValuesPath { .. } => "ValuesNotAnObject",
            Self::ValuesTooLarge { .. } => "ValuesTooLarge",
            Self::Schema { .. } => "SchemaInvalid",
            Self::SchemaReference { .. } => "SchemaReferenceRefused",
            Self::DependencyMissing { .. } => "DependencyMissing",
            Self::DependencyInvalid { .. } => "DependencyInvalid",
            Self::DependencyLockStale { .. } => "DependencyLockStale",
            Self::DependencyLockInvalid { .. } => "DependencyLockInvalid",
            Self::Values { .. } | Self::Set { .. } | Self::Violations { .. } => "ValuesInvalid",
            Self::ManifestMismatch { .. } => "ManifestMismatch",
        }
    }
}
