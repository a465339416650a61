//! What a pack depends on and does not have below `charts/`: fetched by the digests of its `Pack.lock`, and never resolved.
//!
//! A pack that is signed signs its `Pack.lock`, and so what it depends on.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::credentials::identified;
use super::fetched::pack;
use super::host::{Host, Server};
use super::{Freshness, LookUp, source};
use crate::api::Settings;
use crate::api::sources::Signatures;
use crate::cluster::Cluster;
use crate::pack::lock::{self, Missing, Origin};
use crate::pack::render;
use crate::pack::subpacks::DEPTH;
use crate::pack::{self, Limits, Pack};
use crate::reconcile::{Context, Error};
use crate::release::ReleaseKey;
use crate::source::fetch::{Access, Ask, Location, Look, SourceId};
use crate::source::http::{Credentials, Url};
use crate::source::oci::{self, Artifact, Wanted};
use crate::source::repository::Listed;

impl Context {
    /// The pack with everything in it that these values of the user switch on. What it has below `charts/` is enough for most.
    ///
    /// # Errors
    /// `Pack.lock` is stale or damaged; what it names cannot be had. After `Fetching` and `Dependency` the release is woken.
    pub(in crate::reconcile) async fn completed(
        &self,
        (pack, user): (&Arc<Pack>, &Value),
        settings: &Settings,
        reader: &Cluster,
        key: &ReleaseKey,
    ) -> Result<Arc<Pack>, Error> {
        let Self { packs, references, fetcher, .. } = self;
        let fresh = &Freshness { interval: std::time::Duration::MAX, changed: false, request: None };
        let signatures = &Signatures::Unasked;
        let using = LookUp { key, reader, fresh, packs, references, fetcher, pack_dir: None, signatures };
        let host = source(&settings.pack).host();
        let mut whole = Arc::clone(pack);
        let mut pinned = HashSet::new();
        for _ in 0..=DEPTH {
            let missing = lock::missing(&whole, user).map_err(of_pack)?;
            if missing.is_empty() {
                // What was fetched stays known as long as the release needs it.
                fetcher.pin(key, pinned);
                return Ok(whole);
            }
            let mut sources = Vec::new();
            for one in &missing {
                let found = one.source(host.as_ref(), &using).await?;
                pinned.insert(found.0.clone());
                sources.push(found);
            }
            fetcher.pin(key, pinned.clone());
            begin(&missing, &sources, &using).await?;
            let mut more = (*whole).clone();
            for (one, (id, access)) in missing.iter().zip(&sources) {
                // One after the other: together they are no larger than one pack may be.
                let found = one.fetched(id, access, &using).await?;
                lock::vendor(&mut more, one, &found, &Limits::default()).map_err(of_pack)?;
            }
            whole = Arc::new(more);
        }
        Err(of_pack(pack::Error::TooDeep { limit: DEPTH }))
    }
}

fn of_pack(error: pack::Error) -> Error {
    render::Error::from(error).into()
}

/// Has all of them fetched. An error while one of them is not at hand.
async fn begin(missing: &[Missing], sources: &[(SourceId, Access)], using: &LookUp<'_>) -> Result<(), Error> {
    let mut wrong: Option<Error> = None;
    for (one, (id, access)) in missing.iter().zip(sources) {
        if let Err(error) = one.archive(id, access, using).await
            // What is wrong tells more than what is under way.
            && wrong.as_ref().is_none_or(|wrong| wrong.fetching_since().is_some())
        {
            wrong = Some(error);
        }
    }
    wrong.map_or(Ok(()), Err)
}

impl Missing {
    /// `host`: that of the pack itself.
    async fn source(&self, host: Option<&Host<'_>>, using: &LookUp<'_>) -> Result<(SourceId, Access), Error> {
        let invalid = |why: String| self.unusable(format!("Pack.lock: {why}"));
        match &self.origin {
            Origin::Local => Err(invalid("it has no repository".to_owned())),
            Origin::Oci(repository) => {
                let at = |plain| {
                    Artifact::parse(repository, Wanted::Digest(self.locked.digest.clone()), plain)
                        .map_err(invalid)
                };
                let of = at(false)?;
                let host = host.and_then(|host| match &host.server {
                    Server::Registry(registry, plain) if registry == of.registry() => Some((host, *plain)),
                    _ => None,
                });
                let artifact = at(host.is_some_and(|(_, plain)| plain))?;
                let read = |data: &_| oci::credentials(data, &artifact);
                let (secret, field) = host.map_or((None, ""), |(host, _)| (host.secret, host.field));
                identified(Location::Oci(artifact.clone()), secret, field, &read, using).await
            }
            Origin::Repository(url) => {
                let repository = Url::parse(url).map_err(invalid)?;
                let host = host.filter(|host| match &host.server {
                    Server::Web(url) => url.trusts(&repository),
                    Server::Registry(..) => false,
                });
                let (secret, field) = host.map_or((None, ""), |host| (host.secret, host.field));
                let range = Some(self.locked.exactly());
                let name = self.locked.name.clone();
                let listed = Listed { repository, name, range, pass_credentials: false };
                identified(Location::Repository(listed), secret, field, &Credentials::read, using).await
            }
        }
    }

    async fn fetched(&self, id: &SourceId, access: &Access, using: &LookUp<'_>) -> Result<Arc<Pack>, Error> {
        loop {
            let archive = self.archive(id, access, using).await?;
            if let Some(pack) = pack(id, &archive, None, using).await? {
                return Ok(pack);
            }
            using.fetcher.lost(id, &archive);
        }
    }

    /// The digest of its archive, which the fetcher has.
    async fn archive(&self, id: &SourceId, access: &Access, using: &LookUp<'_>) -> Result<String, Error> {
        // That of a manifest is part of the artifact's name.
        let digest = matches!(self.origin, Origin::Repository(_)).then_some(self.locked.digest.as_str());
        let interval = using.fresh.interval;
        let ask = Ask { release: using.key, digest, interval, changed: false, request: None };
        match using.fetcher.look_pinned(id, access, &ask).await {
            Look::At(archive) => Ok(archive),
            Look::Fetching { since } => Err(Error::Fetching { url: id.location.to_string(), since }),
            Look::Failed(source::Error::DigestMismatch { url, found, .. }) => {
                Err(of_pack(self.locked.changed(&url, &found)))
            }
            Look::Failed(error) => {
                let name = format!("{} {}", self.locked.name, self.locked.version);
                Err(Error::Dependency { name, error })
            }
        }
    }

    fn unusable(&self, message: String) -> Error {
        of_pack(pack::Error::DependencyInvalid { name: self.locked.name.clone(), message })
    }
}
