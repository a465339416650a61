//! Packs that a pack depends on, by the digests of its `Pack.lock`.

use serde_json::Value;

use super::Reach;
use super::fetch::{listed, pulled};
use super::unread::Unread;
use crate::cli::output::answer::Failure;
use crate::pack::lock::{self, Locked, Missing, Origin};
use crate::pack::subpacks::DEPTH;
use crate::pack::{self, Limits, Pack, read_archive};
use crate::source::cache::digest;
use crate::source::http::Url;
use crate::source::oci::{Artifact, Wanted};
use crate::source::repository::Listed;

/// The pack with everything in it that these values switch on, as the operator would have it.
pub(super) fn completed(mut pack: Pack, what: &str, user: &Value, reach: &Reach) -> Result<Pack, Unread> {
    let no_pack = |error| Unread::NoPack(what.to_owned(), error);
    for _ in 0..=DEPTH {
        let missing = lock::missing(&pack, user).map_err(no_pack)?;
        if missing.is_empty() {
            return Ok(pack);
        }
        for one in &missing {
            let Missing { locked, origin, .. } = one;
            let bytes = locked_archive(locked, origin, reach).map_err(Unread::Failed)?;
            let found = read_archive(&bytes, &Limits::default()).map_err(no_pack)?;
            lock::vendor(&mut pack, one, &found, &Limits::default()).map_err(no_pack)?;
        }
    }
    Err(no_pack(pack::Error::TooDeep { limit: DEPTH }))
}

/// The archive that a lock names.
pub(in crate::cli::packs) fn locked_archive(
    locked: &Locked,
    origin: &Origin,
    reach: &Reach,
) -> Result<Vec<u8>, Failure> {
    let wanted = match origin {
        Origin::Oci(_) => Wanted::Digest(locked.digest.clone()),
        Origin::Repository(_) | Origin::Local => Wanted::Range(locked.exactly()),
    };
    let (bytes, found) = archive(&locked.name, origin, wanted, reach)?;
    if found != locked.digest {
        return Err(Failure::finding(locked.changed("the repository", &found).to_string()));
    }
    Ok(bytes)
}

/// An archive, and the digest that a lock has of it. Blocks on the network.
pub(in crate::cli::packs) fn archive(
    name: &str,
    origin: &Origin,
    wanted: Wanted,
    reach: &Reach,
) -> Result<(Vec<u8>, String), Failure> {
    let wrong = |why: String| Failure::from(format!("the dependency `{name}`: {why}"));
    match origin {
        Origin::Local => Err(wrong("it has no repository".to_owned())),
        Origin::Oci(repository) => {
            let artifact = Artifact::parse(repository, wanted, reach.is_plain()).map_err(wrong)?;
            let pulled = pulled(&artifact, reach)?;
            Ok((pulled.bytes, pulled.digest))
        }
        Origin::Repository(url) => {
            let repository = Url::parse(url).map_err(wrong)?;
            let range = match wanted {
                Wanted::Range(range) | Wanted::Tag(range) | Wanted::Digest(range) => Some(range),
            };
            let of = Listed { repository, name: name.to_owned(), range, pass_credentials: false };
            let bytes = listed(&of, reach)?;
            let digest = digest(&bytes);
            Ok((bytes, digest))
        }
    }
}
