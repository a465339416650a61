//! `push`: a pack as an artifact in a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::dependency;
use super::package::packed;
use super::remote::{Reach, client, failure};
use super::render::source_failure;
use crate::cli::cluster::on_runtime;
use crate::cli::output::answer::{Answer, Failure, finish, story};
use crate::pack::{Limits, Pack, read_archive, values};
use crate::source::http::Timing;
use crate::source::oci::{Content, Pushed, Reference, Wanted, push, tag_of_version};
use crate::source::{self, Error};

/// Push a pack to a registry, and print its reference with the digest.
///
/// The tag is the version of the pack, with `_` in place of `+`, unless the reference names another one. A tag that stands for
/// something else already is not moved without --force: exit code 1. The registry is shown what `docker login` has stored, as by
/// `pull`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Pack: a directory with Pack.yaml, which is packaged first, or an archive, which is pushed as it is
    pack: PathBuf,

    /// oci://HOST/PATH, and :TAG behind it for another tag than the version
    reference: String,

    /// Let the tag stand for this pack even if it stands for something else
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    reach: Reach,
}

/// Exit code 1 when the pack is none or the tag is taken, 2 when it cannot be read or pushed.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(pushed(&args))
}

fn pushed(args: &Args) -> Result<Answer, Failure> {
    let (bytes, pack) = read(&args.pack)?;
    for warning in &pack.warnings {
        story(&format!("warning: {warning}"));
    }
    let reference = Reference::parse(&args.reference)
        .map_err(|why| format!("`{}`: {why}", crate::pack::shown(&args.reference, 120)))?;
    if reference.digest.is_some() {
        return Err("a digest follows from what is pushed: leave it out of the reference".to_owned().into());
    }
    let tag = Wanted::Tag(tag_of_version(&pack.metadata.version));
    let artifact = reference.artifact(tag, args.reach.is_plain())?;
    let credentials = args.reach.login(&artifact)?;
    let content = content(&pack, bytes)?;
    let done = on_runtime(async {
        push(&client(timing()), &artifact, &credentials, &content, args.force).await.map_err(|error| {
            match error {
                // A server that is asked to take something does not say that something cannot be had.
                Error::Status { url, status, .. } => {
                    format!("{artifact} cannot be pushed: the registry answers {status} at {url}").into()
                }
                error => failure(error, Some(&artifact), &credentials),
            }
        })
    });
    let (digest, told) = match done? {
        Pushed::Stored { digest } => (digest, "pushed"),
        Pushed::Same { digest } => (digest, "the registry has it already: nothing was sent"),
        Pushed::Taken { digest } => {
            let digest = crate::pack::shown(&digest, 80);
            return Err(Failure::finding(format!(
                "{artifact} is there with another content, {digest}: raise the version in Pack.yaml, or move the tag with --force"
            )));
        }
    };
    story(told);
    Ok(format!("{artifact}@{digest}\n").into())
}

/// The answer to a request comes after all of its body, which a slow line takes time for.
fn timing() -> Timing {
    let [head, total] = [5, 20].map(Duration::from_mins);
    Timing { head, total, ..Timing::default() }
}

/// The archive, and the pack in it.
fn read(path: &Path) -> Result<(Vec<u8>, Pack), Failure> {
    let told = |(code, message)| Failure { code, message };
    if path.is_dir() {
        let (bytes, pack) = packed(path).map_err(told)?;
        dependency::check(&pack, path)?;
        return Ok((bytes, pack));
    }
    let (what, limits) = (format!("pack {}", path.display()), Limits::default());
    let bytes = source::path::archive(path, &what, &limits).map_err(source_failure).map_err(told)?;
    let pack = read_archive(&bytes, &limits).map_err(|error| Failure::finding(format!("{what}: {error}")))?;
    Ok((bytes, pack))
}

fn content(pack: &Pack, archive: Vec<u8>) -> Result<Content, Failure> {
    const FILE: &str = "Pack.yaml";
    let definition = pack.files.get(FILE).map(Vec::as_slice).unwrap_or_default();
    let definition = values::parse(definition, FILE).map_err(|error| Failure::finding(error.to_string()))?;
    Ok(Content {
        name: pack.metadata.name.clone(),
        version: pack.metadata.version.to_string(),
        description: pack.metadata.description.clone(),
        config: definition.to_string().into_bytes(),
        archive,
    })
}
