//! The signatures that cosign has left in a registry for a manifest.

use http::{HeaderMap, Method, StatusCode};

use super::pull::{Pull, same};
use crate::source::Error;
use crate::source::blob::Blob;
use crate::source::signature::{
    Keys, MAX_BUNDLE_BYTES, MAX_MANIFEST_BYTES, MAX_PAYLOAD_BYTES, Refused, check_bundle, check_legacy,
    in_bundle_manifest, in_legacy_manifest, in_referrers, legacy_tag, of_bundles, referrers_tag, verdict,
};

/// The media types of manifests with signatures, and of indexes of them.
const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json";

type Verdict = Result<(), Refused>;

impl Pull<'_> {
    /// Whether one of the keys has signed the manifest. Both forms of cosign are looked for, the newer one first.
    pub(super) async fn signed(&mut self, keys: &Keys, digest: &str, manifest: &[u8]) -> Result<(), Error> {
        let mut each = self.bundles(keys, digest, manifest).await?;
        if !each.iter().any(Verdict::is_ok) {
            each.extend(self.payloads(keys, digest).await?);
        }
        verdict(each).map_err(|why| Error::Signature { what: self.artifact.to_string(), why })
    }

    /// Verdicts about the bundles that refer to the manifest, up to the first good one.
    async fn bundles(&mut self, keys: &Keys, digest: &str, manifest: &[u8]) -> Result<Vec<Verdict>, Error> {
        let mut index =
            self.optional(&format!("referrers/{digest}?{}", of_bundles()), is_missing_api).await?;
        if index.is_none() {
            index = self.optional(&format!("manifests/{}", referrers_tag(digest)), is_missing).await?;
        }
        let Some(index) = index else { return Ok(Vec::new()) };
        let referring = match in_referrers(&index) {
            Ok(referring) => referring,
            Err(why) => return Ok(vec![Err(Refused::Damaged { why })]),
        };
        let mut each = Vec::new();
        for of in referring {
            each.push(self.bundle(&of, keys, manifest).await?);
            if each.last().is_some_and(Verdict::is_ok) {
                break;
            }
        }
        Ok(each)
    }

    async fn bundle(&mut self, of: &Blob, keys: &Keys, manifest: &[u8]) -> Result<Verdict, Error> {
        let path = format!("manifests/{}", of.digest);
        let referring = self.content(&path, &of.digest, MAX_MANIFEST_BYTES).await?;
        let blob = match in_bundle_manifest(&referring) {
            Ok(blob) => blob,
            Err(why) => return Ok(Err(Refused::Damaged { why })),
        };
        let path = format!("blobs/{}", blob.digest);
        let bundle = self.content(&path, &blob.digest, MAX_BUNDLE_BYTES).await?;
        Ok(check_bundle(keys, manifest, &bundle))
    }

    /// Verdicts about the signatures of the older form, up to the first good one.
    async fn payloads(&mut self, keys: &Keys, digest: &str) -> Result<Vec<Verdict>, Error> {
        let tag = format!("manifests/{}", legacy_tag(digest));
        let Some(manifest) = self.optional(&tag, is_missing).await? else { return Ok(Vec::new()) };
        let signatures = match in_legacy_manifest(&manifest) {
            Ok(signatures) => signatures,
            Err(why) => return Ok(vec![Err(Refused::Damaged { why })]),
        };
        let mut each = Vec::new();
        for signature in signatures {
            let path = format!("blobs/{}", signature.digest);
            let payload = self.content(&path, &signature.digest, MAX_PAYLOAD_BYTES).await?;
            each.push(check_legacy(keys, digest, &payload, &signature));
            if each.last().is_some_and(Verdict::is_ok) {
                break;
            }
        }
        Ok(each)
    }

    /// What is at a path of the repository; `None`: nothing is, says the registry.
    async fn optional(
        &mut self,
        path: &str,
        is_missing: fn(StatusCode, &HeaderMap) -> bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let url = self.url(path)?;
        let reply = self.ask(Method::GET, &url, ACCEPTED, "list of signatures", MAX_MANIFEST_BYTES).await?;
        if is_missing(reply.status, &reply.headers) {
            return Ok(None);
        }
        Ok(Some(self.checked(reply)?.bytes))
    }

    /// What has this digest.
    async fn content(&mut self, path: &str, digest: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let url = self.url(path)?;
        let accept = if path.starts_with("manifests/") { ACCEPTED } else { "*/*" };
        let reply = self.ask(Method::GET, &url, accept, "signature", limit).await?;
        let reply = self.checked(reply)?;
        same(&url, digest, &reply.bytes)?;
        Ok(reply.bytes)
    }
}

fn is_missing(status: StatusCode, _: &HeaderMap) -> bool {
    status == StatusCode::NOT_FOUND
}

/// Without the API for referrers the index is under a tag. Registries of before say in several ways that they have none.
fn is_missing_api(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_index = headers.get("content-type").is_some_and(|of| {
        of.to_str().is_ok_and(|of| of.starts_with("application/vnd.oci.image.index.v1+json"))
    });
    match status {
        StatusCode::OK => !is_index,
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::NOT_IMPLEMENTED => true,
        _ => false,
    }
}
