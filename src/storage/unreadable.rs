//! A stored record that must not be guessed at. Owns the reasons; imports nothing that does IO.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{api::names, release::revision_of};

/// Most characters of [`Unreadable::message`]: what is to be done is said behind it, and a message may quote what it
/// found.
const MESSAGE_CHARACTERS: usize = 400;

/// What is wrong with a stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Not a Secret of the record's type.
    WrongType,
    /// Cut off, not base64, not decompressible, not a record's JSON.
    Damaged,
    /// Name, namespace or revision inside are not the Secret's own.
    ForeignName,
    /// Unpacks to more than a reader should hold in memory.
    TooLarge,
    /// One of several objects of a record, read without the others.
    Chunked,
    /// Sealed by a newer version of this operator.
    NewerFormat,
}

impl Fault {
    /// Stable PascalCase name, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongType => "WrongType",
            Self::Damaged => "Damaged",
            Self::ForeignName => "ForeignName",
            Self::TooLarge => "TooLarge",
            Self::Chunked => "Chunked",
            Self::NewerFormat => "NewerFormat",
        }
    }
}

/// A record that exists and cannot be used. Its release is stopped; nothing of it is touched.
///
/// `Display` is one sentence for a condition: which Secret and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// From the Secret's name, or else from its label.
    pub release: Option<String>,
    /// From the Secret's name only.
    pub revision: Option<u32>,
    pub reason: Fault,
    /// What is wrong, as the end of a sentence about the Secret.
    pub message: String,
}

impl Unreadable {
    pub(super) fn of(meta: &ObjectMeta, reason: Fault, message: String) -> Self {
        let name = meta.name.clone().unwrap_or_default();
        let key = revision_of(&name);
        let message = match message.char_indices().nth(MESSAGE_CHARACTERS) {
            Some((at, _)) => format!("{}…", &message[..at]),
            None => message,
        };
        let label = || meta.labels.as_ref().and_then(|labels| labels.get(names::RELEASE_NAME)).cloned();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            release: key.map(|(release, _)| release.to_owned()).or_else(label),
            revision: key.map(|(_, revision)| revision),
            name,
            reason,
            message,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}/{} cannot be read as a revision: {}", self.namespace, self.name, self.message)
    }
}
