//! Credentials for a source, from a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;

use super::LookUp;
use crate::api::ReferenceKind;
use crate::cluster::{Reference, Unread};
use crate::reconcile::Error;
use crate::source;
use crate::source::fetch::{Location, SourceId};
use crate::source::http::Credentials;
use crate::watch::Seen;

/// What the data of a Secret says to one kind of source.
pub(super) type Read<'a> = &'a (dyn Fn(&BTreeMap<String, ByteString>) -> Result<Credentials, String> + Sync);

/// The Secret with credentials, if a release names one: it is in the release's own namespace.
pub(super) fn references(secret: Option<&str>, namespace: &str) -> Vec<Reference> {
    secret.map(|name| Reference::new(ReferenceKind::Secret, namespace, name)).into_iter().collect()
}

/// The source that a location is with the credentials of the Secret `name`, which `field` names, and these. Without a name: with
/// none.
pub(super) async fn identified(
    location: Location,
    name: Option<&str>,
    field: &str,
    read: Read<'_>,
    using: &LookUp<'_>,
) -> Result<(SourceId, Arc<Credentials>), Error> {
    let Some(name) = name else {
        return Ok((SourceId { location, scope: String::new() }, Arc::default()));
    };
    let namespace = &using.key.namespace;
    let reference = Reference::new(ReferenceKind::Secret, namespace, name);
    // What one account read is not another one's to use.
    let account = using.reader.account().map(|account| format!(" as {account}")).unwrap_or_default();
    let at = |version: u64| format!("{namespace}/{name}@{version}{account}");
    if let Seen::At(version) = using.references.seen(&reference) {
        let id = SourceId { location: location.clone(), scope: at(version) };
        if let Some(credentials) = using.fetcher.credentials(&id) {
            return Ok((id, credentials));
        }
    }
    match using.read(&reference).await {
        Ok(Some(contents)) if contents.is_record => {
            let message = source::HIDDEN.to_owned();
            Err(Error::CredentialsInvalid { reference, message })
        }
        Ok(Some(contents)) => match read(&contents.bytes) {
            Ok(credentials) => {
                let id = SourceId { location, scope: at(contents.version) };
                Ok((id, Arc::new(credentials)))
            }
            Err(message) => Err(Error::CredentialsInvalid { reference, message }),
        },
        Ok(None) => Err(Error::CredentialsNotFound { reference }),
        Err(Unread { forbidden: true, message }) => {
            let what = format!("the {reference} of {field}");
            Err(Error::ReadForbidden { what, message })
        }
        Err(Unread { message, .. }) => Err(Error::CredentialsUnreadable { reference, message }),
    }
}
