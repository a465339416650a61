//! Where the pack of a release comes from: one trait, and one folder for each source.
//!
//! A source says which objects its release refers to, and looks the pack up. It decodes what it reads with
//! [`decoded`](crate::reconcile::context::packs::decoded), and keeps it in [`Packs`] by its place.
//! Invariant: outside of its own folder a source has one line here, in [`source()`].

mod artifact;
mod credentials;
mod fetched;
mod host;
mod http;
mod locked;
mod object;
mod oci;
mod path;
mod repository;
mod secret;
mod signers;
#[cfg(test)]
mod stand;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::api::sources::Signatures;
use crate::api::{PackFrom, Settings};
use crate::cluster::{Cluster, Contents, Reference, Unread};
use crate::pack::{Pack, lock};
use crate::reconcile::context::packs::Packs;
use crate::reconcile::inputs::referenced_objects;
use crate::reconcile::{Context, Error};
use crate::release::ReleaseKey;
use crate::source;
use crate::source::fetch::Fetcher;
use crate::watch::ReferenceWatch;

/// A source of packs, with all that a release says of it.
pub(in crate::reconcile) trait Source: Send + Sync {
    /// Its name: the label `kind` of the metric of fetches.
    fn kind(&self) -> &'static str;

    /// The objects of the release's own namespace that it names. They are watched: a change wakes the release.
    fn references(&self, namespace: &str) -> Vec<Reference>;

    /// Whether the [`Fetcher`] makes its fetches beside the passes. It then counts them, tries them again, and knows
    /// which releases use the source.
    fn uses_fetcher(&self) -> bool {
        false
    }

    /// The host that it is on, for what its pack depends on.
    fn host(&self) -> Option<Host<'_>> {
        None
    }

    /// The pack. What it refers to is watched already.
    ///
    /// # Errors
    /// Why there is none. After `Queued` and `Fetching` the release is woken to look again.
    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>>;
}

use host::Host;
pub(in crate::reconcile::inputs) use signers::reference as signers;

/// One line for each source.
pub(in crate::reconcile) fn source(from: &PackFrom) -> &dyn Source {
    match from {
        PackFrom::Object(source) => source,
        PackFrom::Http(source) => source,
        PackFrom::Oci(source) => source,
        PackFrom::Repository(source) => source,
        PackFrom::Artifact(source) => source,
        PackFrom::Path(source) => source,
    }
}

/// For which release a pack is looked up, and with what.
pub(in crate::reconcile) struct LookUp<'a> {
    pub key: &'a ReleaseKey,
    /// The cluster as the account that acts for the release.
    pub reader: &'a Cluster,
    pub fresh: &'a Freshness,
    pub packs: &'a Packs,
    pub references: &'a ReferenceWatch,
    pub fetcher: &'a Fetcher,
    pub pack_dir: Option<&'a Path>,
    /// Whose signature the pack needs.
    pub signatures: &'a Signatures,
}

impl LookUp<'_> {
    /// Reads an object that the release refers to; `None` when it does not exist.
    async fn read(&self, reference: &Reference) -> Result<Option<Contents>, Unread> {
        referenced_objects::read(self.references, self.reader, reference).await
    }
}

/// Why the object that `field` names gives no pack: it was not read.
fn unread(reference: Reference, field: &str, why: Unread) -> Error {
    match why {
        Unread { forbidden: true, message } => {
            Error::ReadForbidden { what: format!("the {reference} of {field}"), message }
        }
        Unread { message, .. } => Error::PackObject { reference, message },
    }
}

/// How new what is known of a source has to be.
pub(in crate::reconcile) struct Freshness {
    pub interval: Duration,
    /// The spec is another one than the status speaks of.
    pub changed: bool,
    /// The text of a request that is not acknowledged yet.
    pub request: Option<String>,
}

impl Freshness {
    fn max_age(&self) -> Duration {
        if self.request.is_some() { Duration::ZERO } else { self.interval }
    }
}

/// A pack that was looked up.
pub(in crate::reconcile) struct LookedUp {
    pub pack: Arc<Pack>,
    /// The source was read for it, so it counts as a fetch.
    pub fetched: bool,
}

impl Context {
    /// The pack of a release, whose references are watched already.
    pub(in crate::reconcile) async fn pack(
        &self,
        settings: &Settings,
        reader: &Cluster,
        key: &ReleaseKey,
        fresh: &Freshness,
    ) -> Result<Arc<Pack>, Error> {
        let Settings { pack: from, signatures, .. } = settings;
        let source = source(from);
        if !source.uses_fetcher() {
            self.fetcher.leave_source(key);
        }
        let Self { packs, references, fetcher, pack_dir, .. } = self;
        let pack_dir = pack_dir.as_deref();
        let using = LookUp { key, reader, fresh, packs, references, fetcher, pack_dir, signatures };
        let result = match (signatures, from) {
            // What Flux has verified needs no key of the release.
            (Signatures::Missing, from) if !matches!(from, PackFrom::Artifact(_)) => {
                self.fetcher.leave(key);
                Err(unsigned())
            }
            _ => source.look_up(&using).await,
        };
        if let Some(succeeded) = counts(source, &result) {
            self.report.fetched(source.kind(), succeeded);
        }
        let pack = result.map(|found| found.pack)?;
        if !pack.files.contains_key(lock::FILE) {
            // What an earlier pack needed is not fetched any more.
            self.fetcher.pin(key, HashSet::new());
        }
        Ok(pack)
    }
}

/// The operator wants a signature, and the release does not say whose.
fn unsigned() -> Error {
    let what =
        "spec.pack.verify is not set, and this operator takes only signed packs (--require-signatures)"
            .to_owned();
    let why = "sign the pack, and name the public key there".to_owned();
    source::Error::Unverified { what, why }.into()
}

/// Whether a look-up counts as a fetch that succeeded or failed; `None`: it made none, or the fetcher counts it.
fn counts(source: &dyn Source, result: &Result<LookedUp, Error>) -> Option<bool> {
    match result {
        _ if source.uses_fetcher() => None,
        Ok(LookedUp { fetched, .. }) => fetched.then_some(true),
        Err(Error::Queued { .. }) => None,
        Err(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::stand::{pack, pack_from};
    use super::*;
    use crate::pack::read_archive;

    #[test]
    fn each_source_has_its_name_and_watches_what_it_names() {
        let url = "https://example.com/web.tgz";
        for (spec, kind, watched, uses_fetcher) in [
            (json!({"configMap": {"name": "p"}}), "ConfigMap", &["ConfigMap apps/p"][..], false),
            (json!({"secret": {"name": "p", "key": "k"}}), "Secret", &["Secret apps/p"], false),
            (json!({"http": {"url": url}}), "http", &[], true),
            (json!({"http": {"url": url, "secretRef": {"name": "p"}}}), "http", &["Secret apps/p"], true),
            (
                json!({"oci": {"repository": "oci://r/web", "secretRef": {"name": "p"}}}),
                "oci",
                &["Secret apps/p"],
                true,
            ),
            (
                json!({"repository": {"url": "https://example.com", "name": "web", "secretRef": {"name": "p"}}}),
                "repository",
                &["Secret apps/p"],
                true,
            ),
            (
                json!({"artifact": {"kind": "OCIRepository", "name": "p", "namespace": "flux-system"}}),
                "artifact",
                &["OCIRepository flux-system/p"],
                true,
            ),
            (json!({"path": "web"}), "path", &[], false),
        ] {
            let from = pack_from(&spec);
            let source = source(&from);
            let references: Vec<String> = source.references("apps").iter().map(ToString::to_string).collect();
            assert_eq!(
                (source.kind(), &references[..], source.uses_fetcher()),
                (kind, &watched.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..], uses_fetcher),
                "{spec}"
            );
        }
    }

    #[test]
    fn a_look_up_counts_as_a_fetch_when_the_source_was_read_and_the_fetcher_does_not_count_it() {
        let found = |fetched| {
            let pack = Arc::new(read_archive(&pack("web"), &crate::pack::Limits::default()).unwrap());
            Ok(LookedUp { pack, fetched })
        };
        let since = Instant::now();
        let path = pack_from(&json!({"path": "web"}));
        for (result, counted) in [
            (found(true), Some(true)),
            (found(false), None),
            (Err(Error::Queued { since }), None),
            (Err(Error::PackAborted { message: String::new() }), Some(false)),
        ] {
            assert_eq!(counts(source(&path), &result), counted);
            let url = pack_from(&json!({"http": {"url": "https://example.com/web.tgz"}}));
            assert_eq!(counts(source(&url), &result), None, "the fetcher counts");
        }
    }

    #[test]
    fn a_request_makes_everything_that_is_known_too_old() {
        let fresh = Freshness { interval: Duration::from_mins(10), changed: true, request: None };
        assert_eq!(fresh.max_age(), Duration::from_mins(10));
        assert_eq!(Freshness { request: Some("now".to_owned()), ..fresh }.max_age(), Duration::ZERO);
    }
}
