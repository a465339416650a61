//! The command line: stdout is the result, stderr the story.
//!
//! Exit codes: 0 fine, 1 findings, 2 usage or IO error.

mod cluster;
mod crds;
mod diff;
mod health;
mod output;
mod packs;
mod plan;
mod records;
mod releases;
mod request;
mod run;
mod wait;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
#[cfg(test)]
pub(crate) use output::advice::way_out;

use request::Request;

/// Installs, upgrades and locks releases of packs.
#[derive(Debug, clap::Parser)]
#[command(name = "sherpack-operator", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// How this program was called, for the commands that it prints.
    #[arg(skip = PROGRAM)]
    tool: &'static str,
}

const PROGRAM: &str = "sherpack-operator";
/// The file under which kubectl finds the command line as `kubectl sherpack`.
const PLUGIN_FILE: &str = "kubectl-sherpack";
const PLUGIN: &str = "kubectl sherpack";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the operator.
    Run(Box<run::Args>),
    /// Print the CustomResourceDefinition of SherpackRelease as YAML.
    Crd(crds::print::Args),
    /// Say what changes between two files of CustomResourceDefinitions, or from what the cluster has to a file, and how
    /// dangerous that is.
    CrdDiff(crds::diff::Args),
    /// Write the files of a new pack, ready to be installed and changed.
    Init(packs::init::Args),
    /// Say what is wrong with a pack, without a cluster.
    Lint(Box<packs::lint::Args>),
    /// Write a pack directory as a deterministic archive.
    #[command(visible_alias = "dep")]
    Dependency(Box<packs::dependency::Args>),
    Package(packs::package::Args),
    Push(Box<packs::push::Args>),
    Pull(Box<packs::pull::Args>),
    Show(packs::show::Args),
    /// Print the manifests of a pack, the same bytes that the operator would apply.
    Render(packs::render::Command),
    /// Print what an operation with a pack does, in its order: hooks, waves, waits.
    Plan(Box<plan::Args>),
    List(releases::list::Args),
    Status(releases::status::Args),
    History(releases::history::Args),
    Diff(diff::Args),
    Wait(Box<wait::Args>),
    /// Print what a revision of a release says: values, manifest, notes or hooks.
    Get(releases::get::Args),
    /// Ask the operator to look at a release now: at its pack, its values and its objects.
    Reconcile(Box<request::Followed>),
    /// Stop everything that is done for a release but its deletion.
    Suspend(request::Args),
    /// Let a suspended release go on.
    Resume(Box<request::Followed>),
    /// Forget the failures of a release, so that it is tried again at once; or give up its lost records.
    Reset(Box<request::Followed>),
    Rollback(Box<request::Rollback>),
    Approve(Box<request::approve::Args>),
    /// Run the tests of a release.
    Test(Box<request::Followed>),
    /// Judge the health of every document of a file.
    Health(health::Args),
    /// Write all revisions of a release to a file.
    Export(records::export::Args),
    /// Store the revisions of a file that `export` wrote.
    Import(records::import::Args),
    Key(records::key::Args),
}

impl Cli {
    /// Reads a command line; the first argument is how the program was called: as `PLUGIN_FILE` it is a plugin of
    /// kubectl. Help, and whatever cannot be read, ends the process.
    #[must_use]
    pub fn from_arguments(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let called = arguments.first().and_then(|called| Path::new(called).file_name());
        let plugin = called.is_some_and(|called| called == PLUGIN_FILE);
        let mut command = Self::command();
        if plugin {
            command = command.name(PLUGIN_FILE).bin_name(PLUGIN);
        }
        let matches = command.clone().get_matches_from(arguments);
        let read = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit());
        Self { tool: if plugin { PLUGIN } else { PROGRAM }, ..read }
    }

    /// Runs the chosen subcommand and gives the exit code of the process.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Run(args) => run::run(*args),
            Command::Crd(args) => crds::print::run(args),
            Command::CrdDiff(args) => crds::diff::run(args),
            Command::Init(args) => packs::init::run(args),
            Command::Lint(args) => packs::lint::run(*args),
            Command::Dependency(args) => packs::dependency::run(*args),
            Command::Package(args) => packs::package::run(args),
            Command::Push(args) => packs::push::run(*args),
            Command::Pull(args) => packs::pull::run(*args),
            Command::Show(args) => packs::show::run(args),
            Command::Render(args) => packs::render::run(args),
            Command::Plan(args) => plan::run(*args),
            Command::List(args) => releases::list::run(args),
            Command::Status(args) => releases::status::run(args, self.tool),
            Command::History(args) => releases::history::run(args),
            Command::Diff(args) => diff::run(args),
            Command::Wait(args) => wait::run(*args),
            Command::Get(args) => releases::get::run(args),
            Command::Reconcile(args) => request::followed(*args, Request::Reconcile),
            Command::Suspend(args) => request::suspend(args),
            Command::Resume(args) => request::followed(*args, Request::Resume),
            Command::Reset(args) => request::followed(*args, Request::Reset),
            Command::Rollback(args) => request::rollback(*args),
            Command::Approve(args) => request::approve::run(*args),
            Command::Test(args) => request::followed(*args, Request::Test),
            Command::Health(args) => health::run(args),
            Command::Export(args) => records::export::run(args),
            Command::Import(args) => records::import::run(args),
            Command::Key(args) => records::key::run(args),
        }
    }
}
