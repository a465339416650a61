//! Credentials for a URL, from a Secret.

use std::sync::Arc;

use crate::api::ReferenceKind;
use crate::cluster::{Reference, Unread};
use crate::reconcile::Error;
use crate::reconcile::inputs::sources::LookUp;
use crate::source;
use crate::source::http::{Credentials, SourceId, Url};
use crate::watch::Seen;

/// The source that a URL is with the credentials of the Secret `name`, and these.
pub(super) async fn credentials(
    url: Url,
    name: &str,
    using: &LookUp<'_>,
) -> Result<(SourceId, Arc<Credentials>), Error> {
    let namespace = &using.key.namespace;
    let reference = Reference::new(ReferenceKind::Secret, namespace, name);
    // What one account read is not another one's to use.
    let account = using.reader.account().map(|account| format!(" as {account}")).unwrap_or_default();
    let at = |version: u64| format!("{namespace}/{name}@{version}{account}");
    if let Seen::At(version) = using.references.seen(&reference) {
        let id = SourceId { url: url.clone(), scope: at(version) };
        if let Some(credentials) = using.fetcher.credentials(&id) {
            return Ok((id, credentials));
        }
    }
    match using.read(&reference).await {
        Ok(Some(contents)) if contents.is_record => {
            let message = source::HIDDEN.to_owned();
            Err(Error::CredentialsInvalid { reference, message })
        }
        Ok(Some(contents)) => match Credentials::read(&contents.bytes) {
            Ok(credentials) => {
                let id = SourceId { url, scope: at(contents.version) };
                Ok((id, Arc::new(credentials)))
            }
            Err(message) => Err(Error::CredentialsInvalid { reference, message }),
        },
        Ok(None) => Err(Error::CredentialsNotFound { reference }),
        Err(Unread { forbidden: true, message }) => {
            let what = format!("the {reference} of spec.pack.http.secretRef");
            Err(Error::ReadForbidden { what, message })
        }
        Err(Unread { message, .. }) => Err(Error::CredentialsUnreadable { reference, message }),
    }
}
