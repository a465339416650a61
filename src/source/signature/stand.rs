//! Key pairs for tests, and what they sign.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    KeyPair as _,
};

use super::keys::Keys;
use crate::api::SignatureProvider;

pub(super) struct Pair(EcdsaKeyPair, &'static [u8]);

/// As `openssl asn1parse` shows it: what stands before the point.
const P256: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const P384: &[u8] =
    b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00";

impl Pair {
    pub(super) fn p256() -> Self {
        Self::new(&ECDSA_P256_SHA256_ASN1_SIGNING, P256)
    }

    pub(super) fn p384() -> Self {
        Self::new(&ECDSA_P384_SHA384_ASN1_SIGNING, P384)
    }

    fn new(algorithm: &'static EcdsaSigningAlgorithm, before: &'static [u8]) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap(), before)
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
    }

    pub(super) fn der(&self) -> Vec<u8> {
        [self.1, self.0.public_key().as_ref()].concat()
    }

    pub(super) fn pem(&self) -> String {
        pem(&self.der())
    }

    /// The keys of a Secret with this one.
    pub(super) fn keys(&self) -> Keys {
        Keys::read(SignatureProvider::Cosign, &secret(&[("cosign.pub", &self.pem())])).unwrap()
    }
}

pub(super) fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

pub(super) fn secret(data: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    let own = |(name, text): &(&str, &str)| ((*name).to_owned(), ByteString(text.as_bytes().to_vec()));
    data.iter().map(own).collect()
}

/// The bytes with one of them changed, and where.
pub(super) fn changed(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..bytes.len()).flat_map(move |at| {
        [1, 0x20].map(|bits| {
            let mut changed = bytes.to_vec();
            changed[at] ^= bits;
            (at, changed)
        })
    })
}
