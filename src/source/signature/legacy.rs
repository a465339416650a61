//! Signatures of cosign before version 3: layers of a manifest under a tag, each a payload that names the signed digest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oci_spec::image::Descriptor;
use serde::Deserialize;

use super::MAX_SIGNATURES;
use super::keys::Keys;
use super::places::read_manifest;
use super::refused::Refused;
use crate::manifest::digest_of;

/// Bytes of a payload.
pub const MAX_PAYLOAD_BYTES: u64 = 64 << 10;
const MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// Keyless signing leaves it; so does a key with a certificate.
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
/// What cosign says that its payloads are. The same form has other uses, as in simple signing of containers.
const TYPE: &str = "cosign container image signature";

/// A signature, and where its payload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPayload {
    /// The digest of the payload.
    pub digest: String,
    pub size: u64,
    /// As the manifest has it: base64.
    signature: String,
    has_certificate: bool,
}

impl SignedPayload {
    fn from_layer(layer: &Descriptor) -> Option<Self> {
        let annotations = layer.annotations().as_ref()?;
        Some(Self {
            digest: layer.digest().to_string(),
            size: layer.size(),
            signature: annotations.get(SIGNATURE)?.clone(),
            has_certificate: annotations.get(CERTIFICATE).is_some_and(|text| !text.is_empty()),
        })
    }

    #[cfg(test)]
    pub(super) fn with_digest(&self, digest: &str) -> Self {
        Self { digest: digest.to_owned(), ..self.clone() }
    }

    #[cfg(test)]
    pub(super) fn with_size(&self, size: u64) -> Self {
        Self { size, ..self.clone() }
    }
}

/// The signatures in the manifest under [`legacy_tag`](super::legacy_tag) that are looked at: the last ones, for cosign adds at the
/// end. A payload that is too large is left out.
///
/// # Errors
/// Says what is wrong with the manifest; no payload is small enough.
pub fn in_legacy_manifest(manifest: &[u8]) -> Result<Vec<SignedPayload>, String> {
    let manifest = read_manifest(manifest)?;
    let layers = manifest.layers().iter().filter(|layer| layer.media_type().to_string() == MEDIA_TYPE);
    let (mut found, large): (Vec<_>, Vec<_>) =
        layers.filter_map(SignedPayload::from_layer).partition(|one| one.size <= MAX_PAYLOAD_BYTES);
    if found.is_empty() && !large.is_empty() {
        return Err(format!("the payload of a signature is larger than {MAX_PAYLOAD_BYTES} bytes"));
    }
    found.reverse();
    found.truncate(MAX_SIGNATURES);
    Ok(found)
}

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Checks that one of the keys has signed the payload, and that it names the digest of the manifest.
///
/// # Errors
/// See [`Refused`].
pub fn check_legacy(
    keys: &Keys,
    manifest_digest: &str,
    payload: &[u8],
    signed: &SignedPayload,
) -> Result<(), Refused> {
    if u64::try_from(payload.len()).is_ok_and(|length| length > MAX_PAYLOAD_BYTES) {
        return Err(Refused::damaged(format!("its payload is larger than {MAX_PAYLOAD_BYTES} bytes")));
    }
    if digest_of(payload) != signed.digest {
        return Err(Refused::damaged("its payload has another digest than its manifest says"));
    }
    let signature = STANDARD.decode(&signed.signature).map_err(|_| Refused::damaged("it is no base64"))?;
    if !keys.cosign().iter().any(|key| key.has_signed(payload, &signature)) {
        return Err(if signed.has_certificate { Refused::keyless() } else { Refused::OtherKey });
    }
    let Payload { critical } = serde_json::from_slice(payload)
        .map_err(|error| Refused::damaged(format!("its payload is not cosign's: {error}")))?;
    if critical.kind != TYPE {
        return Err(Refused::unsupported("its payload is of another type than cosign's"));
    }
    if critical.image.digest != manifest_digest {
        return Err(Refused::other_digest(&critical.image.digest, manifest_digest));
    }
    Ok(())
}

#[cfg(test)]
#[path = "legacy_tests.rs"]
mod tests;
