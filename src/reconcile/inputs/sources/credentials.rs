//! Credentials for a source, from a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;

use super::LookUp;
use super::signers::Signers;
use crate::api::ReferenceKind;
use crate::cluster::{Reference, Unread};
use crate::reconcile::Error;
use crate::source;
use crate::source::fetch::{Access, Location, SourceId};
use crate::source::http::Credentials;
use crate::watch::Seen;

/// What the data of a Secret says to one kind of source.
pub(super) type Read<'a> = &'a (dyn Fn(&BTreeMap<String, ByteString>) -> Result<Credentials, String> + Sync);

/// The Secret with credentials, if a release names one: it is in the release's own namespace.
pub(super) fn references(secret: Option<&str>, namespace: &str) -> Vec<Reference> {
    secret.map(|name| Reference::new(ReferenceKind::Secret, namespace, name)).into_iter().collect()
}

/// The source that a location is with the credentials of the Secret `name`, which `field` names, and with the keys of which one has
/// to have signed. Without a name: with no credentials.
pub(super) async fn identified(
    location: Location,
    name: Option<&str>,
    field: &'static str,
    read: Read<'_>,
    using: &LookUp<'_>,
) -> Result<(SourceId, Access), Error> {
    let named = name.map(|name| Named { name, field, using });
    let signers = Signers::of(using);
    let seen = |known: Option<String>, is_named: bool| if is_named { known } else { Some(String::new()) };
    let scope = seen(named.as_ref().and_then(Named::seen), named.is_some());
    let signed = seen(signers.as_ref().and_then(Signers::seen), signers.is_some());
    if let (Some(scope), Some(signed)) = (scope, signed) {
        let id = SourceId { location: location.clone(), scope, signed };
        if let Some(access) = using.fetcher.access(&id) {
            return Ok((id, access));
        }
    }
    let (scope, credentials) = match named {
        Some(named) => named.read(read).await?,
        None => Default::default(),
    };
    let (signed, keys) = match signers {
        Some(signers) => {
            let (signed, keys) = signers.read().await?;
            (signed, Some(keys))
        }
        None => Default::default(),
    };
    Ok((SourceId { location, scope, signed }, Access { credentials, keys }))
}

/// The Secret with credentials that a release names.
struct Named<'a> {
    name: &'a str,
    field: &'static str,
    using: &'a LookUp<'a>,
}

impl Named<'_> {
    fn reference(&self) -> Reference {
        Reference::new(ReferenceKind::Secret, &self.using.key.namespace, self.name)
    }

    /// One text for it, if its watch shows its version.
    fn seen(&self) -> Option<String> {
        match self.using.references.seen(&self.reference()) {
            Seen::At(version) => Some(self.text(version)),
            _ => None,
        }
    }

    /// What one account read is not another one's to use.
    fn text(&self, version: u64) -> String {
        let Self { name, using, .. } = self;
        let account = using.reader.account().map(|account| format!(" as {account}")).unwrap_or_default();
        format!("{}/{name}@{version}{account}", using.key.namespace)
    }

    async fn read(&self, read: Read<'_>) -> Result<(String, Arc<Credentials>), Error> {
        let (reference, field) = (self.reference(), self.field);
        match self.using.read(&reference).await {
            Ok(Some(contents)) if contents.is_record => {
                let message = source::HIDDEN.to_owned();
                Err(Error::CredentialsInvalid { reference, field, message })
            }
            Ok(Some(contents)) => match read(&contents.bytes) {
                Ok(credentials) => Ok((self.text(contents.version), Arc::new(credentials))),
                Err(message) => Err(Error::CredentialsInvalid { reference, field, message }),
            },
            Ok(None) => Err(Error::CredentialsNotFound { reference, field }),
            Err(Unread { forbidden: true, message }) => {
                let what = format!("the {reference} of {field}");
                Err(Error::ReadForbidden { what, message })
            }
            Err(Unread { message, .. }) => Err(Error::CredentialsUnreadable { reference, field, message }),
        }
    }
}
