use crate::api::Class;
use crate::manifest;
use crate::pack;

/// Why a pack could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A library has templates for others only.
    #[error("pack `{pack}` is a library: it cannot be installed by itself")]
    Library {
        /// Name of the pack.
        pack: String,
    },
    /// `metadata.kubeVersion` does not allow this cluster.
    #[error("pack `{pack}` needs Kubernetes {range}, this cluster has {found}")]
    KubeVersion {
        /// Name of the pack.
        pack: String,
        /// The range it states.
        range: String,
        /// Version of the cluster.
        found: String,
    },
    /// `metadata.kubeVersion` is not a range.
    #[error("Pack.yaml: `metadata.kubeVersion`: {message}")]
    KubeVersionRange {
        /// What is wrong.
        message: String,
    },
    /// A template has a mistake, or says itself that values are wrong (`fail`, `required`).
    #[error("{file}:{line}: {message}")]
    Template {
        /// Path in the pack.
        file: String,
        /// Line from 1; 0 when unknown.
        line: usize,
        /// What is wrong, with the expression where it is known.
        message: String,
    },
    /// The templates want more work, memory or output than a release may have.
    #[error("{file}:{line}: render limit: {message}")]
    Limit {
        /// Path in the pack.
        file: String,
        /// Line from 1; 0 when unknown.
        line: usize,
        /// Which limit.
        message: String,
    },
    /// A pack below `charts/` or the values are wrong.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// The output of a template is not a manifest.
    #[error("output of {0}")]
    Manifest(#[from] manifest::Error),
    /// The render thread ended in a panic: a mistake of this program.
    #[error("rendering ended unexpectedly: {message}")]
    Aborted {
        /// What the thread said.
        message: String,
    },
}

impl Error {
    /// Who must act. Rendering is a function of pack and values: trying again changes nothing.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Library { .. }
            | Self::KubeVersionRange { .. }
            | Self::Template { .. }
            | Self::Limit { .. } => Class::FixSpec,
            Self::KubeVersion { .. } => Class::FixCluster,
            Self::Manifest(error) => error.class(),
            Self::Pack(error) => error.class(),
            Self::Aborted { .. } => Class::FixSpec,
        }
    }

    /// Stable PascalCase reason for conditions and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Library { .. } => "PackIsLibrary",
            Self::KubeVersion { .. } => "KubernetesVersion",
            Self::KubeVersionRange { .. } => "PackInvalid",
            Self::Template { .. } => "RenderFailed",
            Self::Limit { .. } => "RenderLimit",
            Self::Manifest(error) => error.reason(),
            Self::Pack(error) => error.reason(),
            Self::Aborted { .. } => "RenderAborted",
        }
    }
}
