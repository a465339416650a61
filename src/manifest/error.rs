use crate::api::Class;

/// Why a text or a value is not a Kubernetes object that can be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not YAML, repeats a key, or exceeds a limit.
    #[error("{file}:{line}:{column}: {message}")]
    Yaml {
        /// Name of the text, as the caller gave it.
        file: String,
        /// Line in the whole stream, from 1; 0 when the parser knows none.
        line: u64,
        /// Column, from 1; 0 when the parser knows none.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// A document is a scalar or a list where an object is needed.
    #[error(
        "{file}: document {index} is {found}, not an object: a manifest needs `apiVersion`, `kind` and `metadata.name`"
    )]
    NotAnObject {
        /// Name of the text.
        file: String,
        /// Which document of the stream, from 1; comment-only documents do not count.
        index: usize,
        /// What stands there instead, with article: `a string`.
        found: &'static str,
    },
    /// A field that every object needs is absent or of another type.
    #[error("{object}: field `{field}` is missing or not a non-empty string")]
    MissingField {
        /// As much of `Kind/name` as is known.
        object: String,
        /// Dotted path of the field.
        field: &'static str,
    },
    /// `metadata` is there but not an object.
    #[error("{object}: `{field}` is not an object")]
    NotAMap {
        /// As much of `Kind/name` as is known.
        object: String,
        /// Dotted path of the field.
        field: &'static str,
    },
    /// Server-side apply cannot work on an object whose name the server chooses.
    #[error("{object}: `metadata.generateName` is refused on an ordinary object: give it a `metadata.name`")]
    GenerateName {
        /// `Kind/prefix`.
        object: String,
    },
    /// A list was given where one object is needed.
    #[error("{kind} is a list, not one object: use its items")]
    IsList {
        /// Kind of the list.
        kind: String,
    },
}

impl Error {
    /// Every error of this folder is in the text of the pack: only its author can act.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::FixSpec
    }

    /// Condition reason and metric label.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Yaml { .. } => "InvalidYaml",
            Self::NotAnObject { .. }
            | Self::MissingField { .. }
            | Self::NotAMap { .. }
            | Self::GenerateName { .. }
            | Self::IsList { .. } => "InvalidManifest",
        }
    }
}
