//! What the [`Fetcher`](crate::source::fetch::Fetcher) knows of a source, decoded.

use std::sync::Arc;
use std::time::Duration;

use super::credentials::{Read, identified};
use super::{LookUp, LookedUp};
use crate::pack::{Limits, Pack, read_archive, read_archive_below};
use crate::reconcile::Error;
use crate::reconcile::context::packs::{Place, decoded};
use crate::source;
use crate::source::fetch::{Ask, Location, Look, SourceId};

/// What a release says of a source that is fetched.
pub(super) struct Fetched<'a> {
    pub location: Result<Location, source::Error>,
    /// The digest that the archive must have.
    pub digest: Option<&'a str>,
    /// The directory of the pack in the archive.
    pub below: Option<&'a str>,
    /// What is there cannot change.
    pub fixed: bool,
    /// Name of the Secret with credentials, the field that names it, and how it is read.
    pub secret: Option<&'a str>,
    pub field: &'static str,
    pub read: Read<'a>,
}

/// The pack, if it is known by now. Nothing is waited for: the release is woken.
pub(super) async fn look_up(from: Fetched<'_>, using: &LookUp<'_>) -> Result<LookedUp, Error> {
    let Fetched { location, digest, below, fixed, secret, field, read } = from;
    let identified = match location {
        Ok(location) => identified(location, secret, field, read, using).await,
        Err(error) => Err(error.into()),
    };
    let (id, access) = match identified {
        Ok(found) => found,
        Err(error) => {
            // What location and credentials were is not to be used any more.
            using.fetcher.leave(using.key);
            return Err(error);
        }
    };
    let ask = Ask {
        release: using.key,
        digest,
        interval: if fixed { Duration::MAX } else { using.fresh.interval },
        changed: using.fresh.changed,
        request: using.fresh.request.as_deref(),
    };
    loop {
        let archive = match using.fetcher.look(&id, &access, &ask).await {
            Look::At(archive) => archive,
            Look::Fetching { since } => return Err(Error::Fetching { url: id.location.to_string(), since }),
            Look::Failed(error) => return Err(Error::Fetch(error)),
        };
        if let Some(pack) = pack(&id, &archive, below, using).await? {
            return Ok(LookedUp { pack, fetched: false });
        }
        // It was evicted or damaged. The source does not have it any more, so this ends.
        using.fetcher.lost(&id, &archive);
    }
}

/// The pack in an archive that the fetcher has; `None`: it has it no more.
pub(super) async fn pack(
    id: &SourceId,
    archive: &str,
    below: Option<&str>,
    using: &LookUp<'_>,
) -> Result<Option<Arc<Pack>>, Error> {
    let below = below.map(str::to_owned);
    let place = Place::Archive(archive.to_owned(), below.clone());
    if let Some(pack) = using.packs.get(&place, |_| true) {
        return Ok(Some(pack));
    }
    let (cache, wanted) = (using.fetcher.cache(), archive.to_owned());
    let decode = move || {
        let (bytes, limits) = (cache.get(&wanted)?, Limits::default());
        Some(match below {
            Some(directory) => read_archive_below(&bytes, &directory, &limits),
            None => read_archive(&bytes, &limits),
        })
    };
    match decoded(using.packs.turn(using.key).await?, decode).await? {
        Some(Ok(pack)) => Ok(Some(using.packs.put(place, 0, pack))),
        Some(Err(error)) => {
            using.fetcher.rejected(id, using.key, archive);
            Err(Error::Fetch(source::Error::Pack { what: id.location.to_string(), error }))
        }
        None => Ok(None),
    }
}
