//! Key pairs, and signatures as cosign and minisign write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING as P256, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sherpack_operator::api::SignatureProvider;
use sherpack_operator::source::cache::digest;
use sherpack_operator::source::signature::Keys;

use super::registry::{INDEX, MANIFEST, Registry, descriptor};

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const STATEMENT: &str = "application/vnd.in-toto+json";
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// What DER puts before a point of P-256.
const BEFORE: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";

fn keys(provider: SignatureProvider, public: String) -> Keys {
    Keys::read(provider, &[("signer.pub".to_owned(), ByteString(public.into_bytes()))].into()).unwrap()
}

/// A key of cosign.
pub struct Cosign(EcdsaKeyPair);

impl Default for Cosign {
    fn default() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&P256, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(&P256, pkcs8.as_ref(), &random).unwrap())
    }
}

impl Cosign {
    /// The public key.
    #[must_use]
    pub fn public(&self) -> String {
        let der = [BEFORE, self.0.public_key().as_ref()].concat();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
    }

    /// The public key, as it is read from a Secret.
    #[must_use]
    pub fn keys(&self) -> Keys {
        keys(SignatureProvider::Cosign, self.public())
    }

    fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(self.0.sign(&SystemRandom::new(), message).unwrap())
    }

    /// Signs a manifest as cosign does since version 3, in a registry without an API for referrers.
    pub async fn sign_bundle(&self, registry: &Registry, repository: &str, manifest: &str) {
        refer(registry, repository, manifest, &self.bundle(manifest)).await;
    }

    /// A bundle with the signature of a manifest.
    #[must_use]
    pub fn bundle(&self, manifest: &str) -> Vec<u8> {
        let hex = manifest.trim_start_matches("sha256:");
        let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": hex}}],
            "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {}});
        let statement = statement.to_string();
        let signed = format!("DSSEv1 {} {STATEMENT} {} {statement}", STATEMENT.len(), statement.len());
        let envelope = json!({"payload": STANDARD.encode(&statement), "payloadType": STATEMENT,
            "signatures": [{"sig": self.sign(signed.as_bytes())}]});
        let bundle = json!({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": ""}},
            "dsseEnvelope": envelope});
        bundle.to_string().into_bytes()
    }

    /// Signs a manifest as cosign did before version 3.
    pub async fn sign_payload(&self, registry: &Registry, repository: &str, manifest: &str) {
        let payload = json!({"critical": {"identity": {"docker-reference": ""},
            "image": {"docker-manifest-digest": manifest}, "type": "cosign container image signature"}});
        let payload = payload.to_string();
        for blob in [payload.as_bytes(), b"{}"] {
            registry.push_blob(repository, blob).await;
        }
        let mut layer: Value = descriptor(PAYLOAD, payload.as_bytes());
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": self.sign(payload.as_bytes())});
        let signatures = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", b"{}"), "layers": [layer]});
        let signatures = serde_json::to_vec(&signatures).unwrap();
        let tag = format!("{}.sig", manifest.replacen(':', "-", 1));
        registry.push_manifest(repository, &tag, MANIFEST, &signatures).await;
    }
}

/// Puts a bundle where cosign does.
pub async fn refer(registry: &Registry, repository: &str, manifest: &str, bundle: &[u8]) {
    refer_all(registry, repository, manifest, &[(bundle, json!({}))]).await;
}

/// Puts bundles where cosign does, each in a manifest with these annotations.
pub async fn refer_all(registry: &Registry, repository: &str, manifest: &str, bundles: &[(&[u8], Value)]) {
    let mut all = Vec::new();
    for (bundle, annotations) in bundles {
        for blob in [bundle, &b"{}"[..]] {
            registry.push_blob(repository, blob).await;
        }
        let referring = json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
            "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"), "layers": [descriptor(BUNDLE, bundle)],
            "subject": {"mediaType": MANIFEST, "digest": manifest, "size": 1}, "annotations": annotations});
        let referring = serde_json::to_vec(&referring).unwrap();
        registry.push_manifest(repository, &digest(&referring), MANIFEST, &referring).await;
        let mut described = descriptor(MANIFEST, &referring);
        described["artifactType"] = json!(BUNDLE);
        all.push(described);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": all});
    let index = serde_json::to_vec(&index).unwrap();
    registry.push_manifest(repository, &manifest.replacen(':', "-", 1), INDEX, &index).await;
}

/// A key of minisign.
pub struct Minisign(Ed25519KeyPair);

impl Default for Minisign {
    fn default() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }
}

impl Minisign {
    /// What tells it from others: here, how it begins.
    fn id(&self) -> &[u8] {
        &self.0.public_key().as_ref()[..8]
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> String {
        let key = [b"Ed", self.id(), self.0.public_key().as_ref()].concat();
        format!("untrusted comment: minisign public key\n{}\n", STANDARD.encode(key))
    }

    /// The public key, as it is read from a Secret.
    #[must_use]
    pub fn keys(&self) -> Keys {
        keys(SignatureProvider::Minisign, self.public())
    }

    /// The signature of an archive, as `minisign -S -l` writes it.
    #[must_use]
    pub fn sign(&self, archive: &[u8]) -> Vec<u8> {
        let (signature, comment) = (self.0.sign(archive), "web");
        let line = STANDARD.encode([b"Ed", self.id(), signature.as_ref()].concat());
        let of_all = self.0.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let of_all = STANDARD.encode(of_all);
        format!("untrusted comment: x\n{line}\ntrusted comment: {comment}\n{of_all}\n").into_bytes()
    }
}
