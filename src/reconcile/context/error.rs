use std::time::{Duration, Instant};

use crate::api::{Class, LockOf, reasons};
use crate::cluster::{Account, Reference};
use crate::crd::Severity;
use crate::crd::policy::Policy;
use crate::pack::render;
use crate::{cluster, crd, manifest, plan, source, storage};

/// Why a pass could not do what was decided.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(Box<cluster::Error>),
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error(transparent)]
    Render(#[from] render::Error),
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    #[error(transparent)]
    Plan(#[from] plan::Error),
    #[error("revision {revision} cannot be gone back to: {problem}")]
    RollbackTarget { revision: u32, problem: String },
    /// A hook of an uninstall; it is tried again.
    #[error("{message}")]
    Hook { reason: &'static str, message: String },
    #[error("the pack uses {what} ({object}), which is not supported yet")]
    NotSupported { what: String, object: String },
    #[error(
        "the pack renders no object at all, but the release has {before}: nothing was changed; uninstall the release if that is meant"
    )]
    EmptyRender { before: usize },
    #[error(transparent)]
    Definition(#[from] crd::Error),
    #[error(
        "nothing was changed, because definitions would change in a way that can break or lose what exists: {}; put what is meant into spec.crds.confirmChanges, or set spec.crds.upgrade to Force or Skip",
        listed(stopped)
    )]
    CrdBreakingChange { stopped: Vec<Stopped> },
    #[error(
        "the definition {name} belongs to the release {owner}: let one of them have it, or give it the annotation `sherpack.io/crd-policy: shared` in both"
    )]
    OwnershipConflict { name: String, owner: String },
    #[error(
        "definitions would take objects along, so they stay and the release waits: {}; or set spec.crds.onUninstall to Keep",
        blocked.join("; ")
    )]
    CrdDeletionBlocked { blocked: Vec<String> },
    #[error("two documents of the manifest describe {id}")]
    DuplicateObject { id: manifest::ObjectId },
    #[error("{id} has a namespace, but its kind is not namespaced: remove metadata.namespace")]
    NamespaceOnClusterObject { id: manifest::ObjectId },
    #[error("rendering took longer than {}s", after.as_secs())]
    RenderTimeout { after: Duration },
    #[error("rendering stopped unexpectedly: {message}")]
    RenderAborted { message: String },
    #[error("no random bytes for new secrets: {message}")]
    NoRandomness { message: String },
    #[error("reading the pack stopped unexpectedly: {message}")]
    PackAborted { message: String },
    #[error("parsing the manifest of revision {revision} stopped unexpectedly: {message}")]
    ManifestAborted { revision: u32, message: String },
    #[error("the {reference} of spec.pack does not exist: create it, or correct the name")]
    PackObjectNotFound { reference: Reference },
    #[error("the {reference} of spec.pack.artifact gives no pack: {why}")]
    ArtifactNotReady { reference: Reference, why: String },
    #[error(
        "the {reference} of spec.pack.artifact cannot be read: the API server does not serve its kind; install Flux's source-controller with its CustomResourceDefinitions"
    )]
    FluxNotInstalled { reference: Reference },
    #[error("the {reference} of spec.pack cannot be read: {message}")]
    PackObject { reference: Reference, message: String },
    #[error("{what} cannot be read: {message}")]
    ReadForbidden { what: String, message: String },
    #[error("the service account {account} does not exist: create it, or correct spec.serviceAccountName")]
    AccountNotFound { account: Account },
    #[error("whether the service account {account} exists cannot be found out: {message}")]
    AccountUnknown { account: Account, message: String },
    #[error("no service account acts for this release: name one in spec.serviceAccountName")]
    NoAccount,
    #[error(
        "{lock} has {count} objects, and a lock watches {limit} at most, so none of them is locked: install it as several \
         releases, or run the operator with a higher --lock-objects"
    )]
    LockTooLarge { lock: LockOf, count: usize, limit: usize },
    #[error(
        "{id} {what}, so it is put back only for a service account: without one each user who may write Secrets in \
         {records} could have the operator write it; name an account in spec.serviceAccountName, or run the operator with \
         --allow-lock-as-operator"
    )]
    LockNeedsAccount { id: Box<manifest::ObjectId>, what: &'static str, records: String },
    #[error("the service account {account} lacks rights, so nothing was changed; missing: {missing}")]
    RightsMissing { account: Account, missing: String },
    /// Another error whose message quoted a Secret.
    #[error("{message}")]
    Hidden { reason: &'static str, class: Class, may_pass: bool, message: String },
    #[error("the objects of {name} are being looked at before it changes")]
    Walking { name: String, since: Instant },
    /// No turn at decoding or rendering is free for its namespace.
    #[error(
        "waiting for a turn to be rendered: the releases of a namespace are rendered one after the other"
    )]
    Queued { since: Instant },
    #[error("the pack is being fetched from {url}")]
    Fetching { url: String, since: Instant },
    /// What the fetcher says; it tries again by itself.
    #[error(transparent)]
    Fetch(source::Error),
    /// The same for a pack that the pack depends on.
    #[error("the dependency {name}: {error}")]
    Dependency { name: String, error: source::Error },
    #[error("the {reference} of {field} does not exist: create it, or correct the name")]
    CredentialsNotFound { reference: Reference, field: &'static str },
    #[error("the {reference} of {field} cannot be read: {message}")]
    CredentialsUnreadable { reference: Reference, field: &'static str, message: String },
    #[error("the {reference} of {field} cannot be used: {message}")]
    CredentialsInvalid { reference: Reference, field: &'static str, message: String },
    /// A record below another tool's newest one.
    #[error(
        "{message}; another tool wrote a newer revision, but what this release had made stands in that record: restore it or the key of the records, or delete it to go on without what it says"
    )]
    RecordDoubtful { message: String },
    #[error("revision {revision} was changed by another writer meanwhile")]
    RecordChanged { revision: u32 },
    #[error("no decision was reached: the record changes faster than it can be read")]
    Undecided,
    #[error("write of the release's {what}: {source}")]
    Own { what: &'static str, source: Box<kube::Error> },
    #[error("write of the release's {what}: no answer within {}s", after.as_secs())]
    OwnTimeout { what: &'static str, after: Duration },
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Self {
        Self::Cluster(Box::new(error))
    }
}

impl Error {
    /// Who must act.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Cluster(error) => error.class(),
            Self::Storage(error) => error.class(),
            Self::Source(error) | Self::Fetch(error) | Self::Dependency { error, .. } => error.class(),
            Self::Render(error) => error.class(),
            Self::Manifest(error) => error.class(),
            Self::Plan(error) => error.class(),
            Self::RollbackTarget { .. } | Self::Hook { .. } | Self::RecordDoubtful { .. } => {
                Class::FixCluster
            }
            Self::Definition(error) => error.class(),
            // Another release may let go of it, and objects may go.
            Self::OwnershipConflict { .. } | Self::CrdDeletionBlocked { .. } => Class::FixCluster,
            Self::CrdBreakingChange { .. } => Class::FixSpec,
            Self::NotSupported { .. }
            | Self::EmptyRender { .. }
            | Self::DuplicateObject { .. }
            | Self::NamespaceOnClusterObject { .. }
            | Self::RenderTimeout { .. }
            | Self::RenderAborted { .. }
            | Self::PackAborted { .. }
            | Self::LockTooLarge { .. }
            | Self::NoAccount => Class::FixSpec,
            Self::Hidden { class, .. } => *class,
            // It may be created after the release.
            Self::PackObjectNotFound { .. }
            | Self::ArtifactNotReady { .. }
            | Self::FluxNotInstalled { .. }
            | Self::ReadForbidden { .. }
            | Self::AccountNotFound { .. }
            | Self::RightsMissing { .. }
            | Self::LockNeedsAccount { .. }
            | Self::CredentialsNotFound { .. }
            | Self::CredentialsInvalid { .. } => Class::FixCluster,
            Self::PackObject { .. }
            | Self::AccountUnknown { .. }
            | Self::ManifestAborted { .. }
            | Self::CredentialsUnreadable { .. }
            | Self::Fetching { .. }
            | Self::Walking { .. }
            | Self::Queued { .. }
            | Self::NoRandomness { .. }
            | Self::RecordChanged { .. }
            | Self::Undecided
            | Self::Own { .. }
            | Self::OwnTimeout { .. } => Class::Retry,
        }
    }

    /// The stable word for conditions, events and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cluster(error) => error.reason(),
            Self::Storage(error) => error.reason(),
            Self::Source(error) | Self::Fetch(error) | Self::Dependency { error, .. } => error.reason(),
            Self::Render(error) => error.reason(),
            Self::Manifest(error) => error.reason(),
            Self::Plan(error) => error.reason(),
            Self::RollbackTarget { .. } => reasons::ROLLBACK_TARGET_INVALID,
            Self::RecordDoubtful { .. } => reasons::RECORD_KEY_LOST,
            Self::Definition(error) => error.reason(),
            Self::CrdBreakingChange { .. } => reasons::CRD_BREAKING_CHANGE,
            Self::OwnershipConflict { .. } => reasons::OWNERSHIP_CONFLICT,
            Self::CrdDeletionBlocked { .. } => reasons::CRD_DELETION_BLOCKED,
            Self::Hook { reason, .. } => reason,
            Self::NotSupported { .. } => "NotSupported",
            Self::EmptyRender { .. } => "EmptyRender",
            Self::DuplicateObject { .. } | Self::NamespaceOnClusterObject { .. } => "ObjectInvalid",
            Self::NoRandomness { .. } => "NoRandomness",
            Self::RenderTimeout { .. } | Self::RenderAborted { .. } => "RenderFailed",
            Self::PackAborted { .. } => "PackInvalid",
            Self::ManifestAborted { .. } => reasons::RECORD_UNREADABLE,
            Self::PackObjectNotFound { .. } => "SourceNotFound",
            Self::ArtifactNotReady { .. } => "ArtifactNotReady",
            Self::FluxNotInstalled { .. } => "FluxNotInstalled",
            Self::PackObject { .. } => "SourceUnreachable",
            Self::ReadForbidden { .. } | Self::RightsMissing { .. } => reasons::FORBIDDEN,
            Self::AccountNotFound { .. } => reasons::SERVICE_ACCOUNT_NOT_FOUND,
            Self::AccountUnknown { .. } => "ServiceAccountUnknown",
            Self::NoAccount => reasons::SERVICE_ACCOUNT_REQUIRED,
            Self::LockTooLarge { .. } => reasons::LOCK_TOO_LARGE,
            Self::LockNeedsAccount { .. } => reasons::LOCK_NEEDS_ACCOUNT,
            Self::Hidden { reason, .. } => reason,
            Self::Fetching { .. } => "Fetching",
            Self::Walking { .. } | Self::Queued { .. } => reasons::PROGRESSING,
            Self::CredentialsNotFound { .. } => "CredentialsNotFound",
            Self::CredentialsUnreadable { .. } => "CredentialsUnreadable",
            Self::CredentialsInvalid { .. } => "CredentialsInvalid",
            Self::RecordChanged { .. } | Self::Undecided => "RecordChanged",
            Self::Own { source, .. } if cluster::client::is_not_permitted(source.as_ref()) => {
                crate::api::reasons::NOT_LEADER
            }
            Self::Own { .. } | Self::OwnTimeout { .. } => "StatusWriteFailed",
        }
    }

    /// A kind cannot be watched: whatever else is to be done can be done.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        matches!(self, Self::Cluster(error) if matches!(**error, cluster::Error::Watch { .. }))
    }

    /// An API server that has just been started says this too: it counts when it stands.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Cluster(error) => error.may_pass(),
            Self::Storage(error) => matches!(error, storage::Error::Forbidden { .. }),
            Self::Hidden { may_pass, .. } => *may_pass,
            _ => false,
        }
    }

    /// Another writer was first; nothing is wrong.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::RecordChanged { .. } => true,
            Self::Storage(error) => {
                matches!(error, storage::Error::Conflict { .. } | storage::Error::Missing { .. })
            }
            // The JSON patch of the finalizer tests the resourceVersion. A status that is refused is our mistake.
            Self::Own { what, source } => match cluster::status_code(source) {
                Some(409) => true,
                Some(422) => *what == "finalizer",
                _ => false,
            },
            _ => false,
        }
    }

    /// Since when is waited for something that is under way, or that has its turn, if that is all.
    #[must_use]
    pub(in crate::reconcile) fn fetching_since(&self) -> Option<Instant> {
        match self {
            Self::Fetching { since, .. } | Self::Walking { since, .. } | Self::Queued { since } => {
                Some(*since)
            }
            _ => None,
        }
    }

    /// What is waited for wakes the release: there is no need to come back.
    #[must_use]
    pub(in crate::reconcile) fn wakes(&self) -> bool {
        matches!(
            self,
            Self::Fetching { .. }
                | Self::Walking { .. }
                | Self::Queued { .. }
                | Self::Fetch(_)
                | Self::Dependency { .. }
        )
    }
}

fn listed(stopped: &[Stopped]) -> String {
    stopped.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A change that is not made unasked.
#[derive(Clone, Debug)]
pub struct Stopped {
    pub name: String,
    pub policy: Policy,
    pub verdict: Severity,
    /// The worst first.
    pub changes: Vec<String>,
    /// `NAME@DIGEST`; unset when nothing lets it through.
    pub token: Option<String>,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.name)?;
        let shown: Vec<&str> = self.changes.iter().take(3).map(String::as_str).collect();
        f.write_str(&shown.join("; "))?;
        match self.changes.len().saturating_sub(shown.len()) {
            0 => {}
            more => write!(f, "; and {more} more")?,
        }
        match &self.token {
            Some(token) => write!(f, " (confirm with {token})"),
            None => f.write_str(" (the API server refuses this)"),
        }
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
