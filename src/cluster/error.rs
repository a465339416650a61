use std::collections::BTreeSet;
use std::time::Duration;

use super::client::is_not_permitted;
use super::crowded;
use crate::api::{Class, reasons};
use crate::manifest::ObjectId;

/// Fields that a refusal names, at most.
const FIELDS: usize = 5;

/// Why a call for an object of a release failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{verb} {id}: the API server did not answer within {}s", after.as_secs())]
    Timeout { verb: &'static str, id: ObjectId, after: Duration },
    #[error("{verb} {id}: {}", describe(.source))]
    Api { verb: &'static str, id: ObjectId, source: Box<kube::Error> },
    #[error(
        "the API server does not serve {api_version} {kind}: install its CustomResourceDefinition or correct apiVersion and kind"
    )]
    UnknownKind { api_version: String, kind: String },
    #[error("discovery of {api_version}: {}", describe(.source))]
    Discovery { api_version: String, source: Box<kube::Error> },
    #[error("{id} exists and is not owned by this release{}", holder_phrase(.holder))]
    NotOwned { id: ObjectId, holder: Holder },
    #[error(
        "{id} exists, and adopting it would change more of it than is kept ({bytes} bytes, the limit is {limit}): it was not \
         touched; give the object another name in the pack, or bring it closer to what the pack wants first"
    )]
    AdoptionTooLarge { id: ObjectId, bytes: usize, limit: usize },
    #[error("{id} came into being while the operation ran: it is adopted before it is changed")]
    Appeared { id: ObjectId },
    #[error("{id} is being deleted: waiting until it is gone")]
    Terminating { id: ObjectId },
    #[error("the namespace `{namespace}` does not exist: create it, or set spec.createNamespace")]
    NamespaceNotFound { namespace: String },
    #[error("{id} {}", immutable_phrase(.fields, .instead))]
    Immutable { id: ObjectId, fields: Vec<String>, instead: Instead },
    #[error("what may be done in {place} cannot be found out: {}", describe(.source))]
    Review { place: String, source: Box<kube::Error> },
    #[error("{kind} cannot be watched, so changes of such objects are not seen: {message}")]
    Watch { kind: String, message: String },
}

/// What becomes of an object that cannot change as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Nothing, unless `spec.upgrade.immutableFields` says so.
    Nothing,
    /// Nothing: what it holds would go with it.
    HoldsData,
    /// Nothing: it says that it is to be kept.
    Kept,
    /// Nothing: this release did not make it.
    NotOurs,
    /// Nothing, because only an operation deletes: another writer made it what it is.
    Drifted,
}

fn immutable_phrase(fields: &[String], instead: &Instead) -> String {
    let fields = fields.join(", ");
    let refused =
        format!("cannot become what the release wants, because these fields of it cannot change: {fields}");
    let other = "give the object another name in the pack";
    let skip = "set spec.upgrade.immutableFields to Skip, which leaves it as it is";
    match instead {
        Instead::Nothing => format!(
            "{refused}; set spec.upgrade.immutableFields to Recreate, which deletes it and creates it anew, or to Skip, \
             which leaves it as it is, or {other}"
        ),
        Instead::HoldsData => format!(
            "{refused}; it is not deleted and created anew, because what it holds would go with it: {skip}, or {other}"
        ),
        Instead::Kept => format!(
            "{refused}; it is not deleted and created anew, because its resource policy says that it is kept: take that \
             annotation off, on the object too, {skip}, or {other}"
        ),
        Instead::NotOurs => format!(
            "{refused}; this release has not made it, so it neither deletes nor skips it: delete it, or {other}"
        ),
        Instead::Drifted => format!(
            "was changed in fields that cannot be changed back: {fields}; delete it, and it is created as the release \
             wants it"
        ),
    }
}

/// Who has an object that a release wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Another living SherpackRelease, as `namespace/name`.
    Release(String),
    /// A Helm release of this name, as far as its annotation says.
    Helm(String),
    /// No release any more: it was to outlive the release that made it.
    Kept,
    Unknown,
}

fn holder_phrase(holder: &Holder) -> String {
    let adopt =
        "set spec.install.adopt to Unowned to take it over, or delete it if what it holds is not needed";
    match holder {
        Holder::Release(name) => {
            format!(" but by the SherpackRelease {name}: take it out of one of the two, or rename it there")
        }
        Holder::Helm(name) => format!(" but by the Helm release {name}: {adopt}"),
        Holder::Kept => {
            ": its annotation kept it, with what it holds, when the release that made it went: set \
             spec.install.adopt to Unowned to take it over as it is, or name the object otherwise"
                .to_owned()
        }
        Holder::Unknown => format!(": {adopt}"),
    }
}

impl Error {
    /// Who must act.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Timeout { .. }
            | Self::Terminating { .. }
            | Self::Appeared { .. }
            | Self::Watch { .. }
            | Self::Discovery { .. } => Class::Retry,
            Self::Review { source, .. } => match status_code(source) {
                Some(401 | 403) => Class::FixCluster,
                _ => Class::Retry,
            },
            Self::Api { source, .. } if is_unmergeable(source) => Class::FixSpec,
            Self::Api { source, .. } => match status_code(source) {
                Some(400 | 413 | 422) => Class::FixSpec,
                Some(401 | 403) => Class::FixCluster,
                _ => Class::Retry,
            },
            Self::Immutable { instead: Instead::Drifted, .. } => Class::FixCluster,
            Self::Immutable { .. } | Self::AdoptionTooLarge { .. } => Class::FixSpec,
            // Its CustomResourceDefinition may come later.
            Self::UnknownKind { .. } | Self::NotOwned { .. } | Self::NamespaceNotFound { .. } => {
                Class::FixCluster
            }
        }
    }

    /// The stable word for conditions, events and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "ApiTimeout",
            Self::Api { source, .. } if is_unmergeable(source) => reasons::OBJECT_INVALID,
            Self::Api { source, .. } => match status_code(source) {
                Some(400 | 413 | 422) => reasons::OBJECT_INVALID,
                Some(401 | 403) if namespace_terminating(source) => "NamespaceTerminating",
                Some(401 | 403) => reasons::FORBIDDEN,
                _ if is_not_permitted(source.as_ref()) => reasons::NOT_LEADER,
                _ => "ApplyFailed",
            },
            Self::Review { source, .. } => match status_code(source) {
                Some(401 | 403) => reasons::FORBIDDEN,
                _ => "RightsUnknown",
            },
            Self::UnknownKind { .. } => "UnknownKind",
            Self::Discovery { .. } => "DiscoveryFailed",
            Self::NotOwned { .. } => "ObjectNotOwned",
            Self::Terminating { .. } => "ObjectTerminating",
            Self::AdoptionTooLarge { .. } => "AdoptionTooLarge",
            Self::Appeared { .. } => "ObjectAppeared",
            Self::Immutable { .. } => reasons::IMMUTABLE_FIELD,
            Self::NamespaceNotFound { .. } => "NamespaceNotFound",
            Self::Watch { .. } => reasons::WATCH_FAILED,
        }
    }

    /// The same without what the API server said about a body, which may quote any value of it; `None`: it said nothing of
    /// the kind.
    #[must_use]
    pub fn without_body(&self) -> Option<String> {
        let Self::Api { verb, id, source } = self else { return None };
        let kube::Error::Api(status) = &**source else { return None };
        if !may_quote(status) {
            return None;
        }
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let fields: BTreeSet<&str> =
            causes.map(|cause| cause.field.as_str()).filter(|field| !field.is_empty()).collect();
        let listed: Vec<&str> = fields.into_iter().take(FIELDS).collect();
        let about = if listed.is_empty() { String::new() } else { format!(" about {}", listed.join(", ")) };
        Some(format!(
            "{verb} {id}: refused ({} {}){about}; what the API server says of it is not shown, because it may quote values \
             of Secrets that this pass has not read",
            status.code, status.reason
        ))
    }

    /// An API server that has just been started says this too, before it knows who may do what, and what it serves.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Api { source, .. } | Self::Review { source, .. } => {
                // It may not know yet what a definition that has just been changed defines.
                is_unmergeable(source) && !has_duplicates(source)
                    || matches!(status_code(source), Some(401 | 403)) && !namespace_terminating(source)
            }
            Self::UnknownKind { .. } => true,
            _ => false,
        }
    }

    /// The object is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { source, .. } if status_code(source) == Some(404))
    }

    /// A precondition (uid, resourceVersion) did not hold.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if status_code(source) == Some(409))
    }

    /// An API server of its own making does not take a resourceVersion with something new.
    #[must_use]
    pub(super) fn is_about_version(&self) -> bool {
        let about = |error: &kube::Error| {
            matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422)
                && status.message.to_ascii_lowercase().contains("resourceversion"))
        };
        matches!(self, Self::Api { source, .. } if about(source))
    }

    /// A create was refused because something of that name is there.
    #[must_use]
    pub fn is_already_there(&self) -> bool {
        let taken = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists");
        matches!(self, Self::Api { source, .. } if taken(source))
    }

    /// An apply was refused because a list would have a value twice: another field manager changed a key of ours in it.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        matches!(self, Self::Api { source, .. } if crowded::is_crowded(source))
    }
}

/// The API server cannot merge an object into its type: a field that the type does not have, or with another kind of value, or two
/// items of a list with one key. It answers 500 for that, as if it were at fault itself.
fn is_unmergeable(error: &kube::Error) -> bool {
    let mistyped = matches!(error, kube::Error::Api(status)
        if status.code == 500 && status.message.starts_with("failed to create typed patch object"));
    mistyped || has_duplicates(error)
}

/// Whether a refusal may quote what was sent, and not only name the object and who sent it.
fn may_quote(status: &kube::core::Status) -> bool {
    match status.code {
        401 | 404 | 409 | 410 | 415 | 429 | 503 | 504 => false,
        // Who refuses for want of rights does not see the body; an admission plugin does.
        403 => !status.message.contains(" cannot "),
        _ => true,
    }
}

/// The HTTP status that the API server answered, when it answered.
#[must_use]
pub fn status_code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Two items of a list have the same key: no definition that is yet to be known changes that.
fn has_duplicates(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 500 && status.message.contains("duplicate entries for key"))
}

/// The API server refused a create because the namespace is being deleted.
#[must_use]
pub fn namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == "NamespaceTerminating")
}

/// An error of the client in one line: what the API server said, or what broke on the way to it.
#[must_use]
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({} {})", status.message, status.code, status.reason),
        other => {
            let mut text = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(error) = cause {
                let line = error.to_string();
                if !text.contains(&line) {
                    text = format!("{text}: {line}");
                }
                cause = error.source();
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_of_the_resource_version_is_told_from_others() {
        let refused = |code: u16, message: &str| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "message": message, "reason": "Invalid"});
            let source = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
            Error::Api { verb: "apply", id: ObjectId::default(), source: Box::new(source) }
        };
        let set = "Metadata.ResourceVersion: field must not be set for a Create request";
        assert!(refused(422, set).is_about_version() && refused(400, set).is_about_version());
        assert!(!refused(422, "spec.replicas: Invalid value: -1").is_about_version());
        assert!(!refused(500, set).is_about_version());
    }

    #[test]
    fn what_may_quote_a_body_is_told_by_code_and_fields_alone() {
        let refused = |code: u16, message: &str| {
            let causes =
                json!([{"reason": "FieldValueInvalid", "message": message, "field": "metadata.labels"}]);
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "message": message, "reason": "Invalid", "details": {"causes": causes}});
            let source = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
            let id = ObjectId { kind: "ConfigMap".to_owned(), name: "a".to_owned(), ..ObjectId::default() };
            Error::Api { verb: "apply", id, source: Box::new(source) }.without_body()
        };
        for code in [400, 403, 422, 500] {
            let text = refused(code, "Invalid value: \"hunter2\"").unwrap();
            assert!(text.starts_with(&format!(
                "apply ConfigMap a: refused ({code} Invalid) about metadata.labels; "
            )));
            assert!(!text.contains("hunter2"), "{text}");
        }
        for code in [401, 404, 409, 429, 503] {
            assert_eq!(refused(code, "no"), None, "{code}");
        }
        let may_not = "configmaps \"a\" is forbidden: User \"u\" cannot patch resource \"configmaps\"";
        assert_eq!(refused(403, may_not), None);
    }
}
