use crate::api::Class;

/// Why a document is no definition that could be compared or created.
///
/// Every variant names the definition, as far as it has a name, and the path of what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another kind of object, or a list.
    #[error(
        "{name}: `{path}` is {found}, where `CustomResourceDefinition` of apiextensions.k8s.io/v1 is needed"
    )]
    NotADefinition {
        /// Name of the object.
        name: String,
        /// `kind` or `apiVersion`.
        path: &'static str,
        /// What stands there.
        found: String,
    },
    /// An API that servers have not had since 1.22.
    #[error(
        "{name}: `apiVersion` is apiextensions.k8s.io/{found}, which no server takes any more: convert it to \
         apiextensions.k8s.io/v1, with a schema for every version"
    )]
    OldApi {
        /// Name of the definition.
        name: String,
        /// `v1beta1`.
        found: String,
    },
    /// A field without which nothing can be said is missing or of another type.
    #[error("{name}: `{path}` {problem}")]
    Malformed {
        /// Name of the definition.
        name: String,
        /// Dotted path of the field.
        path: String,
        /// `is missing`.
        problem: String,
    },
    /// Levels below levels: `JSONSchemaProps` refer to themselves.
    #[error("{name}: `{path}` is nested deeper than {limit} levels")]
    TooDeep {
        /// Name of the definition.
        name: String,
        /// The first path beyond the limit.
        path: String,
        /// Levels of JSON.
        limit: usize,
    },
    /// Larger than a request to the API server may be.
    #[error("{name}: has {bytes} bytes, {path} alone {part}: the API server takes at most {limit}")]
    TooLarge {
        /// Name of the definition.
        name: String,
        /// Where most of them are.
        path: String,
        /// Bytes there.
        part: usize,
        /// Bytes in all.
        bytes: usize,
        /// Bytes that are taken.
        limit: usize,
    },
    /// A schema that is valid OpenAPI but not structural.
    #[error("{name}: the schema is not structural: `{path}` {problem}")]
    NotStructural {
        /// Name of the definition.
        name: String,
        /// Dotted path of the keyword.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something else that the API server refuses.
    #[error("{name}: the API server refuses `{path}`: it {problem}")]
    Refused {
        /// Name of the definition.
        name: String,
        /// Dotted path of the field.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Always the author of the definition.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::FixSpec
    }

    /// Condition reason and metric label.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotADefinition { .. } | Self::Malformed { .. } | Self::Refused { .. } => "CrdInvalid",
            Self::OldApi { .. } => "CrdApiRemoved",
            Self::TooDeep { .. } | Self::TooLarge { .. } => "CrdTooLarge",
            Self::NotStructural { .. } => "CrdNotStructural",
        }
    }
}
