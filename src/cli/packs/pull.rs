//! `pull`: a pack of a registry or repository, as an archive or as a directory.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::remote::Origin;
use super::remote::named::fetched;
use crate::cli::output::answer::{Answer, Failure, finish, story};
use crate::pack::{Files, Limits, Pack, read_archive, shown};

/// Write a pack of a registry or repository to NAME-VERSION.tgz, and print the path.
///
/// The archive is checked by its digest, and read as the operator would read it. Without a tag, a digest and --version it is the
/// newest version that is no pre-release. Registries are shown what `docker login` has stored in config.json of $DOCKER_CONFIG or
/// ~/.docker, or in the program that this file names.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    origin: Origin,

    /// A version, a range such as `1.x`, a tag that is neither, or a digest: sha256: and 64 hex digits
    #[arg(long = "version", value_name = "VERSION")]
    wanted: Option<String>,

    /// Directory to write to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    destination: PathBuf,

    /// Write the files of the pack to the directory NAME, and no archive
    #[arg(long)]
    untar: bool,

    /// Write over what is there. A directory is replaced when it is a pack
    #[arg(long)]
    force: bool,
}

/// Exit code 1 when there is no such pack or it is none, 2 when it cannot be had or written.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(pull(&args))
}

fn pull(args: &Args) -> Result<Answer, Failure> {
    let (bytes, what) = fetched(args.origin.place()?, args.wanted.as_deref(), &args.origin.reach)?;
    let pack = read_archive(&bytes, &Limits::default())
        .map_err(|error| Failure::finding(format!("{what}: {error}; nothing was written")))?;
    let name = &pack.metadata.name;
    let path = if args.untar {
        let path = args.destination.join(name);
        unpack(&path, &pack, args.force)?;
        path
    } else {
        let path = args.destination.join(format!("{name}-{}.tgz", pack.metadata.version));
        write(&path, &bytes, args.force)?;
        path
    };
    story(&format!("pulled {what}"));
    Ok(format!("{}\n", path.display()).into())
}

/// Writes a file as a whole or not at all. Without `force` none may be there.
pub(super) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| cannot(path, &error);
    // Only a process that may replace it writes beside it first.
    let target = if force { beside(path) } else { path.to_owned() };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&target).map_err(failed)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let written = written.and_then(|()| if force { fs::rename(&target, path) } else { Ok(()) });
    written.map_err(|error| {
        // What is half written is of no use.
        let _ = fs::remove_file(&target);
        failed(error)
    })
}

/// Writes the files of a pack to a directory, all or none.
fn unpack(path: &Path, pack: &Pack, force: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| cannot(path, &error);
    let there = path.symlink_metadata().is_ok();
    if there && !force {
        return Err(failed(ErrorKind::AlreadyExists.into()));
    }
    if there && !path.join("Pack.yaml").is_file() {
        let message = format!("{} is there and is no pack: nothing was written", path.display());
        return Err(message.into());
    }
    let new = beside(path);
    fs::create_dir(&new).map_err(failed)?;
    let written = files(&new, &pack.files).and_then(|()| replace(&new, path, there));
    written.map_err(|error| {
        let _ = fs::remove_dir_all(&new);
        failed(error)
    })
}

/// Their paths are relative and clean: the reader of archives has seen to that.
fn files(root: &Path, files: &Files) -> std::io::Result<()> {
    for (path, content) in files {
        let path = root.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(content)?;
    }
    Ok(())
}

/// Moves a directory to where another one may be, which is gone afterwards.
fn replace(new: &Path, path: &Path, there: bool) -> std::io::Result<()> {
    if !there {
        return fs::rename(new, path);
    }
    let mut old = new.as_os_str().to_owned();
    old.push(".old");
    let old = PathBuf::from(old);
    fs::rename(path, &old)?;
    if let Err(error) = fs::rename(new, path) {
        fs::rename(&old, path)?;
        return Err(error);
    }
    // A link is taken away, not what it leads to.
    if old.is_symlink() { fs::remove_file(&old) } else { fs::remove_dir_all(&old) }
}

/// A name of this process alone in the same directory.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    let name = shown(&path.display().to_string(), 300);
    let why = match error.kind() {
        ErrorKind::AlreadyExists => {
            return format!("{name} is there already: add --force to replace it").into();
        }
        _ => error,
    };
    format!("{name} cannot be written: {why}").into()
}
