//! Credentials for a source, from a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;

use super::LookUp;
use super::secret::Named;
use super::signers::Signers;
use crate::api::ReferenceKind;
use crate::cluster::Reference;
use crate::reconcile::Error;
use crate::source;
use crate::source::fetch::{Access, Location, SourceId};
use crate::source::http::Credentials;

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
    let named = name.map(|name| Named::new(name, field, using));
    let signers = Signers::of(using);
    let nothing = || Some(String::new());
    let scope = named.as_ref().map_or_else(nothing, Named::seen);
    let signed = signers.as_ref().map_or_else(nothing, Signers::seen);
    if let (Some(scope), Some(signed)) = (scope, signed) {
        let id = SourceId { location: location.clone(), scope, signed };
        if let Some(access) = using.fetcher.access(&id) {
            return Ok((id, access));
        }
    }
    let (scope, credentials) = match named {
        Some(named) => of_secret(&named, read).await?,
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

/// The credentials in a Secret, and one text for them.
async fn of_secret(named: &Named<'_>, read: Read<'_>) -> Result<(String, Arc<Credentials>), Error> {
    let (reference, field) = (named.reference.clone(), named.field);
    let invalid =
        |message: String| Error::CredentialsInvalid { reference: reference.clone(), field, message };
    match named.read().await? {
        Some((_, contents)) if contents.is_record => Err(invalid(source::HIDDEN.to_owned())),
        Some((text, contents)) => Ok((text, Arc::new(read(&contents.bytes).map_err(invalid)?))),
        None => Err(Error::CredentialsNotFound { reference, field }),
    }
}
