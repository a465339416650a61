use crate::api::{Class, reasons};
use crate::manifest;

/// Why objects and hooks are no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A stored manifest is not what was stored.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// An annotation has a value that means nothing.
    #[error("{object}: the annotation `{key}` is `{value}`, not {wanted}")]
    Annotation {
        /// Which object.
        object: String,
        /// Name of the annotation.
        key: &'static str,
        /// What stands there, shortened.
        value: String,
        /// What would have to stand there.
        wanted: &'static str,
    },
    /// The annotations of a probe fit neither each other nor their object.
    #[error("{object}: {problem}")]
    Probe {
        /// Which object.
        object: String,
        /// What is missing or too much, and of which annotation.
        problem: String,
    },
    /// What is waited for is not there to be waited for.
    #[error("{object} waits for {target}, which is {problem}: correct its annotation `sherpack.io/wait-for`")]
    WaitForNothing {
        /// Who waits.
        object: String,
        /// `Kind/name`.
        target: String,
        /// `not in the manifest`.
        problem: &'static str,
    },
    /// Objects wait for each other.
    #[error("objects wait for each other: {circle}: take one `sherpack.io/wait-for` out")]
    WaitForCircle {
        /// `A -> B -> A`.
        circle: String,
    },
}

impl Error {
    /// Always the author of the pack.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::FixSpec
    }

    /// The condition reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Manifest(error) => error.reason(),
            Self::Annotation { .. } | Self::Probe { .. } => reasons::ANNOTATION_INVALID,
            Self::WaitForNothing { .. } | Self::WaitForCircle { .. } => reasons::WAIT_FOR_INVALID,
        }
    }
}
