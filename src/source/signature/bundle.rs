//! Signatures of cosign since version 3: a Sigstore bundle, in a manifest that refers to the signed one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::keys::{CosignKey, Keys};
use super::refused::Refused;
use crate::manifest::{digest_of, hex};

/// Bytes of a bundle. It may hold an entry of a transparency log, which is not read.
pub const MAX_BUNDLE_BYTES: u64 = 256 << 10;
/// Bytes of what is signed in it.
const MAX_STATEMENT_BYTES: usize = 64 << 10;
/// Media type of a bundle, and type of the manifest that holds it.
pub(super) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const STATEMENT: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPES: [&str; 2] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];
/// What `cosign sign` states. Other statements by the same key are no signature: a scan that found flaws is one as well.
pub(super) const PREDICATE_TYPE: &str = "https://sigstore.dev/cosign/sign/v1";
const SHA256: &str = "SHA2_256";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    verification_material: Material,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    public_key: Option<PublicKey>,
    certificate: Option<Certificate>,
    x509_certificate_chain: Option<Certificate>,
}

#[derive(Deserialize)]
struct PublicKey {
    #[serde(default)]
    hint: String,
}

/// That there is one is all that counts.
#[derive(Deserialize)]
struct Certificate {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: Option<MessageDigest>,
    signature: String,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: String,
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    digest: Digests,
}

#[derive(Default, Deserialize)]
struct Digests {
    sha256: Option<String>,
}

/// Checks that one of the keys has made the signature in the bundle, and that it is for the manifest.
///
/// It wants the bytes of the manifest, because a bundle may sign these instead of a statement about their digest.
///
/// # Errors
/// See [`Refused`].
pub fn check_bundle(keys: &Keys, manifest: &[u8], bundle: &[u8]) -> Result<(), Refused> {
    if u64::try_from(bundle.len()).is_ok_and(|length| length > MAX_BUNDLE_BYTES) {
        return Err(Refused::damaged(format!("its bundle is larger than {MAX_BUNDLE_BYTES} bytes")));
    }
    let bundle: Bundle = serde_json::from_slice(bundle)
        .map_err(|error| Refused::damaged(format!("its bundle cannot be read: {error}")))?;
    if bundle.media_type != MEDIA_TYPE {
        return Err(Refused::unsupported(format!("its bundle has another media type than {MEDIA_TYPE}")));
    }
    let material = &bundle.verification_material;
    if material.certificate.is_some() || material.x509_certificate_chain.is_some() {
        return Err(Refused::keyless());
    }
    let hint = material.public_key.as_ref().map_or("", |key| &key.hint);
    let keys = Hinted { keys: keys.cosign(), hint };
    match (&bundle.dsse_envelope, &bundle.message_signature) {
        (Some(envelope), None) => check_envelope(&keys, &digest_of(manifest), envelope),
        (None, Some(signature)) => check_message(&keys, manifest, signature),
        (None, None) => Err(Refused::damaged("its bundle has no signature")),
        (Some(_), Some(_)) => Err(Refused::damaged("its bundle has signatures of two kinds")),
    }
}

/// The keys, and which one the bundle says to be made with. No key signs the hint: it only makes a message clearer.
struct Hinted<'k> {
    keys: &'k [CosignKey],
    hint: &'k str,
}

impl Hinted<'_> {
    fn check(&self, message: &[u8], signature: &str) -> Result<(), Refused> {
        let signature = decoded(signature, "its signature")?;
        if self.keys.iter().any(|key| key.has_signed(message, &signature)) {
            return Ok(());
        }
        if self.keys.iter().any(|key| key.hint() == self.hint) {
            return Err(Refused::changed());
        }
        Err(Refused::OtherKey)
    }
}

fn check_message(keys: &Hinted<'_>, manifest: &[u8], signature: &MessageSignature) -> Result<(), Refused> {
    let refused = match keys.check(manifest, &signature.signature) {
        Err(refused) if refused == Refused::changed() => refused,
        checked => return checked,
    };
    // It names a key that counts, and may name another content too.
    let (wanted, said) = (digest_of(manifest), signature.message_digest.as_ref());
    let said =
        said.filter(|said| said.algorithm == SHA256).and_then(|said| STANDARD.decode(&said.digest).ok());
    match said.map(|bytes| format!("sha256:{}", hex(&bytes))) {
        Some(signed) if signed != wanted => Err(Refused::other_digest(&signed, &wanted)),
        _ => Err(refused),
    }
}

fn check_envelope(keys: &Hinted<'_>, wanted: &str, envelope: &Envelope) -> Result<(), Refused> {
    let [signature] = envelope.signatures.as_slice() else {
        return Err(Refused::damaged("its bundle has not just one signature"));
    };
    if envelope.payload_type != STATEMENT {
        return Err(Refused::unsupported(format!("what is signed has another type than {STATEMENT}")));
    }
    let statement = decoded(&envelope.payload, "what is signed")?;
    if statement.len() > MAX_STATEMENT_BYTES {
        return Err(Refused::unsupported(format!(
            "what is signed is larger than {MAX_STATEMENT_BYTES} bytes"
        )));
    }
    keys.check(&pre_authentication(&envelope.payload_type, &statement), &signature.sig)?;
    let statement: Statement = serde_json::from_slice(&statement)
        .map_err(|error| Refused::damaged(format!("what is signed cannot be read: {error}")))?;
    check_statement(&statement, wanted)
}

fn check_statement(statement: &Statement, wanted: &str) -> Result<(), Refused> {
    if !STATEMENT_TYPES.contains(&statement.kind.as_str()) || statement.predicate_type != PREDICATE_TYPE {
        return Err(Refused::unsupported(
            "it is an attestation, which may say anything about the pack: sign it with `cosign sign`",
        ));
    }
    let mut signed = statement.subject.iter().filter_map(|subject| subject.digest.sha256.as_deref());
    let is_wanted = |hex: &str| wanted.strip_prefix("sha256:") == Some(hex);
    if signed.clone().any(is_wanted) {
        return Ok(());
    }
    let first = signed.next().unwrap_or_default();
    Err(Refused::other_digest(&format!("sha256:{first}"), wanted))
}

/// What DSSE signs: the type and the content, each with its length, so that none can be taken for the other.
fn pre_authentication(kind: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), content.len());
    [head.as_bytes(), content].concat()
}

fn decoded(text: &str, what: &str) -> Result<Vec<u8>, Refused> {
    STANDARD.decode(text).map_err(|_| Refused::damaged(format!("{what} is no base64")))
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
