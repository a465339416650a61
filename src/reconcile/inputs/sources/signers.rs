//! The keys of which one has to have signed a pack, from a Secret.

use std::sync::Arc;

use super::LookUp;
use crate::api::sources::Signatures;
use crate::api::{ReferenceKind, SignatureProvider};
use crate::cluster::{Reference, Unread};
use crate::reconcile::Error;
use crate::source;
use crate::source::signature::Keys;
use crate::watch::Seen;

const FIELD: &str = "spec.pack.verify.secretRef";

/// The Secret with the keys, if a release names one: it is in the release's own namespace.
pub(in crate::reconcile::inputs) fn reference(signatures: &Signatures, namespace: &str) -> Option<Reference> {
    match signatures {
        Signatures::By { secret, .. } => Some(Reference::new(ReferenceKind::Secret, namespace, secret)),
        Signatures::Unasked | Signatures::Missing => None,
    }
}

/// Whose signature the pack of a release needs.
pub(super) struct Signers<'a> {
    provider: SignatureProvider,
    reference: Reference,
    using: &'a LookUp<'a>,
}

impl<'a> Signers<'a> {
    /// `None`: signatures are not looked at.
    pub(super) fn of(using: &'a LookUp<'a>) -> Option<Self> {
        let Signatures::By { provider, .. } = using.signatures else { return None };
        let reference = reference(using.signatures, &using.key.namespace)?;
        Some(Self { provider: *provider, reference, using })
    }

    /// One text for the keys, if the watch of their Secret shows its version: what was signed by them needs no second look.
    pub(super) fn seen(&self) -> Option<String> {
        match self.using.references.seen(&self.reference) {
            Seen::At(version) => Some(self.text(version)),
            _ => None,
        }
    }

    /// The keys, and the text for them.
    pub(super) async fn read(&self) -> Result<(String, Arc<Keys>), Error> {
        let invalid = |why: String| {
            let what = format!("the {} of {FIELD}", self.reference);
            Error::from(source::Error::Unverified { what, why })
        };
        match self.using.read(&self.reference).await {
            Ok(Some(contents)) if contents.is_record => Err(invalid(source::HIDDEN.to_owned())),
            Ok(Some(contents)) => {
                let keys = Keys::read(self.provider, &contents.bytes).map_err(invalid)?;
                Ok((self.text(contents.version), Arc::new(keys)))
            }
            Ok(None) => {
                Err(invalid("it does not exist: create it with the public keys of the signers".to_owned()))
            }
            Err(Unread { forbidden: true, message }) => {
                Err(Error::ReadForbidden { what: format!("the {} of {FIELD}", self.reference), message })
            }
            Err(Unread { message, .. }) => {
                Err(Error::CredentialsUnreadable { reference: self.reference.clone(), field: FIELD, message })
            }
        }
    }

    /// What one account read is not another one's to use.
    fn text(&self, version: u64) -> String {
        let Self { provider, reference: Reference { namespace, name, .. }, using } = self;
        let account = using.reader.account().map(|account| format!(" as {account}")).unwrap_or_default();
        let provider = match provider {
            SignatureProvider::Cosign => "cosign",
            SignatureProvider::Minisign => "minisign",
        };
        format!("{provider} {namespace}/{name}@{version}{account}")
    }
}

/// The keys for a source that is read here, with the text for them. Without keys: signatures are not looked at, and the text is
/// empty.
pub(super) struct Signed {
    pub by: String,
    keys: Option<Arc<Keys>>,
}

impl Signed {
    /// As the watch of the Secret shows them; else they are read.
    pub(super) async fn of(using: &LookUp<'_>) -> Result<Self, Error> {
        let Some(signers) = Signers::of(using) else { return Ok(Self { by: String::new(), keys: None }) };
        if let Some(by) = signers.seen() {
            return Ok(Self { by, keys: None });
        }
        let (by, keys) = signers.read().await?;
        Ok(Self { by, keys: Some(keys) })
    }

    /// The same with its keys, which may be newer ones by now.
    pub(super) async fn with_keys(self, using: &LookUp<'_>) -> Result<(Self, Option<Arc<Keys>>), Error> {
        match (&self.keys, Signers::of(using)) {
            (None, Some(signers)) => {
                let (by, keys) = signers.read().await?;
                Ok((Self { by, keys: None }, Some(keys)))
            }
            (keys, _) => {
                let keys = keys.clone();
                Ok((self, keys))
            }
        }
    }
}
