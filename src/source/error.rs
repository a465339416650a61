use std::fmt::Display;
use std::time::Duration;

use super::signature::Refused;
use crate::api::Class;
use crate::pack;

/// After which time, in words.
fn after(wait: Option<Duration>) -> String {
    wait.map(|wait| format!(" after {} s", wait.as_secs())).unwrap_or_default()
}

/// Why a source gives no pack or no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing at that place.
    #[error("{what} does not exist")]
    NotFound {
        /// The path, the URL, or the key with its object.
        what: String,
    },
    /// The reference itself cannot be followed.
    #[error("{what}: {why}")]
    Invalid {
        /// The path, the field or the object.
        what: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The bytes are there and are not a pack.
    #[error("{what}: {error}")]
    Pack {
        /// The path, the URL, or the key with its object.
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
    /// No answer, or not a whole one.
    #[error("{url} cannot be fetched: {message}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What happened.
        message: String,
    },
    /// The server has trouble, or answers what was not asked for.
    #[error("{url} cannot be fetched: the server answers {status}")]
    Status {
        /// Where it was looked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// How long the server wants to be left alone.
        wait: Option<Duration>,
    },
    /// The server wants to know who asks.
    #[error("{url} cannot be fetched: the server answers {status}; {cure}")]
    Unauthorized {
        /// Where it was looked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// What to do.
        cure: String,
    },
    /// The server knows who asks, and does not let that one in.
    #[error("{url} cannot be fetched: the server answers 403: it refuses access; {cure}")]
    Denied {
        /// Where it was looked for.
        url: String,
        /// What to do.
        cure: String,
    },
    /// The server is asked too often.
    #[error("{url} cannot be fetched now: the server answers 429, too many requests; it is tried again{}", after(*wait))]
    Throttled {
        /// Where it was looked for.
        url: String,
        /// How long the server wants to be left alone.
        wait: Option<Duration>,
    },
    /// A registry gives something else than a pack or chart.
    #[error("{what} is no pack and no chart: {why}")]
    Artifact {
        /// Where it was looked for.
        what: String,
        /// What is there instead.
        why: String,
    },
    /// The index of a repository cannot be used.
    #[error("the index of {url} cannot be used: {why}")]
    Index {
        /// The repository, or its index.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// No tag or version lies in the range.
    #[error("{what}: {why}")]
    NoVersion {
        /// Where it was looked for.
        what: String,
        /// The range, and what there is.
        why: String,
    },
    /// A Flux source has made another artifact since its status was read.
    #[error("{url} has not the digest {wanted}, which the status of its source says: it is looked at again")]
    Replaced {
        /// Where it was looked for.
        url: String,
        /// The digest in the status.
        wanted: String,
    },
    /// The bytes are not those that their digest stands for.
    #[error(
        "{url} gives {found} instead of {wanted}: the registry, or a proxy before it, has changed the content; push it again"
    )]
    Corrupt {
        /// Where it was looked for.
        url: String,
        /// The digest or the length that was asked for.
        wanted: String,
        /// What came.
        found: String,
    },
    /// No key that counts has signed the pack.
    #[error("{what} is not taken: {why}")]
    Signature {
        /// Where it was looked for.
        what: String,
        /// What is there instead.
        why: Refused,
    },
    /// Nothing shows that the pack is signed.
    #[error("{what}: {why}")]
    Unverified {
        /// The field or the object.
        what: String,
        /// What is missing and what to do.
        why: String,
    },
    /// The server does not prove who it is, or we do not prove it to the server.
    #[error("{url} cannot be fetched over TLS: {message}")]
    Tls {
        /// Where it was looked for.
        url: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// An address that releases may not reach.
    #[error(
        "{url} is not fetched: {host} is {why}; only the operator's flag --allow-source can open it, by the name of the host"
    )]
    Forbidden {
        /// Where it was looked for.
        url: String,
        host: String,
        /// What kind of address that is.
        why: &'static str,
    },
    /// Something went wrong at a private address: what it was is for the operator's log.
    #[error(
        "{url} cannot be fetched: the operator's log says why, and so does this message when the operator's flag --allow-source names the host, whose address is a private one"
    )]
    Withheld {
        /// Where it was looked for.
        url: String,
        /// What went wrong.
        cause: String,
        /// How long the server wants to be left alone.
        wait: Option<Duration>,
    },
    /// A redirect that is not followed.
    #[error("{url} cannot be fetched: {why}")]
    Redirect {
        /// Where it was looked for first.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another content than the one that the release names.
    #[error("{url} has the digest {found}, and spec.pack.http.digest is {wanted}: correct one of the two")]
    DigestMismatch {
        /// Where it was looked for.
        url: String,
        /// The digest that the release names.
        wanted: String,
        /// The digest of what is there.
        found: String,
    },
}

impl Error {
    /// The same for the operator's own log: only its administrators read it.
    #[must_use]
    pub fn in_full(&self) -> String {
        match self {
            Self::Withheld { cause, .. } => cause.clone(),
            other => other.to_string(),
        }
    }

    /// What is told of it when it happened at a private address.
    pub(in crate::source) fn withheld(&self, url: &dyn Display) -> Self {
        match self {
            Self::Withheld { .. } => self.clone(),
            _ => Self::Withheld { url: url.to_string(), cause: self.to_string(), wait: self.pause() },
        }
    }

    /// How long the server wants to be left alone, if it says so.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Throttled { wait, .. } | Self::Status { wait, .. } | Self::Withheld { wait, .. } => *wait,
            _ => None,
        }
    }

    /// Whether it tells the same, whatever time is left of a pause.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let bare = |error: &Self| {
            let mut bare = error.clone();
            if let Self::Throttled { wait, .. } | Self::Status { wait, .. } | Self::Withheld { wait, .. } =
                &mut bare
            {
                *wait = None;
            }
            bare
        };
        bare(self) == bare(other)
    }

    /// Who must act. A missing source may appear: it is looked for again.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::NotFound { .. }
            | Self::Io { .. }
            | Self::Unreachable { .. }
            | Self::Withheld { .. }
            | Self::Status { .. }
            | Self::Throttled { .. }
            | Self::NoVersion { .. }
            | Self::Corrupt { .. }
            | Self::Replaced { .. }
            | Self::Index { .. }
            | Self::ValuesUnreachable { .. } => Class::Retry,
            Self::Unauthorized { .. }
            | Self::Denied { .. }
            | Self::Tls { .. }
            | Self::ValuesNotFound { .. } => Class::FixCluster,
            Self::Invalid { .. }
            | Self::Forbidden { .. }
            | Self::Redirect { .. }
            | Self::Artifact { .. }
            | Self::Signature { .. }
            | Self::Unverified { .. }
            | Self::DigestMismatch { .. } => Class::FixSpec,
            Self::Pack { error, .. } | Self::Values { error, .. } => error.class(),
        }
    }

    /// Stable PascalCase reason for conditions and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "SourceNotFound",
            Self::Invalid { .. } => "SourceInvalid",
            Self::ValuesNotFound { .. } => "ValuesNotFound",
            Self::ValuesUnreachable { .. } => "ValuesUnreachable",
            Self::Pack { error, .. } | Self::Values { error, .. } => error.reason(),
            Self::Io { .. } => "SourceUnreadable",
            Self::Unreachable { .. } | Self::Withheld { .. } => "SourceUnreachable",
            Self::Status { .. } => "SourceUnavailable",
            Self::Unauthorized { .. } => "SourceUnauthorized",
            Self::Denied { .. } => "SourceAccessDenied",
            Self::Throttled { .. } => "SourceThrottled",
            Self::Artifact { .. } => "ArtifactUnsupported",
            Self::Index { .. } => "RepositoryIndexInvalid",
            Self::NoVersion { .. } => "VersionNotFound",
            Self::Corrupt { .. } => "SourceCorrupt",
            Self::Signature { .. } | Self::Unverified { .. } => "SignatureInvalid",
            Self::Replaced { .. } => "ArtifactReplaced",
            Self::Tls { .. } => "SourceUntrusted",
            Self::Forbidden { .. } => "SourceForbidden",
            Self::Redirect { .. } => "SourceRedirectRefused",
            Self::DigestMismatch { .. } => "DigestMismatch",
        }
    }
}
