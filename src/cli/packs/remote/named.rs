//! A pack that a command names: a directory, an archive, or what a registry, a repository or a web server has.

use std::path::Path;

use serde_json::Value;

use super::fetch::{listed, pulled};
use super::locked::completed;
use super::unread::Unread;
use super::{Place, Reach, client, failure, place, shown};
use crate::api::is_digest;
use crate::cli::cluster::on_runtime;
use crate::cli::output::answer::{Failure, story};
use crate::pack::{Limits, Pack, read_archive};
use crate::source;
use crate::source::http::{Answer, Timing, Url, Validators};
use crate::source::oci::{Reference, Wanted, is_tag};
use crate::source::repository::Listed;
use crate::source::versions;

/// Where a pack is that is no file.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Elsewhere {
    /// URL of a repository, which has the pack under the name that is given for it
    #[arg(long, value_name = "URL")]
    repository: Option<String>,

    /// Of a registry or repository: a version, a range such as `1.x`, a tag that is neither, or a digest [default: the newest
    /// version that is no pre-release]
    #[arg(long = "version", value_name = "VERSION")]
    wanted: Option<String>,

    #[command(flatten)]
    reach: Reach,
}

/// Reads the pack that an argument names, with what it depends on and these values switch on. Blocks, also on the network.
pub(in crate::cli) fn read(pack: &Path, from: &Elsewhere, user: &Value) -> Result<Pack, Unread> {
    let what = format!("pack {}", pack.display());
    completed(alone(pack, from)?, &what, user, &from.reach)
}

fn alone(pack: &Path, from: &Elsewhere) -> Result<Pack, Unread> {
    let limits = Limits::default();
    let text = pack.to_str().unwrap_or_default();
    let fetched = if from.repository.is_some() || text.starts_with("oci://") {
        let place = place(text, from.repository.as_deref(), &from.reach);
        place.and_then(|place| fetched(place, from.wanted.as_deref(), &from.reach))
    } else if from.wanted.is_some() {
        Err("--version is for packs of registries and repositories".to_owned().into())
    } else if ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
        behind(text, &from.reach)
    } else {
        let what = format!("pack {}", pack.display());
        return source::path::read(pack, &what, &limits).map_err(|error| match error {
            source::Error::Pack { what, error } => Unread::NoPack(what, error),
            other => Unread::Failed(Failure { code: 2, message: other.to_string() }),
        });
    };
    let (bytes, what) = fetched.map_err(Unread::Failed)?;
    story(&format!("pulled {what}"));
    read_archive(&bytes, &limits).map_err(|error| Unread::NoPack(what, error))
}

/// The archive at a place, and what that is called in messages. `version`: as [`Elsewhere`] has it.
pub(in crate::cli::packs) fn fetched(
    place: Place,
    version: Option<&str>,
    reach: &Reach,
) -> Result<(Vec<u8>, String), Failure> {
    match place {
        Place::Oci(reference) => of_registry(&reference, wanted(&reference, version)?, reach),
        Place::Listed(repository, name) => of_repository(repository, name, version, reach),
    }
}

fn of_registry(
    reference: &Reference,
    otherwise: Wanted,
    reach: &Reach,
) -> Result<(Vec<u8>, String), Failure> {
    let pulled = pulled(&reference.artifact(otherwise, reach.is_plain())?, reach)?;
    Ok((pulled.bytes, format!("{}@{}", reference.repository, pulled.digest)))
}

fn of_repository(
    repository: Url,
    name: String,
    range: Option<&str>,
    reach: &Reach,
) -> Result<(Vec<u8>, String), Failure> {
    if let Some(range) = range {
        versions::check(range).map_err(|why| format!("--version: {why}"))?;
    }
    let range = range.map(str::to_owned);
    let of = Listed { repository, name, range, pass_credentials: false };
    Ok((listed(&of, reach)?, of.to_string()))
}

/// The archive behind a URL.
fn behind(text: &str, reach: &Reach) -> Result<(Vec<u8>, String), Failure> {
    let url = Url::parse(text).map_err(|why| format!("`{}`: {why}", shown(text)))?;
    let credentials = reach.credentials()?;
    let answer = on_runtime(async {
        let client = client(Timing::default());
        let answer = client.get("", &url, &credentials, &Validators::default()).await;
        answer.map_err(|error| failure(error, None, &credentials))
    })?;
    match answer {
        Answer::Fetched { bytes, .. } => Ok((bytes, url.to_string())),
        // Nothing was known.
        Answer::Unchanged => Err(format!("{url} was not sent").into()),
    }
}

/// What a reference without tag and digest stands for.
fn wanted(reference: &Reference, version: Option<&str>) -> Result<Wanted, Failure> {
    let Some(version) = version else { return Ok(Wanted::Range("*".to_owned())) };
    if reference.tag.is_some() || reference.digest.is_some() {
        return Err("the reference names a tag or a digest already: leave out --version".to_owned().into());
    }
    let digest = version.strip_prefix('@').unwrap_or(version);
    match versions::check(version) {
        _ if is_digest(digest) => Ok(Wanted::Digest(digest.to_owned())),
        Ok(()) => Ok(Wanted::Range(version.to_owned())),
        Err(_) if is_tag(version) => Ok(Wanted::Tag(version.to_owned())),
        Err(why) => Err(format!("--version: {why}; or name a tag or a digest").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_range_a_tag_or_a_digest() {
        let bare = Reference::parse("oci://r/a").unwrap();
        let digest = format!("sha256:{}", "0".repeat(64));
        for (version, expected) in [
            ("1.x", Wanted::Range("1.x".to_owned())),
            ("1.0.0", Wanted::Range("1.0.0".to_owned())),
            ("latest", Wanted::Tag("latest".to_owned())),
            ("1.0.0_a", Wanted::Tag("1.0.0_a".to_owned())),
            (&digest, Wanted::Digest(digest.clone())),
            (&format!("@{digest}"), Wanted::Digest(digest.clone())),
        ] {
            assert_eq!(wanted(&bare, Some(version)), Ok(expected), "{version}");
        }
        assert_eq!(wanted(&bare, None), Ok(Wanted::Range("*".to_owned())));
        assert_eq!(wanted(&bare, Some("not a tag")).unwrap_err().code, 2);
        let tagged = Reference::parse("oci://r/a:1").unwrap();
        assert!(wanted(&tagged, Some("1")).unwrap_err().message.contains("leave out"));
    }
}
