//! The command line: stdout is the result, stderr the story.
//!
//! Exit codes: 0 fine, 1 findings, 2 usage or IO error.

mod cluster;
mod crd;
mod export;
mod get;
mod health;
mod import;
mod init;
mod lint;
mod package;
mod plan;
mod render;
mod run;

use std::process::ExitCode;

/// Installs, upgrades and locks releases of packs.
#[derive(Debug, clap::Parser)]
#[command(name = "sherpack-operator", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the operator.
    Run(Box<run::Args>),
    /// Print the CustomResourceDefinition of SherpackRelease as YAML.
    Crd(crd::Args),
    /// Write the files of a new pack, ready to be installed and changed.
    Init(init::Args),
    /// Say what is wrong with a pack, without a cluster.
    Lint(Box<lint::Args>),
    /// Write a pack directory as a deterministic archive.
    Package(package::Args),
    /// Print the manifests of a pack, the same bytes that the operator would apply.
    Render(render::Args),
    /// Print what an operation with a pack does, in its order: hooks, waves, waits.
    Plan(Box<plan::Args>),
    /// Print what a revision of a release says: values, manifest or notes.
    Get(get::Args),
    /// Judge the health of every document of a file.
    Health(health::Args),
    /// Write all revisions of a release to a file.
    Export(export::Args),
    /// Store the revisions of a file that `export` wrote.
    Import(import::Args),
}

impl Cli {
    /// Runs the chosen subcommand and gives the exit code of the process.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Run(args) => run::run(*args),
            Command::Crd(args) => crd::run(args),
            Command::Init(args) => init::run(args),
            Command::Lint(args) => lint::run(*args),
            Command::Package(args) => package::run(args),
            Command::Render(args) => render::run(args),
            Command::Plan(args) => plan::run(*args),
            Command::Get(args) => get::run(args),
            Command::Health(args) => health::run(args),
            Command::Export(args) => export::run(args),
            Command::Import(args) => import::run(args),
        }
    }
}
