//! What can go wrong when a record is read or written, and who must act.

use std::{io, time::Duration};

use kube::core::Status;

use super::MAX_RECORD_BYTES;
use crate::api::{Class, reasons};
use crate::cluster::client::is_not_permitted;

/// An error of a storage call. Every message names the object, or the namespace when a list failed.
///
/// A record that can be fetched but not understood is not an error; see [`Head`](super::Head).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another writer created or changed the record first. The operation must end; the next pass looks again.
    #[error("{what}: another writer changed this record in the meantime; looking again")]
    Conflict { what: String },
    /// The record that was to be changed is gone.
    #[error(
        "{what}: the record does not exist any more; restore it, or start anew with annotation sherpack.io/reset-at"
    )]
    Missing { what: String },
    /// What is in memory of a record was about to be written in its place.
    #[error(
        "record {record}: only a summary of it is in memory, so it was not written; the operator reads all of it and tries again"
    )]
    NotWhole { record: String },
    /// No answer in time. The call may still take effect.
    #[error("{what}: no answer within {} s", .after.as_secs())]
    Timeout { what: String, after: Duration },
    #[error("{what}: not permitted: {message}; give the operator's service account this right")]
    Forbidden { what: String, message: String },
    #[error("namespace {namespace:?} does not exist; create it, or set spec.createNamespace")]
    NamespaceNotFound { namespace: String },
    #[error("namespace {namespace:?} is being deleted; nothing can be stored in it")]
    NamespaceTerminating { namespace: String },
    #[error(
        "revision record {record} takes {size} bytes, and {limit} are allowed: move large files out of the pack's \
         manifests or values"
    )]
    RecordTooLarge { record: String, size: usize, limit: usize },
    #[error(
        "revision record {record} holds more than {limit} values: shorten the lists in the pack's values, or make \
         several releases of it"
    )]
    RecordTooMany { record: String, limit: usize },
    /// The API server, or an admission webhook, does not take it.
    #[error("{what}: refused: {message}")]
    Rejected { what: String, message: String },
    #[error("revision record {record} cannot be serialised: {source}")]
    Encode { record: String, source: io::Error },
    #[error(
        "records are kept in files, and the operator was started without a place for them: start it with --storage-dir"
    )]
    NoStorageDir,
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error("Secret {secret} holds no usable record key: {message}; restore it from a backup")]
    KeyInvalid { secret: String, message: String },
    #[error("no random bytes for a new record key: {0}")]
    Random(getrandom::Error),
    #[error("{what}: {source}")]
    Api { what: String, source: Box<kube::Error> },
}

impl Error {
    /// Who must act before the same call can succeed.
    pub fn class(&self) -> Class {
        match self {
            Self::Conflict { .. }
            | Self::Missing { .. }
            | Self::NotWhole { .. }
            | Self::Timeout { .. }
            | Self::Random(_)
            | Self::File { .. }
            | Self::Api { .. } => Class::Retry,
            Self::RecordTooLarge { .. } | Self::RecordTooMany { .. } | Self::Encode { .. } => Class::FixSpec,
            Self::Forbidden { .. }
            | Self::NamespaceNotFound { .. }
            | Self::NamespaceTerminating { .. }
            | Self::Rejected { .. }
            | Self::NoStorageDir
            | Self::KeyInvalid { .. } => Class::FixCluster,
        }
    }

    /// Stable PascalCase reason, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "RecordConflict",
            Self::Missing { .. } => "RecordLost",
            Self::NotWhole { .. } => "RecordNotWhole",
            Self::Timeout { .. } => "StorageTimeout",
            Self::Forbidden { .. } => "StorageForbidden",
            Self::NamespaceNotFound { .. } => "NamespaceNotFound",
            Self::NamespaceTerminating { .. } => "NamespaceTerminating",
            Self::RecordTooLarge { .. } | Self::RecordTooMany { .. } => "RecordTooLarge",
            Self::Rejected { .. } => "RecordRejected",
            Self::Encode { .. } => "RecordNotSerialisable",
            Self::KeyInvalid { .. } => "RecordKeyInvalid",
            Self::Api { source, .. } if is_not_permitted(source.as_ref()) => reasons::NOT_LEADER,
            Self::Random(_) | Self::NoStorageDir | Self::File { .. } | Self::Api { .. } => {
                "StorageUnavailable"
            }
        }
    }

    /// The server forgot the snapshot that a continue token refers to.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 410))
    }

    /// Sorts an answer of the API server. `what` is the call and its object; `size` the bytes that were sent.
    pub(super) fn from_kube(error: kube::Error, what: &str, namespace: &str, size: usize) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Api { what: what.to_owned(), source: Box::new(error) };
        };
        let what = what.to_owned();
        let message = || status.message.clone();
        let namespace = || namespace.to_owned();
        if is_too_large(status) {
            Self::RecordTooLarge { record: what, size, limit: MAX_RECORD_BYTES }
        } else if status.is_conflict() || status.is_already_exists() {
            Self::Conflict { what }
        } else if status.is_not_found() && kind_in(status) == Some("namespaces") {
            Self::NamespaceNotFound { namespace: namespace() }
        } else if status.is_not_found() {
            Self::Missing { what }
        } else if has_cause(status, "NamespaceTerminating") {
            Self::NamespaceTerminating { namespace: namespace() }
        } else if status.is_forbidden() {
            Self::Forbidden { what, message: message() }
        } else if status.is_invalid() || status.code == 400 {
            Self::Rejected { what, message: message() }
        } else {
            Self::Api { what, source: Box::new(error) }
        }
    }
}

fn kind_in(status: &Status) -> Option<&str> {
    status.details.as_ref().map(|details| details.kind.as_str())
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
}

/// The body limit (413), the data limit of a Secret (422), and etcd's limit (500, known by its text alone).
fn is_too_large(status: &Status) -> bool {
    status.code == 413
        || (status.is_invalid() && has_cause(status, "FieldValueTooLong"))
        || status.message.contains("etcdserver: request is too large")
}

#[cfg(test)]
mod tests {
    use kube::core::response::{StatusCause, StatusDetails};

    use super::*;

    fn answer(code: u16, reason: &str, kind: &str, cause: &str) -> Error {
        let cause = StatusCause { reason: cause.to_owned(), message: String::new(), field: String::new() };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: kind.to_owned(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        };
        let status = Status::failure("said so", reason).with_code(code).with_details(details);
        Error::from_kube(kube::Error::Api(status.boxed()), "create Secret apps/x", "apps", 7)
    }

    #[test]
    fn every_answer_of_the_api_server_has_its_reason_and_somebody_who_must_act() {
        use Class::{FixCluster, FixSpec, Retry};
        for (code, reason, kind, cause, expected, class) in [
            (409, "AlreadyExists", "secrets", "", "RecordConflict", Retry),
            (409, "Conflict", "secrets", "", "RecordConflict", Retry),
            (404, "NotFound", "namespaces", "", "NamespaceNotFound", FixCluster),
            (404, "NotFound", "secrets", "", "RecordLost", Retry),
            (403, "Forbidden", "secrets", "NamespaceTerminating", "NamespaceTerminating", FixCluster),
            (403, "Forbidden", "secrets", "", "StorageForbidden", FixCluster),
            (413, "RequestEntityTooLarge", "", "", "RecordTooLarge", FixSpec),
            (422, "Invalid", "Secret", "FieldValueTooLong", "RecordTooLarge", FixSpec),
            (422, "Invalid", "Secret", "FieldValueInvalid", "RecordRejected", FixCluster),
            (400, "BadRequest", "", "", "RecordRejected", FixCluster),
            (401, "Unauthorized", "", "", "StorageUnavailable", Retry),
            (500, "InternalError", "", "", "StorageUnavailable", Retry),
            (503, "ServiceUnavailable", "", "", "StorageUnavailable", Retry),
        ] {
            let error = answer(code, reason, kind, cause);
            assert_eq!((error.reason(), error.class()), (expected, class), "{code} {reason}");
        }
    }

    #[test]
    fn a_message_says_where_and_what_to_do() {
        let text =
            Error::RecordTooLarge { record: "apps/x".into(), size: 1_200_000, limit: 1_000_000 }.to_string();
        assert!(text.contains("apps/x") && text.contains("1200000") && text.contains("1000000"), "{text}");
        assert!(answer(403, "Forbidden", "secrets", "").to_string().contains("create Secret apps/x"));
    }
}
