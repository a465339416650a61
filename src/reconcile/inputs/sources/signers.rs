//! The keys of which one has to have signed a pack, from a Secret.

use std::sync::Arc;

use super::LookUp;
use super::secret::Named;
use crate::api::sources::Signatures;
use crate::api::{ReferenceKind, SignatureProvider};
use crate::cluster::Reference;
use crate::reconcile::Error;
use crate::reconcile::context::packs::Packs;
use crate::source;
use crate::source::signature::Keys;

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
    named: Named<'a>,
    packs: &'a Packs,
}

impl<'a> Signers<'a> {
    /// `None`: signatures are not looked at.
    pub(super) fn of(using: &'a LookUp<'a>) -> Option<Self> {
        let Signatures::By { provider, secret } = using.signatures else { return None };
        Some(Self { provider: *provider, named: Named::new(secret, FIELD, using), packs: using.packs })
    }

    /// One text for the keys, if the watch of their Secret shows a version that was read before: what was signed by them needs no
    /// second look.
    pub(super) fn seen(&self) -> Option<String> {
        self.packs.signers(&self.version(&self.named.seen()?))
    }

    /// The keys, and the text for them.
    pub(super) async fn read(&self) -> Result<(String, Arc<Keys>), Error> {
        let invalid = |why: String| {
            let what = format!("the {} of {FIELD}", self.named.reference);
            Error::from(source::Error::Unverified { what, why })
        };
        match self.named.read().await? {
            Some((_, contents)) if contents.is_record => Err(invalid(source::HIDDEN.to_owned())),
            Some((text, contents)) => {
                let keys = Keys::read(self.provider, &contents.bytes).map_err(invalid)?;
                let by = Keys::digest(self.provider, &contents.bytes);
                self.packs.signers_are(self.version(&text), by.clone());
                Ok((by, Arc::new(keys)))
            }
            None => {
                Err(invalid("it does not exist: create it with the public keys of the signers".to_owned()))
            }
        }
    }

    /// The same Secret may be read for both providers.
    fn version(&self, secret: &str) -> String {
        format!("{} {secret}", self.provider.as_str())
    }
}

/// The keys for a source that is read here, with the text for them. Without keys: signatures are not looked at, and the text is
/// empty.
#[derive(Default)]
pub(super) struct Signed {
    pub by: String,
    pub keys: Option<Arc<Keys>>,
}

impl Signed {
    /// As the watch of the Secret shows them; else they are read.
    pub(super) async fn of(using: &LookUp<'_>) -> Result<Self, Error> {
        let Some(signers) = Signers::of(using) else { return Ok(Self::default()) };
        match signers.seen() {
            Some(by) => Ok(Self { by, keys: None }),
            None => Self::read(&signers).await,
        }
    }

    /// The same with its keys, which may be newer ones by now.
    pub(super) async fn with_keys(self, using: &LookUp<'_>) -> Result<Self, Error> {
        match Signers::of(using) {
            Some(signers) if self.keys.is_none() => Self::read(&signers).await,
            _ => Ok(self),
        }
    }

    async fn read(signers: &Signers<'_>) -> Result<Self, Error> {
        let (by, keys) = signers.read().await?;
        Ok(Self { by, keys: Some(keys) })
    }
}
