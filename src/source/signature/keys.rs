//! The public keys of a Secret.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use minisign_verify::PublicKey;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, UnparsedPublicKey,
    VerificationAlgorithm,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use super::MAX_SIGNATURES;
use crate::api::SignatureProvider;
use crate::manifest::hex;

/// Keys of a Secret with another ending are not looked at: it may hold passwords as well. Flux has the same ending.
const ENDING: &str = ".pub";
/// Bytes of one public key, with comments.
const MAX_KEY_BYTES: usize = 16 << 10;
const COMMENT: &str = "untrusted comment:";

/// The keys that may have signed, all for one provider. A signature of the other one is by none of them.
#[derive(Clone, Debug)]
pub struct Keys(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Cosign(Vec<CosignKey>),
    Minisign(Vec<PublicKey>),
}

impl Keys {
    /// Reads all keys of a Secret that end in `.pub`.
    ///
    /// # Errors
    /// Names the key of the Secret and never what stands under it.
    pub fn read(provider: SignatureProvider, data: &BTreeMap<String, ByteString>) -> Result<Self, String> {
        let public: Vec<_> = data.iter().filter(|(name, _)| name.ends_with(ENDING)).collect();
        if public.is_empty() {
            return Err(format!("it has no key that ends in `{ENDING}`: put the public key there"));
        }
        if public.len() > MAX_SIGNATURES {
            return Err(format!("it has more than {MAX_SIGNATURES} keys that end in `{ENDING}`"));
        }
        Ok(Self(match provider {
            SignatureProvider::Cosign => Kind::Cosign(each(&public, cosign_key)?),
            SignatureProvider::Minisign => Kind::Minisign(each(&public, minisign_key)?),
        }))
    }

    /// One text for the keys of a Secret, whatever else is in it.
    #[must_use]
    pub fn digest(provider: SignatureProvider, data: &BTreeMap<String, ByteString>) -> String {
        let mut all = Sha256::new();
        for (_, bytes) in data.iter().filter(|(name, _)| name.ends_with(ENDING)) {
            all.update(bytes.0.len().to_le_bytes());
            all.update(&bytes.0);
        }
        format!("{} {}", provider.as_str(), hex(&all.finalize()))
    }

    pub(super) fn cosign(&self) -> &[CosignKey] {
        match &self.0 {
            Kind::Cosign(keys) => keys,
            Kind::Minisign(_) => &[],
        }
    }

    pub(super) fn minisign(&self) -> &[PublicKey] {
        match &self.0 {
            Kind::Minisign(keys) => keys,
            Kind::Cosign(_) => &[],
        }
    }
}

fn each<K>(
    public: &[(&String, &ByteString)],
    read: fn(&str) -> Result<K, &'static str>,
) -> Result<Vec<K>, String> {
    let one = |&(name, bytes): &(&String, &ByteString)| {
        let text = match std::str::from_utf8(&bytes.0) {
            Ok(text) if text.len() <= MAX_KEY_BYTES => text,
            Ok(_) => return Err(format!("`{name}` is longer than {MAX_KEY_BYTES} bytes")),
            Err(_) => return Err(format!("`{name}` is no text")),
        };
        read(text).map_err(|why| format!("`{name}` {why}"))
    };
    public.iter().map(one).collect()
}

/// A public key of cosign.
#[derive(Clone, Debug)]
pub(super) struct CosignKey {
    curve: Curve,
    /// The point, without what tells its kind.
    point: Vec<u8>,
    /// As bundles name it: SHA-256 of all of it, in base64.
    hint: String,
}

/// No Ed25519: cosign 3 signs with Ed25519ph, and `cosign verify` refuses what it has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
}

/// The first byte of a point that is not compressed.
const UNCOMPRESSED: u8 = 4;

/// What DER puts before the point of each curve, and the length of the point. DER has one spelling, so that no parser is
/// needed.
const CURVES: [(Curve, &[u8], usize); 2] = [
    (
        Curve::P256,
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00",
        65,
    ),
    (
        Curve::P384,
        b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00",
        97,
    ),
];

impl CosignKey {
    fn from_der(der: &[u8]) -> Option<Self> {
        CURVES.iter().find_map(|&(curve, before, length)| {
            let point = der.strip_prefix(before).filter(|point| point.len() == length)?;
            let hint = STANDARD.encode(Sha256::digest(der));
            (point.first() == Some(&UNCOMPRESSED)).then(|| Self { curve, point: point.to_vec(), hint })
        })
    }

    /// Whether the key has made this signature of a message.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let by = |algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, &self.point).verify(message, signature).is_ok()
        };
        match self.curve {
            Curve::P256 => by(&ECDSA_P256_SHA256_ASN1),
            // Older versions of cosign hash with SHA-256, whatever the curve.
            Curve::P384 => by(&ECDSA_P384_SHA384_ASN1) || by(&ECDSA_P384_SHA256_ASN1),
        }
    }

    /// How a bundle names the key.
    pub(super) fn hint(&self) -> &str {
        &self.hint
    }
}

fn cosign_key(text: &str) -> Result<CosignKey, &'static str> {
    if text.contains("PRIVATE KEY-----") {
        return Err("is a private key: put the public key there, and hold the private one back");
    }
    let mut found = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes());
    match (found.next(), found.next()) {
        (Some(Ok(der)), None) => CosignKey::from_der(&der)
            .ok_or("is no key of a kind that is supported, which are ECDSA with P-256 (as cosign makes them) and P-384"),
        (Some(Ok(_)), Some(_)) => {
            Err("has more than one public key: give each a key of its own in the Secret")
        }
        (None, _) => Err("is no public key in PEM: it begins with -----BEGIN PUBLIC KEY-----"),
        (Some(Err(_)), _) => Err("is damaged PEM"),
    }
}

fn minisign_key(text: &str) -> Result<PublicKey, &'static str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next();
    let key = if first.is_some_and(|line| line.starts_with(COMMENT)) { lines.next() } else { first };
    match (key, lines.next()) {
        (Some(key), None) => PublicKey::from_base64(key).map_err(|_| "is no public key of minisign"),
        (Some(_), Some(_)) => Err("has lines after the public key of minisign"),
        (None, _) => Err("has no public key of minisign"),
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
