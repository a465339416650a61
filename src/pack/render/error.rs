pub(super) mod excerpt;
pub(super) mod explain;

use crate::api::Class;
use crate::manifest;
use crate::pack;
use excerpt::Excerpt;

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
    #[error("{file}:{line}: {message}{}", within(excerpt.as_ref(), message))]
    Template {
        /// Path in the pack.
        file: String,
        /// Line from 1; 0 when unknown.
        line: usize,
        /// What is wrong.
        message: String,
        /// The expression, where it is known.
        excerpt: Option<Excerpt>,
    },
    /// The cluster did not give a template what it asked for.
    #[error("{file}:{line}: {message}")]
    Lookup {
        /// Path in the pack.
        file: String,
        /// Line from 1; 0 when unknown.
        line: usize,
        /// What was asked for, why it was not given and what to do.
        message: String,
        /// Who must act.
        class: Class,
        /// The reason for conditions.
        reason: &'static str,
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
    /// A file below `crds/` is not YAML.
    #[error(transparent)]
    DefinitionFile(manifest::Error),
    /// A file below `crds/` was meant to be rendered.
    #[error(
        "{file}:{line}: files below crds/ are not rendered: write the definition out, or move it to templates/"
    )]
    TemplatedDefinition {
        /// Path in the pack.
        file: String,
        /// Line from 1; 0 when unknown.
        line: u64,
    },
    /// A file below `crds/` holds something else.
    #[error("{file}:{line}: {found} is no CustomResourceDefinition: move it to templates/")]
    NotADefinition {
        /// Path in the pack.
        file: String,
        /// Line from 1; 0 when unknown.
        line: u64,
        /// Kind and name.
        found: String,
    },
    /// The render thread ended in a panic: a mistake of this program.
    #[error("rendering ended unexpectedly: {message}")]
    Aborted {
        /// What the thread said.
        message: String,
    },
}

/// The expression as the end of a sentence, unless the message has it already.
fn within(excerpt: Option<&Excerpt>, message: &str) -> String {
    let expression = excerpt.map(Excerpt::expression).filter(|expression| !message.contains(expression));
    expression.map_or_else(String::new, |expression| format!(" (in `{expression}`)"))
}

impl Error {
    /// The line of the template with the expression that failed, for people.
    #[must_use]
    pub fn excerpt(&self) -> Option<&Excerpt> {
        match self {
            Self::Template { excerpt, .. } => excerpt.as_ref(),
            _ => None,
        }
    }

    /// Who must act. Rendering is a function of pack and values: trying again changes nothing, unless it was the cluster
    /// that did not answer.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Library { .. }
            | Self::KubeVersionRange { .. }
            | Self::Template { .. }
            | Self::TemplatedDefinition { .. }
            | Self::NotADefinition { .. }
            | Self::Limit { .. } => Class::FixSpec,
            Self::KubeVersion { .. } => Class::FixCluster,
            Self::Lookup { class, .. } => *class,
            Self::Manifest(error) | Self::DefinitionFile(error) => error.class(),
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
            Self::Lookup { reason, .. } => reason,
            Self::Manifest(error) | Self::DefinitionFile(error) => error.reason(),
            Self::TemplatedDefinition { .. } => "TemplatedInCrdsDir",
            Self::NotADefinition { .. } => "NonCrdInCrdsDir",
            Self::Pack(error) => error.reason(),
            Self::Aborted { .. } => "RenderAborted",
        }
    }
}
