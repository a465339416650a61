//! Where cosign leaves signatures in a registry.

use oci_spec::image::{ANNOTATION_CREATED, Descriptor, ImageIndex, ImageManifest};

use super::bundle::{MAX_BUNDLE_BYTES, MEDIA_TYPE};
use super::{MAX_SIGNATURES, bundle};
use crate::source::blob::Blob;

/// Bytes of a manifest or an index with signatures.
pub const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// What a manifest that refers to another one says of the bundle in it.
const PREDICATE_TYPE: &str = "dev.sigstore.bundle.predicateType";

/// The tag under which cosign before version 3 puts the signatures of a manifest.
#[must_use]
pub fn legacy_tag(digest: &str) -> String {
    format!("{}.sig", referrers_tag(digest))
}

/// The tag with the index of referrers, in a registry that has no API for them.
#[must_use]
pub fn referrers_tag(digest: &str) -> String {
    digest.replacen(':', "-", 1)
}

/// The query that asks the API for referrers for bundles only. Not all registries heed it.
#[must_use]
pub fn of_bundles() -> String {
    format!("artifactType={}", MEDIA_TYPE.replace('/', "%2F").replace('+', "%2B"))
}

/// The manifests with a bundle, out of one page of the index of what refers to the signed manifest. Those that say to be another
/// attestation are left out.
///
/// # Errors
/// Says what is wrong with the index.
pub fn in_referrers(index: &[u8]) -> Result<Vec<Referrer>, String> {
    let bytes = bounded(index, "its index of referrers")?;
    let index: ImageIndex = serde_json::from_slice(bytes)
        .map_err(|error| format!("its index of referrers is damaged: {error}"))?;
    let is_bundle =
        |of: &&Descriptor| of.artifact_type().as_ref().is_some_and(|of| of.to_string() == MEDIA_TYPE);
    let found = index.manifests().iter().filter(is_bundle).filter(|of| may_sign(of));
    Ok(found.map(Referrer::from).collect())
}

/// A manifest with a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    pub blob: Blob,
    /// When it was made, as it says itself; empty when it does not.
    made: String,
}

impl From<&Descriptor> for Referrer {
    fn from(of: &Descriptor) -> Self {
        let annotations = of.annotations().as_ref();
        let made = annotations.and_then(|all| all.get(ANNOTATION_CREATED)).cloned().unwrap_or_default();
        Self { blob: of.into(), made }
    }
}

/// Those of all pages that are looked at: the newest. Their times are no more than a hint, for no key has signed them.
#[must_use]
pub fn newest(mut found: Vec<Referrer>) -> Vec<Blob> {
    // Times in UTC stand in the order of their texts.
    found.sort_by(|a, b| b.made.cmp(&a.made));
    found.into_iter().take(MAX_SIGNATURES).map(|referrer| referrer.blob).collect()
}

/// No key signs the annotation: it only spares requests.
fn may_sign(of: &Descriptor) -> bool {
    let said = of.annotations().as_ref().and_then(|all| all.get(PREDICATE_TYPE));
    said.is_none_or(|said| said == bundle::PREDICATE_TYPE)
}

/// The bundle in a manifest that refers to the signed one.
///
/// # Errors
/// Says what is wrong with the manifest.
pub fn in_bundle_manifest(manifest: &[u8]) -> Result<Blob, String> {
    let manifest = read_manifest(manifest)?;
    let mut bundles = manifest.layers().iter().filter(|layer| layer.media_type().to_string() == MEDIA_TYPE);
    match (bundles.next(), bundles.next()) {
        (Some(bundle), None) if bundle.size() <= MAX_BUNDLE_BYTES => Ok(bundle.into()),
        (Some(_), None) => Err(format!("a bundle with a signature is larger than {MAX_BUNDLE_BYTES} bytes")),
        (None, _) => Err(format!("a manifest with a signature has no layer of the media type {MEDIA_TYPE}")),
        (Some(_), Some(_)) => Err("a manifest with a signature has several bundles".to_owned()),
    }
}

pub(super) fn read_manifest(bytes: &[u8]) -> Result<ImageManifest, String> {
    let bytes = bounded(bytes, "a manifest with signatures")?;
    serde_json::from_slice(bytes).map_err(|error| format!("a manifest with signatures is damaged: {error}"))
}

fn bounded<'b>(bytes: &'b [u8], what: &str) -> Result<&'b [u8], String> {
    let small = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_MANIFEST_BYTES);
    if small { Ok(bytes) } else { Err(format!("{what} is larger than {MAX_MANIFEST_BYTES} bytes")) }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
