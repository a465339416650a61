//! A Secret that a source is looked at with.

use super::LookUp;
use crate::api::ReferenceKind;
use crate::cluster::{Contents, Reference, Unread};
use crate::reconcile::Error;
use crate::watch::Seen;

/// A Secret of the release's own namespace that a field of its spec names.
pub(super) struct Named<'a> {
    pub reference: Reference,
    pub field: &'static str,
    using: &'a LookUp<'a>,
}

impl<'a> Named<'a> {
    pub(super) fn new(name: &str, field: &'static str, using: &'a LookUp<'a>) -> Self {
        let reference = Reference::new(ReferenceKind::Secret, &using.key.namespace, name);
        Self { reference, field, using }
    }

    /// One text for what it holds, if its watch shows its version.
    pub(super) fn seen(&self) -> Option<String> {
        match self.using.references.seen(&self.reference) {
            Seen::At(version) => Some(self.text(version)),
            _ => None,
        }
    }

    /// What it holds, and the text for that; `None` when it does not exist.
    pub(super) async fn read(&self) -> Result<Option<(String, Contents)>, Error> {
        let (reference, field) = (self.reference.clone(), self.field);
        match self.using.read(&reference).await {
            Ok(contents) => Ok(contents.map(|contents| (self.text(contents.version), contents))),
            Err(Unread { forbidden: true, message }) => {
                Err(Error::ReadForbidden { what: format!("the {reference} of {field}"), message })
            }
            Err(Unread { message, .. }) => Err(Error::CredentialsUnreadable { reference, field, message }),
        }
    }

    /// What one account read is not another one's to use.
    fn text(&self, version: u64) -> String {
        let Reference { namespace, name, .. } = &self.reference;
        let account = self.using.reader.account().map(|account| format!(" as {account}")).unwrap_or_default();
        format!("{namespace}/{name}@{version}{account}")
    }
}
