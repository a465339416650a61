use crate::api::Class;
use crate::pack;

/// Why a source gives no pack or no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing at that place.
    #[error("{what} does not exist")]
    NotFound {
        /// The path, or the key with its object.
        what: String,
    },
    /// The reference itself cannot be followed.
    #[error("{what}: {why}")]
    Invalid {
        /// The path or the object.
        what: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The bytes are there and are not a pack.
    #[error("{what}: {error}")]
    Pack {
        /// The path, or the key with its object.
        what: String,
        /// What is wrong with them.
        error: pack::Error,
    },
    /// An object of values, or a key in it, is not there.
    #[error("{field}: {what} does not exist: create it, or set {field}.optional to true")]
    ValuesNotFound {
        /// The object, or the key with its object.
        what: String,
        /// The entry of `spec.valuesFrom`.
        field: String,
    },
    /// An object of values cannot be read.
    #[error("{field}: {what} cannot be read: {message}")]
    ValuesUnreachable {
        /// The object.
        what: String,
        /// The entry of `spec.valuesFrom`.
        field: String,
        /// What the API server says.
        message: String,
    },
    /// The text is there and is not values, or does not fit to what is there already.
    #[error("{field}: {error}")]
    Values {
        /// The entry of `spec.valuesFrom`.
        field: String,
        /// What is wrong with it.
        error: pack::Error,
    },
    /// The file system failed.
    #[error("{what} cannot be read: {message}")]
    Io {
        /// The path.
        what: String,
        /// What the system says.
        message: String,
    },
}

impl Error {
    /// Who must act. A missing source may appear: it is looked for again.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::NotFound { .. } | Self::Io { .. } | Self::ValuesUnreachable { .. } => Class::Retry,
            Self::ValuesNotFound { .. } => Class::FixCluster,
            Self::Invalid { .. } => Class::FixSpec,
            Self::Pack { error, .. } | Self::Values { error, .. } => error.class(),
        }
    }

    /// Stable PascalCase reason for conditions and metric labels. [`pack::Error::reason`] of the inner
    /// error says more.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "SourceNotFound",
            Self::Invalid { .. } => "SourceInvalid",
            Self::Pack { .. } => "PackInvalid",
            Self::ValuesNotFound { .. } => "ValuesNotFound",
            Self::ValuesUnreachable { .. } => "ValuesUnreachable",
            Self::Values { error, .. } => error.reason(),
            Self::Io { .. } => "SourceUnreadable",
        }
    }
}
