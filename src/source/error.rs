use crate::api::Class;
use crate::pack;

/// Why a source gives no pack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing at that place.
    #[error("{what} does not exist")]
    NotFound {
        /// The path, or the key with its ConfigMap.
        what: String,
    },
    /// The reference itself cannot be followed.
    #[error("{what}: {why}")]
    Invalid {
        /// The path or the ConfigMap.
        what: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The bytes are there and are not a pack.
    #[error("{what}: {error}")]
    Pack {
        /// The path, or the key with its ConfigMap.
        what: String,
        /// What is wrong with them.
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
            Self::NotFound { .. } | Self::Io { .. } => Class::Retry,
            Self::Invalid { .. } => Class::FixSpec,
            Self::Pack { error, .. } => error.class(),
        }
    }

    /// Stable PascalCase reason for conditions and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "SourceNotFound",
            Self::Invalid { .. } => "SourceInvalid",
            Self::Pack { error, .. } => error.reason(),
            Self::Io { .. } => "SourceUnreadable",
        }
    }
}
