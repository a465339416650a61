//! What is wrong with a release, in words for its author.

use super::{Class, reasons};

/// A release that cannot be acted on until its author changes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// `InvalidSpec`, `NotSupported` or `DependencyCycle`, or what the tenancy refuses.
    pub reason: &'static str,
    /// Path of the field, such as `spec.pack.oci`.
    pub field: String,
    /// What is wrong with it and what to do.
    pub message: String,
}

impl Invalid {
    pub(super) fn spec(field: &str, message: impl Into<String>) -> Self {
        Self { reason: reasons::INVALID_SPEC, field: field.to_owned(), message: message.into() }
    }

    /// Always the author of the release.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::FixSpec
    }

    /// The condition reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}
