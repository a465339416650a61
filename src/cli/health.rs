use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: Args) -> ExitCode {
    ExitCode::from(2)
}
