//! `dependency`: what a pack depends on is resolved, locked and put below `charts/`.

mod list;
mod vendor;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::remote::Reach;
use super::remote::locked::{archive, locked_archive};
use crate::cli::output::answer::{Answer, Failure, Format, finish, story};
use crate::pack::lock::{Lock, Locked, Origin};
use crate::pack::{self, Dependency, Limits, Pack, Resolve, read_archive, subpacks};
use crate::source;
use crate::source::oci::Wanted;
use vendor::{Directory, Vendored};

/// Resolve, lock and vendor what a pack depends on.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Update(Update),
    Build(Of),
    List(List),
}

/// Choose the newest version of each dependency in its range, write Pack.lock and put the archives below charts/.
///
/// Archives of the same packs that Pack.lock does not name are removed. A directory below charts/ is left alone: it is the
/// dependency.
#[derive(Debug, clap::Args)]
pub(super) struct Update {
    #[command(flatten)]
    of: Of,

    /// Write Pack.lock only: the operator fetches the archives by their digests
    #[arg(long)]
    lock_only: bool,
}

/// Put the archives that Pack.lock names below charts/, and no others.
///
/// Exit code 1 when Pack.lock does not fit Pack.yaml, or an archive is another one.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Of {
    /// Directory with Pack.yaml
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    #[command(flatten)]
    reach: Reach,
}

/// Print what the pack depends on, and where it is.
#[derive(Debug, clap::Args)]
struct List {
    /// Directory with Pack.yaml
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(match args.what {
        What::Update(args) => update(&args),
        What::Build(args) => build(&args),
        What::List(List { dir, output }) => read(&dir).map(|pack| list::answer(&pack, output)),
    })
}

fn finding(error: pack::Error) -> Failure {
    Failure::finding(error.to_string())
}

fn read(dir: &Path) -> Result<Pack, Failure> {
    let what = format!("pack {}", dir.display());
    if !dir.is_dir() {
        return Err(format!("{what} is no directory").into());
    }
    source::path::read(dir, &what, &Limits::default()).map_err(|error| match error {
        source::Error::Pack { .. } => Failure::finding(error.to_string()),
        other => other.to_string().into(),
    })
}

/// Those that are taken from elsewhere, and from where.
fn elsewhere<'p>(pack: &'p Pack, directory: &Directory) -> Result<Vec<(&'p Dependency, Origin)>, Failure> {
    let mut found = Vec::new();
    for dependency in &pack.dependencies {
        if dependency.resolve == Resolve::Never || directory.has_directory_of(dependency) {
            continue;
        }
        let origin = Origin::of(&dependency.name, dependency.repository.as_deref()).map_err(finding)?;
        if origin != Origin::Local {
            found.push((dependency, origin));
        }
    }
    Ok(found)
}

pub(super) fn update(args: &Update) -> Result<Answer, Failure> {
    let Update { of: Of { dir, reach }, lock_only } = args;
    let pack = read(dir)?;
    let directory = Directory::of(dir);
    let elsewhere = elsewhere(&pack, &directory)?;
    let (mut entries, mut archives) = (Vec::new(), Vec::new());
    for (dependency, origin) in &elsewhere {
        let wanted = Wanted::Range(dependency.version.clone());
        let (bytes, digest) = archive(&dependency.name, origin, wanted, reach)?;
        let locked = Locked {
            name: dependency.name.clone(),
            alias: dependency.alias.clone(),
            version: version_in(&bytes, &dependency.name)?,
            repository: dependency.repository.clone().unwrap_or_default(),
            constraint: dependency.version.clone(),
            digest,
        };
        story(&format!("{} {} from {}", locked.name, locked.version, locked.repository));
        archives.push(Vendored { name: locked.name.clone(), version: locked.version.clone(), bytes });
        entries.push(locked);
    }
    let lock = Lock::of(entries).map_err(finding)?;
    // What was resolved has to be what the operator takes, too.
    for (dependency, _) in &elsewhere {
        lock.entry(dependency).map_err(finding)?;
    }
    if *lock_only {
        directory.tidy(&archives, true)?;
    } else {
        directory.put(&archives)?;
    }
    directory.write_lock(&lock)?;
    Ok(Answer::default())
}

fn build(args: &Of) -> Result<Answer, Failure> {
    let Of { dir, reach } = args;
    let pack = read(dir)?;
    let directory = Directory::of(dir);
    let lock = Lock::read(&pack.files).map_err(finding)?;
    let mut archives = Vec::new();
    for (dependency, origin) in elsewhere(&pack, &directory)? {
        let Some(lock) = &lock else {
            let message = format!("{} has no Pack.lock: run `dependency update`", dir.display());
            return Err(Failure::finding(message));
        };
        let locked = lock.entry(dependency).map_err(finding)?;
        let bytes = locked_archive(locked, &origin, reach)?;
        locked.check(&pack_in(&bytes, &locked.name)?).map_err(finding)?;
        story(&format!("{} {} from {}", locked.name, locked.version, locked.repository));
        archives.push(Vendored { name: locked.name.clone(), version: locked.version.clone(), bytes });
    }
    directory.put(&archives)?;
    Ok(Answer::default())
}

fn pack_in(bytes: &[u8], name: &str) -> Result<Pack, Failure> {
    read_archive(bytes, &Limits::default())
        .map_err(|error| Failure::finding(format!("the dependency `{name}`: {error}")))
}

/// The version of a pack, which has to have this name.
fn version_in(bytes: &[u8], name: &str) -> Result<String, Failure> {
    let found = pack_in(bytes, name)?.metadata;
    if found.name != name {
        let message = format!("the dependency `{name}`: the archive holds the pack `{}`", found.name);
        return Err(Failure::finding(message));
    }
    Ok(found.version.to_string())
}

/// Refuses a pack of which the operator would miss something: it is neither below `charts/` nor locked.
pub(super) fn check(pack: &Pack, dir: &Path) -> Result<(), Failure> {
    let lock = Lock::read(&pack.files).map_err(finding)?;
    for (dependency, _) in elsewhere(pack, &Directory::of(dir))? {
        if subpacks::is_vendored(dependency, pack) {
            continue;
        }
        let Some(lock) = &lock else {
            return Err(Failure::finding(format!(
                "the dependency `{}` is neither below charts/ nor in Pack.lock: run `sherpack-operator dependency update {}`",
                dependency.effective_name(),
                dir.display()
            )));
        };
        lock.entry(dependency).map_err(finding)?;
    }
    Ok(())
}

impl Update {
    /// Of a directory that another command packages.
    pub(super) fn of(dir: PathBuf, reach: Reach) -> Self {
        Self { of: Of { dir, reach }, lock_only: false }
    }
}
