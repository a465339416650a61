/// Why a pack does not count as signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is nothing that could be checked.
    #[error("it has no signature: sign it with a key of the Secret that spec.pack.verify.secretRef names")]
    Unsigned,
    /// What is there cannot be checked with a public key.
    #[error("its signature is not supported: {why}")]
    Unsupported {
        /// What it is, and what to do.
        why: String,
    },
    /// Another key has signed it.
    #[error(
        "no signature of it is made by a key of the Secret that spec.pack.verify.secretRef names: add the signer's public key there, or sign the pack with one of these keys"
    )]
    OtherKey,
    /// A key that counts has signed something, and not this.
    #[error("its signature is for another content: it names {signed}, and the digest is {wanted}")]
    OtherDigest {
        /// What the signature is for.
        signed: String,
        /// The digest of the manifest.
        wanted: String,
    },
    /// It cannot be read, or it was changed after it was made.
    #[error("its signature is damaged: {why}")]
    Damaged {
        /// What is wrong with it.
        why: String,
    },
}

impl Refused {
    pub(super) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged { why: why.into() }
    }

    pub(super) fn unsupported(why: impl Into<String>) -> Self {
        Self::Unsupported { why: why.into() }
    }

    /// A certificate tells who has signed, and no key.
    pub(super) fn keyless() -> Self {
        Self::unsupported(
            "it is made with a certificate (keyless): sign the pack with a key, as in `cosign sign --key cosign.key`",
        )
    }

    /// Of a signature that names a key that counts.
    pub(super) fn changed() -> Self {
        Self::damaged(
            "it names a key of the Secret, and it or the signed content was changed after the signing",
        )
    }

    /// What others wrote is only shown if it is a digest.
    pub(super) fn other_digest(signed: &str, wanted: &str) -> Self {
        let hex = signed.strip_prefix("sha256:").unwrap_or_default();
        let is_digest = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let signed = if is_digest { signed } else { "no SHA-256 digest" };
        Self::OtherDigest { signed: signed.to_owned(), wanted: wanted.to_owned() }
    }

    /// How much it says. A signature by a key that counts says more than those of strangers.
    fn weight(&self) -> u8 {
        match self {
            Self::OtherDigest { .. } => 4,
            Self::Damaged { .. } => 3,
            Self::OtherKey => 2,
            Self::Unsupported { .. } => 1,
            Self::Unsigned => 0,
        }
    }
}

/// One verdict out of those about each signature of a pack: one good signature is enough.
///
/// # Errors
/// The refusal that says most; [`Refused::Unsigned`] if there is no signature.
pub fn verdict(each: impl IntoIterator<Item = Result<(), Refused>>) -> Result<(), Refused> {
    let mut worst = Refused::Unsigned;
    for one in each {
        match one {
            Ok(()) => return Ok(()),
            Err(refused) if refused.weight() > worst.weight() => worst = refused,
            Err(_) => {}
        }
    }
    Err(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_good_signature_is_enough_and_else_the_refusal_that_says_most_is_told() {
        let other = Refused::OtherDigest { signed: "sha256:a".to_owned(), wanted: "sha256:b".to_owned() };
        let keyless = Refused::unsupported("a certificate");
        let (damaged, stranger) = (Refused::damaged("no JSON"), Refused::OtherKey);
        let (keyless, other, damaged, stranger) = (&keyless, &other, &damaged, &stranger);
        for (each, told) in [
            (&[] as &[Option<&Refused>], Some(&Refused::Unsigned)),
            (&[Some(keyless)], Some(keyless)),
            (&[Some(keyless), Some(stranger)], Some(stranger)),
            (&[Some(stranger), Some(keyless)], Some(stranger)),
            (&[Some(damaged), Some(stranger)], Some(damaged)),
            (&[Some(damaged), Some(other)], Some(other)),
            (&[Some(other), None, Some(damaged)], None),
        ] {
            let each = each.iter().map(|one| one.cloned().map_or(Ok(()), Err));
            assert_eq!(verdict(each).err().as_ref(), told);
        }
    }
}
