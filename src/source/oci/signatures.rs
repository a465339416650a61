//! The signatures that cosign has left in a registry for a manifest.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use super::pull::{Pull, next_page, same};
use crate::source::Error;
use crate::source::blob::Blob;
use crate::source::http::Url;
use crate::source::signature::{
    Keys, MAX_BUNDLE_BYTES, MAX_MANIFEST_BYTES, MAX_PAYLOAD_BYTES, Refused, check_bundle, check_legacy,
    in_bundle_manifest, in_legacy_manifest, in_referrers, legacy_tag, newest, of_bundles, referrers_tag,
    verdict,
};

/// The media types of manifests with signatures, and of indexes of them.
const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json";

/// What the answers are called that name signatures.
const LIST: &str = "list of signatures";
/// Pages of an index of referrers that are looked at.
const PAGES: usize = 8;

type Verdict = Result<(), Refused>;

impl Pull<'_> {
    /// Whether one of the keys has signed the manifest. Both forms of cosign are looked for, the newer one first.
    pub(super) async fn signed(
        &mut self,
        keys: &Arc<Keys>,
        digest: &str,
        manifest: &[u8],
    ) -> Result<(), Error> {
        let mut each = self.bundles(keys, digest, manifest).await?;
        if !each.iter().any(Verdict::is_ok) {
            each.extend(self.payloads(keys, digest).await?);
        }
        verdict(each).map_err(|why| Error::Signature { what: self.artifact.to_string(), why })
    }

    /// Verdicts about the bundles that refer to the manifest, up to the first good one.
    async fn bundles(
        &mut self,
        keys: &Arc<Keys>,
        digest: &str,
        manifest: &[u8],
    ) -> Result<Vec<Verdict>, Error> {
        let referring = match self.referrers(digest).await? {
            Ok(referring) => referring,
            Err(why) => return Ok(vec![Err(Refused::Damaged { why })]),
        };
        let manifest: Arc<[u8]> = manifest.into();
        let mut each = Vec::new();
        for of in referring {
            let bundle = self.bundle(&of).await?;
            let (keys, manifest) = (Arc::clone(keys), Arc::clone(&manifest));
            each.push(self.judged(bundle, move |bundle| check_bundle(&keys, &manifest, bundle)).await?);
            if each.last().is_some_and(Verdict::is_ok) {
                break;
            }
        }
        Ok(each)
    }

    /// The manifests that may hold a signature of this one, of all pages that the registry has. The error inside says that the
    /// list is damaged.
    async fn referrers(&mut self, digest: &str) -> Result<Result<Vec<Blob>, String>, Error> {
        let mut url = self.url(&format!("referrers/{digest}?{}", of_bundles()))?;
        let mut found = Vec::new();
        for page in 0..PAGES {
            let reply = self.ask(Method::GET, &url, ACCEPTED, LIST, MAX_MANIFEST_BYTES).await?;
            if page == 0 && is_missing_api(reply.status, &reply.headers) {
                url = self.url(&format!("manifests/{}", referrers_tag(digest)))?;
                let tagged = self.optional(&url).await?;
                return Ok(tagged.map_or(Ok(Vec::new()), |index| in_referrers(&index).map(newest)));
            }
            let reply = self.checked(reply)?;
            match in_referrers(&reply.bytes) {
                Ok(more) => found.extend(more),
                Err(why) => return Ok(Err(why)),
            }
            match next_page(&url, &reply.headers)? {
                Some(next) => url = next,
                None => break,
            }
        }
        Ok(Ok(newest(found)))
    }

    async fn bundle(&mut self, of: &Blob) -> Result<Result<Vec<u8>, Refused>, Error> {
        let path = format!("manifests/{}", of.digest);
        let referring = match self.content(&path, &of.digest, MAX_MANIFEST_BYTES).await? {
            Ok(referring) => referring,
            Err(why) => return Ok(Err(why)),
        };
        let blob = match in_bundle_manifest(&referring) {
            Ok(blob) => blob,
            Err(why) => return Ok(Err(Refused::Damaged { why })),
        };
        self.content(&format!("blobs/{}", blob.digest), &blob.digest, MAX_BUNDLE_BYTES).await
    }

    /// Verdicts about the signatures of the older form, up to the first good one.
    async fn payloads(&mut self, keys: &Arc<Keys>, digest: &str) -> Result<Vec<Verdict>, Error> {
        let url = self.url(&format!("manifests/{}", legacy_tag(digest)))?;
        let Some(manifest) = self.optional(&url).await? else { return Ok(Vec::new()) };
        let signatures = match in_legacy_manifest(&manifest) {
            Ok(signatures) => signatures,
            Err(why) => return Ok(vec![Err(Refused::Damaged { why })]),
        };
        let mut each = Vec::new();
        for signature in signatures {
            let path = format!("blobs/{}", signature.digest);
            let payload = self.content(&path, &signature.digest, MAX_PAYLOAD_BYTES).await?;
            let (keys, digest) = (Arc::clone(keys), digest.to_owned());
            let check = move |payload: &[u8]| check_legacy(&keys, &digest, payload, &signature);
            each.push(self.judged(payload, check).await?);
            if each.last().is_some_and(Verdict::is_ok) {
                break;
            }
        }
        Ok(each)
    }

    /// The verdict about a content, if it was to be had. It is checked with each key of the Secret, which takes milliseconds.
    async fn judged(
        &self,
        content: Result<Vec<u8>, Refused>,
        check: impl FnOnce(&[u8]) -> Verdict + Send + 'static,
    ) -> Result<Verdict, Error> {
        let checked = tokio::task::spawn_blocking(move || check(&content?)).await;
        checked.map_err(|error| Error::Io { what: self.artifact.to_string(), message: error.to_string() })
    }

    /// What is there; `None`: nothing is, says the registry.
    async fn optional(&mut self, url: &Url) -> Result<Option<Vec<u8>>, Error> {
        let reply = self.ask(Method::GET, url, ACCEPTED, LIST, MAX_MANIFEST_BYTES).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Ok(Some(self.checked(reply)?.bytes))
    }

    /// What has this digest. One signature that cannot be had does not keep the others from being looked at: the refusal says so.
    async fn content(
        &mut self,
        path: &str,
        digest: &str,
        limit: u64,
    ) -> Result<Result<Vec<u8>, Refused>, Error> {
        let url = self.url(path)?;
        let accept = if path.starts_with("manifests/") { ACCEPTED } else { "*/*" };
        let asked = self.ask(Method::GET, &url, accept, "signature", limit).await;
        let checked = asked.and_then(|reply| {
            let reply = self.checked(reply)?;
            same(&url, digest, &reply.bytes)?;
            Ok(reply.bytes)
        });
        match checked {
            Ok(bytes) => Ok(Ok(bytes)),
            Err(error @ (Error::NotFound { .. } | Error::Corrupt { .. } | Error::Pack { .. })) => {
                Ok(Err(Refused::Damaged { why: error.to_string() }))
            }
            Err(error) => Err(error),
        }
    }
}

/// Without the API for referrers the index is under a tag. Registries of before say in several ways that they have none, also by
/// refusing access: the manifest itself they have given just before.
fn is_missing_api(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_index = headers.get("content-type").is_some_and(|of| {
        of.to_str().is_ok_and(|of| of.starts_with("application/vnd.oci.image.index.v1+json"))
    });
    match status {
        StatusCode::OK => !is_index,
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::NOT_IMPLEMENTED => true,
        _ => false,
    }
}
