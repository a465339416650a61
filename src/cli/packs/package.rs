use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::dependency::{self, Update};
use super::remote::Reach;
use crate::cli::output::answer::Failure;
use crate::pack::{Limits, Pack, write_archive};
use crate::source;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Directory with Pack.yaml.
    dir: PathBuf,
    /// Archive to write, such as web-1.0.0.tgz.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Run `dependency update` before.
    #[arg(short = 'u', long)]
    dependency_update: bool,
    #[command(flatten)]
    reach: Reach,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints")]
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    match package(&args) {
        Ok(digest) => {
            println!("{digest}");
            eprintln!("wrote {}", args.output.display());
            ExitCode::SUCCESS
        }
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

fn package(args: &Args) -> Result<String, (u8, String)> {
    let failed = |Failure { code, message }| (code, message);
    if args.dependency_update {
        let update = Update::of(args.dir.clone(), args.reach.clone());
        dependency::update(&update).map_err(failed)?;
    }
    let (bytes, pack) = packed(&args.dir)?;
    dependency::check(&pack, &args.dir).map_err(failed)?;
    std::fs::write(&args.output, bytes)
        .map_err(|error| (2, format!("{} cannot be written: {error}", args.output.display())))?;
    Ok(pack.digest)
}

/// The archive of a directory, and the pack in it.
pub(super) fn packed(dir: &Path) -> Result<(Vec<u8>, Pack), (u8, String)> {
    let limits = Limits::default();
    let what = format!("pack {}", dir.display());
    let files = source::path::files(dir, &what, &limits).map_err(super::render::source_failure)?;
    let findings = |error: crate::pack::Error| (1, format!("{what}: {error}"));
    let bytes = write_archive(&files).map_err(findings)?;
    let pack = crate::pack::read_archive(&bytes, &limits).map_err(findings)?;
    Ok((bytes, pack))
}
