//! `crd`: prints the CustomResourceDefinition, the same bytes as the file in `crds/`.

use std::io::Write;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {}

pub(in crate::cli) fn run(_args: Args) -> ExitCode {
    let written = crate::api::crd_yaml()
        .map_err(|error| error.to_string())
        .and_then(|text| std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string()));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to report to when stderr is closed as well.
            let _ = writeln!(std::io::stderr(), "sherpack-operator: cannot print the definition: {error}");
            ExitCode::from(2)
        }
    }
}
